"""Data as text: ``digits``, or a folder of domain folders."""

from __future__ import annotations

from collections.abc import Callable

from domainwise.data.domains import Domains


def open_data(
    text: str, *, size: int = 64, skip_corrupt: bool = False, progress: Callable[[int, int], None] | None = None
) -> Domains:
    """What ``--data`` names. A folder that is called like embedded data is reached as ``./digits``."""
    if text == "digits":
        from domainwise.data.digits import digits

        return digits()
    from domainwise.data.folders import folders

    return folders(text, size=size, skip_corrupt=skip_corrupt, progress=progress)
