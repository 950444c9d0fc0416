from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest
from made_outcomes import Study

from domainwise.analysis.measurement_files import SURFACE, Surface
from domainwise.report.page.page import render

PLANE = [0.0, 0.5, 1.0, 1.5]
SCRIPT = "</script><script>document.title='broken into'</script>"


def sloping(across: float, upward: float) -> list[list[float]]:
    return [[1 + across * a + upward * b for a in PLANE] for b in PLANE]


def walked() -> Surface:
    losses = {"0": sloping(1, 2), "15": sloping(3, 0), "75": sloping(0, 0.5)}
    models = {"0": (0.0, 0.0), "15": (1.0, 0.0), SCRIPT: (0.5, 1.2)}
    return Surface(PLANE, PLANE, losses, (0.2, 0.3), models, ("75",))


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """Two trials, one of which has a surface."""
    study = Study(tmp_path).add("erm").add("arith")
    walked().save(study.outcomes[0].folder)
    return study


def test_a_surface_is_drawn_as_contours_that_need_no_script(study: Study) -> None:
    page = render(study.outcomes)
    assert all(f"Loss surface of {domain} around" in page for domain in ("0", "15", "75"))
    assert SCRIPT not in page
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    assert len(scripts) == page.count("<script") == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page


def test_models_that_are_no_walk_have_no_directions(tmp_path: Path) -> None:
    study = Study(tmp_path).add("erm")
    replace(walked(), start=None).save(study.outcomes[0].folder)
    page = render(study.outcomes)
    assert "Where there are no arrows" in page
    assert "where Arith heads" not in page


def test_a_surface_is_read_as_it_was_saved_and_what_is_not_finite_is_a_hole(tmp_path: Path) -> None:
    walked().save(tmp_path)
    assert Surface.read(tmp_path / SURFACE) == walked()
    torn = replace(walked(), losses={"0": [[float("inf"), 1.0]]})
    torn.save(tmp_path)
    found = Surface.read(tmp_path / SURFACE)
    assert found is not None
    assert found.losses["0"][0][0] != found.losses["0"][0][0]
    replace(walked(), a=[float("nan"), 1.0]).save(tmp_path)
    assert Surface.read(tmp_path / SURFACE) is None
