"""Writes docs/results.md and the results in README.md anew, from results/pacs: python docs/make_results.py."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from domainwise.errors import InputError
from domainwise.experiment import records
from domainwise.experiment.results import Outcome
from domainwise.paper.claims import check_claims, claims_table, order_sentences
from domainwise.paper.comparison import VIEWS, Section, checkpoint_table, comparison_table, measured_only
from domainwise.paper.from_results import open_results
from domainwise.paper.layout import PaperRequest
from domainwise.paper.tables import TABLE1, TABLE4
from domainwise.report.grid import arrange
from domainwise.report.page import balance, facts
from domainwise.report.statistics import sign_flip

ROOT = Path(__file__).parents[1]
RESULTS, IN_FP32, AGAIN = (ROOT / "results" / name for name in ("pacs", "pacs-fp32", "pacs-along"))
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"
HEAD = """# Results on PACS

Measured by `domainwise`, beside the numbers of the paper. Made from the records in `results/pacs` by
`python docs/make_results.py`; `domainwise reproduce table4 --from results/pacs` prints the same numbers. A is art, C
cartoon, P photo, S sketch, each held out in turn; PACS is the mean over the four.
"""

BALANCE = """Of the selected models: whether they lie equally far from what each source domain alone would make of them.
[Balance](balance.md) says what is measured, and how to read it. Means over trials, ± their standard error.
"""


PRECISION = """## bfloat16 and float32

The same trials, seed for seed, with `--precision fp32` and cut short, from `{fp32}`: accuracy in percent on
the unseen domain, mean over the evaluations of the last two thirds of the updates that both have made, {first}
to {last}.
"""

REPEATED = """## The same seeds again

Some of these trials were run a second time, with the same settings and the same seeds, without `--deterministic`, and
with kernels that had changed since: `{again}`. (The size of stored images was not recorded in the first runs, and is
the preset's in both by all that is known: the losses of the first update agree to 0.003.) Accuracy in percent on the
unseen domain, at the selected step and as the mean over all evaluations of the last four fifths of training, with
their standard deviation in the first run.
"""

Records = dict[int, dict[str, Any]]  # by step


def page(folder: Path, in_fp32: Path | None = None, again: Path | None = None) -> str:
    groups = open_results(folder)
    parts = [HEAD, *(part for settings, own in groups.items() for part in _group(folder, settings, own))]
    parts += [repeated(folder, again)] if again else []
    return "\n".join(parts + ([precision(folder, in_fp32)] if in_fp32 else []))


def block(folder: Path) -> str:
    """The means over the four targets, for the README: of the settings with the most trials."""
    outcomes = next(iter(open_results(folder).values()))
    seeds = len({outcome.trial.seed for outcome in outcomes})
    about = (
        "Accuracy in percent on PACS, the mean over its four domains held out in turn, beside what the paper printed "
        f"({seeds} seed{'s' * (seeds > 1)} here, 3 there):\n"
    )
    found, _ = _section(outcomes, per_domain=False)
    weights = _added(folder).get("Weights")
    about += f"\nCompare those measured with each other: the ImageNet weights are {weights}.\n" if weights else ""
    per_target = "Per target, with the paper's claims tested: [docs/results.md](docs/results.md).\n"
    return "\n".join([about, checkpoint_table(found).render("markdown"), per_target])


def replaced(readme: str, made: str) -> str:
    if BEGIN not in readme or END not in readme:
        raise InputError(f"README.md has no place for the results: put {BEGIN} and {END} where they belong")
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n{made}{END}", readme, flags=re.DOTALL)


def repeated(first: Path, second: Path) -> str:
    """How far two runs of one seed are apart."""
    runs, chosen = [_recorded(first), _recorded(second)], [_selected(first), _selected(second)]
    lines, apart, means = [], [], []
    for key in sorted(runs[1]):
        name, target, seed = key
        steps = [step for step in runs[0][key] if 5 * step >= max(runs[0][key])]
        one, two = (_mean(found[key], target, steps) for found in runs)
        spread = stdev(100 * runs[0][key][step]["domains"][target]["main"]["accuracy"] for step in steps)
        a, b = (found[key] for found in chosen)
        apart.append(b - a)
        means.append(two - one)
        lines.append(f"| {name} | {target} | {seed} | {a:.1f} | {b:.1f} | {one:.1f} ± {spread:.1f} | {two:.1f} |")
    said = (
        f"\nAt the selected step two runs of one seed are {fmean(map(abs, apart)):.1f} points apart on average and "
        f"{max(map(abs, apart)):.1f} at most; their means over training {fmean(map(abs, means)):.1f} and "
        f"{max(map(abs, means)):.1f}. The second runs are better by {fmean(apart):+.1f} at the selected step, p = "
        f"{sign_flip(apart):.2g}, and by {fmean(means):+.1f} in the mean, p = {sign_flip(means):.2g} (two-sided "
        f"sign-flip permutation tests over {len(apart)} pairs). So a seed names the splits and the draws, but not the "
        "outcome. A difference of a few points between two algorithms with few seeds says little.\n"
    )
    head = "| algorithm | unseen | seed | selected | again | mean | again |"
    return "\n".join(
        [REPEATED.format(again=second.relative_to(ROOT)), head, "|---|---|---:|---:|---:|---:|---:|", *lines, said]
    )


def _selected(folder: Path) -> dict[tuple[str, str, int], float]:
    found = {}
    for path in folder.glob("trials/*/result.json"):
        trial = json.loads((path.parent / "trial.json").read_text(encoding="utf-8"))
        result = json.loads(path.read_text(encoding="utf-8"))
        found[trial["algorithm"], "+".join(trial["targets"]), trial["seed"]] = 100 * result["selected"]["target"]
    return found


def precision(bf16: Path, fp32: Path) -> str:
    """Every trial in float32 beside the same in bfloat16."""
    ours, theirs = _recorded(bf16), _recorded(fp32)
    shared = [key for key in theirs if key in ours]
    last = min(max(found[key]) for found in (ours, theirs) for key in shared)
    steps = [step for step in theirs[shared[0]] if last <= 3 * step and step <= last]
    rows = {key: [_mean(found[key], key[1], steps) for found in (ours, theirs)] for key in sorted(shared)}
    lines = [f"| {name} | {target} | {a:.1f} | {b:.1f} | {a - b:+.1f} |" for (name, target, _), (a, b) in rows.items()]
    means = [fmean(values) for values in zip(*rows.values(), strict=True)]
    lines += [f"| mean | | {means[0]:.1f} | {means[1]:.1f} | {means[0] - means[1]:+.1f} |"]
    p = sign_flip([a - b for a, b in rows.values()])
    head = PRECISION.format(fp32=fp32.relative_to(ROOT), first=min(steps), last=max(steps))
    said = f"\n{len(rows)} pairs, p = {p:.2g} (two-sided sign-flip permutation test of the differences).\n"
    return "\n".join(
        [head, "| algorithm | unseen | bf16 | fp32 | difference |", "|---|---|---:|---:|---:|", *lines, said]
    )


def _recorded(folder: Path) -> dict[tuple[str, str, int], Records]:
    """By algorithm, target and seed."""
    found = {}
    for home in sorted((folder / "trials").iterdir()):
        trial = json.loads((home / "trial.json").read_text(encoding="utf-8"))
        key = (trial["algorithm"], "+".join(trial["targets"]), trial["seed"])
        found[key] = {record["step"]: record for record in records.read(home / "records.jsonl")}
    return found


def _mean(found: Records, target: str, steps: Sequence[int]) -> float:
    return fmean(100 * found[step]["domains"][target]["main"]["accuracy"] for step in steps)


def _section(outcomes: Sequence[Outcome], *, per_domain: bool) -> tuple[Section, Sequence[str]]:
    """Table 4 where weights were averaged beside, else table 1; of either what was run, and what to keep in mind."""
    which = TABLE4 if any(outcome.averaged for outcome in outcomes) else TABLE1
    made = which.render(outcomes, PaperRequest(per_domain=per_domain))
    return measured_only(made.sections[0]), made.notes


def _group(folder: Path, settings: str, outcomes: Sequence[Outcome]) -> list[str]:
    found, notes = _section(outcomes, per_domain=True)
    parts = [f"## {settings or 'Settings'}\n", _about(folder, outcomes), *(f"{note}\n" for note in notes)]
    parts += [
        f"### {view.capitalize()}: {VIEWS[view]}\n\n{comparison_table(found, view).render('markdown')}"
        for view in VIEWS
    ]
    parts += [f"### Against the paper\n\n{claims_table(found).render('markdown')}"] if check_claims(found) else []
    return [*parts, *(f"{line}\n" for line in order_sentences(found)), *_balance(outcomes)]


def _balance(outcomes: Sequence[Outcome]) -> list[str]:
    """How far the selected models are from what each of their sources alone would make of them, where measured."""
    found = balance.section(arrange(outcomes))
    if found is None:
        return []
    rows = [["algorithm", *found.names], ["---", *["---:"] * len(found.names)]]
    rows += [[name, *(" ".join(cell).strip() for cell in cells)] for name, cells in found.rows]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    said = [f"- {sentence}" for sentence in found.sentences]
    return ["### Balance\n", BALANCE, "\n".join(lines) + "\n", "\n".join(said) + "\n"]


def _about(folder: Path, outcomes: Sequence[Outcome]) -> str:
    """What the records say, and what about.json beside them adds, such as the date and the name of the device."""
    added = _added(folder)
    trials = {outcome.trial.id for outcome in outcomes}
    seeds = facts.listed(str(outcome.trial.seed) for outcome in outcomes)
    lines = {"Trials": str(len(trials)), "Seeds": seeds, **added}
    lines |= {fact.name: fact.value for fact in facts.settings(outcomes) if fact.name not in added}
    lines |= {fact.name: fact.value for fact in facts.versions(outcomes)}
    lines["Precision"] = facts.listed(outcome.trial.precision for outcome in outcomes)
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in lines.items())]) + "\n"


def _added(folder: Path) -> dict[str, str]:
    file = folder / "about.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def main() -> None:
    (ROOT / "docs" / "results.md").write_text(page(RESULTS, IN_FP32, AGAIN), encoding="utf-8")
    readme = ROOT / "README.md"
    readme.write_text(replaced(readme.read_text(encoding="utf-8"), block(RESULTS)), encoding="utf-8")


if __name__ == "__main__":
    main()
