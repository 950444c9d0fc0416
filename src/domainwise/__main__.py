"""``domainwise`` and ``python -m domainwise``."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import Any

# Looking for garbage is a quarter of the time that importing torch and its compiler takes; the compiler does so too.
RARELY = (1_000_000, 20, 50)
NOT_AGAIN = ("TORCH_DYNAMO_RUN_GC_AFTER_COMPILE", "0")


def main() -> None:
    """Run the command line: a user's mistake is a sentence and exit code 2, a trial that failed exit code 1."""
    gc.set_threshold(*RARELY)
    os.environ.setdefault(*NOT_AGAIN)
    from domainwise.cli import app
    from domainwise.errors import InputError, TrialError

    atexit.register(gc.freeze)  # nothing is gained by looking for cycles among ten thousand trials on the way out
    if isinstance(sys.stdout, TextIOWrapper):  # names on a disk need not be valid Unicode
        sys.stdout.reconfigure(errors="backslashreplace")
    told = {"-v", "--verbose"} & set(sys.argv[1:])
    try:
        try:
            with notes_in_lines():
                app(prog_name="domainwise")
        finally:
            if sys.stdout is not None:  # closed by whoever called
                sys.stdout.flush()  # a disk that is full is told of here, and not on the way out
    except InputError as error:
        if told:
            raise
        print(f"domainwise: {error}", file=sys.stderr)
        sys.exit(1 if isinstance(error, TrialError) else 2)
    except (OSError, MemoryError) as error:
        if told:
            raise
        print(f"domainwise: {_of_the_system(error)}", file=sys.stderr)
        with suppress(OSError):  # what is left to write would be tried once more
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        print("domainwise: interrupted; the same command again goes on with what is missing", file=sys.stderr)
        sys.exit(130)


@contextmanager
def notes_in_lines() -> Iterator[None]:
    """Say each warning of ours once, when it comes and without the place in the code."""
    from domainwise.errors import Note

    said: set[str] = set()
    with warnings.catch_warnings():
        before = warnings.showwarning
        warnings.simplefilter("always", Note)

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if not issubclass(category, Note):
                before(message, category, *place, **more)
            elif str(message) not in said:
                said.add(str(message))
                print(f"domainwise: {message}", file=sys.stderr, flush=True)

        warnings.showwarning = show
        yield


def _of_the_system(error: OSError | MemoryError) -> str:
    """A sentence about what the system refused."""
    if isinstance(error, MemoryError):
        return f"there is not enough memory. {error}".rstrip(". ")
    where = f'"{error.filename}"' if error.filename is not None else "the output"
    return f"cannot read or write {where}: {error.strerror or error}; -v shows where"


if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the working directory: a queue.py that lies there is not Python's
    main()
