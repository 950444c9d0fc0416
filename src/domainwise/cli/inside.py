"""Open trained models to look inside, and write what was measured of balance as a terminal shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainwise.cli.options import Inside
from domainwise.experiment.trial import Trial
from domainwise.files import PICTURE, write_output
from domainwise.report.drawing.matplotlib_svg import as_file
from domainwise.report.formats import text_table
from domainwise.report.grid import label, ordered, target
from domainwise.report.page.balance import COLUMNS, Measured, cell, compared, gathered, picture, rows

if TYPE_CHECKING:
    from domainwise.analysis.task import Task


def trained(run: Path, data: str, images: int, how: Inside, *, quiet: bool) -> Task:
    """Open a trained model and its data, with at most so many images of a domain."""
    import torch

    from domainwise.analysis.task import task
    from domainwise.machine import check_count, choose_device, threads_for
    from domainwise.saved_models.saved import load
    from domainwise.training.reading import Reading, read_for

    threads = how.threads and check_count("threads", how.threads)
    model = load(run, device=choose_device(how.device), which="best", trust_code=how.trust_code)
    trial = Trial.from_json(model.config["trial"])
    torch.set_num_threads(threads or threads_for(trial.network))
    opened = read_for(trial, data, Reading(how.cache, progress=not quiet))
    return task(model, opened, images, precision=how.precision)


def trial_of(run: Path) -> tuple[Path, str]:
    """Return the folder of the trial that a model belongs to, and which of its models it is; "" is the selected one."""
    for home in (run, *run.resolve().parents[:2]):
        if (home / "trial.json").is_file():
            which = "" if home == run else run.resolve().relative_to(home).as_posix()
            return home, "" if which == "best" else which.replace("snapshots/", "snapshot ")
    return run, ""


MEASURES = {
    "variation": "variation of the distances to the experts",
    "off_centroid": "distance to their mean",
    "angle": "angle between gradients",
    "gain": "loss saved at their mean",
}


def measured(trial: Trial, numbers: Mapping[str, Any]) -> Measured:
    """Return the numbers of a model with the names of its trial."""
    return Measured(label(trial), target(trial), trial.seed, numbers)


def told(found: Sequence[Measured]) -> str:
    """Write tables of one model, or of several by algorithm."""
    found = [one for name in ordered(one.algorithm for one in found) for one in found if one.algorithm == name]
    if len(found) == 1:
        parts = [_alone(found[0].found)] if "variation" in found[0].found else []
    else:
        head = ["algorithm", "trials", *MEASURES.values()]
        every = [[row.algorithm, str(row.trials), *map(_with_error, row.cells)] for row in rows(found)]
        parts = [text_table(head, every)] if every else []
    return "\n\n".join([*parts, *_stepwise(found), "\n".join(compared(found))]).strip()


def draw(found: Sequence[Measured], output: Path) -> None:
    """Draw balance against the step into an SVG file."""
    write_output(output, as_file(picture(gathered(found))), PICTURE)


def _alone(found: Mapping[str, Any]) -> str:
    """Every source in a row: how far its expert is, and the losses at the model, at the expert, at the mean."""
    head = ["domain", "distance", "loss at model", "at its expert", "at the mean"]
    at_model, at_mean = found["at_model"], found["at_mean"]
    every = [
        [name, *map(_number, (far, at_model[name], found["at_experts"][name][name], at_mean[name]))]
        for name, far in found["distances"].items()
    ]
    unseen = [name for name in at_model if name not in found["distances"]]
    every += [[f"{name} (target)", "", _number(at_model[name]), "", _number(at_mean[name])] for name in unseen]
    said = [f"{text}: {_number(found[name], '.4g')}" for name, text in MEASURES.items()]
    return "\n".join([text_table(head, every), "", *said])


def _stepwise(found: Sequence[Measured]) -> list[str]:
    """A row for every snapshot of an algorithm, at the steps that all its trials have."""
    every = []
    for name, own in gathered(found).items():
        for step in sorted(set.intersection(*(set(course) for course in own))):
            cells = [cell([course[step][key] for course in own]) for key in COLUMNS]
            every.append([name, str(step), str(len(own)), *map(_with_error, cells)])
    return [text_table(["algorithm", "step", "trials", *MEASURES.values()], every)] if every else []


def _with_error(found: tuple[str, str]) -> str:
    mean, error = found
    return f"{mean} ± {error}" if error else mean


def _number(value: float | None, form: str = ".4f") -> str:
    return "not finite" if value is None else f"{value:{form}}"
