from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import typer
from made_folders import draw, made
from made_images import benchmark_folder, noisy_folder
from PIL import Image
from typer.testing import CliRunner

from domainwise.cli.commands import cache as cache_command
from domainwise.cli.commands.inspect import inspect
from domainwise.data.inspect import Survey, survey
from domainwise.data.sources.folders import folders
from domainwise.data.sources.open import find_source, open_data
from domainwise.errors import InputError

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command in an empty folder: (exit code, standard output); a user's mistake is raised."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    app = typer.Typer()
    app.command()(inspect)
    app.add_typer(cache_command.app)

    def call(*arguments: object) -> tuple[int, str]:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
        return result.exit_code, result.stdout

    return call


def looked(root: Path | str) -> Survey:
    return survey(find_source(str(root)))


def test_images_are_counted_by_domain_and_class(tmp_path: Path) -> None:
    root = made(tmp_path)
    draw(root / "b" / "dog" / "1.png")
    assert looked(root).counts == {"a": {"cat": 1, "dog": 1}, "b": {"cat": 1, "dog": 2}}


def test_a_class_that_a_domain_lacks_is_a_finding_and_no_error(tmp_path: Path, run: Run) -> None:
    root = made(tmp_path)
    shutil.rmtree(root / "b" / "dog")
    assert looked(root).missing == [("b", "dog")]
    code, out = run("inspect", root)
    assert code == 0
    assert 'missing: domain "b" has no "dog"' in out


def test_corrupt_files_are_all_listed_and_not_counted(tmp_path: Path, run: Run) -> None:
    root = made(tmp_path)
    for i in range(25):
        (root / "a" / "cat" / f"bad{i:02d}.png").write_bytes(b"x" * i)
    surveyed = looked(root)
    assert len(surveyed.corrupt) == 25
    assert surveyed.counts["a"]["cat"] == 1
    assert surveyed.to_json()["corrupt"][0] == {"file": "a/cat/bad00.png", "reason": "it is empty"}
    code, out = run("inspect", root)
    assert code == 0
    assert "25 corrupt:\n  a/cat/bad00.png (it is empty)\n" in out
    assert "bad24" not in out
    assert "... and 5 more" in out


def test_files_of_the_same_content_are_found_across_and_within_domains(tmp_path: Path, run: Run) -> None:
    root = made(tmp_path)
    shutil.copy(root / "a" / "cat" / "0.png", root / "a" / "cat" / "1.png")
    shutil.copy(root / "a" / "dog" / "0.png", root / "b" / "cat" / "1.png")
    assert looked(root).duplicates == {
        "across": [["a/dog/0.png", "b/cat/1.png"]],
        "within": [["a/cat/0.png", "a/cat/1.png"]],
        "contradicting": [["a/dog/0.png", "b/cat/1.png"]],
    }
    out = run("inspect", root)[1]
    assert "1 duplicates across domains:\n  a/dog/0.png = b/cat/1.png\n" in out
    assert "1 duplicates in different classes:" in out


def test_sizes_and_modes_are_told(tmp_path: Path, run: Run) -> None:
    root = noisy_folder(tmp_path / "data", ((10, 20), (12, 20), (30, 21)))
    Image.new("L", (20, 10)).save(root / "a" / "cat" / "grey.png")
    surveyed = looked(root)
    assert surveyed.sizes == {
        "distinct": 3,
        "height": {"min": 10, "median": 12, "max": 30},
        "width": {"min": 20, "median": 20, "max": 21},
    }
    assert surveyed.modes == {"RGB": 12, "L": 1}
    out = run("inspect", root)[1]
    assert "sizes: 3 distinct; height min / median / max 10 / 12 / 30, width 20 / 20 / 21\nmodes: RGB 12, L 1\n" in out


def test_the_fingerprint_is_that_of_the_data_without_its_corrupt_files(tmp_path: Path) -> None:
    root = made(tmp_path)
    assert looked(root).fingerprint == folders(root).fingerprint
    (root / "a" / "cat" / "bad.png").touch()
    with pytest.warns(UserWarning, match="left out"):
        assert looked(root).fingerprint == folders(root, skip_corrupt=True).fingerprint


def test_a_benchmark_is_recognised_and_compared_with_the_published_numbers(tmp_path: Path, run: Run) -> None:
    root = benchmark_folder(tmp_path / "mine", ("art_painting", "cartoon", "photo", "sketch"), classes=7)
    for text in (root, f"pacs={root}"):
        surveyed = looked(text)
        assert surveyed.benchmark is not None
        assert surveyed.benchmark.name == "pacs"
        assert "sketch has 7 images (published: 3,929)" in surveyed.difference
        assert run("inspect", text)[1].count("published: 3,929") == 1
    assert looked(made(tmp_path)).to_json()["benchmark"] is None


def test_embedded_data_can_be_looked_at_too(run: Run) -> None:
    code, out = run("inspect", "digits")
    assert code == 0
    assert "digits: 1,797 images in 6 domains" in out
    assert "benchmark: digits, with as many images as published" in out
    assert Path("domainwise-inspect.png").is_file()


def test_a_manifest_can_be_looked_at_too(tmp_path: Path) -> None:
    root = made(tmp_path)
    lines = [f"{domain}/{kind}/0.png,{domain},{kind}" for domain in "ab" for kind in ("cat", "dog")]
    (root / "t.csv").write_text("\n".join(["path,domain,label", *lines]))
    assert looked(root / "t.csv").counts == looked(root).counts
    assert looked(root / "t.csv").fingerprint == open_data(str(root / "t.csv")).fingerprint


def test_json_is_all_that_is_printed_where_it_is_asked_for(tmp_path: Path, run: Run) -> None:
    code, out = run("inspect", made(tmp_path), "--format", "json")
    assert code == 0
    facts = json.loads(out)
    assert facts["counts"]["a"] == {"cat": 1, "dog": 1}
    assert facts["images"] == 4


@pytest.mark.parametrize("content", [[], ["a/cat/0.png"], ["x.png"]])
def test_what_is_no_data_at_all_is_refused(tmp_path: Path, run: Run, content: list[str]) -> None:
    for name in content:
        draw(tmp_path / "bad" / name)
    with pytest.raises(InputError):
        run("inspect", tmp_path / "bad")


def test_names_are_printed_as_they_are_but_for_what_would_command_the_terminal(tmp_path: Path, run: Run) -> None:
    code, out = run("inspect", made(tmp_path, ("[bold]x", "été \x1b[2J"), ("[red]", "日本")))
    assert code == 0
    assert "[bold]x" in out
    assert r"été \x1b[2J" in out
    assert "[red]" in out
    assert "日本" in out


def test_the_picture_has_every_domain_in_a_row_and_every_class_in_a_column(tmp_path: Path, run: Run) -> None:
    root = made(tmp_path, ("a", "b"), ("cat", "dog", "emu"))
    (root / "b" / "emu" / "0.png").write_bytes(b"corrupt")
    run("inspect", root, "--picture", "grid.png")
    page = np.asarray(Image.open("grid.png").convert("RGB")).astype(int)
    cell = (page.shape[0] - 24) // 2
    for i in range(2):
        for j in range(3):
            middle = page[24 + cell * i + 30, 130 + cell * j + 30]
            expected = (255, 255, 255) if (i, j) == (1, 2) else (40 * i, 40 * j, 200)
            assert np.abs(middle - expected).max() < 3, (i, j)


def test_a_picture_of_very_many_classes_stays_within_bounds(tmp_path: Path, run: Run) -> None:
    root = benchmark_folder(tmp_path / "many", [f"domain {i}" for i in range(30)], classes=20)
    run("inspect", root, "--picture", "grid.png")
    with Image.open("grid.png") as page:
        assert page.width < 2000
        assert page.height < 4000


def test_no_picture_is_drawn_where_none_is_wanted(tmp_path: Path, run: Run) -> None:
    run("inspect", made(tmp_path), "--no-picture")
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("grid.jpg", "the picture is a PNG"),
        ("own.jpg/p.png", 'cannot write "own.jpg/p.png": "own.jpg" is not a folder'),
    ],
)
def test_a_picture_that_cannot_be_written_is_refused(tmp_path: Path, run: Run, name: str, sentence: str) -> None:
    Path("own.jpg").touch()
    with pytest.raises(InputError, match=sentence):
        run("inspect", made(tmp_path), "--picture", name)


def test_the_cache_is_listed_and_cleared_from_the_command_line(tmp_path: Path, run: Run) -> None:
    cache = tmp_path / "cache"
    root = made(tmp_path)
    open_data(str(root), size=8, cache=cache)
    code, out = run("cache", "list", "--cache", cache)
    assert code == 0
    assert all(word in out for word in ("data-", "a, b", "4 at 8", "seconds", "1 data sets", str(root)))
    with pytest.raises(InputError, match="say which one to clear"):
        run("cache", "clear", "--cache", cache)
    assert "removed 1 data sets" in run("cache", "clear", "data", "--cache", cache)[1]
    assert "0 data sets, 0.0 MB, in" in run("cache", "list", "--cache", cache)[1]
    assert "removed 0 data sets" in run("cache", "clear", "--all", "--cache", cache)[1]


def test_names_with_line_breaks_are_drawn_and_told_in_one_line(tmp_path: Path, run: Run) -> None:
    code, out = run("inspect", made(tmp_path, ("a\nb", "c"), ("x\ty", "z")), "--picture", "grid.png")
    assert code == 0
    assert r"a\nb" in out
    assert Path("grid.png").exists()
