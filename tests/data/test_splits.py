from __future__ import annotations

import numpy as np
import pytest

from domainwise.data.domains import FREE, HOLDOUT, MAIN, PARTS
from domainwise.data.sources.arrays import domains
from domainwise.data.splits import split, split_domain
from domainwise.errors import InputError
from domainwise.seeds import seed_hash

# position of the domain: (images, first of the main part, first of the hold-out), as DomainBed splits PACS with seed 0
PACS = {
    0: (2048, [895, 510, 1575, 933, 362], [548, 677, 1997, 977, 1553]),
    1: (2344, [1129, 1175, 567, 1786, 1706], [1488, 562, 461, 570, 2092]),
    2: (1670, [764, 1046, 1426, 934, 1545], [1441, 1432, 282, 669, 637]),
    3: (3929, [2874, 719, 2027, 468, 2746], [2743, 2083, 2744, 3449, 1159]),
}


@pytest.mark.parametrize(
    ("parts", "seed"),
    [
        ((0, 0), 894182419),
        ((0, 1), 1514274641),
        ((0, 2), 1325548499),
        ((0, 3), 1796103049),
        ((0, 4), 1773288162),
        ((0, 5), 1833038383),
        ((1, 0), 785910682),
        (("PACS", "ERM", [0], 0, 0), 94828300),
    ],
)
def test_a_seed_hash_is_the_published_one(parts: tuple[object, ...], seed: int) -> None:
    assert seed_hash(*parts) == seed


@pytest.mark.parametrize("position", PACS)
def test_pacs_is_split_image_for_image_as_published(position: int) -> None:
    size, first_main, first_held = PACS[position]
    main, held = split(size, 0.2, seed=0, position=position)
    assert main[:5].tolist() == first_main
    assert held[:5].tolist() == first_held


def test_the_parts_of_pacs_have_the_published_sizes() -> None:
    parts = [split(size, 0.2, seed=0, position=position) for position, (size, _, _) in PACS.items()]
    assert [(len(held), len(main)) for main, held in parts] == [(409, 1639), (468, 1876), (334, 1336), (785, 3144)]


@pytest.mark.parametrize(("size", "holdout"), [(0, 0.2), (1, 0.2), (7, 0.5), (100, 0.0), (100, 0.29)])
def test_every_image_is_in_exactly_one_part(size: int, holdout: float) -> None:
    main, held = split(size, holdout, seed=3, position=1)
    assert sorted([*main, *held]) == list(range(size))
    assert len(held) == int(size * holdout)


def test_the_split_depends_on_the_seed_and_the_position_and_on_no_global_state() -> None:
    np.random.seed(1)
    first, again = (split(50, 0.2, seed=0, position=0)[1] for _ in range(2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, split(50, 0.2, seed=1, position=0)[1])
    assert not np.array_equal(first, split(50, 0.2, seed=0, position=1)[1])


def grouped(sizes: list[int], seed: int = 0) -> np.ndarray:
    """Groups of these sizes, their members scattered."""
    return np.random.RandomState(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("sizes", [[1] * 40, [5, 1, 3, 9, 2, 7, 4], [30, 1, 1, 1]])
def test_no_group_is_in_both_parts_and_enough_images_are_held_out(sizes: list[int], seed: int) -> None:
    groups = grouped(sizes)
    main, held = split(len(groups), 0.2, seed, 0, groups=groups)
    assert not {*groups[main]} & {*groups[held]}
    assert sorted([*main, *held]) == list(range(len(groups)))
    assert len(held) >= int(0.2 * len(groups)) or len({*groups[main]}) == 1
    largest = max(np.sum(groups == group) for group in groups[held])
    assert len(held) - largest < int(0.2 * len(groups))  # and not a whole group too many


def test_which_groups_are_held_out_depends_on_the_seed_and_the_position() -> None:
    groups = grouped([3] * 20)
    first = split(60, 0.2, 0, 0, groups=groups)[1]
    assert np.array_equal(first, split(60, 0.2, 0, 0, groups=groups)[1])
    assert not np.array_equal(first, split(60, 0.2, 1, 0, groups=groups)[1])
    assert not np.array_equal(first, split(60, 0.2, 0, 1, groups=groups)[1])


def test_one_group_alone_is_never_held_out() -> None:
    main, held = split(5, 0.2, 0, 0, groups=np.zeros(5, np.int64))
    assert len(main) == 5
    assert len(held) == 0


def test_images_whose_part_is_fixed_stay_there_and_the_others_are_dealt_by_the_rule() -> None:
    fixed = np.array([FREE] * 10 + [MAIN] * 3 + [HOLDOUT] * 2, np.int8)
    main, held = split(15, 0.2, 0, 0, fixed=fixed)
    free_main, free_held = split(10, 0.2, 0, 0)
    assert main.tolist() == [*free_main, 10, 11, 12]
    assert held.tolist() == [*free_held, 13, 14]


def test_where_every_part_is_fixed_the_seed_changes_nothing() -> None:
    fixed = np.array([MAIN, HOLDOUT, MAIN, MAIN], np.int8)
    parts = [split(4, 0.2, seed, 0, fixed=fixed) for seed in range(3)]
    assert {(tuple(main), tuple(held)) for main, held in parts} == {((0, 2, 3), (1,))}


def test_arrays_take_an_official_split_which_named_targets_leave_to_the_seed() -> None:
    images, labels = np.zeros((6, 2, 2), np.uint8), np.array([0, 1] * 3)
    parts = {"a": ["train", "id_val", "train", "id_val", "id_test", "train"], "b": ["val", "test"] * 3}
    data = domains(dict.fromkeys("ab", (images, labels)), splits=parts)
    assert [[PARTS[part] for part in domain.fixed.tolist()] for domain in data] == list(parts.values())
    assert data.has_official_split
    assert data.fingerprint != domains(dict.fromkeys("ab", (images, labels))).fingerprint
    main, held = split_domain(data["b"], 1, 0.5, 0)
    assert [part.tolist() for part in (main, held)] == [part.tolist() for part in split(6, 0.5, 0, 1)]
    with pytest.raises(InputError, match='"tset" in domain "a" is no part of a split'):
        domains(dict.fromkeys("ab", (images, labels)), splits={**parts, "a": ["tset"] * 6})
