"""Test whether what the paper says is better comes out better here too: orders of rows, and each claim in pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from domainwise.errors import counted
from domainwise.paper.comparison import VIEWS, Entry, Section, paired, signed
from domainwise.paper.layout import Column
from domainwise.report.formats import Cell, Row, Table
from domainwise.report.statistics import sign_flip

LEVEL = 0.05
TEST = (
    "Differences between trials with the same target and the same seed, in percent, with the number of such pairs n. p "
    "is from a two-sided sign-flip permutation test of these differences, exact up to 20 pairs. Targets share source "
    "domains, so the pairs are not fully independent, and p is rather too small."
)


@dataclass(frozen=True)
class Ordering:
    """How many pairs of rows that the paper orders come out in that order."""

    pairs: int
    kept: int
    tied: int  # came out the same here

    def __str__(self) -> str:
        tied = f", {self.tied} tie" if self.tied else ""
        return f"{self.kept} of {self.pairs} pairs in the paper's order{tied}"


def ordering(paper: Sequence[float | None], measured: Sequence[float | None]) -> Ordering:
    """Compare all pairs of rows; a pair that ties in the paper has no order and is left out."""
    both = [(a, b) for a, b in zip(paper, measured, strict=True) if a is not None and b is not None]
    signs = [(_sign(a[0], b[0]), _sign(a[1], b[1])) for a, b in combinations(both, 2)]
    ordered = [(theirs, ours) for theirs, ours in signs if theirs]
    return Ordering(len(ordered), sum(a == b for a, b in ordered), sum(b == 0 for _, b in ordered))


def _sign(a: float, b: float) -> int:
    return (a > b) - (a < b)


def section_orderings(section: Section, average: str | None = None) -> dict[tuple[str, str], Ordering]:
    """Return the ordering of each column and view, of the rows of one averager ("" is none) or of all rows.

    A mean over only some of the targets or trials is left out, and so is a second reading of a printed row.
    """
    entries = [one for one in section.entries if average in (None, one.row.average) and one.row.rate == 1]
    return {
        (column.title, view): ordering(
            [entry.paper(column) for entry in entries],
            [None if entry.cells[view][at].note else entry.cells[view][at].mean for entry in entries],
        )
        for at, column in enumerate(section.columns)
        for view in VIEWS
        if column.main and column.run
    }


def order_sentences(section: Section) -> list[str]:
    """Say how many pairs of rows keep the paper's order; an average above its own model is the easier part."""
    averages: dict[str | None, str] = {
        entry.row.average: f", {entry.row.average or 'plain models'} alone" for entry in section.entries
    }
    asked = {None: "", **averages} if len(averages) > 1 else {None: ""}
    by_column: dict[str, list[str]] = {}
    for average, alone in asked.items():
        for (column, view), one in section_orderings(section, average).items():
            if one.pairs:
                by_column.setdefault(column + alone, []).append(f"{one} ({view})")
    return [f"{column}: {'; '.join(orders)}." for column, orders in by_column.items()]


@dataclass(frozen=True)
class Difference:
    """A mean paired difference and its p; few pairs can never give a small p."""

    n: int  # pairs
    mean: float
    p: float

    @property
    def least(self) -> float:
        """The smallest p that so many pairs can give, whatever was measured."""
        return 2.0 ** (1 - self.n)

    @property
    def p_text(self) -> str:
        """The p as printed after the letter."""
        return "= 1" if self.p >= 0.995 else "< 0.001" if self.p < 0.001 else f"= {self.p:.2g}"


def sign_flips(differences: Sequence[float]) -> Difference:
    """Run a two-sided sign-flip permutation test of paired differences: it assumes no distribution."""
    return Difference(len(differences), fmean(differences), sign_flip(differences))


@dataclass(frozen=True)
class Claim:
    """One row above another, in the paper and here, in one column at one view."""

    better: str
    worse: str
    column: str
    view: str
    paper: tuple[float | None, float | None]
    measured: tuple[float, float]
    difference: Difference


def check_claims(section: Section) -> list[Claim]:
    """Test every claim of the paper in every column and view that has trials of both rows."""
    entries = {entry.row.name: entry for entry in section.entries}
    claims = [
        _claim(entries[better], entries[worse], column, at, view)
        for at, column in enumerate(section.columns)
        if column.main and column.run
        for better, worse in section.claims
        for view in VIEWS
    ]
    return [claim for claim in claims if claim is not None]


def _claim(better: Entry, worse: Entry, column: Column, at: int, view: str) -> Claim | None:
    a, b = better.cells[view][at].mean, worse.cells[view][at].mean
    differences = paired(better.scores, worse.scores, column, view)
    if a is None or b is None or not differences:
        return None
    printed = (better.paper(column), worse.paper(column))
    return Claim(better.row.name, worse.row.name, column.title, view, printed, (a, b), sign_flips(differences))


@dataclass(frozen=True)
class Gap(Cell):
    """A cell that holds a difference, printed with its sign."""

    @property
    def printed(self) -> str:
        return "" if self.mean is None else signed(self.mean)


def claims_table(section: Section) -> Table:
    """Return a row for every claim and every column that can test it, with the gap at every view."""
    claims = check_claims(section)
    groups: dict[tuple[str, str, str], dict[str, Claim]] = {}
    for claim in claims:
        groups.setdefault((claim.column, claim.better, claim.worse), {})[claim.view] = claim
    rows = [
        Row(f"{column}: {better} above {worse}", (_printed(views), *(_gap(views.get(view)) for view in VIEWS)))
        for (column, better, worse), views in groups.items()
    ]
    return Table(("paper", *VIEWS), tuple(rows), " ".join([TEST, *_too_few(claims), *_together(claims)]), "claim")


def _printed(views: Mapping[str, Claim]) -> Cell:
    better, worse = next(iter(views.values())).paper
    return Gap() if better is None or worse is None else Gap(better - worse)


def _gap(claim: Claim | None) -> Cell:
    if claim is None:
        return Gap()
    tested = claim.difference
    return Gap(tested.mean, n=tested.n, note=f"n = {tested.n}, p {tested.p_text}")


def _too_few(claims: Sequence[Claim]) -> list[str]:
    few = {claim.difference.n: claim.difference.least for claim in claims if claim.difference.least > LEVEL}
    return [f"{counted(n, 'pair')} can never give a p below {least:.2g}." for n, least in sorted(few.items())]


def _together(claims: Sequence[Claim]) -> list[str]:
    """Correct the smallest p for the number of tests: one of many comes out small by chance."""
    if len(claims) < 2:
        return []
    least, many = min(claim.difference.p for claim in claims), len(claims)
    return [
        f"Of these {many} tests the smallest p is {least:.2g}; after Holm's correction {min(1.0, many * least):.2g}."
    ]
