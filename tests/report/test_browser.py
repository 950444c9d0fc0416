"""The report in a real browser: nothing runs that is not ours, nothing sticks out on a phone, dark is dark."""

from __future__ import annotations

import base64
import html
import io
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from made_counts import count
from made_outcomes import Study
from PIL import Image

from domainwise.report.page.mistakes import Gallery, Shown
from domainwise.report.page.page import write

pytestmark = pytest.mark.browser

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1280,900",
)
SCRIPT = "<script>document.title='broken into'</script>"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report wide enough to overflow, with a domain and an algorithm whose names are programs."""
    folder = tmp_path_factory.mktemp("report")
    domains = (SCRIPT, "a-domain-whose-name-is-one-very-long-word-without-any-space", "sketch", "cartoon", "photo")
    study = Study(folder, domains)
    for at, target in enumerate(domains[:4]):
        study.add("erm", 0.7 + at / 100, (target,)).add("arith", 0.72 - at / 100, (target,), label=f"arith({SCRIPT})")
    study.add("irm", targets=("sketch",), status="diverged", ended=120)
    return write(study.outcomes, folder / "report.html")


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with every section that counts give, for classes with more of them than a phone is wide."""
    folder = tmp_path_factory.mktemp("counted")
    study = Study(folder).add("erm").add("arith")
    confusion = (np.eye(18, dtype=int) * 8 + 1).tolist()
    count(study, confusion, confusion)
    return write(study.outcomes, folder / "report.html")


def browse(folder: Path, page: Path, *options: str) -> str:
    if BROWSER is None:
        pytest.skip("there is no Chromium on this machine")
    command = [BROWSER, *QUIET, f"--user-data-dir={folder / 'profile'}", *options, page.as_uri()]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=300).stdout


def asked(folder: Path, page: Path, width: int, script: str) -> str:
    """What ``script`` finds in ``frame``, which holds the page and may be narrower than any window can be."""
    inside = html.escape(page.read_text(encoding="utf-8"))
    around = folder / "around.html"
    around.write_text(
        f'<meta charset="utf-8"><iframe style="width:{width}px;height:900px;border:0" srcdoc="{inside}"></iframe>'
        "<script>onload = () => { const frame = document.querySelector('iframe').contentDocument;"
        f"document.title = {script}; document.querySelector('iframe').remove(); }}</script>",
        encoding="utf-8",
    )
    return title(browse(folder, around, "--dump-dom"))


def title(document: str) -> str:
    found = re.search(r"<title>(.*?)</title>", document, flags=re.DOTALL)
    assert found is not None
    return html.unescape(found.group(1))


def test_the_page_renders_and_runs_only_its_own_script(page: Path, tmp_path: Path) -> None:
    seen = browse(tmp_path, page, "--dump-dom")
    assert title(seen) == "Domain generalization on digits"
    assert len(re.findall(r"<script\b", seen)) == 1
    assert html.escape(SCRIPT, quote=False) in seen
    assert "<button" in seen  # which the page's own script adds to the list of trials


def test_pictures_have_a_size(page: Path, tmp_path: Path) -> None:
    script = "[...frame.querySelectorAll('figure svg')].map(s => Math.round(s.getBoundingClientRect().height)).join()"
    heights = [int(height) for height in asked(tmp_path, page, 1280, script).split(",")]
    assert len(heights) == 5 + 3 * 4  # four targets and their average; three curves for each target
    assert all(100 < height < 500 for height in heights)


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_makes_the_page_scroll_sideways(page: Path, tmp_path: Path, width: int) -> None:
    assert int(asked(tmp_path, page, width, "frame.documentElement.scrollWidth")) == width


@pytest.mark.parametrize("width", [390, 1280])
def test_differences_and_mistakes_fit_and_pictures_are_loaded(tmp_path: Path, width: int) -> None:
    study = Study(tmp_path)
    for seed in range(3):
        study.add("erm", 0.6 + seed / 100, seed=seed).add("arith", 0.62 - seed / 100, seed=seed)
    content = io.BytesIO()
    Image.new("RGB", (96, 96), "red").save(content, "PNG")
    picture = f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"
    shown = [Shown(picture, "a-class-with-one-very-long-name → another", "image 7")] * 8
    page = write(study.outcomes, tmp_path / "report.html", mistakes=Gallery("erm", {"75": shown}, ""))
    script = (
        "[frame.documentElement.scrollWidth, frame.querySelectorAll('#differences tbody tr').length, "
        "...[...frame.querySelectorAll('#mistakes img')].map(s => s.naturalWidth)].join()"
    )
    found = [int(number) for number in asked(tmp_path, page, width, script).split(",")]
    assert found == [width, 3, *[96] * 8]


@pytest.mark.parametrize("width", [390, 1280])
def test_matrices_and_diagrams_fit_and_have_a_size(counted: Path, tmp_path: Path, width: int) -> None:
    script = (
        "[frame.documentElement.scrollWidth, "
        "...[...frame.querySelectorAll('.matrix, #calibration figure svg')]"
        ".map(s => Math.round(s.getBoundingClientRect().height))].join()"
    )
    across, *heights = [int(number) for number in asked(tmp_path, counted, width, script).split(",")]
    assert across == width
    assert len(heights) == 2 + 2  # a matrix and a diagram for each algorithm
    assert all(100 < height < 900 for height in heights)


def test_a_click_on_a_heading_sorts_the_trials(page: Path, tmp_path: Path) -> None:
    script = (
        "(frame.querySelectorAll('.sortable thead button')[5].click(),"
        "[...frame.querySelectorAll('.sortable tbody tr')].map(row => row.cells[5].textContent.trim()).join())"
    )
    *accuracies, last = asked(tmp_path, page, 1280, script).split(",")
    assert [float(accuracy) for accuracy in accuracies] == [69, 70, 70, 71, 71, 72, 72, 73]
    assert last == "\N{EN DASH}"


@pytest.mark.parametrize(("scheme", "dark"), [(0, True), (1, False)])
def test_the_page_follows_the_colour_scheme(page: Path, tmp_path: Path, scheme: int, dark: bool) -> None:
    picture = tmp_path / "page.png"
    browse(
        tmp_path,
        page,
        f"--blink-settings=preferredColorScheme={scheme}",
        f"--screenshot={picture}",
    )
    with Image.open(picture) as image:
        background = image.convert("L").getpixel((5, 5))
        low, high = image.convert("L").getextrema()
    assert (background < 50) is dark
    assert high - low > 150  # text against the background


@pytest.mark.parametrize("width", [390, 1280])
def test_a_table_that_is_cut_says_so_until_its_end_is_seen(page: Path, tmp_path: Path, width: int) -> None:
    script = (
        "(() => { const boxes = [...frame.querySelectorAll('.scroll')].filter(box => box.clientWidth);"
        "const cut = boxes.filter(box => box.scrollWidth > box.clientWidth + 1);"
        "const told = () => boxes.filter(box => box.classList.contains('more'));"
        "const same = String(told().map(box => boxes.indexOf(box))) === String(cut.map(box => boxes.indexOf(box)));"
        "const hint = cut.length ? frame.defaultView.getComputedStyle(cut[0], '::after').content : '';"
        "cut.forEach(box => { box.scrollLeft = box.scrollWidth; box.dispatchEvent(new Event('scroll')); });"
        "return [cut.length, same, told().length, hint].join('|'); })()"
    )
    cut, same, after, hint = asked(tmp_path, page, width, script).split("|")
    assert (same, after) == ("true", "0")
    assert int(cut) > (0 if width == 390 else -1)
    assert not int(cut) or "scroll to the right" in hint
