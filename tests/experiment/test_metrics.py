"""Metrics are what others compute from the same labels and probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from domainwise.experiment.metrics import METRICS, Numbers, Shares, counted, interval, per_class, whole


def answers(seed: int, size: int = 60, classes: int = 4) -> tuple[Numbers, Shares]:
    """Labels that lack the last class, and probabilities with many ties."""
    random = np.random.RandomState(seed)
    shares = random.randint(1, 6, (size, classes)) / 5.0
    return random.randint(0, classes - 1, size), shares / shares.sum(1, keepdims=True)


@pytest.mark.parametrize("seed", range(3))
def test_every_metric_is_the_one_of_scikit_learn(seed: int) -> None:
    score = pytest.importorskip("sklearn.metrics")
    labels, shares = answers(seed)
    taken = shares.argmax(1)
    found = {name: metric.of(labels, shares) for name, metric in METRICS.items()}
    assert found["accuracy"] == pytest.approx(score.accuracy_score(labels, taken))
    assert found["balanced_accuracy"] == pytest.approx(
        score.recall_score(labels, taken, labels=[0, 1, 2], average="macro")
    )
    assert found["macro_f1"] == pytest.approx(score.f1_score(labels, taken, average="macro"))
    areas = [score.roc_auc_score(labels == c, shares[:, c]) for c in range(3)]
    assert found["auroc"] == pytest.approx(np.mean(areas))
    scores = counted(labels, shares)
    assert (whole(scores["confusion"]) == score.confusion_matrix(labels, taken, labels=range(4))).all()
    assert scores["loss"] == pytest.approx(score.log_loss(labels, shares, labels=range(4)))
    precision, recall, f1, counts = score.precision_recall_fscore_support(
        labels, taken, labels=range(4), zero_division=0
    )
    for i, (r, p, f) in enumerate(per_class(scores["confusion"])):
        assert (r or 0, p or 0, f) == pytest.approx((recall[i], precision[i], f1[i]))
        assert (r is None) == (counts[i] == 0)


def test_the_area_is_the_share_of_pairs_that_are_in_order() -> None:
    labels, shares = answers(5)
    areas = []
    for c in np.unique(labels):
        own, others = shares[labels == c, c], shares[labels != c, c]
        areas.append(np.mean([(a > b) + (a == b) / 2 for a in own for b in others]))
    assert METRICS["auroc"].of(labels, shares) == pytest.approx(np.mean(areas))
    assert np.isnan(METRICS["auroc"].of(np.zeros(5, int), shares[:5]))  # nothing to be told apart from


@pytest.mark.parametrize(("share", "count"), [(0.5, 10), (0.98, 120), (0.0, 7), (1.0, 1)])
def test_the_ends_of_an_interval_are_the_accuracies_that_the_share_is_just_1_96_deviations_from(
    share: float, count: int
) -> None:
    for end in interval(share, count):
        away = abs(end - share) / max((end * (1 - end) / count) ** 0.5, 1e-9)
        assert away == pytest.approx(1.96) or (end == share in (0.0, 1.0))
