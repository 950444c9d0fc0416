"""SWAD counts the segments its rule says, in both ways of counting, restated here over all segments at once."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from domainwise.averaging import SWAD, swapped_in
from domainwise.errors import InputError

NAN, INF = math.nan, math.inf
COMPAT = [None, "khanrc"]
TYPICAL = [1.9 - 0.1 * i for i in range(9)] + [1.0] + [1.01] * 11  # lowest at segment 9 of 0..20
EARLY = [1.0] + [1.1] * 11  # lowest at the very first


def convergence(losses: Sequence[float], converge: int, ratio: float) -> tuple[int, float] | None:
    """The first evaluation at which the lowest of the last few is the first of them, and the threshold."""
    for now in range(converge - 1, len(losses)):
        window = losses[now - converge + 1 : now + 1]
        if window[0] < INF and all(window[0] <= loss for loss in window):
            finite = [loss for loss in window if loss < INF]
            return now, float(np.mean(finite)) * (1 + ratio)  # rounded as there: losses may lie on the threshold
    return None


def last_finite(losses: Sequence[float]) -> Counter[int]:
    return Counter([i for i, loss in enumerate(losses) if loss < INF][-1:])


def once(losses: Sequence[float], converge: int, tolerance: int, ratio: float) -> tuple[Counter[int], bool]:
    """By the words of the rule: every segment from the start of the valley to its last, and whether it ended."""
    found = convergence(losses, converge, ratio)
    if found is None:
        return last_finite(losses), False
    now, threshold = found
    head = list(range(max(0, now - tolerance + 1), now + 1))[: max(0, tolerance - converge + 1)]
    over = [i for i in head if losses[i] > threshold]
    run = [i for i in head if not over or i > over[-1]]
    start = run[0] if run else now - converge + 1
    end, above = start, 0
    for i in range(start + 1, len(losses)):
        above = above + 1 if losses[i] > threshold else 0
        end = end if above else i
        if above == tolerance:
            break
    return Counter(i for i in range(start, end + 1) if losses[i] < INF), above == tolerance


def khanrc(losses: Sequence[float], converge: int, tolerance: int, ratio: float) -> tuple[Counter[int], bool]:
    """By the order of events in the authors' code, on the numbers of the segments."""
    found = convergence(losses, converge, ratio)
    if found is None:
        return last_finite(losses), False
    (now, threshold), lowest = found, found[0] - converge + 1
    smooth: deque[int] = deque(range(now + 1), maxlen=tolerance)
    added: list[int] = []
    if tolerance < converge:
        added += range(lowest + 1, lowest + 1 + converge - tolerance)
    elif tolerance > converge:
        head = list(smooth)[: tolerance - converge + 1]
        start = next((k + 1 for k in reversed(range(len(head))) if losses[head[k]] > threshold), 0)
        added += head[start + 1 :]
    dead = False
    for i in range(now + 1, len(losses)):
        smooth.append(i)
        if smooth[0] < lowest:
            continue
        dead = min(losses[k] for k in smooth) > threshold
        if dead:
            break
        added.append(smooth[0])
    if not dead:
        smooth.popleft()
        while smooth and min(losses[k] for k in smooth) <= threshold:
            added.append(smooth.popleft())
    return Counter([i for i in added if losses[i] < INF] or [lowest]), dead


def step_of(segment: int) -> int:
    return 2 * segment


def tell(swad: SWAD, losses: Sequence[float], first: int = 0, dimensions: int | None = None) -> None:
    """Segment i is two steps (the first only one) of the i-th unit vector; of nan where the loss is not finite."""
    for i, loss in enumerate(losses[first:], start=first):
        params = torch.zeros(dimensions or len(losses), dtype=torch.float64)
        params[i] = 1.0 if math.isfinite(loss) else NAN
        for step in range(step_of(i - 1) + 1 if i else 0, step_of(i) + 1):
            swad.update([params], step)
        swad.evaluated(step_of(i), loss)


def shares(swad: SWAD) -> list[float] | None:
    weights = swad.weights()
    return None if weights is None else weights[0].tolist()


def expected(counts: Counter[int], n: int) -> object:
    return pytest.approx([counts[i] / counts.total() for i in range(n)], abs=1e-12) if counts else None


def test_a_typical_run_counts_every_segment_once_and_khanrc_the_lowest_twice_and_the_first_never():
    for compat, counts in (
        (None, Counter(range(6, 21))),
        ("khanrc", Counter(range(7, 21)) + Counter([9])),
    ):
        swad = SWAD(compat=compat)
        tell(swad, TYPICAL)
        assert shares(swad) == expected(counts, len(TYPICAL))
        assert swad.converged_at == step_of(9)
        assert swad.threshold == pytest.approx(1.3 * (1.0 + 1.01 + 1.01) / 3)


def test_convergence_at_the_third_evaluation_counts_3_2_2_in_khanrc_and_once_otherwise():
    for compat, counts in ((None, [1] * 12), ("khanrc", [3, 2, 2] + [1] * 9)):
        swad = SWAD(compat=compat)
        tell(swad, EARLY)
        assert shares(swad) == expected(Counter(dict(enumerate(counts))), 12)


def test_the_valley_begins_after_the_last_loss_above_the_threshold():
    swad = SWAD()
    tell(swad, [5.0, 1.2, 5.0, 1.1, 1.0, 1.05, 1.05, 1.05])
    assert shares(swad) == expected(Counter(range(3, 8)), 8)


LOSSES = st.lists(st.sampled_from([0.5, 0.55, 0.6, 0.65, 0.7, 0.8, 0.9, 1.0, 1.5, 3.0]), max_size=30)
BROKEN = st.lists(st.sampled_from([0.5, 0.6, 0.7, 0.9, 3.0, INF, -INF, NAN]), max_size=20)
# Losses that fall, then rise, with ties all along: what a run looks like, and random lists seldom do.
VALLEYS = st.builds(
    lambda fall, flat, rise, noise: [
        round(level * noise[i % len(noise)], 2)
        for i, level in enumerate([2.0 - 0.1 * i for i in range(fall)] + [1.0] * flat + [3.0] * rise + [1.0] * flat)
    ],
    st.integers(0, 12),
    st.integers(1, 12),
    st.integers(0, 9),
    st.lists(st.sampled_from([1.0, 1.05, 1.3, 1.6]), min_size=1, max_size=20),
)


@pytest.mark.parametrize("compat", COMPAT)
@given(
    losses=st.one_of(LOSSES, BROKEN, VALLEYS),
    converge=st.sampled_from([3, 3, 1, 2, 4]),
    tolerance=st.sampled_from([6, 6, 1, 2, 3, 4, 7]),
    ratio=st.sampled_from([0.3, 0.2, 0.0]),
)
@settings(max_examples=600, deadline=None, derandomize=True)
def test_at_every_evaluation_of_any_run_the_average_is_the_rule_restated(compat, losses, converge, tolerance, ratio):
    swad = SWAD(converge, tolerance, ratio, compat)
    heard = [loss if math.isfinite(loss) else INF for loss in losses]
    for n in range(1, len(losses) + 1):
        tell(swad, losses[:n], first=n - 1, dimensions=len(losses))
        counts, over = (khanrc if compat else once)(heard[:n], converge, tolerance, ratio)
        assert shares(swad) == expected(counts, len(losses))
        assert (swad.over, swad.ready) == (over, bool(counts))


@pytest.mark.parametrize("compat", COMPAT)
def test_without_convergence_the_last_segment_is_the_average(compat):
    swad = SWAD(compat=compat)
    tell(swad, [1.0 - 0.1 * i for i in range(9)])
    assert swad.converged_at is None
    assert shares(swad) == [0.0] * 8 + [1.0]


@pytest.mark.parametrize(("compat", "counts"), [(None, range(3, 9)), ("khanrc", [4, 5, 6, 4, 5, 6, 7, 8])])
def test_a_run_may_converge_with_its_last_evaluation(compat, counts):
    swad = SWAD(compat=compat)
    tell(swad, [3.0, 2.0, 1.5, 1.1, 1.05, 1.02, 1.0, 1.01, 1.0])
    assert swad.converged_at == step_of(6)
    assert shares(swad) == expected(Counter(counts), 9)


@pytest.mark.parametrize(("compat", "counts"), [(None, range(2, 8)), ("khanrc", [3, 4, 5, 5, 6, 7])])
def test_a_dead_valley_stays_dead_however_low_the_loss_falls_again(compat, counts):
    swad = SWAD(compat=compat)
    losses = [1.6, 1.4, 1.3, 1.2, 1.1, 1.0, 1.05, 1.05] + [2.0] * 6 + [0.1] * 8
    tell(swad, losses[:13], dimensions=len(losses))
    assert not swad.over
    tell(swad, losses, first=13)
    assert swad.over
    assert shares(swad) == expected(Counter(counts), len(losses))
    assert list(swad.state_dict()["tensors"]) == ["mean.0"]  # and costs no more than its result


@pytest.mark.parametrize("compat", COMPAT)
def test_steps_after_the_last_evaluation_do_not_count(compat):
    swad = SWAD(compat=compat)
    tell(swad, TYPICAL)
    before = shares(swad)
    for step in range(1000, 1010):
        swad.update([torch.full((len(TYPICAL),), 9.0, dtype=torch.float64)], step)
    assert shares(swad) == before


def test_a_segment_is_the_mean_of_every_step_since_the_last_evaluation():
    swad, models = SWAD(), [torch.randn(4, 3) for _ in range(12)]
    for step, model in enumerate(models):
        swad.update([model], step)
        if step in (0, 11):
            swad.evaluated(step, 1.0 - 0.01 * step)
            since = models[:1] if step == 0 else models[1:]
            torch.testing.assert_close(swad.weights(), [torch.stack(since).mean(0)])


@pytest.mark.parametrize("compat", COMPAT)
def test_a_run_that_breaks_keeps_the_average_of_what_was_whole(compat):
    swad = SWAD(compat=compat)
    tell(swad, [*TYPICAL, NAN, INF, NAN])
    whole = SWAD(compat=compat)
    tell(whole, TYPICAL, dimensions=len(TYPICAL) + 3)
    assert shares(swad) == pytest.approx(shares(whole), abs=1e-12)


def test_nothing_finite_is_no_average():
    swad = SWAD()
    tell(swad, [NAN, INF, NAN, NAN])
    assert not swad.ready
    assert swad.weights() is None


@pytest.mark.parametrize("compat", COMPAT)
def test_memory_is_a_queue_of_segments_that_does_not_grow(compat):
    swad, most = SWAD(compat=compat), 0
    for i in range(len(TYPICAL)):
        tell(swad, TYPICAL[: i + 1], first=i, dimensions=len(TYPICAL))
        most = max(most, len(swad.state_dict()["tensors"]))
    assert most <= 6 + 1


def test_an_evaluation_without_a_step_before_it_is_a_sentence():
    swad = SWAD()
    with pytest.raises(InputError, match="an evaluation at step 0 before any update"):
        swad.evaluated(0, 1.0)
    tell(swad, [1.0])
    with pytest.raises(InputError, match="before any update since the last one"):
        swad.evaluated(0, 1.0)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_an_update_never_waits_for_the_device_and_segments_wait_on_the_cpu():
    swad, p = SWAD(), torch.ones(4, device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        for step in range(3):
            swad.update([p], step)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    swad.evaluated(2, 1.0)
    (averaged,) = swad.weights()
    assert averaged.device.type == "cpu"
    with swapped_in([p.zero_()], [averaged]):
        assert p.tolist() == [1.0] * 4
    assert not p.any()
