"""Scores that look at groups are those of independent computations, and of the package wilds where it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

import domainwise as dw
from domainwise.data.sources.benchmarks import IDENTITIES
from domainwise.experiment.group_metrics import WILDS, group_accuracies, group_metrics, wilds_metrics
from domainwise.networks.torchvision_compat import import_timm


def drawn(rows: int = 400, classes: int = 6, groups: int = 9, seed: int = 0) -> tuple[Any, Any, Any]:
    """Predictions that are right in two of three, labels without the last class, and a group for every row."""
    random = np.random.RandomState(seed)
    labels = random.randint(0, classes - 1, rows)
    predicted = np.where(random.rand(rows) < 0.66, labels, random.randint(0, classes, rows))
    return predicted, labels, random.randint(0, groups, rows)


def test_every_number_is_that_of_a_loop_by_hand_and_of_scikit_learn() -> None:
    predicted, labels, groups = drawn()
    groups[groups == 4] = -1  # a group without rows, and rows without a group
    names = [f"slide:{i}" for i in range(9)]
    by_hand = {}
    for i in range(9):
        hits = [p == y for p, y, g in zip(predicted, labels, groups, strict=True) if g == i]
        if hits:
            by_hand[names[i]] = (sum(hits) / len(hits), len(hits))
    assert group_accuracies(predicted, labels, groups, names) == by_hand
    found = group_metrics(predicted, labels, groups, names)
    each = sorted(accuracy for accuracy, _ in by_hand.values())
    assert found["accuracy"] == pytest.approx(sum(predicted == labels) / 400)
    assert found["worst_group"] == each[0]
    assert found["slide:3"] == by_hand["slide:3"][0]
    assert "slide:4" not in found
    many = group_metrics(predicted, labels, np.arange(400), [str(i) for i in range(400)])
    assert {*many} == {"accuracy", "macro_f1", "worst_group", "percentile_10"}
    assert found["percentile_10"] == pytest.approx(each[0] + 0.7 * (each[1] - each[0]))  # 10 % of the 7 gaps
    assert found["macro_f1"] == pytest.approx(f1_score(labels, predicted, average="macro", labels=np.unique(labels)))
    assert set(predicted) - set(labels)  # a class that is predicted, and that no row has


def test_a_row_may_be_in_several_groups_and_some_never_count_as_the_worst() -> None:
    predicted, labels = [0, 1, 1, 0], [0, 1, 0, 1]
    names = ["region:Asia", "region:Other", "year:2016"]
    groups = [[0, 2], [0, 2], [1, 2], [1, -1]]
    assert group_accuracies(predicted, labels, groups, names) == {
        "region:Asia": (1.0, 2),
        "region:Other": (0.0, 2),
        "year:2016": (2 / 3, 3),
    }
    assert group_metrics(predicted, labels, groups, names, by=["region"])["worst_group"] == 0
    assert wilds_metrics("fmow", predicted, labels, groups, names)["judged"] == 1.0
    with pytest.raises(dw.InputError, match="fmow is judged by worst_group, and no row is in a group of region"):
        wilds_metrics("fmow", predicted, labels, [2, 2, 2, 2], names)
    with pytest.raises(dw.InputError, match="there are no predictions"):
        group_metrics([], [])


def theirs(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package's own metrics, with a mean over groups in the place of torch_scatter, which it needs for one."""
    monkeypatch.setenv("OUTDATED_IGNORE", "1")  # or its import calls home
    import_timm()  # torchvision, which the package imports, may need help
    metrics = pytest.importorskip("wilds.common.metrics.all_metrics", reason="the package wilds is not installed")

    def averages(v: torch.Tensor, g: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        there = torch.bincount(g, minlength=count).float()
        return torch.bincount(g, v, minlength=count) / there.clamp(min=1), there

    monkeypatch.setattr("wilds.common.metrics.metric.avg_over_groups", averages)
    return metrics


def grouper(field: str, groups: Any, names: Sequence[str]) -> Any:
    return SimpleNamespace(
        n_groups=len(names),
        metadata_to_group=lambda metadata: torch.as_tensor(groups),
        group_field_str=lambda i: names[i],
        group_str=lambda i: names[i],
    )


def test_camelyon17_iwildcam_fmow_and_amazon_are_judged_as_the_package_judges_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs(monkeypatch)
    pytest.importorskip("pytz", reason="the package wilds needs pytz")
    from wilds.datasets.amazon_dataset import AmazonDataset
    from wilds.datasets.camelyon17_dataset import Camelyon17Dataset
    from wilds.datasets.fmow_dataset import FMoWDataset
    from wilds.datasets.iwildcam_dataset import IWildCamDataset

    predicted, labels, groups = drawn()
    names = [f"region:{i}" for i in range(8)] + ["region:Other"]
    predicted[groups == 8] = 99  # all wrong, and not the worst, which it is not
    own = {}
    for name, judged in WILDS.items():
        if name != "civilcomments":
            of = [each.replace("region", judged.by[0]) for each in names]
            own[name] = wilds_metrics(name, predicted, labels, groups, of)

    def eval_of(cls: Any, **about: Any) -> dict[str, float]:
        told = torch.as_tensor(predicted), torch.as_tensor(labels), torch.zeros(400, 1)
        found: dict[str, float] = cls.eval(
            SimpleNamespace(**about, standard_group_eval=cls.standard_group_eval), *told
        )[0]
        return found

    camelyon = eval_of(Camelyon17Dataset, _eval_grouper=grouper("slide", groups, names))
    assert own["camelyon17"]["judged"] == pytest.approx(camelyon["acc_avg"])
    assert own["camelyon17"]["worst_group"] == pytest.approx(camelyon["acc_wg"])
    assert own["iwildcam"]["judged"] == pytest.approx(eval_of(IWildCamDataset)["F1-macro_all"])
    both = {"year": grouper("year", groups, names), "region": grouper("region", groups, names)}
    assert own["fmow"]["judged"] == pytest.approx(eval_of(FMoWDataset, _eval_groupers=both)["acc_worst_region"])
    amazon = eval_of(AmazonDataset, split_scheme="user", _eval_grouper=grouper("user", groups, names))
    assert own["amazon"]["judged"] == pytest.approx(amazon["10th_percentile_acc"])


def test_civilcomments_is_judged_as_the_package_judges_it(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs(monkeypatch)
    from wilds.datasets.civilcomments_dataset import CivilCommentsDataset

    random = np.random.RandomState(3)
    has, labels = random.rand(400, 8) < 0.3, random.randint(0, 2, 400)
    predicted = np.where(random.rand(400) < 0.8, labels, 1 - labels)
    names = [f"{identity}:{label}" for identity in IDENTITIES for label in ("non-toxic", "toxic")]
    groups = np.where(has, 2 * np.arange(8) + labels[:, None], -1)
    groupers = [
        grouper(identity, has[:, i] + 2 * labels, [f"{identity}:{one}_y:{y}" for y in (0, 1) for one in (0, 1)])
        for i, identity in enumerate(IDENTITIES)
    ]
    about = SimpleNamespace(_identity_vars=[*IDENTITIES], _eval_groupers=groupers)
    told = torch.as_tensor(predicted), torch.as_tensor(labels), torch.zeros(400, 1)
    package = CivilCommentsDataset.eval(about, *told)[0]
    own = wilds_metrics("civilcomments", predicted, labels, groups, names)
    assert own["judged"] == pytest.approx(package["acc_wg"])
    assert own["accuracy"] == pytest.approx(package["acc_avg"])
