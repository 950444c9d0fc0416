"""Read a folder with a .npz file for each domain: the samples X, their labels y, and perhaps group and split."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from domainwise.data.domains import Domains
from domainwise.data.sources.arrays import domains
from domainwise.errors import InputError

ENDING = ".npz"


def has_arrays(folder: Path) -> bool:
    """Whether a folder holds .npz files and no folders, as one of images would."""
    inside = [path for path in folder.iterdir() if not path.name.startswith(".")]
    return any(path.suffix == ENDING for path in inside) and not any(path.is_dir() for path in inside)


def find_arrays(folder: Path, tokenizer: str) -> Domains:
    """Return the data of a folder; several arrays beside y, or one that is not called X, are a dict of arrays."""
    files = sorted(path for path in folder.iterdir() if path.suffix == ENDING and not path.name.startswith("."))
    found = {file.stem: _read(file) for file in files}
    pairs = {name: (_samples(arrays), arrays["y"]) for name, arrays in found.items()}
    beside = {what: {n: own[what] for n, own in found.items() if what in own} for what in ("group", "split")}
    for what, given in beside.items():
        if given and (missing := [name for name in found if name not in given]):
            raise InputError(f"{folder / missing[0]}{ENDING} has no {what}, and others have: give all of them one")
    groups, splits = (beside[what] or None for what in ("group", "split"))
    return domains(pairs, name=folder.name, groups=groups, splits=splits, tokenizer=tokenizer)


def _samples(arrays: dict[str, Any]) -> Any:
    own = {name: array for name, array in arrays.items() if name not in ("y", "group", "split")}
    return own["X"] if [*own] == ["X"] else own


def _read(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as content:
            arrays = {{"x": "X", "Y": "y"}.get(name, name): content[name] for name in content.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        more = ": save names as an array of text, np.array(names, dtype=str)" if "pickle" in why else ""
        raise InputError(f"{file} cannot be read as arrays ({why}){more}") from error
    if "y" not in arrays or len(arrays) < 2:
        raise InputError(
            f"{file} has {', '.join(arrays) or 'nothing'}: it must have the samples X and the labels y, as "
            'np.savez("north.npz", X=X, y=y) writes them'
        )
    return arrays
