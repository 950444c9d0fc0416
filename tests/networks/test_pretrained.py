"""Finding pretrained weights: a cache made here, hubs that hang or are absent, files that say what they are."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from made_weights import cached, offline_hub
from safetensors.torch import save_file

from domainwise import InputError
from domainwise.networks import pretrained
from domainwise.networks.network import build, check_network
from domainwise.networks.pretrained import at_hand, network_for
from domainwise.networks.torchvision_compat import import_timm
from domainwise.networks.weight_files import weights_sha256


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return offline_hub(tmp_path / "cache", monkeypatch)


@pytest.fixture
def silent(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A hub that takes every connection and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "ENDPOINT", address)
        monkeypatch.setattr(pretrained, "_PATIENCE", 0.3)
        taken: list[socket.socket] = []
        thread = threading.Thread(target=_take, args=(server, taken), daemon=True)
        thread.start()
        yield address
        server.shutdown(socket.SHUT_RDWR)  # which wakes who waits for the next connection
        thread.join()
        for one in taken:
            one.close()


def _take(server: socket.socket, taken: list[socket.socket]) -> None:
    while True:
        try:
            taken.append(server.accept()[0])
        except OSError:
            return


@pytest.mark.parametrize(
    ("device", "there", "expected"),
    [
        ("cpu", ["resnet18.tv_in1k", "resnet50.tv_in1k"], "resnet18"),
        ("cpu", ["resnet50.a1_in1k"], "resnet50.a1_in1k"),
        ("cuda", ["resnet18.tv_in1k", "resnet50.tv_in1k"], "resnet50"),
        ("cuda:1", ["resnet18.tv_in1k"], "resnet18"),
    ],
)
def test_a_network_to_begin_with_is_one_that_suits_the_device_and_lies_on_the_disk(
    cache: Path, device: str, there: list[str], expected: str
) -> None:
    for name in there:
        cached(cache, name)
    assert at_hand(device) == (expected, "weights in the cache")


def test_what_torchvision_has_downloaded_is_taken_if_it_is_whole(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.hub._hub_dir", str(tmp_path))
    tensors = import_timm().create_model("resnet18").state_dict()
    torch.save(tensors, file := tmp_path / "new.pth")
    (tmp_path / "checkpoints").mkdir()
    kept = file.rename(tmp_path / "checkpoints" / f"resnet18-{weights_sha256(file)[:8]}.pth")
    monkeypatch.setitem(pretrained._TORCHVISION, "timm/resnet18.tv_in1k", kept.name)
    assert at_hand("cpu") == ("resnet18", "weights in the cache")
    net = build("resnet18", (32, 32, 3), 2, pretrained=True)
    assert all(torch.equal(value, tensors[key]) for key, value in net.featurizer.state_dict().items())
    kept.write_bytes(kept.read_bytes()[:-1])
    with pytest.raises(InputError, match="could not be downloaded"):
        at_hand("cpu")


def test_without_any_weights_the_reason_is_said(cache: Path) -> None:
    with pytest.raises(InputError, match=r"weights of resnet18 could not be downloaded: HF_HUB_OFFLINE is set"):
        at_hand("cpu")


def test_a_hub_that_hangs_costs_seconds_and_the_cache_stands_in(cache: Path, silent: str) -> None:
    started = time.perf_counter()
    with pytest.raises(InputError, match="the hub cannot be reached from here"):
        at_hand("cuda")
    cached(cache, "resnet18.tv_in1k")
    assert at_hand("cuda") == ("resnet18", "weights in the cache")
    assert time.perf_counter() - started < 5


def test_a_hub_that_answers_and_then_says_nothing_of_the_file_is_not_waited_for(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    class Front(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            if self.path != "/":
                over.wait(60)
            with suppress(OSError):  # nobody may be there any more
                self.send_response(200)
                self.end_headers()

        def log_message(self, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Front)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr(pretrained, "_PATIENCE", 0.3)
    started = time.perf_counter()
    with pytest.raises(InputError, match="the hub cannot be reached from here"):
        at_hand("cpu")
    assert time.perf_counter() - started < 5
    over.set()
    server.shutdown()
    server.server_close()


def resnet(name: str, file: Path, metadata: dict[str, str] | None = None) -> Path:
    save_file(import_timm().create_model(name).state_dict(), file, metadata)
    return file


def test_a_file_of_weights_says_which_network_it_is_for(tmp_path: Path) -> None:
    weights = resnet("resnet18", tmp_path / "model.safetensors")
    assert network_for(weights) == "resnet18"  # its tensors
    (tmp_path / "config.json").write_text(json.dumps({"architecture": "resnet10t"}))
    assert network_for(weights) == "resnet10t"  # timm's file beside it
    for name, expected in {
        "resnet50_v1.safetensors": "resnet50.v1",
        "resnet50_v1.5.safetensors": "resnet50",
        "resnet50-0676ba61.pth": "resnet50",
        "vit_tiny_patch16_224.augreg_in21k.safetensors": "vit_tiny_patch16_224",
    }.items():
        assert network_for(weights.rename(tmp_path / name)) == expected
        (tmp_path / name).rename(weights)
    said = resnet("resnet18", tmp_path / "mine.safetensors", {"architecture": "resnet50", "stride": "v1 (early)"})
    assert network_for(said) == "resnet50.v1"


def test_a_file_that_says_nothing_is_a_sentence(tmp_path: Path) -> None:
    save_file({"weight": torch.zeros(2)}, tmp_path / "mine.safetensors")
    with pytest.raises(InputError, match=r"which network mine\.safetensors is for: name it, as in --network resnet50"):
        network_for(tmp_path / "mine.safetensors")


def test_a_network_is_checked_with_its_weights_before_anything_else(tmp_path: Path, cache: Path) -> None:
    file = resnet("resnet18", tmp_path / "mine.safetensors")
    check_network("resnet18", str(file), 32)
    check_network("small", "none", 16)
    for name, weights, sentence in (
        ("resnet10t", str(file), "does not fit resnet10t"),
        ("resnet18", str(tmp_path / "gone.pth"), "there is no weight file"),
        ("resnet18", "pretrained", "could not be downloaded"),
        ("resnet5O", "none", 'no network "resnet5O"'),
    ):
        with pytest.raises(InputError, match=sentence):
            check_network(name, weights, 32)
