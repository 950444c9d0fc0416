"""Every snippet in the README and the docs runs."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import torch
from made_data import image_folder
from torch import nn

import domainwise as dw
from domainwise.__main__ import main

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "ARCHITECTURE.md",
    ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" not in link and not link.startswith("reference/"):  # made with the site, whose build checks them
            name, _, anchor = link.partition("#")
            there = (page.parent / name).resolve() if name else page
            assert there.exists(), link
            assert not anchor or anchor in anchors(there), link


def test_every_page_is_in_the_list_of_pages_and_leads_back_and_on() -> None:
    docs = {page.name for page in PAGES if page.parent.name == "docs"} - {"README.md", "index.md"}
    listed = re.findall(r"\]\((\S+\.md)\)", prose(ROOT / "docs" / "README.md"))
    assert sorted({name for name in listed if "/" not in name} - {"index.md"}) == sorted(docs)
    for name in docs:
        assert re.search(
            r"\n---\n\n\[All pages\]\(README\.md\) · Next: \[.+\]\(.+\.md\)\n$", prose(ROOT / "docs" / name)
        ), name


def test_every_picture_is_shown_somewhere() -> None:
    shown = {Path(link).name for page in PAGES for link in re.findall(r"!\[[^\]]*\]\((\S+)\)", prose(page))}
    assert shown == {file.name for file in (ROOT / "docs" / "figures").iterdir()} | {"report.png"}


def test_every_benchmark_is_in_the_list_of_benchmarks() -> None:
    listed = re.findall(r"\]\((\w+\.py)\)", prose(ROOT / "benchmarks" / "README.md"))
    assert sorted(listed) == sorted(file.name for file in (ROOT / "benchmarks").glob("*.py"))


@pytest.mark.slow
def test_making_everything_anew_changes_nothing(tmp_path: Path) -> None:
    for name in ("docs", "benchmarks", "results/study", "results/pacs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "README.md", tmp_path)
    subprocess.run([sys.executable, tmp_path / "docs" / "make_all.py"], check=True)
    for file in [ROOT / "README.md", *(ROOT / "docs").rglob("*")]:
        if file.is_file() and "__pycache__" not in file.parts:
            made = tmp_path / file.relative_to(ROOT)
            assert made.read_bytes() == file.read_bytes(), f"{file.name}: run python docs/make_all.py"


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to a page's headings."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the docs speak of: photos by domain, and a file with an own algorithm."""
    image_folder(tmp_path / "photos", ("daylight", "dusk", "night"), count=12)
    for page in PAGES:
        for block in blocks(page, "python"):
            if named := re.match(r"# (\w+\.py)\n", block):
                (tmp_path / named[1]).write_text(block, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_runs(page: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("snippet")
    monkeypatch.setitem(sys.modules, "snippet", module)  # where classes of the snippet are pickled from
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), vars(module))


EXAMPLES = tomllib.loads((ROOT / "docs" / "examples.toml").read_text(encoding="utf-8"))


def test_every_public_name_has_an_example() -> None:
    assert {*dw.__all__} - {"__version__"} == {*EXAMPLES}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_a_public_name_runs(name: str, workplace: Path) -> None:
    exec(compile(EXAMPLES[name], name, "exec"), {"dw": dw})


COMMANDS = [
    (page.name, line)
    for page in PAGES
    for block in blocks(page, "bash")
    for line in block.replace("\\\n", " ").splitlines()
    if line.startswith("domainwise ")
]


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_commands_are_understood(page: str, line: str, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(line, comments=True)
    if words[1] in ("compare", "run", "reproduce"):
        words.append("--dry-run")
    elif words[1] not in ("algorithms", "--version", "--help"):
        words.append("--help")
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code


def test_the_readme_has_no_blanks_to_fill_in_and_promises_only_what_is_tested() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert not re.findall(r"<(?:this|your|my|the) [^>]*>", text)
    assert "tested on Linux only" in text
    assert "Scripts\\" not in text


def test_the_readmes_diff_of_a_training_loop_trains() -> None:
    (diff,) = blocks(ROOT / "README.md", "diff")
    torch.manual_seed(0)
    x = torch.randn(3, 16, 5)
    batches = list(zip(x, (x.sum(2) > 0).long(), strict=True))
    for sign in "-+":
        program = "\n".join(line[1:] for line in diff.splitlines() if line[:1] in (" ", sign))
        model = nn.Linear(5, 2)
        before = nn.functional.cross_entropy(model(x[0]), batches[0][1]).item()
        exec(program, {"model": model, "loader": [batches] * 300})
        assert nn.functional.cross_entropy(model(x[0]), batches[0][1]).item() < 0.97 * before
