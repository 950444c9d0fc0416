"""Print what commands say: names that others gave must not command the terminal.

All that is printed goes through streams that write out what a terminal would obey; only consoles made here, for bars
and tables, put something of their own past them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TextIO

from domainwise.errors import printed

if TYPE_CHECKING:
    from rich.console import Console


class Plain:
    """A stream for text without commands."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write(printed(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def exact(stream: TextIO) -> TextIO:
    """The same stream for what has been looked at, or is for programs."""
    return stream.stream if isinstance(stream, Plain) else stream


def console(*, stderr: bool = False, **options: Any) -> Console:
    from rich.console import Console

    return Console(file=exact(sys.stderr if stderr else sys.stdout), **options)


@contextmanager
def plain_streams() -> Iterator[None]:
    before = sys.stdout, sys.stderr
    # None where the program that called has closed them.
    sys.stdout, sys.stderr = (stream and Plain(exact(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def plainly(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with nothing that it prints obeyed by a terminal."""

    @wraps(command)
    def printing(*given: Any, **named: Any) -> None:
        with plain_streams():
            command(*given, **named)

    return printing
