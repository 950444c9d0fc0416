from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from domainwise.machine import cores

X = TypeVar("X")
Y = TypeVar("Y")


def side_by_side(work: Callable[[X], Y], items: Iterable[X]) -> Generator[Y, None, None]:
    """Results in order, computed in threads that are never far ahead; close it to stop them.

    Threads do: Pillow lets go of the interpreter.
    """
    threads = cores()
    pool = ThreadPoolExecutor(threads)
    waiting: deque[Future[Y]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > 8 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
