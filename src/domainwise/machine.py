"""Know this computer: cores, memory, disk, devices, versions, places of files; write sizes and durations in words."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import domainwise
from domainwise._version import __version__
from domainwise.errors import InputError, is_whole
from domainwise.files import make_folder, replacing_text, user_cache

MOST = 256  # threads or processes that any machine can start; OpenMP ends a process that asks for a million


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


OWN_NETWORKS = ("small", "mnist", "mlp", "linear", "cnn1d", "words")  # without pretrained weights, and small


def threads_for(network: str) -> int:
    """Return how many threads train a network best: one where it is so small that several would mostly wait."""
    return 1 if network in OWN_NETWORKS else cores()


def processes_for(device: str, threads: int) -> int:
    """Return how many trials run side by side, one on a GPU, and on a CPU as many as its cores allow."""
    return max(1, cores() // threads) if device == "cpu" else 1


def total_memory() -> float:
    """Return the bytes of memory that this process may use: a container may have less than its machine.

    Infinity where the system does not say.
    """
    limits = [float("inf")]
    with suppress(AttributeError, ValueError, OSError):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for file in _memory_limits():
        with suppress(ValueError, OSError):  # it says "max" where there is none
            limits.append(int(file.read_text(encoding="ascii")))
    return min(limits)


def _memory_limits(groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> Iterator[Path]:
    """Files that may say how much memory the control groups of this process have, of both versions."""
    with suppress(OSError):
        for line in groups.read_text(encoding="utf-8").splitlines():
            _, controllers, own = line.split(":", 2)
            version1 = "memory" in controllers.split(",")
            if version1 or not controllers:
                top = root / "memory" if version1 else root
                inside = top / own.lstrip("/")
                for folder in (inside, *inside.parents):
                    if folder.is_relative_to(top):
                        yield folder / ("memory.limit_in_bytes" if version1 else "memory.max")


def free_disk(folder: Path) -> int:
    """Return the free bytes on the disk that a folder is on, or will be once it is made."""
    there = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    return shutil.disk_usage(there).free


def human_size(count: float) -> str:
    """Write a number of bytes as a person reads it: "0.2 MB", "94.1 MB", "1.5 GB"."""
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"


def human_duration(seconds: float) -> str:
    """Write a time as a person reads it, with two digits or so: "3.2 s", "116 s", "14 min", "2.5 h"."""
    unit, size = next(((unit, size) for unit, size in (("h", 3600), ("min", 60)) if seconds >= 2 * size), ("s", 1))
    amount = seconds / size
    return f"{amount:.0f} {unit}" if amount >= 10 else f"{round(amount, 1):g} {unit}"


@cache
def processor_name() -> str:
    """Return the name of the processor, where the system tells; other processors round differently."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text(encoding="utf-8", errors="replace").splitlines() if about.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Return the versions of all that numbers depend on."""
    import numpy
    import torch

    return {
        "domainwise": __version__,
        "torch": str(torch.__version__),
        "numpy": numpy.__version__,
        "python": platform.python_version(),
    }


def versions_and_commit() -> dict[str, str]:
    """Return the versions behind a result. A checkpoint goes without the commit: most of them change no number."""
    return {**versions(), **({"commit": COMMIT} if COMMIT else {})}


def choose_device(text: str, *, elsewhere: bool = False) -> str:
    """Return the device that a text names, if this machine has it; "auto" is a GPU if there is one.

    With ``elsewhere`` it is a device of other machines, and this one need not have it.
    """
    import torch

    if not isinstance(text, str | torch.device):
        raise InputError(f"a device is named by a text, such as cpu, cuda, cuda:1 or auto, got {text!r}")
    text = str(text)
    if text == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(text)
    except RuntimeError as error:
        raise InputError(f'"{text}" is not a device: use cpu, cuda, cuda:1 or auto') from error
    if device.type not in ("cpu", "cuda"):
        raise InputError(f'domainwise does not run on "{device.type}": use cpu, cuda, cuda:1 or auto')
    if device.type == "cpu" and device.index is not None:
        raise InputError(f'"{text}" is not a device, as a CPU is one however many cores it has: use cpu')
    if elsewhere or device.type == "cpu":
        return text
    if not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count():
        raise InputError(f'"{text}" is not here: torch sees {torch.cuda.device_count()} GPUs; use the device cpu')
    return text


def check_count(what: str, count: int) -> int:
    """Return a number of threads or processes, or refuse one that would end the machine's work."""
    most = max(MOST, 4 * cores())
    if not is_whole(count) or not 1 <= count <= most:
        raise InputError(f"{what} must be a whole number from 1 up to {most} on this machine, got {count!r}")
    return int(count)


ROOT = Path(__file__).parents[2]  # of a checkout: above src; where it is installed this is no checkout


def commit(root: Path = ROOT) -> str | None:
    """Return the commit that is checked out, or $DOMAINWISE_COMMIT, for a copy without history."""
    if told := os.environ.get("DOMAINWISE_COMMIT", "").strip():
        return told[:100]
    with suppress(OSError, ValueError):
        git = root / ".git"
        if git.is_file():  # a work tree beside the main one says where its own are
            git = root / git.read_text(encoding="utf-8").partition("gitdir:")[2].strip()
        return _resolve((git / "HEAD").read_text(encoding="utf-8").strip(), git)
    return None


def _resolve(head: str, git: Path) -> str | None:
    if not head.startswith("ref:"):
        return _hash(head)
    name, shared = head.removeprefix("ref:").strip(), git
    if (git / "commondir").is_file():
        shared = git / (git / "commondir").read_text(encoding="utf-8").strip()
    for place in (git, shared):
        if (place / name).is_file():
            return _hash((place / name).read_text(encoding="utf-8").strip())
    packed = (shared / "packed-refs").read_text(encoding="utf-8").splitlines()
    return next((_hash(line.split()[0]) for line in packed if line.endswith(f" {name}")), None)


def _hash(text: str) -> str | None:
    return text if re.fullmatch(r"[0-9a-f]{40}([0-9a-f]{24})?", text) else None


COMMIT = commit()  # when this is imported: a checkout may be moved on while the code in memory stays


def child_environment() -> dict[str, str]:
    """Return variables for a new Python process: it imports from where this one does, not from the working folder.

    A queue.py that lies there would stand in for Python's own. Where the user's own PYTHONPATH names that folder, they
    want it; an empty entry, which means it too, is mostly one too many a colon.
    """
    wanted = {os.path.realpath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry}
    here = ""
    with suppress(OSError):  # it was removed
        here = os.path.realpath(Path.cwd())
    path = [entry for entry in sys.path if entry and (os.path.realpath(entry) != here or here in wanted)]
    package = str(Path(domainwise.__file__).parents[1])
    if package not in path:  # found by standing in its folder
        path.append(package)
    return {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(path)}


@contextmanager
def environment_set(variables: dict[str, str]) -> Iterator[None]:
    """Set variables in the environment of this process, for libraries that start processes by themselves."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def remember_places(files: Mapping[str, str]) -> None:
    """Remember on this machine where files lie, by their hashes: what people share says their names alone."""
    known = _places()
    found = {sha256: file for sha256, file in files.items() if known.get(sha256) != file}
    if found:
        with suppress(OSError):  # then they have to be named again
            make_folder(_places_file().parent)
            with replacing_text(_places_file()) as out:
                json.dump({**known, **found}, out, indent=1)


def place_of(file: str, sha256: str) -> str:
    """Return where a file lies: as it is written, or where this machine has had the one with that hash."""
    known = "" if not file or Path(file).is_absolute() else str(_places().get(sha256, ""))
    return known if known and Path(known).is_file() else file


def _places_file() -> Path:
    return Path(os.environ.get("DOMAINWISE_CACHE") or user_cache()).expanduser() / "places.json"


def _places() -> dict[str, str]:
    with suppress(OSError, ValueError):
        found = json.loads(_places_file().read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    return {}
