"""Hold images out by the rule of the published protocol, from the seed and the domain alone, or as the data say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from domainwise.data.domains import FREE, HOLDOUT, MAIN, PARTS, TEST, VAL, Domain, Domains, Fixed, Labels
from domainwise.errors import InputError
from domainwise.seeds import seed_hash

Indices = npt.NDArray[np.int64]

OFFICIAL = "official"  # the target of trials that go by a split of the data's own


def split_domain(domain: Domain, position: int, holdout: float, seed: int) -> tuple[Indices, Indices]:
    """Return the images of a domain to train on and those held out, of which one that is tiny or of one group has none.

    Images that an official split validates or tests on are like any other: here it is a whole domain that is tested on.
    """
    groups, fixed = _inseparable(domain), domain.fixed
    if fixed is not None:
        fixed = np.where(fixed >= VAL, np.int8(FREE), fixed)
        fixed = fixed if domain.copies is None or groups is None else _followed(groups, fixed)
    main, held_out = split(len(domain), holdout, seed, position, groups, fixed)
    if len(main) == 0:
        raise InputError(
            f'all {len(domain)} images of domain "{domain.name}" are held out, so that none is left to train on'
        )
    return main, held_out


def holds_none_out(domain: Domain, holdout: float) -> bool:
    """Whether a domain is too small to hold a part out, or all its images are of one group."""
    groups = _inseparable(domain)
    alone = groups is not None and len(np.unique(groups)) == 1
    return domain.fixed is None and (alone or int(len(domain) * holdout) == 0)


def _inseparable(domain: Domain) -> Labels | None:
    """Return the group of every image that must be on one side of the split with it, copies of a file included."""
    if domain.copies is None:
        return domain.groups
    return domain.copies if domain.groups is None else joined(domain.groups, domain.copies)


def is_official(data: Domains, targets: Sequence[str]) -> bool:
    """Return whether a trial with these targets goes by the official split of the data."""
    return tuple(targets) == (OFFICIAL,) and data.has_official_split


def sources_of(data: Domains, targets: Sequence[str]) -> list[str]:
    """Return the names of the domains that are trained on while these targets are held out."""
    if is_official(data, targets):
        return [data.names[i] for i in official_rows(data, MAIN)]
    return [name for name in data.names if name not in targets]


def official_rows(data: Domains, part: int) -> dict[int, Indices]:
    """Return the rows that are in one of PARTS, by the position of their domain; domains without any are left out."""
    found = {i: np.flatnonzero(domain.fixed == part) for i, domain in enumerate(data) if domain.fixed is not None}
    return {i: rows for i, rows in found.items() if len(rows)}


def refuse_gaps(data: Domains, selection: str = "validation") -> None:
    """Refuse an official split without a part that training, selection or the test needs."""
    wanted = {MAIN: "to train on", TEST: "to test on"}
    found = {part for part in PARTS if official_rows(data, part)}
    if selection in ("id_val", "val"):
        wanted |= {part: f"for selection={selection}" for part, name in PARTS.items() if name == selection}
    elif selection != "last" and not found & {HOLDOUT, VAL}:
        wanted[VAL] = "to choose the step by (nor of id_val)"
    for part, why in wanted.items():
        if part not in found:
            there = ", ".join(PARTS[one] for one in sorted(found))
            raise InputError(f"the official split of {data.name} has no images of {PARTS[part]} {why}; it has {there}")


def split(
    size: int,
    holdout: float,
    seed: int,
    position: int,
    groups: Labels | None = None,
    fixed: Fixed | None = None,
) -> tuple[Indices, Indices]:
    """Return the rows of the main part and of the holdout: the first ``int(size * holdout)`` of a seeded shuffle.

    With ``groups`` it is the groups that are shuffled, and whole ones are held out until there are that many images;
    the last one stays in main. With ``fixed`` only images that are FREE are drawn, by the same rule.
    """
    if fixed is not None:
        free = np.flatnonzero(fixed == FREE)
        main, held = split(len(free), holdout, seed, position, None if groups is None else groups[free])
        return (
            np.concatenate([free[main], np.flatnonzero(fixed == MAIN)]),
            np.concatenate([free[held], np.flatnonzero(fixed == HOLDOUT)]),
        )
    random = np.random.RandomState(seed_hash(seed, position))
    wanted = int(size * holdout)
    if groups is not None:
        return _whole_groups(groups, wanted, random)
    keys = np.arange(size)
    random.shuffle(keys)
    return keys[wanted:], keys[:wanted]


def joined(groups: Labels, copies: Labels) -> Labels:
    """Return groups so large that none shares a copy with another."""
    while True:
        larger = groups
        for other in (copies, groups):
            _, of = np.unique(other, return_inverse=True)
            least = np.full(of.max() + 1, larger.max())
            np.minimum.at(least, of, larger)
            larger = least[of]
        if np.array_equal(larger, groups):
            return groups
        groups = larger


def in_both_parts(domain: Domain) -> int:
    """Count the files of which one copy is fixed in the main part of the split and another one in the holdout."""
    if domain.copies is None or domain.fixed is None:
        return 0
    main, held_out = (domain.copies[domain.fixed == part] for part in (MAIN, HOLDOUT))
    return len(np.intersect1d(main, held_out))


def _followed(groups: Labels, fixed: Fixed) -> Fixed:
    """Where a part is fixed for an image, its whole group follows, unless its members are fixed in both parts."""
    followed = fixed.copy()
    for part, other in ((MAIN, HOLDOUT), (HOLDOUT, MAIN)):
        led = np.isin(groups, groups[fixed == part]) & ~np.isin(groups, groups[fixed == other])
        followed[led & (fixed == FREE)] = part
    return followed


def _whole_groups(groups: Labels, wanted: int, random: np.random.RandomState) -> tuple[Indices, Indices]:
    _, group_of, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = random.permutation(len(sizes))
    before = np.cumsum(sizes[order]) - sizes[order]  # images in the groups that come earlier
    held = order[:-1][before[:-1] < wanted]
    chosen = np.isin(group_of, held)
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)
