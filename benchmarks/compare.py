"""Ours beside the ways people train today, in one run.

``python benchmarks/compare.py --folder PACS --out result.json``

(a) the incumbent's way: a new network with weights read from disk for every step of Fish, one DataLoader of Pillow
    images per domain, float32; and ERM with the same loaders
(b) a tuned loop: in place, bfloat16, channels last, foreach and fused optimizers, but neither compiled nor captured
(c) the limit: forward and backward of the same network on batches of 256, per 96 images

All on one GPU, ResNet-50, three domains with 32 images each. Weights are random: speed does not depend on them.
"""

from __future__ import annotations

import argparse
import copy
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, RandomSampler

from domainwise.acceleration.benchmark import Setup, measure
from domainwise.acceleration.cuda_graph import Fast, prepare
from domainwise.acceleration.shared_device import arithmetic_units
from domainwise.algorithms import Spec
from domainwise.networks.network import build
from domainwise.networks.torchvision_compat import torchvision_ready

CLASSES, BATCH, DOMAINS = 7, 32, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="image folders, one per domain, such as PACS")
    parser.add_argument("--out", type=Path, help="where to write the numbers as JSON")
    parser.add_argument("--workers", type=int, default=8, help="of each DataLoader of (a)")
    arguments = parser.parse_args()
    rows: dict[str, float] = {}
    for name, value in chain(ours(), limit(), incumbent(arguments.folder, arguments.workers)):
        rows[name] = value
        print(f"{name:48} {value:8.2f} ms", flush=True)
    for name in ("(a) incumbent Fish, newest, all-in", "(a) incumbent Fish, one network, all-in"):
        print(f"{name}, over ours: {rows[name] / rows['ours: fish, all-in']:.1f}x")
    print(f"(b) over ours: {rows['(b) tuned eager arith'] / rows['ours: arith, captured']:.1f}x")
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1))


Rows = Iterator[tuple[str, float]]


def incumbent(folder: Path, workers: int) -> Rows:
    """Fish rebuilds its network at every step; the newest version builds torchvision's, then timm's instead."""
    torchvision_ready()
    import timm
    from torchvision import datasets, models, transforms

    recipe = transforms.Compose(
        [
            transforms.RandomResizedCrop(224, scale=(0.7, 1.0)),
            transforms.RandomHorizontalFlip(),
            transforms.ColorJitter(0.3, 0.3, 0.3, 0.3),
            transforms.RandomGrayscale(),
            transforms.ToTensor(),
            transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )

    def forever(domain: Path) -> Iterator[list[torch.Tensor]]:
        images = datasets.ImageFolder(str(domain), recipe)
        sampler = RandomSampler(images, replacement=True, num_samples=10**7)
        yield from DataLoader(images, BATCH, sampler=sampler, num_workers=workers)

    loaders = [forever(domain) for domain in sorted(p for p in folder.iterdir() if p.is_dir())[:DOMAINS]]
    with tempfile.TemporaryDirectory() as place:
        weights = Path(place) / "resnet50.pth"
        torch.save(models.resnet50().state_dict(), weights)

        def rebuilt(newest: bool = False) -> nn.Module:
            net = models.resnet50()
            net.load_state_dict(torch.load(weights, weights_only=True))
            if newest:
                net = timm.create_model("resnet50", pretrained=True, pretrained_cfg_overlay={"file": str(weights)})
            net.fc = nn.Linear(2048, CLASSES)
            net.cuda().train()
            for module in net.modules():
                if isinstance(module, nn.BatchNorm2d):
                    module.eval()
            return net

        def draw() -> list[tuple[torch.Tensor, torch.Tensor]]:
            return [(x.cuda(), y.cuda()) for x, y in (next(loader) for loader in loaders)]

        yield "(a) incumbent ERM, all-in", _timed(_erm(rebuilt(), draw), 20)
        yield "(a) incumbent Fish, one network, all-in", _timed(_fish(rebuilt, draw), 10)
        yield "(a) incumbent Fish, newest, all-in", _timed(_fish(lambda: rebuilt(newest=True), draw), 10)


def _fish(rebuilt: Callable[[], nn.Module], draw: Callable[[], list]) -> Callable[[], None]:
    net, memory = rebuilt(), None

    def update() -> None:
        nonlocal memory
        clone = rebuilt()
        clone.load_state_dict(copy.deepcopy(net.state_dict()))
        inner = torch.optim.Adam(clone.parameters(), lr=5e-5)
        if memory is not None:
            inner.load_state_dict(memory)
        for x, y in draw():
            loss = F.cross_entropy(clone(x), y)
            inner.zero_grad()
            loss.backward()
            inner.step()
        loss.item()
        memory = inner.state_dict()
        there, here = clone.state_dict(), net.state_dict()
        mixed = {k: here[k] + 0.5 * (there[k] - here[k]) if here[k].is_floating_point() else here[k] for k in here}
        net.load_state_dict(copy.deepcopy(mixed))

    return update


def _erm(net: nn.Module, draw: Callable[[], list]) -> Callable[[], None]:
    adam = torch.optim.Adam(net.parameters(), lr=5e-5)

    def update() -> None:
        batches = draw()
        loss = F.cross_entropy(net(torch.cat([x for x, _ in batches])), torch.cat([y for _, y in batches]))
        adam.zero_grad()
        loss.backward()
        adam.step()
        loss.item()

    return update


def limit() -> Rows:
    batch = 256
    with arithmetic_units("bf16"):
        net = build("resnet50", (224, 224, 3), CLASSES).cuda()
        prepare(net, precision="bf16", fast=Fast())
        x = torch.randn(batch, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
        y = torch.randint(CLASSES, (batch,), device="cuda")
        params = list(net.parameters())
        ms = _timed(lambda: torch.autograd.grad(F.cross_entropy(net(x), y), params), 20)
    yield "(c) limit, per 96 images", ms * 96 / batch


def ours() -> Rows:
    eager = Setup(device="cuda", precision="bf16", fast=Fast(False, False))
    fast = Setup(device="cuda", precision="bf16")
    yield "(b) tuned eager arith", measure(Spec("arith"), eager).update_ms
    for name in ("erm", "fish", "arith"):
        timing = measure(Spec(name), fast)
        yield f"ours: {name}, captured", timing.update_ms
        yield f"ours: {name}, all-in", timing.all_in_ms


def _timed(update: Callable[[], object], times: int) -> float:
    for _ in range(4):
        update()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        update()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start) / times


if __name__ == "__main__":
    main()
