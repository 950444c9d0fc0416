"""What features computed once cost over a bare inference loop, and how long a comparison on them takes.

The loop and the tool take turns within one process, on the same images; the medians are compared.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

import domainwise as dw
from domainwise.algorithms import create, parse
from domainwise.data.domains import Domains
from domainwise.experiment.settings import resolve
from domainwise.networks.network import Network, build
from domainwise.training import frozen
from domainwise.training.plan import plan
from domainwise.training.run_options import RunOptions

SITES, CLASSES, BATCH = 4, 5, 32
MEAN, STD = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
HEADS = ["erm", "irm", "arith"]


def photos(count: int, side: int, seed: int = 0) -> Domains:
    """Noise of the size of photos: what a network computes takes the same time whatever it sees."""
    random, each = np.random.RandomState(seed), count // SITES
    shape = each, side, side, 3
    arrays = {f"site{i}": (random.randint(0, 256, shape, np.uint8), np.arange(each) % CLASSES) for i in range(SITES)}
    return dw.domains(arrays, name="noise")


def bare(net: Network, data: Domains) -> None:
    """The loop that one would write."""
    with torch.inference_mode():
        for domain in data:
            for start in range(0, len(domain), BATCH):
                x = torch.from_numpy(domain.images[start : start + BATCH]).float() / 255
                net.featurizer(((x - MEAN) / STD).permute(0, 3, 1, 2).contiguous()).numpy()


def ours(data: Domains, given: dict[str, object], cache: Path) -> None:
    """All that a first trial waits for: computed, written with checksums and mapped."""
    (one,) = plan(data, parse("erm"), [("site0",)], [0], resolve(given=given, device="cpu"))
    frozen._features.clear()
    frozen.frozen(one, data, create("erm"), RunOptions(cache=str(cache)), lambda sentence: None)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--images", type=int, default=64, help="in every turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--updates", type=int, default=300, help="of every head")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shape = options.side, options.side, 3
        net = build(options.network, shape, CLASSES).eval()
        torch.save(net.featurizer.state_dict(), folder / "weights.pt")
        given: dict[str, object] = {"network": options.network, "weights": folder / "weights.pt", "features": "frozen"}
        given |= {"input_size": options.side, "steps": options.updates}
        ours(photos(CLASSES * SITES, options.side), given, folder)  # builds the network and hashes it, once
        loop, tool = [], []
        for turn in range(options.turns):
            data = photos(options.images, options.side, turn + 1)
            loop.append(seconds(lambda data=data: bare(net, data)))  # type: ignore[misc]
            tool.append(seconds(lambda data=data: ours(data, given, folder)))  # type: ignore[misc]
        each = [1000 * median(found) / options.images for found in (loop, tool)]
        print(f"{options.network} at {options.side}: loop {each[0]:.1f} ms an image, tool {each[1]:.1f}, ", end="")
        print(f"ratio {median(b / a for a, b in zip(loop, tool, strict=True)):.2f} of {options.turns} turns")
        how: dict[str, Any] = {"output": folder / "results", "cache": folder, "device": "cpu", **given}
        took, processor = seconds(partial(dw.compare, data, HEADS, seeds=3, **how)), sum(os.times()[2:4])
        trials = f"{SITES * 3 * len(HEADS)} trials of {options.updates} updates on these features"
        print(f"{trials}: {took:.1f} s, of which their processes computed {processor:.1f} s")


if __name__ == "__main__":
    main()
