"""Use a trained model: the classes, the probabilities and the features of images, in arrays and in files."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from domainwise.algorithms import Algorithm
from domainwise.data.batches.augment import augmentation
from domainwise.data.domains import Domains
from domainwise.data.sources.folders import images_in
from domainwise.data.sources.texts import texts_in, tokenised
from domainwise.data.sources.values import given_inputs
from domainwise.errors import InputError, require, some, typed
from domainwise.networks.forms import Layout, as_bytes, form_of
from domainwise.networks.samples import unpacked
from domainwise.saved_models.build import layout_of
from domainwise.saved_models.card import Card
from domainwise.saved_models.evaluated import Evaluation, evaluated
from domainwise.saved_models.export import Exported, export
from domainwise.saved_models.hub import push
from domainwise.saved_models.predict import BATCH, Prediction, check_least, predictions


@dataclass(frozen=True, repr=False)
class Model:
    """A trained model: ``predict`` gives the names of classes, ``probabilities`` one row per image."""

    algorithm: Algorithm
    config: Mapping[str, Any]
    card: Card = field(default=Card(), repr=False)
    folder: Path | None = field(default=None, repr=False, compare=False)  # that it was loaded from

    @property
    def classes(self) -> tuple[str, ...]:
        """Return the names of the classes, in the order of the probabilities."""
        return tuple(self.config["classes"])

    @property
    def layout(self) -> Layout:
        """Return the shape of the samples that it takes, of which only the channels matter for images; or fields."""
        return layout_of(self.config)

    @property
    def form(self) -> str:
        """Return what it takes: "images", "rows" of a table, "signals", "texts" or other "dicts"."""
        return form_of(self.layout)

    @property
    def expectation(self) -> str:
        """Return a sentence on how right it will be at a new site; empty where no comparison has told."""
        return str(self.card.expected or "")

    def predict(self, images: npt.ArrayLike | Tensor, *, min_probability: float = 0.0) -> list[str]:
        """Return the class of every image: uint8 or floats from 0 to 1, (N, H, W, C) of any size or one of them.

        A model of a table takes rows (N, d), one of signals (N, C, T), one of texts a list of them, and one of dicts
        such arrays by name. The class is empty where the most probable one is less probable than ``min_probability``.
        """
        check_least(min_probability)
        rows = self.probabilities(images)
        return [self.classes[row.argmax()] if row.max() >= min_probability else "" for row in rows]

    def probabilities(self, images: npt.ArrayLike | Tensor) -> npt.NDArray[np.float32]:
        """Return the probability of every class, a row for each image.

        A model that a comparison recommended has a temperature, so that they are right at sites it has not seen.
        """
        rows = [(logits / self.card.temperature).softmax(1) for logits in self._through(images, self.algorithm.predict)]
        return np.concatenate([row.cpu().numpy() for row in rows] or [np.zeros((0, len(self.classes)), np.float32)])

    def features(self, images: npt.ArrayLike | Tensor) -> npt.NDArray[np.float32]:
        """Return what the network's head sees of every image: a row of features, for another classifier or a map."""
        if self.algorithm.extra_channels:
            raise InputError(f"{self.algorithm.name} sees a whole batch at once, so that no image has features alone")
        rows = list(self._through(images, self.algorithm.net.features))
        width = getattr(self.algorithm.net.head, "in_features", 0)
        return np.concatenate([row.cpu().numpy() for row in rows] or [np.zeros((0, width), np.float32)])

    def evaluate(
        self, data: Domains | Mapping[str, Any] | str | os.PathLike[str], *, progress: bool | None = None
    ) -> Evaluation:
        """Return what it answers on new data, and how right that is: ``print`` it, or ``.report("page.html")``.

        Where a folder holds images without labels, it is estimated how right, and said how wrong such estimates were.

        Data are domains, ``{"name": (images, labels), ...}``, a folder of classes or of domains with classes, a
        manifest, or a benchmark as "pacs=DIR". Images are read as for ``predict_files``.
        """
        require("data", data, Domains | Mapping | str | os.PathLike)
        return evaluated(self, data, progress=progress)

    def _through(self, images: npt.ArrayLike | Tensor, function: Callable[[Tensor], Tensor]) -> Iterator[Tensor]:
        config = self.config
        texts = texts_in([images] if isinstance(images, str) else images) if config.get("tokenizer") else None
        given = tokenised({"": texts}, "the list", config.get("tokenizer_json", ""))[""] if texts else images
        array = given_inputs(given, self.layout)
        return self._batches(array, function)

    @torch.no_grad()
    def _batches(self, array: npt.NDArray[Any], function: Callable[[Tensor], Tensor]) -> Iterator[Tensor]:
        recipe = augmentation("none", self.config["input_size"], self.config["mean"], self.config["std"])
        self.algorithm.net.eval()
        for i in range(0, len(array), BATCH):
            rows = torch.from_numpy(as_bytes(array[i : i + BATCH].copy()))  # it may be read-only, which torch is not
            yield function(recipe.plain(unpacked(rows.to(self.algorithm.device), array.dtype))).float()

    def __repr__(self) -> str:
        trial = self.config["trial"]
        about = f"{trial['label'] or trial['algorithm']}, {trial['network']}, {len(self.classes)} classes"
        expected = f"; {self.expectation}" if self.expectation else ""
        return f"<Model {about} ({some(self.classes)}), trained on {trial['data']}{expected}>"

    def _repr_html_(self) -> str:
        """Return the same for a notebook."""
        return f"<p>{html.escape(repr(self)[1:-1])}</p>"

    def predict_files(self, *places: str | os.PathLike[str], min_probability: float = 0.0) -> Iterator[Prediction]:
        """Yield a prediction for each image in files and folders; each is read as data to train on is.

        One whose most probable class is less probable than ``min_probability`` has none.
        """
        for place in places:
            if isinstance(place, list | tuple):
                raise InputError("files are given one by one: model.predict_files(*files)")
            require("a file", place, str | os.PathLike[str])
        return predictions(self, images_in(places), min_probability)

    def export(self, file: str | os.PathLike[str]) -> Exported:
        """Write the model as one file for other programs, ``.onnx`` or ``.pt2``, and return what is to know of it.

        Scaling and temperature are inside: uint8 images of the network's size go in, probabilities come out. The file
        is there only if it computes what the model does.
        """
        require("a file", file, str | os.PathLike[str])
        return export(self, Path(file))

    @typed
    def push_to_hub(self, repository: str, *, private: bool = False) -> str:
        """Put the model on the Hugging Face hub as ``user/model``, weights and card without code; return its address.

        ``domainwise.load("hf:user/model")`` loads it anywhere.
        """
        if self.folder is None:
            raise InputError("only a model that lies in a folder can be shared, as domainwise.load(folder) gives it")
        return push(self.folder, self.algorithm.net.state_dict(), self.config, repository, private=private)
