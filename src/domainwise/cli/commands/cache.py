from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from domainwise.cli import options as o
from domainwise.machine import human_size
from domainwise.terminal import console

if TYPE_CHECKING:
    from domainwise.data.decoded.cache_entries import Entry

app = typer.Typer(name="cache", help="See and clear the images that were decoded before.", no_args_is_help=True)


@app.command("list")
def list_entries(cache: o.Cache = None) -> None:
    """List the data sets whose images are kept decoded."""
    from rich.table import Table
    from rich.text import Text

    from domainwise.acceleration import compile_cache as compiled
    from domainwise.data.decoded.cache import cache_folder
    from domainwise.data.decoded.cache_entries import entries
    from domainwise.errors import legible

    folder = cache_folder(cache)
    found = entries(folder)
    table = Table(box=None, padding=(0, 2))
    for heading in ("name", "size", "age", "images", "domains", "made from"):
        table.add_column(heading, no_wrap=heading in ("name", "size", "age"))
    for entry in found:
        table.add_row(*(Text(legible(cell), overflow="fold") for cell in _row(entry)))
    screen = console()
    out = console(highlight=False, markup=False, width=screen.width if screen.is_terminal else 200)
    if found:
        out.print(table)
    out.print(f"{_told(found)}, in {legible(str(folder))}", soft_wrap=True)
    if size := compiled.size():
        out.print(f"compiled kernels, {human_size(size)}, in {compiled.compiled_folder()}", soft_wrap=True)


@app.command()
def clear(
    name: Annotated[str | None, typer.Argument(help="One of them, as listed; also without the hash behind it.")] = None,
    all: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    compiled: Annotated[
        bool, typer.Option("--compiled", help="Clear code that was compiled for GPUs instead; it is made again too.")
    ] = False,
    cache: o.Cache = None,
) -> None:
    """Remove decoded images; they are made again when they are needed."""
    from domainwise.acceleration import compile_cache as kernels
    from domainwise.data.decoded.cache import cache_folder
    from domainwise.data.decoded.cache_entries import clear as removed_from
    from domainwise.errors import InputError

    if compiled:
        if all or name is not None:
            raise InputError("--compiled goes alone: it clears no images")
        print(f"removed compiled kernels, {human_size(kernels.clear())}")
        return
    if all == (name is not None):
        raise InputError("say which one to clear, by its name in `domainwise cache list`, or --all")
    removed = removed_from(cache_folder(cache), name)
    print(f"removed {_told(removed)}")


def _told(found: Sequence[Entry]) -> str:
    """How many entries there are of which kind, and their size."""
    features = sum(entry.features for entry in found)
    of_features = f" and features of {features}" if features else ""
    return f"{len(found) - features} data sets{of_features}, {human_size(sum(entry.bytes for entry in found))}"


def _row(entry: Entry) -> list[str]:
    if entry.created is None:
        return [entry.name, human_size(entry.bytes), "?", "?", "damaged", "?"]
    return [
        entry.name,
        human_size(entry.bytes),
        _age(entry.created),
        f"{entry.images:,} at {entry.sizes}",
        ", ".join(entry.domains),
        entry.source,
    ]


def _age(created: float) -> str:
    import time

    seconds = max(0.0, time.time() - created)
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} seconds"
