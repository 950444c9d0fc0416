"""Tell what goes wrong in a trial and is not its fault."""

from __future__ import annotations

import errno
import os
from pathlib import Path

# A disk that is full, cannot be written to or has failed, too little memory, and a `watch` nobody listens to: the trial
# can go on later.
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
SCARCE = {errno.ENOMEM, errno.EMFILE, errno.ENFILE}
NOT_THE_TRIALS_FAULT = {*FULL, *SCARCE, errno.EIO, getattr(errno, "ESTALE", errno.EIO), errno.EPIPE}
NO_MEMORY = "DefaultCPUAllocator"  # torch's error for memory of the computer is a RuntimeError with this in it


def of_the_machine(error: BaseException | None) -> OSError | None:
    """The machine's own error, also where a library, such as the compiler, has made another error of it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, OSError) and error.errno in NOT_THE_TRIALS_FAULT:
            return error
        if isinstance(error, MemoryError) or NO_MEMORY in str(error):
            return OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        seen.add(id(error))
        error = getattr(error, "inner_exception", None) or error.__cause__ or error.__context__
    return None


def sentence(folder: Path, error: OSError | MemoryError) -> str:
    """Say what the machine has against a trial, and how to go on."""
    number = errno.ENOMEM if isinstance(error, MemoryError) else error.errno
    reason = os.strerror(number) if number else str(error)
    if number in SCARCE:
        return (
            f"this machine has too little for the trial in {folder}: {reason}. What was saved there stays: with fewer "
            "at once (--processes, --per-gpu), or on a larger machine, the same command goes on from it"
        )
    what = "write to" if number in FULL else "read or write in"
    return (
        f"cannot {what} {folder}: {reason}. What was saved there stays: when that has been put right, the same command "
        "goes on from it"
    )
