"""Whether the code that a saved model names may be run: a model is data, until somebody says that it is more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from domainwise.errors import InputError
from domainwise.experiment.trial import Trial
from domainwise.files import sha256
from domainwise.networks.network import OWN


@dataclass(frozen=True)
class Code:
    """A file of somebody's own that a trial names, and the hash that was recorded of it."""

    what: str
    file: Path
    recorded: str

    def problem(self) -> str:
        """Why it is not run, whoever trusts it; "" where nothing is against it."""
        if not re.fullmatch("[0-9a-f]{64}", self.recorded):
            return "and no hash of it is recorded, so that nobody can tell whether it is what it was: train again"
        if not self.file.is_file():
            return f"and there is no such file: put back the one whose sha256 is {self.recorded}"
        try:
            digest = sha256(self.file)
        except OSError as error:
            return f"which cannot be read: {error.strerror or error}"
        if digest != self.recorded:
            return (
                f"which has changed since: its sha256 was {self.recorded} and is {digest}. Put back what it was, or "
                "train again"
            )
        return ""


def code_of(trial: Trial) -> Iterator[Code]:
    """All that would be run to make the algorithm and the network of a trial."""
    if trial.file:
        yield Code(f"algorithm, {trial.algorithm}", Path(trial.file), str(trial.source))
    own = OWN.fullmatch(trial.network)
    if trial.network_file or own:
        file = trial.network_file or (own["file"] if own else "")
        yield Code(f"network, {trial.network}", Path(file), str(trial.network_source))


def allowed(trial: Trial, home: Path, *, trust_code: bool, named: Trial | None = None) -> Trial:
    """The trial, if no code of others has to be run for it, or if that is trusted and is what it was.

    ``named`` is a trial whose code was named in the present call: where the same is wanted, its files are taken.
    """
    if named and (trial.algorithm, trial.source) == (named.algorithm, named.source):
        trial = replace(trial, file=named.file)
    if named and (trial.network, trial.network_source) == (named.network, named.network_source):
        trial = replace(trial, network_file=named.network_file)
    known = set(code_of(named)) if named else set()
    for code in code_of(trial):
        trusted = trust_code or code in known
        problem = code.problem() or ("" if trusted else f"whose sha256 is {code.recorded}")
        if problem:
            ask = "" if trusted else f". {ASK}"
            raise InputError(f"the {code.what}, of the model in {home} is in {code.file.absolute()}, {problem}{ask}")
    return trial


ASK = (
    "What a model names is not run unless it is trusted, for it would run with all your rights: read that file, and "
    "add --trust-code (in Python: trust_code=True)"
)
