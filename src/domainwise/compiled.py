"""Where compiled kernels are kept, so that the next run finds them."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from domainwise.data.cache import own_cache_folder

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


def compiled_folder() -> Path:
    """Of the user alone, since the compiler reads pickles from it."""
    return own_cache_folder() / "compiled"


def keep_compiled() -> None:
    """Have the compiler use that folder from now on, unless the environment names another or it cannot be written.

    The compiler's own default is temporary: empty again on every machine, and in every job of many clusters.
    """
    folder = compiled_folder()
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.access(folder, os.W_OK):
            os.environ.setdefault(VARIABLE, str(folder))


def size() -> int:
    """Of all that is kept, in bytes."""
    total = 0
    for path in compiled_folder().rglob("*"):
        with suppress(OSError):  # somebody may be compiling
            total += path.stat().st_size if path.is_file() else 0
    return total


def clear() -> int:
    """Remove it, and return how many bytes that was."""
    removed = size()
    shutil.rmtree(compiled_folder(), ignore_errors=True)
    return removed
