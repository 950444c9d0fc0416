"""The command line: one file per command. Nothing here imports torch before a command needs it."""

from __future__ import annotations

from typing import Annotated

import typer

from domainwise._version import __version__
from domainwise.cli import cache, presets
from domainwise.cli.algorithms import algorithms
from domainwise.cli.balance import balance
from domainwise.cli.bench import bench
from domainwise.cli.check import check
from domainwise.cli.compare import compare
from domainwise.cli.demo import demo
from domainwise.cli.export_domainbed import export_domainbed
from domainwise.cli.fit import fit
from domainwise.cli.import_domainbed import import_domainbed
from domainwise.cli.inspect import inspect
from domainwise.cli.plain import plainly
from domainwise.cli.predict import predict
from domainwise.cli.report import report
from domainwise.cli.reproduce import reproduce
from domainwise.cli.run import run
from domainwise.cli.show import show
from domainwise.cli.status import status
from domainwise.cli.surface import surface
from domainwise.cli.sweep import sweep
from domainwise.cli.tensorboard import tensorboard

app = typer.Typer(
    help="Domain generalization: train on several source domains, work on one nobody has seen.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (
    demo, compare, sweep, run, fit, predict, status, report, reproduce, show, check, surface, balance, tensorboard,
    inspect, algorithms, bench,
    import_domainbed, export_domainbed,
)  # fmt: skip
for command in COMMANDS:
    app.command()(plainly(command))
for group in (presets.app, cache.app):
    app.add_typer(group)


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
