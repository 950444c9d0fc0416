from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from domainwise.cli import options as o
from domainwise.errors import legible
from domainwise.terminal import console, plain_streams

if TYPE_CHECKING:
    from rich.console import Console

    from domainwise.data.inspect import Survey

SHOWN = 20  # corrupt files and duplicates; --format json has them all


class SurveyFormat(StrEnum):
    """Name how a survey is printed."""

    table = "table"
    json = "json"


PICTURE = Path("domainwise-inspect.png")


def inspect(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="DIR, pacs=DIR, manifest.csv or digits: whatever --data takes.")
    ],
    format: Annotated[SurveyFormat, typer.Option("--format", help="Format of the answer.")] = SurveyFormat.table,
    picture: Annotated[
        Path, typer.Option("--picture", metavar="FILE", help="Draw a sample of the images into this file.")
    ] = PICTURE,
    no_picture: Annotated[bool, typer.Option("--no-picture", help="Draw no picture.")] = False,
    manifest: Annotated[
        Path | None,
        typer.Option("--manifest", metavar="FILE.csv", help="Write a manifest in which each burst is a group."),
    ] = None,
    quiet: o.Quiet = False,
) -> None:
    """Say what a data set consists of: images per domain and class, sizes, corrupt files, duplicates."""
    from domainwise.data.bursts import check_manifest, write_manifest
    from domainwise.data.inspect import check_sheet, survey, write_contact_sheet
    from domainwise.data.sources.open import find_source

    if not no_picture:
        check_sheet(picture)
    found = find_source(data)
    if manifest is not None:
        check_manifest(found, manifest)
    with _bar(quiet) as told:
        surveyed = survey(found, told)
    if format is SurveyFormat.json:
        print(json.dumps(surveyed.to_json(), indent=1))
    else:
        _print(surveyed, console(highlight=False, markup=False, soft_wrap=True))
    drawn = surveyed.form == "images" or picture != PICTURE  # of other data there is none: who asks for it is told
    if drawn and not no_picture:
        path = write_contact_sheet(found, picture)
        if not quiet:
            print(f"picture: {path}", file=sys.stderr)
    if manifest is not None:
        path = write_manifest(surveyed, manifest)
        if not quiet:
            print(f"manifest: {path}", file=sys.stderr)


@contextmanager
def _bar(quiet: bool) -> Iterator[Callable[[int, int], None]]:
    from rich.progress import Progress

    screen = console(stderr=True)
    with Progress(console=screen, transient=True, disable=quiet or not screen.is_terminal) as bars, plain_streams():
        task = bars.add_task("looking at images", total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def _print(survey: Survey, screen: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("class", box=None, padding=(0, 2))
    for domain in survey.domains:
        table.add_column(Text(legible(domain)), justify="right", overflow="fold")
    for kind in survey.classes:
        table.add_row(Text(legible(kind)), *(f"{survey.counts[domain][kind]:,}" for domain in survey.domains))
    table.add_section()
    table.add_row("all", *(f"{sum(survey.counts[domain].values()):,}" for domain in survey.domains))
    screen.print(f"{legible(survey.name)}: {len(survey.looks):,} {survey.form} in {len(survey.domains)} domains")
    screen.print(table)
    for line in _lines(survey):
        screen.print(legible(line))


def _lines(survey: Survey) -> list[str]:
    sizes = survey.sizes
    lines = []
    if survey.extent:
        lines.append(f"each: {survey.extent}")
    elif survey.looks:
        height, width = (f"{sizes[s]['min']} / {sizes[s]['median']} / {sizes[s]['max']}" for s in ("height", "width"))
        lines.append(f"sizes: {sizes['distinct']} distinct; height min / median / max {height}, width {width}")
        lines.append("modes: " + ", ".join(f"{mode} {count:,}" for mode, count in survey.modes.items()))
    lines += [f'missing: domain "{domain}" has no "{kind}"' for domain, kind in survey.missing]
    lines += _first(f"{len(survey.corrupt)} corrupt", [f"{look.name} ({look.problem})" for look in survey.corrupt])
    for where, groups in survey.duplicates.items():
        lines += _first(f"{len(groups)} duplicates {MEANING[where]}", [" = ".join(names) for names in groups])
    lines += _bursts(survey)
    lines += [f"note: {oddity}" for oddity in survey.oddities]
    if survey.benchmark is not None and not survey.difference:
        same = ", with as many images as published" if survey.benchmark.published else ""
        lines.append(f"benchmark: {survey.benchmark.title}{same}")
    elif survey.difference and survey.difference not in survey.oddities:
        lines.append(f"benchmark: {survey.difference}")
    apart = (
        f" (with the presets domainbed and swad {survey.plain})" if survey.plain not in ("", survey.fingerprint) else ""
    )
    return [*lines, f"fingerprint: {survey.fingerprint}{apart}"]


def _bursts(survey: Survey) -> list[str]:
    runs = [f"{run[0].name} to {run[-1].name}, {len(run)} images" for run in survey.bursts]
    if not runs:
        return []
    told = _first(f"{len(runs)} bursts of images that look alike", runs)
    return [*told, "  A split may tear them apart: --manifest FILE.csv writes a manifest that keeps each together."]


MEANING = {"across": "across domains", "within": "within a domain", "contradicting": "in different classes"}


def _first(what: str, things: list[str]) -> list[str]:
    if not things:
        return []
    more = [f"  ... and {len(things) - SHOWN} more"] if len(things) > SHOWN else []
    return [f"{what}:", *(f"  {thing}" for thing in things[:SHOWN]), *more]
