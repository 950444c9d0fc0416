"""The documentation becomes a site without a warning, and everything public is in it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import typer

import domainwise as dw
from domainwise.algorithms import names
from domainwise.cli import app

ROOT = Path(__file__).parents[1]
MADE = ("_build", "gallery", "reference", "project")  # by earlier builds


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def links(page: Path) -> set[Path]:
    """Return the pages that a page's own text and its menu link to."""
    return {(page.parent / link).resolve() for link in re.findall(r'href="([^"#:]+\.html)', read(page))}


def undocumented(site: Path) -> list[str]:
    """Return the public names, commands and algorithms that have no place in the reference."""
    reference = site / "reference"
    python = "".join(read(page) for page in (reference / "python").glob("*.html"))
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return [
        *(name for name in dw.__all__ if name != "__version__" and f'id="domainwise.{name}"' not in python),
        *(name for name in commands if not (reference / "commands" / f"{name}.html").is_file()),
        *(name for name in names() if not (reference / "algorithms" / f"{name}.html").is_file()),
    ]


def far_away(site: Path) -> set[Path]:
    """Return the pages to read that are more than two clicks from the front page."""
    first = links(site / "index.html")
    reached = first.union(*(links(page) for page in first if page.is_file()))
    apart = {"search.html", "genindex.html", "py-modindex.html", "sg_execution_times.html", "index.html"}
    pages = {page.resolve() for page in site.rglob("*.html") if page.name not in apart}
    return {page for page in pages - reached if "_modules" not in page.parts}


def broken(site: Path) -> list[tuple[Path, Path]]:
    """Return links within the site that lead nowhere, with the page they stand on."""
    pages = [page for page in site.rglob("*.html") if "_modules" not in page.parts]
    return [(page, link) for page in pages for link in links(page) if not link.is_file()]


def test_the_site_is_built_without_a_warning_and_everything_public_is_in_it(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns(*MADE))
    for name in ("src", "examples", "benchmarks", *(page.name for page in ROOT.glob("*.md"))):
        (tmp_path / name).symlink_to(ROOT / name)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-D", "plot_gallery=0"]  # shown, not run
    ended = subprocess.run([*command, tmp_path / "docs", tmp_path / "html"], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    site = tmp_path / "html"
    assert undocumented(site) == []
    assert far_away(site) == set()
    assert broken(site) == []
