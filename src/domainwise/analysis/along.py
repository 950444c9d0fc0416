"""Balance at every snapshot of a training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from domainwise.analysis.balance import Balance, balance
from domainwise.analysis.task import Task
from domainwise.errors import InputError
from domainwise.saved_models.saved import CONFIG, read


def snapshots(folder: Path) -> dict[int, Path]:
    """The models that a trial kept along its way, by the step they were at."""
    found = {int(file.parent.name): file.parent for file in folder.glob(f"snapshots/*/{CONFIG}")}
    if not found:
        raise InputError(f"{folder} has no snapshots: run it with --snapshots N to keep N models spread over training")
    return dict(sorted(found.items()))


def balance_along(
    task: Task, models: Mapping[int, Path], *, steps: int = 30, lr: float = 1e-2, compiled: bool = False
) -> Iterator[tuple[int, Balance]]:
    """Of one model after the other in the task's network, which is afterwards as it was."""
    before = {name: tensor.clone() for name, tensor in task.net.state_dict().items()}
    try:
        for step, folder in models.items():
            task.net.load_state_dict(read(folder))
            yield step, balance(task, steps=steps, lr=lr, compiled=compiled)
    finally:
        task.net.load_state_dict(before)
