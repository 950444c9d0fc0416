"""A table as text, Markdown, LaTeX, CSV and JSON. The last two carry every digit, the others are for eyes."""

from __future__ import annotations

import csv
import io
import json
import re
import textwrap
from typing import TYPE_CHECKING

from domainwise.errors import csv_row, legible

if TYPE_CHECKING:
    import rich.table

    from domainwise.report.tables import Cell, Table

MARKS = {0: "", 1: " *", 2: " °"}
LEGEND = "* best of its column, ° second best"


def as_text(table: Table) -> str:
    """Aligned columns of plain text, the caption below."""
    if not table.rows:
        return table.caption + "\n"
    names = [table.head, *(one_line(row.algorithm) for row in table.rows)]
    columns = [names]
    for at, title in enumerate(table.columns):
        cells = [row.cells[at] for row in table.rows]
        columns.append([one_line(title), *_aligned(cells)])
    widths = [max(map(len, column)) for column in columns]
    lines = [list(line) for line in zip(*columns, strict=True)]
    lines.insert(1, ["─" * width for width in widths])
    padded = ["  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)) for line in lines]
    legend = f" {LEGEND}." if table.marked else ""
    caption = textwrap.fill(legible(table.caption + legend), max(72, len(padded[0])))
    return "\n".join([*(line.rstrip() for line in padded), "", caption]) + "\n"


def _aligned(cells: list[Cell]) -> list[str]:
    """The decimal points below each other."""
    whole = max(cell.number.find(".") for cell in cells)
    return [cell.with_number(" " * (whole - cell.number.find(".")) + cell.number + MARKS[cell.rank]) for cell in cells]


def as_markdown(table: Table) -> str:
    """A GitHub table: the best bold, the second best in italics."""
    if not table.rows:
        return table.caption + "\n"
    emphasis = {0: "{}", 1: "**{}**", 2: "_{}_"}
    lines = [[table.head, *map(_escaped, table.columns)], ["---"] + ["---:"] * len(table.columns)]
    for row in table.rows:
        cells = [cell.with_number(emphasis[cell.rank].format(cell.number)) for cell in row.cells]
        lines.append([_escaped(row.algorithm), *cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + f"\n\n{table.caption}\n"


def _escaped(name: str) -> str:
    # an underscore inside a word is not emphasis, and arith(inner_steps=3) reads better without backslashes
    return re.sub(r"([\\`*|<>&$~\[\]]|(?<!\w)_|_(?!\w))", r"\\\1", one_line(name))


def one_line(name: str) -> str:
    return legible(" ".join(name.split()))


def as_latex(table: Table) -> str:
    """A table environment to paste; it needs the package booktabs. The best bold, the second best underlined."""
    if not table.rows:
        return f"% {one_line(table.caption)}\n"
    head = " & ".join(in_latex(word) for word in (table.head, *table.columns))
    lines = [" & ".join([in_latex(row.algorithm), *map(_latex_cell, row.cells)]) for row in table.rows]
    rows = [r"\toprule", rf"{head} \\", r"\midrule", *(rf"{line} \\" for line in lines), r"\bottomrule"]
    begin = [r"\begin{table}", r"\centering", rf"\caption{{{in_latex(table.caption)}}}"]
    begin.append(rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}")
    return "\n".join([*begin, *rows, r"\end{tabular}", r"\end{table}"]) + "\n"


def _latex_cell(cell: Cell) -> str:
    emphasis = {0: "{}", 1: r"\textbf{{{}}}", 2: r"\underline{{{}}}"}
    before, number, after = cell.with_number("\0").partition("\0")
    drawn = emphasis[cell.rank].format(in_latex(cell.number)) if number else ""
    return in_latex(before) + drawn + (" " + in_latex(after) if after else "")


LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "°": r"$^\circ$",
    "\N{MINUS SIGN}": "$-$", "\N{EN DASH}": "--", "<": "$<$", ">": "$>$", "\N{MULTIPLICATION SIGN}": r"$\times$",
    **{letter: f"\\{letter}" for letter in "%&#_${}"},
}  # fmt: skip


def in_latex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in one_line(text))


def as_csv(table: Table) -> str:
    """One line per algorithm and column, accuracies as fractions, one field per seed."""
    seeds = sorted({seed for row in table.rows for cell in row.cells for seed in cell.values or {}})
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["algorithm", "column", "mean", "error", "n", "note", *(f"seed {seed}" for seed in seeds)])
    for row in table.rows:
        for column, cell in zip(table.columns, row.cells, strict=True):
            values = cell.values or {}
            seen = [values.get(seed) for seed in seeds]
            writer.writerow(csv_row(row.algorithm, column, cell.mean, cell.error, cell.n, cell.note, *seen))
    return file.getvalue()


def as_json(table: Table) -> str:
    rows = [
        {
            "algorithm": row.algorithm,
            "cells": [_plain(column, cell) for column, cell in zip(table.columns, row.cells, strict=True)],
        }
        for row in table.rows
    ]
    content = {"caption": table.caption, "columns": list(table.columns), "rows": rows}
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(column: str, cell: Cell) -> dict[str, object]:
    return {
        "column": column,
        "mean": cell.mean,
        "error": cell.error,
        "n": cell.n,
        "values": {str(seed): value for seed, value in (cell.values or {}).items()},
        "note": cell.note,
        "rank": cell.rank or None,
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
