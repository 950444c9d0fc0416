"""Several averagers beside one run: none changes anything of the training, or of another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from made_data import stripes

import domainwise as dw
from domainwise import InputError
from domainwise.acceleration.shared_device import directly
from domainwise.algorithms import parse
from domainwise.averaging import averagers, canonical
from domainwise.data.batches.feed import Feed
from domainwise.experiment import integrity, records
from domainwise.experiment.records import Record
from domainwise.experiment.results import trial_in
from domainwise.experiment.settings import resolve
from domainwise.experiment.trial import Trial
from domainwise.interop.tensorboard import scalars
from domainwise.sweeps import status as following
from domainwise.sweeps.status import Tail, follow, status
from domainwise.training.checkpoint_files import load, save, saved
from domainwise.training.loop import run
from domainwise.training.plan import plan
from domainwise.training.result import AGAIN
from domainwise.training.run_options import RunOptions
from domainwise.training.run_trial import execute
from domainwise.training.setup import set_up

DATA = stripes()
SWAD, MA = "swad(converge=2, tolerance=3)", "ma(start=5)"
BOTH = f"{SWAD},{MA}"
ASK: dict[str, Any] = {"targets": "c", "seeds": 1, "steps": 20, "evaluate_every": 4, "batch": 8}


def trial(average: str = "none", text: str = "arith", **given: object) -> Trial:
    settings = {"steps": 20, "evaluate_every": 4, "batch": 8, "augment": "flip", "validation": "augmented", **given}
    (one,) = plan(DATA, parse(text), [("c",)], [0], resolve(given=settings), average)
    return one


def untimed(found: list[Record], name: str | None = None) -> list[Record]:
    own = found if name is None else records.averaged(found, name)
    return [{key: value for key, value in one.items() if key not in ("seconds", "average", "averages")} for one in own]


def normed(folder: Path) -> str:
    (folder / "normed.py").write_text(
        "from torch import nn\n"
        "def build(channels, classes):\n"
        "    return nn.Sequential(nn.Conv2d(channels, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())\n"
    )
    return f"{folder / 'normed.py'}:build"


@pytest.mark.parametrize("normalised", [False, True])
def test_training_and_every_average_are_the_same_whichever_averagers_are_beside(tmp_path: Path, normalised) -> None:
    given = {"network": normed(tmp_path)} if normalised else {"dropout": 0.3}
    plain, swad, ma, both, other = (
        list(run(trial(average, **given), DATA)) for average in ("none", SWAD, MA, BOTH, f"{MA},{SWAD}")
    )
    assert untimed(plain) == untimed(swad) == untimed(ma) == untimed(both)
    assert untimed(both, SWAD) == untimed(swad, SWAD) == untimed(other, SWAD) != []
    assert untimed(both, MA) == untimed(ma, MA) == untimed(other, MA) != []
    assert [list(one.get("averages", {})) for one in both] == [[], [], *[[MA]] * 3, [SWAD, MA]]


def test_a_text_or_a_list_may_name_several_and_order_is_kept() -> None:
    assert list(averagers("swad(ratio=0.2),ma(start=100), swa(start=3, every=2)")) == [
        "swad(ratio=0.2)",
        "ma",
        "swa(start=3, every=2)",
    ]
    assert canonical(["SWAD", "ma( start=5 )"]) == "swad,ma(start=5)"
    assert canonical("none") == canonical(["none"]) == "none"
    assert list(averagers("ma(start=100),ma(start=600)")) == ["ma", "ma(start=600)"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("swad,swad", "swad is named twice"),
        ("ma,ema,ma(start=100)", "ma is named twice"),
        ("none,swad", "none is no averager at all, so it cannot stand beside others"),
        ([], "no averager was named; known: none, swad"),
        ("swad,mo", 'there is no averager "mo"'),
    ],
)
def test_what_cannot_be_meant_is_a_sentence(text: str | list[str], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        dw.compare(DATA, "erm", average=text)


def test_every_average_has_its_row_its_numbers_and_its_counts(tmp_path: Path) -> None:
    results = dw.compare(DATA, "erm", average=[SWAD, MA], output=tmp_path, **ASK)
    plain, swad, ma = results.outcomes
    assert [one.trial.label for one in (plain, swad, ma)] == ["erm", f"erm + {SWAD}", f"erm + {MA}"]
    assert list(plain.result["averages"]) == [SWAD, MA]
    assert all(f"erm + {name}" in results.table() for name in (SWAD, MA))
    assert swad.records()[-1]["domains"] != ma.records()[-1]["domains"]
    assert len(swad.records()), len(ma.records()) == (1, 4)
    for one in (plain, swad, ma):
        last = one.records()[-1]
        assert one.result["last"]["targets"]["c"] == last["domains"]["c"]["main"]["accuracy"]
    counts = json.loads((plain.folder / "counts.json").read_text())
    assert list(counts) == ["model", SWAD, MA]
    assert "confusion" not in (plain.folder / "records.jsonl").read_text()


class Killed(BaseException):
    pass


def stopped(one: Trial, folder: Path, at: int = 12, **options: Any) -> None:
    def watch(_: Trial, event: dict[str, Any]) -> None:
        if event.get("step", 0) > at:
            raise Killed

    with pytest.raises(Killed):
        execute(one, DATA, folder, RunOptions(checkpoint_every=1, **options), watch=watch)


def left(folder: Path) -> dict[str, object]:
    """All that a trial leaves, without times."""
    found: dict[str, object] = {
        str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
    found["records.jsonl"] = [{**line, "seconds": 0} for line in records.read(folder / "records.jsonl")]
    result = {**integrity.read(folder / "result.json"), "seconds": 0}
    result["files"].pop("records.jsonl")  # the hash of what has times in it
    found["result.json"] = result
    return found


def test_a_run_with_two_averagers_goes_on_as_if_it_had_not_been_stopped(tmp_path: Path) -> None:
    execute(trial(BOTH, dropout=0.3), DATA, tmp_path / "whole", RunOptions(keep="all"))
    one = trial(BOTH, dropout=0.3)
    stopped(one, tmp_path / "half", keep="all")
    said: list[str] = []
    execute(
        one, DATA, tmp_path / "half", RunOptions(keep="all"), watch=lambda _, event: said.append(event.get("note", ""))
    )
    assert any(note.startswith("resumes at step") for note in said)
    assert left(tmp_path / "half") == left(tmp_path / "whole")
    homes = {path.parent.name for path in (tmp_path / "half").glob("*/config.json")}
    assert homes == {"best", "best-average", "best-average-ma-start=5"}


def test_a_checkpoint_from_when_there_was_one_average_at_most_is_gone_on_from(tmp_path: Path) -> None:
    one = trial(MA)
    execute(one, DATA, tmp_path / "whole")
    stopped(one, tmp_path / "half")
    (path, *_) = saved(tmp_path / "half")
    found = load(path)
    state = found.state
    state["average"] = state["average"][MA]
    for key in ("values", "kept", "recalled"):
        state["keeper"][key] = {"average" if k == MA else k: v for k, v in state["keeper"][key].items()}
    state["examiner"] = {name.replace(MA, "average"): value for name, value in state["examiner"].items()}
    for name in ("records.jsonl", "evaluations.jsonl"):
        file = tmp_path / "half" / name
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        lines = [{**line, "average": line.pop("averages")[MA]} if "averages" in line else line for line in lines]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        found.about["journals"][name] = file.stat().st_size
    save(tmp_path / "half", found.step, state, {key: about for key, about in found.about.items() if key != "hashes"})
    said: list[str] = []
    result = execute(one, DATA, tmp_path / "half", watch=lambda _, event: said.append(event.get("note", "")))
    assert any(note.startswith("resumes at step") for note in said)
    whole = json.loads((tmp_path / "whole" / "result.json").read_text())
    assert result["averages"] == whole["averages"]
    lines, expected = (list(records.read(tmp_path / name / "records.jsonl")) for name in ("half", "whole"))
    assert untimed(records.averaged(lines, MA)) == untimed(records.averaged(expected, MA))


def test_an_average_asked_for_later_takes_nothing_away(tmp_path: Path) -> None:
    first = execute(trial(MA), DATA, tmp_path)
    assert execute(trial(), DATA, tmp_path) == first
    second = execute(trial(SWAD), DATA, tmp_path)
    assert list(second["averages"]) == [SWAD, MA]
    assert second["averages"][MA] == first["averages"][MA]
    assert {one for line in records.read(tmp_path / "records.jsonl") for one in line.get("averages", {})} == {SWAD, MA}
    assert trial_in(tmp_path).average == BOTH
    for asked in (MA, SWAD, BOTH, f"{MA},{SWAD}", "none"):
        assert execute(trial(asked), DATA, tmp_path) == second
    for place in ("again", "at once"):
        execute(trial(MA if place == "again" else BOTH), DATA, tmp_path / place)
        execute(trial(BOTH), DATA, tmp_path / place)
    assert left(tmp_path / "again") == left(tmp_path / "at once")


def test_what_is_there_stays_until_all_of_the_new_run_is(tmp_path: Path) -> None:
    dw.compare(DATA, "erm", average=MA, output=tmp_path, **ASK)
    (home,) = (tmp_path / "trials").iterdir()
    before = left(home)
    result = (home / "result.json").read_bytes()

    def watch(_: Trial, event: dict[str, Any]) -> None:
        if event.get("step") == 13:
            raise Killed

    with pytest.raises(Killed):
        dw.compare(DATA, "erm", average=SWAD, output=tmp_path, watch=watch, **ASK)
    assert (home / AGAIN / "records.jsonl").is_file()
    assert {key: value for key, value in left(home).items() if not key.startswith(AGAIN)} == before
    assert (home / "result.json").read_bytes() == result
    shown = dw.Results.open(tmp_path)
    assert [one.trial.label for one in shown.outcomes] == ["erm", f"erm + {MA}"]
    results = dw.compare(DATA, "erm", average=SWAD, output=tmp_path, **ASK)
    assert [one.average for one in results.outcomes] == ["", SWAD, MA]
    assert not (home / AGAIN).exists()


@pytest.mark.parametrize("moved", ["result.json", "best", "best-average", "records.jsonl", "trial.json"])
def test_a_kill_while_the_new_run_takes_its_place_loses_nothing(tmp_path: Path, monkeypatch, moved: str) -> None:
    execute(trial(MA), DATA, tmp_path)
    replace = Path.replace

    def dies(self: Path, target: Path) -> Path:
        if self == tmp_path / AGAIN / moved and target == tmp_path / moved:
            raise Killed
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", dies)
        with pytest.raises(Killed):
            execute(trial(SWAD), DATA, tmp_path)
    assert not (tmp_path / "result.json").exists()
    events: list[dict[str, Any]] = []
    result = execute(trial(SWAD), DATA, tmp_path, watch=lambda _, event: events.append(event))
    assert (list(result["averages"]), events) == ([SWAD, MA], [])
    assert not (tmp_path / AGAIN).exists()
    for which, name in (("best", None), (SWAD, SWAD), (MA, MA)):
        assert dw.load(tmp_path, which=which).config.get("average") == name


def test_balanced_minibatches_renew_the_statistics_of_an_average(tmp_path: Path, monkeypatch) -> None:
    one = trial(network=normed(tmp_path), balanced=True)
    setup = set_up(one, DATA, RunOptions(), print, directly)
    drawn: list[bool] = []
    draw = Feed.draw
    monkeypatch.setattr(Feed, "draw", lambda self, times=1: drawn.append(self.balanced) or draw(self, times))
    with setup.evaluator.averaged([p.detach() for p in setup.algorithm.net.parameters()]):
        pass
    assert drawn
    assert all(drawn)


def weights(model: dw.Model) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.algorithm.net.parameters()])


def test_of_several_averages_the_first_is_the_model_and_all_can_be_had(tmp_path: Path) -> None:
    short = {"steps": 20, "evaluate_every": 5, "batch": 8}
    model = dw.fit(DATA, "erm", average="ma(start=3),ema(decay=0.9),ma(start=9)", output=tmp_path, **short)
    found = [weights(dw.load(tmp_path, which=which)) for which in ("best", "ma(start=3)", "ema", "ma( start = 9 )")]
    assert torch.equal(weights(model), weights(dw.load(tmp_path)))
    assert torch.equal(weights(model), found[1])
    assert all(not torch.equal(a, b) for i, a in enumerate(found) for b in found[:i])
    with pytest.raises(InputError, match='load this model by which="ema'):  # which load would not give
        dw.fit(DATA, "erm", average="ema(decay=0.9)", output=tmp_path, **short)
    with pytest.raises(InputError, match='no model of "ma": ask for one of "best", "ma'):
        dw.load(tmp_path, which="ma")
    with pytest.raises(InputError, match="with other average:"):
        dw.fit(DATA, "erm", average="swad", output=tmp_path, **short)


def test_a_model_saved_when_there_was_one_average_at_most_is_found_by_its_averager(tmp_path: Path) -> None:
    execute(trial(MA), DATA, tmp_path)
    file = tmp_path / "best-average" / "config.json"
    config = integrity.read(file)
    del config["average"]
    file.write_text(json.dumps(config))
    assert torch.equal(weights(dw.load(tmp_path, which="ma")), weights(dw.load(tmp_path, which="best-average")))


def test_who_follows_a_folder_and_who_asks_how_far_it_is_hear_of_averages_that_come_later(tmp_path: Path) -> None:
    dw.compare(DATA, "erm", average=MA, output=tmp_path, **ASK)
    steps = [(record["step"], list(record.get("averages", {}))) for _, record in follow(tmp_path)]
    assert steps == [(0, []), (4, []), (8, [MA]), (12, [MA]), (16, [MA]), (19, [MA])]
    heard: list[tuple[str, int, list[str]]] = []
    tail = Tail(next((tmp_path / "trials").iterdir()))

    def look() -> None:
        heard.extend((one.average, record["step"], list(record.get("averages", {}))) for one, record in tail.new())

    def watch(_: Trial, event: dict[str, Any]) -> None:
        look()
        now = status(tmp_path)
        assert "result" in event or (now.waiting + len(now.running), following._all_ended(tmp_path)) == (1, False)

    dw.compare(DATA, "erm", average=SWAD, output=tmp_path, watch=watch, **ASK)
    look()
    assert [one[1:] for one in heard] == [*steps, (19, [SWAD, MA])]
    assert heard[-1][0] == BOTH
    assert (status(tmp_path).waiting, status(tmp_path).running, following._all_ended(tmp_path)) == (0, [], True)


def test_trackers_tell_averages_apart() -> None:
    record: Record = {"step": 1, "domains": {}, "averages": {}}
    part = {"accuracy": 0.5, "loss": 1.0, "count": 8}
    domains = {name: {"main": part, "holdout": part} for name in "abc"}
    record |= {"domains": domains, "averages": {SWAD: domains, MA: domains}}
    tags = [tag for tag in scalars(trial(BOTH), record) if tag.endswith("target accuracy")]
    assert tags == ["target accuracy", f"averaged ({SWAD}) target accuracy", f"averaged ({MA}) target accuracy"]
    del record["averages"][SWAD]
    assert "averaged target accuracy" in scalars(trial(MA), record)
    old = {**record, "average": record.pop("averages")[MA]}
    assert scalars(trial(MA), old) == scalars(trial(MA), {**record, "averages": {MA: domains}})
