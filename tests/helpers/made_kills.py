"""Runs trials in processes that are killed; a program of its own, so that torch is imported once for all of them.

    python made_kills.py FOLDER SEED KILLS NAME...

leaves FOLDER/NAME/whole, a trial undisturbed, and FOLDER/NAME/killed, the same trial after KILLS kills; prints a line
for each: what the kills hit, and the update from which the trial went on to its end.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import safetensors.torch
import torch
from made_data import stripes

from domainwise.algorithms import parse
from domainwise.experiment import records
from domainwise.experiment.settings import resolve
from domainwise.experiment.trial import Trial
from domainwise.training import checkpoint_files as files, run_trial as executing
from domainwise.training.plan import plan
from domainwise.training.run_options import RunOptions

DATA = stripes()
STEPS = 30
TRIALS = {
    "arith": ("arith", "ema(decay=0.9)"),
    "irm": ("irm(anneal=15)", "none"),
    "fishr": ("fishr(anneal=15)", "none"),
    "fish": ("fish(inner='adam')", "none"),
    "mldg": ("mldg", "swad(converge=2, tolerance=3),ma(start=7)"),
}
# What a kill can hit: any moment, the bytes of a checkpoint, the time between its files, its folder and its name, the
# bytes of a record, and the moments around the result.
KINDS = ("moment", "tensors", "sync", "record", "result")


def trial(name: str) -> Trial:
    text, average = TRIALS[name]
    given = {"steps": STEPS, "evaluate_every": 6, "batch": 8, "dropout": 0.1, "augment": "flip"}
    given |= {"validation": "augmented"}
    (one,) = plan(DATA, parse(text), [("c",)], [0], resolve(given=given), average)
    return one


def run(one: Trial, folder: Path) -> list[int]:
    """To its end; where it went on from is returned."""
    heard: list[str] = []
    result = executing.execute(
        one,
        DATA,
        folder,
        RunOptions(snapshots=1, checkpoint_every=5),
        watch=lambda _, event: heard.append(event.get("note", "")),
    )
    assert result["status"] == "finished", result
    return [int(note.split()[-1]) for note in heard if note.startswith("resumes at step")]


def kill(*_: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


def at_call(number: int, function: Callable, instead: Callable = kill) -> Callable:
    """The same function, until its ``number``-th call does something else."""
    calls = iter(range(1, sys.maxsize))
    return lambda *given: instead(*given) if next(calls) == number else function(*given)


def half_of_the_tensors(tensors: object, path: Path) -> None:
    whole = safetensors.torch.save(tensors)
    path.write_bytes(whole[: len(whole) // 2])
    kill()


def half_of_a_record(path: Path, record: records.Record) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(records.finite(record))[:20])
        file.flush()
        kill()


def arm(kind: str, dice: random.Random) -> None:
    """Have this process killed where it is told to be."""
    if kind == "tensors":
        safetensors.torch.save_file = at_call(dice.randint(1, 3), safetensors.torch.save_file, half_of_the_tensors)
    elif kind == "sync":  # four of them to a checkpoint
        files.sync = at_call(dice.randint(1, 12), files.sync)
    elif kind == "record":
        records.append = at_call(dice.randint(1, 5), records.append, half_of_a_record)
    elif kind == "result":
        if dice.random() < 0.5:
            executing.publish_once = kill
        else:
            records.Journal.close = kill


def child(work: Callable[[], object]) -> int:
    """A process that does one thing; its id."""
    made = os.fork()
    if made:
        return made
    try:
        work()
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def attempt(one: Trial, folder: Path, kind: str, dice: random.Random, seconds: float) -> bool:
    """Whether it was killed before it came to its end."""

    def work() -> None:
        arm(kind, dice)
        run(one, folder)

    made = child(work)
    if kind == "moment":
        time.sleep(dice.uniform(0, seconds))
        os.kill(made, signal.SIGKILL)
    _, status = os.waitpid(made, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
    return os.WIFSIGNALED(status)


def campaign(folder: Path, seed: int, kills: int, name: str) -> dict[str, object]:
    dice, one, hit, started = random.Random(f"{seed} {name}"), trial(name), list[str](), time.perf_counter()
    run(one, folder / "whole")
    seconds = time.perf_counter() - started
    while len(hit) < kills:
        kind = KINDS[(seed + list(TRIALS).index(name) + len(hit)) % len(KINDS)]
        if attempt(one, folder / "killed", kind, dice, seconds):
            hit.append(kind)
        else:
            shutil.rmtree(folder / "killed")
    return {"name": name, "hit": hit, "resumed": run(one, folder / "killed")}


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[4:]:
        print(json.dumps(campaign(Path(sys.argv[1]) / name, int(sys.argv[2]), int(sys.argv[3]), name)), flush=True)
