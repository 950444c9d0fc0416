"""Let a function of the user's own augment training images, so that a run that goes on draws the same numbers."""

from __future__ import annotations

import inspect
import random
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor, nn

from domainwise.errors import InputError
from domainwise.networks.torchvision_compat import torchvision_ready
from domainwise.user_files import OWN, function_of, name_of, source_of

BATCHED = "generator"  # the argument by which a transform says that it takes whole batches
MODES = {1: "L", 3: "RGB"}  # of Pillow's images, by their channels
SEEDS = 2**31


@dataclass(frozen=True)
class OwnTransform:
    """Augment images by what ``FILE.py:FUNCTION`` returned; called with images and a generator, it returns floats.

    A transform that takes a ``generator`` sees a batch on its device, any other one each image on the host. While it
    runs torch, numpy and Python draw from the trial's own generator, so that what it draws can be drawn again.
    """

    name: str  # as sentences have it
    file: Path
    size: int  # of the squares to return
    function: Callable[..., Any]

    @classmethod
    def load(cls, written: str, size: int, source: str = "") -> OwnTransform:
        """Call the user's function with the size, and take the transform that it returns."""
        own = OWN.fullmatch(written)
        if own is None:
            raise InputError(f'a transform of your own is named as FILE.py:FUNCTION, got "{written}"')
        torchvision_ready()  # which many transforms are made with
        make, name, file = function_of(own, source), name_of(own), Path(own["file"])
        with sentences(name, file):
            function: Any = make(size)
        if not callable(function):
            raise InputError(f"{name}({size}) must return a transform to call, and it returned {_kind(function)}")
        return cls(name, file, size, function)

    @property
    def batched(self) -> bool:
        """Whether it takes whole batches."""
        called = self.function.forward if isinstance(self.function, nn.Module) else self.function
        try:
            return BATCHED in inspect.signature(called).parameters
        except (TypeError, ValueError):  # of a builtin
            return False

    def __call__(self, images: Tensor | Sequence[Tensor], generator: torch.Generator) -> Tensor:
        """Return (N, C, size, size), floats from 0 to 1; ``images`` are (N, H, W, C), or several (h, w, C)."""
        device, channels = images[0].device, images[0].shape[-1]
        if self.batched:
            found = self._of_batch(images, generator)
        else:
            drawn = torch.randint(SEEDS, (len(images),), generator=generator, device=generator.device).tolist()
            on_host = images.cpu() if isinstance(images, Tensor) else images
            with seeded(0, torch.device("cpu")):
                each = [self._of_image(image, seed) for image, seed in zip(on_host, drawn, strict=True)]
            if len({one.shape for one in each}) > 1:
                raise InputError(f"{self.name} must return images of one size, {self._square}, and returned several")
            found = torch.stack(each).to(device)
        wanted = (len(images), channels, self.size, self.size)
        if found.shape != wanted:
            raise InputError(
                f"{self.name} must return {self._square} with {channels} channels for images of as many: "
                f"{wanted} in all, and it returned {tuple(found.shape)}"
            )
        return found

    @property
    def _square(self) -> str:
        return f"{self.size} x {self.size} pixels"

    def _of_batch(self, images: Tensor | Sequence[Tensor], generator: torch.Generator) -> Tensor:
        if not isinstance(images, Tensor):
            raise InputError(
                f"{self.name} takes whole batches, and these images differ in size: give a train_size in pixels, or "
                f"write a transform of single images, without an argument {BATCHED}"
            )
        seed = int(torch.randint(SEEDS, (), generator=generator, device=generator.device))
        own = torch.Generator(images.device).manual_seed(seed)
        with seeded(seed, images.device), sentences(self.name, self.file):
            found = self.function(_as_floats(images.movedim(3, 1)), generator=own)
        return self._floats(found)

    def _of_image(self, image: Tensor, seed: int) -> Tensor:
        if image.dtype != torch.uint8 or image.shape[-1] not in MODES:
            raise InputError(
                f"{self.name} takes single images, which are Pillow's, and these have {image.shape[-1]} channels of "
                f"{image.dtype}: write a transform of whole batches, with an argument {BATCHED}"
            )
        array = image.numpy()
        picture = Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array, MODES[array.shape[-1]])
        _seed(seed)
        with sentences(self.name, self.file):
            found = self.function(picture)
        if isinstance(found, Image.Image):
            pixels = torch.from_numpy(np.array(found))
            found = pixels[None] if pixels.ndim == 2 else pixels.movedim(2, 0)
        return self._floats(found)

    def _floats(self, found: object) -> Tensor:
        if not isinstance(found, Tensor) or not (found.dtype == torch.uint8 or found.is_floating_point()):
            expected = "a tensor" if self.batched else "an image of Pillow or a tensor"
            raise InputError(f"{self.name} must return {expected} of floats from 0 to 1, or uint8, not {_kind(found)}")
        return _as_floats(found)


def described(augment: str, size: int, images: npt.NDArray[Any]) -> dict[str, str]:
    """Return what a trial says of its augmentation; one of the user's own is tried on two images of noise first."""
    if ":" not in augment:
        return {"augment": augment}
    transform = OwnTransform.load(augment, size)
    noise = torch.rand((2, *images.shape[1:]), generator=torch.Generator().manual_seed(0))
    tried = (noise * 255).to(torch.uint8) if images.dtype == np.uint8 else noise
    first, again = (transform(tried, torch.Generator().manual_seed(0)) for _ in range(2))
    if not bool(((first >= -1e-3) & (first <= 1 + 1e-3)).all()):
        raise InputError(
            f"{transform.name} must return values from 0 to 1, and these go from {first.min():.3g} to "
            f"{first.max():.3g}: leave normalising to the network's own mean and deviation, which comes after it"
        )
    if not torch.equal(first, again):
        raise InputError(
            f"{transform.name} draws other numbers when it is called again with the same seed, so that no run could be "
            f"repeated: draw from its argument {BATCHED}, or by torch, random and numpy.random themselves, not from a "
            "generator of its own"
        )
    path = transform.file.absolute()
    return {"augment": transform.name, "augment_source": source_of(path), "augment_file": str(path)}


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Let torch, numpy and Python draw from a seed; afterwards they go on where they were."""
    python, legacy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        _seed(seed)
        if device.type == "cuda":
            torch.cuda.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(legacy)


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)  # torch.manual_seed would also seed every GPU


@contextmanager
def sentences(name: str, file: Path) -> Iterator[None]:
    """Say in a sentence where the user's code failed; what the machine lacks is not its fault."""
    try:
        yield
    except (InputError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
        where = f" in line {lines[-1]} of {file}" if lines else ""
        raise InputError(f"{name} failed{where}: {type(error).__name__}: {error}") from error


def _as_floats(images: Tensor) -> Tensor:
    floats = images.to(torch.float32, memory_format=torch.contiguous_format)
    return floats / 255 if images.dtype == torch.uint8 else floats


def _kind(found: object) -> str:
    return f"a tensor of {found.dtype}" if isinstance(found, Tensor) else f"a {type(found).__name__}"
