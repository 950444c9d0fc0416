from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from domainwise import fit
from domainwise.data.domains import Domain, Domains
from domainwise.data.sources.arrays import domains
from domainwise.errors import InputError


def images(count: int = 4, shape: tuple[int, ...] = (2, 2, 3), value: int = 0) -> np.ndarray:
    return np.full((count, *shape), value, np.uint8)


SOUND = {"a": (images(), [0, 1, 0, 1]), "b": (images(value=9), [1, 1, 0, 0])}


def two(**changes: Any) -> Domains:
    """Two sound domains, a and b, with whatever is to be different."""
    return domains({**SOUND, **changes})


def test_arrays_become_named_domains_with_shared_classes() -> None:
    data = two()
    assert data.names == ("a", "b")
    assert data.classes == ("0", "1")
    assert data.shape == (2, 2, 3)
    assert [len(domain) for domain in data] == [4, 4]
    assert data["b"].labels.tolist() == [1, 1, 0, 0]


def test_grey_images_get_a_channel() -> None:
    grey = (images(shape=(5, 6)), [0, 1, 0, 1])
    assert domains({"a": grey, "b": grey}).shape == (5, 6, 1)


@pytest.mark.parametrize("shape", [(32, 32, 3), (2, 2), (3, 3, 200), (28, 28, 2), (9, 40, 1)])
def test_small_images_and_many_channels_are_taken_as_they_are(shape: tuple[int, ...]) -> None:
    domain = (images(shape=shape), [0, 1, 0, 1])
    assert domains({"a": domain, "b": domain}).shape == (*shape, 1)[:3]


def test_whole_numbers_of_any_type_are_labels() -> None:
    assert two(b=(images(), [1.0, 0.0, 1.0, 0.0]))["b"].labels.dtype == np.int64


def test_asking_for_an_unknown_domain_names_the_nearest_one() -> None:
    data = domains({name: (images(2), [0, 1]) for name in ("sketch", "photo")}, name="pictures")
    with pytest.raises(InputError, match=r'"sketsh" is not a domain of pictures: did you mean sketch\?'):
        data["sketsh"]


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ((images(3), [0, 1, 0, 1]), 'domain "b" has 3 images and 4 labels'),
        ((images(0), []), 'domain "b" of arrays has no images'),
        ((images(shape=(3, 3, 3)), [0, 1, 0, 1]), "all domains must have one shape"),
        ((images(), [0, -1, 0, 1]), 'domain "b" has label -1, outside 0..1'),
        ((images(), ["cat", "dog", "cat", "dog"]), 'labels of domain "b" are names and those of "a" are not'),
        ((images(), [0, 0.5, 0, 1]), 'labels of domain "b" must be a row of whole numbers, got float64'),
        ((images(), [0, np.inf, 0, 1]), 'labels of domain "b" must be a row of whole numbers, got float64'),
        ((images(), [0, np.nan, 0, 1]), 'labels of domain "b" must be a row of whole numbers, got float64'),
        ((images(), [[0, 1, 0, 1]]), r'labels of domain "b" must be a row .* got int64 \(1, 4\)'),
        ((images() / 255, [0, 1, 0, 1]), 'images of domain "b" are float32, those of "a" uint8'),
        ((images(shape=(2, 2)) / 255, [0, 1, 0, 1]), "reads as signals of 2 channels over 2 steps. If they are grey"),
        (([images(1)[0], images(1, (5, 5))[0]], [0, 1]), 'images of domain "b" differ in shape'),
        ((images(shape=(10, 32, 32)), [0, 1, 0, 1]), "10 x 32 pixels of 32 channels: channels come last"),
        (
            (images(shape=(3, 32, 32)), [0, 1, 0, 1]),
            r"3 x 32 pixels of 32 channels: channels come last, \(N, H, W, C\)",
        ),
        ((images(shape=(1, 28, 20)), [0, 1, 0, 1]), r"x\.transpose\(0, 2, 3, 1\)"),
        ((images(shape=(1, 16)), [0, 1, 0, 1]), 'images of domain "b" are 1 x 16 pixels, rows of numbers'),
        ((images(shape=(16, 1)), [0, 1, 0, 1]), "are 16 x 1 pixels"),
    ],
)
def test_a_bad_domain_is_told_in_a_sentence_that_names_it(bad: tuple[Any, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        two(b=bad)


def test_a_label_beyond_the_given_classes_is_an_error() -> None:
    sound = (images(), [0, 1, 2, 1])
    with pytest.raises(InputError, match=r'domain "a" has label 2, outside 0\.\.1'):
        domains({"a": sound, "b": sound}, classes=["cat", "dog"])


def test_one_domain_or_none_is_too_few() -> None:
    with pytest.raises(InputError, match=r"arrays has only one domain \(a\)"):
        domains({"a": (images(), [0, 1, 0, 1])})
    with pytest.raises(InputError, match="no domains were given"):
        domains({})


def test_images_of_one_class_alone_are_an_error_that_names_it() -> None:
    alike = (images(), [1, 1, 1, 1])
    with pytest.raises(InputError, match=r'belong to one class \("dog"\)'):
        domains({"a": alike, "b": alike}, classes=["cat", "dog"])


@pytest.mark.parametrize("pair", [("Photo", "photo"), ("\u00e9", "e\u0301"), ("A", "\uff21")])
def test_names_that_read_alike_are_an_error_that_shows_the_difference(pair: tuple[str, str]) -> None:
    with pytest.raises(InputError, match="read as the same name: rename one") as caught:
        domains({name: (images(), [0, 1, 0, 1]) for name in pair})
    assert all(ascii(name) in str(caught.value) for name in pair)


def test_the_fingerprint_is_that_of_the_content() -> None:
    copies = {name: (x.copy(), list(y)) for name, (x, y) in SOUND.items()}
    assert domains(copies, name="another").fingerprint == two().fingerprint


@pytest.mark.parametrize(
    "other",
    [
        two(b=(images(value=8), [1, 1, 0, 0])),
        two(b=(images(value=9), [1, 0, 1, 0])),
        two(c=(images(), [0, 1, 0, 1])),
        domains({"a": SOUND["a"], "another": SOUND["b"]}),
        domains(SOUND, classes=["cat", "dog"]),
    ],
    ids=["a pixel", "a label", "a domain", "a domain's name", "a class's name"],
)
def test_the_fingerprint_changes_with(other: Domains) -> None:
    assert other.fingerprint != two().fingerprint


def test_saved_domains_open_as_they_were_without_being_read_into_memory(tmp_path: Path) -> None:
    data = domains(
        {name: (images(2, value=i), [i, 1 - i]) for i, name in enumerate(["<é>", "b/c"])}, classes=["cat", "d g"]
    )
    data.save(tmp_path / "new" / "folder")
    again = Domains.open(tmp_path / "new" / "folder")
    assert (again.name, again.names, again.classes) == (data.name, data.names, data.classes)
    assert again.fingerprint == data.fingerprint
    for before, after in zip(data, again, strict=True):
        assert isinstance(after.images, np.memmap)
        assert np.array_equal(after.images, before.images)
        assert np.array_equal(after.labels, before.labels)


def test_domains_made_by_hand_are_checked_too() -> None:
    one = Domain("a", images(), np.array([0, 1, 0, 1]))
    with pytest.raises(InputError, match="read as the same name"):
        Domains("mine", ("x", "y"), (one, one), "")


@pytest.mark.parametrize("mark", [255, 10**9, 2**52])
def test_a_label_far_above_the_others_is_no_class_of_its_own(mark: int) -> None:
    with pytest.raises(InputError, match=rf"labels go up to {mark}, but only 3 of them occur, and 2 does not"):
        two(a=(images(), [0, 1, 0, mark]))
    named = domains({"a": (images(), [0, 3, 0, 3]), "b": (images(), [1, 1, 0, 0])}, classes=list("wxyz"))
    assert named.classes == ("w", "x", "y", "z")


@pytest.mark.parametrize("turned", [np.s_[..., ::-1], np.s_[:, ::-1], np.s_[:, :, ::-1], np.s_[::-1]])
def test_images_that_run_backwards_train_like_their_copies(turned: Any, tmp_path: Path) -> None:
    pixels = np.random.RandomState(0).randint(0, 256, (12, 6, 6, 3)).astype(np.uint8)
    labels = np.arange(12) % 2
    view, copy = (domains({"a": (x, labels[::-1]), "b": (x, labels)}) for x in (pixels[turned], pixels[turned].copy()))
    assert view.fingerprint == copy.fingerprint
    first, second = (
        fit(data, "erm", steps=2, batch=4, output=tmp_path / str(i)).probabilities(pixels)
        for i, data in enumerate((view, copy))
    )
    assert np.array_equal(first, second)


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ("photos", r'domains are given as \{"name": .* got the text "photos"'),
        ({"a": images(), "b": images()}, r'domain "a" is given as \(images, labels\), got an object of type ndarray'),
        ({**SOUND, "a": (images(),)}, r'domain "a" is given as \(images, labels\)'),
        ({**SOUND, None: SOUND["a"]}, "the name of a domain must be a text"),
        ({**SOUND, " ": SOUND["a"]}, "the name of a domain must be a text"),
        ({**SOUND, "a": (torch.zeros(4, 2, 2, 3, requires_grad=True), [0, 1, 0, 1])}, "are not an array: Can't call"),
        ({name: (images(shape=(0, 2, 3)), [0, 1, 0, 1]) for name in "ab"}, "has no images, or none with pixels"),
        ({**SOUND, "a": (images(), np.array([0, 1, 0, 2**64 - 1], np.uint64))}, "must be a row of whole numbers"),
        ({**SOUND, "a": (images(), [[1], [1, 2]])}, 'the labels of domain "a" differ in shape'),
    ],
)
def test_what_is_no_domain_is_a_sentence(arrays: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        domains(arrays)


@pytest.mark.parametrize(
    ("about", "sentence"),
    [
        ({"classes": 3}, "classes must be the names of all classes"),
        ({"classes": "ab"}, "classes must be the names of all classes"),
        ({"classes": ["a", "a"]}, 'class "a" is named more than once'),
        ({"classes": ["a", None]}, "the name of a class must be a text"),
        ({"name": ""}, "the name of a data set must be a text"),
    ],
)
def test_names_are_texts_that_differ(about: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        domains(SOUND, **about)
