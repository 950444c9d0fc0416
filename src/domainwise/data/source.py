"""Data as text: ``digits``, or a folder of domain folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from domainwise.data.domains import Domains
from domainwise.errors import InputError


def open_data(
    text: str, *, size: int = 64, skip_corrupt: bool = False, progress: Callable[[int, int], None] | None = None
) -> Domains:
    """What ``--data`` names. A folder that is called like embedded data is reached as ``./digits``."""
    if text == "digits":
        from domainwise.data.digits import digits

        return digits()
    if not Path(text).exists():
        raise InputError(f'"{text}" is neither a folder nor embedded data: give a folder of domain folders, or digits')
    from domainwise.data.folders import folders

    return folders(text, size=size, skip_corrupt=skip_corrupt, progress=progress)
