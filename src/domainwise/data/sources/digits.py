"""Rotated handwritten digits, from the images that come with scikit-learn: a data set that needs no download."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from domainwise.data.domains import Domains, Images, domains

ANGLES = (0, 15, 30, 45, 60, 75)
SIZE = 16
BOX = 12  # of the 8x8 original inside SIZE: small enough that hardly a stroke leaves the picture when it turns
FINE = 2  # times larger while turning, to lose less to the two interpolations


def digits() -> Domains:
    """1,797 digits of 16x16 grey pixels in six domains, one per angle (degrees, counter-clockwise), none in two."""
    pixels, labels = _shipped()
    grey = np.round(pixels.reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)  # shipped as 0..16
    order = np.random.RandomState(0).permutation(len(grey))
    dealt = {angle: order[i :: len(ANGLES)] for i, angle in enumerate(ANGLES)}
    return domains(
        {str(angle): (_turned(grey[rows], angle), labels[rows]) for angle, rows in dealt.items()},
        name="digits",
        classes=[str(name) for name in np.unique(labels)],
    )


def _shipped() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Read from scikit-learn's file where it lies: importing the package takes longer than most commands."""
    spec = find_spec("sklearn")
    file = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz" if spec and spec.origin else None
    if file is None or not file.is_file():
        from sklearn.datasets import load_digits

        found = load_digits()
        return found.data, found.target
    table = np.loadtxt(file, delimiter=",")
    return table[:, :-1], table[:, -1].astype(np.int64)


def _turned(grey: Images, angle: int) -> Images:
    return np.stack([_turn(image, angle) for image in grey])


def _turn(grey: Images, angle: int) -> Images:
    canvas = Image.new("L", (FINE * SIZE, FINE * SIZE))
    margin = FINE * (SIZE - BOX) // 2
    canvas.paste(Image.fromarray(grey).resize((FINE * BOX, FINE * BOX), Image.Resampling.BICUBIC), (margin, margin))
    turned = canvas.rotate(angle, Image.Resampling.BILINEAR)
    return np.asarray(turned.resize((SIZE, SIZE), Image.Resampling.BOX))
