"""Averagers beside a run: what they average, how they are written, and how an average is looked at."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn

from domainwise.averaging import EMA, MA, SWA, SWAD, Averager, averager, refresh_batch_norm, swapped_in
from domainwise.errors import InputError
from domainwise.networks.network import Network

WRITTEN = ["swad", "swad(ratio=0.2, compat='khanrc')", "swa(start=4, every=3)", "ema", "ema(decay=0.9)", "ma(start=3)"]


def moves(steps: int, seed: int = 0) -> Iterator[list[Tensor]]:
    """A random walk of two parameters, one of them laid out channels-last."""
    random = torch.Generator().manual_seed(seed)
    params = [torch.zeros(3, 2), torch.zeros(2, 3, 2, 2).to(memory_format=torch.channels_last)]
    for _ in range(steps):
        params = [p + torch.randn(p.shape, generator=random) for p in params]
        yield params


def told(watcher: Averager, steps: int) -> list[Tensor]:
    for step, params in enumerate(moves(steps)):
        watcher.update(params, step)
    return watcher.weights()


def mean(models: list[list[Tensor]]) -> list[Tensor]:
    return [torch.stack(p).double().mean(0).float() for p in zip(*models, strict=True)]


@pytest.mark.parametrize(
    ("watcher", "counted"),
    [
        (MA(start=0), range(20)),
        (MA(start=7), range(7, 20)),
        (SWA(start=4, every=1), range(4, 20)),
        (SWA(start=4, every=5), range(4, 20, 5)),
    ],
)
def test_uniform_averages_are_the_mean_of_the_models_they_name(watcher, counted):
    models = list(moves(20))
    torch.testing.assert_close(told(watcher, 20), mean([models[i] for i in counted]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("watcher", "rule"),
    [(MA(start=0), None), (SWA(start=0, every=1), None), (EMA(decay=0.9), get_ema_multi_avg_fn(0.9))],
)
def test_running_averages_agree_with_torchs_averaged_model(watcher, rule):
    net = nn.Linear(3, 2)
    torchs = AveragedModel(net, multi_avg_fn=rule)
    for step in range(30):
        with torch.no_grad():
            for p in net.parameters():
                p.add_(torch.randn(p.shape))
        watcher.update(net.parameters(), step)
        torchs.update_parameters(net)
    torch.testing.assert_close(watcher.weights(), [p.detach() for p in torchs.parameters()])


def test_there_is_no_average_before_the_first_model_counts():
    watcher = MA(start=2)
    for step, params in enumerate(moves(3)):
        assert not watcher.ready
        assert watcher.weights() is None
        watcher.update(params, step)
    assert watcher.ready
    assert all(map(torch.equal, watcher.weights(), params))


@pytest.mark.parametrize("text", WRITTEN)
def test_watching_leaves_no_trace_on_the_parameters(text):
    watcher, p = averager(text), nn.Parameter(torch.randn(4))
    before, version = p.detach().clone(), p._version
    for step in range(6):
        watcher.update([p], step)
        watcher.evaluated(step, 1.0)
    assert torch.equal(p, before)
    assert (p._version, p.grad) == (version, None)
    assert watcher.weights()[0].data_ptr() != p.data_ptr()
    assert not watcher.weights()[0].requires_grad


@pytest.mark.parametrize("text", WRITTEN)
def test_what_never_changes_is_its_own_average_to_the_last_bit(text):
    watcher, p = averager(text), torch.tensor([0.1, 1 / 3, -1e-20])
    for step in range(500):
        watcher.update([p], step)
        if step % 20 == 0:
            watcher.evaluated(step, 1.0)
    assert torch.equal(watcher.weights()[0], p)


def test_half_precision_is_averaged_in_single():
    watcher = MA(start=0)
    for step in range(300):
        watcher.update([torch.full((2,), float(step % 2), dtype=torch.bfloat16)], step)
    torch.testing.assert_close(watcher.weights(), [torch.full((2,), 0.5)])


def test_another_number_of_parameters_is_a_sentence():
    watcher = MA(start=0)
    with pytest.raises(InputError, match="no parameters to average"):
        watcher.update([], 0)
    watcher.update([torch.ones(2)], 0)
    with pytest.raises(InputError, match="an average over 1 parameters was given 2"):
        watcher.update([torch.ones(2), torch.ones(2)], 1)


def from_files(state: dict) -> dict:
    """What is left of a state after JSON, and after a format that takes contiguous tensors, none twice."""
    tensors = state["tensors"]
    assert all(t.is_contiguous() for t in tensors.values())
    assert len({t.data_ptr() for t in tensors.values()}) == len(tensors)
    return {"scalars": json.loads(json.dumps(state["scalars"], allow_nan=False)), "tensors": deepcopy(tensors)}


@pytest.mark.parametrize("text", [*WRITTEN, "swad(converge=2, tolerance=2)"])
@given(
    losses=st.lists(st.sampled_from([0.5, 0.6, 0.7, 0.8, 2.0, float("nan")]), min_size=1, max_size=14), data=st.data()
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_a_saved_state_continues_to_the_last_bit(text, losses, data):
    steps = 2 * len(losses)
    cut = data.draw(st.integers(0, steps))
    whole, part = averager(text), averager(text)
    for step, params in enumerate(moves(steps)):
        if step == cut:
            state = from_files(part.state_dict())
            part = averager(text)
            part.load_state_dict(state)
        for watcher in (whole, part):
            watcher.update(params, step)
            if step % 2 == 0:
                watcher.evaluated(step, losses[step // 2])
    assert (part.over, part.ready) == (whole.over, whole.ready)
    if whole.ready:
        assert all(map(torch.equal, part.weights(), whole.weights()))


def test_a_saved_state_is_a_snapshot_that_later_steps_do_not_move():
    watcher, other = EMA(decay=0.5), EMA(decay=0.5)
    watcher.update([torch.zeros(2)], 0)
    state = watcher.state_dict()
    other.load_state_dict(state)
    for each in (watcher, other):
        each.update([torch.ones(2)], 1)
    assert state["tensors"]["mean.0"].tolist() == [0, 0]


def test_the_state_of_another_averager_is_refused():
    with pytest.raises(InputError, match=r"the state of ema\(decay=0.9\), which ema cannot continue"):
        EMA().load_state_dict(EMA(decay=0.9).state_dict())


@pytest.mark.parametrize("text", WRITTEN)
def test_an_averager_is_written_as_it_is_read(text):
    assert repr(averager(text)) == text
    assert averager("none") is None


def test_settings_are_read_into_their_fields():
    swad = averager(" SWAD( ratio = 0.2 , converge=4 )")
    assert isinstance(swad, SWAD)
    assert (swad.converge, swad.tolerance, swad.ratio, swad.compat) == (4, 6, 0.2, None)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("emma", 'there is no averager "emma": did you mean ema'),
        ("ema(decoy=0.9)", 'ema has no setting "decoy": did you mean decay'),
        ("swa(start=10)", r"swa must be told every: write swa\(start=..., every=...\)"),
        ("ema(0.9)", r"write name\(key=value, ...\)"),
        ("ema(decay=0.9", "cannot read the averager"),
        ("ema(decay=huge)", "cannot read the settings"),
        ("ema(**{'decay': 0.9})", "cannot read the settings"),
        ("none(start=3)", "none is no averager"),
        ("ema(decay=1)", "decay must be a number, 0 or more and below 1"),
        ("ema(decay='x')", "decay must be a number"),
        ("ma(start=-1)", "start must be a whole number, 0 or more"),
        ("ma(start=True)", "start must be a whole number"),
        ("swa(start=0, every=0)", "every must be a whole number, 1 or more"),
        ("swad(converge=0)", "converge must be a whole number, 1 or more"),
        ("swad(tolerance=1.5)", "tolerance must be a whole number"),
        ("swad(ratio=-0.1)", "ratio must be a number, 0 or more"),
        ("swad(compat='khanrcc')", "compat must be None or 'khanrc'"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(text, sentence):
    with pytest.raises(InputError, match=sentence):
        averager(text)


class Stopped(BaseException):
    pass


@pytest.mark.parametrize("error", [None, ValueError, Stopped])
def test_averaged_weights_are_in_the_network_inside_and_its_own_outside_whatever_happens(error):
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    own = deepcopy(net.state_dict())
    averaged = [torch.full_like(p, 7.0, dtype=torch.float64) for p in net.parameters()]

    def look() -> None:
        with swapped_in(net.parameters(), averaged, net.buffers()):
            assert all((p == 7.0).all() for p in net.parameters())
            for buffer in net.buffers():
                buffer.add_(1)
            if error:
                raise error

    if error is None:
        look()
    else:
        with pytest.raises(error):
            look()
    assert all(torch.equal(own[key], value) for key, value in net.state_dict().items())
    assert all((a == 7.0).all() for a in averaged)


def test_autocast_sees_the_weights_that_are_in_the_network():
    net, x = nn.Linear(3, 2, bias=False), torch.ones(1, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        before = net(x)
        with swapped_in(net.parameters(), [torch.ones(2, 3)]):
            assert net(x).tolist() == [[3.0, 3.0]]
        assert torch.equal(net(x), before)


@pytest.mark.parametrize(
    ("averaged", "sentence"),
    [
        (None, "there is no average yet"),
        ([], "over 0 parameters does not fit a network with 1"),
        ([torch.ones(2)], r"shape \(3,\), but its average has"),
    ],
)
def test_an_average_that_does_not_fit_changes_nothing_and_is_a_sentence(averaged, sentence):
    p = torch.zeros(3)
    with pytest.raises(InputError, match=sentence), swapped_in([p], averaged):
        pass
    assert not p.any()


class FrozenNorm(nn.BatchNorm1d):
    def train(self, mode: bool = True) -> FrozenNorm:
        return super().train(False)


@pytest.fixture
def normed() -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), FrozenNorm(4), nn.Dropout(0.5), nn.BatchNorm1d(4))


def domain_batches(n: int) -> list[list[tuple[Tensor, Tensor]]]:
    return [[(torch.randn(8, 3), torch.zeros(8)) for _ in range(3)] for _ in range(n)]


def test_refreshed_batch_norm_has_the_statistics_of_the_batches_and_frozen_ones_keep_theirs(normed):
    net, batches = normed().eval(), domain_batches(5)
    net[2].running_mean.fill_(5.0)
    frozen, twin, random = deepcopy(net[2].state_dict()), deepcopy(net), torch.get_rng_state()
    twin[2], twin[3] = nn.Identity(), nn.Identity()
    update_bn([torch.cat([x for x, _ in batch]) for batch in batches], twin)
    refresh_batch_norm(net, batches)
    torch.testing.assert_close(net[1].state_dict(), twin[1].state_dict())
    torch.testing.assert_close(net[4].running_mean + 5, twin[4].running_mean, rtol=0, atol=1e-3)
    torch.testing.assert_close(net[2].state_dict(), frozen, rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), random)
    assert not any(part.training for part in net.modules())
    assert [net[i].momentum for i in (1, 4)] == [0.1, 0.1]


def test_what_fills_a_batch_up_in_evaluation_is_no_part_of_the_statistics(normed):
    net = Network(normed(), nn.Linear(4, 2))
    twin, batches = deepcopy(net), domain_batches(2)
    twin.pad_to = 100
    for one in (net, twin):
        refresh_batch_norm(one, batches)
    torch.testing.assert_close(net.state_dict(), twin.state_dict())


def test_a_refresh_that_fails_leaves_the_statistics_and_the_modes_alone(normed):
    net = normed().train()
    net(torch.randn(8, 3))
    own, modes = deepcopy(net.state_dict()), [part.training for part in net.modules()]
    for batches, error in (([], InputError), ([*domain_batches(1), [(torch.ones(2, 5), torch.ones(2))]], RuntimeError)):
        with pytest.raises(error):
            refresh_batch_norm(net, batches)
        assert all(torch.equal(own[key], value) for key, value in net.state_dict().items())
        assert [part.training for part in net.modules()] == modes
