from __future__ import annotations

import threading

import pytest
import torch

from domainwise import turns


def test_a_gpu_is_woken_once_and_beside_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    woken, here = [], threading.Event()

    def wake(device: str) -> None:
        assert here.wait(10)  # that somebody else is at work
        woken.append((device, threading.current_thread() is threading.main_thread()))

    monkeypatch.setattr(turns, "_wake", wake)
    monkeypatch.setattr(turns, "_awake", set())
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    for device in ("cpu", "cuda", "cuda", "cuda:1"):
        with turns.waking(device):
            here.set()
        here.clear()
    assert woken == [("cuda:3", False), ("cuda:1", False)]


def test_a_gpu_that_does_not_wake_is_left_to_whoever_needs_it() -> None:
    turns._wake("cuda:99")
