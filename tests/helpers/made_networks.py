"""Pretrained networks as they are trained: batch-norm frozen, with affine parameters that matter."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from domainwise.networks.torchvision_compat import import_timm

timm = import_timm()


def resnet(name: str = "resnet18", **settings: Any) -> nn.Module:
    torch.manual_seed(0)
    net: nn.Module = timm.create_model(name, num_classes=0, **settings)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1)
            nn.init.normal_(module.bias, std=0.1)
            module.eval()
    return net.double()
