"""Draw charts as SVG text, without a drawing library: a page has dozens of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from domainwise.report.matplotlib_svg import FAMILY, Panel

WIDTH, RIGHT, TOP, BOTTOM = 288.0, 10.0, 5.0, 31.0  # of a chart and its margins
LETTER = 5.2  # as wide as most are; the page's font is not known here
ROOM_X, ROOM_Y = 36.0, 22.0  # between two ticks
HEIGHT_OF_NAME = 14.0  # in a legend

WIDE = 30  # times the lowest: from here on, only powers of ten show what is low and what is high

Point = tuple[float, float]


@dataclass(frozen=True)
class Scale:
    low: float  # the value at ``start``
    high: float  # the value at ``end``
    start: float
    end: float
    powers: bool = False  # ten times as much is equally far everywhere

    def __call__(self, value: float) -> float:
        low, high, at = map(log10, (self.low, self.high, value)) if self.powers else (self.low, self.high, value)
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    def ticks(self, room: float) -> list[float]:
        """Return round values at least ``room`` from each other."""
        most = max(1, int(abs(self.end - self.start) / room))
        return _powers(self.low, self.high, most) if self.powers else _round(self.low, self.high, most)


def around(values: Iterable[float], start: float, end: float, margin: float, *, may_be_wide: bool = False) -> Scale:
    """Return a scale that shows all of the values, with a share of its length left free on either side."""
    found = list(values) or [0.0, 1.0]
    low, high = min(found), max(found)
    if may_be_wide and low > 0 and high > WIDE * low:
        free = (high / low) ** margin
        return Scale(low / free, high * free, start, end, powers=True)
    alike = high - low <= 1e-9 * abs(high)
    free = (0.05 * abs(high) or 0.5) if alike else margin * (high - low)
    return Scale(low - free, high + free, start, end)


def _round(low: float, high: float, most: int) -> list[float]:
    power = 10.0 ** floor(log10((high - low) / most))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10, 20) if (high - low) / (factor * power) <= most)
    return [number * step for number in range(ceil(low / step), floor(high / step) + 1)]


def _powers(low: float, high: float, most: int) -> list[float]:
    first, last = ceil(log10(low)), floor(log10(high))
    every = max(1, ceil((last - first + 1) / most))
    return [10.0**power for power in range(first, last + 1, every)]


@dataclass(frozen=True)
class Mark:
    """Points of one colour: joined to a ``line`` or around a ``band``, or each a ``dot``, a ``cross`` or a ``bar``.

    A line that is ``named`` is in the legend of its chart.
    """

    kind: str
    points: Sequence[Point]
    colour: str  # as CSS has it
    size: float = 1.6  # of a dot, or how thick a stroke is
    opacity: float = 1.0
    dash: str = ""
    named: str = ""


def curves(title: str, described: str, marks: Sequence[Mark], below: str, *, may_be_wide: bool = False) -> Panel:
    """Draw values against ``below``; where they may be wide apart, in powers of ten if they are."""
    legend = _legend([mark for mark in marks if mark.named])
    height = 180.0 + HEIGHT_OF_NAME * len(legend)
    upright = around(_values(marks, 1), height - BOTTOM, height - 180.0 + TOP, 0.05, may_be_wide=may_be_wide)
    sides = {upright(tick): f"{tick:.6g}" for tick in upright.ticks(ROOM_Y)}
    across = around(_values(marks, 0), _left(sides.values()), WIDTH - RIGHT, 0.02)
    inside = _marks(marks, across, upright) + "".join(legend)
    return Panel(title, _drawn(described, height, across, sides, inside, below, ceiling=upright.end))


def _legend(marks: Sequence[Mark]) -> list[str]:
    """Write a row of the legend for every two names."""
    rows = [marks[at : at + 2] for at in range(0, len(marks), 2)]
    return ["".join(_entry(mark, 8 + 140 * i, 8 + HEIGHT_OF_NAME * at) for i, mark in enumerate(row))
            for at, row in enumerate(rows)]  # fmt: skip


def _entry(mark: Mark, x: float, y: float) -> str:
    words = mark.named if len(mark.named) <= 22 else mark.named[:21] + "…"
    return _line(mark, [(x, y), (x + 18, y)]) + f'<text x="{x + 22:g}" y="{y + 3:g}">{escape(words)}</text>'


def sheet(title: str, described: str, panels: Sequence[Panel], columns: int = 2) -> Panel:
    """Arrange charts as one picture, row by row, each below its title."""
    boxes = [_height(panel) for panel in panels]
    rows = [range(at, min(at + columns, len(panels))) for at in range(0, len(panels), columns)]
    parts, top = [], 0.0
    for row in rows:
        for at in row:
            x = (WIDTH + RIGHT) * (at - row[0])
            parts.append(f'<text x="{x + WIDTH / 2:g}" y="{top + 13:g}" text-anchor="middle" font-size="10">'
                         f"{escape(panels[at].title)}</text>"
                         + panels[at].svg.replace("<svg ", f'<svg x="{x:g}" y="{top + 20:g}" width="{WIDTH:g}" '
                                                           f'height="{boxes[at]:g}" ', 1))  # fmt: skip
        top += max(boxes[at] for at in row) + 28
    return Panel(title, _picture(described, columns * (WIDTH + RIGHT), top, "".join(parts)))


def _height(panel: Panel) -> float:
    return float(panel.svg.split('viewBox="', 1)[1].split('"', 1)[0].split()[3])


def rows(
    title: str, described: str, marks: Sequence[Mark], names: Sequence[str], notes: Mapping[int, str], below: str
) -> Panel:
    """Draw one line for every name; ``y`` of a point is the number of its line. A note stands for a line's points."""
    height = TOP + 19.4 * len(names) + BOTTOM
    upright = Scale(-0.5, len(names) - 0.5, TOP, height - BOTTOM)
    sides = {upright(at): name for at, name in enumerate(names)}
    left = _left(sides.values())
    across = around(_values(marks, 0) or [0.0, 100.0], left, WIDTH - RIGHT, 0.08)
    written = "".join(
        f'<text x="{left + 5:.1f}" y="{upright(at) + 3:.1f}" font-style="italic" opacity=".65">{escape(note)}</text>'
        for at, note in notes.items()
    )
    return Panel(title, _drawn(described, height, across, sides, _marks(marks, across, upright) + written, below))


def _values(marks: Sequence[Mark], axis: int) -> list[float]:
    return [point[axis] for mark in marks for point in mark.points]


def _left(names: Iterable[str]) -> float:
    return 8 + LETTER * max(map(len, names), default=0)


def _marks(marks: Sequence[Mark], across: Scale, upright: Scale) -> str:
    return "".join(
        SHAPES[mark.kind](mark, [(across(x), upright(y)) for x, y in mark.points]) for mark in marks if mark.points
    )


def _line(mark: Mark, points: Sequence[Point]) -> str:
    dash = f' stroke-dasharray="{mark.dash}"' if mark.dash else ""
    return _stroked(mark, "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points), f"{_thick(mark)}{dash}")


def _dots(mark: Mark, points: Sequence[Point]) -> str:
    places = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in points)
    return _stroked(mark, places, f'{_thick(mark)} stroke-linecap="round"')


def _crosses(mark: Mark, points: Sequence[Point]) -> str:
    return _stroked(mark, "".join(f"M{x - 3:.1f} {y - 3:.1f}l6 6m-6 0l6 -6" for x, y in points), _thick(mark))


def _bars(mark: Mark, points: Sequence[Point]) -> str:
    return _stroked(mark, "".join(f"M{x:.1f} {y - 7:.1f}v14" for x, y in points), _thick(mark))


def _band(mark: Mark, points: Sequence[Point]) -> str:
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polygon points="{corners}" style="fill: {mark.colour}" opacity="{mark.opacity:g}"/>'


SHAPES: dict[str, Callable[[Mark, Sequence[Point]], str]] = {
    "line": _line, "dot": _dots, "cross": _crosses, "bar": _bars, "band": _band,
}  # fmt: skip


def _thick(mark: Mark) -> str:
    return f'stroke-width="{mark.size:g}"'


def _stroked(mark: Mark, path: str, how: str) -> str:
    return f'<path d="{path}" style="fill: none; stroke: {mark.colour}" opacity="{mark.opacity:g}" {how}/>'


def _drawn(
    described: str,
    height: float,
    across: Scale,
    sides: Mapping[float, str],
    marks: str,
    below: str,
    *,
    ceiling: float = TOP,
) -> str:
    """Draw the whole picture: a grid, what is marked on it, and words at its edges."""
    floor = height - BOTTOM
    feet = {across(tick): f"{tick:.6g}" for tick in across.ticks(ROOM_X)}
    upright = "".join(f"M{x:.1f} {floor:.1f}V{ceiling:g}" for x in feet)
    level = "".join(f"M{across.start:.1f} {y:.1f}H{across.end:.1f}" for y in sides)
    ticks = "".join(f"M{x:.1f} {floor:.1f}v3" for x in feet)
    words = [f'<text x="{x:.1f}" y="{floor + 12:.1f}">{text}</text>' for x, text in feet.items()]
    words.append(f'<text x="{(across.start + across.end) / 2:.1f}" y="{height - 6:.1f}">{escape(below)}</text>')
    beside = [f'<text x="{across.start - 4:.1f}" y="{y + 3:.1f}">{escape(text)}</text>' for y, text in sides.items()]
    return _picture(
        described,
        WIDTH,
        height,
        '<g style="fill: none; stroke: currentColor" stroke-width=".6">'
        f'<path d="{upright}{level}" opacity=".13"/>'
        f'<path d="M{across.start:.1f} {floor:.1f}H{across.end:.1f}{ticks}"/></g>'
        f'{marks}<g text-anchor="middle">{"".join(words)}</g><g text-anchor="end">{"".join(beside)}</g>',
    )


def _picture(described: str, width: float, height: float, inside: str) -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(described)}" '
        f'xmlns="http://www.w3.org/2000/svg" font-family="{FAMILY}" font-size="9" fill="currentColor" '
        f'stroke-linejoin="round">{inside}</svg>'
    )
