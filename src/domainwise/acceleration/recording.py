"""Record the device's part of an update once and replay it, as long as replaying is the same as running it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from traceback import walk_tb
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from domainwise.acceleration.recorders import CudaGraphs, Recorder
from domainwise.acceleration.values import line_of
from domainwise.acceleration.watching import Notes, watching
from domainwise.algorithms import Algorithm
from domainwise.errors import InputError

WARM_UP = 3  # eager updates before a recording: they make the optimizer's state and let libraries choose their kernels
KEPT = 4  # recordings at once: one for each of the phases of late
UNUSED = 100  # updates after which one that was not replayed is dropped
SHORT = 10  # replays that make a recording worth its while
TRIES = 3  # recordings in a row that were not
MANY = 64  # situations, beyond which old ones are forgotten

ADVICE = "let phase say when, or keep it in a tensor that stays where it is (docs/add-an-algorithm.md)"

Say = Callable[[str], None]


@dataclass
class Recording:
    """Hold a recorded step over inputs in ``slots``, its metrics in ``row``, and what it depends on beside them."""

    slots: list[Tensor]
    names: list[str]
    row: Tensor
    replay: Callable[[], None]
    notes: Notes
    gradients: Sequence[tuple[Tensor, Tensor | None]]  # where a replay leaves them, by parameter
    replays: int = 0
    used: int = 0  # in which update, last


class Captured:
    """Record the step of an update and replay it over inputs that lie still.

    The random order of a walk is which domain fills which slot. Other shapes, another optimizer or another ``phase``
    have a recording of their own. Before each replay whatever the step read in Python is compared with what it was:
    where it has changed the step is recorded anew, and where that happens again and again, it runs as it is.
    """

    def __init__(self, algorithm: Algorithm, say: Say, recorder: Recorder | None = None) -> None:
        self.algorithm, self.say = algorithm, say
        self.recorder = recorder or CudaGraphs(algorithm.device)
        self.kept: dict[Hashable, Recording] = {}
        self.warm: dict[Hashable, int] = {}  # updates made in a situation before its recording
        self.rehearsed: dict[Hashable, Notes] = {}
        self.latest: Recording | None = None
        self.updates = self.made = self.wasted = 0  # made: recordings; wasted: the last so many of them
        self.why_not = ""

    def __call__(self, batches: Sequence[Any], *, domains: Sequence[int] | None = None) -> dict[str, Tensor]:
        order = self.algorithm._begin(batches, domains)
        return self.algorithm._end(self.step([batches[i] for i in order]), order)

    def forget(self) -> None:
        """Drop all recordings, because a loaded state has other tensors than those they speak of."""
        self.kept, self.warm, self.rehearsed, self.latest = {}, {}, {}, None

    def step(self, batches: Sequence[Any]) -> dict[str, Tensor]:
        """Replay the step, or run it where there is no recording that is still right."""
        self.updates += 1
        if self.why_not:
            return self._run(batches)
        given, structure = tree_flatten(batches)
        situation = self._situation(given)
        recording = self._still_right(situation)
        if recording is None:
            warm = self.warm[situation] = self.warm.get(situation, 0) + 1
            if warm < WARM_UP or self.why_not:
                return self._run(batches)
            if warm == WARM_UP:
                return self._rehearse(situation, batches)
            return self._record(situation, given, structure)
        torch._foreach_copy_(recording.slots, given, non_blocking=True)
        return self._replayed(recording)

    def _run(self, batches: Sequence[Any]) -> dict[str, Tensor]:
        self.latest = None
        return self.recorder.run(lambda: self.algorithm.step(batches))

    def _situation(self, given: list[Tensor]) -> Hashable:
        """Return what tells apart the updates that need recordings of their own."""
        try:
            hash(phase := self.algorithm.phase)
        except TypeError as error:
            raise InputError(f"{self.algorithm.name}: its phase must be hashable, got {phase!r}") from error
        kind = self.algorithm.device.type
        lowered = torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind)
        return (phase, ref(self.algorithm.optimizer), lowered, *((one.shape, one.dtype) for one in given))

    def _still_right(self, situation: Hashable) -> Recording | None:
        """Return the recording for a situation, if there is one and nothing it depends on has changed."""
        if self.updates % UNUSED == 0:
            for old in [key for key, one in self.kept.items() if one.used <= self.updates - UNUSED]:
                self._drop(old)
        recording = self.kept.get(situation)
        notes = recording.notes if recording else self.rehearsed.get(situation)
        changed = notes.changed() if notes else ""
        if changed and self._wasted(situation):
            self._give_up(f"what its step reads goes on changing, and {changed}: {ADVICE}")
        return None if changed else recording

    def _wasted(self, situation: Hashable) -> bool:
        """Drop a recording, and say whether that happens again and again to those that were hardly used."""
        recording = self._drop(situation)
        self.wasted = 0 if recording and recording.replays >= SHORT else self.wasted + 1
        return self.wasted == TRIES

    def _drop(self, situation: Hashable) -> Recording | None:
        self.warm.pop(situation)
        self.rehearsed.pop(situation, None)
        return self.kept.pop(situation, None)

    def _rehearse(self, situation: Hashable, batches: Sequence[Any]) -> dict[str, Tensor]:
        """Run an update like any other, and see whether its step can be recorded."""
        self.latest = None
        with watching(self.algorithm) as notes:
            metrics, refused = self.recorder.rehearse(lambda: self.algorithm.step(batches))
        self.rehearsed[situation] = notes
        if why := refused or notes.refused or _no_tensors(metrics):
            self._give_up(why)
        return metrics

    def _record(self, situation: Hashable, given: list[Tensor], structure: Any) -> dict[str, Tensor]:
        slots = [tensor.clone(memory_format=torch.preserve_format) for tensor in given]
        names: list[str] = []

        def step() -> Tensor:
            metrics = self.algorithm.step(tree_unflatten(slots, structure))
            names.extend(metrics)
            return torch.stack([value.float() for value in metrics.values()])

        try:
            with watching(self.algorithm) as notes:
                row, replay, refused = self.recorder.record(step)
        except RuntimeError as error:
            self._give_up(_sentence(error))
            return self._run(tree_unflatten(given, structure))
        gradients = [(p, p.grad) for p in self.algorithm.net.parameters()]
        recording = self.latest = Recording(slots, names, row, replay, notes, gradients, used=self.updates)
        self._keep(situation, recording)
        if refused or notes.refused:
            self._give_up(refused or notes.refused)
        return self._metrics(recording) if self.recorder.runs else self._replayed(recording)

    def _keep(self, situation: Hashable, recording: Recording) -> None:
        self.made += 1
        self.rehearsed.pop(situation)
        self.kept[situation] = recording
        if len(self.kept) > KEPT and self._wasted(min(self.kept, key=lambda one: self.kept[one].used)):
            self._give_up(f"more than {KEPT} phases or shapes of minibatches take turns")
        if len(self.warm) > MANY:  # situations that come once each
            self.warm, self.rehearsed = dict.fromkeys(self.kept, WARM_UP), {}

    def _replayed(self, recording: Recording) -> dict[str, Tensor]:
        recording.replay()
        recording.replays, recording.used = recording.replays + 1, self.updates
        if self.latest is not recording:  # nor are the gradients there that others may look at
            self.latest = recording
            for parameter, gradient in recording.gradients:
                parameter.grad = gradient
        return self._metrics(recording)

    def _metrics(self, recording: Recording) -> dict[str, Tensor]:
        return dict(zip(recording.names, recording.row.clone(), strict=True))

    def _give_up(self, why: str) -> None:
        self.why_not = why
        self.forget()
        self.say(f"{self.algorithm.name} {self.recorder.without}: {why}")


def _no_tensors(metrics: Mapping[str, Any]) -> str:
    odd = next((name for name, value in metrics.items() if not isinstance(value, Tensor)), None)
    if odd is None:
        return ""
    return f"step returns a {type(metrics[odd]).__name__} for {odd!r}, which a replay does not change: return a tensor"


def _sentence(error: RuntimeError) -> str:
    """Write an error of a recording as a sentence, with the author's line it came from."""
    while isinstance(error.__context__, RuntimeError):  # what went wrong first
        error = error.__context__
    frames = [(frame, line) for frame, line in walk_tb(error.__traceback__)]
    return f"{str(error).splitlines()[0]}{line_of(reversed(frames))}"
