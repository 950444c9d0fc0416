from __future__ import annotations

import os
import signal
from contextlib import nullcontext
from pathlib import Path

import pytest
from made_data import stripes

from domainwise import InputError, compare
from domainwise.api import Results, prepare
from domainwise.errors import Note
from domainwise.experiment.results import Outcome
from domainwise.experiment.settings import resolve
from domainwise.sweeps.engine import Engine
from domainwise.training.targets import seeds_of

DATA = stripes()
SHORT = {"targets": "c", "seeds": 2, "steps": 8}


def numbers(results: Results) -> dict[str, object]:
    return {outcome.trial.id: outcome.result["selected"] for outcome in results.outcomes}


FATAL = """
import os, signal
from pathlib import Path
from domainwise.algorithms import Algorithm, algorithm

@algorithm
class {name}(Algorithm):
    def update(self, batches):
        mark = Path(__file__).with_suffix(".died")
        if not mark.exists() or {always}:
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().update(batches)
"""
CHATTY = (
    FATAL.split("    def")[0].format(name="Chatty")
    + """
    def advice(self):
        return ""
    print("{not json")
"""
)


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Two processes at five trials: two well-behaved, one that prints, one that dies once and one that always does."""
    folder = tmp_path_factory.mktemp("apart")
    files = {
        "Chatty": CHATTY,
        **{name: FATAL.format(name=name, always=name == "Always") for name in ("Once", "Always")},
    }
    for name, text in files.items():
        (folder / f"{name.lower()}.py").write_text(text)
    deadly = [] if os.name == "nt" else ["Once", "Always"]  # there is no SIGKILL on Windows
    named = [f"{folder / name.lower()}.py:{name}" for name in ["Chatty", *deadly]]
    asked = {**SHORT, "seeds": 1, "output": folder / "out", "processes": 2}
    with pytest.warns(Note, match="Always: 1 failed, the first on c with seed 0: ") if deadly else nullcontext():
        return compare(DATA, ["erm", "arith", *named], **asked)


def of(results: Results, label: str) -> Outcome:
    (found,) = (outcome for outcome in results.outcomes if outcome.trial.label == label)
    return found


def test_processes_give_the_same_numbers_as_this_process(apart: Results, tmp_path: Path) -> None:
    here = compare(DATA, ["erm", "arith"], **{**SHORT, "seeds": 1}, output=tmp_path)
    assert len(here.outcomes) == 2
    assert numbers(here).items() <= numbers(apart).items()


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL on Windows")
def test_a_killed_process_costs_at_most_its_own_trial(apart: Results) -> None:
    status = {outcome.trial.label: outcome.result["status"] for outcome in apart.outcomes}
    others = dict.fromkeys(("erm", "arith", "Chatty", "Once"), "finished")
    assert status == {**others, "Always": "failed"}
    assert f"exit code {-signal.SIGKILL}" in of(apart, "Always").result["message"]
    assert "failed" in apart.table()


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL on Windows")
def test_how_often_a_trial_whose_process_died_is_tried_again_is_the_users_choice(
    tmp_path: Path, domainwise, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "once.py").write_text(FATAL.format(name="Once", always=False))
    asked = {**SHORT, "seeds": 1, "output": tmp_path / "out", "timeout": 600}  # in a process of its own
    with pytest.warns(Note, match="Once: 1 failed"):
        results = compare(DATA, f"{tmp_path / 'once.py'}:Once", **asked, retries=0)
    assert "its process ended once in the middle" in of(results, "Once").result["message"]
    seen: list[int | None] = []
    monkeypatch.setattr(Engine, "run", lambda engine, *_: seen.append(engine.retries))
    for more in ((), ("--retries", 5)):
        domainwise("compare", "--data", "digits", "--algorithms", "erm", "--steps", 2, "-o", tmp_path / "cli", *more)
    assert seen == [None, 5]
    with pytest.raises(InputError, match="retries says how many, so 0 or more, got -1"):
        Engine(retries=-1)


def test_what_an_algorithm_prints_does_not_disturb_its_process(apart: Results) -> None:
    assert of(apart, "Chatty").result["status"] == "finished"


def test_the_same_comparison_again_adds_what_is_missing_and_repeats_nothing(tmp_path: Path) -> None:
    started: list[str] = []

    def watch(trial, event) -> None:
        if "result" in event:
            started.append(f"{trial.label} {trial.seed}")

    compare(DATA, "erm", **SHORT, output=tmp_path, watch=watch)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.glob("trials/*/result.json")}
    results = compare(DATA, "erm,fish", **SHORT, output=tmp_path, watch=watch)
    assert started == ["erm 0", "erm 1", "fish 0", "fish 1"]
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())
    assert len(results.outcomes) == 4


def test_a_trial_without_a_result_is_run_again_from_clean_records(tmp_path: Path) -> None:
    first = compare(DATA, "erm", **SHORT, output=tmp_path)
    outcome = first.outcomes[0]
    records = outcome.records()
    (outcome.folder / "result.json").unlink()
    again = compare(DATA, "erm", **SHORT, output=tmp_path)
    assert numbers(first) == numbers(again)
    assert [r["step"] for r in again.outcomes[0].records()] == [r["step"] for r in records]


def test_results_can_be_opened_framed_and_reported(tmp_path: Path) -> None:
    compare(DATA, "erm,arith", **SHORT, output=tmp_path)
    results = Results.open(tmp_path)
    frame = results.frame()
    assert len(frame) == 4
    assert set(frame["algorithm"]) == {"erm", "arith"}
    assert "arith" in results.table("markdown")
    page = results.report(tmp_path / "report.html")
    assert "arith" in page.read_text()


def test_trials_with_other_settings_are_told_apart(tmp_path: Path) -> None:
    for steps in (2, 4):
        compare(DATA, "erm", targets="c", seeds=1, steps=steps, output=tmp_path)
    labels = {outcome.trial.label for outcome in Results.open(tmp_path).outcomes}
    assert labels == {"erm [steps=2]", "erm [steps=4]"}


def test_a_failed_trial_is_repeated_only_when_asked(tmp_path: Path) -> None:
    file = tmp_path / "fails.py"
    file.write_text(FATAL.split("        mark")[0].format(name="Fails") + '        raise RuntimeError("oh no")\n')
    comparison = prepare(
        DATA, f"{file}:Fails", targets="c", seeds=1, settings=resolve(given={"steps": 2}), output=tmp_path / "out"
    )
    assert len(comparison.missing()) == 1
    results = comparison.run(Engine(), lambda trial, event: None)
    assert "RuntimeError: oh no" in results.troubled[0].result["message"]
    assert "oh no" in (results.outcomes[0].folder / "error.txt").read_text()
    assert not comparison.missing()
    assert len(comparison.missing(retry_failed=True)) == 1


def test_settings_given_to_all_reach_those_that_have_them_and_yield_to_what_is_written() -> None:
    settings = resolve(given={"inner_lr": 0.02, "lr": 0.5})
    trials = prepare(DATA, "erm,arith,fish(inner_lr=0.03)", targets="c", seeds=1, settings=settings).trials
    found = {trial.label: (trial.hyperparameters["lr"], trial.hyperparameters.get("inner_lr")) for trial in trials}
    assert found == {"erm": (0.5, None), "arith": (0.5, 0.02), "fish(inner_lr=0.03)": (0.5, 0.03)}
    with pytest.raises(InputError, match='has a hyperparameter "iner_lr"'):
        prepare(DATA, "erm,arith", settings=resolve(given={"iner_lr": 1}))


def test_an_average_asked_for_later_runs_those_that_lack_it(tmp_path: Path) -> None:
    short = {"targets": "c", "seeds": 1, "steps": 8, "output": tmp_path}
    plain = compare(DATA, "erm", **short)
    both = compare(DATA, "erm", **short, average="ma(start=2)")
    again = compare(DATA, "erm", **short)
    assert [outcome.trial.label for outcome in both.outcomes] == ["erm", "erm + ma(start=2)"]
    assert plain.outcomes[0].result["selected"] == both.outcomes[0].result["selected"]
    assert "erm + ma" in again.table()


def test_targets_may_be_held_out_together() -> None:
    def targets(text: str) -> list[tuple[str, ...]]:
        return [trial.targets for trial in prepare(DATA, "erm", targets=text, seeds=1).trials]

    assert targets("c,a") == [("c",), ("a",)]
    assert targets("c+a") == [("a", "c")]
    assert targets("pairs") == [("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("b", "c")]
    with pytest.raises(InputError, match="leaves no domain to train on"):
        targets("a+b+c")


def test_the_default_folder_is_shared_by_what_belongs_in_one_table() -> None:
    def folder(algorithms: str, **settings) -> Path:
        return prepare(DATA, algorithms, seeds=settings.pop("seeds", 3), settings=resolve(given=settings)).folder

    assert folder("erm") == folder("arith,fish") == folder("erm", seeds=1)
    assert folder("erm") != folder("erm", steps=7)


@pytest.mark.parametrize(
    ("given", "seeds"),
    [
        (3, [0, 1, 2]),
        ("3", [0, 1, 2]),
        ("5-5", [5]),
        ("100-102,7, 9", [100, 101, 102, 7, 9]),
        ([9, 4], [9, 4]),
    ],
)
def test_seeds_are_how_many_or_which(given: object, seeds: list[int]) -> None:
    assert seeds_of(given) == seeds


@pytest.mark.parametrize(
    "given",
    ["", ",", "100-102,101", [4, 9, 4], "-3", "7-3", "a", "1-2-3", "1.5", 10**9, "1-1000000000", [], [-1], [1.0], True],
)
def test_seeds_that_cannot_be_are_a_sentence(given: object) -> None:
    with pytest.raises(InputError, match=r"seed"):
        seeds_of(given)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"targets": "nowhere"}, '"nowhere" is not a domain of stripes'),
        ({"seeds": 0}, "seeds says how many"),
        ({"steps": 0}, "steps must be a whole number from 1 up"),
        ({"algorithms": ""}, "no algorithm was named"),
    ],
)
def test_a_comparison_that_cannot_be_is_a_sentence(tmp_path: Path, arguments: dict, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        compare(DATA, **{"algorithms": "erm", **SHORT, **arguments}, output=tmp_path / "out")
    assert sentence in str(error.value)
    assert not (tmp_path / "out").exists()


def test_a_folder_with_foreign_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.doc").write_text("dear")
    with pytest.raises(InputError, match=r"not from domainwise \(thesis.doc\)"):
        compare(DATA, "erm", **SHORT, output=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.doc"]


def test_other_data_under_the_same_name_is_refused(tmp_path: Path) -> None:
    compare(DATA, "erm", **SHORT, output=tmp_path)
    with pytest.raises(InputError, match="the images or labels have changed"):
        compare(stripes(size=40), "erm", **SHORT, output=tmp_path)


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write to the output folder"):
        compare(DATA, "erm", **SHORT, output=tmp_path / "file" / "out")
