"""Intervals cover what they say, and as many studies find a difference as is promised: checked by simulation."""

from __future__ import annotations

from math import inf, sqrt

import numpy as np
import pytest
from scipy import stats

from domainwise.report.statistics import Estimate, estimate, holm

# One seed's difference on art painting, cartoon, photo and sketch, in points, as runs on PACS showed it.
PACS = np.array([3.1, 2.8, 1.0, 4.4]) * sqrt(2)
STUDIES = 4000


def table(values: np.ndarray) -> dict[str, dict[int, float]]:
    return {str(i): dict(enumerate(row.tolist())) for i, row in enumerate(values)}


def drawn(seeds: int, together: float, shift: float = 0.0, part: int = 0) -> list[dict[str, dict[int, float]]]:
    """Studies with a true difference of ``shift``; a share of the variance is common to the targets of a seed."""
    random = np.random.RandomState([seeds, part])
    common = random.standard_normal((STUDIES, 1, seeds)) * sqrt(together)
    own = random.standard_normal((STUDIES, len(PACS), seeds)) * sqrt(1 - together)
    return [table(one) for one in shift + (common + own) * PACS[:, None]]


def covered(seeds: int, together: float, independent: bool | None = None) -> float:
    found = [estimate(study, independent=independent) for study in drawn(seeds, together)]
    ends = [one.interval() for one in found if one]
    assert len(ends) == STUDIES
    return float(np.mean([low <= 0 <= high for low, high in ends]))


@pytest.mark.parametrize(("seeds", "together"), [(5, 0.0), (8, 0.0), (5, 0.4), (8, 0.4), (8, 0.8)])
def test_an_interval_covers_the_truth_in_95_of_100_studies(seeds: int, together: float) -> None:
    assert 0.94 <= covered(seeds, together) <= 0.96


def test_few_seeds_cover_it_where_targets_vary_independently_and_whole_seeds_in_any_case() -> None:
    assert 0.94 <= covered(3, 0.0) <= 0.97
    assert 0.94 <= covered(4, 0.0) <= 0.97
    assert covered(3, 0.6) < 0.9
    assert 0.94 <= covered(3, 0.6, independent=False) <= 0.96


@pytest.mark.parametrize(("seeds", "together"), [(3, 0.0), (4, 0.0), (8, 0.0), (8, 0.5)])
def test_a_detectable_difference_is_found_in_80_of_100_studies(seeds: int, together: float) -> None:
    """What the typical study says that it can detect, studies of that size do."""
    found = [estimate(study) for study in drawn(seeds, together, typical(seeds, together), part=1)]
    power = np.mean([one.p < 0.05 for one in found if one])
    assert 0.77 <= power <= 0.83


def test_whole_seeds_are_a_t_test_of_their_means() -> None:
    values = np.random.RandomState(0).standard_normal((4, 7)) + 0.3
    one = estimate(table(values))
    assert one
    assert not one.independent
    expected = stats.ttest_1samp(values.mean(0), 0)
    assert one.p == pytest.approx(expected.pvalue)
    assert one.interval() == pytest.approx(tuple(expected.confidence_interval(0.95)))


def test_few_seeds_take_the_variance_within_targets_with_satterthwaites_degrees_of_freedom() -> None:
    values = np.random.RandomState(1).standard_normal((4, 3)) * PACS[:, None]
    one = estimate(table(values))
    assert one
    assert one.independent
    parts = values.var(axis=1, ddof=1) / 3
    assert one.error == pytest.approx(sqrt(parts.sum()) / 4)
    assert one.df == pytest.approx(parts.sum() ** 2 / (parts**2 / 2).sum())
    assert one.mean == pytest.approx(values.mean())


def test_one_target_is_a_t_test_whichever_way() -> None:
    values = np.random.RandomState(2).standard_normal((1, 4))
    expected = stats.ttest_1samp(values[0], 0).pvalue
    for independent in (True, False):
        one = estimate(table(values), independent=independent)
        assert one
        assert one.p == pytest.approx(expected)


def test_targets_with_fewer_seeds_count_as_much_as_the_others() -> None:
    one = estimate({"a": {0: 1.0, 1: 3.0, 2: 2.0}, "b": {0: 8.0, 1: 4.0}})
    assert one
    assert one.mean == pytest.approx((2 + 6) / 2)
    assert one.error == pytest.approx(sqrt(1 / 3 + 8 / 2) / 2)


def test_one_seed_has_no_interval() -> None:
    assert estimate({"a": {0: 1.0}, "b": {0: 2.0}}) is None
    assert estimate({}) is None
    assert estimate({"a": {0: 1.0, 1: 2.0}, "b": {2: 1.0, 3: 2.0}}, independent=False) is None


def test_seeds_that_are_said_to_be_enough_are_and_one_less_is_not() -> None:
    one = Estimate(0.3, 2.9, 3, 2.5, True)
    needed, least, most = one.seeds_for(1.0)
    assert one.detectable(needed) <= 1.0 < one.detectable(needed - 1)
    assert least < needed < most
    assert Estimate(0.0, 5.0, 2, 1.0, False).seeds_for(0.1)[2] == inf


def test_a_detectable_difference_has_its_power_by_the_noncentral_distribution() -> None:
    for one in (Estimate(0, 2.9, 2, 4, True), Estimate(0.5, 0.67, 8, 1, False)):
        sd = one.sd * sqrt(one.df / stats.chi2.median(one.df))  # as often too large as too small
        shift = one.detectable() / (sd / sqrt(one.seeds))
        assert stats.nct.sf(stats.t.ppf(0.975, one.df), one.df, shift) == pytest.approx(0.8, abs=1e-3)


def test_equivalence_is_two_one_sided_tests() -> None:
    values = np.random.RandomState(3).standard_normal(8) * 0.5
    one = estimate({"a": dict(enumerate(values.tolist()))})
    assert one
    for margin in (0.1, 0.3, 0.5, 1.0):
        above = stats.ttest_1samp(values, -margin, alternative="greater").pvalue
        below = stats.ttest_1samp(values, margin, alternative="less").pvalue
        assert one.p_within(margin) == pytest.approx(max(above, below))
        low, high = one.interval(0.9)
        assert one.within(margin) == (-margin < low and high < margin)


def test_a_family_of_claims_is_corrected_as_holm_does() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_claims_that_exclude_one_another_count_once() -> None:
    assert holm([0.01, 0.9], ["arith", "arith"]) == [0.01, 0.9]
    assert holm([0.01, 0.9, 0.03, 0.04], ["arith", "arith", "fish", "fish"]) == pytest.approx([0.02, 0.9, 0.06, 0.08])


def test_no_claim_of_a_family_without_differences_is_made_in_more_than_5_of_100_studies() -> None:
    random = np.random.RandomState(4)
    values = random.standard_normal((1000, 5, 6))
    false = [min(holm(list(stats.ttest_1samp(study, 0, axis=1).pvalue))) < 0.05 for study in values]
    assert np.mean(false) < 0.07


@pytest.mark.slow
@pytest.mark.parametrize("together", [0.0, 0.4, 0.8])
@pytest.mark.parametrize("seeds", [5, 8, 16])
def test_stated_coverage_and_power_hold_in_many_studies(seeds: int, together: float) -> None:
    """Whole seeds, whatever the targets of a seed have in common."""
    found = {shift: [estimate(study) for part in range(5) for study in drawn(seeds, together, shift, part)]
             for shift in (0.0, typical(seeds, together))}  # fmt: skip
    none, some = found.values()
    coverage = float(np.mean([low <= 0 <= high for one in none if one for low, high in [one.interval()]]))
    power = float(np.mean([one.p < 0.05 for one in some if one]))
    print(f"{seeds} seeds, {together:.0%} in common: coverage {coverage:.4f}, power {power:.4f}")
    assert 0.945 <= coverage <= 0.955
    assert 0.78 <= power <= 0.82


def typical(seeds: int, together: float) -> float:
    """The difference that the typical study says that it can find."""
    return float(np.median([one.detectable() for study in drawn(seeds, together)[:1000] if (one := estimate(study))]))
