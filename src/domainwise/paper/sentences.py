"""What a comparison with the paper comes to: the order of the rows, and each of its claims."""

from __future__ import annotations

from dataclasses import dataclass

from domainwise.paper.comparison import Claim, Section, signed
from domainwise.paper.scores import VIEWS
from domainwise.paper.significance import LEVEL
from domainwise.report.tables import Cell, Row, Table

TEST = (
    "Differences between trials with the same target and the same seed, in percent, with the number of such pairs n. p "
    "is from a two-sided sign-flip permutation test of these differences, exact up to 20 pairs. Targets share source "
    "domains, so the pairs are not fully independent, and p is rather too small."
)


def orderings(found: Section) -> list[str]:
    """How many pairs of rows come out in the order of the paper; an average above its model is the easier part."""
    kinds: dict[str | None, str] = {
        entry.row.average: f", {entry.row.average or 'plain models'} alone" for entry in found.entries
    }
    asked = {None: "", **kinds} if len(kinds) > 1 else {None: ""}
    by_column: dict[str, list[str]] = {}
    for average, alone in asked.items():
        for (column, view), one in found.orderings(average).items():
            if one.pairs:
                by_column.setdefault(column + alone, []).append(f"{one.said} ({view})")
    return [f"{column}: {'; '.join(said)}." for column, said in by_column.items()]


@dataclass(frozen=True)
class Gap(Cell):
    @property
    def number(self) -> str:
        return "" if self.mean is None else signed(self.mean)


def claims(found: Section) -> Table:
    """A row for every claim of the paper and every column that it can be tested in, with the gap at every view."""
    groups: dict[tuple[str, str, str], dict[str, Claim]] = {}
    for claim in found.tested():
        groups.setdefault((claim.column, claim.better, claim.worse), {})[claim.view] = claim
    rows = [
        Row(f"{column}: {better} above {worse}", (_printed(views), *(_gap(views.get(view)) for view in VIEWS)))
        for (column, better, worse), views in groups.items()
    ]
    return Table(("paper", *VIEWS), tuple(rows), " ".join([TEST, *_too_few(found), *_together(found)]), "claim")


def _printed(views: dict[str, Claim]) -> Cell:
    better, worse = next(iter(views.values())).paper
    return Gap() if better is None or worse is None else Gap(better - worse)


def _gap(claim: Claim | None) -> Cell:
    if claim is None:
        return Gap()
    return Gap(claim.difference.mean, n=claim.difference.n, note=f"n = {claim.difference.n}, p {claim.difference.said}")


def _too_few(found: Section) -> list[str]:
    few = {claim.difference.n: claim.difference.least for claim in found.tested() if claim.difference.least > LEVEL}
    return [f"{n} pair{'s' * (n > 1)} can never give a p below {least:.2g}." for n, least in sorted(few.items())]


def _together(found: Section) -> list[str]:
    """Correct the smallest p for how many tests there are: one of many comes out small by chance."""
    values = [claim.difference.p for claim in found.tested()]
    if len(values) < 2:
        return []
    least, many = min(values), len(values)
    return [
        f"Of these {many} tests the smallest p is {least:.2g}; after Holm's correction {min(1.0, many * least):.2g}."
    ]
