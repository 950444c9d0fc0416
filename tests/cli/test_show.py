"""``domainwise show``: the number that is reported, and why, in words that the records bear out."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from made_outcomes import Study
from made_seals import reseal
from typer.testing import CliRunner

from domainwise.cli.commands.report import show
from domainwise.errors import InputError
from domainwise.experiment.records import append, read
from domainwise.experiment.selection import selected, summary
from domainwise.experiment.trial import Trial

Show = Callable[..., str]


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path / "out")


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Show:
    """What the command prints in the folder above the results, as one line of single-spaced words."""
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    app.command()(show)

    def call(run: object, *, raw: bool = False) -> str:
        out = CliRunner().invoke(app, [str(run)], catch_exceptions=False).stdout
        return out if raw else " ".join(out.split())

    return call


def only(study: Study) -> Path:
    (outcome,) = study.outcomes
    return outcome.folder


def test_the_number_reported_is_named_with_its_part_step_and_reason(study: Study, told: Show) -> None:
    study.add("arith", 0.812, validation=0.95)
    said = told(only(study))
    assert (
        "The number reported is 81.2 %: accuracy on the main part (80 %, 60 images) of the target 75, at step 250."
        in said
    )
    assert "Step 250 was chosen because it had the best validation accuracy" in said
    assert "(mean over the source domains' hold-outs): 95.0 %, of 6 evaluations." in said
    assert f"The last step (300) would have given {100 * 0.98 * 0.812:.1f} %" in said


def test_the_reported_record_is_marked_in_the_table(study: Study, told: Show) -> None:
    study.add()
    lines = told(only(study), raw=True).splitlines()
    (marked,) = [line for line in lines if "<- reported" in line]
    assert marked.split()[0] == "250"
    assert len([line for line in lines if re.match(r" *\d+ +\d\.\d{4} ", line)]) == 6


def test_settings_versions_and_the_fingerprint_of_the_data_are_said(study: Study, told: Show) -> None:
    study.add("fish", hyperparameters={"lr": 0.001, "inner": "sgd"}, seed=4)
    said = told(only(study))
    assert f"fish on 75, seed 4: trial {only(study).name}, finished" in said
    assert f"fingerprint {'f00d' * 8}" in said
    assert "fish: lr=0.001, inner=sgd" in said
    assert "torch 2.13.0" in said


def test_a_trial_tested_on_all_of_its_target_says_so(study: Study, told: Show) -> None:
    study.add(test="all")
    rewrite(only(study), [(0.5, 0.9, 0.1)])
    assert "accuracy on both parts (100 %, 50 images) of the target 75" in told(only(study))


def test_steps_that_selection_may_not_choose_are_not_counted(study: Study, told: Show) -> None:
    study.add(select_every=20)
    rewrite(only(study), [(0.5, 0.1, 0.1), (0.8, 0.2, 0.1), (0.6, 0.3, 0.1), (0.4, 0.4, 0.1)])
    assert "Step 20 was chosen" in told(only(study))
    assert "60.0 %, of 3 evaluations" in told(only(study))


@pytest.mark.parametrize(
    ("rule", "step", "reason"), [("last", 20, "it is the last one."), ("pooled", 10, "all held-out")]
)
def test_the_reason_is_that_of_the_trials_own_rule(study: Study, told: Show, rule: str, step: int, reason: str) -> None:
    study.add(selection=rule)
    rewrite(only(study), [(0.5, 0.9, 0.1), (0.8, 0.4, 0.2), (0.7, 0.5, 0.3)])
    said = told(only(study))
    assert f"Step {step} was chosen because" in said
    assert reason in said


def test_an_average_beside_the_model_has_its_own_number(study: Study, told: Show) -> None:
    study.add()
    best = json.loads((only(study) / "result.json").read_text())["selected"]
    reseal(only(study), averages={"swad": {"selected": {**best, "step": 300, "target": 0.835}}})
    assert '("swad") are reported as a model of their own: 83.5 % at step 300.' in told(only(study))


def rewrite(folder: Path, accuracies: list[tuple[float, float, float]]) -> None:
    """Records with these accuracies (validation, target main, target hold-out) at steps 0, 10, ..., and a result."""
    (folder / "records.jsonl").unlink()
    trial = Trial.from_json(json.loads((folder / "trial.json").read_text()))
    for at, (validation, main, holdout) in enumerate(accuracies):
        domains = {"0": {"holdout": {"accuracy": validation, "count": 10}}}
        domains["75"] = {"main": {"accuracy": main, "count": 40}, "holdout": {"accuracy": holdout, "count": 10}}
        append(folder / "records.jsonl", {"step": 10 * at, "seconds": 1.0, "loss": None, "domains": domains})
    records = list(read(folder / "records.jsonl"))
    chosen = summary(selected(records, trial), trial.targets, trial.test)
    reseal(folder, selected=chosen)


def test_ties_the_oracle_and_hindsight_are_told(study: Study, told: Show) -> None:
    study.add()
    rewrite(only(study), [(0.5, 0.9, 0.1), (0.8, 0.4, 0.2), (0.8, 0.5, 0.3)])
    said = told(only(study))
    assert "Step 10 was chosen" in said
    assert "80.0 %, of 3 evaluations, as the first of 2 with the same value" in said
    assert "The last step (20) would have given 50.0 %, which is what the oracle takes" in said
    assert "hold-out (30.0 %)" in said
    assert "The best in hindsight, which no rule may pick, was 90.0 % at step 0." in said


def test_where_the_last_step_is_the_chosen_one_this_is_said(study: Study, told: Show) -> None:
    study.add()
    rewrite(only(study), [(0.5, 0.9, 0.1), (0.8, 0.4, 0.2)])
    assert "That is the last step as well" in told(only(study))


def test_a_trial_that_diverged_reports_no_number_and_says_why(study: Study, told: Show) -> None:
    study.add(status="diverged", ended=120)
    assert 'No number is reported: the loss on domain "15" is not finite at step 120' in told(only(study))


def test_a_trial_that_still_runs_says_how_far_it_is(study: Study, told: Show) -> None:
    study.add()
    folder = only(study)
    (folder / "result.json").unlink()
    assert "has not come to an end. It has 6 evaluations so far." in told(folder)


@pytest.mark.parametrize("form", ["out/trials/{id}", "out/{id}", "out/{short}", "out/trials/{short}", "out"])
def test_a_trial_is_found_by_its_folder_its_output_folder_or_the_beginning_of_its_id(
    study: Study, told: Show, form: str
) -> None:
    study.add(accuracy=0.7)
    name = only(study).name
    assert f"trial {name}, finished" in told(form.format(id=name, short=name[:5]))


def test_a_bare_id_is_looked_for_where_results_go_by_default(tmp_path: Path, told: Show) -> None:
    study = Study(tmp_path / "domainwise-runs" / "compare-1234").add()
    name = only(study).name
    assert f"trial {name}, finished" in told(name[:6])


def test_several_trials_are_listed_with_the_number_of_each(study: Study, told: Show) -> None:
    study.add("erm", 0.7, label="erm").add("arith", 0.8, label="arith")
    study.add("fish", status="failed", seed=1, label="fish")
    said = told("out", raw=True).splitlines()
    assert said[0].split() == ["id", "algorithm", "target", "seed", "status", "step", "validation", "reported"]
    rows = [line.split()[1:] for line in said[1:4]]
    assert rows == [
        ["arith", "75", "0", "finished", "250", "95.0", "80.0"],
        ["erm", "75", "0", "finished", "250", "95.0", "70.0"],
        ["fish", "75", "1", "failed", "-", "-", "-"],
    ]
    assert said[-1].endswith("domainwise show out/ID")


def test_of_several_draws_of_one_seed_the_one_that_tables_use_is_named(study: Study, told: Show) -> None:
    study.add(hyperparameters={"lr": 0.1}, validation=0.9).add(hyperparameters={"lr": 0.2}, validation=0.8)
    better, worse = sorted(study.outcomes, key=lambda one: one.trial.hyperparameters["lr"])
    assert "Tables use this trial: of the 2 of its seed it has the best validation accuracy (90.0 %)." in told(
        better.folder
    )
    assert f"Tables use another trial of this seed, {better.trial.id}" in told(worse.folder)


def test_what_is_no_trial_is_refused_with_a_sentence(study: Study, told: Show) -> None:
    study.add()
    for nothing in ("nowhere", "out/zzz", "out/*"):
        with pytest.raises(InputError, match="is no trial: give the folder"):
            told(nothing)


def test_showing_needs_no_torch() -> None:
    modules = ["report.explain", "interop.domainbed_tables", "interop.domainbed_trials"]
    imports = "; ".join(f"import domainwise.{name}" for name in modules)
    code = f"{imports}; import sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
