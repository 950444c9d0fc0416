"""Say on which groups of a test set, or on which of many targets, models do worst."""

from __future__ import annotations

import numpy as np

from domainwise.report.grid import Grid
from domainwise.report.groups import by_group
from domainwise.report.page.measures import Section
from domainwise.report.statistics import percent

SHOWN = 10
MANY = 10  # targets that are a table of their own anyway
SHARES = {"worst": 0, "10th percentile": 10, "median": 50, "90th percentile": 90}


def section(grid: Grid) -> Section | None:
    """Return the section on the worst groups; None where there are few targets and no groups in them."""
    found = {name: [one for group in groups.values() for one in group.values()] for name, groups in grid.items()}
    tables = {name: accuracies for name, outcomes in found.items() if (accuracies := by_group(outcomes))}
    names = list(dict.fromkeys(group for own in tables.values() for group in own))
    targets = next(iter(grid.values()), {}).keys()
    if len(names) <= (MANY if {*names} <= {*targets} else 1):
        return None
    means = {name: np.mean([own[name][0] for own in tables.values() if name in own]) for name in names}
    worst = sorted(names, key=lambda name: means[name])[:SHOWN]
    images = {name: images for own in tables.values() for name, (_, images) in own.items()}
    rows = []
    for algorithm, own in tables.items():
        shares = [float(np.percentile([one for one, _ in own.values()], share)) for share in SHARES.values()]
        each = [own[name][0] if name in own else None for name in worst]
        cells = ["\N{EN DASH}" if value is None else percent(value) for value in (*shares, *each)]
        rows.append((algorithm, [(cell, "") for cell in cells]))
    caption = (
        f"Accuracy in percent over {len(names)} {'groups of the test images' if any(images.values()) else 'targets'}, "
        f"mean over the seeds, and on the {len(worst)} worst of them, with the number of images where it is known. In "
        "Python results.groups() has all."
    )
    columns = [*SHARES, *(f"{name} ({images[name]})" if images[name] else name for name in worst)]
    return Section("groups", "Worst groups" if any(images.values()) else "Worst targets", caption, columns, rows)
