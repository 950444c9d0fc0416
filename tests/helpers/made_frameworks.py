"""What takes two ranks longer: every combination, and Fabric and Accelerate as in the docs and as under torchrun."""

from __future__ import annotations

import os
from importlib.util import find_spec
from itertools import product
from typing import Any

import torch
from made_ranks import COMBINES, INNERS, Task, equal, program, said
from torch.nn import functional as F
from torch.optim import Adam

from domainwise import MetaOptimizer


def apart(rank: int, package: str) -> float | None:
    """How far the walk is from that of one process with whole batches; nothing where the package is missing."""
    if find_spec(package) is None:
        return None
    known = {"RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": 0, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    os.environ.update({name: str(value) for name, value in known.items()})
    os.environ.update({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "TORCHELASTIC_RUN_ID": "none"})
    task = Task(rank)
    task.net.float(), task.twin.float()
    task.mine, task.whole = ([(x.float(), y) for x, y in legs] for legs in (task.mine, task.whole))
    torch.manual_seed(0)
    seen: dict[str, Any] = {"model": task.net, "Adam": Adam, "MetaOptimizer": MetaOptimizer}
    exec(program(f"from {package} import").replace("lr=5e-5", "lr=0.05"), seen)
    alone, worst = task.alone(inner_lr=1e-2), 0.0
    for _ in range(3):
        seen["optimizer"].step(lambda batch: F.cross_entropy(seen["model"](batch[0]), batch[1]), task.mine)
        alone.step(task.whole_loss, task.whole)
        worst = max(worst, task.apart())
    return worst


def case_every(rank: int) -> dict[str, float]:
    combinations = product((1, 2, 3), COMBINES, INNERS)
    return {f"{c}, {i}, {k}": equal(rank, k, c, i, n=4) for k, c, i in combinations}


def case_fabric(rank: int) -> float | None:
    return apart(rank, "lightning_fabric")


def case_accelerate(rank: int) -> float | None:
    return apart(rank, "accelerate")


def case_sharded(rank: int) -> dict[str, str]:
    """Parameters of which a rank has only a part."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

    found = {}
    for way in ("fully_shard", "whole parameters", "flat parameters"):
        task = Task(rank)
        if way == "fully_shard":
            fully_shard(task.net, mesh=init_device_mesh("cpu", (2,)))
        else:
            whole = way == "whole parameters"
            task.net = FullyShardedDataParallel(task.net, device_id=torch.device("cpu"), use_orig_params=whole)
        found[way] = said(task.meta(), task)
    return found
