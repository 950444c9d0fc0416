"""What augmentation draws, against torchvision; recipes, devices and mistakes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from made_photos import LEVELS, eight_photos, seeded, tensor
from PIL import Image
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from domainwise.data.batches.augment import IMAGENET_MEAN, IMAGENET_STD, augmentation
from domainwise.data.batches.pixels import HUE
from domainwise.errors import InputError
from domainwise.networks.torchvision_compat import torchvision_ready

torchvision_ready()
from torchvision import transforms as T  # noqa: E402

SIZES = [(227, 227), (500, 300), (300, 500), (1000, 200), (97, 130)]  # height, width


@pytest.fixture(scope="module")
def photos() -> list[Image.Image]:
    return eight_photos()


def distance(a: Tensor, b: Tensor) -> float:
    """Kolmogorov and Smirnov's: the largest difference between two cumulative distributions."""
    a, b = a.double().sort().values, b.double().sort().values
    at = torch.cat((a, b))
    shares = [torch.searchsorted(side, at, right=True) / len(side) for side in (a, b)]
    return float((shares[0] - shares[1]).abs().max())


@pytest.mark.parametrize("size", SIZES)
def test_boxes_are_distributed_as_torchvisions(size: tuple[int, int]) -> None:
    ours = LEVELS.parameters(20_000, size, seeded()).box.double()
    paper = Image.new("L", size[::-1])
    top, left, height, width = zip(
        *(T.RandomResizedCrop.get_params(paper, [0.7, 1.0], [3 / 4, 4 / 3]) for _ in range(2_000)), strict=True
    )
    theirs = torch.tensor([top, left, height, width]).T.double()

    def seen(box: Tensor) -> dict[str, Tensor]:
        top, left, height, width = box.unbind(1)
        room = [size[0] - height, size[1] - width]
        return {
            "top": top,
            "left": left,
            "height": height,
            "width": width,
            "area": height * width,
            "ratio": width / height,
            "place": (top / room[0].clamp(min=1)) + (left / room[1].clamp(min=1)),
        }

    apart = {name: distance(a, b) for (name, a), b in zip(seen(ours).items(), seen(theirs).values(), strict=True)}
    assert max(apart.values()) < 0.045, apart  # 2.2 / sqrt(1818) = 0.05 is reached once in ten thousand times


def test_a_box_of_given_area_and_ratio_has_torchvisions_whole_numbers() -> None:
    for area, ratio in zip(torch.linspace(0.05, 0.7, 40).tolist(), torch.linspace(0.76, 1.3, 40).tolist(), strict=True):
        theirs = T.RandomResizedCrop.get_params(Image.new("L", (123, 101)), [area, area], [ratio, ratio])
        ours = replace(LEVELS, area=(area, area), ratio=(ratio, ratio)).parameters(3, (101, 123), seeded()).box
        assert ours[:, 2:].tolist() == [list(theirs[2:])] * 3


def test_boxes_that_never_fit_are_torchvisions_central_crop() -> None:
    for size in [(1000, 200), (200, 1000), (3, 500), (1, 1), (7, 2)]:
        theirs = T.RandomResizedCrop.get_params(Image.new("L", size[::-1]), [1.5, 2.0], [3 / 4, 4 / 3])
        ours = replace(LEVELS, area=(1.5, 2.0)).parameters(4, size, seeded()).box
        assert ours.tolist() == [list(theirs)] * 4


def test_every_image_gets_a_box_inside_its_own_shape() -> None:
    shapes = torch.tensor(SIZES).repeat(1000, 1)
    top, left, height, width = LEVELS.parameters(len(shapes), shapes, seeded()).box.unbind(1)
    assert (torch.stack((top, left)) >= 0).all()
    assert (torch.stack((height, width)) > 0).all()
    assert (top + height <= shapes[:, 0]).all()
    assert (left + width <= shapes[:, 1]).all()
    area = (height * width).view(1000, -1).float().mean(0) / torch.tensor([h * w for h, w in SIZES])
    assert area[[0, 4]].min() > 0.8
    assert area[3] < 0.3  # 1000 x 200: nothing as large as 0.7 is as wide as 3:4


def test_flip_grey_and_jitter_have_domainbeds_rates_and_ranges() -> None:
    p = augmentation("domainbed").parameters(20_000, (227, 227), seeded())
    assert p.flip.float().mean().item() == pytest.approx(0.5, abs=0.015)
    assert p.grey.float().mean().item() == pytest.approx(0.1, abs=0.01)
    fair = torch.rand(20_000, generator=seeded(1))
    for k, middle in enumerate((1.0, 1.0, 1.0, 0.0)):
        drawn = p.factors[:, k]
        assert drawn.min() >= middle - 0.3
        assert drawn.max() <= middle + 0.3
        assert distance((drawn - middle + 0.3) / 0.6, fair) < 0.022


def test_all_orders_of_the_four_operations_are_equally_likely() -> None:
    order = LEVELS.parameters(24_000, (227, 227), seeded()).order
    counts = torch.unique((order * torch.tensor([64, 16, 4, 1])).sum(1), return_counts=True)[1]
    assert order.sort(1).values.unique(dim=0).tolist() == [[0, 1, 2, 3]]
    assert len(counts) == 24
    assert ((counts - 1000.0) ** 2 / 1000).sum() < 56  # chi-square, 23 degrees of freedom: one in ten thousand


def test_no_draw_depends_on_another() -> None:
    p = LEVELS.parameters(20_000, (1000, 1000), seeded())
    top, left, height, width = p.box.double().unbind(1)
    room = 1000 - torch.stack((height, width))
    place = torch.stack((top, left)) / room.clamp(min=1)
    area, ratio = (height * width)[None], (width / height)[None]
    rest = [p.flip[None], p.grey[None], p.factors.T, p.order[:, :3].T == HUE]
    related = torch.corrcoef(torch.cat([place, area, ratio, *(x.double() for x in rest)]))
    related[-3:, -3:] = 0  # hue is in one place only
    assert (related.fill_diagonal_(0).abs() < 0.03).all()


def test_the_same_generator_state_gives_the_same_images_and_nothing_else_is_drawn_from(
    photos: list[Image.Image],
) -> None:
    before = torch.get_rng_state()
    generator = seeded()
    state = generator.get_state()
    first, second = (LEVELS(tensor(photos), generator) for _ in range(2))
    generator.set_state(state)
    assert torch.equal(LEVELS(tensor(photos), generator), first)
    assert not torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), before)


def test_mean_and_deviation_of_training_input_are_those_of_torchvisions_pipeline(photos: list[Image.Image]) -> None:
    steps = [T.RandomResizedCrop(64, scale=(0.7, 1.0)), T.RandomHorizontalFlip(), T.ColorJitter(0.3, 0.3, 0.3, 0.3)]
    pipeline = T.Compose([*steps, T.RandomGrayscale(), T.ToTensor(), T.Normalize(IMAGENET_MEAN, IMAGENET_STD)])
    theirs = torch.stack([pipeline(photo) for photo in photos * 120])
    recipe, images, generator = augmentation("domainbed", out=64), tensor(photos), seeded()
    ours = torch.cat([recipe(images, generator) for _ in range(120)])
    assert ours.dtype == torch.float32
    for statistic in (Tensor.mean, Tensor.std):
        apart = statistic(ours, dim=(0, 2, 3)) - statistic(theirs, dim=(0, 2, 3))
        assert apart.abs().max() < 0.06  # about four standard errors


def test_none_is_evaluation_input_and_flip_its_mirror_image_half_of_the_time(photos: list[Image.Image]) -> None:
    images = tensor(photos)
    plain = augmentation("none").plain(images)
    mean, std = (torch.tensor(values)[:, None, None] for values in (IMAGENET_MEAN, IMAGENET_STD))
    at_size = tensor([photo.resize((224, 224)) for photo in photos])
    expected = (at_size.permute(0, 3, 1, 2) / 255 - mean) / std
    torch.testing.assert_close(augmentation("none").plain(at_size), expected)
    torch.testing.assert_close(augmentation("none")(images, seeded()), plain, atol=1e-4, rtol=0)
    flipped = augmentation("flip")(images, seeded())
    kept = [torch.allclose(a, b, atol=1e-4) for a, b in zip(flipped, plain, strict=True)]
    mirrored = [torch.allclose(a, b, atol=1e-4) for a, b in zip(flipped, plain.flip(3), strict=True)]
    assert [k ^ m for k, m in zip(kept, mirrored, strict=True)] == [True] * 8
    assert any(kept)
    assert any(mirrored)


def test_nothing_waits_for_the_device_or_depends_on_values_in_shape() -> None:
    with FakeTensorMode():  # tensors without values: whoever asks for one fails
        shapes = torch.full((4, 2), 300)
        with pytest.raises(Exception, match="_local_scalar_dense"):
            shapes[0, 0].item()
        made = LEVELS(torch.zeros(4, 50, 60, 3, dtype=torch.uint8), seeded(), shapes)
    assert made.shape == (4, 3, 224, 224)


def test_autocast_around_it_changes_nothing(photos: list[Image.Image]) -> None:
    images = tensor(photos[:2])
    with torch.autocast("cpu", torch.bfloat16):
        inside = LEVELS(images, seeded())
    assert torch.equal(inside, LEVELS(images, seeded()))


def test_what_is_compiled_of_it_can_be_found_again(photos: list[Image.Image]) -> None:
    """A compiler does not keep what switches autocast."""
    graphs: list[Any] = []

    def kept(graph: Any, _: Any) -> Any:
        graphs.append(graph.graph)
        return graph.forward

    images = tensor(photos[:2])
    params = LEVELS.parameters(2, tuple(images.shape[1:3]), seeded())
    torch.compiler.reset()
    with torch.autocast("cpu", torch.bfloat16):
        found = LEVELS.apply_with(torch.compile(LEVELS.pixels, backend=kept, dynamic=False), images, params)
    assert torch.equal(found, LEVELS.apply(images, params))
    assert len(graphs) == 1
    assert not [node for node in graphs[0].nodes if "autocast" in str(node.target)]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_a_captured_graph_augments_as_eager_code_does(photos: list[Image.Image]) -> None:
    images, graph = tensor(photos).cuda(), torch.cuda.CUDAGraph()
    generator = torch.Generator("cuda").manual_seed(0)
    LEVELS(images, generator)
    state = generator.get_state()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        made = LEVELS(images, generator)
    generator.set_state(state)
    graph.replay()
    first = made.clone()
    graph.replay()
    assert not torch.equal(first, made)
    generator.set_state(state)
    torch.testing.assert_close(first, LEVELS(images, generator), atol=0.05, rtol=0)


@pytest.mark.parametrize(
    ("mistake", "sentence"),
    [
        (lambda: augmentation("domainbad"), '"domainbad" is not an augmentation: did you mean domainbed?'),
        (lambda: augmentation("flip", out=-1), "1 pixel or more, got -1"),
        (lambda: augmentation("flip", out=0), "augment=.flip. is for images alone"),
        (lambda: LEVELS(torch.zeros(2, 8, 8, 3).int(), seeded()), "must be uint8, or floats .* got torch.int32"),
        (lambda: LEVELS.plain(torch.zeros(8, 8, 3, dtype=torch.uint8)), r"of shape \(N, H, W, C\)"),
        (lambda: augmentation("none").plain(torch.zeros(2, 8, 8, 1, dtype=torch.uint8)), "images of 1 channel"),
        (
            lambda: LEVELS.apply(torch.zeros(2, 8, 8, 3, dtype=torch.uint8), LEVELS.parameters(3, (8, 8), seeded())),
            "for 3 images, not for 2",
        ),
        (
            lambda: LEVELS.ragged([torch.zeros(8, 9, 3, dtype=torch.uint8)], LEVELS.parameters(1, (9, 8), seeded())),
            "for other images",
        ),
    ],
)
def test_mistakes_are_answered_with_a_sentence(mistake: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        mistake()
