"""Domains from folders: ``DIR/<domain>/<class>/<image>``, images also deeper below the class."""

from __future__ import annotations

import hashlib
import json
import os
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from domainwise.data.decode import SUFFIXES, ImageError, pillow_warnings, read
from domainwise.data.domains import Domain, Domains, Images
from domainwise.errors import InputError

LAYOUT = f"images ({', '.join(SUFFIXES)}) must lie in DIR/<domain>/<class>/"
BATCH = 64  # files between two calls of `progress`, and the most that are still read after Ctrl-C

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class File:
    domain: str
    kind: str  # its class
    path: Path
    relative: str  # to the data folder, with forward slashes

    def __str__(self) -> str:
        return _quoted(self.relative)


def folders(
    path: str | os.PathLike[str], *, size: int = 64, skip_corrupt: bool = False, progress: Progress | None = None
) -> Domains:
    """Read ``path/<domain>/<class>/<image>``: every image as RGB, resized to ``size`` x ``size``.

    Domains and classes are in the order of their names, images in the order of class and path. The aspect ratio is not
    kept, as in the published protocol. Hidden files are passed over, links are followed. The fingerprint is that of
    the files' content and relative paths: it depends neither on ``size`` nor on where the folder lies.

    Args:
        skip_corrupt: leave out, with a warning, files that cannot be read as images; otherwise they are an error.
        progress: called now and then with the number of images done and the number of all images.
    """
    root = Path(path)
    files, oddities = _find(root)
    name = root.resolve().name or "data"
    pixels = _room(len(files), size)
    _assemble(name, files, pixels, "")  # what is wrong with the layout is said before the long work, not after
    results = _read_all(files, pixels, skip_corrupt, progress)
    if bad := [f"{file} ({why})" for file, why in zip(files, results, strict=True) if isinstance(why, ImageError)]:
        oddities.append(_listed("file(s) cannot be read as images and are left out", bad))
        files, pixels = _without_corrupt(files, pixels, results)
    for oddity in oddities:
        warnings.warn(f"{name}: {oddity}", stacklevel=2)
    contents = sorted(zip((file.relative for file in files), (r for r in results if isinstance(r, str)), strict=True))
    return _assemble(name, files, pixels, hashlib.sha256(json.dumps(contents).encode()).hexdigest())


def _without_corrupt(
    files: Sequence[File], pixels: Images, results: Sequence[str | ImageError]
) -> tuple[list[File], Images]:
    kept = [i for i, result in enumerate(results) if isinstance(result, str)]
    if not kept:
        raise InputError(f"none of the {len(files)} files can be read as an image: {files[0]} ({results[0]}), ...")
    good = [files[i] for i in kept]
    _require_same_classes({file.domain for file in files}, good)
    return good, pixels[kept]


def _find(root: Path) -> tuple[list[File], list[str]]:
    """The image files in the order of domain, class and path; and what else is worth a warning."""
    try:
        if not root.is_dir():
            what = f'"{root}" is a file, not a folder' if root.exists() else f'there is no folder "{root}"'
            raise InputError(f"{what}: give the folder whose sub-folders are the domains")
        inside, loose = _look(root)
        found = {folder: _find_domain(root, folder, loose) for folder in inside}
    except OSError as error:
        raise InputError(f'cannot look into "{error.filename}": {error.strerror}') from error
    files = [file for domain in found.values() for file in domain]
    if not files:
        raise InputError(f'"{root}" has no images in class folders: {LAYOUT}')
    _require_two_domains(root, files)
    _require_same_classes({file.domain for file in files}, files)
    oddities = {
        "folder(s) without images are not taken for domains": [folder.name for folder in inside if not found[folder]],
        "image(s) outside the class folders are left out": [path.relative_to(root).as_posix() for path in loose],
    }
    return files, [_listed(what, [_quoted(name) for name in names]) for what, names in oddities.items() if names]


def _find_domain(root: Path, folder: Path, loose: list[Path]) -> list[File]:
    inside, images = _look(folder)
    files = [
        # One class may be spelled with composed letters here and decomposed ones there: archives made on a Mac do it.
        File(_legible(folder), unicodedata.normalize("NFC", _legible(kind)), path, path.relative_to(root).as_posix())
        for kind in inside
        for path in _images_below(kind, set())
    ]
    if images and not files:
        raise InputError(
            f"domain {_quoted(folder.name)} has images ({_quoted(images[0].name)}) but no class folders: {LAYOUT}; "
            f"if {_quoted(folder.name)} is a class, give the folder that holds the domains"
        )
    loose += images
    return sorted(files, key=lambda file: (file.kind, *file.relative.rpartition("/")))


def _images_below(folder: Path, entered: set[str]) -> Iterator[Path]:
    real = os.path.realpath(folder)
    if real in entered:  # links can lead in circles
        return
    entered.add(real)
    inside, images = _look(folder)
    yield from images
    for each in inside:
        yield from _images_below(each, entered)


def _look(folder: Path) -> tuple[list[Path], list[Path]]:
    """The sub-folders and the images, without hidden ones and without links back to where we came from."""
    with os.scandir(folder) as entries:
        visible = sorted((entry.name, _is_folder(entry)) for entry in entries if not entry.name.startswith("."))
    here = Path(os.path.realpath(folder))
    inside = [folder / name for name, is_folder in visible if is_folder and name != "__MACOSX"]
    images = [folder / name for name, is_folder in visible if not is_folder and name.lower().endswith(SUFFIXES)]
    return [each for each in inside if not here.is_relative_to(os.path.realpath(each))], images


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _legible(folder: Path) -> str:
    try:
        folder.name.encode()
    except UnicodeEncodeError:
        raise InputError(f"the folder name {folder.name!a} is not valid UTF-8: rename it") from None
    return folder.name


def _require_two_domains(root: Path, files: Sequence[File]) -> None:
    if len({file.domain for file in files}) == 1:
        raise InputError(
            f'"{root}" has only one domain ("{files[0].domain}"): there must be one to train on and one to hold out; '
            f'if the domains are folders inside it ("{files[0].kind}"), give "{root / files[0].domain}"'
        )


def _require_same_classes(domains: set[str], files: Sequence[File]) -> None:
    having: dict[str, set[str]] = {}
    for file in files:
        having.setdefault(file.kind, set()).add(file.domain)
    gaps = [(domain, kind) for domain in sorted(domains) for kind in sorted(having) if domain not in having[kind]]
    if gaps:
        domain, kind = gaps[0]
        do, others = len(having[kind]), len(domains) - 1
        who = "the other domain does" if others == 1 else f"the other {others} domains do"
        raise InputError(
            f'domain "{domain}" has no class "{kind}" ({who if do == others else f"{do} of {who}"}): '
            f'add images to "{domain}/{kind}", or remove class "{kind}" from every domain'
            + (f"; there are {len(gaps)} such gaps in all" if len(gaps) > 1 else "")
        )


def _room(count: int, size: int) -> Images:
    if size < 1:
        raise InputError(f"the size of the images must be 1 pixel or more, got {size}")
    try:
        return np.empty((count, size, size, 3), np.uint8)
    except (MemoryError, ValueError):
        need = f"{3 * count * size**2 / 2**30:,.0f} GiB"
        raise InputError(f"{count} images of {size} x {size} need {need} of memory: choose a smaller size") from None


def _read_all(
    files: Sequence[File], pixels: Images, skip_corrupt: bool, progress: Progress | None
) -> list[str | ImageError]:
    """Fill the rows of ``pixels``; returns the hash of each file's content, or why there is none."""
    results: list[str | ImageError] = []
    paths = [file.path for file in files]
    with pillow_warnings(), ThreadPoolExecutor(os.cpu_count()) as pool:  # threads do: Pillow lets go of the interpreter
        for start in range(0, len(files), BATCH):
            batch = slice(start, start + BATCH)
            results += pool.map(read, paths[batch], pixels[batch])
            for file, result in zip(files[batch], results[batch], strict=True):
                if isinstance(result, ImageError) and not skip_corrupt:
                    raise InputError(
                        f"{file} cannot be read as an image ({result}): "
                        "use --skip-corrupt (skip_corrupt=True) to leave such files out"
                    )
            if progress is not None:
                progress(len(results), len(files))
    return results


def _assemble(name: str, files: Sequence[File], pixels: Images, fingerprint: str) -> Domains:
    classes = sorted({file.kind for file in files})
    label = {kind: i for i, kind in enumerate(classes)}
    items, start = [], 0
    for domain, group in groupby(files, lambda file: file.domain):
        labels = np.array([label[file.kind] for file in group], np.int64)
        items.append(Domain(domain, pixels[start : start + len(labels)], labels))
        start += len(labels)
    return Domains(name, tuple(classes), tuple(items), fingerprint)


def _quoted(name: str) -> str:
    return '"' + name.encode(errors="backslashreplace").decode() + '"'  # not every name on a disk is valid Unicode


def _listed(what: str, things: Sequence[str]) -> str:
    """A sentence that counts the things and names the first few."""
    dots = ", ..." if len(things) > 3 else ""
    return f"{len(things)} {what}: {', '.join(things[:3])}{dots}"
