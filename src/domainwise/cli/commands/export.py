from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from domainwise.cli import options as o
from domainwise.cli.commands.predict import Asked, Saved


def export(
    model: Saved,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="model.onnx, or model.pt2 for torch.")],
    which: Asked = None,
    trust_code: o.TrustCode = False,
    quiet: o.Quiet = False,
) -> None:
    """Write a model as one file for other programs, ONNX or .pt2, checked against the model."""
    from domainwise.saved_models.saved import load

    done = load(model, which=which, trust_code=trust_code).export(output)
    if not quiet:
        print(done)
