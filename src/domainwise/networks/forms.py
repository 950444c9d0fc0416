"""Tell what samples are by their shape: rows of a table (d,), signals (C, T) or images (H, W, C)."""

from __future__ import annotations

from collections.abc import Sequence


def form_of(shape: Sequence[int]) -> str:
    """Return the form of samples of one shape: "rows", "signals" or "images"."""
    return {1: "rows", 2: "signals"}.get(len(shape), "images")


def extent_of(shape: Sequence[int]) -> str:
    """Say how large samples of one shape are, as in "5 columns"."""
    if form_of(shape) == "rows":
        return f"{shape[0]} columns"
    if form_of(shape) == "signals":
        return f"{shape[0]} channel{'s' * (shape[0] != 1)} of {shape[1]} steps"
    return " x ".join(map(str, shape))


def channels_first(shape: Sequence[int], extra: int = 0) -> tuple[int, ...]:
    """Return the shape of a sample as a network sees it, with extra channels; only those of images come last before."""
    first, *rest = (shape[-1], *shape[:-1]) if form_of(shape) == "images" else shape
    return (first + extra, *rest)
