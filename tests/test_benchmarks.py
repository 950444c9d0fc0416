from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_images import benchmark_folder

from domainwise.data.sources.benchmarks import BENCHMARKS, difference_of, recognised
from domainwise.data.sources.digits import digits
from domainwise.data.sources.folders import folders
from domainwise.data.sources.listing import Listing
from domainwise.data.sources.open import benchmark_named, find_source, open_data
from domainwise.errors import InputError

PACS = ("art_painting", "cartoon", "photo", "sketch")
IN_FILES = [benchmark for benchmark in BENCHMARKS.values() if benchmark.in_files]


def pacs(root: Path, domains: tuple[str, ...] = PACS) -> Path:
    return benchmark_folder(root, domains, classes=7)


def found(text: object) -> Listing:
    listing = find_source(str(text))
    assert isinstance(listing, Listing)
    return listing


def refused(text: object) -> str:
    with pytest.raises(InputError) as caught:
        find_source(str(text))
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "images", "letters", "classes", "size", "steps", "every"),
    [
        ("pacs", 9991, "A C P S", 7, 224, 5001, 300),
        ("vlcs", 10729, "C L S V", 5, 224, 5001, 300),
        ("officehome", 15588, "A C P R", 65, 224, 5001, 300),
        ("terraincognita", 24330, "L100 L38 L43 L46", 10, 224, 5001, 300),
        ("domainnet", 586575, "clip info paint quick real sketch", 345, 224, 5001, 1000),
        ("rotated_mnist", 70000, "0 15 30 45 60 75", 10, 28, 5001, 100),
        ("colored_mnist", 70000, "+90% +80% -90%", 2, 28, 5001, 100),
        ("digits", 1797, "0 15 30 45 60 75", 10, 16, 300, 30),
    ],
)
def test_the_table_says_what_was_published(
    name: str, images: int, letters: str, classes: int, size: int, steps: int, every: int
) -> None:
    benchmark = BENCHMARKS[name]
    assert sum(benchmark.published[0]) == images
    assert list(benchmark.domains.values()) == letters.split()
    assert (benchmark.classes, benchmark.size, benchmark.steps, benchmark.evaluate_every) == (
        classes,
        size,
        steps,
        every,
    )
    assert all(len(line) == len(benchmark.domains) for line in benchmark.published)


@pytest.mark.parametrize("benchmark", IN_FILES, ids=lambda benchmark: benchmark.name)
def test_domains_are_in_the_order_of_their_folders_names(benchmark) -> None:
    assert list(benchmark.domains) == sorted(benchmark.domains)


def test_the_digits_are_those_of_the_table() -> None:
    data, benchmark = digits(), BENCHMARKS["digits"]
    assert data.names == tuple(benchmark.domains)
    assert tuple(len(domain) for domain in data) == benchmark.published[0]
    assert data.shape == (benchmark.size, benchmark.size, 1)


LAYOUTS = [
    ("pacs", "PACS", PACS),
    ("pacs", "pacs", PACS),
    ("pacs", "PACS/kfold", PACS),
    ("pacs", "pacs/images", PACS),
    ("pacs", "pacs_data", PACS),
    ("pacs", "pacs_data/pacs_data", PACS),
    ("pacs", ".", ("art", "Cartoon", "PHOTO", "sketch")),
    ("vlcs", "VLCS", ("Caltech101", "LabelMe", "SUN09", "VOC2007")),
    ("vlcs", "VLCS", ("CALTECH", "LABELME", "SUN", "PASCAL")),
    ("officehome", "office_home", ("Art", "Clipart", "Product", "Real World")),
    ("officehome", "OfficeHomeDataset_10072016", ("Art", "Clipart", "Product", "Real_World")),
    ("officehome", "office-home", ("art", "clipart", "product", "RealWorld")),
    ("terraincognita", "terra_incognita", ("location_100", "location_38", "location_43", "location_46")),
    ("terraincognita", "TerraIncognita", ("L100", "L38", "L43", "L46")),
    ("domainnet", "domain_net", ("clipart", "infograph", "painting", "quickdraw", "real", "sketch")),
]


@pytest.mark.parametrize(("name", "place", "folders_"), LAYOUTS)
def test_a_benchmark_is_found_in_its_folder_or_the_one_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, place: str, folders_: tuple[str, ...]
) -> None:
    benchmark_folder(tmp_path / place, folders_, classes=2)
    monkeypatch.setitem(BENCHMARKS, name, smaller := replace(BENCHMARKS[name], classes=2))
    for start in (tmp_path, tmp_path / place):
        listing = found(f"{name}={start}")
        assert [domain for domain, _ in listing.domains] == list(smaller.domains)
        assert listing.name == name
        assert {file.relative.split("/")[0] for file in listing.files} == set(smaller.domains)


def test_a_folder_between_domain_and_class_is_passed_through_where_a_download_has_one(tmp_path: Path) -> None:
    for domain in ("CALTECH", "LABELME", "SUN", "PASCAL"):
        benchmark_folder(tmp_path / "VLCS" / domain, ("full", "train", "test"), classes=5)
    listing = found(f"vlcs={tmp_path}")
    assert len(listing.files) == 20
    assert listing.files[0].relative == "Caltech101/class 000/0.png"


def test_it_reads_as_the_same_folder_does_and_has_its_fingerprint(tmp_path: Path) -> None:
    root = pacs(tmp_path / "PACS")
    with pytest.warns(
        UserWarning, match=r"pacs: not the published PACS: art_painting has 7 images \(published: 2,048\)"
    ):
        data = open_data(f"pacs={tmp_path}", size=4)
    with pytest.warns(UserWarning, match="copies of others in their domain|several domains|several classes"):
        plain = folders(root, size=4).split_by("apart")
    assert data.name == "pacs"
    assert (data.names, data.classes, data.fingerprint) == (plain.names, plain.classes, plain.fingerprint)
    assert all(np.array_equal(a.labels, b.labels) for a, b in zip(data, plain, strict=True))


def test_the_fingerprint_does_not_depend_on_how_the_folders_are_spelled(tmp_path: Path) -> None:
    pacs(tmp_path / "one" / "PACS")
    pacs(tmp_path / "two", ("art", "CARTOON", "Photo", "sketch"))
    assert len({_fingerprint(f"pacs={tmp_path / where}") for where in ("one", "two")}) == 1


def _fingerprint(text: str) -> str:
    with pytest.warns(UserWarning, match="not the published"):
        return open_data(text, size=4).fingerprint


def test_other_folders_beside_the_domains_are_left_out_with_a_sentence(tmp_path: Path) -> None:
    pacs(tmp_path, (*PACS, "splits"))
    assert '1 folder(s) are not among its domains and are left out: "splits"' in found(f"pacs={tmp_path}").oddities
    assert len(found(f"pacs={tmp_path}").domains) == 4


def test_a_wrong_folder_is_told_what_was_looked_for_and_where(tmp_path: Path) -> None:
    pacs(tmp_path / "PACS", PACS[:3])
    assert refused(f"pacs={tmp_path}") == (
        'PACS is not there: its domains are the folders "art_painting", "cartoon", "photo", "sketch", looked for in '
        f'{tmp_path} (which has no "art_painting", "cartoon", "photo", "sketch"); '
        f'{tmp_path / "PACS"} (which has no "sketch")'
    )
    assert refused(f"pacs={tmp_path / 'x'}").startswith(f'there is no folder "{tmp_path / "x"}"')


def test_other_classes_than_the_published_ones_are_refused(tmp_path: Path) -> None:
    benchmark_folder(tmp_path, PACS, classes=2)
    sentence = refused(f"pacs={tmp_path}")
    assert 'has 2 classes ("class 000", "class 001", ...), the published one 7' in sentence
    assert sentence.endswith(f"to use it as it is, give {tmp_path} alone")


def test_an_empty_domain_is_refused(tmp_path: Path) -> None:
    pacs(tmp_path, PACS[:3])
    (tmp_path / "sketch").mkdir()
    assert refused(f"pacs={tmp_path}").endswith('is not complete: no images in "sketch"')


def test_numbers_are_compared_with_the_nearest_version_that_was_published() -> None:
    terra = BENCHMARKS["terraincognita"]
    for version in terra.published:
        exact = dict(zip(terra.domains, version, strict=True))
        assert difference_of(terra, exact) == ""
        one_less = difference_of(terra, {**exact, "location_46": version[3] - 1})
        assert one_less == (
            f"not the published TerraIncognita: location_46 has {version[3] - 1:,} images (published: {version[3]:,})"
        )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("pacs", "pacs is not embedded: say where it lies, --data pacs=DIR"),
        ("PACS=", "pacs is not embedded: say where it lies, --data pacs=DIR"),
        ("paks=DIR", '"paks" is not a benchmark that is read from a folder: did you mean pacs?'),
        ("digits=DIR", '"digits" is not a benchmark that is read from a folder'),
        ("", "no data: give a folder of domain folders, a manifest"),
        ("/no/where=3", '"/no/where=3" is neither a file nor a folder nor embedded data'),
        ("x" * 5000, "File name too long"),
        ("a\0b", "holds a NUL character"),
        ("~nobody/data", "is neither a file nor a folder"),
    ],
)
def test_what_names_no_data_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert sentence in refused(text)


def test_a_folder_that_is_called_like_a_benchmark_or_has_an_equals_sign_is_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("pacs", "pacs=mine"):
        benchmark_folder(tmp_path / name, ("a", "b"), classes=2)
        assert found(name).domains == [("a", 2), ("b", 2)]


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    pacs(tmp_path / "data" / "PACS")
    assert len(found("pacs=~/data").domains) == 4


@pytest.mark.parametrize(
    ("text", "name"),
    [("pacs=x", "pacs"), ("PACS=x", "pacs"), ("digits", "digits"), ("colored_mnist=x", "colored_mnist")],
)
def test_the_settings_of_a_benchmark_go_with_its_name(text: str, name: str) -> None:
    benchmark = benchmark_named(text)
    assert benchmark is not None
    assert benchmark.name == name


@pytest.mark.parametrize("text", ["pacs", "/data/pacs", "x=y", "table.csv"])
def test_other_data_has_no_settings_of_its_own(text: str) -> None:
    assert benchmark_named(text) is None


def test_a_benchmark_is_recognised_by_its_domains() -> None:
    assert recognised(("ART", "cartoon", "photo", "sketch")) is BENCHMARKS["pacs"]
    assert recognised(("art", "clipart", "product", "real_world")) is BENCHMARKS["officehome"]
    assert recognised((*PACS, "more")) is None
    assert recognised(PACS[:3]) is None
    assert recognised(("0", "15", "30", "45", "60", "75")) is None
