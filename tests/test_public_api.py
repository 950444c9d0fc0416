"""What other programs call stays as it is: every public name with its signature, and every command with its options."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

import domainwise
from domainwise import algorithms, losses, sklearn, testing
from domainwise.cli import app

KEPT = Path(__file__).with_suffix(".txt")


MADE = "domainwise.algorithms.create("


def test_public_names_signatures_commands_and_options_are_those_written_down() -> None:
    changed = changes()
    assert not changed, f"if this is meant, run python {KEPT.with_suffix('.py').name} in tests:\n{changed}"


def changes() -> str:
    """What differs from what is written down, but for algorithms that are new: those are found by themselves."""
    kept = KEPT.read_text(encoding="utf-8").splitlines()
    known = {line.partition(")")[0] for line in kept if line.startswith(MADE)}
    now = [line for line in said() if not line.startswith(MADE) or line.partition(")")[0] in known]
    return "\n".join(difflib.unified_diff(kept, now, "written down", "now", "", "", 0))


def said() -> Iterator[str]:
    for module in (domainwise, algorithms, losses, sklearn, testing):
        own = [name for name, thing in vars(module).items() if getattr(thing, "__module__", "") == module.__name__]
        names = getattr(module, "__all__", [name for name in own if not name.startswith("_")])
        for name in sorted(set(names) - {"__version__"}):
            yield from described(f"{module.__name__}.{name}", getattr(module, name))
    for name in algorithms.names():
        yield f"domainwise.algorithms.create({name!r}): {signature(type(algorithms.create(name)))}"
    yield from options("domainwise", typer.main.get_command(app))


def described(name: str, thing: Any) -> Iterator[str]:
    if not callable(thing):
        yield f"{name}: {type(thing).__name__}"
        return
    yield f"{name}{signature(thing)}"
    if inspect.isclass(thing) and not issubclass(thing, BaseException):
        for part, value in sorted(vars(thing).items()):
            if not part.startswith("_") and callable(value):
                yield f"{name}.{part}{signature(value)}"
            elif not part.startswith("_") and isinstance(value, property | classmethod | staticmethod):
                yield f"{name}.{part}: {type(value).__name__}"


def signature(thing: Any) -> str:
    """Names, kinds and defaults; types are mypy's."""
    try:
        found = inspect.signature(thing)
    except ValueError:  # an exception's
        return ""
    parameters = [p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values()]
    return str(found.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


def options(name: str, command: Any) -> Iterator[str]:
    taken = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    yield f"{name}: {' '.join('/'.join([*one.opts, *one.secondary_opts]) for one in taken)}"
    for part, inside in sorted(getattr(command, "commands", {}).items()):
        yield from options(f"{name} {part}", inside)


if __name__ == "__main__":
    KEPT.write_text("\n".join(said()) + "\n", encoding="utf-8")
