"""Turn the options of commands that train into a call of Python, and results into a table."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from enum import Enum
from typing import Any

import typer

from domainwise.errors import InputError
from domainwise.experiment.settings import together


def compared(data: str, algorithms: str, *groups: object, **more: Any) -> None:
    """Run ``dw.compare`` with the options of groups, and print the table; exit code 1 where a trial failed."""
    from domainwise.api import compare
    from domainwise.cli.commands.report import print_answer

    given = {**arguments(*groups), **more}
    form, dry_run = given.pop("format", "table"), given.get("dry_run", False)
    results = compare(data, algorithms, report=not dry_run, **given)
    if dry_run:
        return
    print(results.table(form))
    print_answer(results, form, not given["progress"])
    if given["progress"]:
        print(f"report: {results.page}", file=sys.stderr)
    if results.troubled:
        raise typer.Exit(1)


def arguments(*groups: object) -> dict[str, Any]:
    """Return the options of groups as arguments of ``dw.compare`` and ``dw.fit``; what was not given is left out."""
    given = {name: value for group in groups for name, value in vars(group).items()}
    found = {name: value.value if isinstance(value, Enum) else value for name, value in given.items()}
    found["progress"] = not found.pop("quiet", False)
    for name in ("compile", "capture"):
        found[name] = not found.pop(f"no_{name}", False)
    found["set"] = assignments(found.get("set"))
    if "per_gpu" in found:
        found["per_gpu"] = _many(found["per_gpu"])
    if not found.get("balanced"):
        found.pop("balanced", None)  # so that the preset decides
    return {name: value for name, value in found.items() if value is not None}


def assignments(given: Sequence[str] | None) -> dict[str, Any]:
    """Return ``--set NAME=VALUE`` as a mapping; a value that is no number, True, False or None is a word."""
    found: dict[str, Any] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise InputError(f"cannot read --set {text}: write --set NAME=VALUE, for example --set inner_lr=0.02")
        found = together(found, {name.strip(): _value(value.strip())})
    return found


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _many(text: str) -> int | str:
    """Return how many trials run on one GPU."""
    if text == "auto":
        return "auto"
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise InputError(f'--per-gpu is how many trials run side by side on a GPU, or auto: got "{text}"')
    return int(text)
