"""Evaluate a model on parts of domains: accuracy, loss, and the counts that other metrics are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import accumulate, chain
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from domainwise.acceleration.shared_device import Submit, directly
from domainwise.algorithms import Algorithm
from domainwise.algorithms._bases import walk_health
from domainwise.averaging import refresh_batch_norm, swapped_in
from domainwise.data.batches.feed import Feed, batches, together
from domainwise.data.batches.inputs import Inputs, Part
from domainwise.data.splits import OFFICIAL
from domainwise.experiment.metrics import BINS, MANY, kept, measured, metric, whole
from domainwise.experiment.outcomes import TOP, Seen
from domainwise.experiment.records import DomainScores, Judged, Scores
from domainwise.experiment.selection import held_out
from domainwise.experiment.trial import Trial
from domainwise.seeds import seed_hash

REFRESH = 100  # minibatches of every domain for the batch-norm statistics of an average

Numbers = npt.NDArray[np.float32]
Unit = tuple[str, str, Sequence[Part]]  # a name, a part of it, and the parts of domains that count as one there
Judge = Callable[[Sequence[Part], npt.NDArray[np.int64]], Judged]  # of what images are taken for


def evaluate(
    algorithm: Algorithm, part: Part, inputs: Inputs, generator: torch.Generator | None = None, *, counts: bool = False
) -> Scores:
    """Return accuracy, mean loss and the number of images they are over; with a generator, of augmented images.

    With ``counts`` also what :mod:`domainwise.experiment.metrics` derives everything else from.
    """
    (sums,) = _sums(algorithm, [[part]], inputs, generator, counts)
    return Pending([part], sums).result()


@dataclass(frozen=True)
class Pending:
    """Hold an evaluation that the device may still be computing; it can go on with the next one meanwhile."""

    parts: Sequence[Part]
    sums: dict[str, Tensor]  # on the device
    logits: tuple[dict[str, Tensor], ...] = ()  # by batch, on the device
    metrics: Judge | None = None

    def result(self) -> Scores:
        """Wait for the device, and return the scores."""
        found = _named(_fetched(self.sums), sum(map(len, self.parts)))
        if self.metrics is None or not self.logits:
            return found
        return {**found, **self.metrics(self.parts, self.predicted)}

    @property
    def predicted(self) -> npt.NDArray[np.int64]:
        """The class that every image is taken for."""
        largest = [batch["top"][:, 0] if "top" in batch else batch["logits"].argmax(1) for batch in self.logits]
        return torch.cat(largest).long().cpu().numpy()

    def columns(self) -> dict[str, Tensor]:
        """Wait for the device, and return what :mod:`domainwise.experiment.outcomes` keeps of every image."""
        told = {name: torch.cat([batch[name] for batch in self.logits]).cpu() for name in self.logits[0]}
        index = np.concatenate([part.first + part.rows for part in self.parts])
        label = np.concatenate([part.domain.labels[part.rows] for part in self.parts])
        return {"index": torch.from_numpy(index).int(), "label": torch.from_numpy(label).int(), **told}


class Evaluator:
    """Evaluates a run's model on the holdout of every source, to select by, and on both parts of every target.

    ``parts`` are the main part of every domain and its holdout, of an official split those of several domains as one.
    With ``evaluate_all`` the main parts of what is no target are evaluated too: nothing depends on them. A source that
    holds nothing out is not evaluated. The random draws are apart from those of training and from each other, so that
    evaluating more, or an average too, changes no other number. ``metrics`` has scores beside accuracy.
    """

    def __init__(
        self,
        trial: Trial,
        algorithm: Algorithm,
        parts: Mapping[str, Mapping[str, Sequence[Part]]],
        feed: Feed,
        evaluate_all: bool = False,
        submit: Submit = directly,
        metrics: Judge | None = None,
    ) -> None:
        self.trial, self.algorithm, self.feed, self.metrics = trial, algorithm, feed, metrics
        there = {name: {part: some for part, some in own.items() if any(map(len, some))} for name, own in parts.items()}
        self.parts: Mapping[str, Mapping[str, Sequence[Part]]] = there
        self.evaluate_all, self.submit = evaluate_all, submit
        # Every average draws what it would as the only one.
        models = {"model": "model", **dict.fromkeys(trial.averages, "average")}
        self.generators = {
            f"{model}{part}": torch.Generator().manual_seed(seed_hash(trial.seed, "validation", f"{name}{part}"))
            for model, name in models.items()
            for part in ("", ", all")
        }
        self.evaluated: dict[str, dict[str, Pending]] = {}
        place = trial.located().metric_file
        name = f"{place}:{trial.metric.rpartition(':')[2]}" if place else trial.metric
        self.metric = None if name == "accuracy" else metric(name, trial.metric_source)

    def evaluate(self, model: str = "model") -> DomainScores:
        """Return the scores of the weights that are in the network now: the model's, or those of a named average."""
        found: dict[str, dict[str, Pending]] = {}
        for units in self._passes():
            for (name, part, _), one in zip(units, self._together(units, model), strict=True):
                found.setdefault(name, {})[part] = one
        pending = self.evaluated = {name: found[name] for name in self.parts if name in found}
        return {
            name: {part: self._scores(name, part, one) for part, one in own.items()} for name, own in pending.items()
        }

    def _scores(self, name: str, part: str, one: Pending) -> Scores:
        """Return the scores of a part, on the hold-outs of the sources with the metric that is selected by."""
        scores = one.result()
        if self.metric is None or part != "holdout" or name in self.trial.targets:
            return scores
        columns = {column: tensor.numpy() for column, tensor in one.columns().items()}
        seen = Seen(len(whole(scores["confusion"])), columns)
        where = f'on the hold-out of domain "{name}", which is selected by'
        judged = measured(self.metric, seen.label, seen.probabilities(), where)
        return {**scores, "metrics": {**scores.get("metrics", {}), "judged": judged}}

    def outcomes(self) -> dict[str, dict[str, dict[str, Tensor]]]:
        """Return what the weights evaluated last made of every image of the hold-outs and the targets."""
        found = {
            name: {part: one.columns() for part, one in own.items() if one.logits}
            for name, own in self.evaluated.items()
        }
        return {name: parts for name, parts in found.items() if parts}

    def walk(self, step: int) -> dict[str, float | None]:
        """Return how a walk fares now, from minibatches of its own that no draw of training depends on."""
        aside = self.feed.aside(seed_hash(self.trial.seed, "walk", step))
        found: dict[str, float] = {}
        with suppress(torch.OutOfMemoryError):  # training may have room for itself alone
            fresh = self.algorithm.fresh
            found = self.submit(lambda: walk_health(self.algorithm, aside.draw(fresh), aside.domains))
        return {name: value if math.isfinite(value) else None for name, value in found.items()}

    def validation_loss(self, domains: DomainScores) -> float:
        """Return the mean loss on the holdouts of the sources."""
        return fmean(part["loss"] for part in held_out(domains, self.trial.targets))

    @contextmanager
    def averaged(self, weights: Sequence[Tensor]) -> Iterator[None]:
        """Put averaged weights into the network for a while, with batch-norm statistics that belong to them."""
        net = self.algorithm.net
        # From a generator of its own, the same every time: no draw of training changes, and no state has to be saved.
        aside = self.feed.aside(seed_hash(self.trial.seed, "refresh"))
        with swapped_in(net.parameters(), weights, net.buffers()):
            self.submit(lambda: refresh_batch_norm(net, (aside.draw() for _ in range(REFRESH))))  # type: ignore[misc]
            yield

    def _passes(self) -> list[list[Unit]]:
        """Return the parts to evaluate one by one; sources of which an update takes some are evaluated together."""
        wanted: dict[tuple[str, str], list[Unit]] = {}
        apart = not self.feed.some or self.algorithm.extra_channels > 0
        for name, own in self.parts.items():
            target = name in self.trial.targets
            told = "holdout" in own or OFFICIAL in self.trial.targets
            for part, some in own.items():
                if target or (told and (self.evaluate_all or part == "holdout")):
                    wanted.setdefault((name if target or apart else "", part), []).append((name, part, some))
        return [*wanted.values()]

    def _together(self, units: Sequence[Unit], model: str) -> list[Pending]:
        """Evaluate in one pass what is of one kind: a part of a target, or one part of sources."""
        name, part, _ = units[0]
        target, generator = name in self.trial.targets, None
        if not target and self.trial.validation == "augmented":
            generator = self.generators[model if part == "holdout" else f"{model}, all"]
        logits: list[list[dict[str, Tensor]]] = [[] for _ in units]
        kept = target or part == "holdout"
        keep = (lambda i, found, y: logits[i].append(_largest(found, y))) if kept else _nowhere
        parts, inputs = [some for *_, some in units], self.feed.inputs
        sums = self.submit(lambda: _sums(self.algorithm, parts, inputs, generator, counts=True, keep=keep))
        each = zip(parts, sums, logits, strict=True)
        return [Pending(some, own, tuple(told), self.metrics) for some, own, told in each]

    def state_dict(self) -> dict[str, Any]:
        return {name: generator.get_state() for name, generator in self.generators.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, generator in self.generators.items():
            # the only average there could be was called "average" once
            generator.set_state(state[name] if name in state else state["average" + ", all" * name.endswith(", all")])


def _nowhere(unit: int, logits: Tensor, y: Tensor) -> None:
    """Keep nothing of a batch."""


def _sums(
    algorithm: Algorithm,
    units: Sequence[Sequence[Part]],
    inputs: Inputs,
    generator: torch.Generator | None,
    counts: bool,
    keep: Callable[[int, Tensor, Tensor], None] = _nowhere,
) -> list[dict[str, Tensor]]:
    """Return the sums over each unit, some parts that count as one; ``keep`` hears the logits of every piece of one."""
    parts = [part for unit in units for part in unit]
    found: list[dict[str, Tensor]] = [{} for _ in units]
    ends, done, i = [*accumulate(sum(map(len, unit)) for unit in units)], 0, 0
    apart = chain.from_iterable(batches(part, inputs, generator) for part in parts)
    # An algorithm with a context takes a batch for one domain's.
    mixed = len(parts) > 1 and not algorithm.extra_channels
    for x, y in together(parts, inputs, generator) if mixed else apart:
        logits, start, size = algorithm.predict(x).float(), 0, len(y)
        while start < size:
            stop = min(size, ends[i] - done)
            piece, labels = logits[start:stop], y[start:stop]
            keep(i, piece, labels)
            sums = {**_totals(piece, labels), **(_counts(piece, labels) if counts else {})}
            found[i] = {name: found[i][name] + value if found[i] else value for name, value in sums.items()}
            start = stop
            if done + stop == ends[i]:
                i += 1
        done += size
    return found


def _largest(logits: Tensor, y: Tensor) -> dict[str, Tensor]:
    """All logits of a batch; of many classes those that :mod:`domainwise.experiment.outcomes` keeps."""
    if logits.shape[1] <= MANY:
        return {"logits": logits.clone()}  # the next batch may be computed into the same memory
    top = logits.topk(TOP)
    true = logits.gather(1, y[:, None])[:, 0]
    return {"logits": top.values, "top": top.indices.int(), "true": true, "total": logits.logsumexp(1)}


def _totals(logits: Tensor, y: Tensor) -> dict[str, Tensor]:
    right = (logits.argmax(1) == y).sum()
    return {"right": right.float(), "loss": F.cross_entropy(logits, y, reduction="sum")}


def _counts(logits: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Sums over one batch. Float32 holds whole numbers up to 16 million exactly, more than a domain has images."""
    confidence, predicted = logits.softmax(1).max(1)
    classes = logits.shape[1]
    confusion = torch.zeros(classes * classes, device=logits.device)
    confusion.index_add_(0, y * classes + predicted, torch.ones_like(confidence))
    bins = (confidence * BINS).long().clamp(0, BINS - 1)
    inside = (bins == torch.arange(BINS, device=logits.device)[:, None]).float()  # (BINS, N)
    return {
        "confusion": confusion.view(classes, classes),
        "bin_count": inside.sum(1),
        # a product and a sum rather than a matrix product, which a GPU may round to TF32
        "bin_confidence": (inside * confidence).sum(1),
        "bin_correct": (inside * (predicted == y)).sum(1),
    }


def _fetched(sums: dict[str, Tensor]) -> dict[str, Numbers]:
    """All of them in one transfer."""
    flat = torch.cat([value.flatten() for value in sums.values()]).cpu().numpy()
    found, start = {}, 0
    for name, value in sums.items():
        found[name] = flat[start : start + value.numel()].reshape(value.shape)
        start += value.numel()
    return found


def _named(sums: dict[str, Numbers], count: int) -> Scores:
    found: Scores = {"accuracy": sums["right"].item() / count, "loss": sums["loss"].item() / count, "count": count}
    if "confusion" not in sums:
        return found
    return {
        **found,
        "confusion": kept(sums["confusion"].astype(np.int64)),
        "calibration": {
            "count": sums["bin_count"].astype(np.int64).tolist(),
            "confidence": sums["bin_confidence"].tolist(),
            "correct": sums["bin_correct"].astype(np.int64).tolist(),
        },
    }
