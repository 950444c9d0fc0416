"""Odd values for every option of every command, found by looking at the commands: a new option needs no new line."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
import typer
from made_data import image_folder
from made_domainbed import write_sweep

import domainwise as dw
from domainwise.__main__ import main
from domainwise.cli import app
from domainwise.experiment.settings import Settings

NUMBERS = ["nan", "inf", "-1", "0", "1.5", "1e400", "1" + 20 * "0", 5000 * "9"]
TEXTS = ["", " ", ",", "+", "(", 300 * "(", "a\nb", "\x1b[31m", "日本", "\udc80", "%s{0}", "--", "a\0b", 5000 * "x"]
WORDS = [
    "None",
    "True",
    "all,all",
    "a+b",
    "=",
    "a=b",
    "[1]",
    "erm(lr=nan)",
    "erm(lr=1e400)",
    "erm(lr=1,lr=2)",
    "ema(decay=2)",
]
DEVICES = ["cuda", "cuda:7", "cpu:3", "gpu", "mps", "cuda:-1"]
PLACES = ["missing", "missing.py:f", "broken.py:f", "net.py:g", "file.txt", "file.txt/below", ".", "photos", "results",
          "model", "sweep", "pacs=photos", "pacs=", "manifest.csv", "empty", "model/config.json"]  # fmt: skip
ODD = [*NUMBERS, *TEXTS, *WORDS, *DEVICES, *PLACES]
REFUSED = ["", "file.txt/below", "a\0b", 5000 * "x"]  # for a command whose every success takes long

# What a command is given beside the odd value, by the name of the parameter, so that it ends soon.
USUAL: dict[str, str] = {
    "data": "digits", "algorithms": "erm", "algorithm": "erm", "target": "75", "targets": "75", "seeds": "1",
    "steps": "2", "batch": "4", "processes": "1", "threads": "1", "images": "20", "points": "3", "updates": "1",
    "network": "small", "size": "16", "draws": "1", "domains": "2", "quiet": "", "output": "made", "logdir": "made",
    "picture": "made.png", "what": "table1", "name": "quick", "cache": "cache",
}  # fmt: skip
OF_COMMAND: dict[str, dict[str, str]] = {
    "predict": {"model": "model", "images": "photos", "output": "made.csv"},
    "surface": {"run": "model", "output": "made.svg", "domains": "0,15,30"},
    "balance": {"run": "model", "algorithms": "", "output": ""},
    "show": {"run": "results"},
    "report": {"folder": "results", "output": "made.html"},
    "status": {"folder": "results"},
    "tensorboard": {"folder": "results"},
    "export-domainbed": {"folder": "results"},
    "import-domainbed": {"folders": "sweep"},
    "inspect": {"data": "photos"},
    "algorithms": {"name": "erm"},
    "cache clear": {"name": "photos"},
    "presets show": {"network": ""},
    "bench": {"size": "16"},
}
LONG = ("demo",)


@dataclass(frozen=True)
class Command:
    name: str
    parameters: tuple[Any, ...]

    def line(self, odd: dict[str, str]) -> list[str]:
        """The command with usual values, and with the odd ones instead or beside."""
        usual = {**USUAL, **OF_COMMAND.get(self.name, {})}
        options: list[str] = []
        places: list[str] = []
        for parameter in self.parameters:
            value = odd.get(parameter.name, usual.get(parameter.name, ""))
            if parameter.name not in odd and not value and parameter.name != "quiet":
                continue
            if parameter.param_type_name == "argument":
                places.append(value)
            elif parameter.is_flag:
                options.append(parameter.opts[-1])
            else:
                options.append(f"{parameter.opts[-1]}={value}")
        return [*self.name.split(), *options, "--", *places]


def commands(group: Any = None, above: str = "") -> Iterator[Command]:
    group = group or typer.main.get_command(app)
    for name, inside in group.commands.items():
        if hasattr(inside, "commands"):
            yield from commands(inside, f"{name} ")
        else:
            yield Command(above + name, tuple(p for p in inside.params if p.name != "help"))


def values(command: Command, parameter: Any) -> list[str]:
    if command.name in LONG:
        return REFUSED
    if parameter.name == "set":
        known = [f.name for f in fields(Settings) if f.name not in ("hyperparameters", "origins")]
        named = [
            f"{name}={value}"
            for name in (*known, "inner_lr", "seed")
            for value in (*NUMBERS, *TEXTS[:3], *WORDS[:2], "[1]")
        ]
        return [*ODD, *named]
    return [""] if parameter.param_type_name == "option" and parameter.is_flag else ODD


def sandbox(root: Path) -> Path:
    """A folder with a little of everything that commands work on."""
    here = root / "here"
    here.mkdir(parents=True)
    image_folder(here / "photos", ("art", "photo", "sketch"), count=4)
    digits = dw.digits()
    dw.fit(digits, "erm", steps=4, batch=4, snapshots=2, output=here / "model")
    dw.compare(digits, "erm,arith", targets="75", seeds=1, steps=4, batch=4, output=here / "results").report(
        here / "results" / "report.html"
    )
    write_sweep(here / "sweep", pairs=False)
    (here / "empty").mkdir()
    (here / "file.txt").write_text("mine", encoding="utf-8")
    (here / "broken.py").write_text("1 / 0", encoding="utf-8")
    (here / "net.py").write_text("def f(channels, classes):\n    return 3\n", encoding="utf-8")
    (here / "manifest.csv").write_text("path,domain,class\nphotos/art/cat/0.png,art,cat\n", encoding="utf-8")
    return here


KEPT = ("photos", "model", "results", "sweep", "empty", "file.txt", "broken.py", "net.py", "manifest.csv")


@dataclass(frozen=True)
class End:
    code: int
    out: str
    err: str
    seconds: float

    @property
    def trouble(self) -> str:
        """What is wrong with it, if anything is."""
        if self.code not in (0, 1, 2):
            return f"exit code {self.code}"
        if "Traceback" in self.err + self.out:
            return self.err.strip().splitlines()[-1]
        if self.code and not (self.err.strip() or self.out.strip()):
            return "it ended without a word"
        if "not enough memory" in self.err or ("-v shows where" in self.err and "File name too long" not in self.err):
            return self.err.strip()
        return ""


def ended(line: list[str]) -> End:
    """The command in this process, as from a shell."""
    out, err, start = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO(), time.perf_counter()
    before = sys.argv
    sys.argv = ["domainwise", *line]
    code = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("default")
            main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        code = 3
        err.write(traceback.format_exc())
    finally:
        sys.argv = before
        torch.set_num_threads(1)
    out.flush()
    said = out.buffer.getvalue().decode("utf-8", "replace")  # type: ignore[attr-defined]
    return End(code, said, err.getvalue(), time.perf_counter() - start)


class Sandbox:
    """Where commands run: what they make is removed again, and what they make elsewhere is noticed."""

    def __init__(self, root: Path) -> None:
        self.root, self.here, self.spare = root, sandbox(root / "work"), root / "spare"
        shutil.copytree(self.here, self.spare)
        self.around = self._around()

    def _around(self) -> set[str]:
        kept = [self.root / "work" / "here", self.root / "cache", self.root / "temporary"]
        return {str(p) for p in self.root.rglob("*") if not any(p.is_relative_to(one) for one in kept)}

    def run(self, line: list[str]) -> End:
        before = Path.cwd()
        os.chdir(self.here)
        try:
            return ended(line)
        finally:
            os.chdir(before)

    def strays(self) -> set[str]:
        """Files outside the folder that commands run in."""
        return self._around() - self.around

    def tidy(self) -> None:
        for path in list(self.here.iterdir()):
            if path.name not in KEPT:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def renew(self) -> None:
        shutil.rmtree(self.here)
        shutil.copytree(self.spare, self.here)
