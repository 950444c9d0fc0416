"""Options of a run reach the loop by their name alone, and change no number."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_data import stripes

import domainwise as dw

DATA = stripes()


def heard(output: Path, **options: object) -> tuple[list[int], object]:
    """The steps that a watcher heard of, and the numbers of the trial."""
    steps: list[int] = []

    def watch(trial, event) -> None:
        if "step" in event and "validation" not in event:
            steps.append(event["step"])

    asked = {"targets": "c", "seeds": 1, "steps": 12, "evaluate_every": 6, "output": output}
    results = dw.compare(DATA, "erm", watch=watch, **asked, **options)
    return steps, results.outcomes[0].result["selected"]


def test_how_often_losses_are_looked_at_changes_no_number(tmp_path: Path) -> None:
    often, numbers = heard(tmp_path / "often", log_every=2)
    seldom, same = heard(tmp_path / "seldom", log_every=100)
    assert numbers == same
    assert len(often) > len(seldom)
    with pytest.raises(dw.InputError, match="log_every is a number of updates, so 1 or more, got 0"):
        heard(tmp_path / "never", log_every=0)
    with pytest.raises(dw.InputError, match="log_every must be a whole number, got '2'"):
        heard(tmp_path / "never", log_every="2")


def test_the_command_line_has_it_too(domainwise) -> None:
    asked = ("--data", "digits", "--algorithms", "erm", "--targets", "75", "--seeds", 1, "--steps", 3)
    assert domainwise("compare", *asked, "--processes", 1, "--log-every", 1, "-q", "-o", "out")[0] == 0
