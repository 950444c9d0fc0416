from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from domainwise.cli import options as o
from domainwise.cli.commands.predict import Asked, Saved


def export(
    model: Saved,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE|hf:USER/MODEL", help="model.onnx, model.pt2, or the hub.")
    ],
    which: Asked = None,
    private: Annotated[bool, typer.Option("--private", help="On the hub: for yourself alone.")] = False,
    trust_code: o.TrustCode = False,
    quiet: o.Quiet = False,
) -> None:
    """Write a model as one file for other programs, ONNX or .pt2, checked; or share it on the Hugging Face hub."""
    from domainwise.errors import InputError
    from domainwise.saved_models.hub import PREFIX
    from domainwise.saved_models.saved import load

    shared = str(output).startswith(PREFIX)
    if private and not shared:
        raise InputError("--private is for a model on the hub: give -o hf:USER/MODEL, or leave it out")
    loaded = load(model, which=which, trust_code=trust_code)
    if shared:
        address = loaded.push_to_hub(str(output), private=private)
        done = f"{address}   in Python: domainwise.load({str(output)!r})"
    else:
        done = str(loaded.export(output))
    if not quiet:
        print(done)
