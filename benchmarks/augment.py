"""How fast images are augmented, and what is lost where larger originals are stored in a smaller square.

On the CPU, torchvision's transforms of Pillow images and ours run in turn within one process; on a CUDA device, where
there is one, ours run as they are and as a captured graph; with --compile, compiled as well. The loss is the difference
between augmenting the original and augmenting the stored square with the same parameters, in levels of 0 to 255.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from domainwise.data.batches.augment import IMAGENET_MEAN, IMAGENET_STD, Augmentation, augmentation
from domainwise.networks.torchvision_compat import torchvision_ready

SIDE = 227  # of the stored images whose speed is measured: those of PACS
LEVELS = replace(augmentation("domainbed"), mean=(0.0,), std=(1 / 255,))


def tensor(image: Image.Image) -> Tensor:
    return torch.from_numpy(np.array(image))


def real_photographs() -> list[Image.Image]:
    """Three that come with scikit-learn and matplotlib: 640 x 427 twice, 512 x 600."""
    from matplotlib import get_data_path
    from sklearn.datasets import load_sample_images

    portrait = Image.open(Path(get_data_path()) / "sample_data" / "grace_hopper.jpg").convert("RGB")
    return [*map(Image.fromarray, load_sample_images().images), portrait]


def photographs(folder: Path | None, count: int) -> list[Image.Image]:
    paths = sorted(folder.rglob("*.jpg")) if folder else []
    if not paths:
        return real_photographs()
    return [Image.open(path).convert("RGB") for path in paths[:: max(1, len(paths) // count)][:count]]


def in_turn(*sides: Callable[[], object], repeats: int) -> list[float]:
    """Median seconds of each side, after a first run that does not count."""
    seconds: list[list[float]] = [[] for _ in sides]
    for repeat in range(repeats + 1):
        for side, taken in zip(sides, seconds, strict=True):
            start = time.perf_counter()
            side()
            if repeat:
                taken.append(time.perf_counter() - start)
    return [median(taken) for taken in seconds]


def on_cpu(photos: Sequence[Image.Image], batch: int, repeats: int, compiled: bool) -> None:
    torchvision_ready()
    from torchvision import transforms as T

    crop, flip = T.RandomResizedCrop(224, scale=(0.7, 1.0)), T.RandomHorizontalFlip()
    colour = [T.ColorJitter(0.3, 0.3, 0.3, 0.3), T.RandomGrayscale()]
    pipeline = T.Compose([crop, flip, *colour, T.ToTensor(), T.Normalize(IMAGENET_MEAN, IMAGENET_STD)])
    pictures = [photos[i % len(photos)].resize((SIDE, SIDE)) for i in range(batch)]
    images, recipe, generator = torch.stack([*map(tensor, pictures)]), augmentation("domainbed"), torch.Generator()
    ragged = [*images.unbind()]
    sides = {
        "torchvision, Pillow images one by one": lambda: torch.stack([pipeline(picture) for picture in pictures]),
        "ours, a batch": lambda: recipe(images, generator),
        "ours, ragged": lambda: recipe.ragged(ragged, recipe.parameters(batch, (SIDE, SIDE), generator)),
    }
    if compiled:
        apply = torch.compile(recipe.apply, fullgraph=True)
        sides["ours, a batch, compiled"] = lambda: apply(images, recipe.parameters(batch, (SIDE, SIDE), generator))
    seconds = in_turn(*sides.values(), repeats=repeats)
    for name, taken in zip(sides, seconds, strict=True):
        print(f"cpu   batch {batch:3}  {name:40}{batch / taken:10.0f} images/s {seconds[0] / taken:6.2f} x")


def on_cuda(batch: int, repeats: int, compiled: bool) -> None:
    images = torch.randint(256, (batch, SIDE, SIDE, 3), dtype=torch.uint8, device="cuda")
    recipe, generator = augmentation("domainbed"), torch.Generator("cuda")
    fixed = recipe.parameters(batch, (SIDE, SIDE), generator)
    sides = {
        "eager": lambda: recipe(images, generator),
        "eager, parameters only": lambda: recipe.parameters(batch, (SIDE, SIDE), generator),
        "captured": captured(lambda: recipe(images, generator), generator),
        "captured, pixels only": captured(lambda: recipe.apply(images, fixed), generator),
    }
    if compiled:
        apply = torch.compile(recipe.apply, fullgraph=True)
        both = captured(lambda: apply(images, recipe.parameters(batch, (SIDE, SIDE), generator)), generator)
        sides["compiled and captured"] = both
    for name, side in sides.items():
        taken = device_seconds(side, repeats)
        print(f"cuda  batch {batch:3}  {name:40}{batch / taken:10.0f} images/s {1e3 * taken:8.3f} ms")


def captured(side: Callable[[], object], generator: torch.Generator) -> Callable[[], object]:
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    for _ in range(3):
        side()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        side()
    return graph.replay


def device_seconds(side: Callable[[], object], repeats: int, inner: int = 20) -> float:
    def several() -> None:
        for _ in range(inner):
            side()
        torch.cuda.synchronize()

    return in_turn(several, repeats=repeats)[0] / inner


def stored_loss(originals: Sequence[Image.Image], stored: int, recipe: Augmentation, draws: int) -> tuple[float, float]:
    """Mean absolute difference, and the ratio of peak signal to noise in dB, over ``draws`` of every original."""
    generator, apart = torch.Generator().manual_seed(0), []
    for original in originals:
        shape = (original.height, original.width)
        square = tensor(original.resize((stored, stored), Image.Resampling.BILINEAR))
        params = recipe.parameters(draws, shape, generator)
        exact = recipe.ragged([tensor(original)] * draws, params)
        apart.append(recipe.apply(square.expand(draws, -1, -1, -1), params) - exact)
    error = torch.stack(apart)
    return error.abs().mean().item(), 10 * (255**2 / error.square().mean()).log10().item()


def losses(folder: Path | None, count: int) -> None:
    crop = replace(LEVELS, jitter=(0.0, 0.0, 0.0, 0.0), grey=0.0)
    kinds = {"real, 640 x 427 and 512 x 600": real_photographs()}
    if folder:
        for size in [(500, 375), (375, 500), (640, 480), (1024, 768)]:
            larger = [photo.resize(size, Image.Resampling.LANCZOS) for photo in photographs(folder, count)]
            kinds[f"enlarged to {size[0]} x {size[1]}"] = larger
    for name, originals in kinds.items():
        for stored in (224, 256, 320, 384):
            cropped, whole = (stored_loss(originals, stored, recipe, draws=8) for recipe in (crop, LEVELS))
            print(
                f"{name:32} stored as {stored}: crop and flip {cropped[0]:5.2f} levels {cropped[1]:5.1f} dB, "
                f"the whole recipe {whole[0]:5.2f} levels {whole[1]:5.1f} dB"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos", type=Path, help="folder of .jpg files to use beside the built-in photographs")
    parser.add_argument("--count", type=int, default=16, help="of photographs from the folder")
    parser.add_argument("--repeats", type=int, default=10, help="of each measurement of time")
    parser.add_argument("--threads", type=int, default=1, help="threads torch may use")
    parser.add_argument("--compile", action="store_true", help="measure compiled code too")
    parser.add_argument("--skip-losses", action="store_true", help="measure speed only")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    on_cpu(photographs(options.photos, options.count), 32, options.repeats, options.compile)
    if torch.cuda.is_available():
        for batch in (32, 96):
            on_cuda(batch, options.repeats, options.compile)
    if not options.skip_losses:
        losses(options.photos, options.count)


if __name__ == "__main__":
    main()
