"""The walk of two ranks set up by Fabric and by Accelerate, as they would be started by torchrun."""

from __future__ import annotations

import os
from typing import Any

import torch
from made_ranks import ADAM, Task
from torch.nn import functional as F

from domainwise import MetaOptimizer


def as_torchrun(rank: int) -> None:
    known = {"RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": 0, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    os.environ.update({name: str(value) for name, value in known.items()})
    os.environ.update({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "TORCHELASTIC_RUN_ID": "none"})


def walked(task: Task, net: Any, meta: MetaOptimizer) -> float:
    alone, worst = task.alone(), 0.0
    for _ in range(3):
        losses = meta.step(lambda batch: F.cross_entropy(net(batch[0]), batch[1]), task.mine)
        whole = alone.step(task.whole_loss, task.whole)
        worst = max(worst, task.apart(), (losses - whole).abs().max().item())
    return worst


def case_fabric(rank: int) -> float:
    from lightning_fabric import Fabric

    as_torchrun(rank)
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp", precision="64-true")
    fabric.launch()
    task = Task(rank)
    net, outer = fabric.setup(task.net, ADAM(task.net.parameters()))
    torch.manual_seed(0)
    return walked(task, net, MetaOptimizer(outer, inner_lr=0.1))


def case_accelerate(rank: int) -> dict[str, float]:
    from accelerate import Accelerator

    as_torchrun(rank)
    accelerator = Accelerator(cpu=True)
    task = Task(rank)
    net, outer = accelerator.prepare(task.net, ADAM(task.net.parameters()))
    torch.manual_seed(0)
    found = {"prepared": walked(task, net, MetaOptimizer(outer, inner_lr=0.1))}
    task = Task(rank)
    net = accelerator.prepare(task.net)
    return {**found, "plain optimizer": walked(task, net, task.meta()), "processes": accelerator.num_processes}
