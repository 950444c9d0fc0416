from __future__ import annotations

from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from domainwise.cli import options as o
from domainwise.cli.option_groups import Beside, Choices, Cluster, Machine, Many, grouped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from domainwise.api import Comparison
    from domainwise.experiment.results import Outcome
    from domainwise.paper.figures import Drawing
    from domainwise.paper.layout import PaperRequest
    from domainwise.paper.page import Page


class Error(StrEnum):
    standard_error = "standard-error"
    deviation = "deviation"
    domainbed = "domainbed"


@grouped
def reproduce(
    what: Annotated[list[str], typer.Argument(metavar="WHAT...", help="table1 to table5, figure1 to figure5, or all.")],
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
        str | None, typer.Option(metavar="A,B", help="These alone; all of a table if none is named.")
    ] = None,
    targets: Annotated[
        str | None, typer.Option(metavar="A,B", help="Domains to hold out; all if none is named, of digits 0,75.")
    ] = None,
    seeds: o.Seeds = "3",
    per_domain: Annotated[bool, typer.Option("--per-domain", help="Tables 1 and 4 with a column per domain.")] = False,
    error: Annotated[
        Error, typer.Option(help="What ± is; domainbed: of the population, as published tables have it.")
    ] = (Error.standard_error),
    preset: Annotated[
        str | None, typer.Option(metavar="NAME", help="That of each table if none is given; quick for other data.")
    ] = None,
    choices: Choices,
    machine: Machine,
    many: Many,
    cluster: Cluster,
) -> None:
    """Make the paper's tables and figures: run what is missing, and show it beside what was printed."""
    from domainwise.cli.job import Job
    from domainwise.cli.reading import Ask, assignments
    from domainwise.cli.reproducing import Making, default_folder, name_of, ours
    from domainwise.experiment.output_folder import refuse_file
    from domainwise.machine import choose_device
    from domainwise.paper.index import requested_names
    from domainwise.paper.layout import PaperRequest, stand_in

    names = requested_names(what)
    asked = tuple(word.strip().lower() for word in algorithms.split(",")) if algorithms else ()
    wish = PaperRequest(asked, targets or "", seeds, per_domain, error, assignments(choices.set))
    names = possible(names, wish, bool(data) or source is not None, "all" in what)
    if source is not None:
        from_folder(names, source, wish, machine)
        return

    def job(comparison: Comparison, keep: bool) -> Job:
        return Job(comparison, machine, Beside(keep=o.Kept.none, snapshots=int(keep)), many, cluster)

    ask = Ask(**vars(choices), device=choose_device(machine.device, elsewhere=cluster.elsewhere))
    if machine.output:
        refuse_file(machine.output)
    making = Making(data or [], ask, preset, wish, machine, job)
    called = [name_of(text) for text in data or []]
    stand_in(called)
    folder = (machine.output or default_folder(called)) / "reproduce"
    if not machine.dry_run:
        ours(folder.parent)
    made = [one for name in names for one in show(making.make(name), folder, machine)]
    if not machine.dry_run:
        report(made, list(making.ended.values()), folder)
        finish(folder, f"Made from {', '.join(data) if data else 'no data'}.", machine.quiet)
    if making.troubled:
        raise typer.Exit(1)


def possible(names: Sequence[str], wish: PaperRequest, data: bool, all_of_them: bool) -> list[str]:
    """Those that can be made of what was given; a sentence where one was asked for by name that cannot."""
    from domainwise.errors import InputError
    from domainwise.paper.index import PER_DOMAIN, TRAINED, algorithms_of
    from domainwise.paper.layout import Row, requested_rows

    if wish.per_domain and not set(names) & set(PER_DOMAIN):
        raise InputError(f"--per-domain is for {' and '.join(PER_DOMAIN)}: {', '.join(names)} has no use for it")
    if not data and not all_of_them and (needing := [name for name in names if name in TRAINED]):
        raise InputError(f"{', '.join(needing)} needs --data, such as --data pacs=DIR or --data digits, or --from DIR")
    known = {one for name in names for one in algorithms_of(name)}
    requested_rows([Row(one, one) for one in sorted(known)], wish, ", ".join(names))
    return [name for name in names if not wish.algorithms or algorithms_of(name) & set(wish.algorithms)]


def from_folder(names: Sequence[str], source: Path, wish: PaperRequest, machine: Machine) -> None:
    from domainwise.cli.reproducing import ours
    from domainwise.errors import InputError
    from domainwise.paper.figures import figure5
    from domainwise.paper.from_results import named_by, open_results
    from domainwise.paper.tables import TABLES

    if not (able := [name for name in names if name in (*TABLES, "figure5")]):
        raise InputError(f"{', '.join(names)} cannot be made from results alone: leave out --from, and give --data")
    folder, found = machine.output / "reproduce" if machine.output else None, False
    for name, (settings, outcomes) in product(able, open_results(source, wish).items()):
        numbers, drawing = figure5(outcomes, wish) if name == "figure5" else (None, None)
        made = numbers or TABLES[name].render(outcomes, wish)
        if any(section.measured for section in made.sections):
            found = True
            if folder:
                ours(folder.parent)
            drawn = [named_by(drawing, settings)] if drawing else []
            show([named_by(made, settings), *drawn], folder, machine)
    if not found:
        raise InputError(f"{source} has no trial that belongs to {', '.join(able)}: run it with --data")
    if folder:
        finish(folder, f"Made from the results in {source}.", machine.quiet)


def show(made: Sequence[Page | Drawing], folder: Path | None, machine: Machine) -> Sequence[Page | Drawing]:
    """Print and write them as soon as they are made."""
    import sys

    from domainwise.paper.page import Page

    for one in made:
        if isinstance(one, Page):
            print(one.render(machine.format), flush=True)
        if folder:
            files = one.write(folder)
            if not machine.quiet:
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
    import sys

    from domainwise.paper.index import write_index

    path = write_index(folder, about)
    if not quiet:
        print(f"all of it: {path}", file=sys.stderr)
