"""What an evaluation counts, against independent measures of the same predictions."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_data import stripes
from sklearn import calibration, metrics

from domainwise.algorithms import create, parse
from domainwise.data.batches.feed import EVALUATION_BATCH as BATCH
from domainwise.data.batches.inputs import Inputs, Part
from domainwise.data.domains import Domain
from domainwise.data.sources.arrays import domains
from domainwise.experiment import metrics as counts
from domainwise.experiment.settings import resolve
from domainwise.networks.network import build
from domainwise.saved_models.evaluation import evaluate
from domainwise.sweeps.progress import disk_needed
from domainwise.training.plan import plan
from domainwise.training.run_options import RunOptions
from domainwise.training.run_trial import execute

CLASSES = 7


class Told:
    """An algorithm that answers with given logits, in order."""

    def __init__(self, logits: torch.Tensor) -> None:
        self.logits, self.asked = logits, [0]

    def predict(self, x: torch.Tensor) -> torch.Tensor:
        self.asked.append(len(x))
        end = sum(self.asked)
        return self.logits[end - len(x) : end]


class Made:
    """Predictions that are right more often than not, over several batches, the last of them not full."""

    def __init__(self, n: int = 2 * BATCH + 77, labels: range = range(CLASSES), device: str = "cpu") -> None:
        random = np.random.RandomState(0)
        self.labels = random.choice(labels, n)
        self.logits = 2 * random.randn(n, CLASSES).astype(np.float32)
        self.logits[np.arange(n), self.labels] += 1
        self.predicted = self.logits.argmax(1)
        self.device = device

    def evaluated(self, **options: bool) -> dict[str, Any]:
        n = len(self.labels)
        part = Part(Domain("a", np.zeros((n, 2, 2, 1), np.uint8), self.labels), np.arange(n), self.device)
        return evaluate(Told(torch.from_numpy(self.logits).to(self.device)), part, Inputs("none", 2), **options)


@pytest.fixture
def made() -> Made:
    return Made()


def test_accuracy_and_loss_are_means_over_all_images_however_they_fall_into_batches(made: Made) -> None:
    found = made.evaluated()
    probabilities = torch.from_numpy(made.logits).softmax(1).double()
    assert found["accuracy"] == metrics.accuracy_score(made.labels, made.predicted)
    assert found["loss"] == pytest.approx(metrics.log_loss(made.labels, probabilities / probabilities.sum(1, True)))
    assert list(found) == ["accuracy", "loss", "count"]
    assert found["count"] == len(made.labels)


def test_counts_leave_accuracy_and_loss_as_they_are_and_are_plain_json(made: Made) -> None:
    found = made.evaluated(counts=True)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert {name: found[name] for name in ("accuracy", "loss", "count")} == made.evaluated()


def test_confusion_counts_are_those_of_sklearn(made: Made) -> None:
    found = made.evaluated(counts=True)["confusion"]
    assert found == metrics.confusion_matrix(made.labels, made.predicted).tolist()
    assert counts.accuracy(found) == metrics.accuracy_score(made.labels, made.predicted)


def test_calibration_counts_are_those_of_a_calibration_curve(made: Made) -> None:
    found = made.evaluated(counts=True)["calibration"]
    confidence = torch.from_numpy(made.logits).softmax(1).numpy().max(1)
    right = made.predicted == made.labels
    true, mean = calibration.calibration_curve(right, confidence, n_bins=counts.BINS)
    filled = np.asarray(found["count"]) > 0
    assert (~filled).any()  # nothing is less confident than one in seven
    assert np.asarray(found["correct"])[filled] / np.asarray(found["count"])[filled] == pytest.approx(true)
    assert np.asarray(found["confidence"])[filled] / np.asarray(found["count"])[filled] == pytest.approx(mean)
    weights = np.asarray(found["count"])[filled] / len(right)
    assert counts.calibration_error(found) == pytest.approx(float(np.sum(weights * abs(true - mean))))


@pytest.mark.parametrize("labels", [range(CLASSES), range(2, 5)], ids=["every class", "three classes only"])
def test_measures_from_counts_are_those_of_sklearn_from_predictions(labels: range) -> None:
    made = Made(labels=labels)
    found = counts.measures(made.evaluated(counts=True))
    recalls = metrics.recall_score(made.labels, made.predicted, labels=list(labels), average=None)
    assert found["balanced_accuracy"] == pytest.approx(recalls.mean())
    assert found["macro_f1"] == pytest.approx(metrics.f1_score(made.labels, made.predicted, average="macro"))


def test_balanced_accuracy_is_that_of_sklearn(made: Made) -> None:
    found = counts.balanced_accuracy(made.evaluated(counts=True)["confusion"])
    assert found == pytest.approx(metrics.balanced_accuracy_score(made.labels, made.predicted))


def test_full_confidence_falls_into_the_last_bin() -> None:
    made = Made(3)
    made.logits[:] = [0, 0, 0, 1000, 0, 0, 0]
    found = made.evaluated(counts=True)["calibration"]
    assert found["count"] == [0] * (counts.BINS - 1) + [3]
    assert found["confidence"][-1] == 3.0


def test_without_counts_there_are_the_two_plain_measures(made: Made) -> None:
    assert list(counts.measures(made.evaluated())) == ["accuracy", "loss"]


def test_the_worst_domain_is_named_with_its_accuracy() -> None:
    parts = {name: Made(40 * (at + 1)).evaluated(counts=True) for at, name in enumerate(["a", "b"])}
    scores = {name: part["accuracy"] for name, part in parts.items()}
    assert counts.worst(parts) == min(scores.items(), key=lambda item: item[1])


def test_what_is_tested_on_all_of_a_target_is_measured_on_all_of_it() -> None:
    parts = {name: Made(40 * (at + 1)).evaluated(counts=True) for at, name in enumerate(["main", "holdout"])}
    assert counts.tested(parts, "main") is parts["main"]
    whole = counts.tested(parts, "all")
    assert whole["accuracy"] == pytest.approx(counts.accuracy(whole["confusion"]))
    assert whole["count"] == np.sum(whole["confusion"]) == sum(whole["calibration"]["count"])
    both = np.add(parts["main"]["confusion"], parts["holdout"]["confusion"])
    assert counts.measures(whole)["macro_f1"] == counts.macro_f1(both)
    sparse = {**parts["main"], "confusion": {"classes": 60, "true": [3, 4], "predicted": [3, 5], "images": [2, 1]}}
    assert counts.tested({"main": sparse, "holdout": sparse}, "all")["confusion"][4, 5] == 2


def test_the_device_is_waited_for_once_however_many_batches(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: Counter[str] = Counter()
    for name in ("item", "cpu", "numpy", "__bool__", "__float__", "__int__", "nonzero"):
        real = getattr(torch.Tensor, name)
        counting = lambda *given, name=name, real=real: (waits.update([name]), real(*given))[1]  # noqa: E731
        monkeypatch.setattr(torch.Tensor, name, counting)
    made.evaluated(counts=True)
    assert waits == {"cpu": 1, "numpy": 1}  # the second of what is here already


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_on_a_gpu_more_batches_do_not_mean_more_waiting_and_the_counts_are_the_same() -> None:
    def waits(batches: int) -> int:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            Made(batches * BATCH, device="cuda").evaluated(counts=True)
            torch.cuda.set_sync_debug_mode("default")
        return len(caught)

    waits(1)  # the first call on a device initialises it
    assert waits(1) == waits(4) > 0
    found, expected = (Made(device=device).evaluated(counts=True) for device in ("cuda", "cpu"))
    assert found["confusion"] == expected["confusion"]
    assert found["calibration"]["count"] == expected["calibration"]["count"]
    assert found["calibration"]["confidence"] == pytest.approx(expected["calibration"]["confidence"])


def test_an_algorithm_is_evaluated_on_the_rows_of_its_part_as_it_predicts() -> None:
    data = stripes("abc")
    rows = np.arange(0, 30, 2)
    torch.manual_seed(0)
    algorithm = create("erm").setup(build("small", data.shape, len(data.classes)))
    inputs = Inputs("none", 8)
    found = evaluate(algorithm, Part(data["a"], rows, "cpu"), inputs, counts=True)
    predicted = algorithm.predict(inputs.recipe.plain(torch.from_numpy(data["a"].images[rows]))).argmax(1)
    assert found["confusion"] == metrics.confusion_matrix(data["a"].labels[rows], predicted, labels=[0, 1]).tolist()
    assert found["count"] == 15


def test_reading_counts_needs_no_torch() -> None:
    code = "import sys, domainwise.experiment.metrics; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_of_many_classes_only_what_is_not_zero_is_kept_and_measures_the_same() -> None:
    random = np.random.RandomState(0)
    table = np.zeros((300, 300), np.int64)
    table[random.randint(0, 300, 900), random.randint(0, 300, 900)] += 1
    kept = counts.kept(table)
    assert np.array_equal(counts.whole(kept), table)
    assert len(json.dumps(kept)) < len(json.dumps(table.tolist())) / 10
    for measure in (counts.accuracy, counts.balanced_accuracy, counts.macro_f1):
        assert measure(kept) == measure(table.tolist())
    assert counts.kept(table[:7, :7]) == table[:7, :7].tolist()


def test_a_thousand_classes_take_little_room_and_the_estimate_has_it(tmp_path: Path) -> None:
    random = np.random.RandomState(0)
    pixels = random.randint(0, 256, (1000, 4, 4, 1)).astype(np.uint8)
    data = domains({name: (pixels, np.arange(1000)) for name in "ab"}, name="thousand")
    (trial,) = plan(data, parse("erm"), [("b",)], [0], resolve(given={"steps": 2, "evaluate_every": 1, "batch": 4}))
    needed = disk_needed(trial, data, keep="none")
    assert execute(trial, data, tmp_path, RunOptions(keep="none"))["status"] == "finished"
    counted, seen = ((tmp_path / name).stat().st_size for name in ("counts.json", "outcomes.npz"))
    assert counted + seen < needed.afterwards < 4 * counted + 1.1 * seen
    assert counted < 200_000
    assert seen < 100 * 1200 * 1.1  # bytes for each of the images of a target and a holdout, and names
    part = json.loads((tmp_path / "counts.json").read_text())["model"]["b"]["main"]
    assert counts.accuracy(part["confusion"]) == part["accuracy"]
    assert counts.whole(part["confusion"]).sum(1).max() == 1
