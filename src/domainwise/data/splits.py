"""Which image is held out: the published protocol's rule, a function of the seed and the domain's position alone."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


def seed_hash(*parts: object) -> int:
    """A seed from anything, as DomainBed makes it, so that its splits and draws come out the same here."""
    return int(hashlib.md5(str(parts).encode(), usedforsecurity=False).hexdigest(), 16) % 2**31


def split(size: int, holdout: float, seed: int, position: int) -> tuple[Indices, Indices]:
    """(main, holdout): the larger part first. Holdout is the first ``int(size * holdout)`` of a seeded shuffle."""
    keys = np.arange(size)
    np.random.RandomState(seed_hash(seed, position)).shuffle(keys)
    held = int(size * holdout)
    return keys[held:], keys[:held]
