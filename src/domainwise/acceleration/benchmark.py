"""Measure how fast this machine trains: time per update, alone and with its input, and memory."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from domainwise.acceleration.cuda_graph import Fast, prepare, updater
from domainwise.acceleration.shared_device import arithmetic_units, on_device
from domainwise.algorithms import Algorithm, Spec
from domainwise.data.batches.feed import EVALUATION_BATCH, Feed
from domainwise.data.batches.inputs import Inputs, Part
from domainwise.data.domains import Domain
from domainwise.networks.network import build


@dataclass(frozen=True)
class Setup:
    """Describe what is measured; the defaults are the shapes of PACS."""

    network: str = "resnet50"
    size: int = 224
    stored: int = 227
    augment: str = "domainbed"
    domains: int = 3
    batch: int = 32
    classes: int = 7
    device: str = "cpu"
    precision: str = "fp32"
    fast: Fast = Fast()
    updates: int = 30


@dataclass(frozen=True)
class Timing:
    """Hold the times of one algorithm."""

    algorithm: str
    update_ms: float  # with its input already there
    all_in_ms: float  # drawing, augmenting and updating
    images_per_second: float  # all-in
    evaluation_per_second: float  # images
    memory_gib: float | None  # the most that training took, on a GPU
    start_s: float  # to the first update that counts: compilation and capture
    note: str = ""


WARM = 5  # updates before the first that counts
Tick = Callable[[int, int], None]


def measure(spec: Spec, setup: Setup, tick: Tick = lambda done, total: None) -> Timing:
    """Time an algorithm; ``tick`` is told how many updates and evaluations are done, and of how many."""
    with torch.random.fork_rng(devices=[]), on_device(setup.device), arithmetic_units(setup.precision):
        torch.manual_seed(0)
        notes: list[str] = []
        algorithm, update = prepared(spec, setup, notes)
        feed = feed_of(setup)
        batches = feed.draw(algorithm.fresh)
        steps = _Steps(WARM + 3 * (_warming(setup) + setup.updates), tick)
        with _clock(setup.device) as start:
            for _ in range(WARM):
                steps(lambda: update(batches))
        alone = _ms(lambda: update(batches), setup, steps)
        memory = torch.cuda.max_memory_allocated() / 2**30 if setup.device != "cpu" else None
        all_in = _ms(lambda: update(feed.draw(algorithm.fresh)), setup, steps)
        x = batches[0][0] if algorithm.fresh == 1 else batches[0][0][0]
        full = torch.cat([x] * (EVALUATION_BATCH // len(x) + 1))[:EVALUATION_BATCH]  # type: ignore[list-item]
        evaluation = _ms(lambda: algorithm.predict(full), setup, steps)
    images = setup.domains * setup.batch * algorithm.fresh
    return Timing(
        spec.label,
        alone,
        all_in,
        1e3 * images / all_in,
        1e3 * EVALUATION_BATCH / evaluation,
        memory,
        start[0],
        "; ".join(notes),
    )


def table(timings: Sequence[Timing]) -> list[dict[str, Any]]:
    """Return the timings as rows of a table."""
    return [asdict(timing) for timing in timings]


def prepared(spec: Spec, setup: Setup, notes: list[str]) -> tuple[Algorithm, Callable[[Any], Any]]:
    """Return an algorithm and what updates it, which says into ``notes`` what it does without."""
    algorithm = spec.create({"lr": 5e-5})
    net = build(setup.network, (setup.size, setup.size, 3), setup.classes, extra_channels=algorithm.extra_channels)
    net.to(setup.device)
    if setup.device != "cpu":
        gc.collect()  # of the algorithm before: a network and how its modules compute hold each other
        torch.cuda.reset_peak_memory_stats()
    prepare(net, precision=setup.precision, fast=setup.fast, full=EVALUATION_BATCH)
    return algorithm, updater(algorithm.setup(net, seed=0), capture=setup.fast.capture, say=notes.append)


def feed_of(setup: Setup) -> Feed:
    """Return a feed of noise in the shapes to be measured."""
    random, n = np.random.RandomState(0), 4 * setup.batch
    shape = (n, setup.stored, setup.stored, 3)
    made = [
        Domain(str(i), random.randint(0, 256, shape).astype(np.uint8), random.randint(0, setup.classes, n))
        for i in range(setup.domains)
    ]
    parts = [Part(domain, np.arange(n), setup.device, on_host=setup.device == "cpu") for domain in made]
    inputs = Inputs(setup.augment, setup.size, compiler=setup.fast.compiler(setup.device))
    return Feed(parts, inputs, setup.batch, 0)


class _Steps:
    """Count calls, and tell of them."""

    def __init__(self, total: int, tick: Tick) -> None:
        self.done, self.total, self.tick = 0, total, tick

    def __call__(self, call: Callable[[], Any]) -> None:
        call()
        self.done += 1
        self.tick(self.done, self.total)


def _warming(setup: Setup) -> int:
    return 3 if setup.device == "cpu" else setup.updates  # pinned memory for all that a host is ahead


def _ms(call: Callable[[], Any], setup: Setup, steps: _Steps) -> float:
    for _ in range(_warming(setup)):
        steps(call)
    with _clock(setup.device) as elapsed:
        for _ in range(setup.updates):
            steps(call)
    return 1e3 * elapsed[0] / setup.updates


@contextmanager
def _clock(device: str) -> Iterator[list[float]]:
    """Measure the seconds of what is inside, to the end of what it started on the device."""
    elapsed: list[float] = []
    _wait(device)
    start = time.perf_counter()
    yield elapsed
    _wait(device)
    elapsed.append(time.perf_counter() - start)


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize(device)
