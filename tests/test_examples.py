"""The examples run, and the one that is the paper's method in plain torch takes the very steps that we take."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch

from domainwise import MetaOptimizer, arithmetic

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
PAPER = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "arith.py"))


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs(example: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


def bent(theta: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
    return ((theta * batch).tanh() - batch.roll(1)).square().mean()


@pytest.mark.parametrize(("n", "k", "epsilon"), [(2, 1, 1.0), (3, 1, 3.0), (3, 4, 0.0), (5, 2, 0.7)])
def test_the_paper_in_plain_torch_and_the_drop_in_take_the_same_steps(n: int, k: int, epsilon: float) -> None:
    draw, alpha = torch.Generator().manual_seed(n), 0.05
    domains = [[torch.randn(7, generator=draw, dtype=torch.float64) for _ in range(k)] for _ in range(n)]
    Theta = torch.randn(7, generator=draw, dtype=torch.float64)  # noqa: N806  the paper's symbol
    param = torch.nn.Parameter(Theta.clone())
    ours, paper = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    meta = MetaOptimizer(
        torch.optim.SGD([param], lr=alpha), arithmetic(epsilon), inner_lr=alpha, inner_steps=k, generator=ours
    )
    for _ in range(5):
        meta.step(lambda batch: bent(param, batch), [legs if k > 1 else legs[0] for legs in domains])
        Theta = PAPER["arith"](Theta, domains, bent, alpha, epsilon, paper)  # noqa: N806
        torch.testing.assert_close(param.detach(), Theta, rtol=0, atol=1e-12)


def test_the_weighted_gradients_lead_to_the_mean_of_the_models() -> None:
    Theta = torch.linspace(-1, 1, 7, dtype=torch.float64)  # noqa: N806
    domains = [[Theta + i] for i in range(4)]
    order = torch.randperm(4, generator=torch.Generator().manual_seed(3)).tolist()
    found = PAPER["arith"](Theta, domains, bent, 0.1, 0.5, torch.Generator().manual_seed(3))
    models = PAPER["walk"](Theta, domains, bent, 0.1, order)
    torch.testing.assert_close(found, PAPER["mean_of_models"](Theta, models, 0.5), rtol=0, atol=1e-12)
