"""Keep compiled kernels in the user's cache folder, so that the next run finds them."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from domainwise.files import user_cache

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
PROBED = 2**20  # bytes that there must be room for


def compiled_folder() -> Path | None:
    """Return the folder, the user's alone since the compiler reads pickles from it; None where there is no home."""
    try:
        return user_cache() / "compiled"
    except RuntimeError:
        return None


def keep_compiled() -> None:
    """Have the compiler use that folder from now on, unless the environment names another or it cannot be written.

    The compiler's own default is temporary: empty again on every machine, and in every job of many clusters.
    """
    folder = compiled_folder()
    if VARIABLE in os.environ or folder is None:
        return
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder) as probe:  # a disk may be full, and a quota used up
            probe.write(bytes(PROBED))
        os.environ[VARIABLE] = str(folder)


def size() -> int:
    """Return the size of all that is kept, in bytes."""
    total, folder = 0, compiled_folder()
    for path in folder.rglob("*") if folder else ():
        with suppress(OSError):  # somebody may be compiling
            total += path.stat().st_size if path.is_file() else 0
    return total


def clear() -> int:
    """Remove all that is kept, and return how many bytes that was."""
    removed, folder = size(), compiled_folder()
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
    return removed
