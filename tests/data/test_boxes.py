"""A box of a manifest is the image: everything sees that part of the picture and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made_folders import draw
from PIL import Image

from domainwise import InputError
from domainwise.data.decoded.decode_all import Sizes
from domainwise.data.inspect import survey
from domainwise.data.sources.open import find_source, foreseen, open_data


@pytest.fixture
def scenes(tmp_path: Path) -> Path:
    """Pictures of 40 x 20 pixels, each of as many colours as pixels."""
    random = np.random.default_rng(0)
    for i in range(8):
        Image.fromarray(random.integers(0, 255, (20, 40, 3), np.uint8)).save(draw(tmp_path / f"{i}.png"))
    return tmp_path


def manifest(folder: Path, boxes: list[str], head: str = "path,domain,label,box", name: str = "m.csv") -> Path:
    rows = [f'{i % 8}.png,{"ab"[i % 2]},{"cd"[i // 2 % 2]},"{box}"' for i, box in enumerate(boxes)]
    (folder / name).write_text("\n".join([head, *rows]))
    return folder / name


def test_pixels_are_those_in_the_box_in_either_unit(scenes: Path) -> None:
    boxes = ["10 5 8 8", "0.25 0.25 0.2 0.4", "[10, 5, 8, 8]", "10,5,8,8", "0 0 40 20", "", "36 16 8 8", "0 0 1 1"]
    data = open_data(str(manifest(scenes, boxes)), size=8)
    files, images = find_source(str(scenes / "m.csv")).files, [image for domain in data for image in domain.images]
    by_path = {file.relative: image for file, image in zip(files, images, strict=True)}
    for i in range(4):
        picture = np.asarray(Image.open(scenes / f"{i}.png"))
        assert np.array_equal(by_path[f"{i}.png"], picture[5:13, 10:18])
    whole = Image.open(scenes / "4.png").resize((8, 8), Image.Resampling.BILINEAR)
    assert np.array_equal(by_path["4.png"], np.asarray(whole))
    corner = Image.open(scenes / "6.png").crop((36, 16, 40, 20)).resize((8, 8), Image.Resampling.BILINEAR)
    assert np.array_equal(by_path["6.png"], np.asarray(corner))


def test_boxes_are_in_the_fingerprint_and_manifests_without_them_are_as_they_were(scenes: Path) -> None:
    plain = manifest(scenes, [""] * 8, name="plain.csv")
    bare = scenes / "bare.csv"
    bare.write_text("\n".join(line.rpartition(",")[0] for line in plain.read_text().splitlines()))
    cut = manifest(scenes, ["0 0 8 8"] * 8, name="cut.csv")
    fingerprints = [open_data(str(file), size=8).fingerprint for file in (plain, bare, cut)]
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]
    seen = [foreseen(find_source(str(cut)), Sizes(16, 8), exact=True), open_data(str(cut), train_size=16, eval_size=8)]
    assert seen[0].fingerprint == seen[1].fingerprint
    assert seen[0].shape == seen[1].shape


def test_several_boxes_of_a_picture_stay_in_one_part_of_the_split(scenes: Path) -> None:
    boxes = {"c": "0 0 9 9", "d": "9 9 9 9"}
    rows = [f"{i}.png,{'ab'[i % 2]},{name},{box}" for i in range(8) for name, box in boxes.items()]
    (scenes / "m.csv").write_text("\n".join(["path,domain,label,box", *rows]))
    with pytest.warns(UserWarning, match="copies of others in their domain") as caught:
        data = open_data(str(scenes / "m.csv"), size=8)
    assert not any("several classes" in str(one.message) for one in caught)
    assert [len(np.unique(domain.copies)) for domain in data] == [4, 4]


@pytest.mark.parametrize("box", ["1 2 3", "a b c d", "0 0 0 5", "-1 0 5 5", "nan 0 1 1", "0 0 inf 1"])
def test_what_is_no_box_is_a_sentence_with_its_line(scenes: Path, box: str) -> None:
    with pytest.raises(InputError, match=r"line 2: the box .* is not left, top, width and height"):
        find_source(str(manifest(scenes, [box, *[""] * 7])))


def test_a_box_outside_its_picture_is_a_file_that_cannot_be_read(scenes: Path) -> None:
    file = manifest(scenes, ["50 0 5 5", *[""] * 7])
    with pytest.raises(InputError, match="its box lies outside the picture of 40 x 20 pixels"):
        open_data(str(file), size=8)
    found = survey(find_source(str(file)))
    assert [look.problem for look in found.corrupt] == ["its box lies outside the picture of 40 x 20 pixels"]


def test_the_metadata_of_hugging_face_is_a_manifest(scenes: Path) -> None:
    ours = open_data(str(manifest(scenes, [""] * 8)), size=8)
    theirs = open_data(str(manifest(scenes, [""] * 8, "file_name,domain,label,box", "metadata.csv")), size=8)
    assert theirs.fingerprint == ours.fingerprint
    (scenes / "m.json").write_text('[{"file_name": "0.png", "domain": "a", "label": "c", "box": [0, 0, 8, 8]}]')
    (only,) = find_source(str(scenes / "m.json")).files
    assert (only.relative, only.box) == ("0.png", (0, 0, 8, 8))
