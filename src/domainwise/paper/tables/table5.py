"""Table 5: CAMELYON17, accuracy on every slide of a hospital not trained on. Its data has no reader here yet."""

from __future__ import annotations

from domainwise.paper.columns import Column
from domainwise.paper.comparison import section
from domainwise.paper.numbers import SLIDES, TABLE5
from domainwise.paper.page import Page
from domainwise.paper.rows import Row, Wish

TITLE = "Table 5, CAMELYON17: accuracy on every slide of the test hospital"
NOTE = (
    "Not run: reading CAMELYON17 needs a reader of the WILDS data that is not there yet. "
    "Avg is over all patches, not the mean of the slides."
)
ROWS = [Row(name, "", numbers) for name, numbers in TABLE5.items()]


def render(wish: Wish) -> Page:
    """The paper's numbers alone."""
    found = section(TITLE, [Column(slide, slide) for slide in SLIDES], ROWS, [], [], wish)
    return Page("table5", TITLE, (found,), (NOTE,))
