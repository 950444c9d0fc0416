"""What a person sees of long work that is counted: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from domainwise.cli.plain import console, plain_streams
from domainwise.machine import human_duration

SECONDS = 15.0  # between two lines


@contextmanager
def pace(about: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Gives what is to be told how many are done, and of how many."""
    if quiet:
        yield lambda done, total: None
    elif sys.stderr.isatty():
        from rich.progress import Progress

        bars = Progress(console=console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty())
        with bars, plain_streams():
            bar = bars.add_task(about, total=None)
            yield lambda done, total: bars.update(bar, completed=done, total=total)
    else:
        yield Lines(about)


class Lines:
    def __init__(self, about: str) -> None:
        self.about, self.started = about, time.perf_counter()
        self.said = self.started

    def __call__(self, done: int, total: int) -> None:
        now = time.perf_counter()
        if now - self.said >= SECONDS and done < total:
            self.said = now
            left = human_duration(round((now - self.started) / done * (total - done)))
            print(f"{self.about}: {done} of {total}, about {left} left", file=sys.stderr, flush=True)
