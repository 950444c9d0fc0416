"""What a worker process does: read trials from standard input, run them, answer on standard output."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch

from domainwise.capture import Fast
from domainwise.data.domains import Domains
from domainwise.sweep.processes import GRACE
from domainwise.sweep.work import work
from domainwise.trial import Trial


def main(parked: str, folder: str, device: str, fast: str, keep: str, threads: str) -> None:
    torch.set_num_threads(int(threads))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    sys.stdout = sys.stderr  # what an algorithm prints must not end up among the answers
    given: queue.Queue[str] = queue.Queue()
    threading.Thread(target=listen, args=(given,), daemon=True).start()
    data = Domains.open(Path(parked))
    how = {"device": device, "fast": Fast(**json.loads(fast)), "keep": json.loads(keep)}

    def answer(trial: Trial, event: dict[str, Any]) -> None:
        answers.write(json.dumps(event) + "\n")
        answers.flush()

    while True:
        trial = Trial.from_json(json.loads(given.get()))
        answer(trial, work(trial, data, Path(folder), **how, watch=answer))


def listen(given: queue.Queue[str]) -> None:
    """Ends the process, in the middle of a trial if need be, when the one that gives the trials is no more."""
    for line in sys.stdin:
        given.put(line)
    os.kill(os.getpid(), signal.SIGTERM)  # a trial that can put itself aside does so
    time.sleep(GRACE)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
