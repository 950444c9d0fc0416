"""Processes that are started here import nothing from where somebody happens to stand."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import domainwise


def environment() -> dict[str, str]:
    """Variables with which Python imports from where this process does, and never from the working directory.

    A queue.py that lies there would stand in for Python's own. Where the user's own PYTHONPATH names that folder, they
    want it; an empty entry, which means it too, is mostly one too many a colon.
    """
    wanted = {os.path.realpath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry}
    here = ""
    with suppress(OSError):  # it was removed
        here = os.path.realpath(Path.cwd())
    path = [entry for entry in sys.path if entry and (os.path.realpath(entry) != here or here in wanted)]
    package = str(Path(domainwise.__file__).parents[1])
    if package not in path:  # found by standing in its folder
        path.append(package)
    return {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(path)}


@contextmanager
def set_in(variables: dict[str, str]) -> Iterator[None]:
    """Set variables in the environment of this process, for what starts processes by itself."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
