"""The repair happens once per process and before an import, so every promise is checked in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from textwrap import dedent

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="nothing is repaired on Windows")


def printed(code: str, path: Path | None = None) -> str:
    """What a fresh Python prints; ``path`` is where it looks for modules first."""
    places = [str(path)] if path else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*places, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", dedent(code)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def made_torchvision(folder: Path, compiled: Path | None) -> Path:
    """A package of that name, with a compiled part that loads or, as text, does not."""
    package = folder / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text("")
    if compiled:
        (package / "_C.so").symlink_to(compiled)
    else:
        (package / "_C.so").write_text("no library")
    return folder


DECLARED = """
    import torch
    from domainwise.networks.torchvision_compat import torchvision_ready

    torchvision_ready()
    print([hasattr(torch.ops.torchvision, name) for name in ("nms", "qnms")])
"""


def test_timm_and_a_transform_work_after_the_repair_and_a_second_one_is_harmless() -> None:
    code = """
        import gc
        from domainwise.networks.torchvision_compat import torchvision_ready

        torchvision_ready()
        torchvision_ready()
        gc.collect()
        import timm
        import torch
        from torchvision.transforms import v2

        torchvision_ready()
        flipped = v2.RandomHorizontalFlip(1.0)(torch.arange(3.0).view(1, 1, 3))
        print(timm.is_model("resnet50"), flipped.flatten().tolist(), hasattr(torch.ops.torchvision, "nms"))
    """
    assert printed(code) == "True [2.0, 1.0, 0.0] True"


def test_an_import_that_failed_before_is_repaired_too() -> None:
    code = """
        try:
            import torchvision
        except RuntimeError:
            pass
        from domainwise.networks.torchvision_compat import import_timm

        print(import_timm().is_model("resnet50"))
    """
    assert printed(code) == "True"


def test_the_schemas_are_declared_where_the_compiled_part_does_not_load(tmp_path: Path) -> None:
    assert printed(DECLARED, made_torchvision(tmp_path, None)) == "[True, True]"


def test_the_schemas_are_declared_where_there_is_no_compiled_part(tmp_path: Path) -> None:
    folder = made_torchvision(tmp_path, None)
    (folder / "torchvision" / "_C.so").unlink()
    assert printed(DECLARED, folder) == "[True, True]"


def test_a_torchvision_whose_compiled_part_loads_is_left_alone(tmp_path: Path) -> None:
    import torch

    loadable = next(Path(torch.__file__).parent.glob(f"_C*{EXTENSION_SUFFIXES[0]}"))
    assert printed(DECLARED, made_torchvision(tmp_path, loadable)) == "[False, False]"


def test_schemas_that_somebody_else_declared_are_not_declared_again(tmp_path: Path) -> None:
    before = """
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    """
    assert printed(dedent(before) + dedent(DECLARED), made_torchvision(tmp_path, None)) == "[True, True]"


def test_nothing_heavy_is_imported_before_the_repair_is_asked_for() -> None:
    code = """
        import sys
        import domainwise.networks.torchvision_compat

        print([name for name in ("torch", "torchvision", "timm") if name in sys.modules])
    """
    assert printed(code) == "[]"
