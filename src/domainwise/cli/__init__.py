"""The command line: each command is a function in `commands`, listed here. Torch is imported where it is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from domainwise._version import __version__
from domainwise.cli.commands import cache, presets
from domainwise.cli.commands.analysis import balance, surface
from domainwise.cli.commands.bench import bench
from domainwise.cli.commands.compare import compare, demo, run, sweep
from domainwise.cli.commands.evaluate import evaluate
from domainwise.cli.commands.export import export
from domainwise.cli.commands.fit import fit
from domainwise.cli.commands.inspect import inspect
from domainwise.cli.commands.interop import export_domainbed, import_domainbed, tensorboard
from domainwise.cli.commands.predict import predict
from domainwise.cli.commands.presets import algorithms
from domainwise.cli.commands.report import report, show
from domainwise.cli.commands.reproduce import reproduce
from domainwise.cli.commands.status import check, status
from domainwise.terminal import plainly

app = typer.Typer(
    help="Domain generalization: train on several source domains, work on one nobody has seen.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "Your data": (demo, inspect, compare, report, fit, predict, evaluate, export, show, status),
    "Research": (run, sweep, reproduce, algorithms, surface, balance, tensorboard, import_domainbed, export_domainbed),
    "Housekeeping": (check, bench),
}
for heading, commands in COMMANDS.items():
    for command in commands:
        app.command(rich_help_panel=heading)(plainly(command))
app.add_typer(presets.app, rich_help_panel="Research")
app.add_typer(cache.app, rich_help_panel="Housekeeping")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"domainwise {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show tracebacks of errors.")] = False,
) -> None:
    """Domain generalization: train on several source domains, work on one nobody has seen."""
