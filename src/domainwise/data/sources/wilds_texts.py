"""Read the sets of WILDS that are texts, AMAZON and CIVILCOMMENTS, from their official folders."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from domainwise.data.domains import Domains
from domainwise.data.sources.arrays import domains
from domainwise.data.sources.benchmarks import IDENTITIES
from domainwise.data.sources.texts import WORDS
from domainwise.data.sources.wilds import ordered, place_of, read_table, require
from domainwise.errors import InputError, warn

SPLITS = ("", "train", "val", "id_val", "test", "id_test")  # what -1, 0, 1, ... of AMAZON mean; -1 is in no split
NONE = "no identity"


@dataclass(frozen=True)
class Texts:
    """One set of texts: which version is read, the table that holds it, its classes, and how rows are understood."""

    version: str
    table: str
    classes: tuple[str, ...]
    read: Callable[[Path, str], pd.DataFrame]  # -> text, domain, class, split and subgroups of every row


def find_texts(name: str, folder: Path, tokenizer: str = WORDS) -> Domains:
    """Return the texts of a WILDS set by domain, with their official split, as token ids."""
    about = TEXTS[name]
    place = place_of(name, about.version, about.table, folder)
    rows = about.read(place, about.table)
    empty = rows["text"].str.strip() == ""
    if empty.any():
        warn(f"{name}: {int(empty.sum()):,} texts are empty, and read as a full stop")
        rows.loc[empty, "text"] = "."
    if missing := sorted({"train", "val", "test"} - {*rows["split"]}):
        raise InputError(f"{place / about.table} has no rows of the split {missing[0]}: is it the whole table?")
    own = {str(domain): part for domain, part in rows.groupby("domain", sort=False)}
    names = ordered(rows)
    data = domains(
        {domain: (own[domain]["text"].tolist(), own[domain]["class"].tolist()) for domain in names},
        name=name,
        classes=about.classes,
        splits={domain: own[domain]["split"].tolist() for domain in names},
        tokenizer=tokenizer,
    )
    return _with_subgroups(data, own)


def _with_subgroups(data: Domains, rows: Mapping[str, pd.DataFrame]) -> Domains:
    """The same data with what scores are told apart by; it is in the fingerprint."""
    groups = {domain: part["subgroups"].tolist() for domain, part in rows.items()}
    names = list(dict.fromkeys(group for domain in data.names for row in groups[domain] for group in row))
    position, most = {name: i for i, name in enumerate(names)}, max(len(row) for own in groups.values() for row in own)
    digest, items = hashlib.sha256((data.fingerprint + "".join(names)).encode()), []
    for domain in data:
        found = np.full((len(domain), most), -1, np.int64)
        for row, own in zip(found, groups[domain.name], strict=True):
            row[: len(own)] = [position[group] for group in own]
        digest.update(found.data)
        items.append(replace(domain, subgroups=found))
    return replace(data, items=tuple(items), fingerprint=digest.hexdigest(), plain="", subgroups=tuple(names))


def _amazon(place: Path, table: str) -> pd.DataFrame:
    """Reviews, each reviewer a domain; the class is the number of stars."""
    rows = read_table(
        place / table, {"reviewerID": str, "reviewText": object, "overall": int}, quoting=csv.QUOTE_NONNUMERIC
    )
    file = place / "splits" / "user.csv"
    splits = read_table(file, {"split": int})["split"]
    if len(splits) != len(rows):
        raise InputError(f"{file} has {len(splits):,} rows and {table} {len(rows):,}: they are of two downloads")
    require(file, splits, splits.between(-1, 4), "a split (-1, or 0 to 4)")
    require(place / table, rows["overall"], rows["overall"].between(1, 5), "1 to 5 stars")
    user = rows["reviewerID"]
    found = pd.DataFrame(
        {
            "text": rows["reviewText"],
            "domain": user,
            "class": rows["overall"].astype(str),
            "split": [SPLITS[split + 1] for split in splits],
            "subgroups": [(f"user:{name}",) for name in user],
        }
    )
    return found[(splits >= 0).to_numpy()]


def _civilcomments(place: Path, table: str) -> pd.DataFrame:
    """Comments; those to train on stand in a domain for each identity that they mention, by whether they are toxic.

    One that mentions several stands in several domains, as with Fish's authors; those to validate and to test on stand
    once in a domain of their own, and are told apart by identity.
    """
    kinds: dict[str, type] = {"comment_text": object, "split": str, "toxicity": float}
    rows = read_table(place / table, {**kinds, **dict.fromkeys(IDENTITIES, object)})
    known = ("train", "val", "test")
    require(place / table, rows["split"], rows["split"].isin(known), f"a split ({', '.join(known)})")
    label = rows["toxicity"].ge(0.5).map({True: "toxic", False: "non-toxic"})
    mentions = [pd.to_numeric(rows[name], errors="coerce").ge(0.5) for name in IDENTITIES]
    said = [[name for name, yes in zip(IDENTITIES, row, strict=True) if yes] for row in zip(*mentions, strict=True)]
    each = zip(said, rows["split"], strict=True)
    found = pd.DataFrame(
        {
            "text": rows["comment_text"],
            "domain": [(who or [NONE]) if part == "train" else [part] for who, part in each],
            "class": label,
            "split": rows["split"],
            "subgroups": [tuple(f"{name}:{y}" for name in who) for who, y in zip(said, label, strict=True)],
        }
    ).explode("domain", ignore_index=True)
    trained = found["split"] == "train"
    return found.assign(domain=found["domain"].where(~trained, found["domain"] + " " + found["class"]))


TEXTS = {
    "amazon": Texts("2.1", "reviews.csv", tuple("12345"), _amazon),
    "civilcomments": Texts("1.0", "all_data_with_identities.csv", ("non-toxic", "toxic"), _civilcomments),
}
