from __future__ import annotations

import re
import time
from types import SimpleNamespace

import pytest

from domainwise.sweeps.progress import Lines

FINISHED = {"result": {"status": "finished", "seconds": 1.0, "selected": {"target": 0.7, "validation": 0.9}}}


def trial(seed: int) -> SimpleNamespace:
    return SimpleNamespace(id=str(seed), steps=100, label="erm", algorithm="erm", targets=("a",), seed=seed, draw=0)


def test_the_time_left_counts_what_is_done_of_trials_side_by_side(monkeypatch, capsys: pytest.CaptureFixture) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    lines = Lines(8)
    for seed in range(4):
        lines.watch(trial(seed), {"step": 90})
    now[0] = 100.0
    lines.watch(trial(0), FINISHED)  # one whole and three times nine tenths: 3.7 of 8 in 100 seconds
    (left,) = re.findall(r"about (.*) left", capsys.readouterr().err)
    assert left == "116 s"
