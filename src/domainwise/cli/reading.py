"""From what was typed to settings and data."""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from domainwise.cli.option_groups import Choices, One
from domainwise.data.decoded.cache import cache_folder
from domainwise.data.decoded.decode_all import Sizes
from domainwise.data.domains import Domains
from domainwise.data.sources.listing import Listing
from domainwise.data.sources.open import benchmark_named, find_source, foreseen, read_source
from domainwise.errors import InputError, Note
from domainwise.experiment.settings import Settings, resolve, together
from domainwise.experiment.trial import Trial
from domainwise.networks.network import check_network
from domainwise.terminal import console, plain_streams
from domainwise.training.suited_settings import automatic


@dataclass(frozen=True)
class Ask(Choices):
    """The settings that were asked for; None leaves one to the preset."""

    preset: str = "quick"
    balanced: bool = False
    device: str = "cpu"

    def settings(self, benchmark: str) -> Settings:
        named = ("network", "weights", "steps", "batch", "evaluate_every", "precision")
        options = {name: getattr(self, name) for name in named}
        options |= {"input_size": self.size, "balanced": self.balanced or None}
        given = {name: value for name, value in options.items() if value is not None}
        return resolve(
            self.preset, benchmark=benchmark, device=self.device, given=together(given, assignments(self.set))
        )


Check = Callable[[Domains, Settings], object]


def read(text: str, ask: Ask, machine: One, check: Check = lambda data, settings: None) -> tuple[Domains, Settings]:
    """Open the data, with a bar while images are decoded; what a reader warns of is said in a line.

    ``check`` hears of the data before they are decoded, to refuse what cannot be run on them.
    """
    benchmark = benchmark_named(text)
    settings = ask.settings(benchmark.name if benchmark else "")
    source = find_source(text)
    settings = automatic(settings, source, device=ask.device, output=machine.output)
    check_network(settings.network, settings.weights, settings.input_size)
    sizes = Sizes(settings.train_size, settings.input_size)  # type: ignore[arg-type]  # settings has checked it
    return _opened(source, sizes, machine, lambda data: check(data, settings)), settings


def read_for(trial: Trial, text: str, machine: One) -> Domains:
    """Open the data of a trial in the sizes that it was trained with."""
    sizes = Sizes(trial.train_size or trial.input_size, trial.input_size)  # type: ignore[arg-type]  # as above
    return _opened(find_source(text), sizes, machine)


def _opened(
    source: Listing | Domains, sizes: Sizes, machine: One, check: Callable[[Domains], object] = lambda data: None
) -> Domains:
    from rich.progress import Progress

    if isinstance(source, Domains):
        return source
    screen = console(stderr=True)
    with (
        warnings_in_lines(),
        Progress(console=screen, transient=True, disable=machine.quiet or not screen.is_terminal) as bars,
        plain_streams(),
    ):
        source.require_usable(strict=machine.strict)
        check(foreseen(source, sizes))
        task = bars.add_task("reading images", total=None)
        return read_source(
            source,
            sizes,
            cache=cache_folder(machine.cache),
            skip_corrupt=machine.skip_corrupt,
            strict=machine.strict,
            progress=lambda n, total: bars.update(task, completed=n, total=total),
            say=None if machine.quiet else lambda sentence: print(sentence, file=sys.stderr),
            decode=not getattr(machine, "dry_run", False),
        )


@contextmanager
def warnings_in_lines() -> Iterator[None]:
    """What is warned of inside is said afterwards, without the place in the code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in caught:
        if issubclass(warning.category, Note):
            warnings.warn(warning.message, stacklevel=2)  # the command says each of these once
        else:
            print(f"domainwise: {warning.message}", file=sys.stderr)


def assignments(given: Sequence[str] | None) -> dict[str, Any]:
    """``--set NAME=VALUE`` as a mapping; a value that is no number, True, False or None is a word."""
    found: dict[str, Any] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise InputError(f"cannot read --set {text}: write --set NAME=VALUE, for example --set inner_lr=0.02")
        found = together(found, {name.strip(): _value(value.strip())})
    return found


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
