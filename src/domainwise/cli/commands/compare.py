from __future__ import annotations

from domainwise.cli import options as o
from domainwise.cli.option_groups import Beside, Choices, Machine, Many, grouped


@grouped
def compare(
    data: o.Data,
    algorithms: o.Algorithms,
    *,
    targets: o.Targets = "all",
    seeds: o.Seeds = "3",
    preset: o.Preset = "quick",
    choices: Choices,
    beside: Beside,
    machine: Machine,
    many: Many,
) -> None:
    """Train algorithms with each target held out in turn, and compare them on the domain they have not seen."""
    from domainwise.cli.request import Asked

    asked = Asked(data, preset, choices, beside, machine, many)
    asked.job(algorithms, targets=targets, seeds=seeds).go(machine.dry_run)
