"""Averagers as text: ``none``, ``swad``, ``swad,ema(decay=0.99)``."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Any

from domainwise.averaging._base import Averager
from domainwise.averaging._running import EMA, MA, SWA
from domainwise.averaging._swad import SWAD
from domainwise.errors import InputError, closest
from domainwise.experiment.trial import separated

_KINDS: dict[str, type[Averager]] = {"swad": SWAD, "swa": SWA, "ema": EMA, "ma": MA}
_SHAPE = re.compile(r"(?P<name>\w+)\s*(?:\((?P<settings>.*)\))?", re.DOTALL)


def names() -> list[str]:
    return ["none", *_KINDS]


def averager(text: str) -> Averager | None:
    """An averager by name, or as its ``repr`` writes it; ``none`` is None."""
    shape = _SHAPE.fullmatch(text.strip())
    if shape is None:
        raise InputError(f"cannot read the averager {text!r}: write a name or name(key=value)")
    name = shape["name"].lower()
    if name not in names():
        raise InputError(f'there is no averager "{shape["name"]}": {closest(name, names())}')
    settings = _settings(shape["settings"] or "", text)
    if name == "none":
        if settings:
            raise InputError(f"none is no averager at all, so it has no settings: got {text!r}")
        return None
    return _make(name, settings)


def averagers(text: str | Sequence[str]) -> dict[str, Averager]:
    """Those of a text, separated by commas, or of a list, by their ``repr`` and in this order; ``none`` has none."""
    texts = separated(text) if isinstance(text, str) else [part for one in text for part in separated(one)]
    if not texts:
        raise InputError(f"no averager was named; known: {', '.join(names())}")
    made = [averager(one) for one in texts]
    found = [one for one in made if one is not None]
    if len(found) < len(made) > 1:
        raise InputError(f"none is no averager at all, so it cannot stand beside others: got {', '.join(texts)}")
    by_name = {repr(one): one for one in found}
    if len(by_name) < len(found):
        (twice, *_) = [name for name in by_name if sum(repr(one) == name for one in found) > 1]
        raise InputError(f"{twice} is named twice: name every averager once, or give one of them other settings")
    return by_name


def canonical(text: str | Sequence[str]) -> str:
    """The same averagers as one text, in the one way that a trial keeps."""
    return ",".join(averagers(text)) or "none"


def _make(name: str, settings: dict[str, Any]) -> Averager:
    known = {field.name: field.default for field in fields(_KINDS[name])}
    for key in settings:
        if key not in known:
            raise InputError(f'{name} has no setting "{key}": {closest(key, known)}')
    missing = [key for key, default in known.items() if default is MISSING and key not in settings]
    if missing:
        raise InputError(
            f"{name} must be told {' and '.join(missing)}: write {name}({', '.join(f'{key}=...' for key in known)})"
        )
    return _KINDS[name](**settings)


def _settings(text: str, whole: str) -> dict[str, Any]:
    try:
        call = ast.parse(f"_({text})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or any(keyword.arg is None for keyword in call.keywords):
            raise ValueError("settings are given by name")
        return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError) as error:
        raise InputError(f"cannot read the settings of the averager {whole!r}: write name(key=value, ...)") from error
