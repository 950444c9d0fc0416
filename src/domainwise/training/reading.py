"""Open data where it lies, in the size that the settings ask for, after all that is cheap has been checked."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from domainwise.data.decoded.array_files import Damaged, read_about, verify
from domainwise.data.decoded.cache import Store, cache_folder
from domainwise.data.decoded.cache_entries import entries
from domainwise.data.decoded.decode_all import Sizes
from domainwise.data.domains import Domains
from domainwise.data.sources.listing import Listing
from domainwise.data.sources.open import benchmark_named, find_source, foreseen, read_source
from domainwise.data.sources.wilds_objects import is_wilds, place_of_wilds
from domainwise.errors import InputError, legible, require, typed
from domainwise.experiment.output_folder import is_ours
from domainwise.experiment.settings import Settings, resolve
from domainwise.experiment.trial import Trial
from domainwise.networks.network import check_network
from domainwise.networks.text_encoders import tokenizer_for
from domainwise.saved_models.build import written_network
from domainwise.terminal import lively, pace
from domainwise.training.suited_settings import automatic

Place = str | os.PathLike[str]


def settings_for(
    data: Domains | Place, preset: str = "quick", *, device: str, given: Mapping[str, Any] | None = None
) -> Settings:
    """Return the settings of a preset for some data, with those that are given; data is not opened for that."""
    if isinstance(data, Domains):
        return resolve(preset, benchmark=data.name, device=device, given=given)
    benchmark = benchmark_named(os.fspath(data))
    return resolve(preset, benchmark=benchmark.name if benchmark else "", device=device, given=given)


@dataclass(frozen=True)
class Reading:
    """Say how data is read where it lies."""

    cache: Place | None = None  # the folder of decoded images; None is the usual one
    store: Store = "auto"  # where its images are kept: see domainwise.data.decoded.cache
    skip_corrupt: bool = False
    strict: bool = False
    progress: bool | None = None
    decode: bool = True  # without, images are black where they are not in the cache


def read(
    data: Domains | Place,
    settings: Settings,
    how: Reading,
    *,
    device: str,
    output: Path | str | None = None,
    check: Callable[[Domains, Settings], object] = lambda data, settings: None,
) -> tuple[Domains, Settings]:
    """Return data as it is, or open it where it lies, in the sizes that the settings ask for; and the settings.

    The settings come back with a network in the place of "auto". ``check`` is called with the data as it will be,
    before images are decoded, to refuse what cannot be run on it.
    """
    if isinstance(data, Domains) and (how.store != "auto" or how.skip_corrupt or how.strict):
        raise InputError('store, skip_corrupt and strict are for data that is named, such as "photos"')
    source = data if isinstance(data, Domains) else find_source(os.fspath(data), tokenizer_for(settings.network))
    settings = automatic(settings, source, device=device, output=output)
    if isinstance(source, Domains):
        return source, settings
    # Where trials have been run already, it may be that none is missing: who runs one checks it then.
    if not (output is not None and settings.weights == "pretrained" and is_ours(Path(output).expanduser())):
        check_network(settings.network, settings.weights, settings.input_size)
    sizes = Sizes(settings.train_size, settings.input_size)  # type: ignore[arg-type]  # settings has checked it
    source.require_usable(strict=how.strict)
    check(foreseen(source, sizes), settings)
    return _decoded(source, sizes, how), settings


USUAL, WITH_MARGIN = 224, 256  # sides of images to evaluate on and to crop from, for pretrained networks


@typed
def open_data(
    place: Any,
    size: int | None = None,
    *,
    cache: Path | str | None = None,
    store: Store = "auto",
    skip_corrupt: bool = False,
    strict: bool = False,
    progress: bool | None = None,
) -> Domains:
    """Open what ``--data`` takes: "digits", a folder of domain folders, "manifest.csv", or a benchmark as "pacs=DIR".

    A dataset of the package wilds is read from its folder, where that is one of the sets that ``--data`` knows.

    Images are decoded once, into a cache (a folder may be named by ``cache``), and squeezed into squares.

    Args:
        size: side of the squares; without it 224, as pretrained networks see them, or that of the largest image where
            all are smaller, as a hundred of them tell.
        store: "decoded", or "files" to leave images in their files and decode each whenever it is needed; "auto" is
            "files" where neither the cache's disk nor the memory has room for decoded ones.
        skip_corrupt: leave out, with a warning, files that cannot be read as images; otherwise they are an error.
        strict: refuse domains that lack a class, which otherwise is a warning.
        progress: show a bar or not; by default where somebody looks on.
    """
    place = place_of_wilds(place) if is_wilds(place) else place
    require("data", place, str | os.PathLike[str])
    source = find_source(os.fspath(place))
    if isinstance(source, Domains):
        if size is not None and source.shape[:2] != (size, size):
            raise InputError(
                f"the images of {source.name} have {source.shape[0]} x {source.shape[1]} pixels and are read in no "
                f"other size: leave size out, and say input_size={size} where a network is to see them so"
            )
        return source
    source.require_usable(strict=strict)
    sizes = Sizes(size, size) if size is not None else _usual_sizes(source)
    return _decoded(source, sizes, Reading(cache, store, skip_corrupt, strict, progress))


def _usual_sizes(source: Listing) -> Sizes:
    side = source.largest_side or USUAL
    return Sizes(side, side) if side < USUAL else Sizes(WITH_MARGIN, USUAL)


def read_for(trial: Trial, text: str, how: Reading) -> Domains:
    """Open the data of a trial in the sizes that it was trained with."""
    if not trial.input_size:
        if (
            isinstance(source := find_source(text, tokenizer_for(written_network(trial.located()))), Domains)
            and source.form != "images"
        ):
            return source
        raise InputError(
            f"these are results of arrays ({legible(trial.data)}), which --data cannot name: in Python, "
            "dw.fit(Results.open(folder, data=...))"
        )
    sizes = Sizes(trial.train_size or trial.input_size, trial.input_size)  # type: ignore[arg-type]  # as above
    source = find_source(text)
    return source if isinstance(source, Domains) else _decoded(source, sizes, how)


def cached(trial: Trial, cache: Place | None = None) -> Domains | None:
    """Return the images of a trial from the cache of decoded ones, found by their fingerprint; None if not there."""
    for entry in entries(cache_folder(cache)):
        with suppress(Damaged, OSError, KeyError, TypeError, ValueError):
            about = read_about(entry.path)
            if trial.fingerprint not in (about["fingerprint"], about.get("plain")):
                continue
            verify(entry.path, again=False)
            data = Domains.open(entry.path).known_as(trial.fingerprint)
            if data.shape[0] == trial.size and data.evaluation_shape[0] == trial.input_size:
                return data
    return None


def _decoded(source: Listing, sizes: Sizes, how: Reading) -> Domains:
    with pace("images read", quiet=not lively(how.progress)) as tick:
        return read_source(
            source,
            sizes,
            cache=cache_folder(how.cache),
            store=how.store,
            skip_corrupt=how.skip_corrupt,
            strict=how.strict,
            progress=tick,
            say=(lambda sentence: print(sentence, file=sys.stderr, flush=True)) if how.progress else None,
            decode=how.decode,
        )
