"""Hear signals that ask this process to stop, so that it can save its work first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

# Ctrl-C; what a machine that shuts down sends; what a terminal sends that is closed; what Slurm is told to send before
# it takes the machine away.
NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1")
SIGNALS = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]

_heard: list[int] = []
_listening = threading.Event()


class Stopped(SystemExit):
    """Raised where a process was asked to stop; its trial can go on later. The exit code is that of the signal."""

    def __init__(self, sentence: str, number: int) -> None:
        super().__init__(128 + number)
        self.sentence = sentence

    def __str__(self) -> str:
        return self.sentence


def stop_requested() -> int:
    """Return the number of the signal that asks this process to stop, or 0."""
    return _heard[0] if _heard else 0


def asked_again() -> bool:
    """Return whether a second signal has come, which does not want to wait."""
    return len(_heard) > 1


def at_once(number: int) -> None:
    """Answer a second signal: stop, whatever is going on, but clean up. Any more of them are not heard."""
    for other in SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    raise Stopped("stopped at once: start the same command again to go on from what was saved last", number)


def ask_to_stop() -> None:
    """Ask this process to stop, as a machine does that shuts down; where nobody listens, nothing happens."""
    if _listening.is_set() and not _heard:
        _heard.append(signal.SIGTERM)


@contextmanager
def listening(again: Callable[[int], None] | None = None) -> Iterator[None]:
    """Hear the signals that ask to stop: the first is remembered, a second one does what it always did, or ``again``.

    What is inside looks at :func:`stop_requested`; where it came to its end without, :class:`Stopped` is raised then.
    Only the main thread can hear them; inside another ``listening``, or in another thread, this does nothing.
    """
    if _listening.is_set() or threading.current_thread() is not threading.main_thread():
        yield
        return
    # A shell has a job in the background ignore Ctrl-C, and that stays so; None is a handler that is not Python's.
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    before = {number: handler for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}

    def hear(number: int, frame: FrameType | None) -> None:
        _heard.append(number)
        if len(_heard) > 1 and again is not None:
            again(number)
        elif len(_heard) > 1:
            signal.signal(number, before[number])
            signal.raise_signal(number)

    _listening.set()
    for number in before:
        signal.signal(number, hear)
    try:
        yield
        if _heard:
            raise Stopped("stopped between two trials: start the same command again to go on", _heard[0])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _heard.clear()
        _listening.clear()
