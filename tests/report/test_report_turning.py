from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from made_outcomes import Study
from test_browser import asked, browse

from domainwise.report.page import turning
from domainwise.report.page.page import render, write
from domainwise.report.page.surfaces import Surface

PLANE = [0.0, 0.5, 1.0, 1.5]
SCRIPT = "</script><script>document.title='broken into'</script>"
# What our own script asks of plotly, written into the page so that it can be read there.
STUB = (
    "window.Plotly = { purge() {}, react(place, traces, layout) { place.textContent = "
    "JSON.stringify([traces[0].z[0][1], traces.map((one) => one.name), layout.scene.zaxis.type]) } };"
)
GL = ("--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist", "--virtual-time-budget=8000")


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


@pytest.fixture
def stubbed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turning, "available", lambda: True)
    monkeypatch.setattr(turning, "library", lambda: STUB)


def test_without_plotly_the_contours_stay_and_a_line_says_what_to_install(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turning, "available", lambda: False)
    page = render(study.outcomes)
    assert "pip install &#39;domainwise[report]&#39;" in page or "pip install 'domainwise[report]'" in page
    assert "Loss surface of 75 around" in page
    assert page.count("<script") == 1


@pytest.mark.usefixtures("stubbed")
def test_the_library_is_in_the_page_once_and_only_scripts_with_their_digest_may_run(study: Study) -> None:
    walked().save(study.outcomes[1].folder)
    page = render(study.outcomes)
    assert page.count(STUB) == 1
    assert page.count('class="turning"') == 2
    policy = re.search(r"script-src ([^\"]*)", page)
    assert policy is not None
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert policy.group(1).split() == [f"'sha256-{digest}'" for digest in digests]
    assert "domainwise[report]" not in page


def test_a_page_without_surfaces_has_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turning, "library", lambda: pytest.fail("nothing is to be turned"))
    assert render(Study(tmp_path).add("erm").outcomes).count("<script") == 1


def test_marks_lie_on_the_surface_of_the_domain_shown() -> None:
    found = walked()
    assert turning.lifted(found, "0", [(0.25, 0.1), (1.5, 0.0)]) == pytest.approx([1.45, 2.5])
    _, second, _ = turning.scene(found, {"0": "0", "15": "15", "75": "75 (unseen)"})["domains"]
    arith = second["marks"]["arith"]
    assert arith["z"] == pytest.approx([1 + 3 * a for a in arith["x"]], rel=1e-4)
    assert (arith["x"][0], arith["y"][0]) == found.start
    assert (arith["x"][-1], arith["y"][-1]) == pytest.approx(found.mean)
    fish = second["marks"]["fish"]
    assert (fish["x"][-1], fish["y"][-1]) == found.end


def test_losses_that_differ_by_far_are_drawn_by_their_logarithm_and_gaps_stay_gaps() -> None:
    assert not turning.scene(walked(), {"0": "0"})["log"]
    steep = replace(walked(), losses={"0": [[1.0, 1000.0, float("nan"), 2.0]] * 4})
    scene = turning.scene(steep, {"0": "0"})
    assert scene["log"]
    assert scene["domains"][0]["z"][0] == [1.0, 1000.0, None, 2.0]


def test_models_that_are_no_walk_have_no_directions() -> None:
    (only,) = turning.scene(replace(walked(), start=None), {"0": "0"})["domains"]
    assert set(only["marks"]) == {"models", "mean"}


@pytest.mark.browser
@pytest.mark.usefixtures("stubbed")
def test_a_click_on_a_domain_shows_its_surface(study: Study, tmp_path: Path) -> None:
    page = write(study.outcomes, tmp_path / "report.html")
    scene = "frame.querySelector('.scene').textContent"
    names = ["loss", "models", "their mean", "start", "Fish heads for the last", "Arith heads for the mean"]
    assert json.loads(asked(tmp_path, page, 390, scene)) == [1.5, names, "linear"]
    clicked = f"(frame.querySelectorAll('.choices input')[1].click(), {scene})"
    assert json.loads(asked(tmp_path, page, 390, clicked))[0] == 2.5


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_plotly_itself_draws_under_the_pages_own_policy(study: Study, tmp_path: Path, width: int) -> None:
    pytest.importorskip("plotly")
    page = write(study.outcomes, tmp_path / "report.html")
    assert page.stat().st_size < 10_000_000
    seen = browse(tmp_path, page, "--dump-dom", f"--window-size={width},900", *GL)
    assert "Arith heads for the mean" in re.sub(r"<script.*?</script>", "", seen, flags=re.DOTALL)
    assert "<canvas" in seen
