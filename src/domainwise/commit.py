"""Which commit of domainwise this is, where it runs from a checkout; git itself is not asked and need not be there."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]  # of a checkout: above src; where it is installed this is no checkout


def commit(root: Path = ROOT) -> str | None:
    """The one checked out, whatever was edited since; for a copy without history what DOMAINWISE_COMMIT says."""
    if told := os.environ.get("DOMAINWISE_COMMIT", "").strip():
        return told[:100]
    with suppress(OSError, ValueError):
        git = root / ".git"
        if git.is_file():  # a work tree beside the main one says where its own are
            git = root / git.read_text(encoding="utf-8").partition("gitdir:")[2].strip()
        return _named((git / "HEAD").read_text(encoding="utf-8").strip(), git)
    return None


def _named(head: str, git: Path) -> str | None:
    if not head.startswith("ref:"):
        return _hash(head)
    name, shared = head.removeprefix("ref:").strip(), git
    if (git / "commondir").is_file():
        shared = git / (git / "commondir").read_text(encoding="utf-8").strip()
    for place in (git, shared):
        if (place / name).is_file():
            return _hash((place / name).read_text(encoding="utf-8").strip())
    packed = (shared / "packed-refs").read_text(encoding="utf-8").splitlines()
    return next((_hash(line.split()[0]) for line in packed if line.endswith(f" {name}")), None)


def _hash(text: str) -> str | None:
    return text if re.fullmatch(r"[0-9a-f]{40}([0-9a-f]{24})?", text) else None


COMMIT = commit()  # when this is imported: a checkout may be moved on while the code in memory stays
