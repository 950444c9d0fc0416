"""One image file, whatever kind it is, as RGB pixels of a set size."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from domainwise.data.domains import Images

SUFFIXES = (".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
# What a file with such a name may really hold. Not all that Pillow knows: some of its readers start other programs.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")


class ImageError(Exception):
    """The reason why a file cannot be used as an image."""


def read(path: Path, row: Images) -> str | ImageError:
    """Fill ``row``, of shape (size, size, 3), and return the sha256 of the file; or the reason why it cannot be."""
    try:
        if not path.is_file():  # reading a pipe would wait for ever
            return ImageError("it is not a regular file, or a link to none")
        content = path.read_bytes()
        row[...] = decode(content, len(row))
    except OSError as error:
        return ImageError(error.strerror)
    except ImageError as error:
        return error
    return hashlib.sha256(content).hexdigest()


def decode(content: bytes, size: int) -> Images:
    """(size, size, 3), in one antialiased resize that does not keep the aspect ratio, as the published protocol does.

    Upright as the EXIF orientation says, the first frame of an animation, transparent pixels over white, 16-bit grey
    scaled to 8 bits.
    """
    try:
        with Image.open(BytesIO(content), formats=FORMATS) as image:
            upright = ImageOps.exif_transpose(image)
            return np.asarray(_rgb(upright).resize((size, size), Image.Resampling.BILINEAR))
    except (
        Exception
    ) as error:  # a damaged file makes Pillow raise almost anything: OSError, SyntaxError, struct.error...
        raise ImageError(_reason(content, error)) from error


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
