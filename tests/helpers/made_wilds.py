"""Write tiny data sets in exactly the folders and columns of the WILDS releases."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

CENTRES = {0: (0, 1), 1: (10, 11), 2: (20, 21, 22), 3: (30,), 4: (40, 41)}  # slides by hospital


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]], *, index: bool = False, **options: Any) -> None:
    """Write rows under their columns; with ``index``, a column without a name counts them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, **options)
        table.writerow(([""] if index else []) + [*rows[0]])
        table.writerows(([i] if index else []) + [*row.values()] for i, row in enumerate(rows))


def _pictures(paths: Iterable[tuple[Path, int]], side: int) -> None:
    """A picture that is brighter on top where its class is odd."""
    random = np.random.RandomState(0)
    for path, label in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = random.randint(0, 100, (side, side, 3)).astype(np.uint8)
        pixels[: side // 2] += np.uint8(120 * (label % 2))
        Image.fromarray(pixels).save(path)


def camelyon17(root: Path, each: int = 4, side: int = 96) -> Path:
    """Patches of every slide, ``each`` of both classes; every fourth of the sources is id_val."""
    folder, rows = root / "camelyon17_v1.0", []
    for centre, slides in CENTRES.items():
        for number, (slide, tumor, i) in enumerate(product(slides, (0, 1), range(each))):
            patient, place = f"{slide:03}", {"x_coord": 100 * i, "y_coord": 7 * tumor}
            about = {"tumor": tumor, "slide": slide, "center": centre, "split": int(number % 4 == 3)}
            rows.append({"patient": patient, "node": centre, **place, **about})
    write_csv(folder / "metadata.csv", rows, index=True)
    _pictures(((folder / patch(row), row["tumor"]) for row in rows), side)
    return root


def patch(row: Mapping[str, Any]) -> str:
    """Return where the patch of a row lies."""
    node = f"patient_{row['patient']}_node_{row['node']}"
    return f"patches/{node}/patch_{node}_x_{row['x_coord']}_y_{row['y_coord']}.png"


def iwildcam(root: Path, side: int = 20) -> Path:
    """Locations of the sources, of val and of test; class 2 of 4 is in val alone."""
    folder, rows = root / "iwildcam_v2.0", []
    where = {0: "train", 1: "train", 10: "train", 2: "val", 3: "val", **dict.fromkeys(range(4, 10), "test")}
    for location, split in where.items():
        for i, y in enumerate((0, 1, 2 if split == "val" else 3, 0, 1, 3)):
            part = {4: "id_val", 5: "id_test"}.get(i, split) if split == "train" else split
            about = {"split": part, "y": y, "location_remapped": location, "sequence_remapped": len(rows)}
            time = "2013-06-05 05:44:19.000"
            rows.append({**about, "filename": f"{location}-{i}.jpg", "datetime": time, "category_id": 7 * y})
    write_csv(folder / "metadata.csv", rows)
    _pictures(((folder / "train" / row["filename"], row["y"]) for row in rows), side)
    return root


def fmow(root: Path, side: int = 16) -> Path:
    """Two regions and a country that is in none, over the years; some rows that the official split does not use."""
    folder, rows = root / "fmow_v1.1", []
    for year, country, category in product((2002, 2012, 2014, 2016, 2017), ("FRA", "CHN", "XYZ"), ("airport", "zoo")):
        for split in ("train", "val", "test", "seq"):
            about = {"category": category, "timestamp": f"{year}-03-04T05:06:07Z", "country_code": country}
            rows.append({"split": split, **about})
    write_csv(folder / "rgb_metadata.csv", rows)
    codes = [{"name": "France", "alpha-3": "FRA", "region": "Europe"}]
    write_csv(folder / "country_code_mapping.csv", [*codes, {"name": "China", "alpha-3": "CHN", "region": "Asia"}])
    names = (folder / "images" / f"rgb_img_{i}.png" for i in range(len(rows)))
    used = ((name, row["category"] == "zoo") for name, row in zip(names, rows, strict=True) if row["split"] != "seq")
    _pictures(used, side)
    return root


def amazon(root: Path) -> Path:
    """Reviewers of every split, the first of whom has an empty review; some rows are in no split."""
    folder, reviews, splits = root / "amazon_v2.1", [], []
    for user, parts in {
        "A1": (0, 0, 2, 4, -1),
        "A2": (0, 0, 0, 0),
        "V1": (1, 1, 1),
        "T1": (3, 3, 3),
        "T2": (3, 3),
    }.items():
        for i, part in enumerate(parts):
            text = "" if (user, i) == ("A1", 1) else f'{user} says "so so",\nand {"good" if i % 2 else "bad"}'
            about = {"asin": "B0", "reviewTime": "01 1, 2018", "unixReviewTime": 1514764800}
            stars = {"verified": True, "category": "Books", "reviewYear": 2018, "overall": 1 + (i + len(user)) % 5}
            reviews.append({"reviewerID": user, **about, "reviewText": text, "summary": "s", **stars})
            splits.append({"split": part})
    write_csv(folder / "reviews.csv", reviews, quoting=csv.QUOTE_NONNUMERIC)
    write_csv(folder / "splits" / "user.csv", splits)
    return root


OTHERS = ("severe_toxicity", "obscene", "threat", "insult", "identity_attack", "sexual_explicit")
IDENTITIES = ("male", "female", "LGBTQ", "christian", "muslim", "other_religions", "black", "white")


def civilcomments(root: Path) -> Path:
    """Comments that mention no identity, one, or two, toxic or not, in every split."""
    folder, rows = root / "civilcomments_v1.0", []
    mentions: tuple[dict[str, float], ...] = ({}, {"male": 0.7}, {"black": 0.5, "white": 0.9}, {"LGBTQ": 0.49})
    for split, said, toxicity, i in product(("train", "val", "test"), mentions, (0.0, 0.5), range(2)):
        who = {name: said.get(name, "" if name == "muslim" else 0.0) for name in IDENTITIES}
        text = f"{'awful' if toxicity else 'fine'}, said {' and '.join(said) or 'somebody'} {i} of {split}"
        rows.append({"id": len(rows), "comment_text": text, "split": split, "toxicity": toxicity, **who})
        rows[-1] |= {"identity_any": float(bool(said)), **dict.fromkeys(OTHERS, 0.0)}
    write_csv(folder / "all_data_with_identities.csv", rows, index=True)
    return root
