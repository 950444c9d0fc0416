"""How DomainBed spells things, and the order it lists them in."""

from __future__ import annotations

import re
from collections.abc import Iterable

from domainwise.experiment.trial import Trial

ALGORITHMS = (
    "ERM", "ERMPlusPlus", "Fish", "IRM", "GroupDRO", "Mixup", "MLDG", "CORAL", "MMD", "DANN", "CDANN", "MTL", "SagNet",
    "ARM", "VREx", "RSC", "SD", "ANDMask", "SANDMask", "IGA", "SelfReg", "Fishr", "TRM", "IB_ERM", "IB_IRM", "CAD",
    "CondCAD", "Transfer", "CausIRL_CORAL", "CausIRL_MMD", "EQRM", "RDM", "ADRMX", "URM",
)  # fmt: skip

# Environments in the order of their numbers, which is that of the sorted folder names.
DATASETS = {
    "ColoredMNIST": ("+90%", "+80%", "-90%"),
    "RotatedMNIST": ("0", "15", "30", "45", "60", "75"),
    "VLCS": ("C", "L", "S", "V"),
    "PACS": ("A", "C", "P", "S"),
    "OfficeHome": ("A", "C", "P", "R"),
    "TerraIncognita": ("L100", "L38", "L43", "L46"),
    "DomainNet": ("clip", "info", "paint", "quick", "real", "sketch"),
}


def environments(dataset: str, count: int) -> tuple[str, ...]:
    """The names of numbers 0 to count - 1; plain ones where the data set is not known in this form."""
    known = DATASETS.get(dataset, ())
    return known if len(known) == count else tuple(f"env{i}" for i in range(count))


def algorithms_in_order(names: Iterable[str]) -> list[str]:
    return _in_order(names, ALGORITHMS)


def datasets_in_order(names: Iterable[str]) -> list[str]:
    return _in_order(names, tuple(DATASETS))


def _in_order(names: Iterable[str], order: tuple[str, ...]) -> list[str]:
    """Those DomainBed knows first and in its order, the others behind them by name."""
    return sorted(set(names), key=lambda name: (order.index(name) if name in order else len(order), name))


def dataset_of(trial: Trial) -> str:
    return _spelled(trial.data, tuple(DATASETS)) or trial.data


def algorithm_of(trial: Trial) -> str:
    """DomainBed's name of a plain algorithm; one that was given settings keeps them, so that its row stays its own."""
    label = trial.label or trial.algorithm
    if trial.algorithm == "causirl" and re.fullmatch(r"causirl(\(distance='\w+'\))?", label):
        label = f"causirl{trial.hyperparameters.get('distance', 'coral')}"
    return _spelled(label, ALGORITHMS) or label


def _spelled(name: str, known: tuple[str, ...]) -> str:
    return {_bare(one): one for one in known}.get(_bare(name), "")


def _bare(name: str) -> str:
    return name.replace("_", "").lower()
