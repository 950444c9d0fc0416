"""Check what any algorithm must keep, ours and yours: ``check_algorithm(MyIdea)``."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from domainwise.acceleration.cuda_graph import updater
from domainwise.acceleration.recorders import Tapes
from domainwise.acceleration.recording import Captured
from domainwise.algorithms import Algorithm, create, draw, hypers, names
from domainwise.losses import Batch, in_parts
from domainwise.networks.network import Network

CLASSES = 2
Check = Callable[[type[Algorithm], dict[str, Any]], None]


def check_algorithm(cls: type[Algorithm], **settings: Any) -> None:
    """Run every check with these hyperparameters; an AssertionError says which promise is broken."""
    for check in checks():
        check(cls, settings)


def checks() -> list[Check]:
    """Return the checks one by one, for a test runner that likes to count them."""
    return [value for name, value in globals().items() if name.startswith("check_") and value is not check_algorithm]


def check_learns(cls: type[Algorithm], settings: dict[str, Any]) -> None:
    algorithm = _made(cls, settings)
    metrics = _train(algorithm, range(80))
    assert "loss" in metrics, f"{cls.__name__}.update() must return a dict with a loss"
    assert all(isinstance(v, Tensor) and v.dim() == 0 for v in metrics.values()), (
        "metrics must be tensors of one number"
    )
    x, y = _batch(99, 200)
    accuracy = (algorithm.predict(x).argmax(1) == y).float().mean().item()
    assert accuracy > 0.9, f"{cls.__name__} learned an easy problem to only {accuracy:.0%}"


def check_predicts_one_row_of_logits_per_image(cls: type[Algorithm], settings: dict[str, Any]) -> None:
    algorithm = _made(cls, settings)
    for size in (1, 7):
        shape = tuple(algorithm.predict(_batch(0, size)[0]).shape)
        assert shape == (size, CLASSES), f"{cls.__name__}.predict() gave {shape} for {size} images of {CLASSES} classes"


def check_prediction_does_not_train(cls: type[Algorithm], settings: dict[str, Any]) -> None:
    algorithm = _made(cls, settings)
    before = _parameters(algorithm)
    algorithm.predict(_batch(0, 5)[0])
    assert _equal(before, _parameters(algorithm)), f"{cls.__name__}.predict() changed the network"
    assert algorithm.net.training, f"{cls.__name__}.predict() left the network in evaluation mode"


def check_trains_on_one_domain(cls: type[Algorithm], settings: dict[str, Any]) -> None:
    algorithm = _made(cls, settings)
    loss = algorithm.update(_batches(algorithm, 0, sizes=[8]))["loss"]
    assert torch.isfinite(loss), f"{cls.__name__} gave a loss of {loss.item()} on a single domain"


def check_trains_on_unequal_batches(cls: type[Algorithm], settings: dict[str, Any]) -> None:
    algorithm = _made(cls, settings)
    loss = algorithm.update(_batches(algorithm, 0, sizes=[8, 3, 5]))["loss"]
    assert torch.isfinite(loss), f"{cls.__name__} gave a loss of {loss.item()} on batches of 8, 3 and 5"


def check_frozen_parameters_stay(cls: type[Algorithm], settings: dict[str, Any]) -> None:
    net = _network(cls)
    frozen = next(net.parameters()).requires_grad_(False)
    before = frozen.clone()
    algorithm = cls(**{"lr": 1e-2, "weight_decay": 0.1, **settings}).setup(net, seed=0)
    algorithm.update(_batches(algorithm, 0))
    assert torch.equal(before, frozen), f"{cls.__name__} moved a parameter that requires no gradient"


def check_same_seed_same_result(cls: type[Algorithm], settings: dict[str, Any]) -> None:
    runs = []
    for noise in (1, 2):
        algorithm = _made(cls, settings)
        torch.rand(noise)  # the global generator is nobody's business
        _train(algorithm, range(3))
        runs.append(_parameters(algorithm))
    assert _equal(*runs), f"{cls.__name__} gave different weights from the same seed"


def check_state_continues_exactly(cls: type[Algorithm], settings: dict[str, Any]) -> None:
    first, second = _made(cls, settings), _made(cls, settings, seed=5)
    _train(first, range(3))
    second.load_state_dict(pickle.loads(pickle.dumps(first.state_dict())))
    x, _ = _batch(50, 16)
    assert torch.equal(first.predict(x), second.predict(x)), (
        f"{cls.__name__} predicts otherwise from the state it saved"
    )
    for algorithm in (first, second):
        _train(algorithm, range(3, 6))
    same = _equal(_parameters(first), _parameters(second))
    assert same, (
        f"{cls.__name__} went on differently after state_dict() and load_state_dict(): something is missing in it"
    )


def check_loss_is_pure(cls: type[Algorithm], settings: dict[str, Any]) -> None:
    algorithm = _made(cls, settings)
    _train(algorithm, range(2))
    leg = algorithm.legs(_batches(algorithm, 2))[0]
    before, random = _parameters(algorithm), algorithm.generator.get_state()
    losses = [algorithm.loss(leg if algorithm.fresh == 1 else leg[0]) for _ in range(2)]
    assert torch.equal(*losses), f"{cls.__name__}.loss() gave two values for one batch: state changes only in update()"
    assert _equal(before, _parameters(algorithm)), f"{cls.__name__}.loss() changed the network"
    assert torch.equal(random, algorithm.generator.get_state()), (
        f"{cls.__name__}.loss() drew random numbers: draw them in prepare()"
    )


def check_samplewise_loss_in_parts_is_the_whole(cls: type[Algorithm], settings: dict[str, Any]) -> None:
    if not cls.samplewise:
        return
    algorithm = _made(cls, settings)
    leg = [_batch(0, 9), _batch(1, 6)]
    _train(algorithm, range(1))
    whole = algorithm.loss(leg)
    parts = torch.stack([share * algorithm.loss(part) for share, part in in_parts(leg, 3)]).sum()
    assert torch.allclose(whole, parts, rtol=1e-4, atol=1e-6), (
        f"{cls.__name__} says samplewise = True, and its loss is not the mean over its samples: {whole.item():.6g} of "
        f"a leg, {parts.item():.6g} of its parts"
    )


def check_replayed_training_is_training(cls: type[Algorithm], settings: dict[str, Any]) -> None:
    """Record and replay the operations of a ``step`` on a CPU, as a GPU would, and compare with running it."""
    said: list[str] = []
    eager, replayed = _made(cls, settings), _made(cls, settings)
    update = updater(replayed, capture=True, say=said.append, recorder=Tapes())
    if not isinstance(update, Captured):  # it says itself that it cannot be recorded
        return
    for step in range(14):
        expected, found = eager.update(_batches(eager, step)), update(_batches(replayed, step))
        same = list(expected) == list(found) and all(torch.equal(expected[k].float(), found[k]) for k in found)
        assert same, f"{cls.__name__} gave other metrics in update {step} when it was replayed"
    assert _equal(_parameters(eager), _parameters(replayed)), f"{cls.__name__} trains otherwise when it is replayed"
    assert not said, f"{said[0]}. If it is to stay so, say it in `uncapturable`"


def check_domains_take_turns(cls: type[Algorithm], settings: dict[str, Any]) -> None:
    """Train on three of five domains at a time: going on from a saved state and replaying give the same training."""
    if "domains" not in signature(cls.update).parameters:  # it has an update of its own
        return
    turns = [(0, 3, 1), (2, 1, 4), (3, 4, 0), (0, 1, 2)]
    eager, resumed, replayed = (_made(cls, settings) for _ in range(3))
    update = updater(replayed, capture=True, recorder=Tapes())
    for step in range(12):
        domains = turns[step % 4]
        if step == 6:
            resumed = _made(cls, settings, seed=5)
            resumed.load_state_dict(pickle.loads(pickle.dumps(eager.state_dict())))
        for train in (eager.update, resumed.update, update):
            train(_batches(eager, step), domains=domains)
    for how, other in (("went on from a saved state", resumed), ("was replayed", replayed)):
        same = _equal(_parameters(eager), _parameters(other))
        assert same, f"{cls.__name__} trains otherwise when it {how}, on domains that take turns (self.domains)"


def check_precisions(cls: type[Algorithm], settings: dict[str, Any]) -> None:
    double = cls(**{"lr": 1e-2, **settings}).setup(_network(cls).double(), seed=0)
    for value in double.update(_batches(double, 0, dtype=torch.float64)).values():
        assert value.dtype == torch.float64, f"{cls.__name__} turned a float64 network's metrics into {value.dtype}"
        assert torch.isfinite(value)
    low = _made(cls, settings)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for step in range(3):
            loss = low.update(_batches(low, step))["loss"]
    assert torch.isfinite(loss), f"{cls.__name__} gave a loss of {loss.item()} under bfloat16 autocast"
    assert all(p.isfinite().all() for p in low.net.parameters()), f"{cls.__name__} broke the network under autocast"


def check_pickles(cls: type[Algorithm], settings: dict[str, Any]) -> None:
    algorithm = cls(**settings)
    assert repr(_copy(algorithm)) == repr(algorithm)
    algorithm = _made(cls, settings)
    _train(algorithm, range(2))
    twin = _copy(algorithm)
    for one in (algorithm, twin):
        _train(one, range(2, 4))
    same = _equal(_parameters(algorithm), _parameters(twin))
    assert same, f"{cls.__name__} went on differently after pickling it in mid-training"


def check_repr_makes_the_same_algorithm(cls: type[Algorithm], settings: dict[str, Any]) -> None:
    algorithm = cls(**{"lr": 0.0123, **settings})
    if cls.name in names() and type(create(cls.name)) is cls:  # one of a third party may bear the same name
        assert repr(create(repr(algorithm))) == repr(algorithm)
    assert "0.0123" in repr(algorithm), f"repr({cls.__name__}) does not show a hyperparameter that was set"


def check_draws_are_valid(cls: type[Algorithm], settings: dict[str, Any]) -> None:
    for seed in range(20):
        drawn = draw(cls, seed)
        assert all(not isinstance(value, np.generic) for value in drawn.values()), f"{cls.__name__} drew a numpy number"
        cls(**{**drawn, **settings})  # raises a sentence where a draw is outside the range
    assert all(about.draw is None or field.name in drawn for field, about in hypers(cls).values())


def _network(cls: type[Algorithm]) -> Network:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        featurizer = nn.Sequential(nn.Conv2d(1 + cls.extra_channels, 4, 3, stride=2), nn.ReLU(), nn.Flatten())
        return Network(featurizer, nn.Linear(36, CLASSES))


def _made(cls: type[Algorithm], settings: dict[str, Any], seed: int = 0) -> Algorithm:
    return cls(**{"lr": 1e-2, **settings}).setup(_network(cls), seed=seed)


def _copy(algorithm: Algorithm) -> Algorithm:
    try:
        copy: Algorithm = pickle.loads(pickle.dumps(algorithm))
    except Exception as error:
        raise AssertionError(f"{type(algorithm).__name__} cannot be pickled: {error}") from error
    return copy


def _batch(seed: int, size: int, dtype: torch.dtype = torch.float32) -> Batch:
    """Make images of 8 x 8 whose upper or lower half is bright."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(CLASSES, (size,), generator=generator)
    x = 0.5 * torch.randn(size, 1, 8, 8, generator=generator)
    x[:, :, :4] += y.float()[:, None, None, None]
    x[:, :, 4:] += 1 - y.float()[:, None, None, None]
    return x.to(dtype), y


def _batches(
    algorithm: Algorithm, step: int, sizes: Sequence[int] = (8, 8, 8), dtype: torch.dtype = torch.float32
) -> list[Any]:
    if algorithm.fresh == 1:
        return [_batch(100 * step + i, size, dtype) for i, size in enumerate(sizes)]
    return [
        [_batch(100 * step + 10 * k + i, size, dtype) for k in range(algorithm.fresh)] for i, size in enumerate(sizes)
    ]


def _train(algorithm: Algorithm, steps: range) -> dict[str, Tensor]:
    for step in steps:
        metrics = algorithm.update(_batches(algorithm, step))
    return metrics


def _parameters(algorithm: Algorithm) -> list[Tensor]:
    return [p.detach().clone() for p in algorithm.net.parameters()]


def _equal(first: list[Tensor], second: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
