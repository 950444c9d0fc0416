from __future__ import annotations

from domainwise.algorithms import algorithm
from domainwise.algorithms._walk import Walk


@algorithm
class Fish(Walk):
    """Walk through the domains, then head for the end of the walk (Shi et al., 2022)."""
