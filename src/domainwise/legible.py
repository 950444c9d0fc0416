"""Text of others, such as names of domains and files: as it can be shown without commanding what shows it."""

from __future__ import annotations

import re
from unicodedata import category

# What turns the direction of all that follows, and what ends a line unseen.
TURNING = frozenset("\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")


def legible(name: str, keep: str = "") -> str:
    """A name without what cannot be shown: not every name on a disk is valid Unicode, and some command the terminal."""
    if name.isprintable() and name.isascii():
        return name
    return "".join(ascii(letter)[1:-1] if _commands(letter) and letter not in keep else letter for letter in name)


def _commands(letter: str) -> bool:
    return category(letter) in ("Cc", "Cs") or letter in TURNING


def sentence(text: str) -> str:
    """The same of something in lines."""
    return legible(text, keep="\n\t")


def printed(text: str) -> str:
    """The same of anything that is printed: written so that what was JSON is JSON."""
    if text.isprintable() and text.isascii():
        return text
    return "".join(f"\\u{ord(c):04x}" if _commands(c) and c not in "\n\t" else c for c in text)


def csv_row(*cells: object) -> list[object]:
    """A row of a CSV file whose cells are :func:`defused`."""
    return [*map(defused, cells)]


def defused(cell: object) -> object:
    """A cell of a CSV file that no spreadsheet takes for a formula: such text gets an apostrophe in front of it."""
    if not isinstance(cell, str) or not FORMULA.match(cell):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
