"""How fast images are fed that are five times larger than the memory, and how much memory that takes.

Minibatches of decoded images that are read ahead, and of images that stay in their files, take turns with minibatches
from memory and with the bare decoder, in one process that a control group holds to the memory it is given.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
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

from domainwise.data.batches.feed import Feed, Inputs, Part, batches
from domainwise.data.batches.rows import Chosen
from domainwise.data.decoded.image import image_bytes, in_threads, read_rgb, resized
from domainwise.data.decoded.read_ahead import source_of
from domainwise.data.domains import Domain, Domains
from domainwise.data.sources.open import open_data

SIDE, SEEN, DOMAINS, CLASSES, BATCH, PICTURES = 448, 224, 3, 4, 32, 256
ROW = 3 * SEEN**2  # bytes
IN_MEMORY = 200  # images of each domain that are fed from memory

Rates = dict[str, dict[str, float]]


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


class Peak:
    """Watches how much memory this process has at most while it works."""

    def __enter__(self) -> Peak:
        self.start = self.most = own_memory()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def _watch(self) -> None:
        while not self.ended.wait(0.01):
            self.most = max(self.most, own_memory())

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()


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


def rate(work: Callable[[], int], seconds: float) -> float:
    """Images a second; what was read ahead during another's turn is used up first."""
    for _ in range(3):
        work()
    start, done = time.perf_counter(), 0
    while (now := time.perf_counter()) < start + seconds:
        done += work()
    return done / (now - start)


def measure(folder: Path, cache: Path, seconds: float, turns: int) -> None:
    """Print what was measured as JSON, from within the control group."""
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    decoded, files = (open_data(str(folder), size=SEEN, cache=cache, store=store) for store in ("decoded", "files"))  # type: ignore[arg-type]
    assert source_of(decoded.items[0].images) is not None, "there is so much memory that nothing is read ahead"
    small, rates, peaks = in_memory(decoded), {}, {}
    for what, begin in WORK.items():
        for _ in range(turns):
            for name, data in {"memory": small, "decoded": decoded, "files": files, "decoder": None}.items():
                work = bare(folder) if data is None else begin(data)
                with Peak() as peak:
                    found = rate(work, seconds)
                rates.setdefault(what, {}).setdefault(name, []).append(found)
                peaks[name] = max(peaks.get(name, 0), peak.most)
                del work
    print(json.dumps({"rates": {w: {n: median(r) for n, r in by.items()} for w, by in rates.items()}, "peaks": peaks}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="with room for about 1.3 times what is decoded")
    parser.add_argument("--memory", type=float, default=0.75, help="GB that the process may have, files in memory too")
    parser.add_argument("--times", type=float, default=5.0, help="how many times as large the decoded images are")
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    photos, cache = given.folder / "photos", given.folder / "cache"
    if given.inside:
        measure(photos, cache, given.seconds, given.turns)
        return
    memory = int(given.memory * 1e9)
    if not photos.exists():
        make(photos, int(given.times * memory / ROW))
    for store in ("decoded", "files"):
        open_data(str(photos), size=SEEN, cache=cache, store=store, say=print)  # type: ignore[arg-type]
    forget(given.folder)
    with group(memory) as home:
        enter = None if home is None else lambda: (home / "cgroup.procs").write_text(str(os.getpid())) and None
        command = [sys.executable, __file__, *sys.argv[1:], "--inside"]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, preexec_fn=enter)
        used = 0
        for file in ("memory.max_usage_in_bytes", "memory.peak"):
            with suppress(OSError):
                used = int((home / file).read_text()) if home else 0
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"{'images a second':24}" + "".join(f"{name:>10}" for name in ("memory", "decoder", "decoded", "files")))
    for what, by in found["rates"].items():
        least = min(by["memory"], by["decoder"])
        print(f"{what:24}" + "".join(f"{by[name]:10.0f}" for name in ("memory", "decoder", "decoded", "files")))
        print(f"{'  of the lower':44}" + "".join(f"{by[name] / least:10.2f}" for name in ("decoded", "files")))
    own = {name: f"{size / 1e6:.0f} MB" for name, size in found["peaks"].items()}
    print(f"own memory at most {own}; with files in memory {used / 1e9:.2f} GB of {memory / 1e9:.2f}")


if __name__ == "__main__":
    main()
