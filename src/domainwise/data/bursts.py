"""Find images taken in one burst, which a split must not tear apart, and write a manifest that keeps them together."""

from __future__ import annotations

import csv
import io
import os
import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from domainwise.data.domains import FREE, HOLDOUT, MAIN, PARTS, TEST, Domains
from domainwise.errors import InputError
from domainwise.files import check_output, write_output

if TYPE_CHECKING:
    from domainwise.data.inspect import Look, Survey
    from domainwise.data.sources.listing import Listing

SIDE = 16  # of the grey thumbnail that two images are compared by
ALIKE = 0.95  # the correlation of two thumbnails; of neighbours in PACS, which has no bursts, 1 pair in 2,000 has more
COLUMNS = ("path", "domain", "label", "split", "group")
NEVER = b"(?!)"  # what no file begins with: a manifest may have been edited since


def thumbnail(image: Image.Image) -> bytes:
    """Return what an image looks like from afar, in grey."""
    return image.convert("L").resize((SIDE, SIDE), Image.Resampling.BOX).tobytes()


def bursts(looks: Sequence[Look]) -> list[list[Look]]:
    """Return runs of images that look alike and whose names differ only in a running number or a time.

    Each run is of one domain and one class, in the order of the numbers. Copies of a file look alike too.
    """
    rows: dict[tuple[str, str, str], list[Look]] = defaultdict(list)
    for look in looks:
        if look.thumbnail:
            rows[look.domain, look.class_name, re.sub(r"\d+", "#", look.name)].append(look)
    found: list[list[Look]] = []
    for row in rows.values():
        row.sort(key=lambda look: [int(number) for number in re.findall(r"\d+", look.name)])
        runs = [[row[0]]] if row else []
        for before, after in pairwise(row):
            if _alike(before, after):
                runs[-1].append(after)
            else:
                runs.append([after])
        found += [run for run in runs if len(run) > 1]
    return found


def _alike(one: Look, other: Look) -> bool:
    a, b = (np.frombuffer(look.thumbnail, np.uint8).astype(float) for look in (one, other))
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return size > 0 and float(a @ b) >= ALIKE * size


def check_manifest(data: Listing | Domains, path: Path) -> None:
    """Refuse a path that a manifest cannot be written to, and data that are no files."""
    if isinstance(data, Domains):
        raise InputError(f"a manifest names files, and {data.name} has none")
    if path.suffix.lower() != ".csv":
        raise InputError(f'the manifest is a table: let "{path}" end in .csv')
    check_output(path, NEVER)


def write_manifest(survey: Survey, path: Path) -> Path:
    """Write a manifest of the images that can be read, in which the images of a burst are a group.

    Groups, boxes and parts of the split that are known already stay as they are.
    """
    group = {look: f"burst {i}" for i, run in enumerate(survey.bursts, 1) for look in run}
    folder, text = path.absolute().parent, io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    boxes = any(file.box for file in survey.files)
    official = any(file.fixed >= TEST for file in survey.files)
    parts = {FREE: "", **PARTS} if official else {FREE: "", MAIN: "train", HOLDOUT: "holdout"}
    table.writerow([*COLUMNS, *(["box"] if boxes else [])])
    for file, look in zip(survey.files, survey.looks, strict=True):
        place = Path(os.path.normpath(Path(file.path).absolute()))
        shown = place.relative_to(folder) if place.is_relative_to(folder) else place
        box = [" ".join(map(repr, file.box))] if boxes else []
        together = file.group or group.get(look, "")
        table.writerow([shown.as_posix(), file.domain, file.class_name, parts[file.fixed], together, *box])
    return write_output(path, text.getvalue(), NEVER)
