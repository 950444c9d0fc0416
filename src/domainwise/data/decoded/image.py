"""One image file, whatever kind it is, as RGB pixels."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from domainwise.data.arrays import Images

SUFFIXES = (".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
# What a file with such a name may really hold. Not all that Pillow knows: some of its readers start other programs.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")
ORIENTATION = 0x0112


class ImageError(Exception):
    """The reason why a file cannot be used as an image."""


def content_of(path: str) -> bytes:
    try:
        file = Path(path)
        if not file.is_file():  # reading a pipe would wait for ever
            raise ImageError("it is not a regular file, or a link to none")
        return file.read_bytes()
    except OSError as error:
        raise ImageError(error.strerror or str(error)) from error


def decode(content: bytes, size: int) -> Images:
    """(size, size, 3), in one antialiased resize that does not keep the aspect ratio, as in the published protocol."""
    return squeezed(rgb(content)[0], (size, size))


def rgb(content: bytes) -> tuple[Image.Image, str]:
    """The image and the mode it was stored in.

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


def squeezed(image: Image.Image, shape: tuple[int, int]) -> Images:
    """(height, width, 3): the very pixels where the shape is right already, otherwise one antialiased resize."""
    height, width = shape
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(image)


def shape_of(path: str) -> tuple[int, int] | None:
    """Height and width of the upright image, from the head of the file alone; None where that cannot be read."""
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
    """Around calls of :func:`decode`: a suspiciously large image is an error, oddities in its metadata are nothing.

    Set once from outside, because the warning filters belong to the whole process and decoding runs in threads.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


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
        return "it is no image of a known kind"
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return f"it has more than {Image.MAX_IMAGE_PIXELS:,} pixels, which could be an attack on this machine's memory"
    return str(error) or type(error).__name__
