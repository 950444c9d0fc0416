"""What algorithms are given: published defaults and draws, and a sentence for every mistake."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from domainwise import InputError, Network
from domainwise.algorithms import choice, create, draw, hypers, log10, parse, uniform, whole
from domainwise.seeds import seed_hash

# name: hyperparameter: default, draw, the name DomainBed seeds the draw with
PUBLISHED = {
    "irm": {
        "penalty": (100.0, log10(-1, 5), "irm_lambda"),
        "anneal": (500, whole(log10(0, 4)), "irm_penalty_anneal_iters"),
    },
    "vrex": {
        "penalty": (10.0, log10(-1, 5), "vrex_lambda"),
        "anneal": (500, whole(log10(0, 4)), "vrex_penalty_anneal_iters"),
    },
    "coral": {"penalty": (1.0, log10(-1, 1), "mmd_gamma")},
    "mmd": {"penalty": (1.0, log10(-1, 1), "mmd_gamma")},
    "causirl": {"penalty": (1.0, log10(-1, 1), "mmd_gamma"), "distance": ("coral", None, None)},
    "rsc": {
        "feature_drop": (1 / 3, uniform(0, 0.5), "rsc_f_drop_factor"),
        "batch_drop": (1 / 3, uniform(0, 0.5), "rsc_b_drop_factor"),
    },
    "arm": {},
    "andmask": {"tau": (1.0, uniform(0.5, 1), "tau")},
    "sandmask": {"tau": (0.5, uniform(0, 1), "tau"), "k": (10.0, log10(-3, 5), "k")},
    "mldg": {
        "beta": (1.0, log10(-1, 1), "mldg_beta"),
        "held_out": (1, choice(1, 2), "n_meta_test"),
        "pairs": ("cyclic", None, None),
    },
    "fishr": {
        "penalty": (1000.0, log10(1, 4), "lambda"),
        "anneal": (1500, whole(uniform(0, 5000)), "penalty_anneal_iters"),
        "ema": (0.95, uniform(0.9, 0.99), "ema"),
    },
    "hgp": {"alpha": (1e-4, log10(-5, -3), "penalty_alpha"), "beta": (5e-3, log10(-3, -1), "penalty_beta")},
    "hutchinson": {
        "alpha": (1e-3, log10(-3, -1), "penalty_alpha"),
        "beta": (5e-3, log10(-4, -2), "penalty_beta"),
        "draws": (0, None, None),
    },
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_defaults_and_draws_are_the_published_ones(name: str) -> None:
    ours = {
        key: (field.default, repr(about.draw), about.domainbed)
        for key, (field, about) in hypers(type(create(name))).items()
        if key not in ("lr", "weight_decay")
    }
    assert ours == {key: (default, repr(drawn), named) for key, (default, drawn, named) in PUBLISHED[name].items()}


def test_draws_are_domainbeds_own_to_the_last_digit() -> None:
    seed = seed_hash(1, 0)
    assert draw(type(create("irm")), seed) == {"penalty": 65030.52212762795, "anneal": 2}
    assert draw(type(create("mldg")), seed) == {"beta": 5.4211455811356215, "held_out": 1}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("irm(penalty=-1)", "penalty must be 0 or more, got -1"),
        ("irm(anneal=-1)", "anneal must be 0 or more, got -1"),
        ("vrex(anneal=1.5)", "anneal must be a whole number"),
        ("coral(penalty=-0.1)", "penalty must be 0 or more"),
        ("mmd(penalty=-0.1)", "penalty must be 0 or more"),
        ("causirl(distance='euclid')", "distance must be one of coral, mmd"),
        ("rsc(feature_drop=1.0)", "feature_drop must be 0 or more and below 1, got 1.0"),
        ("rsc(batch_drop=-0.1)", "batch_drop must be 0 or more and below 1"),
        ("andmask(tau=1.2)", "tau must be from 0 to 1, got 1.2"),
        ("sandmask(tau=-0.1)", "tau must be from 0 to 1, got -0.1"),
        ("sandmask(k=0)", "k must be above 0"),
        ("mldg(held_out=0)", "held_out must be 1 or more"),
        ("mldg(pairs='all')", "pairs must be one of cyclic, split"),
        ("fishr(ema=1.0)", "ema must be 0 or more and below 1"),
        ("hgp(alpha=-1.0)", "alpha must be 0 or more"),
        ("hutchinson(draws=-1)", "draws must be 0 or more"),
    ],
)
def test_a_hyperparameter_out_of_range_is_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        create(text)
    assert sentence in str(error.value)


def network(channels: int = 1, head: nn.Module | None = None) -> Network:
    featurizer = nn.Sequential(nn.Conv2d(channels, 2, 3), nn.Flatten())
    return Network(featurizer, nn.Linear(18, 3) if head is None else head)


def batches(*sizes: int, channels: int = 1) -> list[tuple[Tensor, Tensor]]:
    return [(torch.randn(size, channels, 5, 5), torch.randint(3, (size,))) for size in sizes]


@pytest.mark.parametrize("name", ["coral", "mmd", "causirl", "rsc", "fishr", "hgp", "hutchinson"])
def test_a_network_in_one_piece_is_a_sentence_where_its_halves_are_needed(name: str) -> None:
    whole_net = nn.Sequential(nn.Conv2d(2, 2, 3), nn.Flatten(), nn.Linear(18, 3))
    with pytest.raises(InputError, match=rf"{name} needs a network with features\(\), and Sequential has none"):
        create(name).setup(whole_net)


@pytest.mark.parametrize("name", ["erm", "arith", "irm", "vrex", "andmask", "sandmask", "mldg", "arm"])
def test_a_network_in_one_piece_is_enough_for_the_others(name: str) -> None:
    algorithm = create(name)
    whole_net = nn.Sequential(nn.Conv2d(1 + algorithm.extra_channels, 2, 3), nn.Flatten(), nn.Linear(18, 3))
    assert algorithm.setup(whole_net).update(batches(4, 4))["loss"].isfinite()


@pytest.mark.parametrize("name", ["fishr", "hgp", "hutchinson"])
def test_a_head_that_is_not_linear_is_a_sentence_where_the_closed_form_needs_it(name: str) -> None:
    head = nn.Sequential(nn.Linear(18, 8), nn.ReLU(), nn.Linear(8, 3))
    with pytest.raises(InputError, match=rf"{name} needs a network whose head is a nn.Linear, .* is a Sequential"):
        create(name).setup(network(head=head))


@pytest.mark.parametrize(
    ("text", "data", "sentence"),
    [
        ("erm", [], "needs one minibatch per source domain, got none"),
        ("erm", [torch.randn(2, 1, 5, 5)], "domain 0 must be a pair of tensors"),
        ("erm", [*batches(4), (torch.randn(4, 1, 5, 5), torch.zeros(3).long())], "domain 1 has 4 inputs and 3 labels"),
        ("erm", batches(4, 0), "domain 1 has 0 inputs and 0 labels"),
        (
            "irm",
            [*batches(4), (torch.randn(4, 1, 5, 5), torch.zeros(4, device="meta").long())],
            "the labels of domain 1 are on meta and the network on cpu: move them",
        ),
        ("arith(inner_steps=2)", batches(4, 4), "domain 0 must come as a list of 2 minibatches"),
        ("arith(inner_steps=2)", [batches(4, 4), batches(4)], "domain 1 must come as a list of 2 minibatches"),
        ("coral", batches(4, 1), "at least 2 samples of a domain, got 1"),
        ("irm", batches(4, 1), "only one sample"),
        ("mldg(held_out=3)", batches(4, 4, 4), "held_out=3 of 3 source domains leaves none to learn from"),
        ("mldg(held_out=2, pairs='split')", batches(4, 4), "held_out=2 of 2 source domains leaves none"),
    ],
)
def test_minibatches_that_cannot_be_used_are_a_sentence_and_change_nothing(text: str, data, sentence: str) -> None:
    algorithm = create(text).setup(network())
    before = [p.detach().clone() for p in algorithm.net.parameters()]
    with pytest.raises(InputError) as error:
        algorithm.update(data)
    assert sentence in str(error.value)
    assert algorithm.updates == 0
    assert all(torch.equal(p, q) for p, q in zip(before, algorithm.net.parameters(), strict=True))


def test_fishr_wants_the_same_domains_at_every_update() -> None:
    fishr = create("fishr").setup(network())
    fishr.update(batches(4, 4, 4))
    with pytest.raises(InputError, match="for each of 3 domains, and this update has 2"):
        fishr.update(batches(4, 4))


@pytest.mark.parametrize(
    ("net", "sentence"),
    [
        (Network(nn.Flatten(), nn.Linear(25, 3)), "no convolution"),
        (network(channels=1), r"must take channels \+ 1, and takes only 1"),
    ],
)
def test_a_network_without_room_for_the_context_is_a_sentence(net: Network, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        create("arm").setup(net)


@pytest.mark.parametrize("inputs", [torch.randn(4, 25), torch.randn(4, 3, 5, 5)], ids=["vectors", "other channels"])
def test_arm_takes_images_with_one_channel_fewer_than_its_network(inputs: Tensor) -> None:
    arm = create("arm").setup(network(channels=3))
    for call in (lambda: arm.update([(inputs, torch.zeros(4).long())]), lambda: arm.predict(inputs)):
        with pytest.raises(InputError, match=r"images of shape \(samples, 2, height, width\)"):
            call()


def test_arm_predicts_in_groups_of_the_training_size_where_they_fit() -> None:
    arm = create("arm", lr=1e-2).setup(network(channels=2), seed=0)
    for step in range(3):
        torch.manual_seed(step)
        arm.update(batches(4, 4))
    torch.manual_seed(9)
    x = torch.randn(9, 1, 5, 5)
    torch.testing.assert_close(arm.predict(x[:8]), torch.cat([arm.predict(x[:4]), arm.predict(x[4:8])]))
    assert not torch.allclose(arm.predict(x)[:4], arm.predict(x[:4]))


def test_arm_does_not_touch_the_global_random_numbers() -> None:
    net, state = network(channels=2), torch.get_rng_state()
    create("arm").setup(net, seed=0)
    assert torch.equal(state, torch.get_rng_state())


def test_hutchinsons_draws_are_not_minibatches() -> None:
    (spec,) = parse("hutchinson(draws=20)")
    assert (spec.create().draws, spec.create().fresh) == (20, 1)
    assert create("arith", inner_steps=3).draws == create("arith", inner_steps=3).fresh == 3


def test_the_penalty_is_among_the_metrics_and_its_weight_in_the_loss() -> None:
    data, losses = batches(6, 6, 6), []
    for penalty in (0.0, 2.0):
        torch.manual_seed(0)
        metrics = create("coral", penalty=penalty).setup(network()).update(data)
        losses.append(metrics["loss"])
        assert set(metrics) == {"loss", "penalty"}
    torch.testing.assert_close(losses[1] - losses[0], 2 * metrics["penalty"])
