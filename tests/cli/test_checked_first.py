"""What is cheap is checked before anything is decoded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made_folders import draw, made
from made_weights import offline_hub
from PIL import Image

from domainwise.data.decoded import decode_all

SLIPS = [
    (["--network", "resnet5O"], 'there is no network "resnet5O": did you mean resnet50'),
    (["--network", "resnet18", "--weights", "gone.pth"], "there is no weight file gone.pth"),
    (["--network", "resnet18"], "the pretrained weights of resnet18 could not be downloaded"),
    (["--network", "gone.py:build"], "gone.py"),
    (["--device", "cuda:77"], '"cuda:77" is not here'),
    (["--average", "swat"], "swad"),
]


@pytest.mark.parametrize(
    ("command", "options", "sentence"),
    [
        *(("compare", ["--algorithms", "erm", *slip], sentence) for slip, sentence in SLIPS),
        *(("fit", slip, sentence) for slip, sentence in SLIPS),
        ("compare", ["--algorithms", "arit"], "did you mean arith"),
        ("fit", ["--algorithm", "arit"], "did you mean arith"),
        ("compare", ["--algorithms", "erm", "--targets", "c"], '"c" is not a domain'),
    ],
)
def test_a_slip_is_told_before_anything_is_decoded(
    command: str, options: list[str], sentence: str, domainwise, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offline_hub(tmp_path / "hub", monkeypatch)
    monkeypatch.setattr(decode_all, "read_rgb", lambda content: pytest.fail("decoded"))
    code, _, said = domainwise(command, "--data", made(tmp_path), *options)
    assert code == 2
    assert sentence in said


def test_a_dry_run_decodes_nothing_and_names_the_trials_that_are_run(
    domainwise, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = made(tmp_path)
    for domain in ("a", "b"):
        for kind, pixel in (("cat", 0), ("dog", 9)):
            for i in range(4):
                draw(root / domain / kind / f"more{i}.png", (i, pixel, 7 * (domain == "b")))
        draw(root / domain / "cat" / "copy.png", (0, 0, 7 * (domain == "b")))
    deep = Image.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8) * 40)  # 12 bits in a file of 16
    deep.save(root / "a" / "cat" / "deep.png")
    compare = ["compare", "--data", root, "--algorithms", "erm", "--seeds", 1, "--steps", 2, "-o", "out"]
    with monkeypatch.context() as patch:
        patch.setattr(decode_all, "read_rgb", lambda content: pytest.fail("decoded"))
        _, listed, _ = domainwise(*compare, "--dry-run")
    assert not (tmp_path / "out").exists()
    assert domainwise(*compare)[0] == 0
    assert {line.split()[0] for line in listed.splitlines()[:-1]} == {
        home.name for home in (tmp_path / "out" / "trials").iterdir()
    }
