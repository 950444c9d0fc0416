"""Builds the documentation as a site: make docs, or sphinx-build docs docs/_build/html."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT / "src")]

import make_reference  # noqa: E402  it lies beside this file
from sphinx.application import Sphinx  # noqa: E402

from domainwise import __version__  # noqa: E402

project = "domainwise"
author = "The domainwise developers"
release = version = __version__
html_title = "domainwise"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "README.md", "**/GALLERY_HEADER.rst"]
nitpicky = False

# Markdown: headings have the names that GitHub gives them, so that a link works on both.
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure", "config.cache"]

# What is called from Python, from its docstrings.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_inherit_docstrings = False  # a method that overrides another does something else
autodoc_mock_imports: list[str] = []

# Programs that run: the gallery. `make docs` runs them, a build for tests shows their text alone.
sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"/\w+\.py",
    "ignore_pattern": r"__init__",
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 10**6,
    "remove_config_comments": True,
    "nested_sections": False,
}

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["domainwise.css"]
html_theme_options = {"source_directory": "docs/"}
copybutton_prompt_text = "$ "


# Pages of the repository that lie outside of docs, by the name they have here.
OUTSIDE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "benchmarks/README.md": "project/benchmarks.md",
}
FOOT = re.compile(r"\n---\n\n\[All pages\]\(README\.md\)[^\n]*\n$")


def copied(name: str) -> str:
    """Return a page from outside of docs with links as seen from docs/project."""
    home = (ROOT / name).parent

    def moved(match: re.Match[str]) -> str:
        path, hash_, anchor = match[2].partition("#")
        there = os.path.relpath(home / path, ROOT)
        if there in OUTSIDE:
            return f"[{match[1]}](../{OUTSIDE[there]}{hash_}{anchor})"
        if there.startswith("docs/") and there.endswith(".md"):
            page = there.removeprefix("docs/").replace("README.md", "index.md")
            return f"[{match[1]}](../{page}{hash_}{anchor})"
        return match[1]

    return re.sub(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)([^)\s]+)\)", moved, (ROOT / name).read_text(encoding="utf-8"))


def at_home(app: Sphinx, name: str, source: list[str]) -> None:
    """Turn links that leave docs into links within the site, or into their text; drop what is for reading on a host."""
    if name.startswith(("project/", "reference/", "gallery/")):
        return

    def moved(match: re.Match[str]) -> str:
        path, hash_, anchor = match[2].removeprefix("../").partition("#")
        return f"[{match[1]}]({OUTSIDE[path]}{hash_}{anchor})" if path in OUTSIDE else match[1]

    source[0] = re.sub(r"(?<!!)\[([^\]]+)\]\((\.\./[^)\s]+)\)", moved, FOOT.sub("\n", source[0]))


def setup(app: Sphinx) -> None:
    """Write what is made from the code before the pages are read."""
    make_reference.write(HERE / "reference")
    for name, page in OUTSIDE.items():
        if name != "README.md":
            make_reference.put(HERE / page, copied(name))
    app.connect("source-read", at_home)
