"""Averages of the weights met along a run, or of the models of several runs.

An averager stands beside the training loop: it is told the parameters after every step and the validation loss at
every evaluation, and it never touches an update. Parameters are flat lists of tensors; no module is ever cloned.
"""

from domainwise.averaging._averages import Averages
from domainwise.averaging._base import Averager
from domainwise.averaging._models import average_models, greedy
from domainwise.averaging._running import EMA, MA, SWA
from domainwise.averaging._spec import averager, averagers, canonical, names
from domainwise.averaging._swad import SWAD
from domainwise.averaging._swap import refresh_batch_norm, swapped_in

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
