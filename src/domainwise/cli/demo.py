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
    from domainwise.cli.job import Job, read
    from domainwise.sweep.plan import Settings

    comparison = prepare(
        read("digits", 16, False, quiet),
        "erm,fish,arith",
        targets="0,75",
        seeds=3,
        settings=Settings(steps=201, evaluate_every=20),
        output=output or Path("domainwise-demo"),
    )
    Job(comparison, device="cpu", threads=1, processes=2, quiet=quiet, format=format).go()
