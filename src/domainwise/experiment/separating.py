"""Several things in one text: ``erm,arith(inner_steps=3)``."""

from __future__ import annotations


def separated(text: str) -> list[str]:
    """Split a text at the commas that are outside brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]
