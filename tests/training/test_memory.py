"""Where the GPU has too little memory, legs are computed in parts, or a sentence says what to set."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from made_data import stripes
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

import domainwise as dw
from domainwise.algorithms import Algorithm, algorithm, create, names
from domainwise.losses import Batch, in_parts
from domainwise.networks.network import Network
from domainwise.report.explain import explanation
from domainwise.testing import check_samplewise_loss_in_parts_is_the_whole
from domainwise.training.setup import sparing

SAMPLEWISE = [name for name in names() if create(name).samplewise]
WALKS = {"inner": "momentum", "inner_steps": 2, "lr": 1e-3}
SHORT: dict[str, Any] = {"steps": 8, "evaluate_every": 4, "batch": 6, "seeds": 1, "targets": "a"}


def network() -> Network:
    torch.manual_seed(0)
    return Network(nn.Sequential(nn.Linear(5, 7), nn.Tanh()), nn.Linear(7, 3)).double()


def batches(seed: int, sizes: Sequence[int] = (4, 6, 5)) -> list[Batch]:
    random = torch.Generator().manual_seed(seed)
    return [
        (torch.randn(n, 5, generator=random, dtype=torch.float64), torch.randint(3, (n,), generator=random))
        for n in sizes
    ]


def trained(one: Algorithm, parts: int) -> tuple[Tensor, Tensor]:
    """The parameters and the losses after three updates with each leg in so many parts."""
    one.setup(network(), seed=1)
    one.take_parts(parts)
    drawn = [batches(seed) for seed in range(3 * one.fresh)]
    given = [
        [list(each) for each in zip(*drawn[k : k + one.fresh], strict=True)] if one.fresh > 1 else drawn[k]
        for k in range(0, len(drawn), one.fresh)
    ]
    losses = [one.update(each)["loss"] for each in given]
    return parameters_to_vector(one.net.parameters()).detach(), torch.stack(losses)


def test_those_whose_loss_is_a_mean_over_samples_are_known() -> None:
    assert set(SAMPLEWISE) >= {"erm", "arith", "fish", "reptile", "maml", "mldg", "andmask", "sandmask"}
    assert not {"coral", "mmd", "irm", "vrex", "rsc", "arm", "fishr", "hgp"} & set(SAMPLEWISE)


def test_an_author_who_says_samplewise_of_another_loss_is_told() -> None:
    @algorithm
    class Together(Algorithm):
        samplewise = True

        def loss(self, batches: Sequence[Batch]) -> Tensor:
            return super().loss(batches) + sum(self.net(x).var(0).mean() for x, _ in batches)

    with pytest.raises(AssertionError, match=r"Together says samplewise = True, and its loss is not the mean"):
        check_samplewise_loss_in_parts_is_the_whole(Together, {})


@pytest.mark.parametrize("parts", [2, 4, 16])
@pytest.mark.parametrize("name", SAMPLEWISE)
def test_a_leg_in_parts_is_the_whole_leg(name: str, parts: int) -> None:
    for settings in ({}, WALKS) if name in ("arith", "fish") else ({},):
        whole, losses = trained(create(name, **settings), 1)
        in_pieces, own = trained(create(name, **settings), parts)
        assert (in_pieces - whole).abs().max() < 1e-12
        assert (own - losses).abs().max() < 1e-12
    assert (whole - parameters_to_vector(network().parameters()).detach()).abs().max() > 1e-6


def test_no_part_is_longer_than_its_share_and_none_is_empty() -> None:
    for parts in (1, 2, 3, 16):
        found = list(in_parts(batches(0), parts))
        assert sum(share for share, _ in found) == pytest.approx(1)
        assert sum(len(y) for _, part in found for _, y in part) == 15
        assert all(0 < len(y) <= -(-6 // parts) for _, part in found for _, y in part)


class Small:
    """A GPU with memory for so many images at once, as far as an algorithm's loss is concerned."""

    def __init__(self, images: int) -> None:
        self.images, self.most = images, 0

    def __call__(self, loss: Callable[..., Any]) -> Callable[..., Any]:
        def limited(own: Algorithm, leg: Sequence[Batch]) -> Any:
            images = sum(len(y) for _, y in leg)
            if images > self.images:
                raise torch.OutOfMemoryError("CUDA out of memory")
            self.most = max(self.most, images)
            return loss(own, leg)

        return limited


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Small:
    gpu = Small(4)
    monkeypatch.setattr(Algorithm, "loss", gpu(Algorithm.loss))
    monkeypatch.setattr(coral := type(create("coral")), "terms", gpu(coral.terms))  # type: ignore[attr-defined]
    return gpu


def weights(folder: Path) -> Tensor:
    return parameters_to_vector(dw.load(folder).algorithm.net.parameters()).detach()


def test_a_trial_that_does_not_fit_is_computed_in_parts_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = dw.compare(stripes(), "arith", output=tmp_path / "whole", **SHORT).outcomes[0]
    gpu, notes = Small(4), list[str]()
    monkeypatch.setattr(Algorithm, "loss", gpu(Algorithm.loss))
    options = {**SHORT, "watch": lambda _, event: notes.append(event.get("note", ""))}
    outcome = dw.compare(stripes(), "arith", output=tmp_path / "parts", **options).outcomes[0]
    assert gpu.most == 3  # of legs of 6 images
    told = "the GPU has too little memory: every leg is computed in 2 parts, which gives the same gradient"
    assert notes.count(told) == 1
    assert (outcome.trial.id, outcome.result["parts"]) == (whole.trial.id, 2)
    assert "parts" not in whole.result
    assert "every leg computed in 2 parts" in " ".join(explanation(outcome).split())
    assert torch.allclose(weights(outcome.folder), weights(whole.folder), atol=1e-5)
    assert not dw.check(tmp_path / "parts").damaged


def test_one_that_was_killed_goes_on_in_as_many_parts(
    tmp_path: Path, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("domainwise.training.checkpoints.AT_MOST", 0.0)
    monkeypatch.setattr("domainwise.training.checkpoints.SHARE", 0)
    whole = dw.compare(stripes(), "erm", output=tmp_path / "whole", **SHORT).outcomes[0]

    def kill(trial: Any, event: dict[str, Any]) -> None:
        if event.get("step") == 5 and "validation" in event:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dw.compare(stripes(), "erm", output=tmp_path / "half", watch=kill, **SHORT)
    small.images = 1000  # on a larger machine
    again = dw.compare(stripes(), "erm", output=tmp_path / "half", **SHORT).outcomes[0]
    assert torch.equal(weights(again.folder), weights(whole.folder))
    assert again.result["parts"] == whole.result["parts"] == 4


def test_what_cannot_be_computed_in_parts_says_what_to_set(tmp_path: Path, small: Small) -> None:
    for name, why in {
        "coral": "coral looks at the samples of a minibatch together, so that it cannot be computed in parts",
        "erm": "not even one image of each domain at a time fits (erm)",
    }.items():
        small.images = 4 if name == "coral" else 1
        outcome = dw.compare(stripes(), name, output=tmp_path / name, **SHORT).outcomes[0]
        assert outcome.result["status"] == "failed"
        assert outcome.result["message"] == (
            f"the GPU has too little memory, and {why}: set a smaller batch than 6, a smaller input_size or network, "
            "or --per-gpu 1"
        )
        assert json.loads((outcome.folder / "result.json").read_text())["message"] == outcome.result["message"]


def test_batch_norm_in_training_is_not_computed_in_parts(small: Small) -> None:
    torch.manual_seed(0)
    net = Network(nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7)), nn.Linear(7, 3)).double()
    erm = create("erm").setup(net, seed=0)
    with pytest.raises(dw.InputError, match="batch-norm looks at the samples of a minibatch together"):
        sparing(erm, lambda: erm.update, lambda sentence: None)(batches(0))


def test_what_a_failed_update_drew_is_drawn_again(small: Small) -> None:
    """The walk takes the order that it would have taken with enough memory, also where Adam's memory was half made."""
    plain, spared = create("arith", lr=0.1), create("arith", lr=0.1)
    for one in (plain, spared):
        one.setup(network(), seed=3)
    plain.take_parts(2)
    update = sparing(spared, lambda: spared.update, lambda sentence: None)
    for seed in range(4):
        given = batches(seed, (6, 6, 6))
        if seed == 2:
            spared.take_parts(1)  # fails once more
            spared.optimizer.split = None
        assert torch.equal(plain.update(given)["loss"], update(given)["loss"])
    assert spared.leg_parts == 2
    first, second = (parameters_to_vector(one.net.parameters()) for one in (plain, spared))
    assert torch.equal(first, second)


def test_an_evaluation_that_does_not_fit_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def predict(own: Algorithm, x: Tensor) -> Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 12.00 GiB")

    monkeypatch.setattr(Algorithm, "predict", predict)
    outcome = dw.compare(stripes(), "erm", output=tmp_path, **SHORT).outcomes[0]
    assert outcome.result["status"] == "failed"
    assert outcome.result["message"].startswith("the GPU has too little memory: set a smaller input_size or network")
    assert "12.00 GiB" in (outcome.folder / "error.txt").read_text()
