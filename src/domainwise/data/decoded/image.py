"""Read image files of any kind as RGB pixels, many at a time in threads."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from domainwise.errors import InputError
from domainwise.machine import cores

PUBLISHED = (".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")  # DomainBed reads these alone
DEEP = (".pgm", ".png", ".tif", ".tiff")  # endings of files that may have more than 8 bits
WITH_PLUGIN = (".heic", ".heif")
SUFFIXES = (*PUBLISHED, ".avif", ".gif", ".jfif", *WITH_PLUGIN)
# What a file with such a name may really hold. Not all that Pillow knows: some of its readers start other programs.
FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
PICTURES = {  # that are not read, and what they are; files with other endings are taken for something else
    "raw photographs": (".arw", ".cr2", ".cr3", ".dng", ".nef", ".orf", ".pef", ".raf", ".raw", ".rw2", ".srw"),
    "medical images": (".dcm", ".dicom", ".mha", ".nii", ".svs"),
    "videos": (".avi", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".webm"),
    "drawings": (".ai", ".eps", ".pdf", ".psd", ".svg", ".xcf"),
    "images of a kind that is not read": (".exr", ".hdr", ".ico", ".j2k", ".jp2", ".jxl", ".pbm", ".pcx", ".tga"),
}
LARGEST = "DOMAINWISE_MAX_MEGAPIXELS"
ORIENTATION = 0x0112
BITS, HIGHEST = 258, (281, 341)  # of TIFF: how many bits a value has, and which is the highest that it may have

Images = npt.NDArray[np.uint8]
Box = tuple[float, ...]  # left, top, width, height, in pixels, or all up to 1 in parts of the picture; () is the whole

X = TypeVar("X")
Y = TypeVar("Y")


class ImageError(Exception):
    """A file cannot be used as an image, for the reason that is the message."""


class NotNow(ImageError):  # noqa: N818  a state of the disk
    """The disk does not give the file just now; what is in it may be a good image."""


OF_THE_FILE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EACCES, errno.EPERM}


@cache
def formats() -> tuple[str, ...]:
    """Return the kinds of images that are read here: HEIC is one of them where the package pillow-heif is installed."""
    if find_spec("pillow_heif") is None:
        return FORMATS
    import_module("pillow_heif").register_heif_opener()
    return (*FORMATS, "HEIF")


@cache
def endings() -> tuple[str, ...]:
    """Return the endings of files that are read as images, in small letters."""
    return SUFFIXES if "HEIF" in formats() else tuple(each for each in SUFFIXES if each not in WITH_PLUGIN)


def unread(ending: str) -> str:
    """Say what files with this ending are and why they are not read; "" where they may be no images at all."""
    if ending in WITH_PLUGIN:
        return "iPhone photographs, which pip install pillow-heif lets this program read"
    what = next((what for what, endings in PICTURES.items() if ending in endings), "")
    return what and f"{what}: save them as JPEG or PNG"


def image_bytes(path: str) -> bytes:
    """Return the content of an image file; raise :class:`ImageError` where it cannot be read."""
    try:
        file = Path(path)
        if not file.is_file():  # reading a pipe would wait for ever
            raise ImageError("it is not a regular file, or a link to none")
        return file.read_bytes()
    except OSError as error:
        kind = ImageError if error.errno in OF_THE_FILE else NotNow
        raise kind(error.strerror or str(error)) from error


def read_rgb(content: bytes) -> tuple[Image.Image, str]:
    """Return an image in RGB, and the mode it was stored in.

    Upright as the EXIF orientation says, the first frame of an animation, transparent pixels over white, grey of more
    than 8 bits scaled to 8 bits from as many bits as the file says or shows that it uses.
    """
    try:
        with Image.open(BytesIO(content), formats=formats()) as image:
            image.load()
            bits = _bits(image, content) if image.mode.startswith("I") else 8
            turned = image.getexif().get(ORIENTATION, 1) != 1
            rgb = _rgb(ImageOps.exif_transpose(image) if turned else image, bits)
            return rgb, f"{image.mode}, {bits} bits used" if 8 < bits < 16 else image.mode
    except Exception as error:  # a damaged file makes Pillow raise almost anything: OSError, SyntaxError, struct.error
        raise ImageError(_reason(content, error)) from error


def pixels_of(box: Box, shape: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom of a box in a picture of (height, width), as far as it lies inside."""
    height, width = shape
    if not box:
        return 0, 0, width, height
    left, top, across, down = (
        (part * side for part, side in zip(box, (width, height, width, height), strict=True)) if max(box) <= 1 else box
    )
    edges = max(0, left), max(0, top), min(width, left + across), min(height, top + down)
    first, upper, last, lower = (round(edge) for edge in edges)
    if last <= first or lower <= upper:
        raise ImageError(f"its box lies outside the picture of {width} x {height} pixels")
    return first, upper, last, lower


def cut_out(image: Image.Image, box: Box) -> Image.Image:
    """Return the part of a picture that a box says, or all of it without one."""
    return image.crop(pixels_of(box, (image.height, image.width))) if box else image


def content_hash(content: bytes, mode: str) -> str:
    """Return what tells the content of an image file from any other, in the mode that it was read in."""
    return hashlib.sha256(content).hexdigest() + mode.partition(", ")[2]


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
        with Image.open(path, formats=formats()) as image:
            width, height = image.size
            if width != height and image.getexif().get(ORIENTATION, 1) in (5, 6, 7, 8):
                return width, height
            return height, width
    except Exception:  # it is read again in full, and then the reason is told
        return None


def _largest() -> int | None:
    """How many pixels the user lets an image have, if the user says so."""
    text = os.environ.get(LARGEST, "")
    if not text:
        return None
    if not re.fullmatch(r"\d{1,6}", text.strip()) or not int(text):
        raise InputError(f'{LARGEST} must be the millions of pixels that an image may have, such as 200, got "{text}"')
    return int(text) * 1_000_000


def is_deep(path: str) -> bool:
    """Return whether an image has grey values of more than 8 bits, from the head of the file alone."""
    if not path.lower().endswith(DEEP):
        return False
    try:
        with Image.open(path, formats=formats()) as image:
            return image.mode.startswith("I")
    except Exception:  # it cannot be read in any way
        return False


@contextmanager
def pillow_warnings() -> Iterator[None]:
    """Make a suspiciously large image an error, and ignore oddities in metadata, while images are read.

    Set once from outside, because the warning filters belong to the whole process and decoding runs in threads.
    """
    allowed = Image.MAX_IMAGE_PIXELS
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            Image.MAX_IMAGE_PIXELS = _largest() or allowed
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = allowed


@cache
def quiet() -> None:
    """Have Pillow keep silent about metadata in this process, and read what the user lets it: for known images."""
    warnings.filterwarnings("ignore", module=r"PIL\.")
    Image.MAX_IMAGE_PIXELS = _largest() or Image.MAX_IMAGE_PIXELS


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


def _rgb(image: Image.Image, bits: int) -> Image.Image:
    if image.mode == "F":
        raise ValueError("its pixels are floating-point numbers of unknown range: save it with 8 or 16 bits")
    if image.mode.startswith("I"):  # "I;16", "I;16B", or "I" from older Pillows
        grey = np.minimum(np.asarray(image) / ((1 << bits) - 1), 1)
        return Image.fromarray(np.round(255 * grey).astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        paper = Image.new("RGBA", image.size, "white")
        paper.alpha_composite(image.convert("RGBA"))
        return paper.convert("RGB")
    return image.convert("RGB")


def _bits(image: Image.Image, content: bytes) -> int:
    """How many bits grey values use: cameras of 12 bits save 16. Where the file is silent, its highest value speaks."""
    low, high = image.getextrema()
    if low < 0 or high > 65535:  # type: ignore[operator]
        raise ValueError("its pixels go beyond 16 bits: save it with 8 or 16 bits")
    tags = getattr(image, "tag_v2", {})
    said = [int(np.max(tags[tag])).bit_length() for tag in HIGHEST if tag in tags]
    said += [bits for bits in [int(np.max(tags.get(BITS, 16)))] if bits < 16]
    if image.format == "PNG" and (at := content.find(b"sBIT", 0, content.find(b"IDAT"))) > 0:
        said.append(content[at + 4])
    return next((bits for bits in said if 8 <= bits <= 16), 12 if high < 1 << 12 else 16)  # type: ignore[operator]


def _reason(content: bytes, error: Exception) -> str:
    if not content:
        return "it is empty"
    if isinstance(error, UnidentifiedImageError):
        return "it is not an image of a known kind"
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return (
            f"it has more than {Image.MAX_IMAGE_PIXELS:,} pixels, which could be an attack on this machine's memory; "
            f"where you trust it, set {LARGEST} to the millions of pixels that an image may have"
        )
    return str(error) or type(error).__name__
