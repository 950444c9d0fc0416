"""Run trials on a cluster: Ray places them, and starts them again where a process or a machine dies.

The output folder must be one that every node sees, such as a network drive: results are written there and nowhere else.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from domainwise.data.decoded.array_files import Damaged
from domainwise.data.domains import Domains
from domainwise.errors import InputError, warn
from domainwise.experiment.output_folder import is_ours
from domainwise.experiment.records import Event
from domainwise.experiment.trial import Trial
from domainwise.machine import child_environment, environment_set
from domainwise.sweeps.claims import Claims
from domainwise.sweeps.engine import Engine, run_shared
from domainwise.sweeps.worker import Message
from domainwise.training.result import failed
from domainwise.training.run_options import RunOptions
from domainwise.training.run_trial import DeviceLost, Watch

RETRIES = 3  # of a trial whose process or node has died, if not told otherwise
LOOPBACK = "127.0.0.2"  # Ray takes 127.0.0.1 for a wish to be reached from everywhere


@dataclass(frozen=True)
class RayEngine:
    """Run every trial as a task of its own. Without an address a cluster is started on this machine."""

    engine: Engine = Engine()  # its processes are those of a cluster started here
    address: str | None = None

    def __post_init__(self) -> None:
        if find_spec("ray") is None:
            raise InputError("Ray is not installed here: pip install 'domainwise[ray]', or use --engine local")
        _authentication(started_here=self.address is None)
        if self.address is not None:
            _reachable(self.address)

    @property
    def needs(self) -> dict[str, float]:
        """The resources of one trial, which is a process of its own here."""
        per_gpu = self.engine.per_gpu
        share = 1 if per_gpu == "auto" else 1 / per_gpu
        return {"num_cpus": self.engine.threads, **({} if self.options.device == "cpu" else {"num_gpus": share})}

    @property
    def _retries(self) -> int:
        return RETRIES if self.engine.retries is None else self.engine.retries

    @property
    def options(self) -> RunOptions:
        """The run options of the engine; Ray chooses which of the GPUs, and a process sees no other."""
        return replace(self.engine.options, device=self.engine.options.device.partition(":")[0])

    @property
    def at_once(self) -> int:
        """Return how many run side by side, as far as this machine knows."""
        return self.engine.at_once

    def run(self, trials: Sequence[Trial], data: Domains, folder: Path, watch: Watch) -> None:
        if not trials:
            return
        folder = folder.absolute()
        with self._connected():
            parked = park(data, folder)
            run_shared(trials, folder, watch, lambda free, hear: self._some(free, parked, folder, hear))

    @contextmanager
    def _connected(self) -> Iterator[None]:
        ray = authenticated(started_here=self.address is None)
        where: dict[str, Any] = {"address": self.address}
        if self.address is None:
            cpus = self.engine.processes * self.engine.threads
            where = {"address": "local", "_node_ip_address": LOOPBACK, "num_cpus": cpus, "include_dashboard": False}
        # Ray lets all its processes import from where its driver stood when it connected: from an empty folder, then.
        with tempfile.TemporaryDirectory(prefix="domainwise-") as empty:
            try:
                if self.address is not None:
                    _admitted(ray, self.address)
                with chdir(empty), environment_set({} if self.address else child_environment()):
                    ray.init(**where, log_to_driver=False, logging_level="error")
            except ray.exceptions.AuthenticationError as error:
                raise InputError(_other_token(self.address or "this machine")) from error
            except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
                reason = str(error).strip().splitlines()[0].split(". ")[0]
                raise InputError(f"cannot connect to Ray at {self.address or 'this machine'}: {reason}") from error
            try:
                yield
            finally:
                ray.shutdown()

    def _some(self, trials: Sequence[Trial], parked: Path, folder: Path, watch: Watch) -> None:
        import ray

        task = ray.remote(max_retries=self._retries, **self.needs)(attend)
        here = "" if self.address else str(Path.cwd())
        terms = (str(parked), str(folder), self.options.to_json(), self.engine.threads, self.engine.timeout, here)
        running = {task.remote(trial.to_json(), *terms): trial for trial in trials}
        while running:
            done, _ = ray.wait(list(running), num_returns=1)
            for one in done:
                trial = running.pop(one)
                watch(trial, self._heard(ray, one, trial, folder))

    def _heard(self, ray: Any, task: Any, trial: Trial, folder: Path) -> Event:
        try:
            event: Message = ray.get(task)
        except ray.exceptions.RayError as error:
            return {"result": failed(folder, trial, given_up(error, self._retries), self.engine.options.device)}
        if "wrong" in event:
            raise InputError(event["wrong"])
        return event


def attend(
    settings: dict[str, Any],
    parked: str,
    folder: str,
    options: dict[str, Any],
    threads: int,
    timeout: float | None,
    here: str = "",
) -> Any:
    """Run one trial, on whichever node Ray has chosen; return {"wrong": ...} where the node itself has a fault.

    ``here`` is where to stand, as the one who asked does.
    """
    import torch

    from domainwise.sweeps.in_process import work

    os.environ["PYTHONSAFEPATH"] = "1"  # for processes of its own, such as a compiler's
    if here:
        os.chdir(here)
    node, output = socket.gethostname(), Path(folder)
    if not is_ours(output):
        return {"wrong": f"the output folder {folder} is not there on the node {node}: use one that all nodes see"}
    try:
        data = Domains.open(Path(parked))
    except (OSError, Damaged) as error:
        reason = getattr(error, "strerror", None) or error
        sentence = f"the data of {parked} cannot be read on the node {node} ({reason}): use a cache folder that all"
        return {"wrong": f"{sentence} nodes see (--cache), or the same path on each of them"}
    trial = Trial.from_json(settings)
    Claims(output).free(trial.id)  # this may be the second attempt, after a process that is no more
    torch.set_num_threads(threads)
    try:
        with limited(trial, output, options["device"], timeout):
            return work(trial, data, output, RunOptions.from_json(options), lambda trial, event: None)
    except InputError as error:
        return {"wrong": f"on the node {node}: {error}"}
    except DeviceLost as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(1)  # Ray would give the next trial to this process; now it tries this one again in another


def given_up(error: Exception, retries: int) -> str:
    """Return why there will be no result: an error of ours as it is; of anything else Ray has made several attempts."""
    if cause := getattr(error, "cause", None):
        return f"{type(cause).__name__}: {cause}"
    return f"Ray gave it up after {retries} retries: {str(error).strip().splitlines()[0]}"


@contextmanager
def limited(trial: Trial, folder: Path, device: str, timeout: float | None) -> Iterator[None]:
    """End the process of a trial that takes longer; the trial has failed, and Ray's next attempt finds that."""
    if timeout is None:
        yield
        return

    def give_up() -> None:
        failed(folder, trial, f"it took longer than {timeout:g} s and was ended", device)
        os._exit(1)

    timer = threading.Timer(timeout, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def park(data: Domains, folder: Path) -> Path:
    """Put the data where every node can open it: linked to the cache where it is in one, else written once."""
    parked = folder / "data" / data.fingerprint[:16]
    if not parked.exists():
        temporary = parked.with_name(f".{secrets.token_hex(8)}")
        temporary.mkdir(parents=True)
        data.save(temporary)
        try:
            temporary.rename(parked)
        except OSError:  # another driver was faster
            if not parked.exists():
                raise
    return parked


def authenticated(started_here: bool) -> Any:
    """Import Ray, told to let nobody in without a token; it looks at these variables once, when it is imported."""
    if "ray" in sys.modules and "RAY_AUTH_MODE" not in os.environ:
        raise InputError("Ray was imported without token authentication: set RAY_AUTH_MODE=token before importing it")
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    if started_here:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    import ray

    return ray


def _authentication(started_here: bool) -> None:
    """A cluster without tokens runs what anybody sends it."""
    if os.environ.get("RAY_AUTH_MODE", "").lower() != "disabled":
        return
    who = "RAY_AUTH_MODE=disabled asks nobody for a token: whoever reaches the cluster can run code on it"
    if started_here:
        raise InputError(f"{who} as you. Unset it, and the cluster that is started here has a token of its own")
    warn(f"{who} as whoever started it")


def _admitted(ray: Any, address: str) -> None:
    """Ask once for admission: with another token Ray would try for half a minute, and say nothing of tokens."""
    if address == "auto" or address.startswith("ray://"):
        return
    with suppress(ConnectionError, RuntimeError, ValueError, ray.exceptions.RpcError):
        ray._raylet.GcsClient(address=address)


def _other_token(address: str) -> str:
    if os.environ.get("RAY_AUTH_MODE", "").lower() == "disabled":
        return f"cannot connect to Ray at {address}: it wants a token, and RAY_AUTH_MODE=disabled sends none"
    return (
        f"cannot connect to Ray at {address}: it wants the token it was started with, in RAY_AUTH_TOKEN or in a file "
        "that RAY_AUTH_TOKEN_PATH names (~/.ray/auth_token if it names none)"
    )


def _reachable(address: str) -> None:
    """Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address == "auto" or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        raise InputError(
            f"there is no Ray cluster to be reached at {address} ({error.strerror or error}): see ray start --head"
        ) from error
