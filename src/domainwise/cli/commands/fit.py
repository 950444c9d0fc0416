from __future__ import annotations

import shlex
import sys
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer

from domainwise.cli import options as o

if TYPE_CHECKING:
    from domainwise.report.results import Results

From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="RESULTS",
        help="Train what the comparison in this folder recommends, with its settings.",
    ),
]


WORST = 10  # domains that are told of where there are hundreds


@o.grouped
def fit(
    data: o.DataIfAny = None,
    *,
    source: From = None,
    algorithm: Annotated[
        str | None, typer.Option(help="One algorithm, for example erm or arith(inner_steps=3); arith if none is given.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    preset: o.Preset = "quick",
    choices: o.Choices,
    snapshots: o.Snapshots = 0,
    images: o.Images,
    machine: o.Machine,
    trust_code: o.TrustCode = False,
    output: o.Output = None,
    quiet: o.Quiet = False,
) -> None:
    """Train one algorithm on all domains, none held out: the model to use on a domain that nobody has seen."""
    from domainwise.api import fit
    from domainwise.cli.arguments import arguments

    what = _results(source, data, images, quiet) if source else data or ""
    given = {**arguments(choices, images, machine), "progress": not quiet}
    model = fit(
        what, algorithm, seed=seed, preset=preset, snapshots=snapshots, output=output, trust_code=trust_code, **given
    )
    assert model.folder is not None
    print(_told(model.folder.parent))


def _results(folder: Path, data: str | None, images: o.Images, quiet: bool) -> Results:
    """Open results, with the data if it is named, and say what they recommend."""
    from domainwise.report.results import Results
    from domainwise.training.reading import Reading, read_for

    results = Results.open(folder)
    row = results.recommend()
    if not quiet:
        print(row.sentence, file=sys.stderr)
    if not data:
        return results
    return Results.open(folder, data=read_for(row.trial, data, Reading(**vars(images), progress=not quiet)))


def _told(folder: Path) -> str:
    """Say how right the model is on what its own domains held out, and what to do with it."""
    from domainwise.experiment.records import averages, read
    from domainwise.experiment.results import result_in, trial_in
    from domainwise.report.tables import from_nothing
    from domainwise.saved_models.build import code_of
    from domainwise.saved_models.card import README, read as read_card
    from domainwise.saved_models.saved import PLAIN, home_of

    trial, result = trial_in(folder), result_in(folder)
    average = next(iter(trial.averages), None)
    model = average or PLAIN
    chosen = (result["averages"][average] if average else result)["selected"] or {}
    (record,) = (one for one in read(folder / "records.jsonl") if one["step"] == chosen["step"])
    domains = averages(record, average)[average] if average else record["domains"]
    accuracies = {name: parts["holdout"]["accuracy"] for name, parts in domains.items()}
    worst = sorted(accuracies, key=lambda name: accuracies[name])[:WORST]
    left = len(accuracies) - len(worst)
    if left < WORST:  # few enough to show all, in their order
        worst, left = [*accuracies], 0
    accuracies = {name: accuracies[name] for name in worst}
    width = max(map(len, ["domain", *accuracies]))
    rows = [f"{name:<{width}}  {100 * value:5.1f}" for name, value in accuracies.items()]
    mean = fmean(accuracies.values())
    home = home_of(folder, model)
    told = home_of(folder, None) != home
    which, option = (f", which={model!r}", f" --which {shlex.quote(model)}") if told else ("", "")
    if any(code_of(trial)):
        which, option = f"{which}, trust_code=True", f"{option} --trust-code"
    expected = read_card(home).expected
    what = "images" if trial.input_size else "samples"
    predict = f"domainwise predict {shlex.quote(str(folder))}{option}"
    elsewhere = expected or "For what it will do on another one, hold domains out: domainwise compare."
    return "\n".join(
        [
            f"{'domain':<{width}}  held-out accuracy, %",
            *rows,
            *([f"and {left} domains that it does better on"] if left else []),
            f"{'mean':<{width}}  {100 * mean:5.1f}",
            "",
            f"Of domains that it was trained on, at step {chosen['step']}.",
            str(elsewhere),
            *from_nothing([trial]),
            "",
            f"card: {home / README}",
            f"model: {folder}   in Python: domainwise.load({str(folder)!r}{which}).predict({what})",
            *([f"of new images: {predict} IMAGES... -o predictions.csv"] if trial.input_size else []),
        ]
    )
