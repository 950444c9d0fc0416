"""A trained model and its data, as the commands that look inside it need them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from domainwise.analysis.task import Task


def trained(
    run: Path,
    data: str,
    cache: Path | None,
    *,
    device: str,
    precision: str | None,
    threads: int | None,
    images: int,
    quiet: bool,
    trust_code: bool,
) -> Task:
    import torch

    from domainwise.analysis.task import task
    from domainwise.experiment.trial import Trial
    from domainwise.machine import check_count, choose_device
    from domainwise.saved_models.saved import load
    from domainwise.training.reading import Reading, read_for

    if threads:
        torch.set_num_threads(check_count("threads", threads))
    device = choose_device(device)
    model = load(run, device=device, which="best", trust_code=trust_code)
    trial = Trial.from_json(model.config["trial"])
    opened = read_for(trial, data, Reading(cache, progress=not quiet))
    return task(model, opened, images, precision=precision)


def trial_of(run: Path) -> tuple[Path, str]:
    """The folder of the trial that a model belongs to, and which of its models it is; "" is the selected one."""
    for home in (run, *run.resolve().parents[:2]):
        if (home / "trial.json").is_file():
            which = "" if home == run else run.resolve().relative_to(home).as_posix()
            return home, "" if which == "best" else which.replace("snapshots/", "snapshot ")
    return run, ""
