from __future__ import annotations

import sys
from dataclasses import replace
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from domainwise.cli import options as o
from domainwise.errors import InputError
from domainwise.machine import choose_device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from domainwise.experiment.results import Outcome
    from domainwise.paper.figures import Drawing
    from domainwise.paper.layout import PaperRequest
    from domainwise.paper.page import Page


class Error(StrEnum):
    """Name what stands behind ±."""

    standard_error = "standard-error"
    deviation = "deviation"
    domainbed = "domainbed"


@o.grouped
def reproduce(
    what: Annotated[
        list[str], typer.Argument(metavar="WHAT...", help="table1 to table5, wilds, figure1 to figure5, or all.")
    ],
    *,
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data", metavar="pacs=DIR|digits", help="The paper's data, repeatable; digits stands in for it."
        ),
    ] = None,
    source: Annotated[
        Path | None, typer.Option("--from", metavar="DIR", help="Results that are there: run nothing, need no data.")
    ] = None,
    algorithms: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="These alone, in table1 also my.py:Mine; else all of a table."),
    ] = None,
    targets: Annotated[
        str | None, typer.Option(metavar="A,B", help="Domains to hold out; all if none is named, of digits 0,75.")
    ] = None,
    seeds: o.Seeds = "3",
    per_domain: Annotated[bool, typer.Option("--per-domain", help="Tables 1 and 4 with a column per domain.")] = False,
    error: Annotated[
        Error, typer.Option(help="Meaning of ±; domainbed: of the population, as published tables have it.")
    ] = (Error.standard_error),
    preset: Annotated[
        str | None, typer.Option(metavar="NAME", help="That of each table if none is given; quick for other data.")
    ] = None,
    choices: o.PaperChoices,
    images: o.Images,
    machine: o.Machine,
    many: o.Many,
    cluster: o.Cluster,
    results: o.Results,
) -> None:
    """Make the paper's tables and figures: run what is missing, and show it beside what was printed."""
    from domainwise.cli.arguments import arguments, assignments
    from domainwise.cli.reproducing import Making, default_folder, name_of, ours
    from domainwise.experiment.output_folder import refuse_file
    from domainwise.experiment.settings import together
    from domainwise.experiment.trial import separated
    from domainwise.paper.index import requested_names
    from domainwise.paper.layout import PaperRequest, is_own, stand_in
    from domainwise.sweeps.engine import Runs, runs_for
    from domainwise.training.run_options import RunOptions

    names = requested_names(what)
    asked = tuple(word if is_own(word) else word.lower() for word in separated(algorithms or ""))
    wish = PaperRequest(asked, targets or "", seeds, per_domain, error, assignments(choices.set))
    names = possible(names, wish, bool(data) or source is not None, "all" in what)
    if source is not None:
        from_folder(names, source, wish, results)
        return
    device = choose_device(machine.device, elsewhere=cluster.engine is o.Engine.ray)
    settings = {name: value for name, value in vars(choices).items() if name != "set" and value is not None}
    given = together(settings, wish.given)
    options, placed = RunOptions.taken_from({**arguments(machine), "keep": "none"}, device)
    engine = {name: value for name, value in arguments(many, cluster).items() if name in ENGINE}

    def runs(network: str, keep: bool) -> Runs:
        return runs_for(network, replace(options, snapshots=int(keep)), threads=placed.get("threads"), **engine)

    if results.output:
        refuse_file(results.output)
    making = Making(data or [], given, preset, wish, device, images, results, runs, many.retry_failed)
    stand_in(called := [name_of(text) for text in data or []])
    folder = (results.output or default_folder(called)) / "reproduce"
    if not results.dry_run:
        ours(folder.parent)
    made = [one for name in names for one in show(making.make(name), folder, results)]
    if not made and not results.dry_run:
        made_of = making.wanted(names)
        raise InputError(f"{', '.join(names)} cannot be made of {', '.join(called)}: give --data {made_of}")
    if not results.dry_run:
        report(made, list(making.ended.values()), folder)
        finish(folder, f"Made from {', '.join(data) if data else 'no data'}.", results.quiet)
    if making.troubled:
        raise typer.Exit(1)


ENGINE = ("processes", "per_gpu", "timeout", "retries", "engine", "address")


def possible(names: Sequence[str], wish: PaperRequest, data: bool, all_of_them: bool) -> list[str]:
    """Those that can be made of what was given; a sentence where one was asked for by name that cannot."""
    from domainwise.paper.index import PER_DOMAIN, TRAINED, algorithms_of, serves
    from domainwise.paper.layout import Row, requested_rows

    if wish.per_domain and not set(names) & set(PER_DOMAIN):
        raise InputError(f"--per-domain is for {' and '.join(PER_DOMAIN)}: {', '.join(names)} has no use for it")
    needing = [name for name in names if name in TRAINED and name != "table5"]  # which has the paper's numbers anyway
    if not data and not all_of_them and needing:
        raise InputError(f"{', '.join(needing)} needs --data, such as --data pacs=DIR or --data digits, or --from DIR")
    known = {one for name in names for one in algorithms_of(name)}
    own = any(serves(name, "own.py:Own") for name in names)
    requested_rows([Row(one, one) for one in sorted(known)], wish, ", ".join(names), own=own)
    return [name for name in names if not wish.algorithms or any(serves(name, one) for one in wish.algorithms)]


def from_folder(names: Sequence[str], source: Path, wish: PaperRequest, results: o.Results) -> None:
    """Make tables from results that are there, and run nothing."""
    from domainwise.cli.reproducing import ours
    from domainwise.paper.figures import figure5
    from domainwise.paper.from_results import named_by, open_results
    from domainwise.paper.tables import TABLES

    if not (able := [name for name in names if name in (*TABLES, "figure5")]):
        raise InputError(f"{', '.join(names)} cannot be made from results alone: leave out --from, and give --data")
    folder, found = results.output / "reproduce" if results.output else None, False
    for name, (settings, outcomes) in product(able, open_results(source, wish).items()):
        numbers, drawing = figure5(outcomes, wish) if name == "figure5" else (None, None)
        made = numbers or TABLES[name].render(outcomes, wish)
        if any(section.measured for section in made.sections):
            found = True
            if folder:
                ours(folder.parent)
            drawn = [named_by(drawing, settings)] if drawing else []
            show([named_by(made, settings), *drawn], folder, results)
    if not found:
        raise InputError(f"{source} has no trial that belongs to {', '.join(able)}: run it with --data")
    if folder:
        finish(folder, f"Made from the results in {source}.", results.quiet)


def show(made: Sequence[Page | Drawing], folder: Path | None, results: o.Results) -> Sequence[Page | Drawing]:
    """Print and write them as soon as they are made."""
    from domainwise.paper.page import Page

    for one in made:
        if isinstance(one, Page):
            print(one.render(results.format), flush=True)
        if folder:
            files = one.write(folder)
            if not results.quiet:
                print(f"{one.title}: {', '.join(str(file) for file in files[:1])}", file=sys.stderr, flush=True)
    return made


def report(made: Sequence[Page | Drawing], outcomes: Sequence[Outcome], folder: Path) -> None:
    """Every trial that was looked at, as a report, with the tables beside."""
    from domainwise.paper.page import Page
    from domainwise.report.page.page import write

    if outcomes:
        beside = [(page.title, page.tables()) for page in made if isinstance(page, Page)]
        write(outcomes, folder / "report.html", beside=beside)


def finish(folder: Path, about: str, quiet: bool) -> None:
    """Write the page that shows all that was made."""
    from domainwise.paper.index import write_index

    path = write_index(folder, about)
    if not quiet:
        print(f"all of it: {path}", file=sys.stderr)
