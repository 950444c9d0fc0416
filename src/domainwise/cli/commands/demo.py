from __future__ import annotations

from pathlib import Path

from domainwise.cli import options as o


def demo(
    output: o.Output = None,
    format: o.TableFormat = o.Format.table,
    quiet: o.Quiet = False,
) -> None:
    """Train ERM, Fish and Arith on rotated handwritten digits (embedded, no download), in under a minute."""
    from domainwise.api import prepare
    from domainwise.cli.job import Job
    from domainwise.cli.option_groups import Machine, Many
    from domainwise.cli.reading import Ask, read

    machine = Machine(device="cpu", threads=1, format=format, quiet=quiet)
    domains, settings = read("digits", Ask(steps=201, evaluate_every=20), machine)
    comparison = prepare(
        domains,
        "erm,fish,arith",
        targets="0,75",
        seeds=5,
        settings=settings,
        output=output or Path("domainwise-demo"),
    )
    Job(comparison, machine, many=Many(processes=2)).go()
