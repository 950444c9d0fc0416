"""Whatever is given to a command or to a public function ends well or with a sentence, and writes nowhere else."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_odd import ODD, Command, Sandbox, commands, values

import domainwise as dw
from domainwise import InputError

LIMIT = 60.0  # seconds: far more than any of them needs
SHARE = 2  # of the options, one in so many is tried in the quick campaign
LONG = ("demo", "surface", "balance", "bench", "fit")  # what they do not refuse they do for seconds


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    root = tmp_path_factory.mktemp("odd")
    with pytest.MonkeyPatch.context() as patch:
        for name, folder in {"HOME": "home", "DOMAINWISE_CACHE": "cache", "TMPDIR": "temporary"}.items():
            (root / folder).mkdir()
            patch.setenv(name, str(root / folder))
        patch.setenv("MPLCONFIGDIR", str(root / "cache"))
        yield Sandbox(root)


def tried(sandbox: Sandbox, command: Command, odd: dict[str, str]) -> str:
    """What is wrong with how it ended, if anything is."""
    line = command.line(odd)
    end = sandbox.run(line)
    sandbox.tidy()
    slow = f"it took {end.seconds:.0f} s" if end.seconds > LIMIT else ""
    stray = f"it wrote {sorted(sandbox.strays())}" if sandbox.strays() else ""
    trouble = "; ".join(filter(None, [end.trouble, slow, stray]))
    return f"{[word[:80] for word in line]}: {trouble}" if trouble else ""


NAMES = [command.name for command in commands()]


def test_every_option_of_every_command_bears_an_odd_value(sandbox: Sandbox) -> None:
    """One for each, which is mostly refused at once; all of them are in the slow campaign."""
    quick, found = ("a\0b", "file.txt/below", "("), []
    for at, command in enumerate(commands()):
        dry = {one.name: "" for one in command.parameters if one.name == "dry_run"}
        for turn, parameter in enumerate(command.parameters):
            if not (parameter.param_type_name == "option" and parameter.is_flag) and (at + turn) % SHARE == 0:
                odd = quick[(at + turn // SHARE) % len(quick)]
                if command.name not in LONG:
                    found.append(tried(sandbox, command, {parameter.name: odd, **dry}))
    assert len(found) > 30
    assert not "\n".join(filter(None, found))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_option_bears_every_odd_value(sandbox: Sandbox, name: str) -> None:
    command = next(one for one in commands() if one.name == name)
    cases = [{one.name: odd} for one in command.parameters for odd in values(command, one)]
    found = [tried(sandbox, command, case) for case in cases]
    sandbox.renew()
    print(f"{name}: {len(cases)} cases")
    assert not "\n".join(filter(None, found))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name != "demo"])
def test_two_odd_values_at_once_are_borne_too(sandbox: Sandbox, name: str) -> None:
    command, draw = next(one for one in commands() if one.name == name), random.Random(0)
    found = []
    for _ in range(100 if len(command.parameters) > 1 else 0):
        both = draw.sample(command.parameters, 2)
        found.append(tried(sandbox, command, {one.name: draw.choice(values(command, one)) for one in both}))
    sandbox.renew()
    assert not "\n".join(filter(None, found))


# What public functions are given, beside the odd argument; the first positional ones come by name too.
def usual(folder: Path) -> dict[str, dict[str, Any]]:
    images, labels = np.zeros((4, 8, 8, 1), np.uint8), np.arange(4) % 2
    digits = dw.digits()
    little = {"targets": "75", "seeds": 1, "steps": 2, "batch": 4}
    return {
        "domains": {"arrays": {"a": (images, labels), "b": (images, labels)}},
        "compare": {"data": digits, "algorithms": "erm", "output": folder / "made", **little},
        "fit": {"data": digits, "algorithm": "erm", "steps": 2, "batch": 4, "output": folder / "made"},
        "load": {"folder": folder / "model"},
        "folders": {"path": folder / "photos", "size": 8},
        "open_data": {"place": folder / "photos", "size": 8},
        "follow": {"folder": folder / "results"},
        "average_runs": {"folders": [folder / "model"]},
        "check": {"folder": folder / "results"},
        "digits": {},
    }


ARGUMENTS: list[Any] = [
    None, True, -1, 0, 3, 1.5, float("nan"), float("inf"), 10**30, "", " ", "nan", "a\0b", "x" * 5000, "missing", "é",
    b"bytes", [], [1], ["a"], [None], [[]], (), {}, {"a": 1}, {1: 2}, {"a": (1, 2)}, set(), object(),
    np.zeros(3), np.zeros((2, 8, 8, 1), np.uint8)[::-1], np.array(["a"]), np.int64(2), np.float32("nan"),
    torch.zeros(2, 3), torch.zeros(2, requires_grad=True), Path("missing"), Path("file.txt/below"), 2 + 1j, range(3),
]  # fmt: skip


def ends_well(call: Callable[[], object]) -> str:
    try:
        made = call()
        if inspect.isgenerator(made):
            list(made)
    except InputError as error:
        return "" if str(error).strip() else "a sentence without words"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        torch.set_num_threads(1)
    return ""


@pytest.mark.filterwarnings("ignore:.*decoded images cannot be kept in file.txt/below")
@pytest.mark.parametrize("share", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_public_functions_bear_odd_arguments(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, share: int) -> None:
    monkeypatch.chdir(sandbox.here)
    found = []
    for name, given in usual(sandbox.here).items():
        function = getattr(dw, name)
        for at, parameter in enumerate(inspect.signature(function).parameters.values()):
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                continue
            for odd in ARGUMENTS[at % share :: share]:
                if told := ends_well(lambda f=function, all={**given, parameter.name: odd}: f(**all)):
                    found.append(f"{name}({parameter.name}={odd!r:.60}): {told:.200}")
                sandbox.tidy()
    sandbox.renew()
    assert not sandbox.strays()
    print(*found, sep="\n")
    assert not found


def test_what_a_comparison_and_a_model_can_do_bears_odd_arguments(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(sandbox.here)
    model, results, digits = dw.load("model"), dw.Results.open("results"), dw.digits()
    calls: dict[str, Callable[[Any], object]] = {
        "predict": model.predict, "probabilities": model.probabilities, "predict_files": model.predict_files,
        "power": dw.power, "difference": lambda odd: dw.power(results, odd),
        "table": results.table, "select": lambda odd: results.table(select=odd), "report": results.report,
        "dropout": lambda odd: dw.Network(torch.nn.Identity(), torch.nn.Linear(2, 2), dropout=odd),
        "open": dw.Results.open, "domain": lambda odd: digits[odd],
        "network": lambda odd: dw.fit(digits, "erm", network=odd, steps=1, output="made"),
        "steps": lambda odd: dw.fit(digits, "erm", steps=odd, output="made"),
    }  # fmt: skip
    found = []
    for name, call in calls.items():
        for odd in ARGUMENTS:
            if told := ends_well(lambda call=call, odd=odd: call(odd)):  # type: ignore[misc]
                found.append(f"{name}({odd!r:.60}): {told:.200}")
            sandbox.tidy()
    sandbox.renew()
    print(*found, sep="\n")
    assert not found


def test_every_public_function_is_tried() -> None:
    """Those that take modules and batches have tests of what they refuse beside what they do."""
    elsewhere = {"MetaOptimizer", "Network", "arithmetic", "constant", "last", "weighted", "and_mask", "sand_mask"}
    elsewhere |= {"power"}  # with what a comparison can do
    kinds = {"Domains", "Results", "Model", "InputError", "__version__"}
    assert set(usual(Path())) >= set(dw.__all__) - elsewhere - kinds
    assert len(ODD) > 40
