"""Draws figures/start.svg: the domains of the digits, and how right a network is on each that it was not trained on.

python docs/make_start.py             draw from start.json
python docs/make_start.py --measure   train anew first, which takes a minute or two, and write start.json
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

import domainwise as dw

HERE = Path(__file__).parent
NUMBERS, PICTURE = HERE / "start.json", HERE / "figures" / "start.svg"
DIGIT = 3  # the one that is shown


TILE, GAP, TOP = 88, 16, 24  # pixels: a picture, the room between two, the room for its name


def measure() -> None:
    """Hold out each domain in turn: accuracy on it, and on new images of the domains that were trained on."""
    with tempfile.TemporaryDirectory() as folder:
        frame = dw.compare(dw.digits(), "erm", targets="all", seeds=3, steps=201, output=folder).frame()
    about = {
        "setting": "erm, 3 seeds, 201 updates; each domain held out in turn",
        "known": round(100 * frame["validation_accuracy"].mean(), 1),
        "new": {name: round(100 * rows["target_accuracy"].mean(), 1) for name, rows in frame.groupby("targets")},
    }
    NUMBERS.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def tile(image: npt.NDArray[np.uint8], x: int) -> str:
    """Return one image of a digit, enlarged without smoothing, for an SVG."""
    file = BytesIO()
    Image.fromarray(255 - image.squeeze(-1)).resize((TILE, TILE), Image.Resampling.NEAREST).save(file, "PNG")
    inside = base64.b64encode(file.getvalue()).decode()
    return f'<image x="{x}" y="{TOP}" width="{TILE}" height="{TILE}" href="data:image/png;base64,{inside}"/>'


def picture() -> str:
    new, data = json.loads(NUMBERS.read_text(encoding="utf-8"))["new"], dw.digits()
    parts, width = [], len(data) * (TILE + GAP) - GAP
    for i, domain in enumerate(data):
        x = i * (TILE + GAP)
        first = list(domain.labels).index(DIGIT)
        parts += [
            f'<text x="{x + TILE / 2}" y="15">{domain.name}°</text>',
            tile(domain.images[first], x),
            f'<text x="{x + TILE / 2}" y="{TOP + TILE + 20}" font-weight="600">{new[domain.name]:.0f} %</text>',
        ]
    described = "A handwritten three in six domains, and the accuracy on each domain where it was not trained on"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {TOP + TILE + 28}" role="img" '
        f'aria-label="{described}" font-family="system-ui, sans-serif" font-size="14" text-anchor="middle" '
        f'fill="#1a1f26" style="background: #fff">{"".join(parts)}</svg>\n'
    )


def main() -> None:
    if "--measure" in sys.argv[1:]:
        measure()
    PICTURE.write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
