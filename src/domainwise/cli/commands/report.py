"""Commands that show results: the table and its report, and why one number of one trial is reported."""

from __future__ import annotations

import glob
import os
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from domainwise.cli import options as o
from domainwise.errors import InputError, warn

if TYPE_CHECKING:
    from domainwise.report.power import Power
    from domainwise.report.results import Results


WIDTH = 88  # of sentences in a terminal


def report(
    folder: Annotated[Path, typer.Argument(help="A folder that demo, compare, sweep or run writes to.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The file; FOLDER/report.html if none is given.")
    ] = None,
    select: o.Select = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Only print the table, in balanced_accuracy, macro_f1, auroc, worst_domain, or my_metric.py:score.",
        ),
    ] = None,
    difference: Annotated[
        float, typer.Option(metavar="POINTS", help="The smallest difference between two algorithms that matters.")
    ] = 1.0,
    baseline: Annotated[
        str | None, typer.Option(metavar="NAME", help="Compare algorithms with this one; erm where it was run.")
    ] = None,
    window: Annotated[
        str | None, typer.Option(metavar="A-B", help="Compare by the mean over the evaluations at these updates.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="digits|DIR|FILE|pacs=DIR", help="The data, to show the worst mistakes as pictures."),
    ] = None,
    pictures: Annotated[bool, typer.Option("--pictures", help="Show pictures of a named benchmark too.")] = False,
    format: o.TableFormat = o.Format.table,
    quiet: o.Quiet = False,
) -> None:
    """Print the table of a folder of results, say in words what it shows, and write its report anew."""
    from domainwise.report.power import power

    if output is not None and (select or metric):
        raise InputError("a report shows the accuracies that the trials selected: give -o, or --select or --metric")
    results = _opened(folder, data, quiet)
    print(results.table(format, select, metric), flush=True)
    if select or metric:
        return
    found = power(results, difference, baseline=baseline, window=_window(window))
    print_answer(results, format, quiet, found)
    path = results.report(output or folder / "report.html", power=found, pictures=pictures or None)
    if not quiet:
        print(f"report: {path}", file=sys.stderr)


def _window(text: str | None) -> tuple[int, int] | None:

    if text is None:
        return None
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal()):
        raise InputError(f'--window is from one update to a later one, such as 400-1000: got "{text}"')
    return int(first), int(last)


def _opened(folder: Path, data: str | None, quiet: bool) -> Results:
    """Open the results, and their data where they are named."""
    from domainwise.report.results import Results

    results = Results.open(folder)
    if data is None or not results.outcomes:
        return results
    from domainwise.training.reading import Reading, read_for

    trial = results.outcomes[0].trial
    found = read_for(trial, data, Reading(progress=not quiet))
    if found.known_as(trial.fingerprint).fingerprint != trial.fingerprint:
        warn(f"{data} is not the data of this comparison, so that the page has no pictures")
    return replace(results, data=found)


def print_answer(results: Results, format: str, quiet: bool, power: Power | None = None) -> None:
    """Print in words what a comparison says: below a table for people, beside one for programs."""
    if format == "table" or not quiet:
        parts = [textwrap.fill(part, WIDTH) for part in results.answer(power).split("\n\n")]
        print("\n\n".join(parts), end="\n\n", file=sys.stdout if format == "table" else sys.stderr, flush=True)


def show(
    run: Annotated[
        str, typer.Argument(help="A trial's folder, an output folder, or either with the beginning of an id.")
    ],
) -> None:
    """Explain which number of a trial is reported, and why that one."""

    folders = trials_named(run)
    if not folders:
        raise InputError(
            f'"{run}" is no trial: give the folder of a trial, an output folder, or the beginning of a trial\'s id '
            "behind its output folder, as in domainwise-demo/0a1b"
        )
    print(explained(folders[0]) if len(folders) == 1 else listed(folders))


def trials_named(text: str) -> list[Path]:
    """Return the folders of the trials that are meant; a bare id is looked for where results go by default."""
    path = Path(text)
    if any((path / name).is_file() for name in ("trial.json", "result.json")):
        return [path]
    if (path / "trials").is_dir():
        return _in(path, "")
    near = path.parent
    places = (
        [near.parent] if near.name == "trials" else [near, near / "domainwise-demo", *near.glob("domainwise-runs/*")]
    )
    return [folder for place in places for folder in _in(place, path.name)]


def _in(output: Path, beginning: str) -> list[Path]:
    found = (output / "trials").glob(f"{glob.escape(beginning)}*")
    return sorted(home for home in found if any((home / name).exists() for name in ("trial.json", "result.json")))


def explained(folder: Path) -> str:
    """Explain the number that is reported of one trial."""
    from domainwise.experiment.results import Outcome, outcomes, result_in, told_apart, trial_in
    from domainwise.report.explain import explanation, standing

    ended = os.path.lexists(folder / "result.json")
    result = result_in(folder, files=True) if ended else {"status": "unfinished"}
    outcome = Outcome(trial_in(folder), result, folder)
    output = folder.resolve().parent.parent
    return explanation(outcome, standing(outcome, told_apart(outcomes(output))))


def listed(folders: Sequence[Path]) -> str:
    """One line for each of several trials."""
    from domainwise.experiment.results import listing, told_apart, warn_of_damage
    from domainwise.report.explain import overview

    outputs = dict.fromkeys(folder.parent.parent for folder in folders)
    wanted = {folder.name for folder in folders}
    trials = [listing(output) for output in outputs]
    found = [one for some in trials for one in told_apart(some.outcomes) if one.folder.name in wanted]
    for some in trials:
        warn_of_damage(some)
    unfinished = len(folders) - len(found)
    waiting = f"{unfinished} more have not come to an end. " if unfinished else ""
    return f"{overview(found)}\n\n{waiting}For one of them: domainwise show {folders[0].parent.parent}/ID"
