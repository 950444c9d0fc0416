"""Find images in folders: ``DIR/<domain>/<class>/<image>``, also deeper below the class."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from domainwise.data.decoded.decode_all import Progress, Sizes, read_into_memory
from domainwise.data.decoded.image import SUFFIXES
from domainwise.data.domains import Domains
from domainwise.data.sources.listing import File, Listing, listed, quoted
from domainwise.errors import InputError, typed, warn

LAYOUT = f"images ({', '.join(SUFFIXES)}) must lie in DIR/<domain>/<class>/"


@typed
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
    listing = find_folders(Path(path))
    listing.require_usable()
    data, oddities = read_into_memory(listing, Sizes(size, size), skip_corrupt=skip_corrupt, progress=progress)
    for oddity in oddities:
        warn(f"{listing.name}: {oddity}", UserWarning)
    return data


def find_folders(root: Path) -> Listing:
    """Return the image files below a folder of domains, which need not have the same classes yet."""
    require_folder(root)
    with looking():
        inside, loose = look(root)
        found = find_domains({name: root / name for name in inside}, loose)
    empty = [quoted(name) for name in inside if not found[name]]
    files = [file for domain in found.values() for file in domain]
    _require_domains(root, files)
    oddities = {
        "folder(s) without images are not domains": empty,
        "image(s) outside the class folders are left out": [quoted(name) for name in loose],
    }
    sentences = tuple(listed(what, names) for what, names in oddities.items() if names)
    name = root.resolve().name or "data"
    return Listing(name, root, tuple(sorted({file.class_name for file in files})), files, sentences)


def require_folder(root: Path) -> None:
    """Refuse a path that is not a folder."""
    with looking():
        if not root.is_dir():
            what = f'"{root}" is a file, not a folder' if root.exists() else f'there is no folder "{root}"'
            raise InputError(f"{what}: give the folder whose sub-folders are the domains")


def find_domains(places: Mapping[str, Path], loose: list[str]) -> dict[str, list[File]]:
    """Return the image files of each domain, given its folder; append images outside the classes to ``loose``."""
    return {domain: _find_domain(domain, folder, loose) for domain, folder in places.items()}


def _find_domain(domain: str, folder: Path, loose: list[str]) -> list[File]:
    inside, images = look(folder)
    files = []
    for name in inside:
        # One class may be spelled with composed letters here and decomposed ones there: archives made on a Mac do it.
        class_name = unicodedata.normalize("NFC", _legible(name))
        for below in _images_below(str(folder), name, set()):
            files.append(File(domain, class_name, os.path.join(folder, below), f"{domain}/{below}"))  # noqa: PTH118  faster
    if images and not files:
        raise InputError(
            f"domain {quoted(domain)} has images ({quoted(images[0])}) but no class folders: {LAYOUT}; "
            f"if {quoted(domain)} is a class, give the folder that holds the domains"
        )
    if files:
        _legible(domain)
    loose += [f"{domain}/{name}" for name in images]
    return sorted(files, key=lambda file: (file.class_name, *file.relative.rpartition("/")))


def images_in(places: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return the images below folders, however deep, and the files given by name; none of them twice."""
    found: dict[str, str] = {}
    given = [Path(place) for place in places]
    with looking():
        for place in given:
            inside = place.is_dir()
            if not inside and not place.exists() and not place.is_symlink():
                raise InputError(f"there is no file or folder {quoted(str(place))}")
            for path in (place / below for below in _images_below(str(place), ".", set())) if inside else [place]:
                found.setdefault(os.path.abspath(path), str(path))  # noqa: PTH100  its ".." is as the user means it
    if not found:
        where = ", ".join(quoted(str(place)) for place in given[:3]) or "nothing"
        raise InputError(f"there are no images in {where}: looked for {', '.join(SUFFIXES)}")
    return list(found.values())


def _images_below(root: str, relative: str, entered: set[str]) -> Iterator[str]:
    folder = Path(root, relative)
    real = os.path.realpath(folder)
    if real in entered:  # links can lead in circles
        return
    entered.add(real)
    inside, images = look(folder)
    yield from (f"{relative}/{name}" for name in images)
    for name in inside:
        yield from _images_below(root, f"{relative}/{name}", entered)


def look(folder: Path) -> tuple[list[str], list[str]]:
    """Return the names of sub-folders and of images, without hidden ones and links that lead back up."""
    with os.scandir(folder) as entries:
        visible = sorted((entry.name, _is_folder(entry)) for entry in entries if not entry.name.startswith("."))
    here = Path(os.path.realpath(folder))
    inside = [name for name, is_folder in visible if is_folder and name != "__MACOSX"]
    images = [name for name, is_folder in visible if not is_folder and name.lower().endswith(SUFFIXES)]
    return [name for name in inside if not here.is_relative_to(os.path.realpath(folder / name))], images


@contextmanager
def looking() -> Iterator[None]:
    """Turn an error of the system into a sentence, around code that looks into folders."""
    try:
        yield
    except OSError as error:
        raise InputError(f'cannot look into "{error.filename}": {error.strerror}') from error


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _legible(name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InputError(f"the folder name {name!a} is not valid UTF-8: rename it") from None
    return name


def _require_domains(root: Path, files: list[File]) -> None:
    if not files:
        raise InputError(f'"{root}" has no images in class folders: {LAYOUT}')
    if len({file.domain for file in files}) == 1:
        raise InputError(
            f'"{root}" has only one domain ("{files[0].domain}"): there must be one to train on and one to hold out; '
            f'if the domains are folders inside it ("{files[0].class_name}"), give "{root / files[0].domain}"'
        )
