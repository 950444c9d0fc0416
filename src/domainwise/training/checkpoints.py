"""Decide when a trial saves a checkpoint, and which one it resumes from."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from domainwise.acceleration.shared_device import Submit, directly
from domainwise.errors import InputError
from domainwise.files import exists, sync
from domainwise.training.checkpoint_files import NAME, Damaged, flatten, load, remove, save, saved, unfinished, write
from domainwise.training.signals import Stopped, stop_requested

__all__ = ["Checkpoints", "Fresh", "Resumed", "Stateful", "load", "save", "saved"]

AT_LEAST = 60.0  # seconds of training that may be lost
AT_MOST = 5.0  # seconds that are cheaper to repeat than to save
SHARE = 20  # saving at evaluations takes no more than one part in this many of the time

Flat = tuple[Any, dict[str, Tensor]]


class Stateful(Protocol):
    """A part of a run whose state a checkpoint holds."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


@dataclass(frozen=True)
class Fresh:
    """Start a run from its beginning, where there is no checkpoint to resume from."""

    step: int = 0
    seconds: float = 0.0

    def restore(self, parts: Mapping[str, Stateful]) -> None:
        """Leave all parts as they are."""


@dataclass(frozen=True)
class Resumed:
    """Resume a run at the point where a checkpoint was saved."""

    step: int  # updates made
    seconds: float  # spent on the trial before
    state: dict[str, Any]
    journals: Mapping[str, int]  # the lengths that they had

    def restore(self, parts: Mapping[str, Stateful]) -> None:
        """Put all parts where they were. The state is given away meanwhile, as there is no memory for two of them."""
        for name, part in parts.items():
            part.load_state_dict(self.state.pop(name))

    def cut_journals(self, folder: Path) -> None:
        """Cut the journals to the length they had; what came later will be written again."""
        for name, length in self.journals.items():
            if exists(folder / name):
                with (folder / name).open("r+b") as file:
                    file.truncate(length)


class Checkpoints:
    """Save and find the checkpoints of one trial; ``Checkpoints()`` saves nothing.

    Saving takes a copy of the state; a thread writes it while training goes on, which waits only where the next one is
    due before.

    Args:
        folder: that of the trial.
        identity: what must agree with a checkpoint for it to be of this trial; where it differs it is refused.
        choices: what must agree too, but may be chosen differently: then the trial starts from the beginning.
        circumstances: what may change the last digits: a difference is said.
        journals: files that only grow; a run that resumes cuts them to the length they had.
        agree: whether journals agree with each other up to some lengths, for checkpoints that kept no hashes of them.
        every: save after so many updates; None saves at evaluations, but not too often, and at least once a minute.
        device: where tensors go that were on a GPU.
        say: hears sentences about all of this.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        identity: Mapping[str, Any] | None = None,
        choices: Mapping[str, Any] | None = None,
        circumstances: Mapping[str, Any] | None = None,
        journals: tuple[str, ...] = (),
        agree: Callable[[Path, Mapping[str, int]], bool] = lambda folder, lengths: True,
        every: int | None = None,
        device: str = "cpu",
        say: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self.folder, self.journals, self.every, self.device, self.say = folder, journals, every, device, say
        self.identity, self.choices = dict(identity or {}), dict(choices or {})
        self.circumstances = dict(circumstances or {})
        self.agree, self.begun = agree, Beginnings()
        self.cost, self.last = 0.0, time.perf_counter()
        self.writing: tuple[int, Future[None]] | None = None  # after so many updates

    def find(self) -> Fresh | Resumed:
        """Look for a checkpoint to resume from, the newest that is whole.

        Only what was read and is damaged is taken away. An OSError leaves everything as it was: it may be gone soon.
        """
        assert self.folder is not None
        for left in unfinished(self.folder):
            remove(left)
        for path in saved(self.folder):
            try:
                return self._accepted(path)
            except Damaged as error:
                self.say(f"{error}: it is not used")
                remove(path)
                if not saved(self.folder):
                    self.say("starts from the beginning: there is no other checkpoint")
        return Fresh()

    def begin(self) -> None:
        """Count the time that may be lost from now on, when all is built and training starts."""
        self.last = time.perf_counter()

    def due(self, updates: int, evaluated: bool) -> bool:
        """Return whether to save now, after so many updates."""
        if stop_requested():
            return True
        if self.folder is None:
            return False
        if self.every is not None:
            return updates % self.every == 0
        if self.writing is not None:
            if not self.writing[1].done():
                return False
            self.settle()
        since = time.perf_counter() - self.last
        return since > AT_LEAST or (evaluated and since > max(AT_MOST, SHARE * self.cost))

    def save(self, updates: int, parts: Mapping[str, Stateful], seconds: float, submit: Submit = directly) -> None:
        """Save the state of all parts after so many updates and seconds of the trial. Where it is time to stop, stop.

        ``submit`` is called to copy the state from the device.
        """
        if self.folder is not None:
            self.settle()
            self.last = time.perf_counter()
            try:
                about = self._about(self.folder, seconds)
                flat = submit(lambda: flatten({name: part.state_dict() for name, part in parts.items()}))
            except (OSError, InputError) as error:
                self._failed(updates, error)
            else:
                self._start(self.folder, updates, flat, about)
        if number := stop_requested():
            self.settle()
            raise Stopped(f"stopped after {updates} updates: {self._promise(updates)}", number)

    def settle(self) -> None:
        """Wait for the checkpoint that is being written. A failure is said, and is never the end of a trial."""
        if self.writing is None:
            return
        updates, writing = self.writing
        try:
            writing.result()
        except Exception as error:
            self._failed(updates, error)
        finally:
            if writing.done():  # not where somebody would not wait: the folder must not be let go of before
                self.writing = None

    def clear(self) -> None:
        """Delete all checkpoints of the trial."""
        assert self.folder is not None
        self.settle()
        self.begun = Beginnings()  # of the journals as they are written from now on
        for path in (*saved(self.folder), *unfinished(self.folder)):
            remove(path)

    def _about(self, folder: Path, seconds: float) -> dict[str, Any]:
        journals = {name: folder / name for name in self.journals}
        return {
            "identity": self.identity,
            "choices": self.choices,
            "circumstances": self.circumstances,
            "journals": {name: path.stat().st_size if path.exists() else 0 for name, path in journals.items()},
            "seconds": seconds,
        }

    def _start(self, folder: Path, updates: int, flat: Flat, about: dict[str, Any]) -> None:
        started = self.last

        def written() -> None:
            try:
                for path in saved(folder)[1:]:  # so that there is never room needed for more than two
                    remove(path)
                for name, length in about["journals"].items():
                    if length:
                        sync(folder / name)
                hashes = {name: self.begun.sha256(folder / name, length) for name, length in about["journals"].items()}
                write(folder, updates, flat, {**about, "hashes": hashes})
            finally:
                self.cost = time.perf_counter() - started

        self.writing = updates, _in_a_thread(written)

    def _failed(self, updates: int, error: Exception) -> None:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        self.say(f"no checkpoint could be saved after {updates} updates, training goes on: {reason}")

    def _promise(self, updates: int) -> str:
        with suppress(OSError):  # a disk that does not say
            if self.folder is not None and exists(self.folder / f"{NAME}{updates:08d}"):
                return "start the same command again to go on from there"
        return "the same command again starts this trial from what was saved last, if anything was"

    def _accepted(self, path: Path) -> Fresh | Resumed:
        """Where this trial can resume from a checkpoint; at the beginning, and said, where other choices were made."""
        assert self.folder is not None
        found = load(path, self.device)
        if other := differences(found.about["identity"], self.identity):
            raise InputError(
                f"{path} is the checkpoint of another trial: {other}. Delete it to start from the beginning, or choose "
                "another folder"
            )
        if other := differences(found.about["choices"], self.choices):
            self.say(f"starting over: the interrupted run here used other options ({other})")
            return Fresh()
        self._check_journals(self.folder, path, found.about)
        if other := differences(found.about["circumstances"], self.circumstances):
            self.say(f"the numbers may differ in their last digits from those of an undisturbed run: {other}")
        self.say(f"resumes at step {found.step}")
        return Resumed(found.step, found.about["seconds"], found.state, _lengths(found.about, self.journals))

    def _check_journals(self, folder: Path, checkpoint: Path, about: Mapping[str, Any]) -> None:
        """:class:`Damaged` where journals are not what they were, up to where the checkpoint was written."""
        lengths = _lengths(about, self.journals)
        for name, length in lengths.items():
            if length and (not exists(folder / name) or (folder / name).stat().st_size < length):
                raise Damaged(f"the checkpoint {checkpoint} is of a longer {name} than there is")
        if "hashes" not in about:  # of an earlier version
            if not self.agree(folder, lengths):
                raise Damaged(f"the checkpoint {checkpoint} is of {' and '.join(lengths)}, which do not agree")
            return
        for name, length in lengths.items():
            if self.begun.sha256(folder / name, length) != about["hashes"].get(name):
                raise Damaged(f"{folder / name} has changed since the checkpoint {checkpoint.name} was written")


def _lengths(about: Mapping[str, Any], journals: tuple[str, ...]) -> dict[str, int]:
    """Return how long the journals were; a checkpoint may be anybody's, and what else it names is none of them."""
    return {name: about["journals"][name] for name in journals if name in about["journals"]}


class Beginnings:
    """Hash the beginnings of files that grow; what was read once is not read again."""

    def __init__(self) -> None:
        self.known: dict[Path, tuple[int, Any]] = {}

    def sha256(self, path: Path, length: int) -> str:
        done, digest = self.known.get(path, (0, None))
        if digest is None or done > length:
            done, digest = 0, hashlib.sha256()
        if length > done:
            with path.open("rb") as file:
                file.seek(done)
                digest.update(file.read(length - done))
        self.known[path] = length, digest
        return str(digest.hexdigest())


def _in_a_thread(work: Callable[[], None]) -> Future[None]:
    """Do some work in a thread that ends with it, or at once where there can be no more threads."""
    thread = ThreadPoolExecutor(1)
    try:
        return thread.submit(work)
    except RuntimeError:
        done: Future[None] = Future()
        try:
            work()
            done.set_result(None)
        except Exception as error:
            done.set_exception(error)
        return done
    finally:
        thread.shutdown(wait=False)


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Say in words what differs: "torch was 2.11 and is 2.12"."""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return ", ".join(f"{name} was {before.get(name)} and is {now.get(name)}" for name in names)
