"""One thread, one seed, the command line, and a small problem whose walk is restated as a plain loop."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector

from domainwise.__main__ import main

Batch = tuple[Tensor, Tensor]

torch.set_num_threads(1)
os.environ["HF_HUB_OFFLINE"] = "1"  # no test asks the hub for anything; read when its client is first imported


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoded images of tests stay out of the user's cache."""
    monkeypatch.setenv("DOMAINWISE_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(autouse=True)
def _helpers_are_found() -> Iterator[None]:
    """Take back what running a trial for Ray sets: without it, programs of the tests import what lies beside them."""
    yield
    os.environ.pop("PYTHONSAFEPATH", None)


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials for which no number of processes is given run in this one, which is quick to start."""
    monkeypatch.setattr("domainwise.sweeps.engine.processes_for", lambda device, threads: 1)


@pytest.fixture
def domainwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """The command, run in this process and in an empty folder: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["domainwise", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()  # ends in sys.exit, like every command
        said = capsys.readouterr()
        return int(end.value.code or 0), said.out, said.err

    return call


@dataclass
class Problem:
    """Domains that want different things of one smooth network, in float64 unless told otherwise."""

    net: nn.Module
    legs: list[Batch]
    inputs: Callable[[], Tensor] = field(repr=False)

    def loss(self, batch: Batch) -> Tensor:
        return F.cross_entropy(self.net(batch[0]), batch[1])

    def vector(self) -> Tensor:
        return parameters_to_vector(self.net.parameters()).detach().clone()

    def grad(self) -> Tensor:
        return torch.cat([p.grad.flatten() for p in self.net.parameters()])

    def batches(self, k: int) -> list[Batch]:
        return [(self.inputs(), torch.randint(3, (8,))) for _ in range(k)]

    @staticmethod
    def as_given(legs: Sequence[Sequence[Batch]]) -> list[Batch] | list[Sequence[Batch]]:
        """Legs as a round wants them: a leg of one step is a batch, a longer one a sequence of them."""
        return [leg[0] if len(leg) == 1 else leg for leg in legs]

    def walked(self, alpha: float, legs: Sequence[Sequence[Batch]]) -> tuple[list[Tensor], list[Tensor]]:
        """The models theta_1 ... theta_{n+1} of plain gradient descent on a copy, and the gradient sum of each leg."""
        twin = Problem(deepcopy(self.net), [], self.inputs)
        models, gradients = [twin.vector()], []
        for leg in legs:
            met = torch.zeros_like(models[0])
            for batch in leg:
                twin.net.zero_grad()
                twin.loss(batch).backward()
                met += twin.grad()
                with torch.no_grad():
                    for p in twin.net.parameters():
                        p -= alpha * p.grad
            models.append(twin.vector())
            gradients.append(met)
        return models, gradients


@pytest.fixture
def problem() -> Callable[..., Problem]:
    def make(n: int = 3, seed: int = 0, dtype: torch.dtype = torch.float64) -> Problem:
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).to(dtype)
        made = Problem(net, [], lambda: torch.randn(8, 4, dtype=dtype))
        made.legs = made.batches(n)
        return made

    return make
