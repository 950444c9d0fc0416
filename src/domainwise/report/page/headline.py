"""The result of a comparison in plain sentences that claim no more than the seeds show."""

from __future__ import annotations

from math import hypot

from domainwise.report.formats import Cell, Table
from domainwise.report.statistics import error_text, percent, reach

Standing = tuple[str, Cell, float]  # algorithm, its average, the mean of it


def headline(table: Table) -> list[str]:
    """Sentences: the result, then what to keep in mind about it."""
    if not table.rows:
        return ["No trial has come to an end yet."]
    where = "on average" if len(table.columns) > 3 else f"on target {table.columns[0]}"
    averages = [(row.algorithm, row.cells[-2]) for row in table.rows]
    whole = [(name, cell, cell.mean) for name, cell in averages if cell.mean is not None and not cell.lost]
    whole.sort(key=lambda standing: -standing[2])  # stable: equals keep the order of the table
    left = [row.algorithm for row in table.rows if row.algorithm not in {name for name, *_ in whole}]
    return [*_result(whole, where), *_baseline(whole), *_left_out(whole, left)]


def _result(whole: list[Standing], where: str) -> list[str]:
    if not whole:
        return ["No algorithm finished every trial on every target, so none can be called best."]
    (name, cell, mean), *others = whole
    if not others:
        error = "" if cell.error is None else f" (standard error {cell.spread})"
        return [f"{name} reaches {percent(mean)} {where}{error}."]
    second, other, less = others[0]
    errors = ""
    if cell.error is not None and other.error is not None:
        errors = f" (standard errors {cell.spread} and {other.spread})"
    if percent(mean) == percent(less):
        return [f"{name} and {second} come out the same {where}: {percent(mean)}{errors}."]
    found = f"{name} is best {where}: {percent(mean)} against {percent(less)} for {second}{errors}."
    return [found, _doubt(cell, other, mean - less)]


def _doubt(best: Cell, second: Cell, difference: float) -> str:
    if best.error is None or second.error is None:
        return "With a single seed, nothing tells how much of the difference is chance."
    error = hypot(best.error, second.error)  # of the difference of two independent means
    seeds = min(best.n, second.n)
    if not error:
        return f"The difference of {percent(difference)} is the same with each of {seeds} seeds."
    own = f"{difference / error:.1f} times its own standard error of {error_text(error)}"
    takes = f"with {seeds} seeds it takes {reach(seeds):.1f} times to tell two algorithms apart"
    if difference < reach(seeds) * error:
        return f"The difference of {percent(difference)} is within the errors: it is {own}, and {takes}."
    return f"The difference of {percent(difference)} is more than the errors explain: it is {own}, and {takes}."


def _baseline(whole: list[Standing]) -> list[str]:
    return [f"The baseline, erm, is at {percent(mean)}." for name, _, mean in whole[2:] if name == "erm"]


def _left_out(whole: list[Standing], left: list[str]) -> list[str]:
    if not whole or not left:
        return []
    return [f"Left out, for want of trials that finished on every target: {', '.join(left)}."]
