"""Copies of a file stay in one part of a split of one's own folders, and benchmarks keep the published split."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from made_folders import draw
from made_images import benchmark_folder, noisy_folder
from PIL import Image

import domainwise as dw
from domainwise.data.decoded.cache_entries import entries
from domainwise.data.domains import FREE, HOLDOUT, MAIN, Domain, Domains
from domainwise.data.inspect import survey
from domainwise.data.sources.folders import folders
from domainwise.data.sources.open import find_source, open_data
from domainwise.data.splits import holds_none_out, joined, split, split_domain
from domainwise.experiment.settings import resolve
from domainwise.files import checksum

COPIES = pytest.mark.filterwarnings("ignore:data. 6 file.s. are copies of others in their domain")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Twelve images in each domain, and of three of those in domain a two copies each."""
    root = noisy_folder(tmp_path / "data", ((8, 8),) * 6)
    for i in range(3):
        for end in ("copy", "again"):
            shutil.copy(root / "a" / "cat" / f"{i}.png", root / "a" / "cat" / f"{i}-{end}.png")
    return root


def without_copies(tmp_path: Path) -> Domains:
    return folders(noisy_folder(tmp_path / "plain" / "data", ((8, 8),) * 6))


def straddling(domain: Domain, seed: int) -> int:
    """How many images that stand more than once lie in both parts."""
    parts = split_domain(domain, 0, 0.2, seed)
    seen = [{image.tobytes() for image in domain.images[rows]} for rows in parts]
    return len(seen[0] & seen[1])


@COPIES
def test_copies_of_a_file_never_straddle_a_split_unless_it_is_the_published_one(root: Path) -> None:
    data = folders(root)
    assert [straddling(data["a"], seed) for seed in range(20)] == [0] * 20
    apart = data.split_by("apart")
    assert any(straddling(apart["a"], seed) for seed in range(20))
    for seed in range(5):
        rows = split_domain(apart["a"], 0, 0.2, seed)
        assert all(np.array_equal(mine, theirs) for mine, theirs in zip(rows, split(18, 0.2, seed, 0), strict=True))


@COPIES
def test_copies_enter_the_fingerprint_and_data_without_them_keep_theirs(root: Path, tmp_path: Path) -> None:
    data, plain = folders(root), without_copies(tmp_path)
    apart = data.split_by("apart")
    assert len({data.fingerprint, apart.fingerprint, plain.fingerprint}) == 3
    assert apart.known_as(data.fingerprint) is apart
    assert data.known_as(apart.fingerprint).fingerprint == apart.fingerprint
    assert data.known_as("another") is data
    assert plain.split_by("apart") is plain
    assert plain.fingerprint == plain.plain
    assert plain["a"].copies is None


@COPIES
def test_the_cache_and_other_processes_keep_both_ways(root: Path, tmp_path: Path) -> None:
    memory = folders(root)
    for _ in range(2):
        data = open_data(str(root), cache=tmp_path / "cache")
        assert data.home is not None
        assert (data.fingerprint, data.plain) == (memory.fingerprint, memory.plain)
        assert np.array_equal(data["a"].copies, memory["a"].copies)  # type: ignore[arg-type]
    for way in ("together", "apart"):
        data.split_by(way).save(tmp_path / way)
        again = Domains.open(tmp_path / way)
        assert again.fingerprint == data.split_by(way).fingerprint
        assert (again["a"].copies is None) == (way == "apart")
        assert np.array_equal(again["a"].images, data["a"].images)
    assert Domains.open(data.home).fingerprint == memory.fingerprint  # a link to its about.json was not written through


def test_the_quick_preset_keeps_copies_together_and_published_ones_do_not() -> None:
    ways = {preset: resolve(preset).duplicates for preset in ("quick", "domainbed", "swad")}
    assert ways == {"quick": "together", "domainbed": "apart", "swad": "apart"}


@COPIES
def test_a_setting_says_how_copies_are_split(root: Path, tmp_path: Path) -> None:
    data = folders(root)
    for name, settings, expected in [
        ("quick", {}, data.fingerprint),
        ("apart", {"duplicates": "apart"}, data.plain),
        ("swad", {"preset": "swad", "network": "small", "input_size": 64, "weights": "none"}, data.plain),
    ]:
        dw.fit(data, "erm", steps=1, batch=2, output=tmp_path / name, **settings)
        assert json.loads((tmp_path / name / "trial.json").read_text())["fingerprint"] == expected


def test_a_benchmark_keeps_its_split_and_only_counts(tmp_path: Path) -> None:
    root = benchmark_folder(tmp_path / "pacs", ("art_painting", "cartoon", "photo", "sketch"), classes=7)
    with pytest.warns(UserWarning, match="not the published PACS"):
        data = open_data(f"pacs={root}", size=4)  # whose images are all the same black pixel
    assert data.fingerprint == data.plain
    assert all(domain.copies is None for domain in data)
    assert len(survey(find_source(f"pacs={root}")).duplicates["across"]) == 1


@COPIES
def test_what_an_earlier_version_decoded_is_used_unless_it_would_be_read_otherwise_now(
    root: Path, tmp_path: Path
) -> None:
    def aged(source: Path) -> list[str]:
        """Open data from the cache as an earlier version has left it; what is warned of."""
        before = open_data(str(source), cache=tmp_path / "cache")
        (entry,) = [each for each in entries(tmp_path / "cache") if each.source == str(source.resolve())]
        about = json.loads((entry.path / "about.json").read_text())
        del about["plain"], about["checksum"]
        about["blocks"].pop("copies", None)
        about["arrays"].pop("copies", None)
        (entry.path / "copies.npy").unlink(missing_ok=True)
        (entry.path / "about.json").write_text(json.dumps({**about, "checksum": checksum(about)}))
        with warnings.catch_warnings(record=True, action="always") as caught:
            after = open_data(str(source), cache=tmp_path / "cache")
        assert after.fingerprint == before.fingerprint
        return [str(warning.message) for warning in caught if "out of date" in str(warning.message)]

    plain = noisy_folder(tmp_path / "plain" / "data", ((8, 8),) * 2)
    assert aged(plain) == []
    assert len(aged(root)) == 1
    deep = noisy_folder(tmp_path / "deep" / "data", ((8, 8),) * 2)
    Image.fromarray(np.full((8, 8), 4095, np.uint16)).save(deep / "a" / "cat" / "0.png")
    assert len(aged(deep)) == 1


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12))
def test_groups_grow_until_none_shares_a_copy_with_another(pairs: list[tuple[int, int]]) -> None:
    groups, copies = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    found = joined(groups, copies)
    reached = {i: {i} for i in range(len(pairs))}
    for _ in pairs:
        for i, j in ((i, j) for i in reached for j in reached):
            if pairs[i][0] == pairs[j][0] or pairs[i][1] == pairs[j][1]:
                reached[i] = reached[j] = reached[i] | reached[j]
    for i, near in reached.items():
        assert {j for j in range(len(pairs)) if found[j] == found[i]} == near


def test_copies_follow_the_one_whose_part_is_fixed() -> None:
    images = np.zeros((10, 2, 2, 3), np.uint8)
    fixed = np.array([MAIN, FREE, HOLDOUT, FREE, *[FREE] * 6], np.int8)
    copies = np.array([0, 0, 2, 2, 4, 5, 6, 7, 8, 9])
    domain = Domain("a", images, np.zeros(10, np.int64), copies=copies, fixed=fixed)
    for seed in range(10):
        main, held_out = split_domain(domain, 0, 0.3, seed)
        assert {0, 1} <= {*main.tolist()}
        assert {2, 3} <= {*held_out.tolist()}
        assert sorted([*main, *held_out]) == list(range(10))


def test_one_image_again_and_again_is_trained_on_whole_with_a_note(tmp_path: Path) -> None:
    for domain in ("a", "b"):
        for i in range(3):
            draw(tmp_path / "data" / domain / "cat" / f"{i}.png")
    draw(tmp_path / "data" / "b" / "dog" / "x.png", (0, 0, 0))
    with pytest.warns(UserWarning, match="copies of others|several domains|only domain"):
        data = folders(tmp_path / "data")
    main, held_out = split_domain(data["a"], 0, 0.2, 0)
    assert (len(main), len(held_out)) == (3, 0)
    assert holds_none_out(data["a"], 0.4)


def test_copies_that_the_manifest_puts_into_both_parts_are_told_of(tmp_path: Path) -> None:
    rows = []
    for domain in "ab":
        for i, part in enumerate(["train", "holdout", "", ""]):
            draw(tmp_path / f"{domain}{i}.png", (60 * (i // 2), 0, ord(domain)))
            rows.append(f"{domain}{i}.png,{domain},{'cat' if i < 2 else 'dog'},{part}")
    (tmp_path / "table.csv").write_text("\n".join(["path,domain,label,split", *rows]))
    with pytest.warns(UserWarning, match=r"4 file.* are copies .* but for 2 that the column split puts into both"):
        open_data(str(tmp_path / "table.csv"), size=8)


def test_files_that_stand_in_several_domains_or_classes_are_told_of_every_time(tmp_path: Path) -> None:
    root = noisy_folder(tmp_path / "data", ((8, 8),) * 6, ("a", "b", "c"))
    for name in ("0.png", "1.png"):
        shutil.copy(root / "a" / "cat" / name, root / "b" / "cat" / f"copy-{name}")
    shutil.copy(root / "c" / "cat" / "3.png", root / "c" / "dog" / "3-too.png")
    said = []
    for cache in (None, tmp_path / "cache", tmp_path / "cache"):  # the second time nothing is decoded
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            open_data(str(root), cache=cache)
        said.append("\n".join(str(one.message) for one in caught))
    assert said[0] == said[1] == said[2]
    assert '2 file(s) stand in several domains, so that a target shows what was trained on: "a/cat/0.png" = ' in said[0]
    assert '1 file(s) stand in several classes, of which at most one is right: "c/cat/3.png" = "c/dog/3-too' in said[0]


def test_groups_that_lie_in_several_domains_are_told_of(tmp_path: Path) -> None:
    root = noisy_folder(tmp_path / "data", ((8, 8),) * 4)
    rows = ["path,domain,label,group"]
    for domain in "ab":
        rows += [f"{domain}/{kind}/{i}.png,{domain},{kind},p{i}" for kind in ("cat", "dog") for i in range(4)]
    (root / "all.csv").write_text("\n".join(rows))
    with pytest.warns(UserWarning, match='4 group.s. stand in several domains.*the same: "p0", '):
        open_data(str(root / "all.csv"))
