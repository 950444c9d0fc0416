"""Keep the features that a frozen network made of images, beside the decoded images, with checksums like theirs."""

from __future__ import annotations

import errno
import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from domainwise.data.decoded.array_files import ArrayWriter, Damaged, open_arrays, trust, verify, write_about
from domainwise.data.decoded.cache_entries import discard, remove_leftovers
from domainwise.data.domains import Domains
from domainwise.files import exists, locked, reading
from domainwise.machine import free_disk, human_size

Features = npt.NDArray[np.float32]
Compute = Callable[[], Iterator[Features]]


def kept_features(
    data: Domains, made_of: Mapping[str, Any], compute: Compute, folder: Path, say: Callable[[str], None]
) -> Features:
    """Return the features of all images, (N, d), mapped from a cache folder; compute them into it at first.

    ``made_of`` is all that they depend on: where any of it differs they are others, with an entry of their own. A
    folder that cannot be written to is no reason to stop: they are then computed into memory.
    """
    text = json.dumps(made_of, sort_keys=True)
    slug = re.sub(r"[^A-Za-z0-9_.]+", "_", data.name).strip("_.")[:40] or "data"
    entry = folder / f"{slug}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    found = _existing(entry, text)
    try:
        if found is None:
            folder.mkdir(parents=True, exist_ok=True)
            waiting = partial(say, f"another process is computing the features of {data.name}: waiting for it")
            with locked(folder / f".{entry.name}.lock", waiting) as certain:
                found = _existing(entry, text, say)  # another process may have been faster
                if found is None:
                    if certain:
                        remove_leftovers(entry)
                    _build(data, entry, text, compute())
                    found = _existing(entry, text)
    except OSError as error:
        say(f"features cannot be kept in {folder} ({error.strerror}), but only in memory")
    return np.concatenate([*compute()]) if found is None else found


def _existing(entry: Path, text: str, say: Callable[[str], None] | None = None) -> Features | None:
    """The content of an entry. With ``say``, one that is damaged is told of and removed."""
    try:
        with reading(entry):
            if not exists(entry):
                return None
            facts, arrays = open_arrays(entry)
            verify(entry, again=False)
            if facts.get("made_of") != text:
                raise Damaged("it is of something else")
            return arrays["images"]
    except Damaged as error:
        if say is not None:
            say(f"what was kept in {entry} is damaged ({error}): the features are computed anew")
            discard(entry)
        return None


def _build(data: Domains, entry: Path, text: str, computed: Iterator[Features]) -> None:
    first = next(computed)
    need, free = first.nbytes // len(first) * sum(map(len, data)), free_disk(entry.parent)
    if need > free:
        raise OSError(errno.ENOSPC, f"{human_size(need)} are needed and {human_size(free)} are free")
    temporary = entry.with_name(f".{entry.name}.{uuid4().hex[:8]}")
    try:
        temporary.mkdir()
        file = ArrayWriter(temporary / "images.npy", first.shape[1:], np.float32)
        try:
            for rows in chain([first], computed):
                file.add(rows)
            checksums = {"images": file.finish()}
        finally:
            file.close()
        about = json.loads(text)
        facts = {
            "name": data.name,
            "classes": [*data.classes],
            "domains": [[domain.name, len(domain)] for domain in data],
            "fingerprint": data.fingerprint,
            "source": f"features by {about['network']}",
            "sizes": str(about["input_size"]),
            "created": time.time(),
            "made_of": text,
        }
        write_about(temporary, checksums, **facts)
        trust(temporary, [temporary / "images.npy"])
        try:
            temporary.rename(entry)
        except OSError:
            if not entry.is_dir():  # or else another process was faster
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
