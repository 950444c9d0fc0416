"""Open data from a text: ``digits``, a folder of domain folders, a manifest, or a benchmark with its folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from domainwise.data.domains import Domains
from domainwise.errors import InputError, closest, require

WHAT = (
    "give a folder of domain folders, a manifest or a table (.csv, .tsv, .json), a benchmark as in pacs=DIR, or digits"
)

if TYPE_CHECKING:
    from domainwise.data.decoded.cache import Store
    from domainwise.data.decoded.cache_entries import Say
    from domainwise.data.decoded.decode_all import Progress, Sizes
    from domainwise.data.sources.benchmarks import Benchmark
    from domainwise.data.sources.listing import File, Listing


def open_data(
    text: str,
    *,
    size: int = 64,
    train_size: int | Literal["original"] | None = None,
    eval_size: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    store: Store = "auto",
    skip_corrupt: bool = False,
    strict: bool = False,
    progress: Progress | None = None,
    say: Say | None = None,
) -> Domains:
    """Open the data that ``--data`` names; a folder with the name of embedded data is given as ``./digits``.

    Args:
        size: side of the squares that image files are resized to, in one array to train on and to evaluate on.
        train_size, eval_size: the two sides, where they differ. Images that all have one size and are not larger than
            ``train_size`` are kept pixel for pixel to train on; "original" keeps every pixel of any.
        cache: folder to keep decoded images in (``cache_folder()``); None reads everything into memory.
        store: "decoded" keeps decoded images there, "files" leaves them in their files, each decoded whenever it is
            needed; "auto" is what the cache has, and "files" where neither its disk nor the memory has room.
        skip_corrupt: leave out, with a warning, files that cannot be read as images; otherwise they are an error.
        strict: refuse domains that lack a class, which otherwise is a warning.
        progress: called now and then with the number of images done and the number of all images.
        say: called with sentences about what is going on.
    """
    for name, side in {"size": size, "eval_size": eval_size}.items():
        require(name, side, int | None)
    source = find_source(text)
    if isinstance(source, Domains):
        return source
    from domainwise.data.decoded.decode_all import Sizes

    sizes = Sizes(size if train_size is None else train_size, size if eval_size is None else eval_size)
    how: dict[str, Any] = {"skip_corrupt": skip_corrupt, "strict": strict, "progress": progress, "say": say}
    return read_source(source, sizes, cache=cache, store=store, **how)


def read_source(
    source: Listing,
    sizes: Sizes,
    *,
    cache: str | os.PathLike[str] | None = None,
    store: Store = "auto",
    skip_corrupt: bool = False,
    strict: bool = False,
    progress: Progress | None = None,
    say: Say | None = None,
    decode: bool = True,
) -> Domains:
    """Read the image files that :func:`find_source` has found, as :func:`open_data` does; what is cheap comes first.

    Without ``decode`` the images are black where they are not in the cache; all else is as it will be.
    """
    from domainwise.data.decoded.cache import Store, holds, open_cached
    from domainwise.data.decoded.decode_all import read_into_memory

    say = say or (lambda sentence: None)
    source.require_usable(strict=strict)
    say(source.summary)
    source.warn(source.notes())
    if not decode and not skip_corrupt and not (cache is not None and holds(Path(cache), source, sizes)):
        return foreseen(source, sizes, exact=True)
    require("store", store, Store)
    if cache is None:
        if store != "auto":
            raise InputError("store says what is kept in a cache: name its folder too")
        data, notes = read_into_memory(source, sizes, skip_corrupt=skip_corrupt, progress=progress)
    else:
        data, notes = open_cached(
            source, sizes, Path(cache), store=store, skip_corrupt=skip_corrupt, progress=progress, say=say
        )
    source.warn(notes)
    return data


def foreseen(source: Listing, sizes: Sizes, *, exact: bool = False) -> Domains:
    """Return the data as they will be once they are decoded, with black images that take no memory.

    They serve to check what is asked for before the long work of decoding. ``exact`` reads every file for its hash and
    its size, so that the fingerprint is right too.
    """
    import numpy as np

    from domainwise.data.decoded.decode_all import Content, Layout, layout_of
    from domainwise.data.decoded.image import in_threads, pillow_warnings
    from domainwise.data.domains import assemble

    paths = [file.path for file in source.files]
    side = sizes.evaluate if sizes.train == "original" else sizes.train
    with pillow_warnings():
        layout = layout_of(source.files, sizes) if exact else Layout((side, side))
        heads = list(in_threads(_head, source.files)) if exact else [(path, layout.images) for path in paths]
    shapes = np.array([shape for _, shape in heads], np.int64)
    content = Content(source, [sha256 for sha256, _ in heads], shapes, [])
    lengths = {"pixels": (int(3 * shapes.prod(1).sum()),)}
    rows = {name: lengths.get(name, (len(paths), *shape)) for name, shape in layout.rows.items()}
    black = {name: np.broadcast_to(np.uint8(0), shape) for name, shape in rows.items()}
    return assemble(content.facts(), {**black, **content.columns(layout)})


def _head(file: File) -> tuple[str, tuple[int, int]]:
    """The hash and the shape of an image file, decoded only where its grey values may have more than 8 bits."""
    from domainwise.data.decoded.image import (
        ImageError,
        content_hash,
        image_bytes,
        image_shape,
        is_deep,
        pixels_of,
        read_rgb,
    )

    try:
        content = image_bytes(file.path)
        mode = read_rgb(content)[1] if is_deep(file.path) else ""
        left, top, right, bottom = pixels_of(file.box, image_shape(file.path) or (1, 1))
    except ImageError:  # it is refused when the images are decoded
        return "", (1, 1)
    return content_hash(content, mode), (bottom - top, right - left)


def find_source(text: str, tokenizer: str = "words") -> Listing | Domains:
    """Return the image files that a text names, or the data itself where it is made in a moment.

    ``tokenizer`` makes token ids of texts: as :func:`domainwise.domains` takes it.
    """
    from domainwise.data.sources.folders import find_folders, looking

    require("data", text, str)
    if text == "digits":
        from domainwise.data.sources.digits import digits

        return digits()
    if not text.strip():
        raise InputError(f"no data: {WHAT}")
    path = _path(text)
    with looking():
        there, is_file = path.exists(), path.is_file()
    if not there:
        return _benchmark(text, tokenizer)
    if is_file:
        return _manifest(path, tokenizer)
    from domainwise.data.sources.npz_folder import find_arrays, has_arrays

    with looking():
        arrays = path.is_dir() and has_arrays(path)
    return find_arrays(path, tokenizer) if arrays else find_folders(path)


def benchmark_named(text: str) -> Benchmark | None:
    """Return the benchmark that ``--data`` names, for its settings."""
    from domainwise.data.sources.benchmarks import BENCHMARKS

    name, equals, _ = text.partition("=")
    return BENCHMARKS.get(name.lower() if equals else name) if equals or name == "digits" else None


def _benchmark(text: str, tokenizer: str) -> Listing | Domains:
    from domainwise.data.sources import digits
    from domainwise.data.sources.benchmarks import BENCHMARKS, find_benchmark

    name, equals, place = text.partition("=")
    name = name.lower()
    if name in BENCHMARKS and not place.strip():
        raise InputError(f"{name} is not embedded: say where it lies, --data {name}=DIR")
    if not equals or not name.isidentifier():
        raise InputError(f'"{text}" is neither a file nor a folder nor embedded data: {WHAT}')
    if name not in BENCHMARKS or name == "digits":
        in_folders = [known for known in BENCHMARKS if known != "digits"]
        raise InputError(f'"{name}" is not a benchmark that is read from a folder: {closest(name, in_folders)}')
    folder = _path(place)
    if name == "rotated_mnist":
        return digits.rotated_mnist(folder)
    if name == "colored_mnist":
        return digits.colored_mnist(folder)
    if BENCHMARKS[name].wilds:
        from domainwise.data.sources.wilds import RELEASES, find_release

        if name in RELEASES:
            return find_release(name, folder)
        from domainwise.data.sources.wilds_texts import find_texts

        return find_texts(name, folder, tokenizer)
    return find_benchmark(BENCHMARKS[name], folder)


def _path(text: str) -> Path:
    try:
        return Path(text).expanduser()  # a shell leaves the ~ in pacs=~/data alone
    except RuntimeError:  # of a user that does not exist
        return Path(text)


def _manifest(path: Path, tokenizer: str) -> Listing | Domains:
    from domainwise.data.sources.manifests import SUFFIXES, find_manifest
    from domainwise.data.sources.tables import find_table

    if path.suffix.lower() not in SUFFIXES:
        raise InputError(
            f'"{path}" is a file, but not a manifest ({", ".join(SUFFIXES)}) and not a folder of domain folders'
        )
    return find_table(path, tokenizer) or find_manifest(path)
