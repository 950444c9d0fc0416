from __future__ import annotations

import hashlib
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from made_images import decode
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from domainwise.data.decoded.image import ImageError, content_hash, pillow_warnings, read_rgb
from domainwise.errors import InputError

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    stream = BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def plain(mode: str, colour: Any, kind: str = "PNG", **options: Any) -> bytes:
    return encoded(Image.new(mode, (8, 8), colour), kind, **options)


def pixels_of(content: bytes, size: int = 8) -> np.ndarray:
    with pillow_warnings():
        return decode(content, size)


def test_an_image_is_squeezed_to_a_square_by_one_antialiased_resize() -> None:
    stripes = np.zeros((12, 40, 3), np.uint8)
    stripes[:, ::2] = 255  # narrower than a pixel of the result: without antialiasing they would show
    picture = pixels_of(encoded(Image.fromarray(stripes), "PNG"), size=10)
    assert picture.shape == (10, 10, 3)
    assert np.ptp(picture[:, 1:-1]) < 20
    assert abs(float(picture.mean()) - 127.5) < 2


def test_an_image_of_the_right_size_keeps_its_pixels() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    assert np.array_equal(pixels_of(encoded(Image.fromarray(noise), "PNG")), noise)


@pytest.mark.parametrize(("orientation", "corner"), [(1, (0, 0)), (3, (-1, -1)), (6, (0, -1)), (8, (-1, 0))])
def test_a_photograph_is_turned_upright(orientation: int, corner: tuple[int, int]) -> None:
    image = Image.new("RGB", (8, 8), BLUE)
    image.putpixel((0, 0), RED)
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture = pixels_of(encoded(image, "PNG", exif=exif))
    assert picture[corner].tolist() == list(RED)
    assert (picture == RED).all(-1).sum() == 1


def test_damaged_metadata_does_not_make_an_image_unreadable() -> None:
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x05\x01\x12\0\x03"  # announces five entries and ends in the first
    picture = pixels_of(plain("RGB", BLUE, "JPEG", exif=exif))
    assert np.abs(picture.astype(int) - BLUE).max() < 5


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_of_grey_are_scaled_not_clipped(kind: str) -> None:
    ramp = np.array([[0, 257], [32896, 65535]], np.uint16)
    picture = pixels_of(encoded(Image.fromarray(ramp), kind), size=2)
    assert picture[..., 0].tolist() == [[0, 1], [128, 255]]
    assert (picture[..., :1] == picture).all()


def grey(values: list[int], kind: str = "PNG", **options: Any) -> bytes:
    return encoded(Image.fromarray(np.array([values], np.uint16)), kind, **options)


def said(bits: int) -> PngInfo:
    about = PngInfo()
    about.add(b"sBIT", bytes([bits]))
    return about


TWELVE = [0, 16, 1365, 4095]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (grey(TWELVE), [0, 1, 85, 255]),  # nothing is said, and no value needs more
        (grey(TWELVE, pnginfo=said(16)), [0, 0, 5, 16]),
        (grey([0, 1023, 4095], pnginfo=said(12)), [0, 64, 255]),
        (grey([0, 341, 1023], "TIFF", tiffinfo={281: 1023}), [0, 85, 255]),
        (grey([0, 4095, 4096]), [0, 16, 16]),  # thirteen bits: nobody but the file could say so
    ],
    ids=["shown by the values", "16 said by a PNG", "12 said by a PNG", "10 said by a TIFF", "more than 12"],
)
def test_the_file_tells_how_many_bits_of_sixteen_are_used(content: bytes, expected: list[int]) -> None:
    with pillow_warnings():
        image, _ = read_rgb(content)
    assert np.asarray(image)[0, :, 0].tolist() == expected


def test_who_reads_the_bits_otherwise_gets_other_data() -> None:
    content = grey(TWELVE)
    _, mode = read_rgb(content)
    assert mode == "I;16, 12 bits used"
    assert content_hash(content, mode) != content_hash(content, "I;16") == hashlib.sha256(content).hexdigest()


def test_an_image_may_be_as_large_as_the_user_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    large = plain("L", 0)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 60)  # the image has 64
    with pytest.raises(ImageError, match=r"more than 60 pixels.*set DOMAINWISE_MAX_MEGAPIXELS to the millions"):
        pixels_of(large)
    monkeypatch.setenv("DOMAINWISE_MAX_MEGAPIXELS", "1")
    assert pixels_of(large).shape == (8, 8, 3)
    assert Image.MAX_IMAGE_PIXELS == 60  # outside, the program around us has its own limit
    monkeypatch.setenv("DOMAINWISE_MAX_MEGAPIXELS", "many")
    with pytest.raises(InputError, match='such as 200, got "many"'):
        pixels_of(large)


def palette(**options: Any) -> bytes:
    image = Image.new("P", (8, 8), 1)
    image.putpalette([*GREEN, *RED])
    return encoded(image, "PNG", **options)


KINDS = {
    "bits": (plain("1", 1), WHITE),
    "grey": (plain("L", 77), (77, 77, 77)),
    "palette": (palette(), RED),
    "palette with a transparent colour": (palette(transparency=1), WHITE),
    "palette with alpha": (palette(transparency=b"\xff\x00"), WHITE),
    "transparent": (plain("RGBA", (255, 0, 0, 0)), WHITE),
    "half transparent": (plain("RGBA", (255, 0, 0, 51)), (255, 204, 204)),
    "half transparent grey": (plain("LA", (0, 51)), (204, 204, 204)),
    "transparent by colour": (plain("RGB", RED, transparency=RED), WHITE),
    "cmyk": (plain("CMYK", (0, 255, 255, 0), "TIFF"), RED),
    "cmyk jpeg": (plain("CMYK", (0, 255, 255, 0), "JPEG"), RED),
    "gif": (plain("RGB", RED, "GIF"), RED),
    "portable pixmap": (plain("RGB", RED, "PPM"), RED),
    "jpeg of several pictures": (plain("RGB", RED, "MPO"), RED),
}


@pytest.mark.parametrize(("content", "expected"), KINDS.values(), ids=KINDS)
def test_every_kind_of_pixel_becomes_rgb_over_white(content: bytes, expected: tuple[int, int, int]) -> None:
    assert np.abs(pixels_of(content).astype(int) - expected).max() <= 1  # JPEG is off by one


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF", "GIF"])
def test_an_animation_is_its_first_frame(kind: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, BLUE)]
    options = {"lossless": True} if kind == "WEBP" else {}
    content = encoded(frames[0], kind, save_all=True, append_images=frames[1:], **options)
    assert pixels_of(content)[4, 4].tolist() == list(RED)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (plain("F", 0.5, "TIFF"), "floating-point numbers of unknown range"),
        (plain("I", 70000, "TIFF"), "beyond 16 bits"),
        (plain("I", -1, "TIFF"), "beyond 16 bits"),
        (plain("L", 0, "PCX"), "not an image of a known kind"),  # Pillow knows it, but it is none of the kinds let in
    ],
)
def test_pixels_that_cannot_be_interpreted_are_refused_with_the_reason(content: bytes, reason: str) -> None:
    with pytest.raises(ImageError, match=reason):
        pixels_of(content)
