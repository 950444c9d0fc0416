"""The pixels of augmentation for given parameters, against torchvision and Pillow, which work image by image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch
from made_photos import CROP, LEVELS, eight_photos, levels, seeded, tensor
from PIL import Image
from torch import Tensor

from domainwise.data.batches.augment import Params
from domainwise.data.batches.pixels import CONTRAST, HUE, grey, hue, jitter
from domainwise.networks.torchvision_compat import torchvision_ready

torchvision_ready()
from torchvision.transforms import functional as TF  # noqa: E402

OPERATIONS = (TF.adjust_brightness, TF.adjust_contrast, TF.adjust_saturation, TF.adjust_hue)


@pytest.fixture(scope="module")
def photos() -> list[Image.Image]:
    return eight_photos()


def colours() -> Tensor:
    """Floats (1, 3, 15, 25): all mixtures of five levels per channel, so greys, primaries, black and white; thrice."""
    level = torch.linspace(0, 1, 5)
    return torch.cartesian_prod(level, level, level).T.reshape(1, 3, 5, 25).repeat(1, 1, 3, 1)


def cropped(images: Sequence[Image.Image], params: Params, out: int = 224) -> list[Image.Image]:
    """What torchvision makes of the same boxes and flips."""
    boxes, flips = params.box.tolist(), params.flip.tolist()
    made = [TF.resized_crop(image, *box, [out, out]) for image, box in zip(images, boxes, strict=True)]
    return [TF.hflip(image) if flip else image for image, flip in zip(made, flips, strict=True)]


def coloured(images: Sequence[Image.Image], params: Params) -> list[Image.Image]:
    made = []
    for image, factors, order, colourless in zip(images, params.factors, params.order, params.grey, strict=True):
        for k in order.tolist():
            image = OPERATIONS[k](image, factors[k].item())
        made.append(TF.rgb_to_grayscale(image, 3) if colourless else image)
    return made


@pytest.mark.parametrize("out", [224, 50])
def test_crop_resize_and_flip_are_pillows_before_it_rounds(photos: list[Image.Image], out: int) -> None:
    recipe = replace(CROP, out=out)
    params = recipe.parameters(len(photos), (227, 227), seeded())
    assert 0 < params.flip.sum() < len(photos)
    apart = recipe.apply(tensor(photos), params) - levels(cropped(photos, params, out))
    assert apart.abs().max() <= 1.01  # Pillow rounds twice
    assert apart.abs().mean() < 0.35


@pytest.mark.parametrize("size", [(100, 150), (224, 224), (320, 240), (224, 300)])
def test_evaluation_images_are_pillows_bilinear_resize(photos: list[Image.Image], size: tuple[int, int]) -> None:
    originals = [photo.resize(size) for photo in photos]
    theirs = levels([image.resize((224, 224), Image.Resampling.BILINEAR) for image in originals])
    apart = (LEVELS.plain(tensor(originals)) - theirs).abs().max()
    assert apart <= (1e-3 if size == (224, 224) else 1.01)


def test_each_colour_operation_is_pillows_before_it_truncates(photos: list[Image.Image]) -> None:
    x = levels(photos) / 255
    for k, operation in enumerate(OPERATIONS):
        for factor in (0.7, 0.95, 1.3) if k < HUE else (-0.3, 0.04, 0.3):
            alone = torch.tensor([1.0, 1.0, 1.0, 0.0]).repeat(len(x), 1)
            alone[:, k] = factor
            ours = 255 * jitter(x, alone, torch.arange(4).expand(len(x), 4))
            apart = ours - levels([operation(photo, factor) for photo in photos])
            # Pillow drops the fraction of the first three, and keeps hue and saturation in 8 bits
            assert apart.abs().max() < (1.1 if k < HUE else 16), operation
            assert apart.abs().mean() < (0.55 if k < HUE else 1.0), operation


def test_hue_of_greys_primaries_and_mixtures_is_torchvisions() -> None:
    for turn in (-0.5, -0.3, -0.01, 0.0, 0.1, 1 / 3, 0.5):
        ours = hue(colours(), torch.tensor([turn]))
        torch.testing.assert_close(ours, TF.adjust_hue(colours(), turn), atol=1e-5, rtol=0)
    greys = colours()[:, :1].expand(1, 3, -1, -1)
    assert torch.equal(hue(greys, torch.tensor([0.2])), greys)


def test_every_order_of_the_operations_is_that_of_torchvisions_functions_in_turn() -> None:
    orders = torch.tensor(list(permutations(range(4))))
    factors = LEVELS.parameters(24, (15, 25), seeded()).factors
    x = colours().expand(24, -1, -1, -1)
    for ours, order, factor in zip(jitter(x, factors, orders), orders, factors, strict=True):
        theirs = colours()
        for k in order.tolist():
            theirs = OPERATIONS[k](theirs, factor[k].item())
        torch.testing.assert_close(ours, theirs[0], atol=1e-3, rtol=0)  # its weight of red is 0.2989, not 0.299


def test_the_whole_recipe_is_torchvisions_but_for_what_8_bits_lose(photos: list[Image.Image]) -> None:
    apart = []
    for seed in range(4):
        params = replace(LEVELS, grey=0.3).parameters(len(photos), (227, 227), seeded(seed))
        apart.append(LEVELS.apply(tensor(photos), params) - levels(coloured(cropped(photos, params), params)))
    error = torch.stack(apart)
    assert 0.5 < error.mean() < 2  # each of Pillow's three blends loses half a level
    assert error.abs().mean() < 2
    assert error.abs().flatten()[::7].quantile(0.99) < 6
    assert error.abs().max() < 32


def test_a_box_is_mapped_from_the_original_shape_to_the_stored_square() -> None:
    down, across = torch.meshgrid(torch.linspace(0, 255, 500), torch.linspace(0, 255, 300), indexing="ij")
    original = torch.stack((down, across, (down + across) / 2), 2).round().to(torch.uint8)
    stored = tensor([Image.fromarray(original.numpy()).resize((256, 256), Image.Resampling.BILINEAR)] * 16)
    params = CROP.parameters(16, (500, 300), seeded())
    exact = CROP.ragged([original] * 16, params)
    assert (CROP.apply(stored, params) - exact).abs().max() < 2.5


def test_a_box_thinner_than_a_stored_pixel_still_shows_something() -> None:
    params = CROP.parameters(3, (10, 9000), seeded())
    image = torch.randint(256, (3, 64, 64, 3), dtype=torch.uint8)
    assert params.box[:, 3].max() * 64 / 9000 < 1
    assert CROP.apply(image, params).isfinite().all()


def test_originals_of_different_sizes_give_the_batch_that_each_gives_alone(photos: list[Image.Image]) -> None:
    sizes = [(227, 227), (300, 400), (500, 375), (120, 90), (227, 227), (64, 640), (250, 250), (240, 320)]
    originals = [tensor([photo.resize(size[::-1])])[0] for photo, size in zip(photos, sizes, strict=True)]
    params = LEVELS.parameters(8, torch.tensor(sizes), seeded())
    together = LEVELS.ragged(originals, params)
    assert together.shape == (8, 3, 224, 224)
    for i, original in enumerate(originals):
        mine = Params(*(value[i : i + 1] for value in vars(params).values()))
        torch.testing.assert_close(together[i : i + 1], LEVELS.apply(original[None], mine), atol=0.05, rtol=0)


def test_an_image_depends_on_no_other_and_on_nothing_outside_its_box(photos: list[Image.Image]) -> None:
    images, generator = tensor(photos), seeded()
    params = LEVELS.parameters(8, (227, 227), generator)
    whole = LEVELS.apply(images, params)
    changed = images.clone()
    changed[3] = 255 - changed[3]
    top, left, height, width = params.box[5].tolist()
    inside = torch.zeros(227, 227, dtype=torch.bool)
    inside[top : top + height, left : left + width] = True
    assert not inside.all()
    changed[5][~inside] = 0
    again = LEVELS.apply(changed, params)
    assert [torch.equal(a, b) for a, b in zip(again, whole, strict=True)] == [i != 3 for i in range(8)]
    alone = Params(*(value[:1] for value in vars(params).values()))
    torch.testing.assert_close(LEVELS.apply(images[:1], alone), whole[:1], atol=1e-2, rtol=0)


def test_grey_images_change_in_brightness_and_contrast_only() -> None:
    images = torch.randint(256, (24, 28, 28, 1), dtype=torch.uint8)
    one = replace(LEVELS, out=28, area=None, flip=0.0)
    params = replace(one.parameters(24, (28, 28), seeded()), order=torch.tensor(list(permutations(range(4)))))
    made = one.apply(images, params)
    assert made.shape == (24, 1, 28, 28)
    for ours, image, order, factor in zip(made, images, params.order, params.factors, strict=True):
        theirs = image.permute(2, 0, 1).float() / 255
        for k in order.tolist():
            theirs = OPERATIONS[k](theirs, factor[k].item()) if k <= CONTRAST else theirs
        torch.testing.assert_close(ours, 255 * theirs, atol=1e-2, rtol=0)


def test_channels_that_are_no_colours_are_cropped_and_left_alone() -> None:
    images = torch.randint(256, (6, 40, 40, 4), dtype=torch.uint8)
    params = LEVELS.parameters(6, (40, 40), seeded())
    made = LEVELS.apply(images, params)
    torch.testing.assert_close(made[:, :3], CROP.apply(images[..., :3], params), atol=1e-3, rtol=0)


def test_luminance_is_pillows() -> None:
    image = Image.fromarray((255 * colours()[0]).permute(1, 2, 0).to(torch.uint8).numpy())
    apart = 255 * grey(levels([image]) / 255)[0, 0] - torch.from_numpy(
        np.asarray(image.convert("L")).astype(np.float32)
    )
    assert apart.abs().max() <= 0.51
