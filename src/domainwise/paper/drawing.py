"""One figure of the paper as picture files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from domainwise.files import write_output
from domainwise.report.drawing.matplotlib_svg import Panel, as_file


@dataclass(frozen=True)
class Drawing:
    name: str  # of its files: "figure1"
    title: str
    panels: Mapping[str, Panel]  # by what is added to the name: "" or "-ends"
    notes: tuple[str, ...] = ()

    def write(self, folder: Path) -> list[Path]:
        """Every picture as SVG and as PNG, and what is to be said of them as text."""
        about = folder / f"{self.name}.txt"
        write_output(about, "\n".join([self.title, *self.notes]) + "\n")
        files = [about]
        for added, panel in self.panels.items():
            path = folder / f"{self.name}{added}.svg"
            write_output(path, as_file(panel))
            write_output(path.with_suffix(".png"), panel.png())
            files += [path, path.with_suffix(".png")]
        return files
