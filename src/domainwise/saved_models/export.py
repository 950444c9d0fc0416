"""Export a trained model as one file that other programs run without this library: ONNX, or torch's own .pt2."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from domainwise._version import __version__
from domainwise.algorithms import Algorithm
from domainwise.errors import InputError
from domainwise.files import check_output, write_output
from domainwise.machine import human_size
from domainwise.networks.forms import extent_of

if TYPE_CHECKING:
    from domainwise.saved_models.model import Model

ABOUT = "domainwise.json"  # the name of the metadata, in both kinds of files
BEGINNINGS = {".onnx": rb"\x08.\x12\x07pytorch", ".pt2": rb"PK\x03\x04"}  # of a file that may be replaced
TOLERANCE = 1e-4  # of a probability, between the file and the model
BATCHES = (1, 2, 5)  # sizes that the file is tried with

Array = npt.NDArray[Any]
Run = Callable[[Array], Array]


@dataclass(frozen=True)
class Exported:
    """Name a file that was exported, its size in bytes, and how far its probabilities are from the model's."""

    file: Path
    size: int
    difference: float
    about: Mapping[str, Any]

    def __str__(self) -> str:
        return (
            f"{self.file} ({human_size(self.size)}): on {sum(BATCHES)} random inputs its probabilities are the model's "
            f"to {self.difference:.1e}. It takes {self.about['takes']}"
        )


def export(model: Model, file: Path | str) -> Exported:
    """Write a model as ``.onnx`` or ``.pt2``, after a check that it computes what the model does.

    The file takes uint8 images (N, S, S, C) of the size that the network sees, or rows (N, d) of floats, and gives
    probabilities (N, classes). All that is done between is inside. It says so itself, in JSON, as ``domainwise.json``.
    """
    file = Path(file).expanduser()
    make = MAKERS.get(file.suffix.lower())
    if make is None:
        raise InputError(f'a model is exported as .onnx or .pt2: let "{file}" end in one of these')
    check_output(file, BEGINNINGS[file.suffix.lower()])
    model = _on_cpu(model)
    inputs, about = _inputs(model), described(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch deprecates what it uses itself
        try:
            content, run = make(_program(model, inputs[:2]), about)
        except InputError:
            raise
        except Exception as error:  # whatever a network does that a file cannot hold
            what = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise InputError(f"{about['network']} cannot be written as {file.suffix}: {what}") from error
        difference = _difference(model, run, inputs)
    if not difference <= TOLERANCE:
        raise InputError(
            f"{file} was not written: its probabilities would differ from the model's by up to {difference:.1e}, which "
            f"is more than {TOLERANCE:.0e}"
        )
    write_output(file, content, BEGINNINGS[file.suffix.lower()])
    return Exported(file, len(content), difference, about)


def described(model: Model) -> dict[str, Any]:
    """Return what a program, or a person, has to know to use the exported file."""
    config, trial = model.config, model.config["trial"]
    size, channels = config["input_size"], config["channels"]
    shape = _shape(model)
    across = ", ".join(map(str, shape))
    colours = {1: "grey", 3: "RGB"}.get(channels, "as in training")
    return {
        "domainwise": __version__,
        "classes": list(model.classes),
        "input": model.form,
        "shape": ["batch", *shape],
        "dtype": "uint8" if size else "float32",
        "mode": {1: "L", 3: "RGB"}.get(channels) if size else None,  # of Pillow
        "takes": f"images as uint8 of shape (N, {size}, {size}, {channels}), {colours}, channels last, from 0 to 255"
        if size
        else f"{model.form} of {extent_of(model.layout)} as float32 of shape (N, {across}), not scaled",
        "resize": f"upright as EXIF says, then one antialiased bilinear resize to {size} x {size}, whatever the aspect"
        if size
        else None,
        "gives": "the probability of each class, float32 of shape (N, classes), in the order of classes",
        "temperature": model.card.temperature,
        "expectation": model.expectation or None,
        "algorithm": trial["label"] or trial["algorithm"],
        "network": trial["network"],
        "data": trial["data"],
    }


class _Whole(nn.Module):
    """A network with all that is done before and after it."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.net, self.images = model.algorithm.net.eval(), bool(model.config["input_size"])
        shape = (-1, *(1 for _ in _shape(model)[1:]))  # of channels, or of columns
        for name in ("mean", "std"):
            self.register_buffer(name, torch.tensor(model.config[name], dtype=torch.float32).view(shape))
        self.temperature = model.card.temperature

    mean: Tensor
    std: Tensor

    def forward(self, inputs: Tensor) -> Tensor:
        x = inputs.permute(0, 3, 1, 2).float() / 255 if self.images else inputs
        logits = self.net((x - self.mean) / self.std)
        return (logits / self.temperature).softmax(1)


def _shape(model: Model) -> Sequence[int]:
    if isinstance(model.layout, np.dtype):
        raise InputError(f"a model of {model.form} cannot be exported: a file takes one array, and it takes several")
    return model.layout


def _on_cpu(model: Model) -> Model:
    """The same model on the CPU in float32, or a sentence where an input has no answer of its own."""
    own = type(model.algorithm)
    if model.algorithm.extra_channels or own.answer is not Algorithm.answer or own.predict is not Algorithm.predict:
        raise InputError(
            f"{model.algorithm.name} cannot be exported: it does not answer with its network alone, and what it says "
            "of an input can depend on those beside it. Use it with domainwise predict, or train another algorithm"
        )
    algorithm = copy(model.algorithm)
    algorithm.net = deepcopy(model.algorithm.net).cpu().float()
    algorithm.net.low_precision, algorithm.net.pad_to = False, 0
    return replace(model, algorithm=algorithm)


def _inputs(model: Model) -> Array:
    """Random inputs: pictures of any contrast, or rows as far apart as those that were trained on."""
    draw = np.random.default_rng(0)
    size, channels = model.config["input_size"], model.config["channels"]
    many = sum(BATCHES)
    if not size:
        mean, std = (np.reshape(model.config[name], (-1, *(1 for _ in _shape(model)[1:]))) for name in ("mean", "std"))
        rows: Array = draw.standard_normal((many, *_shape(model))) * std + mean
        return rows.astype(np.float32)
    around, contrast = draw.uniform(0, 255, (2, many, 1, 1, channels))
    noise = draw.uniform(-0.5, 0.5, (many, size, size, channels))
    pixels: Array = np.clip(around + contrast * noise, 0, 255)
    return pixels.astype(np.uint8)


def _program(model: Model, example: Array) -> Any:  # an ExportedProgram
    batch = {0: torch.export.Dim("batch")}
    with torch.no_grad():
        return torch.export.export(_Whole(model).eval(), (torch.from_numpy(example),), dynamic_shapes=(batch,))


def _difference(model: Model, run: Run, inputs: Array) -> float:
    """How far the probabilities of a file are from the model's at most, for batches of several sizes."""
    batches = np.split(inputs, np.cumsum(BATCHES)[:-1])
    return float(max(np.abs(run(batch) - model.probabilities(batch)).max() for batch in batches))


def _pt2(program: torch.export.ExportedProgram, about: Mapping[str, Any]) -> tuple[bytes, Run]:
    file = BytesIO()
    torch.export.save(program, file, extra_files={ABOUT: json.dumps(about)})
    whole = torch.export.load(BytesIO(file.getvalue())).module()

    def run(inputs: Array) -> Array:
        with torch.no_grad():
            return np.asarray(whole(torch.from_numpy(inputs)))

    return file.getvalue(), run


def _onnx(program: torch.export.ExportedProgram, about: Mapping[str, Any]) -> tuple[bytes, Run]:
    try:
        import onnxruntime
        import onnxscript  # noqa: F401  torch writes with it
    except ImportError as error:
        raise InputError(
            "ONNX is written and checked by packages that are not installed here: pip install 'domainwise[onnx]'. A "
            ".pt2 file needs none"
        ) from error
    written = torch.onnx.export(
        program,
        (),
        dynamo=True,
        dynamic_shapes=({0: "batch"},),
        input_names=[about["input"]],
        output_names=["probabilities"],
        verbose=False,
    )
    assert written is not None
    written.model.metadata_props[ABOUT] = json.dumps(about)
    content = written.model_proto.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def run(inputs: Array) -> Array:
        return np.asarray(session.run(None, {about["input"]: inputs})[0])

    return content, run


MAKERS = {".onnx": _onnx, ".pt2": _pt2}
