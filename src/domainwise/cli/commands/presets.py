"""Commands that list what there is to choose from: presets with every setting, algorithms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from domainwise.errors import InputError, closest
from domainwise.terminal import console

app = typer.Typer(name="presets", help="The protocols there are, with every setting.", no_args_is_help=True)


@app.command("list")
def list_presets() -> None:
    """Name the presets."""
    from domainwise.experiment.presets import PRESETS, TITLES

    for name in PRESETS:
        print(f"{name:10} {TITLES[name]}")


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="quick, domainbed, swad, wilds or fish.")],
    benchmark: Annotated[str, typer.Option(help="For which benchmark: pacs, vlcs, ...")] = "",
    network: Annotated[str | None, typer.Option(help="Show it with another network.")] = None,
    set: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Show it with other settings.")
    ] = None,
) -> None:
    """Print every setting, and where its value comes from."""
    from dataclasses import fields

    from rich.table import Table
    from rich.text import Text

    from domainwise.cli.arguments import assignments
    from domainwise.experiment.presets import ALGORITHMS, PACE
    from domainwise.experiment.settings import BESIDE, Settings, of_algorithm, resolve, together

    _require_known(benchmark)
    settings = resolve(
        name, benchmark=benchmark, given=together({"network": network} if network else {}, assignments(set))
    )
    _require_hyperparameters(settings.given)
    table = Table("setting", "value", "from", box=None, padding=(0, 2))
    for field in fields(Settings):
        if field.name not in BESIDE:
            value = getattr(settings, field.name)
            told = "as many as epochs take" if settings.epochs and field.name in PACE else str(value)
            table.add_row(field.name, Text(told), settings.origins[field.name])
    for algorithm in ALGORITHMS:
        own = of_algorithm(settings, algorithm)
        for key in ALGORITHMS[algorithm]:
            table.add_row(f"{key} of {algorithm}", Text(str(getattr(own, key))), own.origins[key])
    for key, value in settings.hyperparameters.items():
        table.add_row(key, Text(str(value)), settings.origins[key])
    console(highlight=False).print(table)


def _require_known(benchmark: str) -> None:
    from domainwise.data.sources.benchmarks import BENCHMARKS

    known = ["digits", *BENCHMARKS]
    if benchmark not in ("", *known):
        raise InputError(f'there is no benchmark "{benchmark}": {closest(benchmark, known)}')


def _require_hyperparameters(given: Iterable[str]) -> None:
    """Refuse names that are no hyperparameter of any algorithm."""
    from domainwise.algorithms import hypers, names
    from domainwise.algorithms._spec import builtin

    for name in given:
        if not any(name in hypers(builtin(algorithm)) for algorithm in names()):
            raise InputError(f'no setting and no hyperparameter of an algorithm is called "{name}"')


def algorithms(
    name: Annotated[str | None, typer.Argument(help="One algorithm, also file.py:Class.")] = None,
) -> None:
    """List the algorithms with their hyperparameters."""
    from rich.table import Table

    from domainwise.algorithms import hypers, names, parse

    screen = console()
    for spec in parse(name or ",".join(names())):
        cls = spec.cls()
        screen.print(f"[bold]{cls.name}[/bold]  {(cls.__doc__ or '').strip().splitlines()[0]}", highlight=False)
        table = Table(box=None, show_header=False, padding=(0, 2))
        for field, about in hypers(cls).values():
            drawn = f"search {about.draw}" if about.draw else ""
            allowed = "True | False" if isinstance(field.default, bool) else about.range()
            table.add_row(" ", field.name, about.shown(field.default), allowed, drawn)
        screen.print(table)
