"""A small trial that is killed, stopped or damaged on its way, and what it leaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from made_data import stripes

from domainwise.algorithms import parse
from domainwise.data.domains import Domains
from domainwise.experiment import records
from domainwise.experiment.settings import resolve
from domainwise.experiment.trial import Trial
from domainwise.training.plan import plan
from domainwise.training.run_options import RunOptions
from domainwise.training.run_trial import execute

DATA = stripes()


def trial(text: str = "arith", *, data: Domains = DATA, seed: int = 0, average: str = "none", **given: object) -> Trial:
    settings = resolve(given={"steps": 20, "evaluate_every": 6, "batch": 8, "dropout": 0.1, **given})
    (one,) = plan(data, parse(text), [("c",)], [seed], settings, average)
    return one


def run(
    one: Trial,
    folder: Path,
    *,
    data: Domains = DATA,
    at: int = -1,
    then: Callable[[], object] = list,
    **options: Any,
) -> list[str]:
    """Execute a trial; after update ``at`` something happens. Returns what was said."""
    said: list[str] = []

    def watch(_: Trial, event: dict[str, Any]) -> None:
        if "note" in event:
            said.append(event["note"])
        elif event.get("step") == at and "validation" not in event:
            then()

    execute(one, data, folder, RunOptions(**{"snapshots": 1, "checkpoint_every": 5, **options}), watch=watch)
    return said


class Killed(BaseException):
    pass


def die() -> None:
    raise Killed


def remains(folder: Path) -> dict[str, object]:
    """All that a trial leaves, without times."""
    found: dict[str, object] = {
        str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
    found["records.jsonl"] = [{**line, "seconds": 0} for line in records.read(folder / "records.jsonl")]
    result = {**json.loads((folder / "result.json").read_text()), "seconds": 0, "checksum": ""}
    result["files"].pop("records.jsonl")  # the hash of what has times in it
    found["result.json"] = result
    return found
