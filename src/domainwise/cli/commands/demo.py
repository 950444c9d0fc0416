from __future__ import annotations

from pathlib import Path

from domainwise.cli import options as o


def demo(
    output: o.Output = None,
    format: o.TableFormat = o.Format.table,
    quiet: o.Quiet = False,
) -> None:
    """Train ERM, Fish and Arith on rotated handwritten digits (embedded, no download), in under a minute."""
    from domainwise.cli.running import compared

    results = o.Results(output or Path("domainwise-demo"), format, quiet=quiet)
    compared(
        "digits", "erm,fish,arith", results, targets="0,75", seeds=5, steps=201, evaluate_every=20, device="cpu",
        threads=1, processes=2,
    )  # fmt: skip
