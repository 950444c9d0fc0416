"""The page that shows all that was made in a folder, from the files alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from domainwise.files import write_output
from domainwise.paper.registry import NAMES


@dataclass(frozen=True)
class Made:
    name: str
    title: str
    text: str
    pictures: list[str]
    files: list[str]

    @property
    def is_table(self) -> bool:
        return not self.pictures


def made(folder: Path) -> list[Made]:
    """In the order of the paper."""
    names = [file.stem for file in folder.glob("*.txt") if not file.stem.endswith("-numbers")]
    known = [name for name in names if name.split("-")[0] in NAMES]
    found: dict[str, list[str]] = {name: [] for name in sorted(known, key=_place)}
    for file in sorted(folder.iterdir()):
        owners = [name for name in known if file.stem == name or file.stem.startswith(f"{name}-")]
        if owners and file.suffix in SUFFIXES:
            found[max(owners, key=len)].append(file.name)
    return [_made(folder, name, files) for name, files in found.items()]


def _place(name: str) -> tuple[int, str]:
    return NAMES.index(name.split("-")[0]), name


def _made(folder: Path, name: str, files: list[str]) -> Made:
    title, _, text = (folder / f"{name}.txt").read_text(encoding="utf-8").partition("\n")
    return Made(name, title, text.lstrip("=\n"), [file for file in files if file.endswith(".svg")], files)


SUFFIXES = (".txt", ".md", ".tex", ".csv", ".json", ".svg", ".png")


def write_index(folder: Path, about: str) -> Path:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    pages = Environment(
        loader=PackageLoader("domainwise.paper", "templates"), autoescape=True, undefined=StrictUndefined
    )
    path = folder / "index.html"
    text = pages.get_template("index.html").render(
        about=about, made=made(folder), report=(folder / "report.html").exists()
    )
    return write_output(path, text + "\n")
