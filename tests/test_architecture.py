"""ARCHITECTURE.md names what there is, and what is added where it says needs no other file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from made_data import stripes
from made_trials import run, trial
from test_docs import ROOT
from test_imports import ORDER
from torch import nn

from domainwise import Network, Results, load
from domainwise.averaging import _averages
from domainwise.averaging._averager import MA
from domainwise.experiment import selection, settings
from domainwise.networks import network
from domainwise.report.page import page
from domainwise.report.page.measures import Section

PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src" / "domainwise"


def test_every_path_is_there() -> None:
    files = [path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py")]
    named = set(re.findall(r"[\w/.]+\.py\b", PAGE))
    assert len(named) > 30
    gone = [name for name in named if not any(f"src/domainwise/{file}".endswith(f"/{name}") for file in files)
            and not (ROOT / name).is_file()]  # fmt: skip
    assert not gone
    assert all((ROOT / folder).is_dir() for folder in re.findall(r"`((?:src|tests)/[\w/]*)`", PAGE))


def test_rooms_stand_in_the_order_of_imports_and_none_is_missing() -> None:
    rows = re.findall(r"^\| (`src/domainwise/.*?) \|", PAGE.partition("## The way of an image")[0], re.MULTILINE)
    rooms = [Path(name).stem for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert rooms == [name for name in ORDER if name in rooms]
    there = {path.stem for path in SOURCE.iterdir() if not path.name.startswith(("_", "py."))}
    assert set(rooms) == there


def test_what_is_to_be_named_in_a_file_has_a_name_there() -> None:
    table = PAGE.partition("## Where to add what")[2]
    named = re.findall(r"`(\w+)`(?:, [^|`]*)? (?:of|in) `(src/[\w/]+\.py)`", table)
    assert len(named) >= 8
    for name, file in named:
        module = import_module(
            file.removeprefix("src/").removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
        )
        assert hasattr(module, name), f"{file} has no {name}"


def test_no_addition_needs_more_than_two_files() -> None:
    rows = [line for line in PAGE.partition("## Where to add what")[2].splitlines() if line.startswith(("| a", "| an"))]
    assert len(rows) == 10
    assert all(len(re.findall(r"`src/", row)) <= 2 for row in rows)


def test_a_selection_rule_is_one_where_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def least(record: Any, targets: Any) -> float:
        return -selection.validation(record, targets)

    rule = selection.Rule("worst step", "was the worst", selection._every_step(least), least)
    monkeypatch.setitem(selection.RULES, "worst", rule)
    monkeypatch.setitem(settings.CHOICES, "selection", (*settings.CHOICES["selection"], "worst"))
    one = trial("erm", selection="worst")
    run(one, tmp_path / "trials" / one.id)
    (outcome,) = Results.open(tmp_path).outcomes
    values = {record["step"]: selection.validation(record, one.targets) for record in outcome.records()}
    assert values[outcome.selected["step"]] == min(values.values())
    assert load(outcome.folder).config["step"] == outcome.selected["step"]


def test_an_averager_is_one_where_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(repr=False)
    class Late(MA):
        pass

    monkeypatch.setitem(_averages._KINDS, "late", Late)
    run(trial("erm", average="late(start=5)"), tmp_path)
    assert (tmp_path / "best-average" / "config.json").is_file()


def test_a_network_of_ours_is_one_where_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tiny(channels: int, classes: int) -> Network:
        return Network(nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten()), nn.Linear(4 * channels, classes))

    monkeypatch.setitem(network.UNTRAINED, "tiny", tiny)
    monkeypatch.setattr(settings, "OWN_NETWORKS", (*settings.OWN_NETWORKS, "tiny"))
    run(trial("erm", network="tiny"), tmp_path)
    assert load(tmp_path).algorithm.net(torch.zeros(2, 1, 8, 8)).shape == (2, 2)


def test_a_section_of_the_report_is_one_where_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Section("luck", "Luck", "How lucky each was.", ["luck"], [("erm", [("7", "")])], ["It was luck."])
    monkeypatch.setattr(page, "SECTIONS", (*page.SECTIONS, lambda grid: made))
    run(trial("erm", data=stripes()), tmp_path / "trials" / trial("erm").id)
    text = Results.open(tmp_path).report(tmp_path / "report.html").read_text()
    assert '<a href="#luck">Luck</a>' in text
    assert "It was luck." in text
