"""Two ranks on one machine: every function of a module whose name starts with ``case_`` runs on both of them."""

from __future__ import annotations

import gc
import re
import signal
import sys
import time
from collections.abc import Callable
from copy import deepcopy
from datetime import timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector
from torch.optim import SGD, Adam, AdamW

import domainwise
from domainwise import MetaOptimizer, Network, and_mask, arithmetic, constant, last, sand_mask, weighted
from domainwise.algorithms import create

COMBINES = {
    "arithmetic": arithmetic(),
    "constant": constant(),
    "last": last(),
    "weighted": weighted(lambda n: [0.7, *[0.1] * (n - 1)]),
    "and": and_mask(0.5),
    "sand": sand_mask(0.5, 10.0),
}
INNERS = {"plain": None, "momentum": partial(SGD, momentum=0.9), "adam": Adam}
ADAM = partial(Adam, lr=0.05)
CUT = 5  # of 8 samples, rank 0 has five and rank 1 three


class Task:
    """The same network on both ranks, and for every leg the whole batch and this rank's part of it."""

    def __init__(self, rank: int, k: int = 1, net: nn.Module | None = None) -> None:
        torch.manual_seed(0)
        self.net = net or nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()
        self.twin, self.visited = deepcopy(self.net), 0
        batches = [[(torch.randn(8, 4).double(), torch.randint(3, (8,))) for _ in range(k)] for _ in range(3)]
        mine = slice(0, CUT) if rank == 0 else slice(CUT, 8)
        parts = [[(x[mine], y[mine]) for x, y in leg] for leg in batches]
        self.whole, self.mine = ([leg[0] if k == 1 else leg for leg in legs] for legs in (batches, parts))

    def loss(self, batch: Any) -> Tensor:
        self.visited += 1
        return F.cross_entropy(self.net(batch[0]), batch[1])

    def whole_loss(self, batch: Any) -> Tensor:
        return F.cross_entropy(self.twin(batch[0]), batch[1])

    def meta(self, make: Callable[..., Any] = ADAM, **settings: Any) -> MetaOptimizer:
        torch.manual_seed(0)
        return MetaOptimizer(make(self.net.parameters()), **{"inner_lr": 0.1, **settings})

    def alone(self, make: Callable[..., Any] = ADAM, **settings: Any) -> MetaOptimizer:
        torch.manual_seed(0)
        return MetaOptimizer(make(self.twin.parameters()), **{"inner_lr": 0.1, "sync": "none", **settings})

    def apart(self) -> float:
        """How far this rank's network is from that of one process with whole batches."""
        ours, whole = (parameters_to_vector(net.parameters()) for net in (self.net, self.twin))
        return (ours - whole).abs().max().item()

    def vector(self) -> Tensor:
        return parameters_to_vector(self.net.parameters()).detach().clone()


def rounds(task: Task, meta: MetaOptimizer, alone: MetaOptimizer, mine: Any = None, n: int = 3) -> float:
    """How far apart parameters and losses ever are."""
    worst = 0.0
    for _ in range(n):
        losses = meta.step(task.loss, task.mine if mine is None else mine)
        whole = alone.step(task.whole_loss, task.whole)
        worst = max(worst, task.apart(), (losses - whole).abs().max().item())
    return worst


def equal(rank: int, k: int, combine: str, inner: str, n: int) -> float:
    task = Task(rank, k)
    settings = {"combine": COMBINES[combine], "inner": INNERS[inner], "inner_steps": k, "inner_lr": 0.05}
    return rounds(task, task.meta(**settings), task.alone(**settings), n=n)


def case_equal(rank: int) -> dict[str, float]:
    """Every combine with every inner optimizer; with one and with three inner steps by turns."""
    pairs = [(c, i, 1 + 2 * ((n + m) % 2)) for n, c in enumerate(COMBINES) for m, i in enumerate(INNERS)]
    return {f"{c}, {i}, {k}": equal(rank, k, c, i, n=2) for c, i, k in pairs}


def case_moved(rank: int) -> float:
    task = Task(rank)
    before = task.vector()
    task.meta().step(task.loss, task.mine)
    return (task.vector() - before).abs().max().item()


def case_unsynced_ranks_drift(rank: int) -> float:
    task = Task(rank)
    return rounds(task, task.meta(sync="none"), task.alone())


def case_own_average(rank: int) -> float:
    """Reduce between gradient and the step: for gradients all taken at one place that is the same."""
    task = Task(rank)
    meta, alone = task.meta(sync="none", inner_lr=0.0), task.alone(inner_lr=0.0)
    for _ in range(3):
        meta.gradient(task.loss, task.mine)
        for p in task.net.parameters():
            p.grad *= (CUT if rank == 0 else 8 - CUT) / 8
            dist.all_reduce(p.grad)
        meta.outer.step()
        alone.step(task.whole_loss, task.whole)
    return task.apart()


def case_order_of_rank_0(rank: int) -> list[list[int]]:
    task = Task(rank)
    meta = task.meta(generator=torch.Generator().manual_seed(rank), size=lambda leg: 1)
    orders: list[list[int]] = [[] for _ in range(6)]
    p = next(task.net.parameters())
    for order in orders:
        meta.step(lambda leg, order=order: order.append(leg) or p.sum(), [0, 1, 2])
    return orders


def case_empty(rank: int) -> tuple[float, int]:
    """Rank 1 has nothing of the second leg; no forward pass there."""
    task = Task(rank)
    x, y = task.whole[1]
    task.mine[1] = (x, y) if rank == 0 else (x[:0], y[:0])
    return rounds(task, task.meta(), task.alone()), task.visited


def case_empty_none(rank: int) -> tuple[float, int]:
    task = Task(rank)
    task.mine[1] = task.whole[1] if rank == 0 else None
    return rounds(task, task.meta(inner=Adam), task.alone(inner=Adam)), task.visited


def case_sizes_of_ones_own(rank: int) -> float:
    task = Task(rank)
    named = [{"note": "a", "data": {"x": x, "y": y}} for x, y in task.mine]
    inside = lambda batch: task.loss((batch["data"]["x"], batch["data"]["y"]))  # noqa: E731
    metas = task.meta(), task.alone()
    for _ in range(2):
        metas[0].step(inside, named)
        metas[1].step(task.whole_loss, task.whole)
    handed = task.meta(size=lambda batch: len(batch[1]))
    return max(task.apart(), rounds(task, handed, task.alone()))


def case_unused(rank: int) -> dict[str, Any]:
    """One parameter is used on rank 1 only, one nowhere: it gets no gradient and no decay."""
    net = nn.ParameterList([nn.Parameter(torch.ones(2)) for _ in range(3)])
    meta = MetaOptimizer(AdamW(net, lr=0.1, weight_decay=0.5), inner_lr=0.1, shuffle=False)
    meta.step(lambda x: (x * net[0]).sum() + (net[1].sum() if rank == 1 else 0), list(torch.ones(3, 4, 2)))
    return {"values": [p.tolist() for p in net], "nowhere": net[2].grad is None, "grad": net[1].grad.tolist()}


def case_state(rank: int) -> float:
    """A state saved on rank 0 and loaded on both continues as one process does."""
    task = Task(rank)
    meta, alone = task.meta(inner=Adam), task.alone(inner=Adam)
    rounds(task, meta, alone)
    saved = [meta.state_dict() if rank == 0 else None]
    dist.broadcast_object_list(saved)
    again = task.meta(inner=Adam)
    again.load_state_dict(saved[0])
    return rounds(task, again, alone)


def refused(task: Task, meta: MetaOptimizer, loss: Any, legs: Any, expected: type[BaseException]) -> dict[str, Any]:
    """What a rank says, whether everything is as before, and whether the next round is that of one process."""
    twin = MetaOptimizer(Adam(task.twin.parameters(), lr=0.05), inner_lr=0.1, sync="none", generator=torch.Generator())
    twin.generator.set_state(meta.generator.get_state())
    before, buffers = task.vector(), [b.clone() for b in task.net.buffers()]
    try:
        meta.step(loss, legs)
    except expected as error:
        said = f"{type(error).__name__}: {error}"
    else:
        said = "nothing"
    kept = torch.equal(before, task.vector()) and all(map(torch.equal, buffers, task.net.buffers()))
    return {"said": said, "kept": kept, "apart": rounds(task, meta, twin, n=1)}


def failing(task: Task, at: int, rank: int, error: BaseException) -> Callable[[Any], Tensor]:
    seen = iter(range(100))

    def loss(batch: Any) -> Tensor:
        if next(seen) == at and rank == 1:
            raise error
        return task.loss(batch)

    return loss


def case_fails_in_loss(rank: int) -> list[dict[str, Any]]:
    found = []
    for at, error in [(0, ValueError("mine")), (2, ValueError("mine")), (1, KeyboardInterrupt("stop"))]:
        task = Task(rank)
        found.append(refused(task, task.meta(), failing(task, at, rank, error), task.mine, BaseException))
    return found


def case_interrupted_while_waiting(rank: int) -> dict[str, Any]:
    """Ctrl-C on rank 1, which waits while rank 0 is in its loss; then on both of them."""
    found = {}
    for name, ranks in {"one": [1], "both": [0, 1]}.items():
        task = Task(rank)

        def loss(batch: Any, task: Task = task, ranks: list[int] = ranks) -> Tensor:
            if rank == 1 and task.visited == 1:
                Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()  # by then it waits for the second leg's sum
            if rank == 0 and task.visited == 1:
                time.sleep(1.5)
                if 0 in ranks:
                    raise KeyboardInterrupt
            return task.loss(batch)

        found[name] = refused(task, task.meta(), loss, task.mine, BaseException)
    return found


def case_fails_in_combine(rank: int) -> dict[str, Any]:
    def broken(gradients: Tensor) -> Tensor:
        if rank == 1 and calls:
            raise MemoryError("full")
        return gradients.mean(0)

    task, calls = Task(rank), [1]
    meta = task.meta(combine=broken)
    before = task.vector()
    try:
        meta.step(task.loss, task.mine)
    except (MemoryError, ValueError) as error:
        said = f"{type(error).__name__}: {error}"
    kept = torch.equal(before, task.vector())
    calls.clear()
    return {"said": said, "kept": kept, "apart": rounds(task, meta, task.alone(combine=lambda g: g.mean(0)))}


def case_not_finite(rank: int) -> dict[str, Any]:
    task = Task(rank)
    loss = lambda batch: task.loss(batch) * (float("nan") if rank == 1 else 1)  # noqa: E731
    meta = task.meta(check=True, shuffle=False)
    try:
        meta.step(loss, task.mine)
    except (FloatingPointError, ValueError) as error:
        return {"said": f"{type(error).__name__}: {error}"}
    return {"said": "nothing"}


def case_legs(rank: int) -> dict[str, Any]:
    task = Task(rank)
    return refused(task, task.meta(), task.loss, task.mine if rank == 0 else task.mine[:2], ValueError)


def case_no_legs(rank: int) -> dict[str, Any]:
    task = Task(rank)
    return refused(task, task.meta(), task.loss, task.mine if rank == 0 else [], ValueError)


def case_named_legs(rank: int) -> dict[str, Any]:
    task = Task(rank)
    return refused(task, task.meta(), task.loss, dict(enumerate(task.mine)) if rank else task.mine, ValueError)


def case_nobody_has_samples(rank: int) -> dict[str, Any]:
    task = Task(rank)
    empty = [(x[:0], y[:0]) if i == 1 else (x, y) for i, (x, y) in enumerate(task.mine)]
    return refused(task, task.meta(), task.loss, empty, ValueError)


def case_sizes_that_are_none(rank: int) -> list[str]:
    sizes = [lambda batch: -1 if rank == 1 else 1, lambda batch: float("nan") if rank == 0 else 1]
    found = [said(task.meta(size=size), task) for size in sizes for task in [Task(rank)]]
    task = Task(rank)
    task.mine = ["a", "b", "c"]
    return [*found, said(task.meta(), task)]


def said(meta: MetaOptimizer, task: Task) -> str:
    try:
        meta.step(task.loss, task.mine)
    except ValueError as error:
        return str(error)
    return "nothing"


def case_different(rank: int) -> dict[str, str]:
    found = {}
    task = Task(rank)
    with torch.no_grad():
        task.net[0].weight[0, 0] += 1e-9 * rank
    found["parameters"] = said(task.meta(), task)
    task = Task(rank)
    found["inner_lr"] = said(task.meta(inner_lr=0.1 + 0.1 * rank), task)
    task = Task(rank)
    task.net[0].weight.requires_grad_(rank == 0)
    found["frozen"] = said(task.meta(), task)
    task = Task(rank, net=nn.Sequential(nn.Linear(4, 5 + rank), nn.Linear(5 + rank, 3)).double())
    found["network"] = said(task.meta(), task)
    task = Task(rank, k=2)
    if rank == 1:
        task.mine = [leg * 2 for leg in task.mine]
    found["steps"] = said(task.meta(inner_steps=2 + 2 * rank), task)
    task = Task(rank)
    task.net.register_buffer("seen", torch.zeros(3))
    found["module"] = said(task.meta(module=task.net if rank == 0 else None), task)
    task = Task(rank)
    meta = task.meta()
    found["first"] = said(meta, task)
    meta.outer.param_groups[0]["lr"] *= 1 + rank
    found["rate of one"] = said(meta, task)
    found["after it"] = said(meta, task)
    return found


def normed(rank: int) -> Task:
    net = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)).double()
    return Task(rank, net=net)


def case_buffers(rank: int) -> dict[str, Any]:
    found = {}
    for policy in ("end", "start", "mean"):
        task = normed(rank)
        meta = task.meta(module=task.net, buffers=policy)
        meta.step(task.loss, task.mine)
        found[policy] = [b.tolist() for b in task.net.buffers()]
    return found


def case_wrapped(rank: int) -> dict[str, Any]:
    """In DistributedDataParallel, whichever way: our average and no other."""
    found = {}
    for name, options in {
        "plain": {},
        "unused": {"find_unused_parameters": True},
        "views": {"gradient_as_bucket_view": True},
    }.items():
        task = Task(rank)
        ddp = DistributedDataParallel(task.net, **options)
        loss = lambda batch, ddp=ddp: F.cross_entropy(ddp(batch[0]), batch[1])  # noqa: E731
        meta, alone = task.meta(), task.alone()
        for _ in range(3):
            meta.step(loss, task.mine)
            alone.step(task.whole_loss, task.whole)
        found[name] = task.apart()
        task.net.zero_grad()
        loss(task.mine[0]).backward()  # and afterwards it averages again, as it always did
        mine = task.net[0].weight.grad.clone()
        dist.all_reduce(mine)
        found[f"{name}, later"] = (mine / 2 - task.net[0].weight.grad).abs().max().item()
    task = Task(rank)
    ddp = DistributedDataParallel(task.net, static_graph=True)
    found["static"] = said(task.meta(), task)
    return found


def case_wrapped_with_buffers(rank: int) -> dict[str, Any]:
    """It would broadcast buffers before every forward pass, which an empty or a failing rank never comes to."""
    task = normed(rank)
    ddp = DistributedDataParallel(task.net)
    loss = lambda batch: F.cross_entropy(ddp(batch[0]), batch[1])  # noqa: E731
    if rank == 1:
        task.mine[1] = None
    meta = task.meta(module=task.net)
    meta.step(loss, task.mine)
    try:
        meta.step(loss if rank == 0 else failing(task, 0, rank, ValueError("mine")), task.mine)
    except ValueError as error:
        text = str(error)
    meta.step(loss, task.mine)
    return {"said": text, "net": [t.tolist() for t in task.net.state_dict().values()]}


def case_precisions(rank: int) -> dict[str, Any]:
    """Parameters of several kinds: all stay alike on both ranks, which every round makes sure of."""
    torch.manual_seed(0)
    table = nn.Embedding(6, 4, sparse=True)
    conv = nn.Conv2d(4, 3, 1).to(memory_format=torch.channels_last)
    half, scalar = nn.Parameter(torch.ones(4, dtype=torch.bfloat16)), nn.Parameter(torch.ones(()))
    params = [*table.parameters(), *conv.parameters(), half, scalar]
    meta = MetaOptimizer(SGD(params, lr=0.1), inner_lr=0.1)

    def loss(rows: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return conv((table(rows) * half)[:, :, None, None]).float().square().mean() * scalar

    losses = [meta.step(loss, [torch.arange(2 + rank) + leg for leg in range(3)]).tolist() for _ in range(4)]
    kinds = [str(p.grad.dtype).removeprefix("torch.") for p in params]
    return {"losses": losses, "kinds": kinds, "strides": conv.weight.grad.stride() == conv.weight.stride()}


def case_groups(rank: int) -> dict[str, Any]:
    groups = [dist.new_group([i]) for i in range(2)]
    task = Task(rank)
    found = {"own": rounds(task, task.meta(group=groups[rank]), task.alone(), mine=task.whole)}
    task = Task(rank)
    found["other"] = said(task.meta(group=groups[1 - rank]), task)
    return found


def case_spread_optimizer(rank: int) -> float:
    """An outer optimizer whose state is dealt out over the ranks."""
    from torch.distributed.optim import ZeroRedundancyOptimizer  # warns of something it uses itself

    task = Task(rank)
    make = partial(ZeroRedundancyOptimizer, optimizer_class=Adam, lr=0.05)
    return rounds(task, task.meta(make), task.alone())


def case_algorithms(rank: int) -> list[str]:
    """What trains in one process, with a walk or with steps of its own."""
    found = []
    for name in ("erm", "arith", "mldg"):
        algorithm = create(name).setup(Network(nn.Linear(4, 5), nn.Linear(5, 3)), seed=0)
        algorithm.predict(torch.randn(2, 4))
        try:
            algorithm.update([(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(3)])
        except ValueError as error:
            found.append(str(error))
    return found


def case_trials(rank: int) -> str:
    images = torch.zeros(20, 8, 8, 3, dtype=torch.uint8).numpy()
    data = domainwise.domains({name: (images, torch.arange(20).numpy() % 2) for name in ("a", "b")})
    with TemporaryDirectory() as folder:
        try:
            domainwise.compare(data, ["erm"], seeds=1, steps=2, output=folder)
        except ValueError as error:
            return str(error)
        return "nothing"


def program(start: str) -> str:
    """The one of the docs that starts so."""
    page = (Path(__file__).parents[2] / "docs" / "own-loop.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"^```py\n({re.escape(start)}.*?)^```", page, re.DOTALL | re.MULTILINE)
    return str(found)


def case_docs(rank: int) -> dict[str, Any]:
    """The program of the docs, in the process group that runs already."""
    text = program("# train.py")
    for call in ("dist.init_process_group()\n", "dist.destroy_process_group()\n"):
        assert call in text
        text = text.replace(call, "")
    seen: dict[str, Any] = {}
    exec(compile(text, "own-loop.md", "exec"), seen)
    return {"losses": seen["losses"].tolist(), "net": [p.tolist() for p in seen["model"].parameters()]}


def on_two_ranks(module: str, folder: Path) -> list[dict[str, Any]]:
    """What the cases of a module return on each rank."""
    command = [sys.executable, __file__, module, str(folder)]
    processes = [Popen([*command, str(rank)], stdout=PIPE, stderr=STDOUT, text=True) for rank in (0, 1)]
    try:
        texts = [process.communicate(timeout=240)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], "\n".join(texts)
    return [torch.load(folder / f"{rank}.pt") for rank in (0, 1)]


def run(module: str, folder: Path, rank: int) -> None:
    torch.set_num_threads(1)
    where = (folder / "store").as_uri()
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=2, timeout=timedelta(seconds=60))
    gc.freeze()  # the search for wrappers would go through all modules of torch once for every MetaOptimizer made here
    found = {}
    for name, case in list(vars(import_module(module)).items()):
        if name.startswith("case_"):
            dist.barrier()
            found[name.removeprefix("case_")] = case(rank)
    torch.save(found, folder / f"{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
