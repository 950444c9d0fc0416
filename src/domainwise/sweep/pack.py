"""Several trials on one device at once: while one waits for its small kernels, another has work for it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import torch

from domainwise.capture import Fast, arithmetic_units
from domainwise.checkpoint import listening
from domainwise.data.domains import Domains
from domainwise.errors import InputError
from domainwise.sweep.execute import Watch
from domainwise.sweep.work import work
from domainwise.trial import Trial


def run_packed(
    trials: Sequence[Trial],
    data: Domains,
    folder: Path,
    *,
    at_once: int = 4,
    device: str = "cuda",
    fast: Fast = Fast(),  # noqa: B008  frozen
    keep: bool = True,
    watch: Watch = lambda trial, event: None,
) -> None:
    """Run trials in threads of this process, ``at_once`` of them side by side, each on a stream of its own.

    Each comes out as it would alone, and what goes wrong in one ends only that one. Trials that draw from torch's
    global generator while they train (dropout) would disturb each other and are refused.
    """
    if any(trial.dropout for trial in trials) and at_once > 1:
        raise InputError(
            "trials with dropout cannot share a process: their random numbers would mix; run them one by one"
        )
    if len({trial.precision for trial in trials}) > 1:
        raise InputError("trials of different precision cannot share a process, which has one setting for all")
    waiting, lock = deque(trials), threading.Lock()

    def tell(trial: Trial, event: dict[str, object]) -> None:
        with lock:
            watch(trial, event)

    def in_turn() -> None:
        on_gpu = torch.device(device).type == "cuda"
        stream = torch.cuda.Stream(device) if on_gpu else None  # type: ignore[no-untyped-call]
        with torch.cuda.stream(stream) if on_gpu else nullcontext():
            while True:
                with lock:
                    if not waiting:
                        return
                    trial = waiting.popleft()
                tell(trial, work(trial, data, folder, device=device, fast=fast, keep=keep, watch=tell))

    threads = [threading.Thread(target=in_turn, daemon=True) for _ in range(min(at_once, len(trials)))]
    with listening(), arithmetic_units(trials[0].precision) if trials else nullcontext():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
