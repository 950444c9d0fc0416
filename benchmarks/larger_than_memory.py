"""How fast images are fed that are five times larger than the memory, and how much memory that takes.

Minibatches of decoded images that are read ahead, and of images that stay in their files, take turns with minibatches
from memory and with the bare decoder; a control group holds each to the memory that is given, files in memory included.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from io import BytesIO
from itertools import cycle
from pathlib import Path
from statistics import median

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from domainwise.data.batches.feed import Feed, batches
from domainwise.data.batches.inputs import Inputs, Part
from domainwise.data.batches.rows import Chosen
from domainwise.data.decoded.image import image_bytes, in_threads, read_rgb, resized
from domainwise.data.decoded.read_ahead import source_of
from domainwise.data.domains import Domain, Domains
from domainwise.data.sources.open import open_data

SIDE, SEEN, DOMAINS, CLASSES, BATCH, PICTURES = 448, 224, 3, 4, 32, 256
ROW = 3 * SEEN**2  # bytes
IN_MEMORY = 200  # images of each domain that are fed from memory


def make(folder: Path, images: int) -> Path:
    """Photographs of noise; their files differ, and of their pixels so many that no cache of a processor holds them."""
    random = np.random.default_rng(0)
    pictures = []
    for _ in range(PICTURES):
        small = Image.fromarray(random.integers(0, 256, (28, 28, 3), dtype=np.uint8))
        small.resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(content := BytesIO(), "JPEG", quality=90)
        pictures.append(content.getvalue())
    for i in range(images):
        home = folder / f"site{i % DOMAINS}" / f"class{i // DOMAINS % CLASSES}"
        home.mkdir(parents=True, exist_ok=True)
        (home / f"{i}.jpg").write_bytes(pictures[i % PICTURES] + i.to_bytes(8, "little"))  # no decoder reads on
    return folder


def forget(folder: Path) -> None:
    """Have the system drop what it keeps of the files in memory, where another control group would pay for it."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            file = os.open(path, os.O_RDONLY)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)


@contextmanager
def group(memory: int) -> Iterator[Path | None]:
    """A control group with so much memory, which the files in memory are part of; None where none can be made."""
    old = Path("/sys/fs/cgroup/memory")
    home = (old if old.is_dir() else old.parent) / f"domainwise-{os.getpid()}"
    try:
        home.mkdir()
    except OSError as error:
        print(f"without a limit: {error}", file=sys.stderr)
        yield None
        return
    try:
        (home / ("memory.limit_in_bytes" if old.is_dir() else "memory.max")).write_text(str(memory))
        yield home
    finally:
        home.rmdir()


def own_memory() -> int:
    """The bytes of this process that are no files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def parts(data: Domains) -> list[Part]:
    rows = [np.random.default_rng(i).permutation(len(domain)) for i, domain in enumerate(data)]
    return [Part(domain, chosen, "cpu") for domain, chosen in zip(data, rows, strict=True)]


def in_memory(data: Domains) -> Domains:
    few = [(domain, slice(None, None, len(domain) // IN_MEMORY)) for domain in data]
    items = [Domain(d.name, np.array(d.images[s]), d.labels[s], shapes=d.shapes[s]) for d, s in few]
    return replace(data, items=tuple(items), home=None)


class Sent(Inputs):
    """What a host does for a GPU, which computes the rest: bring the pixels of a batch together."""

    def training(self, parts: Sequence[Part], chosen: Sequence[Chosen], generator: torch.Generator) -> Tensor:
        return torch.cat([part.images[rows] for part, rows in zip(parts, chosen, strict=True)])

    def plain(self, part: Part, rows: Chosen) -> Tensor:
        return part.evaluation[rows]


def fed(data: Domains, inputs: Inputs) -> Callable[[], int]:
    """A function that draws the minibatches of an update, and says how many images that are."""
    feed = Feed(parts(data), inputs, BATCH, 0)
    return lambda: sum(len(x) for x, _ in feed.draw())  # type: ignore[misc]


def evaluated(data: Domains, inputs: Inputs) -> Callable[[], int]:
    all_parts = parts(data)
    found = (len(x) for part in cycle(all_parts) for x, _ in batches(part, inputs))
    return lambda: next(found)


WORK = {
    "minibatches for a GPU": partial(fed, inputs=Sent("none", SEEN)),
    "evaluation for a GPU": partial(evaluated, inputs=Sent("none", SEEN)),
    "minibatches on a CPU": partial(fed, inputs=Inputs("none", SEEN)),
}


def bare(folder: Path) -> Callable[[], int]:
    """The decoder alone: threads that read a file, decode it and scale it down, and are never out of work."""
    paths = sorted(map(str, folder.rglob("*.jpg")))
    np.random.default_rng(0).shuffle(paths)
    found = in_threads(lambda path: resized(read_rgb(image_bytes(path))[0], (SEEN, SEEN)), cycle(paths))
    return lambda: sum(1 for _, _ in zip(range(DOMAINS * BATCH), found, strict=False))


def measure(mode: str, folder: Path, cache: Path, seconds: float) -> dict[str, dict[str, float]]:
    """Return images a second, those a second of a core, and the bytes that this takes at most, for each work."""
    torch.set_num_threads(1)
    data = None if mode == "decoder" else open_data(str(folder), size=SEEN, cache=cache, store=STORES[mode])  # type: ignore[arg-type]
    data = in_memory(data) if mode == "memory" and data else data
    if mode == "decoded" and data:
        assert source_of(data.items[0].images), "there is so much memory that nothing is read ahead"
    found = {}
    for what, begin in WORK.items():
        work = bare(folder) if data is None else begin(data)
        for _ in range(3):  # what was read ahead before the clock runs is used up
            work()
        start, worked, done, most = time.perf_counter(), time.process_time(), 0, 0
        while (now := time.perf_counter()) < start + seconds:
            done += work()
            most = max(most, own_memory())
        cores = time.process_time() - worked
        found[what] = {"rate": done / (now - start), "of a core": done / cores, "memory": most}
    return found


STORES = {"memory": "decoded", "decoded": "decoded", "files": "files", "decoder": "files"}


def shown(found: dict[str, list[dict[str, dict[str, float]]]]) -> None:
    """Print the medians of all turns, and how they compare with the lower of memory and decoder."""
    print(f"{'':24}" + "".join(f"{mode:>10}" for mode in STORES))
    for what in WORK:
        for of in ("rate", "of a core"):
            rates = {mode: median(turn[what][of] for turn in turns) for mode, turns in found.items()}
            least = min(rates["memory"], rates["decoder"])
            name = what if of == "rate" else "  a second of a core"
            print(f"{name:24}" + "".join(f"{rates[mode]:10.0f}" for mode in STORES))
            print(f"{'    of the lower':24}" + "".join(f"{rates[mode] / least:10.2f}" for mode in STORES))
        most = {mode: max(turn[what]["memory"] for turn in turns) / 1e6 for mode, turns in found.items()}
        print(f"{'  own memory, MB':24}" + "".join(f"{most[mode]:10.0f}" for mode in STORES))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="with room for about 1.3 times what is decoded")
    parser.add_argument("--memory", type=float, default=0.75, help="GB that a process may have, files in memory too")
    parser.add_argument("--times", type=float, default=5.0, help="how many times as large the decoded images are")
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--inside", choices=STORES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    photos, cache = given.folder / "photos", given.folder / "cache"
    if given.inside:
        print(json.dumps(measure(given.inside, photos, cache, given.seconds)))
        return
    memory = int(given.memory * 1e9)
    if not photos.exists():
        make(photos, int(given.times * memory / ROW))
    for store in ("decoded", "files"):
        open_data(str(photos), size=SEEN, cache=cache, store=store, say=print)  # type: ignore[arg-type]
    found: dict[str, list[dict[str, dict[str, float]]]] = {mode: [] for mode in STORES}
    for mode in [*STORES] * given.turns:
        forget(given.folder)
        with group(memory) as home:
            enter = (
                None
                if home is None
                else lambda home=home: (home / "cgroup.procs").write_text(str(os.getpid())) and None
            )
            command = [sys.executable, __file__, *sys.argv[1:], "--inside", mode]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, preexec_fn=enter)
        found[mode].append(json.loads(done.stdout.splitlines()[-1]))
    shown(found)


if __name__ == "__main__":
    main()
