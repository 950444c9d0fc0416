from __future__ import annotations

from typing import Annotated

import typer

from domainwise.terminal import console


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
