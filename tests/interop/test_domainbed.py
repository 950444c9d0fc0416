"""DomainBed's tables, of sweeps made up here, worked out from their raw lines by the published rules."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from made_domainbed import STEPS, TRIALS, Line, line, table, text_of, write, write_flat, write_sweep

from domainwise.errors import InputError
from domainwise.interop.domainbed import read
from domainwise.interop.domainbed_tables import FORMATS, tables


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    return write_sweep(tmp_path / "sweep")


# What the published rules say of raw lines: (validation value, reported accuracy) of a line.
def by_validation(lines: list[Line], target: int) -> list[tuple[float, float]]:
    own = [one for one in lines if one["args"]["test_envs"] == [target]]
    others = [i for i in range(4) if i != target]
    return [(np.mean([one[f"env{i}_out_acc"] for i in others]), one[f"env{target}_in_acc"]) for one in own]


def by_oracle(lines: list[Line], target: int) -> list[tuple[float, float]]:
    own = [one for one in lines if one["args"]["test_envs"] == [target] and one["step"] == STEPS[-1]]
    return [(one[f"env{target}_out_acc"], one[f"env{target}_in_acc"]) for one in own]


def by_leave_one_out(lines: list[Line], target: int) -> list[tuple[float, float]]:
    found = []
    for own in (one for one in lines if one["args"]["test_envs"] == [target]):
        values = []
        for other in (i for i in range(4) if i != target):
            for one in lines:
                same = one["args"]["hparams_seed"] == own["args"]["hparams_seed"] and one["step"] == own["step"]
                if same and sorted(one["args"]["test_envs"]) == sorted([target, other]):
                    values.append(one[f"env{other}_in_acc"])
        assert len(values) == 3
        found.append((np.mean(values), own[f"env{target}_in_acc"]))
    return found


PUBLISHED: Mapping[str, Callable[[list[Line], int], list[tuple[float, float]]]] = {
    "validation": by_validation,
    "leave-one-out": by_leave_one_out,
    "oracle": by_oracle,
}


@pytest.mark.parametrize("rule", PUBLISHED)
def test_cells_and_averages_are_those_of_the_published_rules(sweep: Path, rule: str) -> None:
    lines = [json.loads(text) for file in sweep.glob("*/results.jsonl") for text in file.read_text().splitlines()]
    reported = np.zeros((4, len(TRIALS)))
    for target in range(4):
        for trial in TRIALS:
            own = [one for one in lines if one["args"]["trial_seed"] == trial]
            reported[target, trial] = max(PUBLISHED[rule](own, target))[1]
    found = tables(read(sweep))
    cells = table(found, rule).rows["ERM"]
    assert [cell.mean for cell in cells] == pytest.approx([*reported.mean(1), reported.mean()])
    assert [cell.error for cell in cells[:-1]] == pytest.approx(reported.std(1, ddof=0) / np.sqrt(3))
    assert cells[-1].error is None
    averages = table(found, rule, "").rows["ERM"]
    assert averages[0].mean == averages[1].mean == pytest.approx(reported.mean())
    assert averages[0].error == pytest.approx(reported.mean(0).std() / np.sqrt(3))


def test_the_text_is_laid_out_like_domainbeds(tmp_path: Path) -> None:
    for env, accuracies in enumerate([[0.97, 0.98, 0.99], [0.642, 0.642, 0.642], [0.5, 0.7, 0.9], [0.77, 0.78, 0.79]]):
        write_flat(tmp_path, env, accuracies)
    write_flat(tmp_path, 0, [0.5], "Arith")
    assert text_of(tmp_path).splitlines()[:9] == [
        "Total records: 13",
        "",
        "-------- Dataset: VLCS, model selection method: training-domain validation set",
        "Algorithm             C                     L                     S                     V                     "
        "Avg                  ",
        "ERM                   98.0 +/- 0.5          64.2 +/- 0.0          70.0 +/- 9.4          78.0 +/- 0.5          "
        "77.5                 ",
        "Arith                 50.0 +/- 0.0          X                     X                     X                     "
        "X                    ",
        "",
        "-------- Averages, model selection method: training-domain validation set",
        "Algorithm                  VLCS                       Avg                       ",
    ]


def test_algorithms_and_datasets_come_in_domainbeds_order_and_others_by_name(tmp_path: Path) -> None:
    names = ("Zeta", "VREx", "ERM", "CausIRL_MMD", "Alpha", "Fish")
    for dataset in ("PACS", "VLCS", "Mine"):
        write_sweep(tmp_path / dataset, dataset, names, pairs=False)
    found = tables(read(*(tmp_path / dataset for dataset in ("PACS", "Mine", "VLCS"))))
    assert [one.dataset for one in found[:4]] == ["VLCS", "PACS", "Mine", ""]
    assert list(found[0].rows) == ["ERM", "Fish", "VREx", "CausIRL_MMD", "Alpha", "Zeta"]
    assert [one.columns for one in found[:4]] == [
        ("C", "L", "S", "V", "Avg"),
        ("A", "C", "P", "S", "Avg"),
        ("env0", "env1", "env2", "env3", "Avg"),
        ("VLCS", "PACS", "Mine", "Avg"),
    ]


def test_without_pairs_leaving_one_out_has_only_x(tmp_path: Path) -> None:
    found = tables(read(write_sweep(tmp_path / "sweep", pairs=False)))
    assert {cell.text() for cell in table(found, "leave-one-out").rows["ERM"]} == {"X"}
    assert "X" not in {cell.text() for cell in table(found, "oracle").rows["ERM"]}


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ('{"args": {"data', "cut off or not JSON"),
        ("[1, 2]\n", "not the record of an evaluation"),
        ('{"args": null}\n', "not the record of an evaluation"),
        ({"args": {}, "step": 3}, "has no env0_out_acc"),
        (line(300, [0.5] * 8), "has no test_envs"),
        (line(300, [0.5] * 8, test_envs=[4]), "test environment 4 is none of its 4"),
        ({**line(300, [0.5] * 8, test_envs=[0]), "env0_in_acc": None}, "env0_in_acc is None, not an accuracy"),
        (line(300, [0.5, 1e9, *[0.5] * 6], test_envs=[0]), "env0_out_acc is 1000000000.0, not an accuracy"),
        (line(300, [-0.1, *[0.5] * 7], test_envs=[0]), "env0_in_acc is -0.1, not an accuracy"),
        (line(300, [0.5] * 8, test_envs=[]), "it has no test environment"),
        (line(300, [0.5] * 8, test_envs=[0], algorithm=[]), "algorithm is [], not a name"),
        (line(300, [0.5] * 8, test_envs=[0], trial_seed=float("inf")), "trial_seed is inf, not a whole number"),
        (
            line(300, [0.5] * 8, test_envs=[0], holdout_fraction="x"),
            "holdout_fraction is 'x', not a share of the images",
        ),
        ({**line(300, [0.5] * 8, test_envs=[0]), "hparams": [1]}, "hparams is [1], not a dictionary"),
        (
            {**line(300, [0.5] * 8, test_envs=[0]), "hparams": {"batch_size": None}},
            "batch_size is None, not a whole number",
        ),
        (
            {**line(300, [0.5] * 8, test_envs=[0]), "step": 10**400},
            "step is 100000000000000000...0000000000000000000, not a whole number",
        ),
    ],
    ids=[
        "cut",
        "list",
        "no args",
        "no accuracies",
        "no targets",
        "no such target",
        "no number",
        "above 1",
        "below 0",
        "no target",
        "odd name",
        "odd seed",
        "odd share",
        "odd hparams",
        "odd batch",
        "odd step",
    ],
)
def test_a_broken_line_is_left_out_and_named(sweep: Path, bad: Line | str, why: str) -> None:
    before = text_of(sweep)
    text = bad if isinstance(bad, str) else json.dumps(bad) + "\n"
    with (sweep / "VLCS-ERM-004" / "results.jsonl").open("a") as file:
        file.write(text)
    assert read(sweep).broken == (f"VLCS-ERM-004/results.jsonl, line 4: {why}",)
    assert text_of(sweep) == before


def test_runs_that_stopped_early_are_named_and_count_with_what_they_have(tmp_path: Path) -> None:
    first, last = line(0, [0.4] * 8, test_envs=[0]), line(300, [0.6] * 8, test_envs=[0], trial_seed=1)
    write(tmp_path / "short", [first], done=False)
    write(tmp_path / "old", [last], done=False)  # as long as any: an old sweep without done files
    found = read(tmp_path)
    assert [one.folder.name for one in found.incomplete] == ["short"]
    assert table(tables(found), "oracle").rows["ERM"][0].text() == "50.0 +/- 7.1"
    (tmp_path / "short" / "done").touch()
    assert read(tmp_path).incomplete == []


def test_asked_for_steps_decide_what_stopped_early(tmp_path: Path) -> None:
    for steps in (301, 302):
        write(tmp_path / str(steps), [line(300, [0.6] * 8, test_envs=[0], steps=steps)], done=False)
    assert [one.folder.name for one in read(tmp_path).incomplete] == ["302"]


def test_a_folder_used_by_two_runs_holds_both(tmp_path: Path) -> None:
    write(tmp_path / "train_output", [line(0, [0.4] * 8, test_envs=[0]), line(0, [0.6] * 8, test_envs=[1])])
    cells = table(tables(read(tmp_path / "train_output")), "validation").rows["ERM"]
    assert [cell.text() for cell in cells[:2]] == ["40.0 +/- 0.0", "60.0 +/- 0.0"]


def test_a_folder_without_results_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no folders with a results\.jsonl"):
        read(tmp_path)
    write(tmp_path / "empty", [])
    with pytest.raises(InputError, match="first evaluation"):
        read(tmp_path)
    write(tmp_path / "broken", ["{\n"])
    with pytest.raises(InputError, match=r"none of the lines .* broken/results\.jsonl, line 1: cut off"):
        read(tmp_path)


def test_machine_formats_carry_every_digit(sweep: Path) -> None:
    found = read(sweep)
    made = tables(found)
    cell = table(made, "oracle").rows["ERM"][2]
    rows = list(csv.DictReader(io.StringIO(FORMATS["csv"](made, found.records))))
    (row,) = [r for r in rows if (r["selection"], r["dataset"], r["column"]) == ("oracle", "VLCS", "S")]
    assert (float(row["mean"]), float(row["error"]), row["n"]) == (cell.mean, cell.error, "3")
    content = json.loads(FORMATS["json"](made, found.records))
    assert content["tables"][4]["rows"][0]["cells"]["S"] == {"mean": cell.mean, "error": cell.error, "n": 3}
    assert content["records"] == found.records == 10 * 3 * 2 * 3


def test_latex_and_markdown_have_the_cells_and_escape_what_they_must(tmp_path: Path) -> None:
    write_flat(tmp_path, 0, [0.97, 0.98, 0.99], "IB_ERM")
    made = tables(read(tmp_path))
    assert r"IB\_ERM & 98.0 $\pm$ 0.5 & X & X & X & X \\" in FORMATS["latex"](made, 3)
    assert "| IB_ERM | 98.0 ± 0.5 | X | X | X | X |" in FORMATS["markdown"](made, 3)
