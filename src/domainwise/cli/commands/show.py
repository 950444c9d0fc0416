from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer


def show(
    run: Annotated[
        str, typer.Argument(help="A trial's folder, an output folder, or either with the beginning of an id.")
    ],
) -> None:
    """Explain which number of a trial is reported, and why that one."""
    from domainwise.errors import InputError

    folders = trials_named(run)
    if not folders:
        raise InputError(
            f'"{run}" is no trial: give the folder of a trial, an output folder, or the beginning of a trial\'s id '
            "behind its output folder, as in domainwise-demo/0a1b"
        )
    print(explained(folders[0]) if len(folders) == 1 else listed(folders))


def trials_named(text: str) -> list[Path]:
    """Return the folders of the trials that are meant; a bare id is looked for where results go by default."""
    path = Path(text)
    if any((path / name).is_file() for name in ("trial.json", "result.json")):
        return [path]
    if (path / "trials").is_dir():
        return _in(path, "")
    near = path.parent
    places = (
        [near.parent] if near.name == "trials" else [near, near / "domainwise-demo", *near.glob("domainwise-runs/*")]
    )
    return [folder for place in places for folder in _in(place, path.name)]


def _in(output: Path, beginning: str) -> list[Path]:
    found = (output / "trials").glob(f"{glob.escape(beginning)}*")
    return sorted(home for home in found if any((home / name).exists() for name in ("trial.json", "result.json")))


def explained(folder: Path) -> str:
    """Explain the number that is reported of one trial."""
    from domainwise.experiment.results import Outcome, outcomes, result_in, told_apart, trial_in
    from domainwise.report.explain import explanation, standing

    ended = os.path.lexists(folder / "result.json")
    result = result_in(folder, files=True) if ended else {"status": "unfinished"}
    outcome = Outcome(trial_in(folder), result, folder)
    output = folder.resolve().parent.parent
    return explanation(outcome, standing(outcome, told_apart(outcomes(output))))


def listed(folders: Sequence[Path]) -> str:
    """One line for each of several trials."""
    from domainwise.experiment.results import listing, told_apart, warn_of_damage
    from domainwise.report.explain import overview

    outputs = dict.fromkeys(folder.parent.parent for folder in folders)
    wanted = {folder.name for folder in folders}
    trials = [listing(output) for output in outputs]
    found = [one for some in trials for one in told_apart(some.outcomes) if one.folder.name in wanted]
    for some in trials:
        warn_of_damage(some)
    unfinished = len(folders) - len(found)
    waiting = f"{unfinished} more have not come to an end. " if unfinished else ""
    return f"{overview(found)}\n\n{waiting}For one of them: domainwise show {folders[0].parent.parent}/ID"
