from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import domainwise

SOURCE = Path(domainwise.__file__).parent

# What stands to the right may import what stands to its left, never the other way round.
ORDER = """
    _version errors files seeds machine user_files terminal meta networks losses data experiment averaging algorithms
    acceleration saved_models training sweeps analysis report interop api sklearn testing paper cli __main__
""".split()  # noqa: SIM905  easier to read than a list
RANK = {name: rank for rank, name in enumerate(ORDER)}


def imported(file: Path) -> set[str]:
    """The modules and packages directly below domainwise that a file imports, at the top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "domainwise":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("domainwise."):
            found.add(str(node.module).split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("domainwise.")}
    return found


def test_imports_point_one_way() -> None:
    wrong = []
    for file in SOURCE.rglob("*.py"):
        own = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        if own != "__init__":
            wrong += [f"{own} imports {other}" for other in imported(file) if RANK[other] > RANK[own]]
    assert not wrong


def test_one_module_alone_shows_itself_by_what_stands_above_it() -> None:
    """An evaluation is printed by the report, which it names as a text; nobody else goes around the order so."""
    wrong = []
    for file in SOURCE.rglob("*.py"):
        own = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        named = re.findall(r"""import_module\(f?["']domainwise\.(\w+)""", file.read_text(encoding="utf-8"))
        wrong += [(file.relative_to(SOURCE).as_posix(), other) for other in named if RANK[other] > RANK[own]]
    assert wrong == [("saved_models/evaluated.py", "report")]


def test_no_module_bears_the_name_of_a_public_function() -> None:
    modules = {path.stem for path in SOURCE.iterdir()} - {"__init__"}
    assert not modules & set(domainwise.__all__)


def test_every_public_name_can_be_had_and_is_listed() -> None:
    assert all(getattr(domainwise, name) is not None for name in domainwise.__all__)
    assert set(domainwise.__all__) <= set(dir(domainwise))


def test_the_drop_in_imports_torch_and_nothing_of_ours_beyond_the_core() -> None:
    script = (
        "import sys, torch; before = set(sys.modules); from domainwise import MetaOptimizer\n"
        "new = {m.partition('.')[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names)\n"
        "ours = {m for m in set(sys.modules) - before if m.startswith('domainwise.')}\n"
        "assert new == {'domainwise'}, new\n"
        "core = 'combine optimizer ranks refusals round'.split()\n"
        "assert ours == {'domainwise.' + m for m in ['_version', 'errors', 'meta', *(f'meta.{m}' for m in core)]}, ours"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
