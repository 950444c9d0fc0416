"""
A network of your own
=====================

A network is a featurizer and a head. Anything that turns a batch of inputs into a batch of features can be the
featurizer.
"""

import tempfile
from pathlib import Path

import domainwise as dw

# %%
# Comparisons run in processes of their own, so the network stands in a file with a function that builds it: here
# written by the program itself, for you ``my_net.py``.

FILE = Path(tempfile.mkdtemp()) / "my_net.py"
FILE.write_text("""
from torch import nn

from domainwise import Network


def build(channels, classes):
    featurizer = nn.Sequential(
        nn.Conv2d(channels, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(), nn.Flatten(),
        nn.LazyLinear(64), nn.ReLU(),
    )
    return Network(featurizer, nn.Linear(64, classes))
""")

# %%
# Its name is the file and the function. The hash of the file is in every trial's id: an edited network is another
# network. A network as small as this one needs no more than one thread.

results = dw.compare(
    dw.digits(),
    "erm,coral",
    targets=["75"],
    seeds=2,
    steps=40,
    network=f"{FILE}:build",
    output=FILE.parent / "out",
    threads=1,
)
print(results.table())
