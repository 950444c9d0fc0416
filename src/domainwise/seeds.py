"""Seeds for everything that is random, each from what it is for."""

from __future__ import annotations

import hashlib


def seed_hash(*parts: object) -> int:
    """Make a seed from anything, as DomainBed makes it, so that its splits and draws come out the same here."""
    return int(hashlib.md5(str(parts).encode(), usedforsecurity=False).hexdigest(), 16) % 2**31
