"""A table, and the one way that tables are written: text, Markdown, LaTeX, CSV and JSON.

:class:`Table` is a table of accuracies; its ``render(format)`` gives it as text and ``rich()`` for a terminal. Other
tables are rows of words, of which the first column names the row: :func:`text_table`, :func:`markdown_table`,
:func:`latex_tabular` and :func:`csv_table` take the heads of the columns and the rows; :func:`json_text` takes any
plain content. Markdown and LaTeX escape the heads and the names; the other cells are taken as they are. CSV and JSON
carry every digit, the others are for eyes.
"""

from __future__ import annotations

import csv
import io
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from domainwise.errors import InputError, closest, csv_row, legible
from domainwise.report.statistics import error_text, percent

if TYPE_CHECKING:
    import rich.table

Words = Sequence[str]


@dataclass(frozen=True)
class Cell:
    """One number of a table. Accuracies are fractions, unrounded; None where there is nothing to say."""

    mean: float | None = None
    error: float | None = None  # standard error over seeds
    n: int = 0
    values: Mapping[int, float] | None = None  # seed -> accuracy
    note: str = ""
    rank: int = 0  # 1 for the best of the column, 2 for the second best
    lost: int = 0  # seeds that diverged or failed

    @property
    def printed(self) -> str:
        return "" if self.mean is None else percent(self.mean)

    @property
    def number(self) -> str:
        return self.printed + (f" ± {self.spread}" if self.printed and self.spread else "")

    @property
    def spread(self) -> str:
        return "" if self.error is None else error_text(self.error)

    @property
    def text(self) -> str:
        return self.with_number(self.number)

    def with_number(self, number: str) -> str:
        """Return the cell's text with its number written in another way: aligned, emphasised."""
        if self.mean is None:
            return self.note or "\N{EN DASH}"
        return f"{number} ({self.note})" if self.note else number


@dataclass(frozen=True)
class Row:
    """One algorithm with a cell for every column."""

    algorithm: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """A table with a row for every algorithm; in one of accuracies the last columns are "Avg" and "validation"."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    caption: str
    head: str = "algorithm"  # of the column of names

    @property
    def marked(self) -> bool:
        return any(cell.rank for row in self.rows for cell in row.cells)

    def render(self, format: str = "table") -> str:
        return writer(format, FORMATS)(self)

    def rich(self) -> rich.table.Table:
        """Return a table for a terminal with colours: the best bold, the second best underlined."""
        return as_rich(self)


Writer = TypeVar("Writer")


def writer(format: str, known: Mapping[str, Writer]) -> Writer:
    """Return what writes a format, by the name that the user gave."""
    if format not in known:
        raise InputError(f'There is no table format "{format}": {closest(format, known)}')
    return known[format]


def marked(column: Sequence[Cell]) -> tuple[Cell, ...]:
    """Return the same cells with the best and the second best marked. What prints the same ranks the same."""
    # a mean over the seeds that survived says little beside one over all of them: it is never marked
    printed = [None if cell.mean is None or cell.lost else float(percent(cell.mean)) for cell in column]
    numbers = [number for number in printed if number is not None]
    if len(numbers) < 2:
        return tuple(column)
    ranks = [0 if own is None else 1 + sum(other > own for other in numbers) for own in printed]
    return tuple(replace(cell, rank=rank if rank < 3 else 0) for cell, rank in zip(column, ranks, strict=True))


def text_table(head: Words, rows: Iterable[Words], *, right: bool = False, rule: bool = False) -> str:
    """Write aligned columns of plain text, flush ``right`` or left, with or without a ``rule`` below the head."""
    lines = [[*head], *([*row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if rule:
        lines.insert(1, ["─" * width for width in widths])
    pad, gap = (str.rjust, "   ") if right else (str.ljust, "  ")
    return "\n".join(gap.join(map(pad, line, widths)).rstrip() for line in lines)


def markdown_table(head: Words, rows: Iterable[Words]) -> str:
    """Write a table as GitHub shows it."""
    lines = [[*map(in_markdown, head)], ["---"] + ["---:"] * (len(head) - 1)]
    lines += ([in_markdown(row[0]), *row[1:]] for row in rows)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def latex_tabular(head: Words, rows: Iterable[Words], align: str = "r") -> str:
    """Write a tabular environment; it needs the package booktabs."""
    lines = [" & ".join([in_latex(row[0]), *row[1:]]) + r" \\" for row in rows]
    begin = [rf"\begin{{tabular}}{{l{align * (len(head) - 1)}}}", r"\toprule", " & ".join(map(in_latex, head)) + r" \\"]
    return "\n".join([*begin, r"\midrule", *lines, r"\bottomrule", r"\end{tabular}"])


def csv_table(head: Words, rows: Iterable[Sequence[object]]) -> str:
    """Write lines of CSV. No cell is a formula to a spreadsheet."""
    file = io.StringIO()
    lines = csv.writer(file, lineterminator="\n")
    lines.writerows([head, *(csv_row(*row) for row in rows)])
    return file.getvalue()


def json_text(content: object) -> str:
    """Write plain content as indented JSON."""
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def one_line(name: str) -> str:
    return legible(" ".join(name.split()))


def in_markdown(name: str) -> str:
    # an underscore inside a word is not emphasis, and arith(inner_steps=3) reads better without backslashes
    return re.sub(r"([\\`*|<>&$~\[\]]|(?<!\w)_|_(?!\w))", r"\\\1", one_line(name))


LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "°": r"$^\circ$",
    "\N{MINUS SIGN}": "$-$", "\N{EN DASH}": "--", "<": "$<$", ">": "$>$", "\N{MULTIPLICATION SIGN}": r"$\times$",
    **{letter: f"\\{letter}" for letter in "%&#_${}"},
}  # fmt: skip


def in_latex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in one_line(text))


MARKS = {0: "", 1: " *", 2: " °"}
LEGEND = "* best of its column, ° second best"


def as_text(table: Table) -> str:
    """Write aligned columns of plain text, the caption below."""
    if not table.rows:
        return table.caption + "\n"
    columns = [_aligned([row.cells[at] for row in table.rows]) for at in range(len(table.columns))]
    names = [one_line(row.algorithm) for row in table.rows]
    head = [table.head, *map(one_line, table.columns)]
    drawn = text_table(head, zip(names, *columns, strict=True), rule=True)
    legend = f" {LEGEND}." if table.marked else ""
    width = max(72, len(drawn.split("\n")[1]))
    return f"{drawn}\n\n{textwrap.fill(legible(table.caption + legend), width)}\n"


def _aligned(cells: Sequence[Cell]) -> list[str]:
    """Write cells with their decimal points below each other."""
    whole = max(cell.number.find(".") for cell in cells)
    return [cell.with_number(" " * (whole - cell.number.find(".")) + cell.number + MARKS[cell.rank]) for cell in cells]


def as_markdown(table: Table) -> str:
    """Write a GitHub table: the best bold, the second best in italics."""
    if not table.rows:
        return table.caption + "\n"
    emphasis = {0: "{}", 1: "**{}**", 2: "_{}_"}
    rows = [
        [row.algorithm, *(cell.with_number(emphasis[cell.rank].format(cell.number)) for cell in row.cells)]
        for row in table.rows
    ]
    return f"{markdown_table([table.head, *table.columns], rows)}\n\n{table.caption}\n"


def as_latex(table: Table) -> str:
    """Write a table environment to paste: the best bold, the second best underlined."""
    if not table.rows:
        return f"% {one_line(table.caption)}\n"
    rows = [[row.algorithm, *map(_latex_cell, row.cells)] for row in table.rows]
    begin = [r"\begin{table}", r"\centering", rf"\caption{{{in_latex(table.caption)}}}"]
    return "\n".join([*begin, latex_tabular([table.head, *table.columns], rows), r"\end{table}"]) + "\n"


def _latex_cell(cell: Cell) -> str:
    emphasis = {0: "{}", 1: r"\textbf{{{}}}", 2: r"\underline{{{}}}"}
    before, number, after = cell.with_number("\0").partition("\0")
    drawn = emphasis[cell.rank].format(in_latex(cell.number)) if number else ""
    return in_latex(before) + drawn + (" " + in_latex(after) if after else "")


def as_csv(table: Table) -> str:
    """Write one line per algorithm and column, accuracies as fractions, one field per seed."""
    cells = [(row.algorithm, *cell) for row in table.rows for cell in zip(table.columns, row.cells, strict=True)]
    seeds = sorted({seed for *_, cell in cells for seed in cell.values or {}})
    head = ["algorithm", "column", "mean", "error", "n", "note", *(f"seed {seed}" for seed in seeds)]
    return csv_table(
        head,
        (
            [name, column, cell.mean, cell.error, cell.n, cell.note, *map((cell.values or {}).get, seeds)]
            for name, column, cell in cells
        ),
    )


def as_json(table: Table) -> str:
    rows = [
        {"algorithm": row.algorithm, "cells": [*map(_plain, table.columns, row.cells)]}
        for row in table.rows
    ]  # fmt: skip
    return json_text({"caption": table.caption, "columns": list(table.columns), "rows": rows})


def _plain(column: str, cell: Cell) -> dict[str, object]:
    values = {str(seed): value for seed, value in (cell.values or {}).items()}
    numbers = {"mean": cell.mean, "error": cell.error, "n": cell.n, "values": values}
    return {"column": column, **numbers, "note": cell.note, "rank": cell.rank or None}


FORMATS: dict[str, Callable[[Table], str]] = {
    "table": as_text,
    "csv": as_csv,
    "json": as_json,
    "markdown": as_markdown,
    "latex": as_latex,
}


def as_rich(table: Table) -> rich.table.Table:
    import rich.box
    import rich.table
    from rich.text import Text

    styles = {0: "", 1: "bold", 2: "underline"}
    drawn = rich.table.Table(box=rich.box.SIMPLE_HEAD, caption=Text(table.caption), caption_justify="left")
    drawn.add_column(table.head, overflow="fold")
    for column in table.columns:
        drawn.add_column(Text(column), justify="right")  # Text: a name in brackets is no markup
    for row in table.rows:
        drawn.add_row(Text(row.algorithm), *(Text(cell.text, style=styles[cell.rank]) for cell in row.cells))
    return drawn
