from __future__ import annotations

import threading

import pytest
import torch

from domainwise.acceleration import warmup as waking


@pytest.fixture(autouse=True)
def _asleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "_awake", set())
    monkeypatch.setattr(waking, "on_device", lambda device: torch.device("cpu"))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)


def test_a_gpu_is_woken_once_and_beside_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, bool]] = []
    here = threading.Event()

    def work(what: str) -> None:
        assert here.wait(10)  # that somebody else is at work
        done.append((what, threading.current_thread() is threading.main_thread()))

    monkeypatch.setattr(waking, "_convolve", work)
    monkeypatch.setattr(waking, "_hash_triton", lambda: work("triton"))
    for device, compiles in (("cpu", True), ("cuda", True), ("cuda", True), ("cuda:3", True), ("cuda:1", False)):
        with waking.waking(device, compiles=compiles, bring=lambda: work("data")):
            here.set()
        here.clear()
    assert sorted(done) == [("cuda:1", False), ("cuda:3", False), ("data", False), ("data", False), ("triton", False)]


def test_what_goes_wrong_in_the_background_is_left_to_whoever_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(waking, "_convolve", lambda device: full())
    monkeypatch.setattr(waking, "import_module", lambda name: object())  # a Triton that works in another way
    heard: list[object] = []
    monkeypatch.setattr(threading, "excepthook", heard.append)
    with waking.waking("cuda", compiles=True, bring=full):
        pass
    assert not heard
