"""Images that are read from the disk ahead of their use are those that would have been in memory."""

from __future__ import annotations

import errno
import gc
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from made_images import noisy_folder

import domainwise as dw
from domainwise import machine
from domainwise.algorithms import parse
from domainwise.data.batches.feed import Feed, batches
from domainwise.data.batches.inputs import Inputs, Part
from domainwise.data.decoded import read_ahead
from domainwise.data.decoded.array_files import opened
from domainwise.data.decoded.read_ahead import Fetch, ahead, in_order, source_of
from domainwise.data.domains import Domains
from domainwise.data.sources.open import open_data
from domainwise.experiment.settings import resolve
from domainwise.machine import _memory_limits
from domainwise.training.loop import run
from domainwise.training.plan import plan


@pytest.fixture
def on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Domains:
    """Images that are mapped, and taken for more than the memory can hold."""
    monkeypatch.setattr(read_ahead, "SHARE", 0)
    root = noisy_folder(tmp_path / "data", [(12 + i, 9) for i in range(20)])
    return open_data(str(root), train_size=16, eval_size=8, cache=tmp_path / "cache")


def in_memory(data: Domains) -> Domains:
    items = [replace(domain, images=np.array(domain.images), evaluation=np.array(domain.evaluation)) for domain in data]
    return replace(data, items=tuple(items), home=None)


def parts(data: Domains) -> list[Part]:
    rows = [np.random.default_rng(i).permutation(len(domain))[:30] for i, domain in enumerate(data)]
    return [Part(domain, chosen, "cpu") for domain, chosen in zip(data, rows, strict=True)]


def feed(data: Domains, **options: bool) -> Feed:
    return Feed(parts(data), Inputs("domainbed", 8), batch=5, seed=3, **options)


def tensors(drawn: list) -> list[torch.Tensor]:
    return [tensor for one in drawn for pair in (one if isinstance(one, list) else [one]) for tensor in pair]


def assert_equal(one: list, other: list) -> None:
    for a, b in zip(tensors(one), tensors(other), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("options", [{}, {"balanced": True}, {"pooled": True}])
def test_minibatches_from_the_disk_are_those_from_memory(on_disk: Domains, options: dict[str, bool]) -> None:
    disk, memory = feed(on_disk, **options), feed(in_memory(on_disk), **options)
    assert disk.many >= read_ahead.BATCHES
    assert memory.many == 0
    for times in (1, 1, 1, 2, 2, 1):
        assert_equal(disk.draw(times), memory.draw(times))


def test_a_feed_that_has_drawn_ahead_goes_on_where_its_state_was_saved(on_disk: Domains) -> None:
    disk, memory = feed(on_disk), feed(in_memory(on_disk))
    for one in (disk, memory):
        one.draw()
        one.draw()
    state = disk.state_dict()
    assert all(torch.equal(a, b) for a, b in zip(state["sampling"], memory.state_dict()["sampling"], strict=True))
    after = [memory.draw() for _ in range(3)]
    for again in (feed(on_disk), feed(in_memory(on_disk)), disk):
        again.draw()
        again.load_state_dict(state)
        for expected in after:
            assert_equal(again.draw(), expected)


@pytest.mark.parametrize("augmented", [False, True])
def test_an_evaluation_from_the_disk_is_that_from_memory(
    on_disk: Domains, monkeypatch: pytest.MonkeyPatch, augmented: bool
) -> None:
    monkeypatch.setattr("domainwise.data.batches.feed.EVALUATION_BATCH", 7)
    found = []
    for data in (on_disk, in_memory(on_disk)):
        inputs, generator = Inputs("domainbed", 8), torch.Generator().manual_seed(0) if augmented else None
        found.append([batch for part in parts(data) for batch in batches(part, inputs, generator)])
    assert_equal(*found)
    assert sum(len(y) for _, y in found[0]) == 60


def test_a_row_is_found_at_its_place_in_the_file(on_disk: Domains) -> None:
    for domain in on_disk:
        for array in (domain.images, domain.evaluation, domain.images[3:]):
            rows = [5, 0, 5, 11]
            assert np.array_equal(Fetch(source_of(array), rows).result(), array[rows])
            assert np.array_equal(np.concatenate([*in_order(array, 3)]), array)


def test_a_run_on_images_from_the_disk_is_that_on_images_in_memory(on_disk: Domains) -> None:
    settings = resolve(given={"network": "small", "steps": 3, "batch": 4, "input_size": 8, "train_size": 16})
    (trial,) = plan(on_disk, parse("arith"), [("b",)], [0], settings, "none")
    said: list[str] = []
    disk, memory = list(run(trial, on_disk, say=said.append)), list(run(trial, in_memory(on_disk)))
    assert [record["domains"] for record in disk] == [record["domains"] for record in memory]
    assert "read from the disk ahead of their use" in said[0]


def test_tokens_and_signals_from_the_disk_are_those_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_ahead, "SHARE", 0)
    random, labels = np.random.default_rng(0), [0, 1] * 20
    tokens = {"input_ids": random.integers(0, 99, (40, 7)), "attention_mask": random.integers(0, 2, (40, 7))}
    for what in (tokens, random.normal(size=(40, 3, 11)).astype(np.float32)):
        memory = dw.domains({"a": (what, labels), "b": (what, labels)}, name="made")
        memory.save(tmp_path / str(type(what)))
        disk = Domains.open(tmp_path / str(type(what)))
        rows = np.arange(40)[::-1].copy()
        drawn = []
        for data in (memory, disk):
            feed = Feed([Part(domain, rows, "cpu") for domain in data], Inputs("none", 0), batch=6, seed=1)
            drawn.append([feed.draw() for _ in range(4)])
        assert feed.many
        for one, other in zip(*drawn, strict=True):
            for (x, y), (expected, targets) in zip(one, other, strict=True):
                assert torch.equal(y, targets)
                for name in x if isinstance(x, dict) else [...]:
                    assert torch.equal(x[name], expected[name])


def test_what_was_opened_is_read_although_its_folder_is_gone(on_disk: Domains) -> None:
    expected = np.array(on_disk["b"].images)
    for file in on_disk.home.iterdir():
        file.unlink()
    assert np.array_equal(Fetch(source_of(on_disk["b"].images), range(len(expected))).result(), expected)


def test_a_file_is_closed_with_the_last_array_that_is_mapped_from_it(on_disk: Domains) -> None:
    images = Domains.open(on_disk.home)["a"].images[2:]
    file = opened(images).file
    os.fstat(file)
    del images
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file)


def test_an_error_of_the_disk_is_the_error_of_whoever_needs_the_rows(
    on_disk: Domains, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "preadv", failing)
    with pytest.raises(OSError, match="Input/output error"):
        feed(on_disk).draw()
    monkeypatch.setattr(os, "preadv", lambda *_: 3)  # a file that was cut short
    with pytest.raises(OSError, match="Input/output error"):
        feed(on_disk).draw()


def test_only_files_that_are_large_for_this_memory_are_read_ahead(
    on_disk: Domains, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = on_disk["a"].images
    size = (on_disk.home / "images.npy").stat().st_size
    for share, read in ((0.25, True), (0.26, False)):
        monkeypatch.setattr(read_ahead, "SHARE", share)
        monkeypatch.setattr(read_ahead, "total_memory", lambda: 4 * (size - 1))
        assert (source_of(images) is not None) == read
    assert source_of(np.array(images)) is None
    assert source_of(images[:, ::2]) is None


@pytest.mark.parametrize(("count", "taken"), [(0, [1, 2, 3]), (1, [2, 3, 3]), (2, [3, 3, 3]), (9, [3, 3, 3])])
def test_never_more_is_taken_ahead_than_was_asked_for(count: int, taken: list[int]) -> None:
    seen: list[int] = []
    items: Callable[[], object] = lambda: (seen.append(i) or i for i in range(3))  # noqa: E731
    assert [(item, len(seen)) for item in ahead(items(), count)] == list(zip(range(3), taken, strict=True))


def test_the_memory_of_a_container_is_the_least_that_any_group_around_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups, outer = tmp_path / "cgroup", tmp_path / "memory" / "job"
    groups.write_text("9:cpu,memory:/job/step\n1:name=systemd:/job\n0::/unit\n")
    (outer / "step").mkdir(parents=True)
    (tmp_path / "unit").mkdir()
    (tmp_path / "unit" / "memory.max").write_text("max\n")
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    (outer / "step" / "memory.limit_in_bytes").write_text("5000\n")
    (outer / "memory.limit_in_bytes").write_text("4000\n")
    monkeypatch.setattr(machine, "_memory_limits", lambda: _memory_limits(groups, tmp_path))
    assert machine.total_memory() == 4000
    (tmp_path / "unit" / "memory.max").write_text("3000\n")
    assert machine.total_memory() == 3000
