"""Writes docs/results.md, its picture and the results in README.md anew: python docs/make_results.py."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from textwrap import fill

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "docs"))

import make_study as study  # noqa: E402  the numbers and the tests of the plan

from domainwise.errors import InputError  # noqa: E402

PICTURE, EARLIER = ROOT / "docs" / "figures" / "study.svg", ROOT / "results" / "pacs"
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"
MINUS = "\N{MINUS SIGN}"
METHODS = {"erm": "ERM", "arith": "Arith"}

# One run of ERM in SWAD's code for each target, with torchvision's weights and 5001 updates: the example in the README
# of github.com/khanrc/swad, rows "iid (inD)" and "SWAD (inD)".
UPSTREAM = {"art_painting": 97.275, "cartoon": 96.619, "photo": 96.696, "sketch": 97.253}
UPSTREAM_SWAD = 97.688

PAGE = """# Results: Arith and ERM on PACS

<!-- Written by docs/make_results.py from the records in results/study: do not edit. -->

## The question

The paper reports that Arith is more accurate than ERM on a domain that was not trained on: 86.5 % against 84.7 % on
PACS in its own runs, at one selected step, with three seeds. Is it so, when in training, and by how much?

## The method

A plan was [written before the first trial](study.md): which trials are run, which one test decides, and what is said
for each outcome. PACS with each of its four domains as the target, a ResNet-50 with ImageNet weights, eight new seeds,
ERM and Arith with the same seeds. What is compared is the **early accuracy**: the mean accuracy on the target over the
evaluations at updates 400, 450, ..., 1000. Two earlier seeds had shown Arith ahead there, by 1.9 and 1.5 points. A mean
over many evaluations scatters less than one selected step, so it can tell smaller differences apart.

## The answer

{answer}

![{alternative}](figures/study.svg)

*Every panel has an axis of its own.*

{early}

The difference has no interval for each target: the plan fixed one test, of the mean over the four.

## At the selected step

Tables usually print the accuracy at the step that was chosen on the source domains. The plan reports it and decides
nothing by it, since one evaluation on the target scatters by several points:

{selected}

## Is the protocol right?

The accuracy on the source domains' held-out 20 % does not depend on how far the target is from them. So it shows best
whether data, splits, augmentation and training are those of the published protocol. Accuracy in percent at the step
chosen on it, mean over the three source domains:

{source}

{earlier}

The published protocol starts from torchvision's weights (76.1 % top-1 on ImageNet); here they are those of the original
ResNet-50 (74.9 %). That is a known difference. Whether it explains the lower accuracy on targets was not measured.

## What is not known yet

{open}

Each family answers another question: a smaller learning rate (L), training to the end with averaged weights (E), which
part of Arith does it (C), and more steps on each domain (K). Until a family is complete, nothing but the number of its
trials is looked at. [How to run the next one](../benchmarks/README.md#studypy-the-study-on-pacs).

---

[All pages](README.md) · Next: [A study of Arith on PACS: the plan](study.md)
"""


def page() -> str:
    return PAGE.format(
        answer=answer(),
        alternative=study.ALTERNATIVE,
        early=table("early accuracy", study.PRIMARY),
        selected=selected(),
        source=source(),
        earlier=earlier(),
        open=study.progress(),
    )


def answer() -> str:
    """The primary test in words a reader of one paragraph can use."""
    one = study.primary_estimate()
    statuses = study.ended("P")
    return paragraph(
        f"**{verdict()}** Arith minus ERM, mean of four targets: {points(one.mean)} points, 95 % interval "
        f"{interval(one)} (p = {one.p:.2f}). A true difference of {one.detectable():.1f} points would have been found "
        f"in 80 of 100 such studies, so a smaller one may be there. {statuses.count('finished')} of {len(statuses)} "
        "trials finished."
    )


def verdict() -> str:
    low, high = study.primary_estimate().interval()
    if low > 0:
        return "Early in training Arith is more accurate than ERM on the target."
    if high < 0:
        return "Early in training Arith is less accurate than ERM on the target."
    return "Early in training, eight seeds do not tell Arith and ERM apart."


def table(what: str, test: study.Test) -> str:
    """Both methods on every target, and their difference, with the interval of the mean alone."""
    arith, erm = test.numbers()
    rows = {"ERM": target_means(erm), "Arith": target_means(arith)}
    apart = [a - b for a, b in zip(rows["Arith"], rows["ERM"], strict=True)]
    one = study.estimated(study.differences(test), independent=False)
    lines = [heading(f"{what}, %")]
    lines += [line(name, [f"{mean:.1f}" for mean in [*means, fmean(means)]]) for name, means in rows.items()]
    last = f"**{points(one.mean)}** ({interval(one)})"
    return "\n".join([*lines, line(f"Arith {MINUS} ERM (95 % interval)", [*(points(value) for value in apart), last])])


def selected() -> str:
    one = study.estimated(study.differences(study.SELECTED), independent=False)
    said = paragraph(
        f"The same runs give {points(one.mean)} points here ({interval(one)}). With this number eight seeds find "
        f"differences of {one.detectable():.1f} points and more. The paper's difference is 1.8 points, from three "
        "seeds at the selected step."
    )
    return f"{table('accuracy at the selected step', study.SELECTED)}\n\n{said}"


def source() -> str:
    """Accuracy on the held-out part of the sources, at the step chosen on it, beside that of SWAD's own code."""
    rows = [heading("target left out")]
    for label, name in METHODS.items():
        means = [fmean(values) for values in validation(label).values()]
        own = line(f"{name}, here: 1001 updates, {seeds()} seeds", [f"{mean:.1f}" for mean in [*means, fmean(means)]])
        rows.append(own)
    theirs = [*UPSTREAM.values(), fmean(UPSTREAM.values())]
    where = "ERM, [SWAD's code](https://github.com/khanrc/swad#how-to-run): 5001 updates, 1 seed"
    rows.append(line(where, [f"{mean:.1f}" for mean in theirs]))
    spread = max(stdev(values) for label in METHODS for values in validation(label).values())
    return "\n".join(rows) + f"\n\nSeeds of one target differ here by a standard deviation of at most {spread:.1f}."


def earlier() -> str:
    """The comparison at equal length that older records allow, until families L and E bring new ones."""
    found = [
        json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(EARLIER.glob("trials/*/result.json"))
        if json.loads((path.parent / "trial.json").read_text(encoding="utf-8"))["algorithm"] == "erm"
    ]
    plain = 100 * fmean(one["selected"]["validation"] for one in found)
    swad = 100 * fmean(one["averages"]["swad"]["last"]["validation"] for one in found)
    return paragraph(
        f"Theirs trained five times as long. At equal length, 5001 updates, there are {len(found)} earlier runs of ERM "
        f"in `results/pacs` so far, with weights whose first convolution had another scale: {plain:.1f} % at the "
        f"selected step, and {swad:.1f} % for the SWAD average, where SWAD's code has "
        f"{fmean(UPSTREAM.values()):.1f} % and {UPSTREAM_SWAD:.1f} %. These runs are used for nothing else here."
    )


def validation(label: str) -> dict[str, list[float]]:
    """Every trial's accuracy on its sources' hold-outs at the selected step, by target."""
    own = study.trials("P", label)
    return {
        target: [100 * one.result["selected"]["validation"] for one in own if one.trial.targets == (target,)]
        for target in study.TARGETS
    }


def target_means(numbers: study.Numbers) -> list[float]:
    return [fmean(value for (target, _), value in numbers.items() if target == one) for one in study.TARGETS]


def seeds() -> int:
    return len({one.trial.seed for one in study.trials("P", "erm")})


def heading(first: str) -> str:
    return f"{line(first, [*study.TARGETS.values(), 'mean'])}\n|---|{'---:|' * (len(study.TARGETS) + 1)}"


def line(name: str, cells: Sequence[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


def points(value: float) -> str:
    return f"{value:+.2f}".replace("-", MINUS)


def interval(one: study.Estimate) -> str:
    low, high = one.interval()
    return f"{points(low)} to {points(high)}"


def paragraph(text: str) -> str:
    return fill(text, 120, break_long_words=False, break_on_hyphens=False)


def block() -> str:
    """What the README says of the study: a sentence, the picture and a small table."""
    one = study.primary_estimate()
    said = paragraph(
        f"**{verdict()}** On PACS the difference is {points(one.mean)} points of accuracy on the target (95 % interval "
        f"{interval(one)}), by a test that was [planned before the runs](docs/study.md)."
    )
    below = paragraph(
        f"Mean accuracy over updates 400 to 1000, {seeds()} seeds, ResNet-50. Bands: one standard error to each side. "
        "[How it was measured, and what is not known yet](docs/results.md)."
    )
    picture = f"![{study.ALTERNATIVE}](docs/figures/study.svg)"
    return "\n\n".join([said, picture, table("early accuracy", study.PRIMARY), below]) + "\n"


def draw(path: Path) -> None:
    """Target accuracy against updates, a panel for each target: means over seeds with their standard errors."""
    import matplotlib.style
    from matplotlib.figure import Figure

    with matplotlib.style.context(
        ["default", {"svg.hashsalt": "study", "font.size": 9, "svg.fonttype": "none", "lines.linewidth": 1.3}]
    ):
        figure = Figure(figsize=(9, 3.1), layout="constrained")
        axes = figure.subplots(1, 4)
        for own, (target, name) in zip(axes, study.TARGETS.items(), strict=True):
            window = own.axvspan(*study.EARLY, color="0.93", zorder=0)
            shown = {}
            for label, colour in (("erm", "#0072b2"), ("arith", "#d55e00")):
                steps, means, errors = curve(label, target)
                low, high = ([m + sign * e for m, e in zip(means, errors, strict=True)] for sign in (-1, 1))
                band = own.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
                shown[f"{METHODS[label]}, mean ± standard error"] = (band, *own.plot(steps, means, color=colour))
            own.set_title(name, fontsize=10)
            own.set_xlabel("updates")
            own.set_xlim(50, 1000)
            own.grid(alpha=0.2)
            own.spines[["top", "right"]].set_visible(False)
        axes[0].set_ylabel("accuracy on the target, %")
        shown["window of the test"] = window
        figure.legend(shown.values(), shown, loc="outside lower center", ncols=3, frameon=False)
        figure.savefig(path, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = path.read_text(encoding="utf-8")
    path.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n", encoding="utf-8")


def curve(algorithm: str, target: str) -> tuple[list[int], list[float], list[float]]:
    """Steps from 50 on, with the mean accuracy over seeds and its standard error."""
    runs = [
        {r["step"]: 100 * r["domains"][target]["main"]["accuracy"] for r in one.records()}
        for one in study.trials("P", algorithm)
        if one.trial.targets == (target,)
    ]
    steps = [step for step in runs[0] if step >= 50]
    columns = [[run[step] for run in runs] for step in steps]
    return steps, [fmean(column) for column in columns], [stdev(column) / sqrt(len(column)) for column in columns]


def replaced(readme: str, made: str) -> str:
    if BEGIN not in readme or END not in readme:
        raise InputError(f"README.md has no place for the results: put {BEGIN} and {END} where they belong")
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n{made}{END}", readme, flags=re.DOTALL)


def main() -> None:
    warnings.simplefilter("ignore", UserWarning)
    draw(PICTURE)
    (ROOT / "docs" / "results.md").write_text(page(), encoding="utf-8")
    readme = ROOT / "README.md"
    readme.write_text(replaced(readme.read_text(encoding="utf-8"), block()), encoding="utf-8")


if __name__ == "__main__":
    main()
