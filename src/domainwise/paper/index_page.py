"""The web page that shows all tables and figures made in a folder, from the files alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from domainwise.files import write_output
from domainwise.paper.registry import NAMES

SUFFIXES = (".txt", ".md", ".tex", ".csv", ".json", ".svg", ".png")


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
    for file in sorted(folder.iterdir()):
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
