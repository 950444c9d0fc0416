"""Which of the models in a trial's folder is meant: the one without averaging, or one of averaged weights."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from domainwise.averaging import canonical
from domainwise.errors import InputError

CONFIG = "config.json"
PLAIN, AVERAGED = "best", "best-average"  # the second is of the averager named first; more are best-average-<averager>


def home_of(folder: Path, which: str | None) -> Path:
    """Where a model lies. None is averaged weights where there are some; an averager is its own."""
    if (folder / CONFIG).is_file():
        _require_itself(folder, which)
        return folder
    if which is None:
        return folder / (AVERAGED if (folder / AVERAGED / CONFIG).is_file() else PLAIN)
    if which in (PLAIN, AVERAGED) or (folder / which / CONFIG).is_file():
        return folder / which
    homes = {name: home for home in sorted(folder.glob(f"{AVERAGED}*")) if (name := averager_of(home))}
    found = _named(which, list(homes))
    if found is None:
        known = ", ".join(['"best"', *(f'"{one}"' for one in homes)])
        raise InputError(f'{folder} has no model of "{which}": ask for one of {known}')
    return homes[found]


def _require_itself(home: Path, which: str | None) -> None:
    """Refuse to take one saved model for another."""
    own = averager_of(home)
    fits = which in (None, home.name, AVERAGED) or (_named(which, [own]) if own else which == PLAIN)
    if not fits:
        what = f"the averaged weights of {own}" if own else "a model without averaging"
        raise InputError(f'{home} is itself {what}: leave out "{which}", or give the folder of the trial')


def averager_of(home: Path) -> str:
    """The averager whose weights those of a saved model are; nothing where they are not averaged."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        config = json.loads((home / CONFIG).read_text(encoding="utf-8"))
        if config["which"] == "average":
            return str(config.get("average") or config["trial"]["average"])
    return ""


def _named(which: str, names: list[str]) -> str | None:
    """Find an averager as it is written, or by its kind where there is one of it."""
    with suppress(InputError):
        if (whole := canonical(which)) in names:
            return whole
    kind = [name for name in names if name.partition("(")[0] == which.strip().lower()]
    return kind[0] if len(kind) == 1 else None
