"""Read image files of any kind as RGB pixels, many at a time in threads."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from domainwise.data.domains import Images
from domainwise.machine import cores

SUFFIXES = (".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
# What a file with such a name may really hold. Not all that Pillow knows: some of its readers start other programs.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")
ORIENTATION = 0x0112

X = TypeVar("X")
Y = TypeVar("Y")


class ImageError(Exception):
    """A file cannot be used as an image, for the reason that is the message."""


def image_bytes(path: str) -> bytes:
    """Return the content of an image file; raise :class:`ImageError` where it cannot be read."""
    try:
        file = Path(path)
        if not file.is_file():  # reading a pipe would wait for ever
            raise ImageError("it is not a regular file, or a link to none")
        return file.read_bytes()
    except OSError as error:
        raise ImageError(error.strerror or str(error)) from error


def read_rgb(content: bytes) -> tuple[Image.Image, str]:
    """Return an image in RGB, and the mode it was stored in.

    Upright as the EXIF orientation says, the first frame of an animation, transparent pixels over white, 16-bit grey
    scaled to 8 bits.
    """
    try:
        with Image.open(BytesIO(content), formats=FORMATS) as image:
            image.load()
            turned = image.getexif().get(ORIENTATION, 1) != 1
            return _rgb(ImageOps.exif_transpose(image) if turned else image), image.mode
    except Exception as error:  # a damaged file makes Pillow raise almost anything: OSError, SyntaxError, struct.error
        raise ImageError(_reason(content, error)) from error


def resized(image: Image.Image, shape: tuple[int, int]) -> Images:
    """Return pixels (height, width, 3): as they are if the shape is right, otherwise from one antialiased resize.

    The resize does not keep the aspect ratio, as in the published protocol.
    """
    height, width = shape
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(image)


def image_shape(path: str) -> tuple[int, int] | None:
    """Return height and width of the upright image, from the head of the file alone; None where it cannot be read."""
    try:
        if not Path(path).is_file():
            return None
        with Image.open(path, formats=FORMATS) as image:
            width, height = image.size
            if width != height and image.getexif().get(ORIENTATION, 1) in (5, 6, 7, 8):
                return width, height
            return height, width
    except Exception:  # it is read again in full, and then the reason is told
        return None


@contextmanager
def pillow_warnings() -> Iterator[None]:
    """Make a suspiciously large image an error, and ignore oddities in metadata, while images are read.

    Set once from outside, because the warning filters belong to the whole process and decoding runs in threads.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def in_threads(work: Callable[[X], Y], items: Iterable[X]) -> Generator[Y, None, None]:
    """Yield results in order, computed in threads that are never far ahead; close the generator to stop them.

    Threads are enough: Pillow releases the interpreter.
    """
    threads = cores()
    pool = ThreadPoolExecutor(threads)
    waiting: deque[Future[Y]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > 8 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode == "F":
        raise ValueError("its pixels are floating-point numbers of unknown range: save it with 8 or 16 bits")
    if image.mode.startswith("I"):  # "I;16", "I;16B", or "I" from older Pillows
        return Image.fromarray(_eight_bits(np.asarray(image))).convert("RGB")
    if image.has_transparency_data:
        paper = Image.new("RGBA", image.size, "white")
        paper.alpha_composite(image.convert("RGBA"))
        return paper.convert("RGB")
    return image.convert("RGB")


def _eight_bits(grey: npt.NDArray[Any]) -> Images:
    if grey.min() < 0 or grey.max() > 65535:
        raise ValueError("its pixels go beyond 16 bits: save it with 8 or 16 bits")
    return np.round(grey / 257).astype(np.uint8)  # 65535 / 255


def _reason(content: bytes, error: Exception) -> str:
    if not content:
        return "it is empty"
    if isinstance(error, UnidentifiedImageError):
        return "it is not an image of a known kind"
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return f"it has more than {Image.MAX_IMAGE_PIXELS:,} pixels, which could be an attack on this machine's memory"
    return str(error) or type(error).__name__
