"""Save all that changes while a trial runs, so that a run that was killed goes on as if it had not been."""

from domainwise.training.checkpoints.files import (
    FORMAT,
    Damaged,
    Found,
    clear,
    flatten,
    load,
    remove,
    save,
    saved,
    told_of,
    unfinished,
    unflatten,
)
from domainwise.training.checkpoints.schedule import Checkpoints, Fresh, Resumed, Stateful
from domainwise.training.checkpoints.signals import (
    Stopped,
    ask_to_stop,
    asked_again,
    at_once,
    listening,
    stop_requested,
)

__all__ = [
    "FORMAT",
    "Checkpoints",
    "Damaged",
    "Found",
    "Fresh",
    "Resumed",
    "Stateful",
    "Stopped",
    "ask_to_stop",
    "asked_again",
    "at_once",
    "clear",
    "flatten",
    "listening",
    "load",
    "remove",
    "save",
    "saved",
    "stop_requested",
    "told_of",
    "unfinished",
    "unflatten",
]
