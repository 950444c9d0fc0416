"""Find images in folders: ``DIR/<domain>/<class>/<image>``, also deeper below the class."""

from __future__ import annotations

import errno
import os
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from domainwise.data.decoded.decode_all import Progress, Sizes, read_into_memory
from domainwise.data.decoded.image import endings, unread
from domainwise.data.domains import Domains
from domainwise.data.sources.listing import File, Listing, Skipped, listed, quoted
from domainwise.errors import InputError, typed, warn

LAYOUT = f"images ({', '.join(endings())}) must lie in DIR/<domain>/<class>/"
SPLITS = {"dev", "eval", "evaluation", "holdout", "test", "testing", "train", "training", "val", "valid", "validation"}


class Seen(NamedTuple):
    """The names in a folder, without hidden ones and links that lead back up."""

    inside: list[str]
    images: list[str]
    others: list[str]
    dangling: list[str]  # links that lead nowhere, unless they are called as images are


@dataclass
class Left:
    """Files that are found on the way and not taken."""

    endings: Sequence[str] = field(default_factory=endings)  # of the files that are taken
    loose: list[str] = field(default_factory=list)  # images outside the class folders
    others: Counter[tuple[str, str]] = field(default_factory=Counter)  # of each folder of a class, by ending
    empty: list[str] = field(default_factory=list)  # class folders without images
    dangling: list[str] = field(default_factory=list)

    def note(self, place: str, below: str, seen: Seen) -> None:
        """Remember what is not taken of a folder that belongs to ``place``."""
        self.others.update((place, os.path.splitext(name)[1].lower()) for name in seen.others)  # noqa: PTH122  faster
        self.dangling += [f"{below}/{name}".removeprefix("/") for name in seen.dangling]

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """Count what is not read, by folder and ending."""
        return tuple(Skipped(*key, count, unread(key[1])) for key, count in sorted(self.others.items()))

    def sentences(self) -> tuple[str, ...]:
        """Say what a user should know of."""
        oddities = {
            "image(s) outside the class folders are left out": self.loose,
            "class folder(s) have no images": self.empty,
            "link(s) lead nowhere": self.dangling,
        }
        return tuple(listed(what, [*map(quoted, names)]) for what, names in oddities.items() if names)


@typed
def folders(
    path: str | os.PathLike[str],
    *,
    size: int = 64,
    skip_corrupt: bool = False,
    strict: bool = False,
    progress: Progress | None = None,
) -> Domains:
    """Read ``path/<domain>/<class>/<image>``: every image as RGB, resized to ``size`` x ``size``.

    Domains and classes are in the order of their names, images in the order of class and path. The aspect ratio is not
    kept, as in the published protocol. Hidden files are passed over, links are followed. The fingerprint is that of
    the files' content and relative paths: it depends neither on ``size`` nor on where the folder lies.

    Args:
        skip_corrupt: leave out, with a warning, files that cannot be read as images; otherwise they are an error.
        strict: refuse domains that lack a class, which otherwise is a warning.
        progress: called now and then with the number of images done and the number of all images.
    """
    listing = find_folders(Path(path))
    listing.require_usable(strict=strict)
    listing.warn(listing.notes())
    data, notes = read_into_memory(listing, Sizes(size, size), skip_corrupt=skip_corrupt, progress=progress)
    listing.warn(notes)
    return data


def find_folders(root: Path) -> Listing:
    """Return the image files below a folder of domains, which need not have the same classes yet."""
    require_folder(root)
    with looking():
        seen, left = look(root), Left()
        left.loose += seen.images
        left.note("", "", seen)
        found = find_domains({name: root / name for name in seen.inside}, left)
    pictures = {each.place.partition("/")[0] for each in left.skipped if each.why}
    empty = [quoted(name) for name in seen.inside if not found[name] and name not in pictures]
    files = [file for domain in found.values() for file in domain]
    _require_domains(root, files)
    notes = [listed("folder(s) without images are not domains", empty)] if empty else []
    name = root.resolve().name or "data"
    classes = tuple(sorted({file.class_name for file in files}))
    return Listing(name, root, classes, files, (*notes, *left.sentences()), left.skipped)


def require_folder(root: Path) -> None:
    """Refuse a path that is not a folder."""
    with looking():
        if not root.is_dir():
            what = f'"{root}" is a file, not a folder' if root.exists() else f'there is no folder "{root}"'
            raise InputError(f"{what}: give the folder whose sub-folders are the domains")


def find_domains(places: Mapping[str, Path], left: Left) -> dict[str, list[File]]:
    """Return the image files of each domain, given its folder; note in ``left`` what is not taken."""
    return {domain: _find_domain(domain, folder, left) for domain, folder in places.items()}


def _find_domain(domain: str, folder: Path, left: Left) -> list[File]:
    seen = look(folder, left.endings)
    left.note(domain, domain, seen)
    files, empty = [], []
    for name in seen.inside:
        # One class may be spelled with composed letters here and decomposed ones there: archives made on a Mac do it.
        class_name = unicodedata.normalize("NFC", _legible(name))
        inside = list(_images_below(str(folder), name, set(), left, f"{domain}/{class_name}", domain))
        files += [File(domain, class_name, os.path.join(folder, below), f"{domain}/{below}") for below in inside]  # noqa: PTH118  faster
        empty += [] if inside else [f"{domain}/{class_name}"]
    if seen.images and not files:
        raise InputError(
            f"domain {quoted(domain)} has images ({quoted(seen.images[0])}) but no class folders: {LAYOUT}; "
            f"if {quoted(domain)} is a class, give the folder that holds the domains"
        )
    if files:
        _legible(domain)
        left.empty += empty
    left.loose += [f"{domain}/{name}" for name in seen.images]
    return sorted(files, key=lambda file: (file.class_name, *file.relative.rpartition("/")))


def images_in(places: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return the images below folders, however deep, and the files given by name; none of them twice."""
    found: dict[str, str] = {}
    given, left = [Path(place) for place in places], Left()
    with looking():
        for place in given:
            inside = place.is_dir()
            if not inside and not place.exists() and not place.is_symlink():
                raise InputError(f"there is no file or folder {quoted(str(place))}")
            below = _images_below(str(place), ".", set(), left, str(place)) if inside else ()
            for path in (place / each for each in below) if inside else [place]:
                found.setdefault(os.path.abspath(path), str(path))  # noqa: PTH100  its ".." is as the user means it
    skipped = [str(each) for each in left.skipped if each.why]
    if not found:
        where = ", ".join(quoted(str(place)) for place in given[:3]) or "nothing"
        there = f"; there are {', '.join(skipped[:3])}" if skipped else ""
        raise InputError(f"there are no images in {where}: looked for {', '.join(endings())}{there}")
    if skipped:
        warn(f"not read: {', '.join(skipped)}")
    return list(found.values())


def _images_below(
    root: str, relative: str, entered: set[str], left: Left, place: str, above: str = ""
) -> Iterator[str]:
    folder = Path(root, relative)
    real = os.path.realpath(folder)
    if real in entered:  # links can lead in circles
        return
    entered.add(real)
    seen = look(folder, left.endings)
    left.note(place, f"{above}/{relative}", seen)
    yield from (f"{relative}/{name}" for name in seen.images)
    for name in seen.inside:
        yield from _images_below(root, f"{relative}/{name}", entered, left, place, above)


def look(folder: Path, taken: Sequence[str] = endings()) -> Seen:
    """Look into a folder; files with the endings ``taken`` are its images."""
    seen = Seen([], [], [], [])
    with os.scandir(folder) as entries:
        visible = sorted((entry.name, entry) for entry in entries if not entry.name.startswith("."))
    here = Path(os.path.realpath(folder))
    for name, entry in visible:
        if name.lower().endswith(tuple(taken)) and not _is_folder(entry):
            seen.images.append(name)
        elif not _is_folder(entry):
            (seen.dangling if entry.is_symlink() and not Path(entry.path).exists() else seen.others).append(name)
        elif name != "__MACOSX" and not here.is_relative_to(os.path.realpath(entry.path)):
            seen.inside.append(name)
    return seen


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
    except OSError as error:
        if error.errno == errno.ELOOP:  # a link to itself
            return False
        raise


def _legible(name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InputError(f"the folder name {name!a} is not valid UTF-8: rename it") from None
    return name


def _require_domains(root: Path, files: list[File]) -> None:
    if not files:
        raise InputError(f'"{root}" has no images in class folders: {LAYOUT}')
    domains, classes = {file.domain for file in files}, {file.class_name for file in files}
    for names, what in ((domains, "domains"), (classes, "classes")):
        if {name.casefold() for name in names} <= SPLITS:
            raise InputError(
                f'the folders {", ".join(quoted(name) for name in sorted(names))} of "{root}" stand where the {what} '
                f"belong, and read as the parts of a split: {LAYOUT}; to keep your split, give a manifest, a CSV file "
                "with the columns path, domain, label and split (train or holdout)"
            )
    if len(domains) == 1:
        raise InputError(
            f'"{root}" has only one domain ("{files[0].domain}"): there must be one to train on and one to hold out; '
            f'if the domains are folders inside it ("{files[0].class_name}"), give "{root / files[0].domain}"'
        )
