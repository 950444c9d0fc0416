"""
The loss of every domain around a model
=======================================

A walk leaves a model and takes some steps on one domain after the other. The plane through the places it reaches shows
what every domain thinks of them, and where Arith and Fish head.
"""

import tempfile

import matplotlib.pyplot as plt

import domainwise as dw
from domainwise.analysis.loss_surface import surface
from domainwise.analysis.task import task

# %%
# A model in the middle of its training: ``snapshots=4`` keeps four along the way.

data = dw.digits()
results = dw.compare(data, "erm", targets=["75"], seeds=1, steps=80, snapshots=4, output=tempfile.mkdtemp())
folder = results.outcomes[0].folder
early = sorted((folder / "snapshots").iterdir(), key=lambda path: int(path.name))[0]

# %%
# The loss of each domain on a grid of 15 by 15 places in the plane.

found = surface(task(dw.load(early), data, most=200), points=15)

figure, axes = plt.subplots(2, 3, figsize=(9, 6), layout="constrained")
for axis, (name, losses) in zip(axes.flat, found.losses.items(), strict=True):
    axis.contourf(found.a, found.b, losses, levels=12)
    for visited, (a, b) in found.models.items():
        axis.plot(a, b, "w^")
        axis.annotate(visited, (a, b), color="white")
    axis.plot(*found.mean, "w*", label="mean: Arith heads here")
    axis.plot(*found.end, "wo", fillstyle="none", label="end: Fish heads here")
    axis.set_title(f"target: {name}" if name in found.targets else f"domain {name}")
axes.flat[0].legend(fontsize=7)
plt.show()

print({name: round(float(min(map(min, losses))), 3) for name, losses in found.losses.items()})
