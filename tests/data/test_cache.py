from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_images import noise, noisy_folder
from PIL import Image
from typer.testing import CliRunner

from domainwise.cli import app
from domainwise.data.decoded.cache import cache_folder
from domainwise.data.decoded.cache_entries import clear, entries
from domainwise.data.decoded.features import kept_features
from domainwise.data.domains import Domains
from domainwise.data.sources.open import open_data
from domainwise.errors import InputError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return noisy_folder(tmp_path / "data", ((12, 9), (8, 20)))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def opened(root: Path, cache: Path, **options: Any) -> tuple[Domains, list[str]]:
    """The data, and what was said once it was named: it begins with what is decoded, and is empty where nothing is."""
    said: list[str] = []
    data = open_data(str(root), train_size=16, eval_size=8, cache=cache, say=said.append, **options)
    assert " images in 2 domains (a " in said.pop(0)
    return data, said


def only_entry(cache: Path) -> Path:
    (entry,) = entries(cache)
    return entry.path


def same(one: Domains, other: Domains) -> bool:
    return one.fingerprint == other.fingerprint and all(
        np.array_equal(getattr(a, what), getattr(b, what))
        for a, b in zip(one, other, strict=True)
        for what in ("images", "labels", "evaluation", "shapes")
    )


def test_images_are_decoded_once_and_mapped_afterwards_without_reading_a_file(
    root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, said = opened(root, cache)
    assert len(said) == 1
    assert "8 images are decoded once into" in said[0]
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} was read"))
    again, said = opened(root, cache)
    assert said == []
    assert isinstance(again["a"].images, np.memmap)
    assert same(first, again)


def test_what_is_mapped_is_what_would_have_been_read_into_memory(root: Path, cache: Path) -> None:
    assert same(opened(root, cache)[0], open_data(str(root), train_size=16, eval_size=8))


def test_the_room_it_takes_is_said_before_anything_is_written(root: Path, cache: Path) -> None:
    heard: list[tuple[str, list[Any]]] = []
    open_data(
        str(root),
        size=100,
        cache=cache,
        say=lambda line: heard.append((line, sorted(cache.rglob("*.npy")) + entries(cache))),
    )
    assert heard[1][0].endswith("(0.2 MB)")
    assert heard[1][1] == []
    assert sum(entry.bytes for entry in entries(cache)) == pytest.approx(8 * 100 * 100 * 3, rel=0.02)


def test_mapped_pixels_can_become_tensors_without_a_warning_and_without_touching_the_file(
    root: Path, cache: Path
) -> None:
    import torch

    opened(root, cache)
    before = (only_entry(cache) / "images.npy").read_bytes()
    tensor = torch.from_numpy(opened(root, cache)[0]["a"].images)
    tensor[:] = 0
    assert (only_entry(cache) / "images.npy").read_bytes() == before


def touch(root: Path) -> None:
    os.utime(root / "a" / "cat" / "0.png", ns=(0, 0))


def draw(root: Path, name: str) -> None:
    Image.fromarray(noise((9, 9), 99)).save(root / "a" / "cat" / name)


@pytest.mark.parametrize(
    "change",
    [
        touch,
        lambda root: draw(root, "0.png"),
        lambda root: draw(root, "more.png"),
        lambda root: (root / "a" / "cat" / "0.png").rename(root / "a" / "cat" / "z.png"),
        lambda root: (root / "a" / "cat" / "0.png").unlink(),
    ],
    ids=["time", "content", "another file", "name", "a file less"],
)
def test_a_change_of_the_files_is_noticed_and_the_old_entry_goes(
    root: Path, cache: Path, change: Callable[[Path], object]
) -> None:
    opened(root, cache)
    old = only_entry(cache).name
    change(root)
    data, said = opened(root, cache)
    assert "decoded once" in said[0]
    assert said[1] == f"{old} is removed: the files it was made from have changed"
    assert only_entry(cache).name != old
    assert same(data, open_data(str(root), train_size=16, eval_size=8))


def test_other_sizes_and_other_folders_are_other_entries(root: Path, cache: Path, tmp_path: Path) -> None:
    opened(root, cache)
    open_data(str(root), size=8, cache=cache)
    opened(noisy_folder(tmp_path / "elsewhere" / "data"), cache)
    assert len(entries(cache)) == 3


def zero(path: Path, start: int, length: int) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(bytes(length))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "array truncated": lambda entry: os.truncate(entry / "images.npy", 3000),
    "array emptied": lambda entry: os.truncate(entry / "evaluation.npy", 0),
    "header": lambda entry: zero(entry / "images.npy", 0, 10),
    "tail lost": lambda entry: zero(entry / "images.npy", (entry / "images.npy").stat().st_size - 600, 600),
    "array missing": lambda entry: (entry / "labels.npy").unlink(),
    "about.json is no JSON": lambda entry: (entry / "about.json").write_text("{"),
    "about.json is another JSON": lambda entry: (entry / "about.json").write_text("[]"),
    "about.json missing": lambda entry: (entry / "about.json").unlink(),
    "about.json changed": lambda entry: (entry / "about.json").write_text(
        (entry / "about.json").read_text().replace('"cat"', '"cow"')
    ),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_entry_is_told_of_and_made_anew(root: Path, cache: Path, damage: Callable[[Path], object]) -> None:
    opened(root, cache)
    damage(only_entry(cache))
    with pytest.warns(UserWarning, match=r"what was kept in .* is damaged \(.*\): the images are decoded anew"):
        data, said = opened(root, cache)
    assert "decoded once" in said[0]
    assert same(data, open_data(str(root), train_size=16, eval_size=8))
    assert opened(root, cache)[1] == []


def test_a_cache_that_cannot_be_made_is_no_reason_to_stop(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.warns(UserWarning, match=r"cannot be kept in .*/file/cache \(Not a directory\), but only in memory"):
        data, _ = opened(root, tmp_path / "file" / "cache")
    assert not isinstance(data["a"].images, np.memmap)
    assert same(data, open_data(str(root), train_size=16, eval_size=8))


def test_too_little_room_is_known_before_anything_is_written(
    root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("", (), {"free": 3000})())
    with pytest.warns(UserWarning, match=r"\(0\.0 MB are needed and 0\.0 MB are free\), but only in memory"):
        opened(root, cache)
    assert entries(cache) == []


# With a limit on the size of a file, a write fails in the middle as it does when a disk is full.
LIMITED = """
import resource, sys, warnings
from domainwise.data.sources.open import open_data
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    data = open_data(sys.argv[1], size=64, cache=sys.argv[2])
print(data.fingerprint, *(str(warning.message) for warning in caught))
"""


def python(program: str, *arguments: object) -> str:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=300).stdout


@pytest.mark.skipif(sys.platform == "win32", reason="has no limits on the size of files")
def test_a_write_that_fails_in_the_middle_leaves_nothing_behind(root: Path, cache: Path) -> None:
    told = python(LIMITED, root, cache)
    assert told.startswith(open_data(str(root)).fingerprint)
    assert "(File too large), but only in memory" in told
    assert [path.name for path in cache.iterdir() if not path.name.endswith(".lock")] == []


COMPETING = """
import sys
from pathlib import Path
from domainwise.data.sources.open import open_data
said = []
data = open_data(sys.argv[1], size=32, cache=sys.argv[2], say=said.append)
print(data.fingerprint, data["a"].images.sum(), sum("decoded once" in line for line in said))
"""


def test_of_several_processes_one_decodes_and_all_get_the_same(tmp_path: Path, cache: Path) -> None:
    root = noisy_folder(tmp_path / "many", ((60, 40), *((9, i) for i in range(5, 60))))
    command = [sys.executable, "-c", COMPETING, str(root), str(cache)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    told = [process.communicate(timeout=300)[0].split() for process in running]
    assert [process.returncode for process in running] == [0] * 4
    assert len({tuple(words[:2]) for words in told}) == 1
    assert sum(int(words[2]) for words in told) == 1
    assert [path for path in cache.iterdir() if not path.name.endswith(".lock")] == [only_entry(cache)]


def test_where_nothing_can_be_locked_the_first_one_to_end_counts(
    root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*arguments: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", unsupported)
    made: list[Domains] = []

    def meanwhile(done: int, total: int) -> None:
        if not made:
            made.append(opened(root, cache)[0])

    data, _ = opened(root, cache, progress=meanwhile)
    assert same(data, made[0])
    assert data.home == made[0].home
    assert [path for path in cache.iterdir() if not path.name.endswith(".lock")] == [only_entry(cache)]


KILLED = """
import os, signal, sys
from domainwise.data.sources.open import open_data
open_data(sys.argv[1], size=32, cache=sys.argv[2], progress=lambda done, total: os.kill(os.getpid(), signal.SIGKILL))
"""


def test_what_a_killed_process_left_is_never_taken_for_an_entry_and_is_removed(root: Path, cache: Path) -> None:
    end = subprocess.run([sys.executable, "-c", KILLED, str(root), str(cache)], check=False, timeout=300)
    assert end.returncode == -signal.SIGKILL
    assert len([path for path in cache.iterdir() if path.is_dir()]) == 1
    assert entries(cache) == []
    data = open_data(str(root), size=32, cache=cache)
    assert data.fingerprint == open_data(str(root)).fingerprint
    assert [path for path in cache.iterdir() if path.is_dir()] == [only_entry(cache)]


def test_an_interruption_leaves_nothing_behind(root: Path, cache: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        opened(root, cache, progress=interrupt)
    assert [path for path in cache.iterdir() if path.is_dir()] == []


def test_corrupt_files_are_remembered_with_the_entry(root: Path, cache: Path) -> None:
    (root / "a" / "cat" / "bad.png").write_bytes(b"no image")
    with pytest.raises(InputError, match=r'"a/cat/bad.png" cannot be read as an image .*--skip-corrupt'):
        opened(root, cache)
    assert entries(cache) == []
    for expected in (1, 0):
        with pytest.warns(UserWarning, match=r'1 file\(s\) cannot be read .* left out: "a/cat/bad.png"'):
            data, said = opened(root, cache, skip_corrupt=True)
        assert len(said) == expected
        assert len(data["a"]) == 4
    with pytest.raises(InputError, match=r'"a/cat/bad.png" cannot be read as an image .*--skip-corrupt'):
        opened(root, cache)


def test_saving_what_is_mapped_copies_nothing(root: Path, cache: Path, tmp_path: Path) -> None:
    data, _ = opened(root, cache)
    data.save(tmp_path / "parked")
    assert (tmp_path / "parked" / "images.npy").samefile(only_entry(cache) / "images.npy")
    clear(cache)
    assert same(Domains.open(tmp_path / "parked"), open_data(str(root), train_size=16, eval_size=8))


def test_originals_of_different_sizes_are_saved_whole(root: Path, tmp_path: Path) -> None:
    data = open_data(str(root), train_size="original", eval_size=8)
    data.save(tmp_path / "parked")
    again = Domains.open(tmp_path / "parked")
    assert all(np.array_equal(a, b) for a, b in zip(data["b"].originals, again["b"].originals, strict=True))


def test_the_list_says_what_an_entry_is_and_where_it_came_from(root: Path, cache: Path) -> None:
    opened(root, cache)
    (entry,) = entries(cache)
    assert entry.name.startswith("data-")
    assert entry.source == str(root.resolve())
    assert (entry.domains, entry.images, entry.sizes) == (("a", "b"), 8, "16+8")
    assert entry.bytes == sum(file.stat().st_size for file in entry.path.iterdir())
    assert entry.created == pytest.approx(time.time(), abs=60)
    (entry.path / "about.json").write_text("{")
    assert entries(cache)[0].created is None


def test_entries_are_cleared_by_name_or_all_together(root: Path, cache: Path, tmp_path: Path) -> None:
    opened(root, cache)
    opened(noisy_folder(tmp_path / "other"), cache)
    with pytest.raises(InputError, match=r'"othr" is not in the cache .*: did you mean other\?'):
        clear(cache, "othr")
    assert [entry.name[:6] for entry in clear(cache, "other")] == ["other-"]
    assert len(entries(cache)) == 1
    clear(cache)
    assert list(cache.iterdir()) == []
    with pytest.raises(InputError, match="it is empty"):
        clear(cache, "other")


def test_clearing_removes_nothing_that_is_not_ours(root: Path, cache: Path) -> None:
    opened(root, cache)
    foreign = [cache / "photos-0123456789ab", cache / "notes", cache / ".mine-0123456789ab.01234567"]
    for folder in foreign:
        folder.mkdir()
        (folder / "mine.txt").touch()
    (cache / "thesis.txt").touch()
    assert len(clear(cache)) == 1
    assert sorted(cache.iterdir()) == sorted([*foreign, cache / "thesis.txt"])


@pytest.mark.parametrize(
    ("variables", "given", "expected"),
    [
        ({}, "/given", "/given"),
        ({"DOMAINWISE_CACHE": "/ours"}, "/given", "/given"),
        ({"DOMAINWISE_CACHE": "/ours", "XDG_CACHE_HOME": "/xdg"}, None, "/ours"),
        ({"XDG_CACHE_HOME": "/xdg"}, None, "/xdg/domainwise"),
        ({"XDG_CACHE_HOME": "relative"}, None, "/home/me/.cache/domainwise"),
        ({"DOMAINWISE_CACHE": "~/ours"}, None, "/home/me/ours"),
        ({}, None, "/home/me/.cache/domainwise"),
    ],
)
def test_the_folder_is_as_given_or_as_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], given: str | None, expected: str
) -> None:
    for name in ("DOMAINWISE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/me", **variables}.items():
        monkeypatch.setenv(name, value)
    assert cache_folder(given) == Path(expected)


def test_any_name_makes_an_entry_that_a_file_system_takes(tmp_path: Path, cache: Path) -> None:
    for name in ("日本", "a" * 250, "-rf ..", "."):
        root = noisy_folder(tmp_path / "sub" / name / ("x" if name == "." else ""))
        open_data(str(root), size=4, cache=cache)
    assert len(entries(cache)) == 4
    assert all(len(entry.name) <= 53 for entry in entries(cache))


def test_about_json_has_no_absolute_path_but_the_source(root: Path, cache: Path) -> None:
    opened(root, cache)
    facts = json.loads((only_entry(cache) / "about.json").read_text())
    assert facts.pop("source") == str(root.resolve())
    assert str(root) not in json.dumps(facts)


def test_features_are_counted_apart_and_go_with_the_images_that_they_are_of(root: Path, cache: Path) -> None:
    data, _ = opened(root, cache)
    made_of = {"network": "small", "input_size": 8}

    def rows() -> Iterator[np.ndarray]:
        yield np.ones((8, 3), np.float32)

    for one in (data, replace(data, fingerprint="of other images")):
        kept_features(one, {**made_of, "fingerprint": one.fingerprint}, rows, cache, print)
    assert [entry.features for entry in entries(cache)].count(True) == 2
    shown = CliRunner().invoke(app, ["cache", "list", "--cache", str(cache)]).stdout
    assert "1 data sets and features of 2, 0.0 MB, in" in shown
    draw(root, "0.png")
    changed, said = opened(root, cache)
    assert [line.partition(" is removed: ")[2] for line in said if "removed" in line] == [
        "the files it was made from have changed",
        "the files it was made from have changed",
    ]
    left = [next(iter(entry.made)) for entry in entries(cache)]
    assert sorted(left) == sorted([changed.fingerprint, "of other images"])
