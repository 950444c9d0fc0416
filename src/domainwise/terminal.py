"""Print text that cannot command the terminal, and show how far long work is.

Names that others gave may hold what a terminal obeys. All that commands print goes through streams that write such
letters out; only consoles made here, for bars and tables, put something of their own past them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TextIO

from domainwise.errors import printed
from domainwise.machine import human_duration

if TYPE_CHECKING:
    from rich.console import Console

SECONDS = 15.0  # between two lines


class Plain:
    """Write text to a stream without what a terminal would obey."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write text without commands; return how many letters were given."""
        self.stream.write(printed(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def exact(stream: TextIO) -> TextIO:
    """Return the stream beneath, for text that was checked before or is for programs."""
    return stream.stream if isinstance(stream, Plain) else stream


def console(*, stderr: bool = False, **options: Any) -> Console:
    """Return a rich console on standard output, or on standard error."""
    from rich.console import Console

    return Console(file=exact(sys.stderr if stderr else sys.stdout), **options)


@contextmanager
def plain_streams() -> Iterator[None]:
    """Let standard output and standard error write out what a terminal would obey."""
    before = sys.stdout, sys.stderr
    # None where the program that called has closed them.
    sys.stdout, sys.stderr = (stream and Plain(exact(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def plainly(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose prints no terminal obeys."""

    @wraps(command)
    def printing(*given: Any, **named: Any) -> None:
        with plain_streams():
            command(*given, **named)

    return printing


def lively(progress: bool | None) -> bool:
    """Return whether to show progress: as asked, and if nobody has said, where a person looks on."""
    return progress if progress is not None else in_notebook() or bool(sys.stderr and sys.stderr.isatty())


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    return "ipykernel" in sys.modules and "IPython" in sys.modules


def draws_bars() -> bool:
    """Return whether bars can be drawn: on a terminal, and in a notebook that has widgets."""
    if in_notebook():
        return find_spec("ipywidgets") is not None
    return bool(sys.stderr and sys.stderr.isatty())


@contextmanager
def pace(about: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on a terminal, or a line now and then elsewhere; yields ``tick(done, total)``."""
    if quiet:
        yield lambda done, total: None
    elif draws_bars():
        from rich.progress import Progress

        bars = Progress(console=console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty())
        with bars, plain_streams():
            bar = bars.add_task(about, total=None)
            yield lambda done, total: bars.update(bar, completed=done, total=total)
    else:
        yield Lines(about)


class Lines:
    """Print a line now and then with the time that is left."""

    def __init__(self, about: str) -> None:
        self.about, self.started = about, time.perf_counter()
        self.said = self.started

    def __call__(self, done: int, total: int) -> None:
        now = time.perf_counter()
        if now - self.said >= SECONDS and done < total:
            self.said = now
            left = human_duration(round((now - self.started) / done * (total - done)))
            print(f"{self.about}: {done} of {total}, about {left} left", file=sys.stderr, flush=True)
