from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from made_data import stripes
from made_trials import DATA, run, trial

import domainwise as dw
from domainwise import InputError
from domainwise.data.splits import split_domain
from domainwise.experiment import metrics
from domainwise.experiment.integrity import Damaged, digest, sealed
from domainwise.experiment.outcomes import TOP, Seen, read, write
from domainwise.experiment.records import publish
from domainwise.experiment.results import OUTCOMES, Outcome, outcome, variants
from domainwise.files import sha256
from domainwise.saved_models.evaluation import _largest

TRIAL = trial("erm", average="ma(start=5)", dropout=0.0, validation="augmented")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trial")
    run(TRIAL, folder)
    return folder


def altered(home: Path, folder: Path) -> Path:
    """A copy of what is read of a trial."""
    for name in ("trial.json", "result.json", OUTCOMES):
        (folder / name).write_bytes((home / name).read_bytes())
    return folder


def test_outcomes_are_of_the_hold_outs_and_the_targets_and_agree_with_the_counts(home: Path) -> None:
    counts = json.loads((home / "counts.json").read_text())
    assert len(variants([outcome(home)])) == 2
    for one in variants([outcome(home)]):
        seen = read(one)
        assert {name: {*parts} for name, parts in seen.items()} == {
            "a": {"holdout"},
            "b": {"holdout"},
            "c": {"main", "holdout"},
        }
        for i, domain in enumerate(DATA):
            rows = dict(zip(("main", "holdout"), split_domain(domain, i, TRIAL.holdout, TRIAL.seed), strict=True))
            for part, found in seen[domain.name].items():
                assert found.index.tolist() == rows[part].tolist()
                assert found.label.tolist() == domain.labels[rows[part]].tolist()
                table = np.zeros((2, 2), int)
                np.add.at(table, (found.label, found.predicted), 1)
                counted = counts[one.average or "model"][domain.name][part]
                assert np.array_equal(table, metrics.whole(counted["confusion"]))
                surprise = -np.log(found.probabilities()[np.arange(len(found)), found.label])
                assert surprise.mean() == pytest.approx(counted["loss"], abs=1e-5)


def test_logits_are_those_of_the_model_that_was_kept(home: Path) -> None:
    for which, one in zip(("best", "ma"), variants([outcome(home)]), strict=True):
        found = read(one)["c"]["main"]
        model = dw.load(home, which=which)
        made = model.probabilities(DATA["c"].images[found.index])
        assert np.allclose(made, found.probabilities(), atol=1e-5)


def test_a_trial_that_keeps_no_models_keeps_the_same_outcomes(home: Path, tmp_path: Path) -> None:
    run(TRIAL, tmp_path, keep="none", snapshots=0)
    assert not (tmp_path / "best").exists()
    assert sha256(tmp_path / OUTCOMES) == sha256(home / OUTCOMES)


@pytest.mark.parametrize("classes", [51, 300])
def test_of_many_classes_the_probabilities_that_are_kept_are_exact(tmp_path: Path, classes: int) -> None:
    torch.manual_seed(0)
    logits, label = 3 * torch.randn(40, classes), torch.randint(classes, (40,))
    label[:5] = logits[:5].argmax(1)
    columns = {name: column.numpy() for name, column in _largest(logits, label).items()}
    rows = np.arange(40)
    table = {"x": {"main": {"index": rows, "label": label.numpy(), **columns}}}
    write(tmp_path / OUTCOMES, classes, {"model": (7, table)})
    one = Outcome(TRIAL, {"status": "finished", "files": {OUTCOMES: digest(tmp_path / OUTCOMES)}}, tmp_path)
    seen = read(one)["x"]["main"]
    expected, found = logits.double().softmax(1).numpy(), seen.probabilities()
    top = expected.argsort(1)[:, -TOP:]
    assert np.allclose(found[rows[:, None], top], expected[rows[:, None], top], atol=1e-6)
    assert np.allclose(found[rows, label], expected[rows, label], atol=1e-6)
    assert np.array_equal(seen.predicted, expected.argmax(1))
    assert found.sum(1) == pytest.approx(1)


def test_a_temperature_above_one_makes_probabilities_milder_and_keeps_the_class() -> None:
    seen = Seen(3, {"index": np.arange(1), "label": np.zeros(1), "logits": np.array([[2.0, 1.0, -1.0]])})
    assert seen.probabilities(2.0)[0].tolist() == pytest.approx(torch.tensor([1, 0.5, -0.5]).softmax(0).tolist())


def test_a_result_without_outcomes_says_what_is_missing(home: Path) -> None:
    one = outcome(home)
    old = replace(one, result={**one.result, "files": {}})
    with pytest.raises(InputError, match=r"has no outcomes.npz: the trial was run by a version that kept no outcomes"):
        read(old)
    with pytest.raises(InputError, match="the trial has diverged"):
        read(replace(old, result={**old.result, "status": "diverged"}))
    with pytest.raises(InputError, match="has nothing of swad"):
        read(replace(one, average="swad"))


def test_an_old_result_that_is_committed_is_read_and_has_none() -> None:
    found = dw.Results.open(Path(__file__).parents[2] / "results" / "pacs").outcomes
    with pytest.raises(InputError, match=r"has no outcomes.npz"):
        read(found[0])


@pytest.mark.parametrize("damage", ["truncate", "empty", "flip", "gone", "folder"])
def test_damaged_outcomes_are_a_sentence_and_can_be_made_again(home: Path, tmp_path: Path, damage: str) -> None:
    path = altered(home, tmp_path) / OUTCOMES
    content = path.read_bytes()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage != "gone":
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        path.write_bytes({"truncate": content[:-9], "empty": b"", "flip": flipped}[damage])
    with pytest.raises(Damaged, match=r"outcomes.npz (has changed|is missing|is damaged)"):
        read(outcome(tmp_path))
    assert outcome(tmp_path).result["status"] == "finished"  # its numbers are whole


@pytest.mark.parametrize("content", [b"not a zip file", b""])
def test_a_file_that_was_never_outcomes_is_a_sentence(home: Path, tmp_path: Path, content: bytes) -> None:
    path = altered(home, tmp_path) / OUTCOMES
    path.write_bytes(content)
    result = json.loads((tmp_path / "result.json").read_text())
    result.pop("checksum")
    publish(tmp_path / "result.json", sealed({**result, "files": {**result["files"], OUTCOMES: digest(path)}}))
    with pytest.raises(Damaged, match="holds no outcomes"):
        read(outcome(tmp_path))


def test_check_finds_damaged_outcomes_and_the_trial_is_run_again(tmp_path: Path) -> None:
    def compared() -> dw.Results:
        return dw.compare(stripes(), "erm", targets="c", seeds=1, steps=6, evaluate_every=3, output=tmp_path)

    (one,) = compared().outcomes
    before = read(one)["c"]["main"].logits
    (one.folder / OUTCOMES).write_bytes(b"something else")
    (found,) = dw.check(tmp_path).damaged
    assert found.path == one.folder / OUTCOMES
    assert not dw.check(tmp_path, repair=True).damaged
    (again,) = compared().outcomes
    assert np.array_equal(read(again)["c"]["main"].logits, before)
    assert not dw.check(tmp_path).findings
    (again.folder / OUTCOMES).unlink()  # on purpose, to save room
    assert not dw.check(tmp_path).findings
