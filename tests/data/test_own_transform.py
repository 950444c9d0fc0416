"""A transform of the user's own is a part of a trial: in its id, exact when it goes on, and told of in sentences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_data import image_folder, stripes

import domainwise as dw
from domainwise.data.batches.own_transform import OwnTransform
from domainwise.experiment.results import trial_in

BATCHED = """
import torch

def build(size):
    def transform(images, generator):
        assert images.dtype == torch.float32
        bright = torch.rand(len(images), 1, 1, 1, generator=generator, device=images.device)
        return images[:, :, :size, :size] * bright
    return transform
"""
SINGLE = """
import random
import numpy as np
from torchvision.transforms import v2

class Shade:
    def __call__(self, image):
        return image.point(lambda value: int(value * random.random() * np.random.rand()))

def build(size):
    return v2.Compose([Shade(), v2.RandomHorizontalFlip(), v2.RandomResizedCrop(size)])
"""


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], str]:
    def write(code: str, name: str = "mine.py") -> str:
        (tmp_path / name).write_text(code, encoding="utf-8")
        return f"{tmp_path / name}:build"

    return write


class Killed(BaseException):
    pass


def fitted(tmp_path: Path, name: str, augment: str, **more: Any) -> dw.Model:
    settings = {"steps": 8, "evaluate_every": 4, "batch": 4, "device": "cpu", "progress": False, **more}
    return dw.fit(stripes(), "erm", augment=augment, output=tmp_path / name, **settings)


def weights(model: dw.Model) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.algorithm.net.parameters()])


@pytest.mark.parametrize("code", [BATCHED, SINGLE])
def test_the_same_seed_draws_the_same_images_and_the_world_draws_on_where_it_was(code: str, file: Any) -> None:
    transform = OwnTransform.load(file(code), 8)
    images = torch.randint(256, (5, 12, 12, 1), dtype=torch.uint8)
    torch.manual_seed(7)
    np.random.seed(7)
    first = transform(images, torch.Generator().manual_seed(3))
    drawn = torch.rand(3), np.random.rand(3)
    torch.manual_seed(7)
    np.random.seed(7)
    assert torch.equal(drawn[0], torch.rand(3))
    assert np.array_equal(drawn[1], np.random.rand(3))
    assert torch.equal(first, transform(images, torch.Generator().manual_seed(3)))
    assert not torch.equal(first, transform(images, torch.Generator().manual_seed(4)))
    assert first.shape == (5, 1, 8, 8)
    assert 0 <= first.min() < first.max() <= 1


def test_a_transform_that_changes_nothing_is_no_augmentation(tmp_path: Path, file: Any) -> None:
    same = file("def build(size):\n    return lambda images, generator: images")
    alone = file("def build(size):\n    return lambda image: image", "alone.py")
    plain = weights(fitted(tmp_path, "plain", "none"))
    assert torch.equal(weights(fitted(tmp_path, "batched", same)), plain)
    assert torch.equal(weights(fitted(tmp_path, "single", alone)), plain)


@pytest.mark.parametrize("code", [BATCHED, SINGLE])
def test_a_run_that_goes_on_draws_what_it_would_have_drawn(code: str, tmp_path: Path, file: Any) -> None:
    augment = file(code)
    whole = fitted(tmp_path, "whole", augment, validation="augmented", selection="last", checkpoint_every=3)

    def stop(_: Any, event: dict[str, Any]) -> None:
        if event.get("validation") is not None and event["step"] > 1:
            raise Killed

    again = {"validation": "augmented", "selection": "last", "checkpoint_every": 3}
    with pytest.raises(Killed):
        fitted(tmp_path, "parts", augment, watch=stop, **again)
    assert list((tmp_path / "parts").glob("checkpoint*"))
    assert torch.equal(weights(fitted(tmp_path, "parts", augment, **again)), weights(whole))


def test_the_file_is_in_the_id_by_its_content_and_its_folder_is_not_shared(tmp_path: Path, file: Any) -> None:
    augment = file(BATCHED)
    fitted(tmp_path, "one", augment)
    first = trial_in(tmp_path / "one")
    file(BATCHED + "\n# edited")
    fitted(tmp_path, "two", augment)
    other = trial_in(tmp_path / "two")
    assert first.augment == other.augment == "mine.py:build"
    assert first.augment_source != other.augment_source
    assert first.id != other.id
    assert str(tmp_path) not in (tmp_path / "one" / "trial.json").read_text()


def test_a_model_needs_the_transform_no_more_and_training_it_again_asks_for_trust(tmp_path: Path, file: Any) -> None:
    augment = file(BATCHED)
    settings = {"steps": 2, "batch": 4, "seeds": 1, "device": "cpu", "progress": False}
    results = dw.compare(stripes(), "erm", augment=augment, output=tmp_path / "results", **settings)
    results = dw.Results.open(tmp_path / "results", data=stripes())
    with pytest.raises(dw.InputError, match=r"the transform, mine\.py:build, .* trust_code=True"):
        dw.fit(results, output=tmp_path / "model", progress=False)
    dw.fit(results, output=tmp_path / "model", progress=False, trust_code=True)
    (tmp_path / "mine.py").unlink()
    images = stripes()["a"].images
    assert len(dw.load(tmp_path / "model").predict(images)) == len(images)


def test_the_command_line_takes_it_and_originals_reach_it_whole(
    domainwise: Callable[..., tuple[int, str, str]], tmp_path: Path, file: Any
) -> None:
    image_folder(tmp_path / "photos")
    own = file(
        "import sys\nfrom torchvision.transforms import v2\ndef build(size):\n    return v2.Resize((size, size))"
    )
    asked = ["--data", "photos", "--steps", "2", "--network", "small", "--size", "8", "--augment", own, "--quiet"]
    assert domainwise("fit", *asked, "--set", "train_size=original", "-o", "whole")[::2] == (0, "")
    code, _, said = domainwise("fit", *asked[:-2], "nothing.py:build", "-o", "other")
    assert code == 2
    assert "there is no file nothing.py" in said


REFUSED = {
    "another shape": ("return lambda images, generator: images[:, :, :4]", r"8 x 8 pixels .* returned \(2, 1, 4, 8\)"),
    "another type": ("return lambda images, generator: images.numpy()", "must return a tensor .* not a ndarray"),
    "whole numbers": ("return lambda images, generator: images.long()", r"not a tensor of torch\.int64"),
    "colours of grey": ("return lambda image: image.convert('RGB')", r"it returned \(2, 3, 8, 8\)"),
    "several sizes": (
        "import random\n    return lambda image: image.resize((random.randint(2, 99), 8))", "of one size, 8 x 8 pixels"
    ),
    "normalised": ("return lambda images, generator: images * 5 - 2", "must return values from 0 to 1, and these go"),
    "nothing": ("return lambda image: None", "an image of Pillow or a tensor .* not a NoneType"),
    "no transform": ("return size", r"mine\.py:build\(8\) must return a transform to call, and it returned a int"),
    "raises": ("def f(image):\n        1 / 0\n    return f", r"failed in line 3 of .*mine\.py: ZeroDivisionError"),
    "raises at once": ("open('missing.png')", r"failed in line 2 of .*mine\.py: FileNotFoundError"),
    "its own generator": (
        "import numpy as np\n    rng = np.random.default_rng()\n"
        "    return lambda images, generator: images * rng.random()", "draws other numbers when it is called again"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_trained_with_is_refused_before_it_is(case: str, tmp_path: Path, file: Any) -> None:
    body, sentence = REFUSED[case]
    with pytest.raises(dw.InputError, match=sentence):
        fitted(tmp_path, "model", file(f"def build(size):\n    {body}\n"))
    assert not (tmp_path / "model").exists()


def test_a_function_that_is_called_otherwise_is_a_sentence(tmp_path: Path, file: Any) -> None:
    with pytest.raises(dw.InputError, match=r"mine\.py:build failed: TypeError: build\(\) missing"):
        fitted(tmp_path, "model", file("def build(images, generator):\n    return images\n"))


def test_a_failure_in_the_middle_is_a_sentence_too(tmp_path: Path, file: Any) -> None:
    body = "calls = []\n    def f(images, generator):\n        calls.append(1)\n        assert len(calls) < 5, 'tired'"
    with pytest.raises(dw.InputError, match=r"mine\.py:build failed in line 5 of .*mine\.py: AssertionError: tired"):
        fitted(tmp_path, "model", file(f"def build(size):\n    {body}\n        return images\n    return f"))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"augment": "flop"}, r"augment must be one of none, flip, domainbed or FILE\.py:FUNCTION, got \"flop\""),
        ({"augment": "x.py:"}, r"named as FILE\.py:FUNCTION"),
        ({"augment": "x.py:build"}, r"there is no file x\.py"),
        ({"augment": "mine.py:f", "features": "frozen"}, "nothing can be augmented"),
    ],
)
def test_names_that_lead_nowhere_are_refused(settings: dict[str, str], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(dw.InputError, match=sentence):
        dw.fit(stripes(), "erm", output=tmp_path / "model", steps=2, **settings)
