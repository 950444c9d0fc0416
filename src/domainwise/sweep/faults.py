"""What goes wrong in a trial and is not its fault."""

from __future__ import annotations

import errno

# A disk that is full, cannot be written to or has failed, and a `watch` nobody listens to: the trial can go on later.
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
NOT_THE_TRIALS_FAULT = {*FULL, errno.EIO, getattr(errno, "ESTALE", errno.EIO), errno.EPIPE}


def of_the_disk(error: BaseException | None) -> OSError | None:
    """What the disk has against it, also where a library, such as the compiler, has made an error of its own of it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, OSError) and error.errno in NOT_THE_TRIALS_FAULT:
            return error
        seen.add(id(error))
        error = getattr(error, "inner_exception", None) or error.__cause__ or error.__context__
    return None
