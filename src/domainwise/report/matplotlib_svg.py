"""Draw a picture as SVG text to put into a page: transparent, in the page's own ink and font, safe for any name."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#010203"  # stands for the colour of the page's text until the picture is written
# Okabe and Ito's colours, told apart with every kind of colour vision; without black and yellow, which vanish on a page
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
FAMILY = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
SETTINGS = {
    "svg.fonttype": "none",
    "pdf.fonttype": 42,  # TrueType, which journals and conferences ask for
    "text.parse_math": False,  # a domain may be called $x$
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.13,
    "grid.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
}


@dataclass(frozen=True)
class Panel:
    """A picture for a page, and the same for print where somebody asks for it."""

    title: str
    svg: str
    png: Callable[[], bytes] = field(default=bytes, compare=False, repr=False)  # on white
    pdf: Callable[[], bytes] = field(default=bytes, compare=False, repr=False)  # on white, its fonts embedded


def panel(title: str, described: str, height: float, draw: Callable[[Axes], None], width: float = 4) -> Panel:
    """Draw a picture, its size in inches.

    ``described`` is for readers who do not see it, and unlike that of any other panel of a page.
    """
    drawn = partial(_drawn, described, (width, height), draw)
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    svg = drawn(format="svg", transparent=True, metadata=nothing).decode()
    undated = dict.fromkeys(("Creator", "CreationDate", "Producer"))
    pdf = partial(drawn, format="pdf", metadata=undated)
    return Panel(title, _embedded(svg, described), partial(drawn, dpi=200), pdf)


def _drawn(described: str, size: tuple[float, float], draw: Callable[[Axes], None], **how: Any) -> bytes:
    import matplotlib.style
    from matplotlib.figure import Figure

    file = io.BytesIO()
    # "default" first: a user's own style sheet must not change the report
    with matplotlib.style.context(["default", {**SETTINGS, "svg.hashsalt": described}]), warnings.catch_warnings():
        # the font that only measures the text need not have every letter
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.subplots())
        figure.savefig(file, **how)
    return file.getvalue()


def css(colour: str) -> str:
    """Return a colour as CSS that a dark page can change: --series-1 to --series-6, and the page's own ink."""
    if colour == INK:
        return "currentColor"
    return f"var(--series-{COLOURS.index(colour) + 1}, {colour})" if colour in COLOURS else colour


def as_file(picture: Panel) -> str:
    """Return a picture for a file of its own: on white, in colours that need no page."""
    fixed = re.sub(r"var\(--[\w-]+, (#[0-9a-f]{6})\)", r"\1", picture.svg)
    return fixed.replace("<svg ", '<svg style="background: #fff" color="#1a1f26" ', 1) + "\n"


def _embedded(svg: str, described: str) -> str:
    """Take away what makes it a file: a fixed size, ids that another picture has too, styles that leak into a page."""
    body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg[svg.index("<svg") :], count=1, flags=re.DOTALL)
    body = re.sub(r'<g id="[^"]*"', "<g", body)
    body = re.sub(r'(?<=: )#[0-9a-f]{6}(?=[;"])', lambda found: css(found.group()), body)
    body = re.sub(r'(<text style="[^"]*?)font-family: [^;"]*;? ?', r"\1", body)
    body = re.sub(r'(<text style="[^"]*?font: [^;"]*?px) [^;"]*', rf"\1 {FAMILY}", body)  # how older matplotlib says it
    body = re.sub(r"\s+", " ", body).replace("> <", "><")
    box = re.search(r'viewBox="[^"]*"', body)
    assert box is not None
    opening = f'<svg {box.group()} role="img" aria-label="{escape(described)}"'
    inherited = f'font-family="{FAMILY}" stroke-linejoin="round"'
    spaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    return f"{opening} {inherited} {spaces}>{body[body.index('>') + 1 :]}".strip()
