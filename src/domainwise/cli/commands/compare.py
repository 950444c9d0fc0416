from __future__ import annotations

from domainwise.cli import options as o


@o.grouped
def compare(
    data: o.Data,
    algorithms: o.Algorithms = "erm,arith",
    *,
    targets: o.Targets = "all",
    seeds: o.Seeds = "3",
    preset: o.Preset = "quick",
    probe: o.Probe = True,
    choices: o.Choices,
    models: o.Models,
    images: o.Images,
    machine: o.Machine,
    many: o.Many,
    results: o.Results,
) -> None:
    """Train algorithms with each target held out in turn, and compare them on the domain they have not seen."""
    from domainwise.cli.running import compared

    groups = (choices, models, images, machine, many, results)
    compared(data, algorithms, *groups, targets=targets, seeds=seeds, preset=preset, probe=probe)
