from __future__ import annotations

import os
import subprocess
import sys

import pytest

from domainwise import terminal as module
from domainwise.terminal import pace


def test_long_work_says_now_and_then_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for seconds, expected in ((0.0, ["points: 1 of 2, about 0 s left"]), (60.0, [])):
        monkeypatch.setattr(module, "SECONDS", seconds)
        with pace("points", quiet=False) as tick:
            tick(1, 2)
            tick(2, 2)
        assert capsys.readouterr().err.splitlines() == expected


def test_quiet_work_says_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.0)
    with pace("points", quiet=True) as tick:
        tick(1, 2)
    assert capsys.readouterr().err == ""


WORK = """
from domainwise.terminal import pace
with pace("points", quiet=False) as tick:
    tick(1, 2)
    print("x" * 500)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_what_is_printed_under_a_bar_goes_where_standard_output_goes() -> None:
    import pty

    terminal, there = pty.openpty()
    try:
        done = subprocess.run([sys.executable, "-c", WORK], stdout=subprocess.PIPE, stderr=there, check=True)
    finally:
        os.close(there)
        os.close(terminal)
    assert done.stdout.decode() == "x" * 500 + "\n"
