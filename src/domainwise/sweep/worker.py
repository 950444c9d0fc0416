"""What a worker process does: read trials from standard input, run them, answer on standard output."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from domainwise.capture import Fast
from domainwise.data.domains import Domains
from domainwise.sweep.execute import execute
from domainwise.trial import Trial


def main(parked: str, folder: str, device: str, fast: str, threads: str) -> None:
    torch.set_num_threads(int(threads))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    sys.stdout = sys.stderr  # what an algorithm prints must not end up among the answers
    data = Domains.open(Path(parked))

    def answer(trial: Trial, event: dict[str, Any]) -> None:
        answers.write(json.dumps(event) + "\n")
        answers.flush()

    for line in sys.stdin:
        trial = Trial.from_json(json.loads(line))
        path = Path(folder) / "trials" / trial.id
        result = execute(trial, data, path, device=device, fast=Fast(**json.loads(fast)), watch=answer)
        answer(trial, {"result": result})


if __name__ == "__main__":
    main(*sys.argv[1:])
