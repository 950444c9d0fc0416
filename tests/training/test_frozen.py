"""A head on frozen features is a head on a network that stays as it is; features are never those of something else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from made_data import image_folder, stripes
from made_trials import Killed, die, remains, run, trial
from torch import nn

import domainwise as dw
from domainwise import InputError
from domainwise.acceleration.shared_device import directly
from domainwise.algorithms import create, names, parse, resolved
from domainwise.data.domains import Domains
from domainwise.errors import Note
from domainwise.experiment import outcomes
from domainwise.experiment.integrity import Damaged
from domainwise.experiment.presets import ALGORITHMS
from domainwise.experiment.results import Outcome, result_in
from domainwise.experiment.settings import FROZEN, of_algorithm, resolve
from domainwise.experiment.trial import Trial
from domainwise.networks.network import build
from domainwise.saved_models.build import FEATURIZER
from domainwise.saved_models.saved import read
from domainwise.sweeps.progress import disk_needed
from domainwise.training import frozen as module
from domainwise.training.plan import plan, with_probe
from domainwise.training.run_options import RunOptions
from domainwise.training.setup import set_up

DATA = stripes()


@pytest.fixture(autouse=True)
def _new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    forget(monkeypatch)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is computed from now on is computed by a new process."""
    monkeypatch.setattr(module, "_networks", {})
    monkeypatch.setattr(module, "_features", {})


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return weights_in(tmp_path / "weights.pt")


def weights_in(file: Path, seed: int = 5) -> Path:
    torch.manual_seed(seed)
    torch.save(build("small", (8, 8, 1), 2).featurizer.state_dict(), file)
    return file


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The data whose features are computed, one name for every time."""
    seen: list[str] = []
    make = module._computed

    def watched(net: Any, featurizer: Any, one: Trial, data: Domains, *given: Any) -> Any:
        seen.append(data.name)
        return make(net, featurizer, one, data, *given)

    monkeypatch.setattr(module, "_computed", watched)
    return seen


def features(one: Trial, data: Domains = DATA, **options: Any) -> tuple[npt.NDArray[Any], list[str]]:
    said: list[str] = []
    found = module.frozen(one, data, create("erm"), RunOptions(**options), said.append)
    return np.concatenate([domain.images for domain in found.data]), said


def test_the_settings_of_a_probe_are_those_of_its_fields() -> None:
    probe, told = create("probe"), ALGORITHMS["probe"]
    assert (
        (probe.lr, probe.weight_decay) == (told["lr"], told["weight_decay"]) == (FROZEN["lr"], FROZEN["weight_decay"])
    )


def test_a_probe_trains_the_head_and_nothing_else() -> None:
    net = dw.Network(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), nn.Linear(3, 2))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    create("probe").setup(net, seed=0).update([(torch.randn(8, 4), torch.randint(2, (8,)))])
    moved = {name for name, value in net.state_dict().items() if not torch.equal(value, before[name])}
    assert moved == {"head.weight", "head.bias"}


def test_a_head_on_computed_features_learns_what_it_would_on_the_whole_network(weights: Path) -> None:
    settings = {"network": "small", "weights": weights, "dropout": 0.0}
    frozen, trained = (trial("probe", **settings), trial("probe", **settings))
    object.__setattr__(trained, "features", "trained")
    heads = []
    for one in (frozen, trained):
        made = set_up(one, DATA, RunOptions(), print, directly)
        nn.init.ones_(made.algorithm.net.head.weight)
        nn.init.zeros_(made.algorithm.net.head.bias)
        for _ in range(5):
            made.update(made.feed.draw())
        heads.append(made.algorithm.net.head.weight.detach())
    assert not torch.equal(heads[0], torch.ones_like(heads[0]))
    assert torch.allclose(*heads, atol=1e-6)


def test_a_saved_probe_takes_images_and_does_on_them_what_its_result_says(tmp_path: Path, weights: Path) -> None:
    one = trial("probe", network="small", weights=weights)
    run(one, tmp_path / "o", snapshots=0)
    result = result_in(tmp_path / "o")
    seen = outcomes.read(Outcome(one, result, tmp_path / "o"))["c"].values()
    rows = np.concatenate([part.columns["index"] for part in seen])
    logits = np.concatenate([part.columns["logits"] for part in seen])
    found = dw.load(tmp_path / "o").probabilities(DATA["c"].images)[rows]
    assert np.allclose(found, outcomes.probabilities(logits), atol=1e-5)


def test_models_of_one_featurizer_share_its_file_which_is_checked(tmp_path: Path, weights: Path) -> None:
    for text in ("probe", "irm"):
        run(trial(text, network="small", weights=weights, features="frozen"), tmp_path / text, snapshots=0)
    first, second = (tmp_path / text / "best" / FEATURIZER for text in ("probe", "irm"))
    assert first.stat().st_ino == second.stat().st_ino
    start = build("small", (8, 8, 1), 2, weights=weights).featurizer.state_dict()
    assert all(torch.equal(read(second.parent)[f"featurizer.{name}"], value) for name, value in start.items())
    content = bytearray(second.read_bytes())
    content[-1] ^= 1
    second.write_bytes(content)
    with pytest.raises(Damaged, match="has changed since"):
        dw.load(tmp_path / "irm")


def test_the_room_that_is_asked_for_has_the_featurizer_of_many_models_once(tmp_path: Path, weights: Path) -> None:
    probe = trial("probe", network="small", weights=weights)
    for seed in range(2):
        run(trial("probe", seed=seed, network="small", weights=weights), tmp_path / str(seed), keep="all")
    files = {path.stat().st_ino: path.stat().st_size for path in tmp_path.rglob("*/*.safetensors")}
    needed = disk_needed(probe, DATA, keep="all", snapshots=1)
    whole = disk_needed(trial("erm", network="small"), DATA, keep="all", snapshots=1)
    assert sum(files.values()) <= needed.shared + 2 * needed.afterwards < 2 * whole.afterwards
    assert max(files.values()) <= needed.shared < 1.2 * max(files.values())
    assert needed.running < whole.running
    assert disk_needed(probe, DATA, keep="none").shared == 0


def test_a_killed_probe_goes_on_exactly(tmp_path: Path, weights: Path) -> None:
    one = trial("probe", network="small", weights=weights)
    run(one, tmp_path / "whole")
    with pytest.raises(Killed):
        run(one, tmp_path / "killed", at=10, then=die)
    assert any("resum" in sentence or "goes on" in sentence for sentence in run(one, tmp_path / "killed"))
    assert remains(tmp_path / "killed") == remains(tmp_path / "whole")


def test_features_are_computed_once_for_all_trials_and_processes(
    tmp_path: Path, weights: Path, computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for text, seed in (("probe", 0), ("probe", 1), ("arith", 0)):
        one = trial(text, seed=seed, network="small", weights=weights, features="frozen")
        first, _ = features(one, cache=tmp_path / "cache")
    forget(monkeypatch)
    again, _ = features(one, cache=tmp_path / "cache")
    assert computed == ["stripes"]
    assert np.array_equal(first, again)


@pytest.mark.parametrize("what", ["weights", "data", "size", "precision", "network", "normalisation"])
def test_whatever_features_depend_on_makes_other_ones(
    what: str, tmp_path: Path, weights: Path, computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"network": "small", "weights": weights, "features": "frozen"}
    features(trial("erm", **given), cache=tmp_path / "cache")
    forget(monkeypatch)
    data = stripes(size=31) if what == "data" else DATA
    if what == "weights":
        weights_in(weights, seed=6)
    if what == "network":
        source = "from domainwise.networks.network import small_cnn\nbuild = small_cnn\n"
        (tmp_path / "own.py").write_text(source)
        given["network"] = f"{tmp_path / 'own.py'}:build"
    if what == "normalisation":
        monkeypatch.setattr(module, "normalisation", lambda net, channels: ((0.5,), (1.0,)))
    changed = {"size": {"input_size": 4}, "precision": {"precision": "bf16"}}.get(what, {})
    features(trial("erm", data=data, **{**given, **changed}), data, cache=tmp_path / "cache")
    assert len(computed) == 2


def test_damaged_features_are_computed_anew(
    tmp_path: Path, weights: Path, computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, cache = trial("probe", network="small", weights=weights), tmp_path / "cache"
    first, _ = features(one, cache=cache)
    first = first.copy()
    (file,) = cache.glob("*/images.npy")
    content = bytearray(file.read_bytes())
    content[len(content) // 2 + 100] ^= 1
    file.write_bytes(content)
    forget(monkeypatch)
    again, said = features(one, cache=cache)
    assert np.array_equal(first, again)
    assert len(computed) == 2
    assert "damaged" in said[0]


def test_a_cache_that_cannot_be_written_to_is_no_reason_to_stop(tmp_path: Path, weights: Path) -> None:
    (tmp_path / "file").touch()
    _, said = features(trial("probe", network="small", weights=weights), cache=tmp_path / "file" / "cache")
    assert "only in memory" in said[0]


@pytest.mark.parametrize("name", sorted({*names()} - {"arm", "coral", "mmd", "causirl"}))
def test_every_algorithm_trains_on_frozen_features(name: str, weights: Path) -> None:
    made = set_up(trial(name, network="small", weights=weights, features="frozen"), DATA, RunOptions(), print, directly)
    metrics = made.update(made.feed.draw(made.algorithm.fresh))
    assert torch.isfinite(metrics["loss"])


MATCHING = ("coral", "mmd", "causirl")


@pytest.mark.parametrize("name", MATCHING)
def test_matching_features_that_do_not_change_would_be_erm(name: str, weights: Path) -> None:
    frozen = trial("erm", network="small", weights=weights, features="frozen", dropout=0.0)
    heads = []
    for one in (
        frozen,
        replace(
            frozen,
            algorithm=name,
            hyperparameters=resolved(create(name, lr=FROZEN["lr"], weight_decay=FROZEN["weight_decay"])),
        ),
    ):
        made = set_up(one, DATA, RunOptions(), print, directly)
        for _ in range(3):
            made.update(made.feed.draw())
        heads.append(made.algorithm.net.head.weight.detach())
    assert torch.allclose(*heads, atol=1e-7)


def test_what_cannot_be_done_with_frozen_features_is_a_sentence(weights: Path) -> None:
    with pytest.raises(InputError, match="leave out augment"):
        resolve(given={"features": "frozen", "augment": "flip"})
    for name, why in {"arm": "shows the network more than images", **dict.fromkeys(MATCHING, "do not change")}.items():
        with pytest.raises(InputError, match=f"{name} .*{why}: leave it out"):
            trial(name, network="small", weights=weights, features="frozen")


def test_frozen_features_of_a_network_that_has_learned_nothing_are_told_of(weights: Path) -> None:
    with pytest.warns(Note, match="frozen features of small without weights, which has learned nothing"):
        trial("erm", network="small", features="frozen")
    trial("erm", network="small", weights=weights, features="frozen")  # which no warning comes of


def test_an_algorithm_for_images_is_refused_on_a_table_before_any_trial() -> None:
    table = dw.domains({name: (np.eye(6, dtype=np.float32), np.arange(6) % 2) for name in "abc"}, name="table")
    with pytest.raises(InputError, match="arm shows the network more than images: leave it out, or give it images"):
        plan(table, parse("erm,arm"), [("c",)], [0], resolve())


@pytest.mark.parametrize(
    ("asked", "rows"),
    [
        ({}, ["erm", "probe"]),
        ({"probe": False}, ["erm"]),
        ({"draws": 2}, ["erm"]),
        ({"command": "run"}, ["erm"]),
        ({"weights": "none"}, ["erm"]),
        ({"features": "frozen"}, ["erm"]),
        ({"preset": "swad"}, ["erm"]),
    ],
    ids=str,
)
def test_data_of_ones_own_and_a_pretrained_network_are_compared_with_a_probe(
    asked: dict[str, Any], rows: list[str], weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"network": "small", "weights": weights, "input_size": 8, "augment": "none", "steps": 2, "seeds": 1}
    given: dict[str, Any] = {**settings, **asked, "targets": "c", "output": tmp_path / "o", "device": "cpu"}
    dw.compare(DATA, "erm", **given, dry_run=True)
    assert sorted({line.split()[1] for line in capsys.readouterr().out.splitlines()[:-1]}) == rows


def test_the_command_line_has_the_probe_and_frozen_features_too(
    domainwise: Callable[..., tuple[int, str, str]], weights: Path, tmp_path: Path
) -> None:
    photos = image_folder(tmp_path / "photos", side=8)
    torch.save(build("small", (8, 8, 3), 2).featurizer.state_dict(), weights)
    command = ["compare", "--data", photos, "--algorithms", "erm", "--targets", "art", "--seeds", 1, "--steps", 2]
    command += ["--network", "small", "--weights", weights, "--size", 8, "-o", tmp_path / "o", "--dry-run"]
    for option, rows in (None, ["erm", "probe"]), ("--no-probe", ["erm"]), ("--features=frozen", ["erm"]):
        code, out, _ = domainwise(*command, *filter(None, [option]))
        assert (code, sorted(line.split()[1] for line in out.splitlines()[:-1])) == (0, rows)
    code, _, said = domainwise(*command, "--features=frozen", "--set", "augment=flip")
    assert code == 2
    assert "frozen features are computed once" in said


def test_a_named_benchmark_is_compared_with_what_was_asked_for(weights: Path, tmp_path: Path) -> None:
    settings = resolve(given={"network": "small", "weights": weights})
    own = with_probe(parse("erm"), DATA, settings)
    assert [spec.name for spec in own] == ["erm", "probe"]
    assert [spec.name for spec in with_probe(own, DATA, settings)] == ["erm", "probe"]
    assert [spec.name for spec in with_probe(parse("erm"), replace(DATA, name="pacs"), settings)] == ["erm"]


def test_a_comparison_with_its_probe_is_one_table(weights: Path, tmp_path: Path) -> None:
    given: dict[str, Any] = {"network": "small", "weights": weights, "steps": 4, "batch": 8, "seeds": 1}
    results = dw.compare(DATA, "erm", **given, targets="c", output=tmp_path / "o", device="cpu", progress=False)
    assert not results.troubled
    assert [line.split()[0] for line in results.table().splitlines()[2:4]] == ["erm", "probe"]


def test_a_learning_rate_for_all_is_a_probes_where_nothing_else_is_compared() -> None:
    settings = resolve(given={"lr": 0.5})
    beside = plan(DATA, parse("erm,probe"), [("c",)], [0], settings)
    (alone,) = plan(DATA, parse("probe"), [("c",)], [0], settings)
    written = plan(DATA, parse("erm,probe(lr=0.2)"), [("c",)], [0], settings)[1]
    assert [one.hyperparameters["lr"] for one in (*beside, alone, written)] == [0.5, FROZEN["lr"], 0.5, 0.2]


def test_a_probe_is_trained_to_its_end_where_others_stop_early_unless_steps_are_given() -> None:
    early = {"batch": 8, "steps": 100, "evaluate_every": 25, "select_every": 25}
    chosen = replace(resolve(), **early, origins={**resolve().origins, **dict.fromkeys(early, "auto")})
    given = resolve(given={"steps": 60})
    probes = [of_algorithm(one, "probe") for one in (chosen, given)]
    assert [(one.steps, one.evaluate_every, one.select_every, one.batch) for one in probes] == [
        (300, 30, 30, 32),
        (60, 6, 6, 32),
    ]


def test_of_a_table_the_columns_are_the_features(tmp_path: Path) -> None:
    random = np.random.RandomState(0)
    data = dw.domains({n: (random.randn(40, 5).astype(np.float32), np.arange(40) % 2) for n in "abc"}, name="table")
    whole, probe = plan(data, parse("erm,probe"), [("c",)], [0], resolve(given={"steps": 4}))
    assert (whole.network, probe.network, probe.features) == ("mlp", "linear", "trained")
    (erm,) = plan(data, parse("erm"), [("c",)], [0], resolve(given={"features": "frozen"}))
    assert erm.network == "linear"
    with pytest.raises(InputError, match="linear network"):
        plan(data, parse("erm"), [("c",)], [0], resolve(given={"features": "frozen", "network": "mlp"}))
    run(probe, tmp_path / "o", data=data, snapshots=0)
    assert len(dw.load(tmp_path / "o").predict(data["c"].images)) == 40
