"""Turn the options of a command into arguments of Python, and open the trained model that it names."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainwise.errors import InputError
from domainwise.experiment.settings import together
from domainwise.experiment.trial import Trial
from domainwise.machine import check_count, choose_device, threads_for

if TYPE_CHECKING:
    from domainwise.analysis.task import Task
    from domainwise.cli.options import Inside


def arguments(*groups: object) -> dict[str, Any]:
    """Return the options of groups as arguments of ``dw.compare`` and ``dw.fit``; what was not given is left out."""
    given = {name: value for group in groups for name, value in vars(group).items()}
    found = {name: value.value if isinstance(value, Enum) else value for name, value in given.items()}
    found["progress"] = not found.pop("quiet", False)
    for name in ("compile", "capture"):
        found[name] = not found.pop(f"no_{name}", False)
    found["set"] = assignments(found.get("set"))
    if "per_gpu" in found:
        found["per_gpu"] = _many(found["per_gpu"])
    if not found.get("balanced"):
        found.pop("balanced", None)  # so that the preset decides
    return {name: value for name, value in found.items() if value is not None}


def assignments(given: Sequence[str] | None) -> dict[str, Any]:
    """Return ``--set NAME=VALUE`` as a mapping; a value that is no number, True, False or None is a word."""
    found: dict[str, Any] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise InputError(f"cannot read --set {text}: write --set NAME=VALUE, for example --set inner_lr=0.02")
        found = together(found, {name.strip(): _value(value.strip())})
    return found


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _many(text: str) -> int | str:
    """Return how many trials run on one GPU."""
    if text == "auto":
        return "auto"
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise InputError(f'--per-gpu is how many trials run side by side on a GPU, or auto: got "{text}"')
    return int(text)


def trained(run: Path, data: str, images: int, how: Inside, *, quiet: bool) -> Task:
    """Open a trained model and its data, with at most so many images of a domain."""
    import torch

    from domainwise.analysis.task import task
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
