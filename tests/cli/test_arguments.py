"""The commands that train are a thin layer over Python: their options are its arguments, with the same defaults."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

import pytest

import domainwise as dw
from domainwise.acceleration.cuda_graph import Fast
from domainwise.cli import options as o
from domainwise.cli.arguments import arguments, assignments
from domainwise.cli.commands.compare import compare as command
from domainwise.cli.commands.fit import fit as fit_command
from domainwise.experiment.settings import Settings
from domainwise.training.run_options import RunOptions

GROUPS = (o.Choices(), o.Models(), o.Images(), o.Machine(), o.Many(), o.Cluster(), o.Results())
OTHERWISE = {"progress"}  # a command shows progress unless it is told not to, a function where somebody looks on


def defaults(function: Any) -> dict[str, Any]:
    found = {name: one.default for name, one in inspect.signature(function).parameters.items()}
    runs = {field.name: getattr(RunOptions(), field.name) for field in fields(RunOptions)}
    fast = {field.name: getattr(Fast(), field.name) for field in fields(Fast)}
    return {**runs, **fast, **found}


def test_what_is_not_given_on_the_command_line_is_what_is_not_given_in_python() -> None:
    given, python = arguments(*GROUPS), defaults(dw.compare)
    given.pop("format")  # of what is printed
    assert {name: python[name] for name in given.keys() - OTHERWISE - {"set"}} == {
        name: value for name, value in given.items() if name not in OTHERWISE | {"set"}
    }
    assert not given["set"]


@pytest.mark.parametrize(("there", "here"), [(command, dw.compare), (fit_command, dw.fit)])
def test_options_of_their_own_have_the_same_defaults_too(there: Any, here: Any) -> None:
    own, python = inspect.signature(there).parameters, defaults(here)
    named = own.keys() & python.keys() & {"algorithms", "targets", "seeds", "preset", "algorithm", "seed", "output"}
    assert len(named) >= 4
    assert {name: str(own[name].default) for name in named} == {name: str(python[name]) for name in named}


def test_every_option_is_an_argument_or_a_setting() -> None:
    known = {*defaults(dw.compare), *(field.name for field in fields(Settings)), "format"}
    every = {**arguments(*GROUPS), **arguments(o.Choices(*[1] * 6, set=["lr=1"], precision="bf16", balanced=True))}
    assert every.keys() <= known
    assert assignments(["lr=1e-3", "balanced=True", "weights=none"]) == {
        "lr": 1e-3,
        "balanced": True,
        "weights": "none",
    }
