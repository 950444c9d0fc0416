"""Check the numbers that samples are given as: images, rows of tables and signals, to train on or to predict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from domainwise.data.domains import Values
from domainwise.errors import InputError
from domainwise.networks.forms import TOKENS, Layout, extent_of, form_of, shapes_of

FEW = 4  # channels that a picture has at most: where one is no higher than that, but wider and deeper, they come first


def values_of(name: str, x: Any, form: str | None) -> Values:
    """Return the samples of a domain, checked, as they are kept."""
    if isinstance(x, Mapping):
        return records_of(f'domain "{name}"', x)
    array = array_of(f'the images of domain "{name}"', x)
    numbers = array.dtype.kind in "uifb"
    if array.ndim == 3 and numbers and (form or ("images" if array.dtype == np.uint8 else "signals")) == "signals":
        _require_time_last(name, array.shape, form)
        return _numbers(f'domain "{name}"', array)
    if array.ndim == 2 and numbers:
        return _numbers(f'domain "{name}"', array)
    if array.ndim == 3 and array.dtype.kind == "f":
        array = array[..., None]
    if array.ndim == 4 and array.dtype.kind == "f":
        _require_channels_last(name, array.shape)
        _require_from_0_to_1(name, array)
        return np.ascontiguousarray(array, np.float32)
    if array.dtype != np.uint8 or array.ndim not in (3, 4):
        raise InputError(
            f'the images of domain "{name}" must be uint8 of shape (N, H, W) or (N, H, W, C), or floats from 0 to 1 of '
            "shape (N, H, W, C), or signals of shape (N, C, T), or a table of numbers of shape (N, d): got "
            f"{array.dtype} of shape {array.shape}"
        )
    array = array[..., None] if array.ndim == 3 else array
    _require_channels_last(name, array.shape)
    # Torch takes none that runs backwards, as x[..., ::-1] does.
    return array if min(array.strides, default=0) >= 0 else np.ascontiguousarray(array)


def records_of(what: str, given: Mapping[Any, Any]) -> npt.NDArray[Any]:
    """Return a dict of arrays as one array of records, of which each has a row of every array."""
    arrays = {str(name): array_of(f"the {name} of {what}", x) for name, x in given.items()}
    counts = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if not arrays or len({*counts.values()}) > 1:
        told = ", ".join(f"{count} of {name}" for name, count in counts.items()) or "none"
        raise InputError(f"a dict has as many samples in each of its arrays, and {what} has {told}")
    arrays = {name: _field(f"the {name} of {what}", name, array) for name, array in arrays.items()}
    kinds = [(name, array.dtype, array.shape[1:]) for name, array in arrays.items()]
    records = np.empty(next(iter(counts.values())), kinds)
    for name, array in arrays.items():
        records[name] = array
    return records


def _field(what: str, name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """One array of a dict in the fewest bytes: masks as bytes, whole numbers in 32 bits, and others too."""
    if array.dtype.kind == "f":
        return _numbers(what, array)
    small = array.dtype.kind == "b" or name.endswith(("mask", "type_ids"))
    least, most = (0, 255) if small else (0 if name == TOKENS else -(2**31), 2**31 - 1)
    if array.dtype.kind not in "iub" or not array.size or array.min() < least or array.max() > most:
        found = f" from {array.min()} to {array.max()}" if array.dtype.kind in "iub" and array.size else ""
        raise InputError(
            f"{what} must be numbers, whole ones from {least:,} to {most:,}, got {array.dtype} of {array.shape}{found}"
        )
    return array.astype(np.uint8 if small else np.int32)


def _numbers(what: str, array: npt.NDArray[Any]) -> Values:
    """The rows of a table, or signals, whatever numbers they are."""
    with np.errstate(over="ignore"):  # what is too large for 32 bits becomes infinite, and that is refused
        found = np.ascontiguousarray(array, np.float32)
    _require_finite(what, found)
    return found


def _require_time_last(name: str, shape: tuple[int, ...], form: str | None) -> None:
    """Ask what is meant by more channels than steps: pictures in grey, or time before channels."""
    _, channels, steps = shape
    if form is None and 1 < steps <= channels:
        raise InputError(
            f'the arrays of domain "{name}" have shape {shape}, which reads as signals of {channels} channels over '
            f'{steps} steps. If they are grey images, say form="images"; if time comes before channels, give '
            f'x.swapaxes(1, 2); if it is as it reads, say form="signals"'
        )


def _require_finite(what: str, array: npt.NDArray[Any]) -> None:
    wrong = ~np.isfinite(array)
    if wrong.any():
        raise InputError(
            f"{what} has {_where(wrong)} that are not finite numbers (nan, or too large): leave these rows "
            "out, or fill the gaps in"
        )


def _require_from_0_to_1(name: str, images: npt.NDArray[Any]) -> None:
    _require_finite(f'domain "{name}"', images)
    wrong = (images < 0) | (images > 1)
    if wrong.any():
        raise InputError(
            f'the images of domain "{name}" are floats, which go from 0 to 1, and there are {_where(wrong)} outside '
            f"({images.min():g} to {images.max():g}): divide what goes to 255 by 255, and undo a normalisation, which "
            "is done here"
        )


def _where(wrong: npt.NDArray[Any]) -> str:
    rows = np.flatnonzero(wrong.reshape(len(wrong), -1).any(1))
    first = ", ".join(map(str, rows[:3])) + (", ..." if len(rows) > 3 else "")
    return f"{wrong.sum():,} values in {len(rows):,} of {len(wrong):,} rows (number {first})"


def _require_channels_last(name: str, shape: tuple[int, ...]) -> None:
    _, height, width, channels = shape
    many = height < width == channels  # squares of more bands than a picture has
    if min(width, channels) > FEW and (height <= FEW or many):
        raise InputError(
            f'the images of domain "{name}" have shape {shape}, which reads as {height} x {width} pixels of {channels} '
            "channels: channels come last, (N, H, W, C); x.transpose(0, 2, 3, 1) does that to an array, "
            "x.permute(0, 2, 3, 1) to a tensor"
        )
    if 1 in (height, width):
        raise InputError(
            f'the images of domain "{name}" are {height} x {width} pixels, rows of numbers rather than pictures: give '
            "images of shape (N, H, W) or (N, H, W, C), as in x.reshape(-1, H, W)"
        )


def array_of(what: str, given: Any) -> npt.NDArray[Any]:
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        raise InputError(f"{what} are partly masked, and nothing here knows of masks: leave these images out")
    try:
        return np.asarray(given)
    except ValueError:
        raise InputError(f"{what} differ in shape: make them of one") from None
    except (TypeError, RuntimeError) as error:  # a tensor that is sparse, on a GPU, or part of a graph
        raise InputError(f"{what} are not an array: {error}") from None


def given_inputs(images: Any, layout: Layout) -> npt.NDArray[Any]:
    """Return what a model is given as an array of samples, or refuse what it cannot take.

    Images may have any size, and only their channels must be those of ``layout``.
    """
    if isinstance(layout, np.dtype):
        return _given_records(images, layout)
    try:
        array = np.asarray(images)
    except ValueError:
        raise InputError("the images differ in shape: give those of one shape at a time") from None
    except (TypeError, RuntimeError) as error:  # a tensor on a GPU, or part of a graph
        raise InputError(f"the images are not an array: {error}") from None
    if array.dtype.kind in "US":
        raise InputError("images are given as arrays; those in files go to predict_files")
    return _image_values(array, layout[-1]) if form_of(layout) == "images" else _given_numbers(array, tuple(layout))


def _given_records(given: Any, records: np.dtype[Any]) -> npt.NDArray[Any]:
    if isinstance(given, np.ndarray) and given.dtype.names:
        given = {name: given.reshape(-1)[name] for name in given.dtype.names}
    if not isinstance(given, Mapping) or {*given} != {*(records.names or ())}:
        got = f"one of {', '.join(map(str, given))}" if isinstance(given, Mapping) else type(given).__name__
        raise InputError(f"this model takes a dict of {', '.join(records.names or ())}, got {got}")
    found = records_of("the samples", given)
    if form_of(records) == "texts" and {len(shape) for shape in shapes_of(found.dtype).values()} == {1}:
        return found  # a text may be shorter or longer than those that were trained on
    if shapes_of(found.dtype) != shapes_of(records):
        raise InputError(f"this model takes {extent_of(records)}, got {extent_of(found.dtype)}")
    return found.astype(records)


def _given_numbers(array: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Rows of a table, or signals."""
    noun = form_of(shape)
    array = array[None] if array.ndim == len(shape) else array
    if array.dtype.kind not in "uifb" or array.shape[1:] != shape:
        sizes = ", ".join(map(str, shape))
        raise InputError(
            f"the {noun} must be numbers of shape (N, {sizes}), {extent_of(shape)}, got {array.dtype} of {array.shape}"
        )
    with np.errstate(over="ignore"):  # what is too large for 32 bits becomes infinite
        rows = array.astype(np.float32)
    if not np.isfinite(rows).all():
        raise InputError(
            f"the {noun} hold values that are not finite numbers, or too large: leave these {noun} out, or fill the "
            "gaps in"
        )
    return rows


def _image_values(array: npt.NDArray[Any], channels: int) -> npt.NDArray[Any]:
    array = array[None] if array.ndim == 3 else array
    floats = array.dtype.kind == "f"
    if (
        not (floats or array.dtype == np.uint8)
        or array.ndim != 4
        or array.shape[-1] != channels
        or 0 in array.shape[1:]
    ):
        raise InputError(
            f"the images must be uint8, or floats from 0 to 1, of shape (N, H, W, {channels}), got {array.dtype} of "
            f"{array.shape}"
        )
    if floats and not ((array >= 0) & (array <= 1)).all():
        raise InputError("images of floats go from 0 to 1, and these do not: divide what goes to 255 by 255")
    return array.astype(np.float32) if floats else array
