"""Turn texts into token ids: by a hash of their words, for which no dictionary is needed, or by a tokenizer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from unicodedata import normalize
from zlib import crc32

import numpy as np
import numpy.typing as npt

from domainwise.errors import InputError
from domainwise.networks.forms import MASK, TOKENS, VECTORS
from domainwise.networks.text_encoders import encoded

WORDS = "words"  # the tokenizer here
LONGEST = 256  # tokens that are kept of a text; what follows is cut off
_EAST = "\u3040-\u30ff\u4e00-\u9fff"  # written without blanks: every sign is a word
_WORD = re.compile(rf"[{_EAST}]|[^\W{_EAST}]+|[^\w\s]")

Ids = npt.NDArray[np.int32]


def texts_in(given: Any) -> list[Any] | None:
    """Return what is given as a list, if it is texts, or at least looks like them; None where it is anything else."""
    row = isinstance(given, list | tuple) or (getattr(given, "ndim", 0) == 1 and hasattr(given, "tolist"))
    if not row or getattr(getattr(given, "dtype", None), "kind", "O") not in "OUT":
        return None
    items = list(given)
    return items if any(isinstance(item, str) for item in items) else None


def tokenised(
    texts: Mapping[str, Sequence[Any]], where: str = "domain", tokenizer: str = "", longest: int = LONGEST
) -> dict[str, dict[str, Any]]:
    """Return the token ids and masks of texts, as many tokens for each as the longest has, up to ``longest``.

    ``tokenizer`` is the content of a tokenizer.json; without it, words are numbered by a hash.
    """
    found, blank = {}, 0
    for name, own in texts.items():
        _require_texts(f'{where} "{name}"' if name else where, own)
        found[name], blank = encoded(tokenizer, own, longest) if tokenizer else (_hashed(own, longest), 0)
    length = max(len(ids) for own in found.values() for ids in own)
    return {name: _filled(own, length, blank) for name, own in found.items()}


def _require_texts(where: str, texts: Sequence[Any]) -> None:
    _refuse(where, [i for i, text in enumerate(texts) if not isinstance(text, str)], texts, "that are no texts")
    _refuse(where, [i for i, text in enumerate(texts) if not _WORD.search(text)], texts, "without a word")


def _hashed(texts: Sequence[str], longest: int) -> list[list[int]]:
    return [[_id(word) for word in _WORD.findall(normalize("NFKC", text).casefold())[:longest]] for text in texts]


def _refuse(where: str, wrong: Sequence[int], texts: Sequence[Any], what: str) -> None:
    if wrong:
        first = ", ".join(f"{i} ({texts[i]!r:.40})" for i in wrong[:3]) + (", ..." if len(wrong) > 3 else "")
        raise InputError(
            f"{where} has {len(wrong):,} of {len(texts):,} texts {what} (number {first}): leave them out, or write them"
        )


@lru_cache(1 << 18)
def _id(word: str) -> int:
    return 1 + crc32(word.encode(errors="replace")) % (VECTORS - 1)  # 0 fills up short texts


def _filled(rows: Sequence[Sequence[int]], length: int, blank: int) -> dict[str, Any]:
    ids: Ids = np.full((len(rows), length), blank, np.int32)
    for row, own in zip(ids, rows, strict=True):
        row[: len(own)] = own
    return {TOKENS: ids, MASK: np.arange(length) < np.array([[len(own)] for own in rows])}
