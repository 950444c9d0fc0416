from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from domainwise.cli import options as o
from domainwise.cli.option_groups import Choices, One, grouped

if TYPE_CHECKING:
    from domainwise.experiment.records import Result
    from domainwise.training.fit import Fitting

From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="RESULTS",
        help="Train what the comparison in this folder recommends, with its settings.",
    ),
]


@grouped
def fit(
    data: o.DataIfAny = None,
    *,
    results: From = None,
    algorithm: Annotated[str, typer.Option(help="One algorithm, for example arith(inner_steps=3).")] = "arith",
    seed: Annotated[int, typer.Option(help="Of the initial network and of all that is drawn.")] = 0,
    preset: o.Preset = "quick",
    choices: Choices,
    balanced: o.Balanced = False,
    average: o.Average = "none",
    snapshots: o.Snapshots = 0,
    deterministic: o.Deterministic = False,
    one: One,
    trust_code: o.TrustCode = False,
) -> None:
    """Train one algorithm on all domains, none held out: the model to use on a domain that nobody has seen."""
    import sys
    from functools import partial

    from domainwise.acceleration.cuda_graph import Fast
    from domainwise.cli.reading import Ask, read
    from domainwise.machine import choose_device, threads_for
    from domainwise.report.expectation import refuse_settings
    from domainwise.sweeps.progress import display
    from domainwise.training.fit import fitted, fitting
    from domainwise.training.run_options import RunOptions

    device = choose_device(one.device)
    ask = Ask(**vars(choices), preset=preset, balanced=balanced, device=device)
    if results:
        given = {"algorithm": algorithm != "arith", "preset": preset != "quick", "average": average != "none"}
        given |= {"balanced": balanced, **{name: bool(value) for name, value in vars(choices).items()}}
        refuse_settings([name for name, differs in given.items() if differs and name != "weights"])
        made = _recommended(results, data, seed, choices.weights, one, trust_code)
    else:
        trial = partial(fitted, algorithm=algorithm, seed=seed, average=average)
        domains, settings = read(data or "", ask, one, lambda data, settings: trial(data, settings=settings))
        made = fitting(domains, algorithm, seed=seed, settings=settings, average=average, output=one.output)
    if not one.quiet:
        data, count = made.data.name, len(made.data)
        about = f"{made.trial.label} on all {count} domains of {data}, {made.trial.steps} updates"
        print(f"{about}, network {made.trial.network}; its model goes to {made.folder}", file=sys.stderr, flush=True)
    with display(1, quiet=one.quiet) as shown:
        result = made.run(
            RunOptions(device, Fast(not one.no_compile, not one.no_capture, deterministic), snapshots=snapshots),
            threads=one.threads or threads_for(made.trial.network),
            watch=shown.watch,
        )
    if result["status"] != "finished":
        print(f"{made.trial.label} has {result['status']}: {result['message']}", file=sys.stderr)
        raise typer.Exit(1)
    made.check(result)
    print(_told(made, result))


def _recommended(folder: Path, data: str | None, seed: int, weights: str | None, one: One, trust_code: bool) -> Fitting:
    """Open the results and their data, and lay out the training of what they recommend."""
    import sys

    from domainwise.cli.reading import read_for
    from domainwise.report.expectation import refitting
    from domainwise.report.results import Results

    results = Results.open(folder)
    row = results.recommend()
    if data:
        results = Results.open(folder, data=read_for(row.trial, data, one))
    made = refitting(results, seed=seed, weights=weights, output=one.output, trust_code=trust_code)
    if not one.quiet:
        print(row.sentence, file=sys.stderr)
    return made


def _told(made: Fitting, result: Result) -> str:
    from domainwise.experiment.records import averages, read
    from domainwise.experiment.selection import validation
    from domainwise.saved_models.build import code_of
    from domainwise.saved_models.card import README, read as read_card
    from domainwise.saved_models.saved import home_of

    average = next(iter(made.trial.averages), None)
    chosen = (result["averages"][average] if average else result)["selected"] or {}
    (record,) = (one for one in read(made.folder / "records.jsonl") if one["step"] == chosen["step"])
    domains = averages(record, average)[average] if average else record["domains"]
    accuracies = {name: parts["holdout"]["accuracy"] for name, parts in domains.items()}
    width = max(map(len, ["domain", *accuracies]))
    rows = [f"{name:<{width}}  {100 * value:5.1f}" for name, value in accuracies.items()]
    mean = validation({**record, "domains": domains}, ())
    home = home_of(made.folder, made.which)
    told = home_of(made.folder, None) != home
    which, option = (f", which={made.which!r}", f" --which {shlex.quote(made.which)}") if told else ("", "")
    if any(code_of(made.trial)):
        which, option = f"{which}, trust_code=True", f"{option} --trust-code"
    expected = read_card(home).expected
    elsewhere = expected or "For what it will do on another one, hold domains out: domainwise compare."
    return "\n".join(
        [
            f"{'domain':<{width}}  held-out accuracy, %",
            *rows,
            f"{'mean':<{width}}  {100 * mean:5.1f}",
            "",
            f"Of domains that it was trained on, at step {chosen['step']}.",
            str(elsewhere),
            "",
            f"card: {home / README}",
            f"model: {made.folder}   in Python: domainwise.load({str(made.folder)!r}{which}).predict(images)",
            f"of new images: domainwise predict {shlex.quote(str(made.folder))}{option} IMAGES... -o predictions.csv",
        ]
    )
