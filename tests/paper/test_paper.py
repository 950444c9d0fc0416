from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from statistics import fmean, pstdev, stdev

import pytest
import torch
from hypothesis import given, strategies as st
from made_data import stripes
from made_paper import OFFICE_HOME, ended, rises, settings, tiny
from made_seals import reseal

from domainwise.algorithms import create
from domainwise.analysis.task import place
from domainwise.api import Comparison, Results
from domainwise.errors import InputError
from domainwise.experiment.settings import resolve
from domainwise.paper import numbers
from domainwise.paper.claims import check_claims, ordering, section_orderings, sign_flips
from domainwise.paper.comparison import checkpoint_table, comparison_table
from domainwise.paper.figures import FIGURE3, FIGURE5, figure3, figure4, open_task
from domainwise.paper.from_results import group_by_settings, open_results
from domainwise.paper.index import requested_names
from domainwise.paper.layout import PaperRequest
from domainwise.paper.page import notes_on
from domainwise.paper.tables import TABLE1, TABLE2, TABLE3, TABLE4, TABLE5, PaperTable, Part
from domainwise.saved_models.saved import load
from domainwise.sweeps.engine import Engine
from domainwise.training.run_options import RunOptions

WISH = PaperRequest(seeds=2)
TRAINED = [TABLE1, TABLE2, TABLE3, TABLE4, FIGURE5]


def laid(table: PaperTable, folder: Path, wish: PaperRequest = WISH, preset: str = "domainbed", **given) -> Comparison:
    data = tiny("officehome", OFFICE_HOME) if table is TABLE3 else tiny()
    return table.trials(data, settings(preset, **given), wish, folder)


def rendered(table: PaperTable, folder: Path, wish: PaperRequest = WISH, swad: float | None = None, **about):
    """A table of trials that have ended with chosen numbers."""
    comparison = laid(table, folder, wish)
    ended(comparison, swad=swad, **about)
    return table.render(Results.open(folder).outcomes, wish)


def entry(page, name: str):
    return next(one for section in page.sections for one in section.entries if one.row.name == name)


@pytest.mark.parametrize(
    ("name", "row"),
    [
        (str((name, key)), row)
        for name, rows in {
            "table 1": numbers.TABLE1, "table 2": numbers.TABLE2, "table 4": numbers.TABLE4,
            "officehome": numbers.TABLE3["officehome"], "vlcs": numbers.TABLE3["vlcs"],
        }.items()
        for key, row in rows.items()
    ],
)  # fmt: skip
def test_a_printed_average_is_that_of_the_numbers_before_it(name: str, row) -> None:
    *parts, average = row.values()
    own = {"('table 1', 'CORAL')": 0.08, "('vlcs', ('Fish', False, True))": -0.15}  # slips of the paper itself
    assert abs(fmean(parts) - average - own.get(name, 0)) < 0.05 + 1e-9, name  # of numbers that were themselves rounded


def test_table_2_varies_the_inner_optimizer_and_the_sampler_alone() -> None:
    found = {row.name: create(row.spec) for row in TABLE2.rows}
    for method, (m, ds) in product(("MAML", "Fish", "Arith"), ((False, False), (True, True), (False, True))):
        one = found[f"{method}, {'m' if m else 'no m'}, {'ds' if ds else 'no ds'}"]
        assert one.name == method.lower()
        assert one.inner == ("adam" if m else "sgd")
        assert one.pooled is not ds
        assert (one.outer, one.scale, one.inner_steps) == ("adam", 1.0, 1)
    assert len(found) == 9


@pytest.mark.parametrize("part", TABLE3.parts, ids=lambda part: part.data)
def test_table_3_varies_the_outer_optimizer_and_the_sum_of_the_weights_alone(part: Part) -> None:
    weights = {
        ("Fish", False): [1 / 3] * 3,
        ("Fish", True): [1 / 2] * 3,
        ("Arith", False): [1 / 2, 1 / 3, 1 / 6],
        ("Arith", True): [3 / 4, 1 / 2, 1 / 4],
    }
    found = {row.name: create(row.spec) for row in part.rows}
    for (method, scaled), adam in product(weights, (False, True)):
        one = found[f"{method}, {'scaled' if scaled else 'sum 1'}, {'adam' if adam else 'no adam'}"]
        assert one.name == method.lower()
        assert one.weights().scaled(one.scale).weights(3) == pytest.approx(weights[method, scaled])
        assert one.outer == ("adam" if adam else "interpolate")
        assert (one.inner, one.domainwise) == ("sgd", True)
    assert len(found) == 8 + 2


def test_table_3_has_its_caption_read_literally_as_rows_of_their_own(tmp_path: Path) -> None:
    trials = laid(TABLE3, tmp_path, PaperRequest(seeds=1), lr=2e-4).trials
    own = [trial for trial in trials if "lr=" in trial.label]
    assert {trial.label for trial in own} == {"fish(lr=0.0003)", "arith(lr=0.0003)"}
    assert {trial.hyperparameters["lr"] for trial in own} == {3e-4}
    assert {trial.hyperparameters["lr"] for trial in trials if trial not in own} == {2e-4}
    ended(laid(TABLE3, tmp_path, PaperRequest(seeds=1)), lambda trial: 0.9 if "lr=" in trial.label else 0.5)
    groups = open_results(tmp_path)
    assert list(groups) == [""]  # one table, although its trials have two learning rates
    page = TABLE3.render(groups[""], PaperRequest())
    for method in ("Fish", "Arith"):
        literal, scaled = (entry(page, f"{method}, {how}, adam") for how in ("lr x 1.5", "scaled"))
        assert literal.row.paper == scaled.row.paper
        assert (literal.cells["selected"][-1].mean, scaled.cells["selected"][-1].mean) == (0.9, 0.5)
    assert section_orderings(page.sections[0])["Avg", "selected"].pairs <= 8 * 7 // 2


def test_domainnet_in_table_4_has_the_papers_updates_unless_others_are_given(tmp_path: Path) -> None:
    def steps(given: dict[str, int]) -> set[int]:
        asked = resolve(
            "swad", benchmark="domainnet", device="cpu", given={"network": "small", "input_size": 8, **given}
        )
        found = TABLE4.trials(tiny("domainnet", ("clip", "info", "paint")), asked, PaperRequest(seeds=1), tmp_path)
        assert not [text for text in notes_on(Results.open(ended(found)).outcomes, "swad") if "steps 5001" in text]
        return {trial.steps for trial in found.trials}

    assert steps({}) == {5001}
    assert steps({"steps": 15001}) == {15001}


def test_the_papers_pooled_validation_stands_beside_domainbeds(tmp_path: Path) -> None:
    """A large source is best at the second evaluation, two small ones at the third."""
    comparison = laid(TABLE2, tmp_path, PaperRequest(("arith",), targets="photo", seeds=1))
    ended(comparison)
    for trial in comparison.trials:
        home = comparison.folder / "trials" / trial.id
        found = [json.loads(line) for line in (home / "records.jsonl").read_text().splitlines()]
        for at, record in enumerate(found):
            for name, parts in record["domains"].items():
                large, best = name == "sketch", 1 if name == "sketch" else 2
                parts |= {"holdout": {"accuracy": 0.9 - 0.1 * abs(at - best), "loss": 1.0, "count": 90 if large else 8}}
        (home / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in found))
        reseal(home)
    page = TABLE2.render(Results.open(tmp_path).outcomes, PaperRequest(seeds=1))
    own = entry(page, "Arith, no m, ds").cells
    accuracy = rises(comparison.trials[0])
    assert own["pooled"][2].mean == pytest.approx(accuracy - 0.1)  # the second evaluation
    assert own["selected"][2].mean == pytest.approx(accuracy)  # what the records of the run say was chosen


def test_table_4_is_one_run_for_both_rows_of_a_method(tmp_path: Path) -> None:
    found = laid(TABLE4, tmp_path, PaperRequest(seeds=1), "swad", select_every=300).trials
    assert sorted(trial.algorithm for trial in found) == sorted(["erm", "mldg", "fish", "arith"] * 4)
    assert {trial.average for trial in found} == {"swad"}
    assert {(trial.evaluate_every, trial.select_every) for trial in found} == {(100, 300)}


def test_figure_5_varies_the_steps_on_a_domain_alone(tmp_path: Path) -> None:
    found = laid(FIGURE5, tmp_path, PaperRequest(seeds=1, targets="photo")).trials
    steps = [(trial.algorithm, trial.hyperparameters["inner_steps"]) for trial in found]
    assert steps == [(name, k) for name in ("fish", "arith") for k in (1, 2, 3, 5, 10)]


def test_the_same_settings_in_different_tables_are_the_same_trial(tmp_path: Path) -> None:
    ids = {table: {trial.id for trial in laid(table, tmp_path).trials} for table in (TABLE1, TABLE2, TABLE4, FIGURE5)}
    per_row = 4 * WISH.seeds
    assert len(ids[TABLE1] & ids[TABLE2]) == 2 * per_row  # fish and arith
    assert len(ids[TABLE1] & ids[FIGURE5]) == 2 * per_row
    assert ids[TABLE4] < ids[TABLE1]
    data = tiny()
    third = {trial.id for trial in TABLE3.trials(data, settings(), WISH, tmp_path).trials}
    assert len(third & ids[TABLE1]) == 2 * per_row


@pytest.mark.parametrize("table", TRAINED, ids=lambda table: table.name)
def test_a_part_of_a_table_can_be_laid_out(table: PaperTable, tmp_path: Path) -> None:
    wish = PaperRequest(("fish", "arith"), targets="Art" if table is TABLE3 else "photo", seeds=1)
    found = laid(table, tmp_path, wish).trials
    assert {trial.algorithm for trial in found} == {"fish", "arith"}
    assert {trial.targets for trial in found} == {("Art",) if table is TABLE3 else ("photo",)}
    assert {trial.seed for trial in found} == {0}


def test_an_algorithm_that_a_table_does_not_have_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match='"irm" is not in table 2: known: maml, fish, arith'):
        laid(TABLE2, tmp_path, PaperRequest(("irm",)))


def test_a_setting_that_makes_rows_the_same_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="makes rows of this table the same"):
        laid(TABLE3, tmp_path, scale=1.5)


def test_cells_are_means_over_targets_and_seeds_at_three_views(tmp_path: Path) -> None:
    found = rendered(TABLE1, tmp_path)
    arith = entry(found, "Arith")
    at = [column.title for column in found.sections[0].columns].index("PACS")
    trials = [trial for trial in laid(TABLE1, tmp_path).trials if trial.algorithm == "arith"]
    by_seed = [fmean(rises(trial) for trial in trials if trial.seed == seed) for seed in (0, 1)]
    selected, last, late = (arith.cells[view][at] for view in ("selected", "last", "late"))
    assert selected.mean == pytest.approx(fmean(by_seed))
    assert selected.error == pytest.approx(stdev(by_seed) / 2**0.5)
    assert last.mean == pytest.approx(fmean(by_seed) - 0.05)
    assert late.mean == pytest.approx(fmean(by_seed) - 0.025)  # steps 200 and 300 of 301; 100 is in the first third
    wide = TABLE1.render(Results.open(tmp_path).outcomes, replace(WISH, error="deviation"))
    assert entry(wide, "Arith").cells["selected"][at].error == pytest.approx(stdev(by_seed))
    theirs = TABLE1.render(Results.open(tmp_path).outcomes, replace(WISH, error="domainbed"))
    assert entry(theirs, "Arith").cells["selected"][at].error == pytest.approx(pstdev(by_seed) / 2**0.5)


def test_weights_on_vlcs_are_averaged_as_swad_published_it(tmp_path: Path) -> None:
    asked = {name: TABLE4.trials(tiny(name), settings("swad"), PaperRequest(seeds=1), tmp_path).trials[0].average
             for name in ("pacs", "vlcs")}  # fmt: skip
    assert asked == {"pacs": "swad", "vlcs": "swad(ratio=0.2)"}


def test_the_batch_of_arm_is_its_own_and_makes_no_other_table(tmp_path: Path) -> None:
    large = settings(input_size=64)
    found = TABLE1.trials(tiny(), large, PaperRequest(("arm", "erm"), seeds=1), tmp_path)
    assert {(trial.algorithm, trial.batch) for trial in found.trials} == {("arm", 8), ("erm", 32)}
    outcomes = Results.open(ended(found)).outcomes
    assert list(group_by_settings(outcomes)) == [""]
    assert not [text for text in notes_on(outcomes, "domainbed") if "batch 8" in text]


def test_the_difference_to_the_paper_is_beside_the_number(tmp_path: Path) -> None:
    ended(
        laid(TABLE2, tmp_path, PaperRequest(seeds=1)), lambda trial: 0.8 if trial.targets == ("art_painting",) else 0.9
    )
    found = comparison_table(TABLE2.render(Results.open(tmp_path).outcomes, PaperRequest()).sections[0])
    row = next(row for row in found.rows if row.algorithm == "Arith, no m, ds")
    shown = {column: cell.text for column, cell in zip(found.columns, row.cells, strict=True)}
    assert (shown["A, paper"], shown["A"]) == ("85.9", "80.0 (\N{MINUS SIGN}5.9)")
    assert (shown["Avg, paper"], shown["Avg"]) == ("86.5", "87.5 (+1.0)")


def test_what_was_not_run_shows_the_paper_and_says_so(tmp_path: Path) -> None:
    text = rendered(TABLE1, tmp_path, PaperRequest(("erm", "arith"), seeds=1)).render()
    assert "Not run: VLCS, OfficeHome, TerraInc, DomainNet, Avg; the paper's numbers alone." in " ".join(text.split())
    hutchinson = next(line for line in text.splitlines() if line.startswith("Hutchinson"))
    assert re.split(r"\s{2,}", hutchinson) == ["Hutchinson", "83.9", "not run", "76.8", "68.2", "46.6", "41.6", "63.4"]


def test_some_of_the_targets_are_no_match_for_the_papers_mean(tmp_path: Path) -> None:
    found = rendered(TABLE1, tmp_path, PaperRequest(("erm", "irm"), targets="photo,sketch", seeds=1))
    cell = entry(found, "ERM").cells["selected"][0]
    assert cell.note == "2 of 4 targets"
    assert not any(one.pairs for one in section_orderings(found.sections[0]).values())


def test_trials_that_diverged_are_said_and_not_averaged(tmp_path: Path) -> None:
    found = rendered(TABLE2, tmp_path, diverged=lambda trial: trial.algorithm == "maml" and trial.targets == ("photo",))
    *_, average = entry(found, "MAML, no m, ds").cells["selected"]
    assert average.note == "2 of 8 failed or diverged"
    text = found.render()
    assert "2 of 2 failed or diverged" in text


def test_table_1_per_domain_has_a_column_for_every_domain(tmp_path: Path) -> None:
    found = rendered(TABLE1, tmp_path, PaperRequest(("erm",), seeds=1, per_domain=True))
    titles = [column.title for column in found.sections[0].columns]
    assert titles[:6] == ["PACS A", "PACS C", "PACS P", "PACS S", "PACS", "VLCS"]
    *domains, mean = (cell.mean for cell in entry(found, "ERM").cells["selected"][:5])
    assert mean == pytest.approx(fmean(domains))


def test_averaged_weights_have_a_row_of_their_own_and_no_late_mean(tmp_path: Path) -> None:
    found = rendered(TABLE4, tmp_path, swad=0.1)
    plain, averaged = (entry(found, name).cells for name in ("Arith", "Arith + SWAD"))
    assert averaged["selected"][0].mean == pytest.approx(plain["selected"][0].mean + 0.1)
    assert averaged["late"][0].mean is None
    assert "PACS, plain models alone: 3 of 6 pairs in the paper's order, 3 tie (selected)" in found.render("markdown")
    claim = next(
        one for one in check_claims(found.sections[0]) if one.better == "Arith + SWAD" and one.worse == "Arith"
    )
    assert claim.difference.mean == pytest.approx(0.1)
    assert claim.difference.n == 8
    assert claim.difference.p == pytest.approx(2 / 2**8)


def test_of_several_averages_beside_a_run_a_row_takes_its_own(tmp_path: Path) -> None:
    ended(laid(TABLE4, tmp_path, PaperRequest(("arith",), seeds=1)), swad=0.1)
    outcomes = Results.open(tmp_path).outcomes
    zero = {"selected": {"target": 0.0, "validation": 0.0, "step": 0}, "last": {"target": 0.0}}
    more = [
        replace(one, average=name, result={**one.result, **zero})
        for one in outcomes
        for name in ("swad(ratio=0.2)", "ma")
        if one.averaged
    ]
    alone, first, last = (
        TABLE4.render(some, PaperRequest()) for some in (outcomes, [*more, *outcomes], [*outcomes, *more])
    )
    rows = [[one.cells["selected"][0].mean for one in found.sections[0].entries] for found in (alone, first, last)]
    assert rows[0] == rows[1] == rows[2]


def test_hyperparameters_decide_the_row_and_the_learning_rate_does_not(tmp_path: Path) -> None:
    comparison = laid(TABLE2, tmp_path, PaperRequest(("arith",), seeds=1), lr=1e-3)
    ended(comparison)
    found = TABLE2.render(Results.open(tmp_path).outcomes, PaperRequest())
    assert [len(one.scores) for one in found.sections[0].entries] == [0] * 6 + [4] * 3
    other = TABLE1.render(Results.open(tmp_path).outcomes, PaperRequest())
    assert [one.row.name for one in other.sections[0].entries if one.scores] == ["Arith"]


def test_trials_with_other_settings_are_in_a_table_of_their_own(tmp_path: Path) -> None:
    ended(laid(TABLE4, tmp_path, PaperRequest(seeds=1)), swad=0.1)
    other = laid(TABLE4, tmp_path, PaperRequest(("erm",), seeds=1), precision="bf16")
    ended(other, swad=0.2)
    ended(replace(other, trials=tuple(replace(trial, batch=7, draw=1) for trial in other.trials)))  # of a search
    groups = open_results(tmp_path)
    assert list(groups) == ["precision=fp32", "precision=bf16"]
    assert [len(own) for own in groups.values()] == [32, 8]


def test_other_data_stands_in_alone_and_is_marked(tmp_path: Path) -> None:
    comparison = TABLE2.trials(tiny("toys", ("a", "b", "c")), settings(), PaperRequest(seeds=1), tmp_path)
    ended(comparison, lambda trial: 0.5)
    outcomes = Results.open(tmp_path).outcomes
    found = TABLE2.render(outcomes, PaperRequest())
    assert "toys stands in for the paper's data" in found.title
    assert "not comparable" in found.render("markdown")
    assert comparison_table(found.sections[0]).columns == ("a", "b", "c", "Avg, paper", "Avg")
    assert not any(cell.note for row in comparison_table(found.sections[0]).rows for cell in row.cells)
    both = [*outcomes, replace(outcomes[0], trial=replace(outcomes[0].trial, data="pacs"))]
    with pytest.raises(InputError, match="toys is none of the paper's data"):
        TABLE1.render(both, PaperRequest())


def test_a_preset_that_is_not_the_tables_and_settings_that_are_not_the_presets_are_named(tmp_path: Path) -> None:
    ended(laid(TABLE1, tmp_path, PaperRequest(("erm",), seeds=1), "swad", batch=8, precision="bf16"))
    preset, others = TABLE1.render(Results.open(tmp_path).outcomes, PaperRequest()).notes
    assert preset == "Measured with preset swad; this table is meant for preset domainbed."
    assert others.startswith("Not as its preset has it: ")
    assert {"batch 8 instead of 32", "steps 301 instead of 5001"} < set(others[26:-1].split(", "))
    assert "precision" not in others


def test_table_5_has_the_papers_numbers_and_says_what_is_missing() -> None:
    text = TABLE5.render([], PaperRequest()).render()
    assert "76.6" in text
    assert "Not run: 20, 21," in text
    assert "Avg is over all patches" in text


@pytest.mark.parametrize("table", [TABLE1, TABLE2, TABLE3, TABLE4], ids=lambda table: table.name)
def test_latex_has_as_many_cells_in_every_row_as_columns(table: PaperTable, tmp_path: Path) -> None:
    page = rendered(table, tmp_path, swad=0.1 if table is TABLE4 else None)
    tables = re.findall(r"\\begin\{tabular\}\{(l?r*)\}\n(.*?)\\end\{tabular\}", page.render("latex"), re.DOTALL)
    assert len(tables) >= 3
    for shape, body in tables:
        rows = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert rows
        assert {len(re.findall(r"(?<!\\)&", line)) + 1 for line in rows} == {len(shape)}
        assert not re.search(r"(?<!\\)[_%#]|±|\N{MINUS SIGN}", body)
        assert body.count("{") == body.count("}")


def test_csv_and_json_carry_the_same_numbers(tmp_path: Path) -> None:
    page = rendered(TABLE2, tmp_path)
    (section,) = json.loads(page.render("json"))["sections"]
    lines = list(csv.DictReader(io.StringIO(page.render("csv"))))
    cells = {
        (row["name"], cell["column"], view): cell[view]
        for row in section["rows"]
        for cell in row["cells"]
        for view in ("selected", "pooled", "last", "late")
    }
    assert len(lines) == len(cells) == 9 * 5 * 4
    for line in lines:
        found = cells[line["row"], line["column"], line["view"]]
        assert float(line["mean"]) == found["mean"]
        if line["view"] in ("selected", "pooled"):  # as the paper's are
            assert float(line["difference"]) == found["difference"] == found["mean"] - float(line["paper"])
        else:
            assert (line["difference"], found["difference"]) == ("", None)
        assert {seed: float(line[f"seed {seed}"]) for seed in ("0", "1")} == found["values"]
        assert create(line["algorithm"]).name in ("maml", "fish", "arith")


def test_the_other_views_are_beside_the_selected_one(tmp_path: Path) -> None:
    found = checkpoint_table(rendered(TABLE2, tmp_path).sections[0])
    assert found.columns == ("Avg, paper", "Avg selected", "Avg pooled", "Avg last", "Avg late")


def test_names_are_checked_and_all_is_all_of_them() -> None:
    assert requested_names(["figure2", "table1"]) == ["table1", "figure2"]
    assert len(requested_names(["all"])) == 11
    with pytest.raises(InputError, match='there is no "tabel1" to reproduce: did you mean table1'):
        requested_names(["tabel1"])


@given(st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=9))
def test_p_is_the_share_of_sign_flips_that_lead_as_far(differences: list[float]) -> None:
    sums = [sum(sign * abs(d) for sign, d in zip(signs, differences, strict=True))
            for signs in product((1, -1), repeat=len(differences))]  # fmt: skip
    expected = sum(abs(one) >= abs(sum(differences)) for one in sums) / len(sums)
    found = sign_flips(differences)
    assert found.p == pytest.approx(expected)
    assert found.p >= found.least - 1e-12
    assert found.mean == pytest.approx(fmean(differences))


def test_many_pairs_are_sampled_to_nearly_the_exact_p() -> None:
    differences = [1.0] * 14 + [-1.0] * 8
    ways = _binomial(22)
    exact = sum(count for total, count in ways.items() if abs(total) >= 6) / 2**22
    assert sign_flips(differences).p == pytest.approx(exact, abs=0.005)


def _binomial(n: int) -> dict[int, int]:
    counts = {0: 1}
    for _ in range(n):
        grown: dict[int, int] = {}
        for total, count in counts.items():
            for step in (1, -1):
                grown[total + step] = grown.get(total + step, 0) + count
        counts = grown
    return counts


@given(st.lists(st.tuples(st.integers(0, 4), st.one_of(st.none(), st.integers(0, 4))), max_size=8))
def test_pairs_that_the_paper_orders_are_counted_one_by_one(rows) -> None:
    pairs = [(a, b) for a, b in combinations(rows, 2) if a[0] != b[0] and a[1] is not None and b[1] is not None]
    kept = sum((a[0] > b[0]) == (a[1] > b[1]) and a[1] != b[1] for a, b in pairs)
    tied = sum(a[1] == b[1] for a, b in pairs)
    found = ordering([row[0] for row in rows], [row[1] for row in rows])
    assert (found.pairs, found.kept, found.tied) == (len(pairs), kept, tied)


def test_figure_3_is_two_targets_each_from_the_last_model_of_a_trial_in_mid_training(tmp_path: Path) -> None:
    data = stripes("abcd")
    quick = resolve("quick", device="cpu", given={"steps": 20, "input_size": 8})
    comparison = FIGURE3.trials(data, quick, PaperRequest(targets="a,b,d"), tmp_path)
    assert [trial.targets for trial in comparison.trials] == [("b",), ("d",)]
    results = comparison.run(Engine(RunOptions(keep="none", snapshots=1)), lambda trial, event: None)
    files = figure3(results.outcomes, data, points=3).write(tmp_path / "out")
    assert [file.name for file in files if file.suffix in (".txt", ".svg")] == [
        "figure3.txt", "figure3-b.svg", "figure3-d.svg",
    ]  # fmt: skip
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files if file.suffix == ".png")
    assert "d unseen: arith on stripes, seed 0, after 20 updates" in (tmp_path / "out" / "figure3.txt").read_text()
    last = load(results.outcomes[1].folder / "snapshots" / "19")
    seen = open_task(results.outcomes[1], data)
    assert torch.equal(place(seen.net.parameters()), place(last.algorithm.net.parameters()))
    measured = figure4(seen)
    assert "of the domains a, b, c in Adam's first moment" in measured.notes[1]


def test_figure_3_takes_the_papers_data_to_mid_training_only(tmp_path: Path) -> None:
    pacs = resolve("domainbed", benchmark="pacs", device="cpu", given={"network": "small", "input_size": 8})
    found = FIGURE3.trials(tiny(), pacs, PaperRequest(), tmp_path).trials
    assert {(trial.steps, trial.evaluate_every) for trial in found} == {(701, 300)}
    assert [trial.targets for trial in found] == [("photo",), ("sketch",)]
