"""Writes the progress and the results of docs/study.md anew: python docs/make_study.py.

The tests are those that the plan fixed, in its words and numbers. Nothing of a family is read before all of its trials
have ended, but how many have.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "benchmarks"))

from study import FAMILIES  # noqa: E402  the plan's families, where they are run

from domainwise.experiment.results import Outcome, outcomes  # noqa: E402
from domainwise.report.statistics import Differences, Estimate, estimate, holm  # noqa: E402

STUDY, PAGE = ROOT / "results" / "study", ROOT / "docs" / "study.md"
ALTERNATIVE = "Accuracy on the four targets against updates, ERM and Arith"
BEGIN, END = "<!-- {}:begin -->", "<!-- {}:end -->"
EARLY, LATE = (400, 1000), (1700, 5000)
MARGIN = 1.0  # points, within which two methods are called equivalent
NO_WALK = "arith(inner_lr=0)"
THREE = "(inner_steps=3, inner_lr=0.003)"
TARGETS = {"art_painting": "art painting", "cartoon": "cartoon", "photo": "photo", "sketch": "sketch"}

Key = tuple[str, int]  # target and seed
Numbers = Mapping[Key, float]


@dataclass(frozen=True)
class Test:
    """One of the tests of the plan: which families it needs, and the numbers of both methods."""

    number: int
    what: str
    families: str
    numbers: Callable[[], tuple[Numbers, Numbers]]
    unit: str = "points"


@cache
def family(name: str) -> tuple[Outcome, ...]:
    """Every trial of a family that came to a good end."""
    assert complete(name), name
    return tuple(one for one in outcomes(STUDY / name) if one.result["status"] == "finished")


def ended(name: str) -> list[str]:
    """The statuses of the trials that have ended: all that is read of a family that is not complete."""
    return [json.loads(path.read_text())["status"] for path in (STUDY / name).glob("trials/*/result.json")]


def complete(name: str) -> bool:
    return len(ended(name)) == FAMILIES[name].trials


def window(name: str, algorithm: str, steps: tuple[int, int], measure: str = "accuracy") -> Numbers:
    """The mean over the evaluations of a trial in a window of updates, on the main part of its target."""
    found = {}
    for one in trials(name, algorithm):
        (target,) = one.trial.targets
        parts = [r["domains"][target]["main"] for r in one.records() if steps[0] <= r["step"] <= steps[1]]
        scale = 100 if measure == "accuracy" else 1
        found[target, one.trial.seed] = scale * fmean(part[measure] for part in parts)
    return found


def average(name: str, algorithm: str, averager: str) -> Numbers:
    """The accuracy of the averaged weights at the end of training."""
    return {key(one): 100 * one.result["averages"][averager]["last"]["target"] for one in trials(name, algorithm)}


def selected(name: str, algorithm: str) -> Numbers:
    """The accuracy at the step chosen on the sources, which decides nothing."""
    return {key(one): 100 * one.result["selected"]["target"] for one in trials(name, algorithm)}


def at_better_rate(algorithm: str) -> Numbers:
    """SWAD at the learning rate whose SWAD average is better on the hold-outs of the source domains."""
    found: dict[Key, tuple[float, float]] = {}
    for name in ("L", "E"):
        for one in trials(name, algorithm):
            last = one.result["averages"]["swad"]["last"]
            found[key(one)] = max(found.get(key(one), (-1.0, 0.0)), (last["validation"], 100 * last["target"]))
    return {key: target for key, (_, target) in found.items() if key[1] in (100, 101, 102)}


def trials(name: str, algorithm: str) -> list[Outcome]:
    return [one for one in family(name) if one.trial.label == algorithm]


def key(one: Outcome) -> Key:
    (target,) = one.trial.targets
    return target, one.trial.seed


def early(name: str, one: str, other_name: str, other: str) -> Callable[[], tuple[Numbers, Numbers]]:
    return lambda: (window(name, one, EARLY), window(other_name, other, EARLY))


PRIMARY = Test(0, "P: early accuracy, Arith and ERM", "P", early("P", "arith", "P", "erm"))
SELECTED = Test(0, "P: accuracy at the selected step", "P", lambda: (selected("P", "arith"), selected("P", "erm")))
TESTS = (
    Test(1, "P: early loss, Arith and ERM", "P",
         lambda: (window("P", "arith", EARLY, "loss"), window("P", "erm", EARLY, "loss")), "of loss"),
    Test(2, "L: late accuracy, Arith and ERM", "L", lambda: (window("L", "arith", LATE), window("L", "erm", LATE))),
    Test(3, "L: SWAD", "L", lambda: (average("L", "arith", "swad"), average("L", "erm", "swad"))),
    Test(4, "L: MA", "L", lambda: (average("L", "arith", "ma"), average("L", "erm", "ma"))),
    Test(5, "L and E: SWAD, each method at its better learning rate", "LE",
         lambda: (at_better_rate("arith"), at_better_rate("erm"))),
    Test(6, "E: late accuracy, Arith and ERM", "E", lambda: (window("E", "arith", LATE), window("E", "erm", LATE))),
    Test(7, "E: SWAD", "E", lambda: (average("E", "arith", "swad"), average("E", "erm", "swad"))),
    Test(8, "E: MA", "E", lambda: (average("E", "arith", "ma"), average("E", "erm", "ma"))),
    Test(9, "C: early accuracy, Fish and ERM", "CP", early("C", "fish", "P", "erm")),
    Test(10, "C: early accuracy, Arith and Fish", "CP", early("P", "arith", "C", "fish")),
    Test(11, f"C: early accuracy, Arith and `{NO_WALK}`", "CP", early("P", "arith", "C", NO_WALK)),
    Test(12, f"C: early accuracy, `{NO_WALK}` and ERM", "CP", early("C", NO_WALK, "P", "erm")),
    Test(13, "K: early accuracy, Arith and Fish, three inner steps", "K",
         early("K", f"arith{THREE}", "K", f"fish{THREE}")),
)  # fmt: skip
EQUIVALENCE = (6, 7)


def differences(test: Test) -> Differences:
    """One minus the other with the same target and seed; a pair of which one diverged is left out."""
    one, other = test.numbers()
    found: dict[str, dict[int, float]] = {target: {} for target in TARGETS}
    for target, seed in sorted(one.keys() & other.keys()):
        found[target][seed] = one[target, seed] - other[target, seed]
    return found


def progress() -> str:
    rows = [f"| {name} | {len(ended(name))} of {FAMILIES[name].trials} |" for name in FAMILIES]
    return "\n".join(["| family | ended trials |", "|---|---|", *rows])


def results() -> str:
    if not complete("P"):
        return "No family is complete yet."
    ready = [test for test in TESTS if all(map(complete, test.families))]
    waiting = [test.number for test in TESTS if test not in ready]
    parts = [primary(), by_target(), picture_text()]
    if ready:
        parts.append(others(ready))
    if waiting:
        parts.append(f"Still to come, when their families are complete: numbers {', '.join(map(str, waiting))}.")
    return "\n\n".join(parts)


def primary_estimate() -> Estimate:
    return estimated(differences(PRIMARY), independent=False)


def primary() -> str:
    found, one = differences(PRIMARY), primary_estimate()
    low, high = one.interval()
    said = "these seeds do not tell Arith and ERM apart"
    if low > 0 or high < 0:
        first, second = ("Arith", "ERM") if low > 0 else ("ERM", "Arith")
        said = f"{first} generalises sooner than {second}"
    seeds = sorted(set.intersection(*(set(by_seed) for by_seed in found.values())))
    means = [fmean(by_seed[seed] for by_seed in found.values()) for seed in seeds]
    return (
        f"**The primary test: {said}.** Early accuracy, Arith minus ERM, mean of four targets: {one.mean:+.2f} points, "
        f"95 % interval {low:+.2f} to {high:+.2f} ({len(seeds)} seeds, t = {one.mean / one.error:.2f}, {one.df:.0f} "
        f"degrees of freedom, p = {one.p:.2f}){lost(PRIMARY)}.\n\n"
        f"By seed, {seeds[0]} to {seeds[-1]}: {', '.join(f'{mean:+.2f}' for mean in means)}. Their standard deviation "
        f"is {one.sd:.2f} points. The study could find a true difference of {one.detectable():.1f} points in 80 of 100 "
        "cases."
    )


def by_target() -> str:
    lines = [f"| early accuracy, % | {' | '.join(TARGETS.values())} |", "|---|---:|---:|---:|---:|"]
    for name, label in (("ERM", "erm"), ("Arith", "arith")):
        numbers = window("P", label, EARLY)
        means = [fmean(v for (target, _), v in numbers.items() if target == asked) for asked in TARGETS]
        lines.append(f"| {name} | {' | '.join(f'{mean:.1f}' for mean in means)} |")
    return "\n".join(lines)


def others(ready: Sequence[Test]) -> str:
    """The table of the other tests; those that wait count in Holm's correction as if they found nothing."""
    within = [estimated(differences(test), independent=True) for test in ready]
    corrected = holm([one.p for one in within] + [1.0] * (len(TESTS) - len(ready)))
    lines = [
        "All other tests that can be made, variance within targets (Satterthwaite); corrected by Holm's method for all "
        f"{len(TESTS)}, of which those that wait are taken to find nothing:",
        "",
        "| | what | difference | 95 % interval | p | corrected | by means of seeds |",
        "|---|---|---:|---|---:|---:|---|",
    ]
    for test, one, p in zip(ready, within, corrected, strict=False):
        low, high = one.interval()
        whole = estimated(differences(test), independent=False)
        a, b = whole.interval()
        digits = 2 if test.unit == "points" else 3
        numbers = (
            f"{one.mean:+.{digits}f} {test.unit} | {low:+.{digits}f} to {high:+.{digits}f} | {one.p:.3f} | {p:.2f}"
        )
        lines.append(f"| {test.number} | {test.what}{lost(test)} | {numbers} | {a:+.{digits}f} to {b:+.{digits}f} |")
        if test.number in EQUIVALENCE:
            verdict = "equivalent" if one.within(MARGIN) else "not shown to be equivalent"
            lines.append(f"| | the same, within {MARGIN:g} point | {verdict} | | | | |")
    return "\n".join(lines)


def lost(test: Test) -> str:
    """How many pairs are left out, because a trial of them diverged or failed; nothing where none is."""
    missing = sum(one != "finished" for name in test.families for one in ended(name))
    return f" ({missing} trials of these families did not finish: their pairs are left out)" if missing else ""


def estimated(found: Differences, *, independent: bool) -> Estimate:
    one = estimate(found, independent=independent)
    assert one is not None
    return one


def picture_text() -> str:
    return (
        f"![{ALTERNATIVE}](figures/study.svg)\n\n"
        "Mean over eight seeds. Bands: one standard error to each side. Grey: the window of the test."
    )


def replaced(page: str, name: str, made: str) -> str:
    begin, end = BEGIN.format(name), END.format(name)
    assert begin in page, begin
    return re.sub(f"{begin}.*{end}", lambda _: f"{begin}\n{made}\n{end}", page, flags=re.DOTALL)


def page() -> str:
    text = PAGE.read_text(encoding="utf-8")
    return replaced(replaced(text, "progress", progress()), "results", results())


def main() -> None:
    warnings.simplefilter("ignore", UserWarning)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
