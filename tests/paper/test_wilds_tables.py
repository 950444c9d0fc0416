"""Table 5 and the tables of the other sets of WILDS, end to end on data in their layouts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from made_trials import Killed, die, remains, run
from made_wilds import camelyon17, civilcomments, iwildcam

import domainwise as dw
from domainwise.__main__ import main
from domainwise.algorithms import specs_of
from domainwise.data.sources.open import open_data
from domainwise.experiment.settings import resolve
from domainwise.training.plan import plan

SHORT = ["--seeds", "1", "--steps", "4", "--processes", "1", "--quiet", "-o", "out"]
SMALL = ["--set", "erm_updates=2", "--set", "batch=2", "--set", "evaluate_every=2"]


@pytest.fixture
def reproduce(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """The command, run in this process and in an empty folder: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["domainwise", "reproduce", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return int(end.value.code or 0), said.out, said.err

    return call


def test_table_5_is_measured_by_slide_beside_the_papers(reproduce: Any, tmp_path: Path) -> None:
    data = f"camelyon17={camelyon17(tmp_path / 'data', each=4, side=12)}"
    small = [*SMALL, "--size", "12", "--network", "small"]
    code, out, err = reproduce("table5", "--data", data, *small, *SHORT, "--format", "json")
    assert code == 0, err
    found = json.loads(out)
    (section,) = found["sections"]
    assert [row["name"] for row in section["rows"]] == ["ERM", "Fish", "Arith"]
    outcomes = {one.trial.algorithm: one for one in dw.Results.open(tmp_path / "out").outcomes}
    for row in section["rows"]:
        outcome = outcomes[row["algorithm"]]
        cells = {cell["column"]: cell for cell in row["cells"]}
        assert [*cells] == [*map(str, range(20, 30)), "Avg"]
        chosen = next(one for one in outcome.records() if one["step"] == outcome.selected["step"])
        test = chosen["domains"]["official"]["main"]
        for slide in ("20", "21", "22"):
            assert cells[slide]["selected"]["mean"] == test["metrics"][f"slide:{slide}"]
        assert (cells["23"]["selected"]["mean"], cells["23"]["selected"]["note"]) == (
            None,
            "not run",
        )  # it is not there
        assert cells["Avg"]["selected"]["mean"] == test["accuracy"] == test["metrics"]["accuracy"]
        assert test["count"] == 3 * 2 * 4
        assert cells["Avg"]["paper"] == pytest.approx({"ERM": 0.731, "Fish": 0.748, "Arith": 0.766}[row["name"]])
        assert outcome.trial.erm_updates == (0 if outcome.trial.algorithm == "erm" else 2)
    assert "steps 4 instead of 20 epochs" in " ".join(found["notes"])
    text = " ".join((tmp_path / "out" / "reproduce" / "table5.txt").read_text().split())
    assert "on the test set of the official split, at the step chosen on the validation set" in text
    assert "failed or diverged" not in text
    again = reproduce("table5", "--from", "out", "--format", "json")
    assert json.loads(again[1])["sections"] == found["sections"]
    code, out, err = reproduce("table5", "--data", data, *SHORT, "--targets", "hospital2")
    assert code == 2
    assert "table5 goes by the official split of camelyon17: leave --targets out" in err
    code, out, err = reproduce("wilds", "--data", data, *SHORT)
    assert code == 2
    assert "wilds cannot be made of camelyon17: give --data iwildcam=DIR or fmow=DIR" in err


def test_the_other_sets_are_shown_by_what_they_are_judged_by(reproduce: Any, tmp_path: Path) -> None:
    data = f"iwildcam={iwildcam(tmp_path / 'data')}"
    small = [*SMALL, "--size", "20", "--set", "domains_per_step=2", "--network", "small"]
    code, out, err = reproduce("wilds", "--data", data, *small, *SHORT, "--algorithms", "fish", "--format", "json")
    assert code == 0, err
    (section,) = json.loads(out)["sections"]
    cells = {cell["column"]: cell["selected"]["mean"] for cell in section["rows"][1]["cells"]}
    outcome = dw.Results.open(tmp_path / "out").outcomes[0]
    chosen = next(one for one in outcome.records() if one["step"] == outcome.selected["step"])
    test = chosen["domains"]["official"]["main"]
    assert cells == {"IWILDCAM macro f1": test["metrics"]["macro_f1"], "IWILDCAM accuracy": test["accuracy"]}


def test_texts_are_trained_on_by_the_same_command(reproduce: Any, tmp_path: Path) -> None:
    data = f"civilcomments={civilcomments(tmp_path / 'data')}"
    code, out, err = reproduce("wilds", "--data", data, *SMALL, *SHORT, "--format", "json")
    assert code == 0, err
    (section,) = json.loads(out)["sections"]
    for row in section["rows"]:
        (outcome,) = (
            one for one in dw.Results.open(tmp_path / "out").outcomes if one.trial.algorithm == row["algorithm"]
        )
        assert (outcome.trial.network, outcome.trial.domains_per_step) == ("words", 5)
        chosen = next(one for one in outcome.records() if one["step"] == outcome.selected["step"])
        worst = chosen["domains"]["official"]["main"]["metrics"]["worst_group"]
        assert row["cells"][0]["column"] == "CIVILCOMMENTS worst group"
        assert row["cells"][0]["selected"]["mean"] == worst


def test_a_killed_trial_on_an_official_split_goes_on_exactly(tmp_path: Path) -> None:
    data = open_data(f"camelyon17={camelyon17(tmp_path / 'data', each=4, side=8)}", size=8)
    given = {"network": "small", "weights": "none", "input_size": 8, "batch": 2, "steps": 20, "erm_updates": 7}
    settings = resolve("fish", benchmark="camelyon17", device="cpu", given={**given, "evaluate_every": 6})
    (one,) = plan(data, specs_of("arith"), [("official",)], [0], settings)
    run(one, tmp_path / "whole", data=data)
    with pytest.raises(Killed):
        run(one, tmp_path / "killed", data=data, at=13, then=die)
    assert run(one, tmp_path / "killed", data=data) == ["resumes at step 10"]
    assert remains(tmp_path / "killed") == remains(tmp_path / "whole")
