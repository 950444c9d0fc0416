"""Domain generalization: train on several source domains, work on one nobody has seen."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from domainwise._version import __version__

if TYPE_CHECKING:
    from domainwise.api import Results as Results, compare as compare, fit as fit
    from domainwise.data.domains import Domains as Domains
    from domainwise.data.sources.arrays import domains as domains
    from domainwise.data.sources.digits import digits as digits
    from domainwise.data.sources.folders import folders as folders
    from domainwise.errors import InputError as InputError
    from domainwise.interop.check_folder import check as check
    from domainwise.meta.combine import (
        and_mask as and_mask,
        arithmetic as arithmetic,
        constant as constant,
        last as last,
        sand_mask as sand_mask,
        weighted as weighted,
    )
    from domainwise.meta.optimizer import MetaOptimizer as MetaOptimizer
    from domainwise.networks.network import Network as Network
    from domainwise.report.power import power as power
    from domainwise.saved_models.model import Model as Model
    from domainwise.saved_models.saved import load as load
    from domainwise.sweeps.status import follow as follow
    from domainwise.training.fit import average_runs as average_runs
    from domainwise.training.reading import open_data as open_data

# Where each public name lives. They are imported when first asked for, so that the command line starts without torch.
_HOME = {
    "MetaOptimizer": "meta.optimizer",
    "Network": "networks.network",
    "arithmetic": "meta.combine",
    "constant": "meta.combine",
    "last": "meta.combine",
    "weighted": "meta.combine",
    "and_mask": "meta.combine",
    "sand_mask": "meta.combine",
    "compare": "api",
    "fit": "api",
    "Results": "api",
    "power": "report.power",
    "Domains": "data.domains",
    "open_data": "training.reading",
    "domains": "data.sources.arrays",
    "folders": "data.sources.folders",
    "digits": "data.sources.digits",
    "InputError": "errors",
    "Model": "saved_models.model",
    "load": "saved_models.saved",
    "average_runs": "training.fit",
    "follow": "sweeps.status",
    "check": "interop.check_folder",
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
