from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from domainwise.cli import options as o

if TYPE_CHECKING:
    from domainwise.analysis.balance import Balance
    from domainwise.trial import Trial

    Found = Sequence[tuple[Trial, Balance]]

MEASURES = {
    "variation": "variation of the distances to the experts",
    "off_centroid": "distance to their mean",
    "angle": "angle between gradients",
    "gain": "loss saved at their mean",
}


def balance(
    run: Annotated[str, typer.Argument(help="The folder of a trial that kept its model, or of a comparison.")],
    data: o.Data,
    algorithms: Annotated[
        str | None, typer.Option(metavar="A,B", help="Of a comparison, the trials of these algorithms alone.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Of descent from the model to a domain's expert.")] = 30,
    lr: Annotated[float, typer.Option(min=1e-9, help="Of these steps.")] = 1e-2,
    images: Annotated[int, typer.Option(min=1, help="Of a domain at most.")] = 1000,
    cache: o.Cache = None,
    device: o.Device = "cpu",
    precision: o.Precision = None,
    threads: o.Threads = 1,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the numbers with each trial, for the report.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Every number, a line of JSON for each trial.")] = False,
) -> None:
    """Measure whether a model lies equally far from what each source domain alone would make of it."""
    from domainwise.analysis.balance import balance as measured
    from domainwise.cli.trained import trained
    from domainwise.records import publish
    from domainwise.report.balance import FILE

    found = []
    for folder, trial in _chosen(run, algorithms):
        task = trained(
            folder, data, cache, device=device, precision=precision, threads=threads, images=images, quiet=True
        )
        found.append((trial, measured(task, steps=steps, lr=lr)))
        if keep:
            publish(folder / FILE, {"steps": steps, "lr": lr, **found[-1][1].to_json()})
        if as_json:
            about = {"id": trial.id, "algorithm": trial.label or trial.algorithm, "targets": trial.targets}
            print(json.dumps({**about, "seed": trial.seed, **found[-1][1].to_json()}))
    if not as_json:
        print(_alone(found[0][1]) if len(found) == 1 else _compared(found))


def _chosen(run: str, algorithms: str | None) -> list[tuple[Path, Trial]]:
    from domainwise.cli.show import trials_named
    from domainwise.errors import InputError
    from domainwise.model import CONFIG
    from domainwise.trial import Trial

    if (Path(run) / CONFIG).is_file():  # one model: a snapshot, an average
        config = json.loads((Path(run) / CONFIG).read_text(encoding="utf-8"))
        return [(Path(run), Trial.from_json(config["trial"]))]
    named = {folder: json.loads((folder / "trial.json").read_text(encoding="utf-8")) for folder in trials_named(run)}
    trials = [(folder, Trial.from_json(settings)) for folder, settings in named.items()]
    wanted = [name.strip() for name in algorithms.split(",")] if algorithms else None
    chosen = [(folder, trial) for folder, trial in trials if wanted is None or trial.algorithm in wanted]
    if not chosen:
        what = f"no trial of {algorithms}" if trials else "no trial"
        raise InputError(f'"{run}" has {what}: give the folder of a trial that kept its model, or of a comparison')
    return chosen


def _alone(found: Balance) -> str:
    """Every source in a row: how far its expert is, and the losses at the model, at the expert, at the mean."""
    head = ["domain", "distance", "loss at model", "at its expert", "at the mean"]
    rows = [
        [
            name,
            *(
                f"{value:.4f}"
                for value in (far, found.at_model[name], found.at_experts[name][name], found.at_mean[name])
            ),
        ]
        for name, far in found.distances.items()
    ]
    rows += [
        [f"{name} (unseen)", "", f"{loss:.4f}", "", f"{found.at_mean[name]:.4f}"]
        for name, loss in found.at_model.items()
        if name not in found.distances
    ]
    said = [f"{text}: {getattr(found, name):.4g}" for name, text in MEASURES.items()]
    return "\n".join([_aligned([head, *rows]), "", *said])


def _compared(found: Found) -> str:
    """Means over all trials of an algorithm, with the standard error over them."""
    from domainwise.report.grid import label, ordered

    head = ["algorithm", "trials", *MEASURES.values()]
    rows = []
    for name in ordered(label(trial) for trial, _ in found):
        own = [one for trial, one in found if label(trial) == name]
        rows.append([name, str(len(own)), *(_mean([getattr(one, measure) for one in own]) for measure in MEASURES)])
    return _aligned([head, *rows])


def _mean(values: Sequence[float]) -> str:
    from statistics import fmean

    from domainwise.report.tables import standard_error

    error = standard_error(values)
    return f"{fmean(values):.4g}" + ("" if error is None else f" ± {error:.2g}")


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)
