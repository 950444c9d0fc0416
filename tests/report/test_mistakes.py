"""The gallery of the worst mistakes: the right images, and pictures only of what may be shown."""

from __future__ import annotations

import base64
import io
import re
import shutil
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_data import stripes
from made_outcomes import Study
from PIL import Image

import domainwise as dw
from domainwise.experiment import outcomes
from domainwise.report.page.mistakes import SHOWN, Gallery, gallery, worst
from domainwise.report.results import Results


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A model that has hardly learned anything, so that it makes mistakes."""
    folder = tmp_path_factory.mktemp("compared")
    return dw.compare(stripes(), "erm", seeds=2, steps=2, set={"lr": 1e-6}, output=folder)


def made(results: Results, pictures: bool | None = None) -> Gallery:
    return gallery(results.recommend(), results.outcomes, results.data, pictures)


def test_the_worst_are_those_with_the_highest_mean_probability_of_a_wrong_class(results: Results) -> None:
    target = results.outcomes[0].trial.targets[0]
    trials = [one for one in results.outcomes if one.trial.targets == (target,)]
    assert len(trials) == 2
    rows, labels = defaultdict(list), {}
    for one in trials:
        for part in outcomes.read(one)[target].values():
            for at, label, shares in zip(part.index, part.label, part.probabilities(), strict=True):
                rows[int(at)].append(shares)
                labels[int(at)] = int(label)
    means = {at: np.mean(shares, 0) for at, shares in rows.items()}
    wrong = [at for at, mean in means.items() if mean.argmax() != labels[at]]
    expected = sorted((float(means[at].max()) for at in wrong), reverse=True)[:SHOWN]
    assert expected
    found = worst(trials, target)
    assert [one.confidence for one in found] == pytest.approx(expected)
    assert all(one.taken == means[one.position].argmax() != one.label == labels[one.position] for one in found)


def test_pictures_are_the_images_and_stand_in_the_page(results: Results) -> None:
    found = made(results)
    assert found.note == ""
    assert results.data is not None
    target, (first, *_) = next(iter(found.targets.items()))
    position = int(re.findall(r"image (\d+):", first.told)[0])
    content = base64.b64decode(first.picture.removeprefix("data:image/jpeg;base64,"))
    drawn = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"), float).mean((0, 1))
    own = results.data[target].images[position].astype(float).mean((0, 1))
    assert drawn == pytest.approx(np.repeat(own, 3), abs=1)
    page = results.report(results.folder / "report.html").read_text(encoding="utf-8")
    assert first.picture in page
    assert 'id="mistakes"' in page


def test_pictures_of_a_named_benchmark_are_shown_only_where_they_are_asked_for(results: Results) -> None:
    assert results.data is not None
    named = replace(results, data=replace(results.data, name="pacs"))
    assert not any(one.picture for found in made(named).targets.values() for one in found)
    assert "only where they are asked for" in made(named).note
    assert all(one.picture for found in made(named, pictures=True).targets.values() for one in found)
    assert not any(one.picture for found in made(results, pictures=False).targets.values() for one in found)


def test_without_the_data_the_mistakes_are_told_in_words(results: Results) -> None:
    found = made(replace(results, data=None))
    assert "--data DATA" in found.note
    assert found.targets.keys() == made(results).targets.keys()
    page = replace(results, data=None).report(results.folder / "report.html").read_text(encoding="utf-8")
    assert "data:image/jpeg" not in page
    assert "taken for" in page


def test_other_data_are_not_taken_for_those_that_were_compared(results: Results) -> None:
    assert results.data is not None
    other = replace(results, data=replace(results.data, fingerprint="0" * 64, plain=""))
    assert "not those of this comparison" in made(other).note


def test_results_without_outcomes_say_what_is_missing(tmp_path: Path) -> None:
    study = Study(tmp_path).add("erm", 0.6).add("erm", 0.7, seed=1)
    found = Results(tuple(study.outcomes), tmp_path)
    assert made(found).targets == {}
    assert "kept no outcomes.npz" in found.report(tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_command_says_at_once_that_other_data_were_named_and_bears_a_folder_of_damaged_trials(
    results: Results, domainwise: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    folder = shutil.copytree(results.folder, tmp_path / "out")
    code, _, said = domainwise("report", folder, "--data", "digits")
    assert code == 0
    assert "digits is not the data of this comparison, so that the page has no pictures" in said
    for file in folder.glob("trials/*/trial.json"):
        file.write_bytes(b"")
    code, _, said = domainwise("report", folder, "--data", "digits")
    assert code == 0
    assert "damaged and left out" in said
    with pytest.raises(dw.InputError, match="no trial has come to an end, so nothing can be recommended"), warned():
        Results.open(folder).recommend()


def warned() -> AbstractContextManager[object]:
    return pytest.warns(UserWarning, match="damaged and left out")
