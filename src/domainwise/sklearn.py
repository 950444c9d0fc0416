"""Use domain generalization as an estimator of scikit-learn: in pipelines, searches and cross-validation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data
from torch import Tensor

from domainwise.acceleration.shared_device import on_device
from domainwise.algorithms import Given, specs_of
from domainwise.data.domains import Domains
from domainwise.data.sources.arrays import one_or_more
from domainwise.errors import InputError, TrialError, is_whole, plain, require
from domainwise.experiment.selection import validation
from domainwise.experiment.settings import MOST, together
from domainwise.experiment.trial import Trial
from domainwise.machine import choose_device
from domainwise.saved_models.build import trained
from domainwise.saved_models.keep import Keeper
from domainwise.saved_models.model import Model
from domainwise.training.fit import fitted
from domainwise.training.loop import run
from domainwise.training.loss_log import Diverged
from domainwise.training.reading import settings_for
from domainwise.training.run_options import RunOptions
from domainwise.training.suited_settings import automatic

Array = npt.NDArray[Any]
SETTINGS = ("network", "steps", "batch", "lr", "holdout")  # that have an argument of their own


_one_at_a_time = Lock()  # what dropout draws and how products are rounded is set for a whole process


class _Fitted(NamedTuple):
    """Hold what a pickle has of a trained network: texts, numbers and weights, from which it is built again."""

    algorithm: Given
    trial: Trial
    config: dict[str, Any]
    weights: dict[str, Tensor]


class DomainClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Learn from rows or images of several domains to classify those of a domain that nobody has seen.

    ``fit`` is told the domain of every row, ``predict`` needs none. An argument left at None is what
    :func:`domainwise.fit` takes for the same data: for a table, 300 updates of a network of two hidden layers.
    Nothing is printed, and no model is written to disk.

    Args:
        algorithm: as on the command line ("erm", "arith(inner_lr=0.02)"), or a class or an object of an algorithm.
        network: "mlp" or "linear" for tables; "small" or the name of a timm backbone for images; "my_net.py:build".
        steps: the number of updates.
        batch: the number of rows of each domain in an update.
        lr: the learning rate.
        holdout: the part of every domain that is not trained on, by which the step is chosen.
        class_weight: "balanced", or a weight for each class, by which the cross-entropy counts it.
        settings: other settings and hyperparameters by name, as in {"weight_decay": 0.01, "dropout": 0.1}.
        average: an averager of the weights, such as "swad"; "auto" is what goes with the network.
        device: "cpu", "cuda", or "auto", which is a GPU if there is one.
        random_state: with a whole number the same call gives the same classifier.
        verbose: whether to print the accuracy on the held-out parts while it trains.
    """

    # With metadata routing both go to fit unless the user says otherwise: none is dropped without a word.
    __metadata_request__fit = {"sample_domain": True, "groups": True}  # noqa: RUF012  read from the class

    def __init__(
        self,
        algorithm: Given = "arith",
        *,
        network: str | None = None,
        steps: int | None = None,
        batch: int | None = None,
        lr: float | None = None,
        holdout: float | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        settings: Mapping[str, Any] | None = None,
        average: str | Sequence[str] = "auto",
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.algorithm = algorithm
        self.network = network
        self.steps = steps
        self.batch = batch
        self.lr = lr
        self.holdout = holdout
        self.class_weight = class_weight
        self.settings = settings
        self.average = average
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_domain: Any = None, *, groups: Any = None) -> Self:  # noqa: N803
        """Train on rows (N, d) or images (N, H, W, C) that have a class each, and return this classifier.

        ``sample_domain`` names the domain of every row; without it all are of one domain. ``groups`` is another name
        of it, which cross-validation uses.
        """
        X, y = self._checked(X, y, reset=True)  # noqa: N806
        check_classification_targets(y)
        classes, labels = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise InputError(f"y has one class alone, {classes[0]}: there is nothing to tell apart")
        data = _domains(X, labels, _named(sample_domain, groups, len(X)), classes)
        self._dimensions, self._grey = X.ndim, X.ndim == len(data.shape)  # images without an axis of channels
        self._fitted = self._trained(data)
        self.classes_, self.domains_, self.model_ = classes, np.array(data.names), self._model()
        return self

    def predict(self, X: Any) -> Array:  # noqa: N803
        """Return the class of every row or image, whatever its domain."""
        rows = self.predict_proba(X)
        found: Array = self.classes_[rows.argmax(1)]
        return found

    def predict_proba(self, X: Any) -> npt.NDArray[np.float32]:  # noqa: N803
        """Return a row for each row or image: the probability of every class, in the order of ``classes_``."""
        check_is_fitted(self)
        X = self._checked(X)  # noqa: N806
        if X.ndim != self._dimensions:
            raise InputError(f"X has {X.ndim} dimensions, and the classifier was trained on {self._dimensions}")
        return self.model_.probabilities(X[..., None] if self._grey else X)

    def _checked(self, X: Any, y: Any = "no_validation", reset: bool = False) -> Any:  # noqa: N803
        """Return X, and y if it is given, as arrays, after scikit-learn's own checks."""
        if (X.ndim if hasattr(X, "ndim") else np.asarray(X).ndim) < 3:
            return validate_data(self, X, y, reset=reset, dtype=np.float32)
        found = validate_data(self, X, y, reset=reset, dtype=None, allow_nd=True, ensure_2d=False)
        if reset:
            self.n_features_in_ = int(np.prod(np.shape(X)[1:]))
        return found

    def _trained(self, data: Domains) -> _Fitted:
        device, trial = choose_device(self.device), self._planned(data)
        keeper, which = Keeper(trial, "best"), next(iter(trial.averages), "model")
        tell = print if self.verbose else _silent
        try:
            with _one_at_a_time, on_device(device):
                for record in run(trial, data, RunOptions(device), keeper=keeper, say=tell):
                    accuracy = validation(record, ())
                    tell(f"update {record['step'] + 1} of {trial.steps}: validation accuracy {accuracy:.1%}")
        except Diverged as error:
            raise TrialError(f"{trial.label} has diverged: {error}") from error
        if which not in keeper.kept:
            raise InputError(f"{which} had nothing to average yet after {trial.steps} updates: give more steps")
        weights = {**keeper.kept[which][1], **(keeper.featurizer.weights if keeper.featurizer else {})}
        return _Fitted(self.algorithm, trial, {**keeper.about, **keeper.recalled[which]}, weights)

    def _planned(self, data: Domains) -> Trial:
        for name, hint in (("algorithm", Given), ("settings", Mapping | None), ("average", str | Sequence[str])):
            require(name, getattr(self, name), hint)
        given = {name: getattr(self, name) for name in SETTINGS if getattr(self, name) is not None}
        if self.class_weight is not None:
            given["class_weights"] = _of_these(self.class_weight, data.classes)
        device, state = choose_device(self.device), self.random_state
        seed = state if is_whole(state) else check_random_state(state).randint(MOST)
        seed = seed % MOST if seed > MOST else seed  # type: ignore[operator]  # ensembles draw larger ones
        settings = settings_for(data, device=device, given=together(given, self.settings or {}))
        settings = automatic(settings, data, device=device)
        return fitted(data, self.algorithm, seed=plain(seed), settings=settings, average=self.average)

    def _model(self) -> Model:
        given, trial, config, weights = self._fitted
        specs_of(given)  # a class of this program is known by its source from then on
        with _one_at_a_time:
            algorithm = trained(trial, config, weights, choose_device(self.device), place="this classifier")
        return Model(algorithm, config)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "model_"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_fitted" in state:
            self.model_ = self._model()


class LeaveOneDomainOut(LeaveOneGroupOut):  # type: ignore[misc]  # scikit-learn has no types
    """Hold out each domain in turn and train on the others, which estimates what a model does at a new site.

    The domains come as ``groups``, as cross-validation calls them, or as ``sample_domain``.
    """

    __metadata_request__split = {"sample_domain": True, "groups": True}  # noqa: RUF012  read from the class

    def split(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        groups: Any = None,
        sample_domain: Any = None,
    ) -> Iterator[tuple[Array, Array]]:
        """Yield the rows to train on and those of the domain held out, once for each domain."""
        yield from super().split(X, y, _at_least_two(sample_domain, groups, _num_samples(X)))

    def get_n_splits(
        self,
        X: Any = None,  # noqa: N803
        y: Any = None,
        groups: Any = None,
        sample_domain: Any = None,
    ) -> int:
        """Return the number of domains."""
        return len(np.unique(_at_least_two(sample_domain, groups)))


def _silent(sentence: str) -> None:
    """Say nothing."""


def _domains(x: Array, labels: Array, names: Array | None, classes: Array) -> Domains:
    """Return the rows by domain, in the order of the alphabet."""
    names = np.full(len(x), "all") if names is None else names
    parts = {str(name): (x[names == name], labels[names == name]) for name in np.unique(names)}
    return one_or_more(parts, name="arrays", classes=[str(name) for name in classes])


def _named(sample_domain: Any, groups: Any, rows: int | None = None) -> Array | None:
    """Return the domain of every row as text, under whichever name it was given; None where under none."""
    both = {"sample_domain": sample_domain, "groups": groups}
    found = [_column(name, given, rows) for name, given in both.items() if given is not None]
    if any(not np.array_equal(found[0], other) for other in found[1:]):
        raise InputError(
            "sample_domain and groups are two names of one thing, the domain of every row, and they differ: give "
            "sample_domain alone. With metadata routing, set_fit_request(groups=False) keeps groups for the split"
        )
    return found[0] if found else None


def _column(name: str, given: Any, rows: int | None) -> Array:
    column = np.asarray(given)
    column = column[:, 0] if column.ndim == 2 and column.shape[1] == 1 else column
    if column.ndim != 1 or (rows is not None and len(column) != rows):
        raise InputError(f"{name} names the domain of every row: X has {rows} rows, and its shape is {column.shape}")
    if (empty := pd.isna(column)).any():
        raise InputError(f"{name} names no domain for {empty.sum()} rows, the first of them number {empty.argmax()}")
    return column.astype(str)


def _of_these(class_weight: object, classes: Sequence[str]) -> object:
    """Return the weights of the classes at hand: in a part of the data others may be missing."""
    if not isinstance(class_weight, Mapping):
        return class_weight
    return {str(name): weight for name, weight in class_weight.items() if str(name) in classes} or class_weight


def _at_least_two(sample_domain: Any, groups: Any, rows: int | None = None) -> Array:
    names = _named(sample_domain, groups, rows)
    if names is None:
        raise InputError("LeaveOneDomainOut needs the domain of every row: give groups=, or sample_domain=")
    if len(known := np.unique(names)) < 2:
        raise InputError(f"LeaveOneDomainOut needs two domains or more, and all rows are of {known[0]}")
    return names
