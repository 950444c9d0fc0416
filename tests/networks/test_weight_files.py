"""Weight files, all made here with random numbers: no test asks the hub for anything."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import save_file
from torch import Tensor

from domainwise import InputError
from domainwise.networks import pretrained
from domainwise.networks.network import Network, build
from domainwise.networks.torchvision_compat import import_timm
from domainwise.networks.weight_files import weights_sha256

RGB = (64, 64, 3)
Tensors = dict[str, Tensor]


@pytest.fixture(scope="module")
def imagenet() -> Tensors:
    """A whole ResNet-18 as torchvision would save it: its keys, its classifier, statistics that are not the default."""
    torch.manual_seed(3)
    tensors = import_timm().create_model("resnet18").state_dict()
    return {key: torch.rand_like(value) if "running" in key else value for key, value in tensors.items()}


def saved(tensors: object, file: Path) -> Path:
    if file.suffix == ".safetensors":
        save_file(tensors, file)
    else:
        torch.save(tensors, file)
    return file


def assert_holds(net: Network, tensors: Tensors, *, but: str = "fc.") -> None:
    found = net.featurizer.state_dict()
    kept = {key: value for key, value in tensors.items() if not key.startswith(but)}
    assert list(found) == list(kept)
    assert all(torch.equal(found[key], value) for key, value in kept.items())


@pytest.mark.parametrize("name", ["weights.safetensors", "weights.pth"])
def test_a_local_file_is_loaded_exactly_but_for_its_classifier(name: str, tmp_path: Path, imagenet: Tensors) -> None:
    net = build("resnet18", RGB, 5, weights=saved(imagenet, tmp_path / name))
    assert_holds(net, imagenet)
    assert net.head.out_features == 5


def test_what_a_file_is_called_does_not_matter(tmp_path: Path, imagenet: Tensors) -> None:
    torch_file = saved(imagenet, tmp_path / "a.pth").rename(tmp_path / "model.safetensors")
    assert_holds(build("resnet18", RGB, 5, weights=torch_file), imagenet)
    safe_file = saved(imagenet, tmp_path / "b.safetensors").rename(tmp_path / "model.pth")
    assert_holds(build("resnet18", RGB, 5, weights=safe_file), imagenet)


@pytest.mark.parametrize(
    "wrap", [lambda t: {"state_dict": t, "epoch": 3}, lambda t: {f"module.{k}": v for k, v in t.items()}]
)
def test_what_training_scripts_put_around_weights_is_taken_off(wrap, tmp_path: Path, imagenet: Tensors) -> None:
    assert_holds(build("resnet18", RGB, 5, weights=saved(wrap(imagenet), tmp_path / "weights.pth")), imagenet)


def test_half_precision_in_a_file_becomes_float32_and_counts_of_batches_may_be_missing(
    tmp_path: Path, imagenet
) -> None:
    half = {k: v.half() if v.dim() > 1 else v for k, v in imagenet.items() if not k.endswith("num_batches_tracked")}
    net = build("resnet18", RGB, 5, weights=saved(half, tmp_path / "half.safetensors"))
    assert {p.dtype for p in net.parameters()} == {torch.float32}
    assert torch.equal(net.featurizer.conv1.weight, half["conv1.weight"].float())
    assert torch.equal(net.featurizer.bn1.running_var, half["bn1.running_var"])


def test_weights_of_a_network_that_was_trained_here_start_another_with_other_classes(tmp_path: Path) -> None:
    trained = build("small", (28, 28, 1), 10)
    net = build("small", (28, 28, 1), 3, weights=saved(trained.state_dict(), tmp_path / "model.safetensors"))
    assert_holds(net, trained.featurizer.state_dict())


def test_weights_for_another_image_size_have_their_position_embeddings_resized(tmp_path: Path) -> None:
    tensors = import_timm().create_model("vit_tiny_patch16_224").state_dict()
    net = build("vit_tiny_patch16_224", RGB, 5, weights=saved(tensors, tmp_path / "vit.pth"))
    assert net.featurizer.pos_embed.shape == (1, 1 + 16, 192)
    assert torch.equal(net.featurizer.patch_embed.proj.weight, tensors["patch_embed.proj.weight"])


def test_channels_are_copied_from_the_weights_of_the_file(tmp_path: Path, imagenet: Tensors) -> None:
    net = build("resnet18", (64, 64, 1), 5, weights=saved(imagenet, tmp_path / "weights.pth"))
    assert torch.equal(net.featurizer.conv1.weight, imagenet["conv1.weight"][:, :1])


def test_batch_norm_of_ones_own_network_is_frozen_once_it_has_statistics(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "from torch import nn\n"
        "def build(channels, classes):\n"
        "    return nn.Sequential(nn.BatchNorm2d(channels), nn.AdaptiveAvgPool2d(1), nn.Flatten())\n"
    )
    name = f"{tmp_path / 'net.py'}:build"
    weights = saved(build(name, RGB, 2).featurizer.state_dict(), tmp_path / "own.safetensors")
    assert build(name, RGB, 2).featurizer[0].training
    assert not build(name, RGB, 2, weights=weights).featurizer[0].training
    assert build(name, RGB, 2, weights=weights, freeze_batch_norm=False).featurizer[0].training


def refused(file: Path, name: str = "resnet18") -> str:
    with pytest.raises(InputError) as caught:
        build(name, RGB, 5, weights=file)
    return str(caught.value)


def test_a_file_that_does_not_fit_names_what_is_missing_what_is_too_much_and_what_has_another_shape(
    tmp_path: Path, imagenet: Tensors
) -> None:
    wrong = {k: v for k, v in imagenet.items() if k not in ("bn1.weight", "bn1.bias")}
    wrong |= {"extra.weight": torch.zeros(2), "conv1.weight": torch.zeros(64, 3, 3, 3)}
    assert refused(saved(wrong, tmp_path / "odd.safetensors")) == (
        "odd.safetensors does not fit resnet18: 2 tensors are missing (bn1.weight, bn1.bias); "
        "1 tensor has no place in it (extra.weight); "
        "1 tensor has another shape (conv1.weight is 64x3x3x3 in the file and 64x3x7x7 in resnet18). "
        "Give the file that was made for resnet18, or the --network that this file is for"
    )


def test_a_file_for_another_network_names_only_the_first_few_keys(tmp_path: Path, imagenet: Tensors) -> None:
    sentence = refused(saved(imagenet, tmp_path / "weights.pth"), "vit_tiny_patch16_224")
    assert "vit_tiny_patch16_224 for images of 64 x 64" in sentence
    assert "tensors are missing (cls_token, pos_embed, patch_embed.proj.weight, ...)" in sentence
    assert len(sentence) < 500


class Harmful:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch harmed",)


def test_a_pickle_that_could_run_code_is_refused_and_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "harmful.pth is refused: it holds more than tensors" in refused(saved([Harmful()], tmp_path / "harmful.pth"))
    assert not (tmp_path / "harmed").exists()


def test_other_mistakes_with_a_file_are_sentences_too(tmp_path: Path, imagenet: Tensors) -> None:
    assert "there is no weight file" in refused(tmp_path / "absent.pth")
    assert "that is a folder" in refused(tmp_path)
    (tmp_path / "page.safetensors").write_text("<html>not found</html>")
    assert "neither a safetensors nor a torch file: it starts with b'<html>" in refused(tmp_path / "page.safetensors")
    for name in ("cut.safetensors", "cut.pth"):
        file = saved(imagenet, tmp_path / name)
        file.write_bytes(file.read_bytes()[:100_000])
        assert f"{name} is cut short or damaged" in refused(file)
    assert "list.pth holds no weights" in refused(saved([torch.zeros(2)], tmp_path / "list.pth"))


def test_the_hash_of_a_file_is_that_of_its_bytes_and_is_read_again_only_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "weights.bin"
    file.write_bytes(b"abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert weights_sha256(file) == known
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda *_: pytest.fail("read again"))
        assert weights_sha256(file) == known
    file.write_bytes(b"abcd")
    assert weights_sha256(file) != known
    with pytest.raises(InputError, match="there is no weight file"):
        weights_sha256(tmp_path / "absent")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a hub that does not exist."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    return tmp_path / "cache"


def test_a_hub_that_cannot_be_reached_is_a_sentence_within_seconds(cache: Path) -> None:
    import_timm()
    started = time.perf_counter()
    with pytest.raises(InputError) as caught:
        build("resnet18", RGB, 5, pretrained=True)
    assert time.perf_counter() - started < 10
    assert "resnet18 could not be downloaded: the hub cannot be reached from here" in str(caught.value)
    assert "resnet18.tv_in1k/resolve/main/model.safetensors, bring it here and pass --weights FILE" in str(caught.value)


def test_a_hub_that_never_answers_is_not_waited_for(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretrained, "_PATIENCE", 0.1)
    monkeypatch.setattr("huggingface_hub.utils.get_session", lambda: time.sleep(30))
    started = time.perf_counter()
    with pytest.raises(InputError, match="cannot be reached"):
        build("resnet18", RGB, 5, pretrained=True)
    assert time.perf_counter() - started < 15


def test_offline_mode_does_not_ask_the_hub_at_all(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(pretrained, "hub_answers", lambda address: pytest.fail("asked"))
    with pytest.raises(InputError, match="HF_HUB_OFFLINE is set, and they are not in the cache"):
        build("resnet18", RGB, 5, pretrained=True)


def test_weights_in_the_cache_are_used_without_asking_the_hub(
    cache: Path, monkeypatch: pytest.MonkeyPatch, imagenet: Tensors
) -> None:
    monkeypatch.setattr(pretrained, "hub_answers", lambda address: pytest.fail("asked"))
    repository = cache / "models--timm--resnet18.tv_in1k"
    snapshot = repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    shutil.move(saved(imagenet, cache / "model.safetensors"), snapshot / "model.safetensors")
    assert_holds(build("resnet18", RGB, 5, pretrained=True), imagenet)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("small", "there are no pretrained weights for small: pass a file of your own with --weights"),
        ("resnet50.v1", "the hub has no weights for resnet50.v1: pass --weights FILE, or take resnet50 without .v1"),
        ("resnet10t.untried", 'no pretrained weights called "untried"'),
        ("dpn48b", "the hub has no pretrained weights for dpn48b: pass a file with --weights"),
    ],
)
def test_networks_without_pretrained_weights_say_so(name: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        build(name, RGB, 5, pretrained=True)
