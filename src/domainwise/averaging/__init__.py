"""Average the weights met along a run, or the models of several runs.

An averager stands beside the training loop: it is told the parameters after every step and the validation loss at
every evaluation, and it never touches an update. Parameters are flat lists of tensors; no module is ever cloned.
"""

from domainwise.averaging._averager import EMA, MA, SWA, Averager, average_models, greedy
from domainwise.averaging._averages import (
    Averages,
    averager,
    averagers,
    canonical,
    names,
    refresh_batch_norm,
    swapped_in,
)
from domainwise.averaging._swad import SWAD

__all__ = [
    "EMA",
    "MA",
    "SWA",
    "SWAD",
    "Averager",
    "Averages",
    "average_models",
    "averager",
    "averagers",
    "canonical",
    "greedy",
    "names",
    "refresh_batch_norm",
    "swapped_in",
]
