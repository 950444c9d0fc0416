"""A state comes back as it was, or not at all."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings, strategies as st

from domainwise import InputError
from domainwise.training import checkpoint_files as files
from domainwise.training.checkpoint_files import Damaged, flatten, load, save, saved, unflatten
from domainwise.training.checkpoints import Checkpoints, Resumed

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
TENSORS = st.builds(
    lambda shape, dtype: torch.arange(math.prod(shape)).reshape(shape).to(dtype),
    st.lists(st.integers(0, 3), max_size=3),
    st.sampled_from(DTYPES),
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | TEXT | TENSORS
STATES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.sampled_from(["a", "b", "a.b", "a'", "tensor", "dict"]) | st.integers(), inner, max_size=3)
    ),
    max_leaves=12,
)


def same(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b) and a.stride() == b.stride()
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b or (a != a and b != b)


@given(STATES)
@settings(max_examples=60, deadline=None)
def test_any_nested_state_comes_back_as_it_was(state: object) -> None:
    structure, tensors = flatten(state)
    assert same(unflatten(json.loads(json.dumps(structure, allow_nan=False)), tensors), state)


@pytest.fixture
def state() -> dict[str, object]:
    """With an optimizer that has made a step, a generator, and tensors that share memory or lie in an unusual way."""
    weight = torch.nn.Parameter(torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last))
    adam = torch.optim.Adam([weight])
    weight.sum().backward()
    adam.step()
    tied = torch.ones(3)
    return {"adam": adam.state_dict(), "generator": torch.Generator().get_state(), "tied": [tied, tied], "w": weight}


def test_a_file_gives_back_values_layout_and_shared_tensors(tmp_path: Path, state) -> None:
    found = load(save(tmp_path, 12, state, {"seconds": 1.5}))
    assert (found.step, found.about) == (12, {"seconds": 1.5})
    assert same(found.state, {**state, "w": state["w"].detach()})
    assert found.state["adam"]["state"][0]["exp_avg"].is_contiguous(memory_format=torch.channels_last)


def test_it_is_safetensors_and_json_and_nothing_else(tmp_path: Path, state) -> None:
    path = save(tmp_path, 1, state, {})
    assert sorted(file.name for file in path.iterdir()) == ["state.json", "state.safetensors"]
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint-00000001"]


@pytest.mark.parametrize("name", ["state.json", "state.safetensors"])
@pytest.mark.parametrize("how", ["cut", "changed", "missing", "empty"])
def test_damage_is_noticed(tmp_path: Path, state, name: str, how: str) -> None:
    file = save(tmp_path, 1, state, {"seconds": 1.0}) / name
    whole = file.read_bytes()
    middle = len(whole) - 30
    changed = {"cut": whole[:-10], "changed": whole[:middle] + b"7" + whole[middle + 1 :], "empty": b""}
    assert changed.get(how) != whole
    file.unlink() if how == "missing" else file.write_bytes(changed[how])
    with pytest.raises(Damaged, match="checkpoint-00000001"):
        load(file.parent)


def test_another_format_is_refused_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path, 1, {}, {})
    monkeypatch.setattr(files, "FORMAT", 2)
    with pytest.raises(InputError, match="is of format 1, and this version of domainwise reads format 2"):
        load(path)


def test_what_cannot_be_kept_is_named() -> None:
    with pytest.raises(InputError, match=r"state.memory.seen is of type set, which a checkpoint cannot hold"):
        flatten({"memory": {"seen": {1, 2}}})


def test_a_checkpoint_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "sync", full)
    with pytest.raises(OSError, match="No space left"):
        save(tmp_path, 1, {"a": torch.ones(2)}, {})
    assert not list(tmp_path.iterdir())


class Counter:
    def __init__(self) -> None:
        self.value = 0

    def state_dict(self) -> dict[str, object]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, object]) -> None:
        self.value = state["value"]


def counted(folder: Path, upto: int, **options: object) -> tuple[int, list[str]]:
    """Count and save at every step, from what is there on; where that was, and what was said."""
    said: list[str] = []
    counter = Counter()
    checkpoints = Checkpoints(folder, every=1, journals=("log",), say=said.append, **options)
    start = checkpoints.find()
    if isinstance(start, Resumed):
        start.cut_journals(folder)
    else:
        checkpoints.clear()
        (folder / "log").write_text("")
    start.restore({"counter": counter})
    assert counter.value == start.step
    for updates in range(start.step + 1, upto + 1):
        counter.value += 1
        with (folder / "log").open("a") as log:
            log.write(f"{counter.value}\n")
        if checkpoints.due(updates, evaluated=False):
            checkpoints.save(updates, {"counter": counter}, seconds=1.0)
    checkpoints.settle()
    return start.step, said


def test_two_are_kept_and_the_one_before_serves_where_the_newest_is_damaged(tmp_path: Path) -> None:
    counted(tmp_path, 5)
    newest, before = saved(tmp_path)
    (newest / "state.json").write_text("{")
    first, said = counted(tmp_path, 6)
    assert first == 4
    assert [f"{newest} cannot be read" in said[0], said[1]] == [True, "resumes at step 4"]
    assert (tmp_path / "log").read_text() == "1\n2\n3\n4\n5\n6\n"
    for path in saved(tmp_path):
        (path / "state.safetensors").unlink()
    assert counted(tmp_path, 2)[0] == 0
    assert before.name == "checkpoint-00000004"


def test_a_journal_shorter_than_it_was_makes_a_checkpoint_useless(tmp_path: Path) -> None:
    counted(tmp_path, 5)
    (tmp_path / "log").write_text("1\n2\n3\n4\n")
    first, said = counted(tmp_path, 5)
    assert first == 4
    assert "of a longer log than there is" in said[0]


def test_what_a_killed_write_left_behind_is_cleared_away(tmp_path: Path) -> None:
    counted(tmp_path, 3)
    shutil.copytree(saved(tmp_path)[0], tmp_path / ".checkpoint-4.123")
    assert counted(tmp_path, 3)[0] == 3
    assert not list(tmp_path.glob(".checkpoint*"))


def test_another_identity_is_refused_other_choices_start_again_and_circumstances_are_named(tmp_path: Path) -> None:
    counted(tmp_path, 3, identity={"seed": 0}, choices={"average": "none"}, circumstances={"torch": "2.11"})
    with pytest.raises(InputError, match="is the checkpoint of another trial: seed was 0 and is 1"):
        counted(tmp_path, 3, identity={"seed": 1})
    first, said = counted(tmp_path, 3, identity={"seed": 0}, choices={"average": "none"}, circumstances={"torch": "3"})
    assert first == 3
    assert "last digits from those of an undisturbed run: torch was 2.11 and is 3" in said[0]
    first, said = counted(tmp_path, 3, identity={"seed": 0}, choices={"average": "swad"})
    assert first == 0
    assert "average was none and is swad" in said[0]


def test_saving_takes_a_small_share_of_the_time_and_loses_a_minute_at_most(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)

    def due(ago: float, cost: float, evaluated: bool) -> bool:
        checkpoints.last -= ago
        checkpoints.cost = cost
        answer = checkpoints.due(1, evaluated)
        checkpoints.last += ago
        return answer

    assert not due(1, 0, True)
    assert due(10, 0.1, True)
    assert not due(10, 2, True)
    assert not due(50, 0.1, False)
    assert due(61, 100, False)


@pytest.mark.skipif(os.name == "nt", reason="there are no such limits")
def test_a_disk_that_takes_no_more_is_an_error_of_the_system_whoever_writes(tmp_path: Path) -> None:
    """What the library says for itself is another kind of error, which would end a trial."""
    script = (
        "import resource, sys, torch; from pathlib import Path\n"
        "from domainwise.networks.weight_files import save_tensors\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: save_tensors({'a': torch.ones(10000)}, Path(sys.argv[1]))\n"
        "except OSError as error: print(error.errno)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "a.safetensors")]
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    assert found.stdout == f"{errno.EFBIG}\n"
