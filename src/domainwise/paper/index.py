"""All tables and figures by name, and the web page that shows those made in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from domainwise.errors import InputError, closest
from domainwise.files import write_output
from domainwise.paper.figures import FIGURE3, FIGURE5
from domainwise.paper.layout import is_own
from domainwise.paper.tables import TABLES, PaperTable

TRAINED: dict[str, PaperTable] = {**TABLES, "figure3": FIGURE3, "figure5": FIGURE5}
NAMES = (*(f"table{i}" for i in range(1, 6)), "wilds", *(f"figure{i}" for i in range(1, 6)))
PER_DOMAIN = ("table1", "table4")  # the others have a column per domain anyway

# Table 4 keeps averages beside its runs; with the same settings the others take their trials from it.
ORDER = ("table4", *(name for name in NAMES if name != "table4"))


def requested_names(words: Sequence[str]) -> list[str]:
    """Return the tables and figures that were asked for, in the order in which they are made."""
    for word in words:
        if word not in (*NAMES, "all"):
            raise InputError(f'there is no "{word}" to reproduce: {closest(word, [*NAMES, "all"])}')
    return [name for name in ORDER if name in words or "all" in words]


def algorithms_of(name: str) -> set[str]:
    """Return the algorithms that a table or figure trains; none for one that is only computed."""
    return {row.algorithm for row in TRAINED[name].rows} if name in TRAINED else set()


def serves(name: str, algorithm: str) -> bool:
    """Whether a table or figure trains an algorithm that was asked for, or has place for one of somebody's own."""
    if is_own(algorithm):
        return name in TABLES and TABLES[name].parts[0].own
    return algorithm in algorithms_of(name)


SUFFIXES = (".txt", ".md", ".tex", ".csv", ".json", ".svg", ".png", ".pdf")


@dataclass(frozen=True)
class Item:
    """One table or figure with its files."""

    name: str
    title: str
    text: str
    pictures: list[str]
    files: list[str]

    @property
    def is_table(self) -> bool:
        """Whether it has no picture."""
        return not self.pictures


def items_in(folder: Path) -> list[Item]:
    """Return the tables and figures of a folder, in the paper's order."""
    names = [file.stem for file in folder.glob("*.txt") if not file.stem.endswith("-numbers")]
    known = [name for name in names if name.split("-")[0] in NAMES]
    files: dict[str, list[str]] = {name: [] for name in sorted(known, key=_rank)}
    for file in sorted(folder.iterdir(), key=lambda file: (file.stem, file.suffix)):  # figure1 before figure1-ends
        owners = [name for name in known if file.stem == name or file.stem.startswith(f"{name}-")]
        if owners and file.suffix in SUFFIXES:
            files[max(owners, key=len)].append(file.name)
    return [_item(folder, name, own) for name, own in files.items()]


def _rank(name: str) -> tuple[int, str]:
    return NAMES.index(name.split("-")[0]), name


def _item(folder: Path, name: str, files: list[str]) -> Item:
    title, _, text = (folder / f"{name}.txt").read_text(encoding="utf-8").partition("\n")
    return Item(name, title, text.lstrip("=\n"), [file for file in files if file.endswith(".svg")], files)


def write_index(folder: Path, about: str) -> Path:
    """Write ``index.html``; ``about`` says what everything was made from."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    pages = Environment(
        loader=PackageLoader("domainwise.paper", "templates"), autoescape=True, undefined=StrictUndefined
    )
    text = pages.get_template("index.html").render(
        about=about, items=items_in(folder), report=(folder / "report.html").exists()
    )
    return write_output(folder / "index.html", text + "\n")
