"""What a worker process does: read trials from standard input, run them, answer on standard output."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import cast

import torch

from domainwise.data.domains import Domains
from domainwise.errors import InputError
from domainwise.experiment.trial import Trial
from domainwise.sweeps.given import GRACE, Message
from domainwise.sweeps.shared_gpu import Many, run_packed
from domainwise.training.checkpoints import listening, stop_requested
from domainwise.training.run_options import RunOptions

LOOK = 0.2  # seconds between two looks at whether to stop


def main(parked: str, folder: str, options: str, at_once: str, threads: str) -> None:
    torch.set_num_threads(int(threads))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    sys.stdout = sys.stderr  # what an algorithm prints must not end up among the answers
    given: queue.Queue[str] = queue.Queue()
    threading.Thread(target=listen, args=(given,), daemon=True).start()
    data = Domains.open(Path(parked))

    def say(message: Message) -> None:
        with suppress(BrokenPipeError):  # the one that gives the trials is no more: what runs is saved, by `listen`
            answers.write(json.dumps(message) + "\n")
            answers.flush()

    say({"ready": True})
    many: Many = "auto" if at_once == "auto" else int(at_once)
    try:
        # Whoever shuts a machine down may tell every process, and the driver tells this one too: once is enough.
        with listening(again=lambda number: None):
            run_packed(
                trials(given),
                data,
                Path(folder),
                at_once=many,
                options=RunOptions.from_json(json.loads(options)),
                watch=lambda trial, event: say(cast(Message, {"id": trial.id, **event})),
            )
    except InputError as error:  # nothing that one trial is to blame for
        say({"wrong": str(error)})


def trials(given: queue.Queue[str]) -> Iterator[Trial | None]:
    """Until somebody asks to stop."""
    while not stop_requested():
        try:
            yield Trial.from_json(json.loads(given.get(timeout=LOOK)))
        except queue.Empty:
            yield None


def listen(given: queue.Queue[str]) -> None:
    """Ends the process, in the middle of a trial if need be, when the one that gives the trials is no more."""
    for line in sys.stdin:
        given.put(line)
    os.kill(os.getpid(), signal.SIGTERM)  # a trial that can put itself aside does so
    time.sleep(GRACE)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
