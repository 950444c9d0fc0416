from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from domainwise import InputError, Network
from domainwise.algorithms import create
from domainwise.networks.network import build, mnist_cnn, network_source

RGB = (64, 64, 3)


def images(n: int = 2, shape: tuple[int, int, int] = RGB) -> Tensor:
    return torch.randn(n, shape[2], shape[0], shape[1])


def batch_norms(net: nn.Module) -> list[nn.BatchNorm2d]:
    return [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]


@pytest.fixture(scope="module")
def resnet18() -> Network:
    torch.manual_seed(0)
    return build("resnet18", RGB, 7)


@pytest.mark.parametrize(
    ("name", "shape", "width"),
    [
        ("small", (28, 28, 1), 512),
        ("mnist", (28, 28, 2), 128),
        ("resnet18", RGB, 512),
        ("resnet50.a1_in1k", RGB, 2048),
        ("resnet50.v1", RGB, 2048),
        ("vit_tiny_patch16_224", RGB, 192),
        ("vit_tiny_patch16_224", (32, 48, 3), 192),
        ("convnext_atto", RGB, 320),
    ],
)
def test_every_kind_of_network_gives_features_and_logits_that_agree(name: str, shape, width: int) -> None:
    net = build(name, shape, 5).eval()
    x = images(2, shape)
    features = net.features(x)
    assert features.shape == (2, width)
    assert net(x).shape == (2, 5)
    assert torch.equal(net(x), net.logits(features))
    assert isinstance(net.head, nn.Linear)


def test_in_evaluation_a_network_can_see_one_size_of_batches_only_and_answers_the_same(resnet18: Network) -> None:
    net, x = copy.deepcopy(resnet18).eval(), images(5).to(memory_format=torch.channels_last)
    seen: list[tuple[int, bool]] = []
    net.featurizer.register_forward_pre_hook(
        lambda module, inputs: seen.append((len(inputs[0]), inputs[0].is_contiguous(memory_format=torch.channels_last)))
    )
    expected = net(x)
    net.pad_to = 4
    for given in (x[:2], x[:4], x):
        torch.testing.assert_close(net(given), expected[: len(given)])
    net.train()(x[:2])
    assert seen == [(5, True), (4, True), (4, True), (5, True), (2, True)]


def test_arm_sees_its_group_and_not_what_fills_a_batch_up() -> None:
    torch.manual_seed(0)
    arm = create("arm").setup(build("resnet18", RGB, 7, extra_channels=1), seed=0)
    x = images(3)
    expected = arm.predict(x)
    arm.net.inner.pad_to = 8
    torch.testing.assert_close(arm.predict(x), expected)


@pytest.mark.parametrize("name", ["erm", "arith"])
def test_a_backbone_is_trained_by_algorithms_that_walk_or_stay(name: str, resnet18: Network) -> None:
    net = copy.deepcopy(resnet18)
    algorithm = create(name, lr=1e-3).setup(net, seed=0)
    watched = [net.featurizer.conv1.weight, net.featurizer.bn1.weight, net.head.weight]
    before = [p.clone() for p in watched]
    metrics = algorithm.update([(images(), torch.tensor([0, 1])) for _ in range(2)])
    assert torch.isfinite(metrics["loss"])
    assert not any(torch.equal(a, b) for a, b in zip(before, watched, strict=True))


def test_frozen_batch_norm_stays_so_through_every_change_of_mode(resnet18: Network) -> None:
    net = copy.deepcopy(resnet18)
    assert len(batch_norms(net)) == 20
    for change in (lambda: None, net.train, net.eval, net.train, lambda: net.train(False), lambda: net.train(True)):
        change()
        assert not any(norm.training for norm in batch_norms(net))
    assert net.training
    assert net.featurizer.training
    nn.Sequential(net).train()
    assert not any(norm.training for norm in batch_norms(net))


def test_frozen_batch_norm_keeps_its_statistics_and_trains_its_weights(resnet18: Network) -> None:
    net = copy.deepcopy(resnet18)
    buffers = [buffer.clone() for buffer in net.buffers()]
    net(images(4)).square().mean().backward()
    assert all(torch.equal(a, b) for a, b in zip(buffers, net.buffers(), strict=True))
    assert net.featurizer.bn1.weight.grad.abs().sum() > 0
    assert net.featurizer.layer4[1].bn2.bias.grad.abs().sum() > 0


def test_batch_norm_that_is_not_frozen_learns_statistics_in_training_only() -> None:
    net = build("resnet18", RGB, 7, freeze_batch_norm=False)
    mean = net.featurizer.bn1.running_mean.clone()
    net.eval()(images())
    assert torch.equal(mean, net.featurizer.bn1.running_mean)
    net.train()(images())
    assert not torch.equal(mean, net.featurizer.bn1.running_mean)


def test_freezing_and_dropout_leave_the_names_of_the_weights_as_they_are() -> None:
    plain = build("resnet18", RGB, 7, freeze_batch_norm=False)
    keys = list(build("resnet18", RGB, 7, freeze_batch_norm=True, dropout=0.5).state_dict())
    assert keys == list(plain.state_dict())
    assert {key.partition(".")[0] for key in keys} == {"featurizer", "head"}


def test_dropout_is_part_of_the_features_and_of_training_only() -> None:
    net = build("mnist", (28, 28, 1), 10, dropout=0.5)
    x = images(8, (28, 28, 1))
    whole = net.eval().features(x)
    dropped = net.train().features(x)
    kept = dropped != 0
    assert 0.4 < kept.float().mean() < 0.6
    assert torch.allclose(dropped[kept], 2 * whole[kept])  # what is kept makes up for the rest
    with pytest.raises(InputError, match=r"dropout must be 0 or more and below 1, got 1\.0"):
        build("mnist", (28, 28, 1), 10, dropout=1.0)


def test_the_mnist_network_normalises_after_the_relu_and_halves_once() -> None:
    featurizer = mnist_cnn(2, 10).featurizer
    kinds = [type(module).__name__ for module in featurizer]
    assert kinds == ["Conv2d", "ReLU", "GroupNorm"] * 4 + ["AdaptiveAvgPool2d", "Flatten"]
    convolutions = [module for module in featurizer if isinstance(module, nn.Conv2d)]
    assert [(c.in_channels, c.out_channels, c.stride[0]) for c in convolutions] == [
        (2, 64, 1),
        (64, 128, 2),
        (128, 128, 1),
        (128, 128, 1),
    ]
    assert {module.num_groups for module in featurizer if isinstance(module, nn.GroupNorm)} == {8}
    assert featurizer[:-2](torch.zeros(1, 2, 28, 28)).shape == (1, 128, 14, 14)


@pytest.mark.parametrize(
    ("name", "first"),
    [("resnet18", "conv1"), ("vit_tiny_patch16_224", "patch_embed.proj"), ("convnext_atto", "stem.0")],
)
def test_input_channel_i_copies_channel_i_modulo_3(name: str, first: str) -> None:
    torch.manual_seed(1)
    rgb = build(name, RGB, 5).featurizer.get_submodule(first).weight
    torch.manual_seed(1)
    net = build(name, (64, 64, 4), 5, extra_channels=1)
    more = net.featurizer.get_submodule(first).weight
    assert torch.equal(more, rgb[:, [0, 1, 2, 0, 1]])
    assert more.requires_grad
    assert net(torch.zeros(1, 5, 64, 64)).shape == (1, 5)


@pytest.mark.parametrize("name", ["small", "mnist"])
def test_extra_channels_come_on_top_of_those_of_the_images(name: str) -> None:
    net = build(name, (28, 28, 2), 5, extra_channels=1)
    assert net(torch.zeros(2, 3, 28, 28)).shape == (2, 5)


def test_v1_halves_the_image_in_the_first_convolution_of_a_block() -> None:
    def strides(name: str) -> list[tuple[int, int]]:
        featurizer = build(name, RGB, 5).featurizer
        blocks = [featurizer.get_submodule(f"layer{i}.0") for i in (1, 2, 3, 4)]
        return [(block.conv1.stride[0], block.conv2.stride[0]) for block in blocks]

    assert strides("resnet50") == [(1, 1), (1, 2), (1, 2), (1, 2)]
    assert strides("resnet50.v1") == [(1, 1), (2, 1), (2, 1), (2, 1)]


def test_plain_resnets_mean_the_weights_of_the_published_benchmarks() -> None:
    def tag(name: str) -> str:
        return str(build(name, RGB, 5).featurizer.pretrained_cfg["tag"])

    assert tag("resnet18") == tag("resnet18.tv_in1k") == "tv_in1k"
    assert tag("resnet18.a1_in1k") == "a1_in1k"


@pytest.mark.parametrize(
    ("name", "shape", "sentence"),
    [
        ("resent50", RGB, 'no network "resent50": did you mean resnet50'),
        ("smal", RGB, 'no network "smal": did you mean small'),
        ("zzqqzz", RGB, "known: small, mnist, the names in timm.list_models"),
        ("resnet50.tv_in2k", RGB, 'resnet50 has no pretrained weights called "tv_in2k": did you mean tv_in1k'),
        ("resnet18.v1", RGB, "v1 is for resnet50, resnet101, resnet152"),
        ("vit_tiny_patch16_224", (28, 28, 3), "patches of 16 x 16, which do not fill 28 x 28: take images of 32 x 32"),
        ("convnext_atto", (8, 8, 3), "convnext_atto cannot take images of 8 x 8 with 3 channels"),
    ],
)
def test_a_network_that_cannot_be_had_is_a_sentence(name: str, shape, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        build(name, shape, 5)


OWN = """
from torch import nn
from domainwise import Network

def featurizer(channels, classes):
    return nn.Sequential(nn.Conv2d(channels, 6, 3), nn.BatchNorm2d(6), nn.AdaptiveAvgPool2d(1), nn.Flatten())

def whole(channels, classes):
    return Network(featurizer(channels, classes), nn.Linear(6, classes, bias=False), dropout=0.25)

def unpooled(channels, classes):
    return nn.Conv2d(channels, 6, 3)

def miscounted(channels, classes):
    return Network(featurizer(channels, classes), nn.Linear(6, classes + 1))

def grey(channels, classes):
    return featurizer(1, classes)

def broken(channels, classes):
    raise KeyError("width")

def nothing(channels, classes):
    pass
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    file = tmp_path / "my_net.py"
    file.write_text(OWN)
    return file


def test_a_featurizer_of_ones_own_gets_a_head_and_dropout_and_trains_its_batch_norm(own: Path) -> None:
    net = build(f"{own}:featurizer", (16, 16, 3), 4, dropout=0.1, extra_channels=1)
    assert (net.head.in_features, net.head.out_features) == (6, 4)
    assert net.dropout.p == 0.1
    assert net.featurizer[0].in_channels == 4
    assert all(module.training for module in net.modules())


def test_a_whole_network_of_ones_own_stays_as_it_was_made(own: Path) -> None:
    net = build(f"{own}:whole", (16, 16, 3), 4)
    assert net.head.bias is None
    assert net.dropout.p == 0.25
    assert net(torch.zeros(2, 3, 16, 16)).shape == (2, 4)


def test_the_source_of_a_network_changes_with_its_file(own: Path) -> None:
    name = f"{own}:whole"
    before = network_source(name)
    own.write_text(OWN.replace("0.25", "0.5"))
    assert network_source(name) != before
    assert build(name, (16, 16, 3), 4).dropout.p == 0.5
    assert network_source("resnet50") == ""


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        ("featuriser", 'my_net.py has no function "featuriser": did you mean featurizer'),
        ("unpooled", "my_net.py:unpooled must be one vector per image, and are 1 x 6 x 14 x 14"),
        ("miscounted", "must give 4 logits for an image, and gave 1 x 5"),
        ("grey", "my_net.py:grey cannot take images of 16 x 16 with 3 channels"),
        ("broken", r"my_net.py:broken\(3, 4\) failed: KeyError: 'width'"),
        ("nothing", "must return a Network or a featurizer .* returned a NoneType"),
    ],
)
def test_a_mistake_in_ones_own_network_is_a_sentence(own: Path, function: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        build(f"{own}:{function}", (16, 16, 3), 4)


def test_a_file_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no file .*absent\.py"):
        build(f"{tmp_path}/absent.py:build", (16, 16, 3), 4)
