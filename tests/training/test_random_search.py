from __future__ import annotations

import numpy as np
import pytest

from domainwise.algorithms import Spec, create, draw, names, parse
from domainwise.experiment.settings import resolve
from domainwise.seeds import seed_hash
from domainwise.training.plan import drawn

PACS = resolve("domainbed", benchmark="pacs")
MNIST = resolve("domainbed", benchmark="rotated_mnist")


def test_the_first_draw_of_the_first_trial_is_the_published_one() -> None:
    # seed_hash(1, 0) in DomainBed's own registry
    found = drawn(Spec("erm"), PACS, 1, 0, "pacs")
    assert found == {
        "lr": 2.7028930742148706e-05,
        "weight_decay": 0.00044832883881609976,
        "batch": 39,
        "dropout": 0.5,
    }
    irm = drawn(Spec("irm"), PACS, 1, 0, "pacs")
    assert (irm["penalty"], irm["anneal"]) == (65030.52212762795, 2)
    mldg = drawn(Spec("mldg"), PACS, 1, 0, "pacs")
    assert (mldg["beta"], mldg["held_out"]) == (5.4211455811356215, 1)


def test_draw_0_is_the_defaults() -> None:
    assert drawn(Spec("irm"), PACS, 0, 0) == {}


def test_draws_depend_on_number_and_trial() -> None:
    values = {drawn(Spec("erm"), PACS, number, seed)["lr"] for number in (1, 2, 3) for seed in (0, 1)}
    assert len(values) == 6


@pytest.mark.parametrize(("settings", "lr", "decay", "batch"), [
    (PACS, (1e-5, 10**-3.5), (1e-6, 1e-2), (8, 45)),
    (MNIST, (10**-4.5, 10**-2.5), (0, 0), (8, 511)),
])  # fmt: skip
def test_draws_stay_in_the_published_ranges(settings, lr, decay, batch) -> None:
    for number in range(1, 60):
        found = drawn(Spec("erm"), settings, number, 0)
        assert lr[0] <= found["lr"] <= lr[1]
        assert decay[0] <= found["weight_decay"] <= decay[1]
        assert batch[0] <= found["batch"] <= batch[1]
        assert found["dropout"] in (0.0, 0.1, 0.5)
        assert drawn(Spec("erm"), settings, number, 0, "domainnet")["batch"] <= batch[1]


def test_arm_takes_8_images_of_a_domain_unless_they_are_small() -> None:
    """As DomainBed's registry has it, where small images come first."""
    for number in range(1, 25):
        small, usual = (drawn(Spec(name), MNIST, number, 0)["batch"] for name in ("arm", "erm"))
        assert small == usual
        assert drawn(Spec("arm"), PACS, number, 0)["batch"] == 8


def test_a_draw_is_seeded_by_the_name_that_the_original_code_has() -> None:
    root = seed_hash(2, 1)
    for name, low in (("hgp", (-5, -3)), ("hutchinson", (-3, -1))):
        expected = np.random.RandomState(seed_hash(root, "penalty_alpha")).uniform(*low)
        assert drawn(Spec(name), PACS, 2, 1)["alpha"] == 10**expected


@pytest.mark.parametrize("name", names())
def test_every_draw_makes_an_algorithm(name: str) -> None:
    (spec,) = parse(name)
    for number in range(1, 10):
        found = drawn(spec, PACS, number, 1)
        assert draw(spec.cls(), seed_hash(number, 1)).items() <= found.items()
        create(name, **{key: value for key, value in found.items() if key not in ("batch", "dropout")})
