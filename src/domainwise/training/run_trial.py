"""Run one trial from start to result, with its files."""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import torch

from domainwise.acceleration.shared_device import on_device, with_device_lock
from domainwise.data.domains import Domains
from domainwise.errors import InputError
from domainwise.experiment.integrity import Damaged, Unreadable, read, sealed
from domainwise.experiment.output_folder import of_the_machine, sentence, serves
from domainwise.experiment.records import Event, Journal, Result, publish, publish_once
from domainwise.experiment.results import DAMAGED, OUTCOMES, result_in
from domainwise.experiment.selection import validation
from domainwise.experiment.trial import Trial
from domainwise.files import clear_leftovers, create_text, exists, lock_trial, make_folder, remove_links
from domainwise.machine import processor_name, remember_places, versions
from domainwise.meta.ranks import check_alone
from domainwise.saved_models.keep import Keeper
from domainwise.training.checkpoint_files import clear
from domainwise.training.checkpoints import Checkpoints, Fresh, Resumed
from domainwise.training.loop import run
from domainwise.training.loss_log import Diverged
from domainwise.training.result import begin_again, counts_of, digests, finish_again, models_in, result_of, steps_of
from domainwise.training.run_options import RunOptions
from domainwise.training.signals import Stopped, listening

Watch = Callable[[Trial, Event], None]


def execute(
    trial: Trial,
    data: Domains,
    folder: Path,
    options: RunOptions = RunOptions(),  # noqa: B008  frozen
    *,
    watch: Watch = lambda trial, event: None,
) -> Result:
    """Run a trial and leave its settings, records, result and the models that are to be kept in its folder.

    What was begun there and not ended goes on from its checkpoint. What has ended is not repeated, unless it failed. If
    it lacks an average that is asked for, what is there stays until all averages of a new run are. ``watch`` hears
    {"step": 120} now and then, {"step": ..., "validation": ...} at every evaluation, and {"note": ...}.
    """
    try:
        make_folder(folder)
        with (
            listening(),
            lock_trial(folder, lambda sentence: watch(trial, {"note": sentence})),
            on_device(options.device),
        ):
            if (other := _owner(folder)) not in (None, trial.id) and models_in(folder):
                raise InputError(f"{folder} holds the model of another trial, {other}, which stays as it is")
            finish_again(folder)
            home, ended = folder, _ended(trial, folder)
            if ended is not None and not serves(trial, ended):
                trial, home = begin_again(trial, ended, folder)
                ended = _ended(trial, home)
            if ended is not None:
                return ended
            check_alone("a trial")
            clear_leftovers(home)
            for link in remove_links(home, (Journal.LEAN, Journal.WHOLE)):
                watch(trial, {"note": f"{link} was a link, which is gone: what it leads to stays as it is"})
            remember_places(trial.files)
            publish(home / "trial.json", sealed(trial.shared()))
            attempt = Attempt(trial, home, options, watch)
            result = attempt.ended(attempt.train(data))
            finish_again(folder)
            return result
    except Stopped as stopped:
        print(stopped.sentence, file=sys.stderr, flush=True)
        raise
    except BrokenPipeError:  # nobody listens to `watch` any more
        raise
    except (OSError, MemoryError) as error:
        raise InputError(sentence(folder, error)) from error


def _owner(folder: Path) -> str | None:
    """The id of the trial that a folder is of."""
    try:
        return str(read(folder / "trial.json")["id"])
    except Unreadable:
        raise
    except (Damaged, KeyError):
        return None


class DeviceLost(RuntimeError):  # noqa: N818  what has happened, to whom there is nothing to say
    """Raised where nothing can be run on the device any more in this process; whose work did that is not known.

    Nothing is published: in another process, the trial goes on from its checkpoint.
    """


class Ending(NamedTuple):
    status: str
    message: str
    step: int  # the last one made


class Attempt:
    """Make one attempt at a trial, from its beginning or from a checkpoint."""

    def __init__(self, trial: Trial, folder: Path, options: RunOptions, watch: Watch) -> None:
        self.trial, self.folder, self.options, self.watch = trial, folder, options, watch
        self.keeper, self.journal = Keeper(trial, options.keep, options.snapshots, folder), Journal(folder)
        self.checkpoints = checkpoints_of(trial, folder, options, self.say)
        self.start: Fresh | Resumed = Fresh()
        self.started = time.perf_counter()

    def say(self, sentence: str) -> None:
        self.watch(self.trial, {"note": sentence})

    def train(self, data: Domains) -> Ending:
        try:  # what the disk has against it is not the trial's fault, and may be gone soon
            self.start = self._begin()
        except (OSError, MemoryError):
            raise
        except Exception as error:
            return self._failed(error)
        try:
            self._train(data)
        except Diverged as error:
            return Ending("diverged", str(error), error.step)
        except torch.AcceleratorError as error:
            raise DeviceLost(f"the device can no longer be used: {str(error).splitlines()[0]}") from error
        except Exception as error:
            if fault := of_the_machine(error):
                raise fault  # noqa: B904  it may be the error itself
            return self._failed(error)
        return self._finished()

    def _finished(self) -> Ending:
        trial, last = self.trial, self.journal.records[-1]["step"]
        early = (
            f"ended after {last + 1} of {trial.steps} updates, since the accuracy on the sources' hold-outs had not "
            f"risen for {trial.patience} evaluations"
        )
        return Ending("finished", early if last < trial.steps - 1 else "", last)

    def _begin(self) -> Fresh | Resumed:
        """Find where to resume, and bring the journals to what they were there."""
        start = self.checkpoints.find()
        if isinstance(start, Resumed):
            start.cut_journals(self.folder)
        else:
            self.checkpoints.clear()
        self.journal.begin(again=isinstance(start, Resumed))
        return start

    def _failed(self, error: Exception) -> Ending:
        with create_text(self.folder / "error.txt") as file:
            file.write("".join(traceback.format_exception(error)))
        return Ending("failed", _told(error), len(self.journal.records))

    def _train(self, data: Domains) -> None:
        trial = self.trial
        training = run(
            trial,
            data,
            self.options,
            keeper=self.keeper,
            checkpoints=self.checkpoints,
            start=self.start,
            submit=with_device_lock,
            tick=lambda step: self.watch(trial, {"step": step}),
            say=self.say,
        )
        # Closed at once, whatever happens: what it has changed in this process is not put back before.
        with closing(training):
            try:
                for record in training:
                    self.journal.add(record)
                    self.watch(trial, {"step": record["step"] + 1, "validation": validation(record, trial.targets)})
            finally:
                self.checkpoints.settle()

    def ended(self, ending: Ending) -> Result:
        """Publish the result, once: where another process was faster, its result stands."""
        records = self.journal.records
        seconds = self.start.seconds + time.perf_counter() - self.started
        result = result_of(self.trial, *ending, records, seconds, self.options.device)
        if ending.status == "finished":
            publish(self.folder / "counts.json", counts_of(self.trial, records))
            self.keeper.write_outcomes(self.folder, steps_of(result))
            self.keeper.write(self.folder)
        if (parts := self.keeper.leg_parts) > 1:
            result["parts"] = parts
        result["files"] = digests(self.folder)
        if not publish_once(self.folder / "result.json", sealed(result)):
            result = result_in(self.folder)
        if ending.status != "failed":  # that can go on from its checkpoint, should the reason go away
            self.checkpoints.clear()
            self.journal.close()
            (self.folder / "error.txt").unlink(missing_ok=True)  # of an attempt before
        return result


def _ended(trial: Trial, folder: Path) -> Result | None:
    """The result that is there, if it is no failure; otherwise room is made for another."""
    path = folder / "result.json"
    if not exists(path):
        return None
    result = result_in(folder, certain=True)
    if result["status"] == DAMAGED:
        raise InputError(f"{result['message']}: `domainwise check {folder} --repair` has the trial run again")
    if result["status"] != "failed":  # a kill right after the result may have left them
        clear(folder)
        if result["id"] == trial.id:
            return result
    for name in ("result.json", "counts.json", OUTCOMES):
        (folder / name).unlink(missing_ok=True)
    return None


def checkpoints_of(trial: Trial, folder: Path, options: RunOptions, say: Callable[[str], None]) -> Checkpoints:
    """Return the checkpoints of a trial, which say what must agree for it to resume from them."""
    device = options.device
    gpu = torch.device(device).type == "cuda"
    chosen = {"average": trial.average, "selection": trial.selection, "select_every": trial.select_every}
    return Checkpoints(
        folder,
        identity=json.loads(json.dumps(trial.identity)),  # as it comes back from a file
        choices={**chosen, **options.choices},
        circumstances={
            **versions(),
            "threads": torch.get_num_threads(),
            "processor": processor_name(),
            "device": torch.cuda.get_device_name(device) if gpu else device,
        },
        journals=(Journal.LEAN, Journal.WHOLE),
        agree=Journal.agree,
        every=options.checkpoint_every,
        device=device,
        say=say,
    )


def _told(error: Exception) -> str:
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, torch.OutOfMemoryError):
        return "the GPU has too little memory: set a smaller input_size or network, or --per-gpu 1 (see error.txt)"
    return f"{type(error).__name__}: {error} (the traceback is in error.txt)"
