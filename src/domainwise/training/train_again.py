"""A trial that has ended, trained once more for averages that it lacks: beside what is there, which it then replaces.

Whatever is read of a trial is so of one and the same run.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from domainwise.experiment.output_folder import ended
from domainwise.experiment.records import Result
from domainwise.experiment.trial import Trial

AGAIN = "again"


def begun(trial: Trial, result: Result, folder: Path) -> tuple[Trial, Path]:
    """The trial with the averages that it has already too, and the folder to train it in."""
    home = folder / AGAIN
    home.mkdir(exist_ok=True)
    names = dict.fromkeys([*trial.averages, *result["averages"]])
    return replace(trial, average=",".join(names)), home


def finish(folder: Path) -> None:
    """Let what was trained again, if it came to a good end, take the place of what was there.

    In between there is no result, and who comes next goes on with this.
    """
    home = folder / AGAIN
    if home.is_symlink():  # never made here: what it leads to is somebody else's
        home.unlink()
    if (ended(home, certain=True) or {}).get("status") != "finished":
        # Where nothing is left that it would be beside:
        if (ended(folder, certain=True) or {}).get("status") in (None, "failed"):
            shutil.rmtree(home, ignore_errors=True)
        return
    (folder / "result.json").unlink(missing_ok=True)
    fresh = sorted(path for path in home.iterdir() if path.name != "result.json")  # "best" before its averages
    stale = folder.glob("best-average*") if (home / "best").exists() else ()
    for path in [*stale, *(folder / one.name for one in fresh if one.is_dir())]:
        path.unlink() if path.is_symlink() else shutil.rmtree(path, ignore_errors=True)
    for path in fresh:
        path.replace(folder / path.name)
    (home / "result.json").replace(folder / "result.json")
    shutil.rmtree(home, ignore_errors=True)
