from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from domainwise.cli import options as o
from domainwise.terminal import exact

if TYPE_CHECKING:
    from domainwise.saved_models.predict import Prediction


class PredictionFormat(StrEnum):
    """Name how predictions are written."""

    table = "table"
    csv = "csv"
    json = "json"


Saved = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="Folder that fit wrote, trial that kept its model, saved model, or hf:USER/MODEL."
    ),
]
Places = Annotated[list[Path], typer.Argument(metavar="IMAGES", help="Image files, and folders to search for them.")]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write to a .csv or .json file instead.")
]
Printed = Annotated[PredictionFormat | None, typer.Option("--format", help="Format of the answer; a table by default.")]
Probabilities = Annotated[bool, typer.Option("--probabilities", help="Print the probability of every class.")]
Least = Annotated[
    float, typer.Option(metavar="SHARE", help="Give no class to images whose most probable one is below this, 0 to 1.")
]
Asked = Annotated[
    str | None,
    typer.Option("--which", help="best, which is without averaging, or an averager such as ma."),
]


def predict(
    model: Saved,
    images: Places,
    output: Output = None,
    format: Printed = None,
    probabilities: Probabilities = False,
    which: Asked = None,
    min_probability: Least = 0.0,
    device: o.Device = "auto",
    threads: o.Threads = None,
    trust_code: o.TrustCode = False,
    quiet: o.Quiet = False,
) -> None:
    """Say which class images belong to, as a trained model sees it."""
    import sys

    import torch

    from domainwise.data.sources.folders import images_in
    from domainwise.machine import check_count, threads_for
    from domainwise.saved_models.predict import Tally, as_csv, as_json, as_text, predictions
    from domainwise.saved_models.saved import load
    from domainwise.terminal import pace

    form = _form(output, format)
    threads = None if threads is None else check_count("threads", threads)
    files = images_in(images)
    loaded = load(model, device=device, which=which, trust_code=trust_code)
    torch.set_num_threads(threads or threads_for(loaded.config["trial"]["network"]))
    every = loaded.classes if probabilities else ()
    forms = {"csv": as_csv, "json": as_json, "table": as_text(files, loaded.classes)}
    trial = loaded.config["trial"]
    hashed = bool(len(loaded.card.made_from))
    tally = Tally(loaded.classes, loaded.config.get("domains"), trial["targets"], trial["data"], hashed=hashed)
    seen = tally.watch(predictions(loaded, files, min_probability))
    shown = output is None and sys.stdout.isatty()  # the rows themselves say how far it is
    with _written(output) as write, pace("images", quiet=quiet or shown) as tick:
        for line in forms[form](_counted(seen, len(files), tick), every):
            write(line)
    for line in (
        [*tally.summary, *loaded.card.sentences, *([f"predictions: {output}"] if output else [])] if not quiet else ()
    ):
        print(line, file=sys.stderr)
    if tally.trouble:
        print(f"domainwise: {tally.trouble}", file=sys.stderr)
        raise typer.Exit(1)


def _form(output: Path | None, format: PredictionFormat | None) -> str:
    """Return the format that the file's name says, or the one asked for where rows are printed.

    Refuse a file that is there and holds no predictions.
    """
    from domainwise.data.sources.folders import looking
    from domainwise.errors import InputError
    from domainwise.files import check_output
    from domainwise.saved_models.predict import BEGINNING

    if output is None:
        return format.value if format else "table"
    form = output.suffix.lower().removeprefix(".")
    with looking():
        if output.is_dir():
            raise InputError(f"{output} is a folder: give a file, as in -o {output / 'predictions.csv'}")
        if form not in ("csv", "json"):
            raise InputError(f'predictions are written as CSV or JSON: let "{output}" end in .csv or .json')
        if format not in (None, form):
            raise InputError(
                f'"{output}" would be {form.upper()} and not --format {format.value}: leave out one of both'
            )
        check_output(output, BEGINNING)
    return form


@contextmanager
def _written(output: Path | None) -> Iterator[Callable[[str], object]]:
    """Gives what writes: to a file that is there when all of it is, or to standard output."""
    import sys

    from domainwise.errors import InputError
    from domainwise.files import replacing_text

    if output is None:
        # A progress bar on standard error puts something of its own in this place.
        out = sys.stdout if sys.stdout.isatty() else exact(sys.stdout)  # a program gets names as they are
        code = out.encoding or "utf-8"
        yield lambda text: out.write(text.encode(code, "backslashreplace").decode(code))
        return
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with replacing_text(output.resolve()) as file:
            yield file.write
    except OSError as error:
        raise InputError(f"cannot write {output}: {error.strerror or error}") from error


def _counted(seen: Iterable[Prediction], total: int, tick: Callable[[int, int], None]) -> Iterator[Prediction]:
    for done, one in enumerate(seen, 1):
        yield one
        tick(done, total)
