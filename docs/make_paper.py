"""Writes docs/paper.md anew from docs/paper.toml, the records and the measurements: python docs/make_paper.py."""

from __future__ import annotations

import json
import sys
import tomllib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path.append(str(DOCS))

import make_study as study  # noqa: E402  the numbers of the study
from make_results import interval, points  # noqa: E402

from domainwise.paper import numbers  # noqa: E402

VERDICTS = {"holds": "holds", "measured": "measured", "not measured": "not measured yet", "chosen": "we chose"}
COUNTED = {
    "holds": "hold",
    "measured": "are measured",
    "not measured": "are not measured yet",
    "chosen": "are left open by the paper",
}
HEAD = """# The paper, line by line

<!-- Written by docs/make_paper.py from docs/paper.toml: edit that. -->

"Balanced Direction from Multifarious Choices: Arithmetic Meta-Learning for Domain Generalization" (Wang et al., CVPR
2025), from its claims to its last table: where each statement is in the code, which test or record it rests on, and a
verdict. Of {total} lines {counts}.

- **holds**: a test that runs with all others shows it.
- **measured**: there are records or numbers, and the line says what came out.
- **not measured yet**: the line says what is needed.
- **we chose**: the paper leaves it open, or says two things; the line says what we do.

"Here" is the code; "rests on" are tests and records.
"""
FOOT = """
---

[All pages](README.md) · Next: [The paper, reproduced](reproduce.md)
"""

Line = Mapping[str, Any]


def lines() -> list[Line]:
    found: list[Line] = tomllib.loads((DOCS / "paper.toml").read_text(encoding="utf-8"))["line"]
    return found


def page() -> str:
    found, filled = lines(), values()
    verdicts = [line["verdict"] for line in found]
    counts = ", ".join(f"{verdicts.count(name)} {text}" for name, text in COUNTED.items())
    parts = [HEAD.format(total=len(found), counts=counts)]
    for part in dict.fromkeys(line["part"] for line in found):
        rows = [row(line, filled) for line in found if line["part"] == part]
        parts.append(
            f"## {part}\n\n| in the paper | here | rests on | verdict |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"
        )
    return "\n".join(parts) + FOOT


def row(line: Line, filled: Mapping[str, str]) -> str:
    said = f"**{VERDICTS[line['verdict']]}**"
    if line.get("said"):
        said += f". {line['said'].format(**filled)}"
    cells = (
        line["what"].format(**filled),
        linked(line["code"]),
        linked([*line["tests"], *line.get("records", [])]),
        said,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def linked(places: Sequence[str]) -> str:
    """Links to files; what is looked for in one stands after two colons, and is what is shown."""
    return "<br>".join(f"[{shown(*place.partition('::')[::2])}](../{place.partition('::')[0]})" for place in places)


def shown(path: str, name: str) -> str:
    """A test as words, code as code, a record by its path."""
    if name.startswith("test_"):
        return name.removeprefix("test_").replace("_", " ")
    return f"`{name}`" if name else f"`{path}`"


def values() -> dict[str, str]:
    """The numbers that the lines speak of: from the paper, the study and docs/measured.json."""
    measured = json.loads((DOCS / "measured.json").read_text(encoding="utf-8"))
    means, snapshots = measured["walk"], measured["snapshots"]
    one, chosen = study.primary_estimate(), study.estimated(study.differences(study.SELECTED), independent=False)
    low, high = one.interval()
    told = "they are not told apart" if low <= 0 <= high else "they differ"
    waiting = {name: f"{len(study.ended(name))} of {study.FAMILIES[name].trials} trials" for name in "LECK"}
    t2, t3, t4 = numbers.TABLE2, numbers.TABLE3["officehome"], numbers.TABLE4
    noise = max(
        abs(part[method, True, True][numbers.AVG] - part[method, False, True][numbers.AVG])
        for part in numbers.TABLE3.values()
        for method in ("Fish", "Arith")
    )
    return {
        "primary": f"{told}, difference {points(one.mean)} points, 95 % interval {interval(one)}",
        "waiting": ", ".join(f"{name} {trials}" for name, trials in waiting.items()),
        "family_k": waiting["K"],
        "selected_detectable": f"{chosen.detectable():.1f}",
        "three_seeds": f"{chosen.detectable(3):.1f}",
        "walk_agreement": f"{means['agreement']:.1%}",
        "snapshots_agreement": f"{snapshots['agreement']:.1%}",
        "snapshots_apart": f"{snapshots['apart']:.3f}",
        "snapshots_spread": f"{snapshots['spread']:.3f}",
        "share_error": f"{measured['share_error']:.0e}",
        **{f"t1_{name.lower()}": f"{numbers.TABLE1[name]['PACS']:.1f}" for name in ("Arith", "Fish", "ERM")},
        "t2_arith": f"{t2['Arith', False, True][numbers.AVG]:.1f}",
        "t3_arith": f"{t3['Arith', False, True][numbers.AVG]:.1f}",
        "t3_noise": f"up to {noise:.1f}",
        "t4_arith": f"{t4['Arith', False]['PACS']:.1f}",
        "t4_swad": f"{t4['Arith', True]['PACS']:.1f}",
        "t4_erm": f"{t4['ERM', False]['PACS']:.1f}",
        "t4_erm_swad": f"{t4['ERM', True]['PACS']:.1f}",
    }


def main() -> None:
    warnings.simplefilter("ignore", UserWarning)
    (DOCS / "paper.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
