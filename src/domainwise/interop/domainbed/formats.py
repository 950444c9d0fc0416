"""DomainBed's tables as text, as its own program prints it, and in the formats our other tables have."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence

from domainwise.errors import csv_row, legible
from domainwise.experiment.selection import rule
from domainwise.interop.domainbed.tables import Cell, Table
from domainwise.report.formats import in_latex, one_line

ERROR = "± is DomainBed's: the population standard deviation over the root of the number of trials."


def as_text(tables: Sequence[Table], records: int) -> str:
    """To the letter what collect_results prints of what it knows by name, so that ``diff`` finds nothing."""
    lines = [f"Total records: {records}"]
    for table in tables:
        width = 20 if table.dataset else 25
        rows = [["Algorithm", *table.columns], *([name, *_texts(cells)] for name, cells in table.rows.items())]
        lines += ["", f"-------- {legible(table.title)}"]
        lines += ["  ".join(legible(word).ljust(width)[:width] for word in words) + " " for words in rows]
    return "\n".join(lines) + "\n"


def _texts(cells: Sequence[Cell], sign: str = "+/-") -> list[str]:
    return [cell.text(sign) for cell in cells]


def as_markdown(tables: Sequence[Table], records: int) -> str:
    lines = []
    for table in tables:
        rows = [["Algorithm", *table.columns], ["---"] + ["---:"] * len(table.columns)]
        rows += [[name, *_texts(cells, "±")] for name, cells in table.rows.items()]
        lines += [f"**{one_line(table.title)}**", ""]
        lines += [*("| " + " | ".join(map(one_line, words)) + " |" for words in rows), ""]
    return "\n".join([*lines, f"{records} records. {ERROR}"]) + "\n"


def as_latex(tables: Sequence[Table], records: int) -> str:
    r"""Tables for ``\input``; they need the package booktabs."""
    lines = [f"% {records} records. {ERROR}"]
    for table in tables:
        rows = [[in_latex(name), *_texts(cells, r"$\pm$")] for name, cells in table.rows.items()]
        lines += ["", f"% {one_line(table.title)}", rf"\begin{{tabular}}{{l{'c' * len(table.columns)}}}", r"\toprule"]
        lines += [_latex_row(["Algorithm", *map(in_latex, table.columns)]), r"\midrule", *map(_latex_row, rows)]
        lines += [r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines) + "\n"


def _latex_row(words: Sequence[str]) -> str:
    return " & ".join(words) + r" \\"


def as_csv(tables: Sequence[Table], records: int) -> str:
    """One line per cell, every digit."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["selection", "dataset", "algorithm", "column", "mean", "error", "n"])
    for table in tables:
        for name, cells in table.rows.items():
            for column, cell in zip(table.columns, cells, strict=True):
                writer.writerow(csv_row(table.rule, table.dataset, name, column, cell.mean, cell.error, cell.n))
    return file.getvalue()


def as_json(tables: Sequence[Table], records: int) -> str:
    content = [
        {
            "selection": table.rule,
            "method": rule(table.rule).title,
            "dataset": table.dataset or None,
            "rows": [
                {"algorithm": name, "cells": dict(zip(table.columns, map(_plain, cells), strict=True))}
                for name, cells in table.rows.items()
            ],
        }
        for table in tables
    ]
    return json.dumps({"records": records, "error": ERROR, "tables": content}, indent=1, ensure_ascii=False) + "\n"


def _plain(cell: Cell) -> dict[str, float | None]:
    return {"mean": cell.mean, "error": cell.error, "n": cell.n}


FORMATS: dict[str, Callable[[Sequence[Table], int], str]] = {
    "table": as_text,
    "csv": as_csv,
    "json": as_json,
    "markdown": as_markdown,
    "latex": as_latex,
}
