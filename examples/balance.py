"""
Is a model balanced between its domains?
========================================

The paper's claim is that Arith ends in the middle of its source domains. From a model, an expert of every domain is
trained by a few steps; how far they are, and how evenly, is the balance.
"""

import tempfile

import matplotlib.pyplot as plt

import domainwise as dw
from domainwise.analysis.balance import balance
from domainwise.analysis.task import task

data = dw.digits()
results = dw.compare(data, "erm,fish,arith", targets=["75"], seeds=1, steps=80, output=tempfile.mkdtemp())

found = {}
for outcome in results.outcomes:
    found[outcome.trial.label] = balance(task(dw.load(outcome.folder), data, most=200), steps=10)

for name, one in found.items():
    print(f"{name}: variation of the distances {one.variation:.3f}, off the middle {one.off_centroid:.3f}")

# %%
# The distance from the model to the expert of each source domain.

for name, one in found.items():
    plt.plot([f"{angle}°" for angle in one.distances], list(one.distances.values()), "o-", label=name)
plt.xlabel("source domain")
plt.ylabel("distance to its expert")
plt.ylim(bottom=0)
plt.legend()
plt.show()
