"""Turn images into training and evaluation input: crop, flip, jitter, normalise; batched, on any device.

``parameters`` draws all that is random, ``apply`` computes pixels and draws nothing. Neither loops over images, waits
for the device or makes a tensor whose shape depends on the data, so that both can be captured in a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache

import torch
from torch import Tensor

from domainwise.data.batches.pixels import Range, crop, grey, jitter, random_boxes, resize, whole_boxes
from domainwise.errors import InputError, closest
from domainwise.networks.samples import Samples

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
TRIES = 10  # to draw a crop that fits into the image
DRAWS = (4 * TRIES, 1, 4, 4, 1)  # uniform numbers per image: box, flip, factors, order, grey


@dataclass(frozen=True)
class Params:
    """All that is drawn for each of N images."""

    shape: Tensor  # (N, 2): the original height and width, in whose pixels the box is
    box: Tensor  # (N, 4): top, left, height, width
    flip: Tensor  # (N,) bool
    factors: Tensor  # (N, 4): brightness, contrast, saturation, hue
    order: Tensor  # (N, 4): in which these are applied
    grey: Tensor  # (N,) bool

    def __len__(self) -> int:
        return len(self.box)

    def to(self, device: torch.device) -> Params:
        """Return a copy on a device, sent at once and not waited for: small whole numbers and factors fit one table."""
        own = [getattr(self, field.name) for field in fields(self)]
        if device.type == self.box.device.type:
            return self
        columns = [tensor.view(len(self), -1).float() for tensor in own]
        table = torch.cat(columns, 1).pin_memory().to(device, non_blocking=True)
        pieces = torch.split(table, [column.shape[1] for column in columns], 1)
        return Params(*(piece.view(old.shape).to(old.dtype) for piece, old in zip(pieces, own, strict=True)))


Pixels = Callable[[Tensor, Params], Tensor]


@dataclass(frozen=True)
class Augmentation:
    """A recipe: called with images (N, H, W, C) and a generator, it returns floats (N, C, out, out).

    Images are uint8, or floats from 0 to 1. A recipe with ``out=0`` scales the columns of tables (N, d) and the
    channels of signals (N, C, T). The defaults are DomainBed's; :func:`augmentation` returns others by name.

    Args:
        area: of the crop as a part of the image, from and to; None takes the whole image.
        ratio: of the crop's width to its height, from and to, drawn uniformly in its logarithm.
        flip: how often an image is mirrored.
        jitter: how far brightness, contrast and saturation go from 1, and hue from 0 (0.5 is half the colour circle).
        grey: how often an image loses its colour.
        mean, std: subtracted and divided by in the end, on a scale from 0 to 1; one per channel, or one for all. Of a
            table those of each column.
    """

    out: int = 224
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD
    area: Range | None = (0.7, 1.0)
    ratio: Range = (3 / 4, 4 / 3)
    flip: float = 0.5
    jitter: tuple[float, float, float, float] = (0.3, 0.3, 0.3, 0.3)
    grey: float = 0.1

    def __post_init__(self) -> None:
        if self.out < 0:
            raise InputError(f"the size of the images must be 1 pixel or more, got {self.out}")

    def __call__(self, images: Tensor, generator: torch.Generator, shapes: Tensor | None = None) -> Tensor:
        """Augment images; ``shapes`` (N, 2) are the original heights and widths, if they were resized to be stored."""
        _require_images(images)
        original = (images.shape[1], images.shape[2]) if shapes is None else shapes
        return self.apply(images, self.parameters(len(images), original, generator))

    def parameters(self, n: int, shapes: Tensor | tuple[int, int], generator: torch.Generator) -> Params:
        """Draw parameters for ``n`` images of original height and width ``shapes``: (n, 2), or one pair for all.

        They are drawn and stay where the generator is; ``apply`` takes them to the images. Inside a CUDA graph the
        generator must be the device's, and registered with the graph. One on the host draws the same numbers whatever
        the device. ``shapes`` should be where the generator is: fetching them from a device waits for it.
        """
        device = generator.device
        uniform = torch.rand(n, sum(DRAWS), generator=generator, device=device)
        crops, flip, factors, order, colourless = uniform.split_with_sizes(DRAWS, 1)
        shape = (shapes.to(device) if isinstance(shapes, Tensor) else _row(shapes, device).expand(n, 2)).long()
        tries = crops.view(n, TRIES, 4)
        return Params(
            shape=shape,
            box=whole_boxes(shape) if self.area is None else random_boxes(tries, shape, self.area, self.ratio),
            flip=flip[:, 0] < self.flip,
            factors=_row((1, 1, 1, 0), device) + _row(self.jitter, device) * (2 * factors - 1),
            order=order.argsort(1),
            grey=colourless[:, 0] < self.grey,
        )

    def apply(self, images: Tensor, params: Params) -> Tensor:
        """Augment images by parameters that were drawn for them."""
        _require_images(images)
        if len(images) != len(params):
            raise InputError(f"the parameters were drawn for {len(params)} images, not for {len(images)}")
        return self.apply_with(self.pixels, images, params)

    def apply_with(self, pixels: Pixels, images: Tensor, params: Params) -> Tensor:
        """Augment images by :attr:`pixels`, or by what a compiler made of it.

        Autocast is switched off out here: inside, the next process would not find the compiled code again.
        """
        with torch.autocast(images.device.type, enabled=False):  # it would round the products to 16 bits
            return pixels(images, params.to(images.device))

    def pixels(self, images: Tensor, params: Params) -> Tensor:
        """Compute the augmented pixels: the part of :meth:`apply` that can be compiled."""
        stored = _row((images.shape[1], images.shape[2]), images.device)
        box = params.box * stored.repeat(1, 2) / params.shape.repeat(1, 2)  # in this order whole numbers stay whole
        return self._finish(crop(images, box, params.flip, self.out), params)

    def ragged(self, images: Sequence[Tensor], params: Params) -> Tensor:
        """Augment originals (h, w, C) of different sizes, cropped one by one: not for a CUDA graph."""
        if [[*image.shape[:2]] for image in images] != params.shape.tolist():
            raise InputError("the parameters were drawn for other images: their number and shapes differ")
        x = torch.cat([_cut(image, box, self.out) for image, box in zip(images, params.box.tolist(), strict=True)])
        params = params.to(x.device)
        return self._finish(torch.where(params.flip[:, None, None, None], x.flip(3), x), params)

    def plain(self, images: Samples) -> Samples:
        """Return evaluation input: resized unless of the right size already, and normalised; dicts as they are."""
        if isinstance(images, Mapping):
            return images
        if not self.out:
            return self.normalise(images)
        _require_images(images)
        return self.normalise(resize(images, self.out))

    def _finish(self, x: Tensor, params: Params) -> Tensor:
        if x.shape[1] in (1, 3):  # other channels are no colours
            if any(self.jitter):
                x = jitter(x, params.factors, params.order)
            if self.grey:
                x = torch.where(params.grey[:, None, None, None], grey(x), x)
        return self.normalise(x)

    def normalise(self, x: Tensor) -> Tensor:
        """Subtract the mean and divide by the deviation."""
        if not {len(self.mean), len(self.std)} <= {1, x.shape[1]}:
            raise InputError(
                f"images of {x.shape[1]} channel(s) cannot be normalised with mean {self.mean} and std {self.std}: "
                "give one number per channel, or one for all"
            )
        if x.ndim < 4:  # (N, d) or (N, C, T): a number for each column, or each channel
            mean, std = (_columns(values, x.device) for values in (self.mean, self.std))
            return (x - mean) / std if x.ndim == 2 else (x - mean[:, None]) / std[:, None]
        mean, std = (_row(values, x.device)[..., None, None] for values in (self.mean, self.std))
        return torch.addcmul(-mean / std, x, 1 / std)


RECIPES = {
    "domainbed": Augmentation(),
    "flip": Augmentation(area=None, jitter=(0, 0, 0, 0), grey=0),
    "none": Augmentation(area=None, jitter=(0, 0, 0, 0), grey=0, flip=0),
}


def augmentation(
    name: str, out: int = 224, mean: Sequence[float] = IMAGENET_MEAN, std: Sequence[float] = IMAGENET_STD
) -> Augmentation:
    """Return an augmentation by name, for images of ``out`` pixels and a network with this mean and std; others: 0."""
    if name not in RECIPES:
        raise InputError(f'"{name}" is not an augmentation: {closest(name, RECIPES)}')
    if not out and name != "none":
        raise InputError(f'augment="{name}" is for images alone: use augment="none"')
    return replace(RECIPES[name], out=out, mean=tuple(mean), std=tuple(std))


@lru_cache(maxsize=16)
def _columns(values: tuple[float, ...], device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=torch.float32, device=device)


def _row(values: Sequence[float], device: torch.device) -> Tensor:
    """(1, len): filled in place, because a copy from the host cannot be captured in a CUDA graph."""
    return torch.cat([torch.full((1, 1), float(value), device=device) for value in values], 1)


def _cut(image: Tensor, box: Sequence[int], out: int) -> Tensor:
    _require_images(image[None])
    top, left, height, width = box
    return resize(image[None, top : top + height, left : left + width], out)


def _require_images(images: Tensor) -> None:
    if images.dtype not in (torch.uint8, torch.float32) or images.ndim != 4:
        raise InputError(
            f"images must be uint8, or floats from 0 to 1, of shape (N, H, W, C), got {images.dtype} of "
            f"{tuple(images.shape)}"
        )
