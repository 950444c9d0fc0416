"""Files that are damaged in every way, and what every command that reads them then says."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

from PIL import Image

from domainwise.__main__ import main
from domainwise.sweeps.claims import machine

COMPARE = (
    "compare --data digits --algorithms erm --targets 75 --seeds 2 --steps 4 --evaluate-every 2 "
    "--snapshots 1 --device cpu --processes 1 --threads 1 --quiet -o out"
)
LOOKING = {
    "status": "status out",
    "report": "report out",
    "report --select": "report out --select oracle",
    "report --data": "report out --data digits",
    "show": "show out",
    "show TRIAL": "show out/trials/{id}",
    "export-domainbed": "export-domainbed out -o exported",
    "predict": "predict out/trials/{id} image.png --device cpu --threads 1",
    "fit --from": "fit --from out -o fitted --device cpu --threads 1 --quiet",
    "check": "check out",
}
INSIDE = {
    "surface": "surface out/trials/{id} --data digits -o surface.svg --points 3 --steps 2 --images 20",
    "balance": "balance out --data digits --steps 2 --images 20 --along",
    "tensorboard": "tensorboard out --logdir logs",
    "fit --from": "fit --from out --device cpu --threads 1 --quiet -o fitted",
}
AGAIN = {"compare": COMPARE}
RETRIED = {"compare --retry-failed": f"{COMPARE} --retry-failed", "compare, retried": COMPARE}
REPAIRED = {
    "check --repair": "check out --repair",
    "compare, repaired": COMPARE,
    "predict, repaired": LOOKING["predict"],
    "check, repaired": "check out",
}
FIT = "fit --from results --device cpu --threads 1 --quiet -o out"
OF_A_MODEL = {"predict": "predict out image.png --device cpu --threads 1", "show": "show out", "check": "check out"}
FIT_REPAIRED = {
    "check --repair": "check out --repair",
    "fit, repaired": FIT,
    "predict, repaired": OF_A_MODEL["predict"],
    "check, repaired": "check out",
}

SAID = re.compile(
    "damaged|has changed|is missing|cannot be read|without a result|no saved model|no finished trials|is no trial|"
    "holds no model|not come to an end|no trials that came to an end|no trial has come to an end|"
    "have kept no|left behind|waiting  [1-9]"
)


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str
    trace: str = ""


def ask(words: str) -> Answer:
    """A command in this process, in the current folder."""
    out, err, before = StringIO(), StringIO(), sys.argv
    sys.argv = ["domainwise", *words.split()]
    code, trace = 0, ""
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        trace = traceback.format_exc()
    finally:
        sys.argv = before
    return Answer(code, out.getvalue(), err.getvalue(), trace)


def make(measured: bool) -> str:
    """Two trials with all the files that a trial can have, ``measured`` ones too; the id of the first."""
    Image.effect_noise((16, 16), 90).save("image.png")
    asked = [ask(COMPARE)]
    first = sorted(path.name for path in Path("out/trials").iterdir())[0]
    if measured:
        asked.append(ask("balance out --data digits --steps 2 --images 20 --keep --quiet"))
        asked.append(ask(INSIDE["surface"].format(id=first) + " --keep"))
    assert not any(one.code or one.trace for one in asked), asked
    Path("out/claims").mkdir(exist_ok=True)
    claim = {"token": "t", "machine": machine(), "process": 2**22 + 1, "step": 1, "steps": 4}  # nobody has that number
    Path("out/claims", first).write_text(json.dumps(claim))
    return first


def make_model() -> str:
    """A model that a comparison recommended, with a card."""
    Image.effect_noise((16, 16), 90).save("image.png")
    asked = [ask(COMPARE.replace("75", "0,75").replace("-o out", "-o results")), ask(FIT)]
    assert not any(one.code or one.trace for one in asked), asked
    return ""


def flip(content: bytes) -> bytes:
    """A bit of a digit where there are some, as the worst that can happen to a file of numbers."""
    digits = [at for at, byte in enumerate(content) if 48 <= byte < 58] or [len(content) // 2]
    if not content:
        return b"1"
    at = digits[len(digits) // 2]
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


WAYS: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-3]),
    "flipped": lambda path: path.write_bytes(flip(path.read_bytes())),
    "a list": lambda path: path.write_text("[1, 2]\n"),
    "null": lambda path: path.write_text("null\n"),
    "a text": lambda path: path.write_text('"text"\n'),
    "an empty object": lambda path: path.write_text("{}\n"),
    "gone": Path.unlink,
    "a folder": folder_instead,
}
if hasattr(os, "geteuid") and os.geteuid() != 0:
    WAYS["unreadable"] = lambda path: path.chmod(0)


def files(id: str) -> list[str]:
    """Those of the folder and of one of its trials; the page is read by nobody."""
    names = [path.relative_to("out").as_posix() for path in Path("out").rglob("*") if path.is_file()]
    return sorted(name for name in names if name != "report.html" and (id in name or "trials/" not in name))


@dataclass
class Campaign:
    """Every damage to one made folder, and what was wrong with the answers."""

    looking: dict[str, str]
    retried: dict[str, str] = field(default_factory=lambda: RETRIED)
    repaired: dict[str, str] = field(default_factory=lambda: REPAIRED)
    asked: int = 0

    def __post_init__(self) -> None:
        fitted = FIT in self.repaired.values()
        self.id = make_model() if fitted else make(measured="surface" in self.looking)
        self.looking = {**self.looking, **({"fit": FIT} if fitted else AGAIN)}
        shutil.copytree("out", "whole")
        self.before = {name: self._ask(words) for name, words in (self.looking | self.retried | self.repaired).items()}

    def _ask(self, words: str) -> Answer:
        shutil.rmtree("exported", ignore_errors=True)
        shutil.rmtree("logs", ignore_errors=True)
        shutil.rmtree("fitted", ignore_errors=True)
        shutil.rmtree("fitted", ignore_errors=True)
        self.asked += 1
        return ask(words.format(id=self.id))

    def _damaged(self, file: str, way: str) -> None:
        shutil.rmtree("out")
        shutil.copytree("whole", "out")
        WAYS[way](Path("out", file))

    def damage(self, file: str, way: str) -> list[str]:
        """What is wrong with how the commands take it: a traceback, other numbers without a word, or still damaged."""
        found = []
        for commands in (self.looking | self.retried, self.repaired):
            self._damaged(file, way)
            found += [(name, self._ask(words)) for name, words in commands.items()]
        return [f"{file} {way}: {name}: {wrong}" for name, answer in found if (wrong := self._wrong(name, answer))]

    def _wrong(self, name: str, answer: Answer) -> str:
        before = self.before[name]
        if answer.trace:
            return answer.trace[-1500:]
        if answer.code not in (0, 1, 2):
            return f"exit code {answer.code}"
        mended = name in ("compare, retried", "compare, repaired", "fit, repaired", "predict, repaired")
        if (mended and answer.out != before.out) or (name == "check, repaired" and answer.code):
            return f"not mended: {answer.out}{answer.err}"
        told = name == "check --repair"  # says what it did, and before there was less to do
        if answer.out != before.out and not told and not SAID.search(answer.out + answer.err):
            return f"without a word: {answer.out}{answer.err} instead of {before.out}"
        return ""
