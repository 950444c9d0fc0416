"""Everything that changes while a trial runs, on disk: so that a run that was killed goes on as if it had not been."""

from domainwise.checkpoint.checkpoints import Checkpoints, Stateful
from domainwise.checkpoint.files import FORMAT, Damaged, Found, load, remove, save, saved, told_of, unfinished
from domainwise.checkpoint.nested import flatten, unflatten
from domainwise.checkpoint.stopping import Stopped, ask_to_stop, asked_again, at_once, listening, stop_requested

__all__ = [
    "FORMAT",
    "Checkpoints",
    "Damaged",
    "Found",
    "Stateful",
    "Stopped",
    "ask_to_stop",
    "asked_again",
    "at_once",
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
