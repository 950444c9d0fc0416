"""Make torchvision importable beside a torch of another build, such as PyPI's CUDA wheel beside a CPU torch."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from types import ModuleType
from typing import Any

# Operators that torchvision adds to while it is imported, though only its compiled part declares them.
_SCHEMAS = {
    "nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}
_declared: list[Any] = []  # a declaration lasts as long as the Library object that made it


def torchvision_ready() -> None:
    """Prepare torch for the first import of torchvision, and so of timm and torchmetrics.

    Where the compiled part of torchvision does not load, importing torchvision fails because two operators are missing.
    Declaring them is enough for models and transforms; what really is compiled (box operators, JPEG decoding) stays
    away. A torchvision that works is left alone.
    """
    # On Windows both of PyPI's wheels are CPU builds, and the part loads only after torchvision's own preparations.
    if _declared or "torchvision" in sys.modules or sys.platform == "win32" or _compiled_part_loads():
        return
    torch = _torch()
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name, schema in _SCHEMAS.items():
        if not hasattr(torch.ops.torchvision, name):
            library.define(schema)
    _declared.append(library)


def import_timm() -> ModuleType:
    """Import timm, whatever state torchvision is in."""
    torchvision_ready()
    return import_module("timm")


def _compiled_part_loads() -> bool:
    package = find_spec("torchvision")
    if package is None:
        return True  # nothing to repair
    part = PathFinder.find_spec("_C", package.submodule_search_locations)
    if part is None or part.origin is None:
        return False
    try:
        _torch().ops.load_library(part.origin)
    except OSError:
        return False
    return True


def _torch() -> Any:
    return import_module("torch")  # late, and without types: what is called here has none
