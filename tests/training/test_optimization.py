"""Other outer optimizers, schedules, clipping and an ERM that comes first are settings of any algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_data import stripes
from made_trials import Killed, die, remains, run, trial
from torch import nn

import domainwise as dw
from domainwise.acceleration.cuda_graph import updater
from domainwise.acceleration.recorders import Tapes
from domainwise.algorithms import Algorithm, create, specs_of
from domainwise.algorithms._outer import Outer
from domainwise.experiment.optimization import optimizer_of, schedule_of, text_of
from domainwise.experiment.settings import of_algorithm, resolve
from domainwise.training.plan import plan
from domainwise.training.suited_settings import suited

UPDATES = 6


def trained(algorithm: Algorithm, outer: Outer, updates: int = UPDATES) -> list[torch.Tensor]:
    """The parameters after some updates of an algorithm on batches that are the same every time."""
    torch.manual_seed(0)
    net = dw.Network(nn.Linear(5, 4), nn.Linear(4, 3))
    algorithm.outer_settings = outer  # type: ignore[misc]
    algorithm.setup(net, seed=0)
    for number in range(updates):
        algorithm.update(batches(number))
    return [p.detach().clone() for p in net.parameters()]


def batches(number: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(number)
    return [(torch.randn(8, 5, generator=generator), torch.randint(3, (8,), generator=generator)) for _ in range(3)]


@pytest.mark.parametrize(
    ("optimizer", "schedule", "clip"),
    [
        ("sgd(momentum=0.9)", "constant", 0.0),
        ("sgd(momentum=0.9, nesterov=True)", "step(every=2, by=0.5)", 0.1),
        ("adamw", "linear(warmup=2)", 1.0),
        ("adam(amsgrad=True)", "linear", 0.0),
    ],
)
def test_erm_steps_as_torch_does_with_its_own_optimizer_scheduler_and_clipping(
    optimizer: str, schedule: str, clip: float
) -> None:
    outer = Outer(optimizer_of(optimizer), schedule_of(schedule), clip, UPDATES)
    own = trained(create("erm", lr=0.05, weight_decay=0.01), outer)

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3))
    made: dict[str, Any] = {
        "sgd(momentum=0.9)": lambda p: torch.optim.SGD(p, 0.05, 0.9, weight_decay=0.01),
        "sgd(momentum=0.9, nesterov=True)": lambda p: torch.optim.SGD(p, 0.05, 0.9, weight_decay=0.01, nesterov=True),
        "adamw": lambda p: torch.optim.AdamW(p, 0.05, weight_decay=0.01),
        "adam(amsgrad=True)": lambda p: torch.optim.Adam(p, 0.05, weight_decay=0.01, amsgrad=True),
    }
    stepped = made[optimizer](net.parameters())
    lambdas = {
        "constant": lambda u: 1.0,
        "step(every=2, by=0.5)": lambda u: 0.5 ** (u // 2),
        "linear(warmup=2)": lambda u: u / 2 if u < 2 else (UPDATES - u) / (UPDATES - 2),
        "linear": lambda u: (UPDATES - u) / UPDATES,
    }
    scheduler = torch.optim.lr_scheduler.LambdaLR(stepped, lambdas[schedule])
    for number in range(UPDATES):
        x, y = (torch.cat(parts) for parts in zip(*batches(number), strict=True))
        stepped.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        if clip:
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        stepped.step()
        scheduler.step()
    for mine, reference in zip(own, net.parameters(), strict=True):
        torch.testing.assert_close(mine, reference.detach())


@pytest.mark.parametrize("name", ["arith", "fish", "mldg", "andmask", "coral", "fishr"])
def test_a_clip_that_stops_everything_stops_every_algorithm(name: str) -> None:
    start = trained(create(name), Outer(), updates=0)
    lr = {"lr": 0.1}
    moved = trained(create(name, **lr), Outer(optimizer_of("sgd")))
    held = trained(create(name, **lr), Outer(optimizer_of("sgd"), clip=1e-9))
    assert not all(torch.equal(a, b) for a, b in zip(start, moved, strict=True))
    torch.testing.assert_close(start, held, atol=1e-8, rtol=0)


def test_texts_are_kept_in_one_way_and_what_they_cannot_say_is_refused() -> None:
    assert text_of(optimizer_of("SGD( momentum = 0.9,nesterov=False )")) == "sgd(momentum=0.9)"
    assert text_of(optimizer_of("adam(amsgrad=False)")) == "adam"
    assert text_of(schedule_of("step(by=0.5, every=3)")) == text_of(schedule_of("step(every=3, by=0.5)"))
    for text, says in {
        "sdg": 'there is no optimizer "sdg": did you mean sgd',
        "sgd(0.9)": "write name",
        "sgd(momentum=1)": "from 0 up, below 1",
        "adam(momentum=0.9)": 'adam has no setting "momentum"',
        "adam(amsgrad=1)": "amsgrad must be True or False",
    }.items():
        with pytest.raises(dw.InputError, match=says):
            optimizer_of(text)
    for text, says in {
        "step(by=2)": "step says after how many updates",
        "linear(warmup=0.5)": "must be a whole number",
    }.items():
        with pytest.raises(dw.InputError, match=says):
            schedule_of(text)


def test_settings_reach_trials_and_enter_an_id_only_where_they_are_not_the_default() -> None:
    data = stripes()
    given: list[dict[str, Any]] = [
        {},
        {"optimizer": "adam", "schedule": "constant", "clip": 0, "erm_updates": 0},
        {"optimizer": "sgd(momentum=.9)", "schedule": "linear"},
    ]
    plain, same, other = (plan(data, specs_of("erm"), [("a",)], [0], resolve(given=one))[0] for one in given)
    assert plain.id == same.id != other.id
    assert "optimizer" not in plain.identity
    assert other.identity["optimizer"] == "sgd(momentum=0.9)"
    with pytest.raises(dw.InputError, match='outer="interpolate" has none: leave clip out'):
        plan(data, specs_of("fish(outer='interpolate')"), [("a",)], [0], resolve(given={"clip": 1}))


@pytest.mark.parametrize("at", [7, 19], ids=["while ERM trains", "while the algorithm trains"])
@pytest.mark.parametrize("name", ["arith(inner_steps=2)", "fishr(anneal=4)"])
def test_a_killed_run_goes_on_exactly(tmp_path: Path, name: str, at: int) -> None:
    given = {"optimizer": "sgd(momentum=0.9)", "schedule": "linear(warmup=3)", "clip": 0.5, "erm_updates": 11}
    one = trial(name, **given)
    run(one, tmp_path / "whole")
    with pytest.raises(Killed):
        run(one, tmp_path / "killed", at=at, then=die)
    assert run(one, tmp_path / "killed") == [f"resumes at step {at - at % 5}"]
    assert remains(tmp_path / "killed") == remains(tmp_path / "whole")


def split_data() -> dw.Domains:
    """Three domains to train on of 30, 20 and 10 rows, one to validate on and one to test on."""
    arrays, splits = {}, {}
    for i, (name, size) in enumerate({"a": 30, "b": 20, "c": 10, "d": 12, "e": 8}.items()):
        random = np.random.RandomState(i)
        labels = random.randint(0, 2, size)
        arrays[name] = (random.rand(size, 3) + labels[:, None], labels)
        splits[name] = [{"d": "val", "e": "test"}.get(name, "train")] * size
    return dw.domains(arrays, classes=["low", "high"], splits=splits)


def test_epochs_are_passes_over_the_rows_that_are_trained_on(tmp_path: Path) -> None:
    about: dict[str, Any] = {"epochs": 3, "batch": 4, "domains_per_step": 2, "schedule": "step(by=0.5)"}
    found = suited(resolve(given=about), split_data())
    assert (found.steps, found.evaluate_every, found.select_every) == (24, 8, 8)  # 60 rows, 8 of them an update
    assert found.schedule == "step(every=8, by=0.5)"
    first = suited(resolve(given={**about, "erm_updates": 5}), split_data())
    assert (first.steps, first.evaluate_every) == (29, 8)
    assert suited(resolve(given={**about, "evaluate_every": 5}), split_data()).evaluate_every == 5
    assert suited(resolve("wilds", given={"steps": 7}), split_data()).steps == 7
    assert suited(resolve(given={"epochs": 2, "batch": 4}), stripes()).steps == 12  # 24 of 30 rows, of two of three
    with pytest.raises(dw.InputError, match="steps=7 and epochs=2 say the same"):
        resolve(given={"steps": 7, "epochs": 2})


def test_fish_moves_a_part_of_the_way_that_its_authors_walk() -> None:
    settings = resolve("fish", benchmark="camelyon17")
    (fish,) = specs_of("fish")
    algorithm = fish.create(settings.given_to_all())
    torch.manual_seed(0)
    net = dw.Network(nn.Linear(5, 4), nn.Linear(4, 3)).double()  # it moves by little
    algorithm.setup(net, seed=0)
    theta = [p.detach().clone() for p in net.parameters()]
    walker = dw.Network(nn.Linear(5, 4), nn.Linear(4, 3)).double()
    walker.load_state_dict(net.state_dict())
    legs = [(x.double(), y) for x, y in batches(0)]
    inner = torch.optim.SGD(walker.parameters(), lr=1e-4, momentum=0.9)
    order = torch.Generator()
    order.set_state(algorithm.order.get_state())
    for i in torch.randperm(3, generator=order).tolist():
        inner.zero_grad()
        nn.functional.cross_entropy(walker(legs[i][0]), legs[i][1]).backward()
        inner.step()
    algorithm.update(legs)
    for moved, start, end in zip(net.parameters(), theta, walker.parameters(), strict=True):
        torch.testing.assert_close(moved - start, 0.01 / 3 * (end - start), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("preset", ["wilds", "fish"])
@pytest.mark.parametrize("benchmark", ["", "camelyon17", "iwildcam", "fmow", "amazon", "civilcomments"])
def test_a_preset_of_wilds_goes_for_erm_and_walks_alike(preset: str, benchmark: str) -> None:
    settings = resolve(preset, benchmark=benchmark, given={"epochs": 2, "erm_updates": 3, "domains_per_step": 2})
    found = {one.algorithm: one for one in plan(split_data(), specs_of("erm,arith"), [("e",)], [0], settings)}
    assert found["arith"].erm_updates == 3
    assert (found["arith"].hyperparameters["outer"] == "interpolate") is (preset == "fish")
    origin = {"fish": "preset fish" if benchmark != "camelyon17" else "benchmark camelyon17"}
    assert found["arith"].origins["inner"] == origin.get(preset, "default")
    assert found["erm"].optimizer == found["arith"].optimizer
    assert of_algorithm(resolve("fish", benchmark="camelyon17"), "erm").erm_updates == 0


def test_erm_comes_first_and_the_walk_begins_where_it_ended(tmp_path: Path) -> None:
    about: dict[str, Any] = {"targets": "a", "seeds": 1, "evaluate_every": 1, "report": False}
    given = {"steps": 8, "lr": 0.01}
    erm = dw.compare(stripes(), "erm", output=tmp_path / "erm", **about, **given).outcomes[0].records()
    walk = dw.compare(stripes(), "fish", output=tmp_path / "w", erm_updates=5, **about, **given).outcomes[0].records()
    losses = [[record["loss"] for record in records] for records in (erm, walk)]
    assert losses[0][:5] == losses[1][:5]
    assert losses[0][6:] != losses[1][6:]
    with pytest.raises(dw.InputError, match="there is only erm: leave erm_updates out"):
        dw.compare(stripes(), "erm", output=tmp_path / "no", erm_updates=3, **about, **given)
    with pytest.raises(dw.InputError, match="erm_updates=8 leaves none of the 8 steps"):
        dw.compare(stripes(), "fish", output=tmp_path / "no", erm_updates=8, **about, **given)


def test_what_was_never_tried_in_a_cuda_graph_runs_without_one() -> None:
    said: list[str] = []
    for text, outer in {"": Outer(), "optimizer and clip": Outer(optimizer_of("sgd"), clip=1.0)}.items():
        algorithm = create("erm")
        algorithm.outer_settings = outer  # type: ignore[misc]
        algorithm.setup(dw.Network(nn.Linear(5, 4), nn.Linear(4, 3)), seed=0)
        made = updater(algorithm, capture=True, say=said.append, recorder=Tapes())
        assert (made == algorithm.update) is bool(text)
    assert said == ["erm runs without a CUDA graph: the setting optimizer and clip was never tried in one"]
