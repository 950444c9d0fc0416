"""Writes the reference from the code, whenever the site is built: the Python names, the commands, the algorithms.

Nothing of it is committed: it cannot say other than the code does.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import make_algorithms
import typer

import domainwise as dw
from domainwise.algorithms import create, hypers, names
from domainwise.cli import COMMANDS, app

# Every public name of the package stands on one of these pages; a test looks for those that are missing.
PYTHON = {
    "compare": (
        "Compare, fit, report",
        ("compare", "fit", "Results", "power", "average_runs", "follow", "check"),
    ),
    "data": ("Data", ("open_data", "domains", "folders", "digits", "Domains")),
    "models": ("Models", ("load", "Model")),
    "loop": (
        "In a loop of your own",
        ("MetaOptimizer", "arithmetic", "constant", "last", "weighted", "and_mask", "sand_mask"),
    ),
    "own": ("Networks and errors", ("Network", "InputError")),
}
SKLEARN = {"domainwise.sklearn": ("DomainClassifier", "LeaveOneDomainOut")}
AUTHORS = {
    "domainwise.algorithms": ("Algorithm", "Penalized", "Walk", "Terms", "algorithm", "hyper", "log10", "choice",
                              "create", "names", "parse"),
    "domainwise.losses": ("risk", "risks", "cross_entropy", "mean_of", "coral", "mmd"),
    "domainwise.testing": ("check_algorithm",),
}  # fmt: skip


def write(folder: Path) -> None:
    """Write all pages of the reference into a folder; pages of an earlier run that are gone leave it."""
    pages = {**dict(python_pages()), **dict(command_pages()), **dict(algorithm_pages())}
    if folder.exists():
        for stale in set(folder.rglob("*.md")) - {folder / name for name in pages}:
            stale.unlink()
    for name, text in pages.items():
        put(folder / name, text)


def put(path: Path, text: str) -> None:
    """Write a page, unless it is the same already: then it is not built again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def python_pages() -> Iterator[tuple[str, str]]:
    listed = "\n".join(f"python/{name}" for name in [*PYTHON, "sklearn", "authors"])
    yield (
        "python.md",
        f"# Python\n\n```python\nimport domainwise as dw\n```\n\n{toctree(listed)}\n{table_of_names()}",
    )
    for page, (heading, public) in PYTHON.items():
        yield f"python/{page}.md", f"# {heading}\n\n" + "".join(documented("domainwise", name) for name in public)
    yield "python/sklearn.md", f"# In scikit-learn\n\n{of_modules(SKLEARN)}"
    yield "python/authors.md", f"# For authors of algorithms\n\n{of_modules(AUTHORS)}"


def of_modules(modules: dict[str, tuple[str, ...]]) -> str:
    return "".join(
        f"## {module}\n\n" + "".join(documented(module, name) for name in public if is_in(module, name))
        for module, public in modules.items()
    )


def is_in(module: str, name: str) -> bool:
    return hasattr(__import__(module, fromlist=[name]), name)


def table_of_names() -> str:
    rows = "".join(
        f"| {{py:obj}}`dw.{name} <domainwise.{name}>` | {first_sentence(getattr(dw, name).__doc__)} |\n"
        for _, public in PYTHON.values()
        for name in public
    )
    return f"\n| name | |\n|---|---|\n{rows}"


EXAMPLES: dict[str, str] = tomllib.loads((Path(__file__).parent / "examples.toml").read_text(encoding="utf-8"))


REQUESTS = "set_fit_request, set_score_request, set_split_request"  # scikit-learn's own, with links into its pages


def documented(module: str, name: str) -> str:
    thing = getattr(__import__(module, fromlist=[name]), name)
    how = "autoclass" if isinstance(thing, type) else "autofunction" if callable(thing) else "autodata"
    members = (
        f"\n   :members:\n   :exclude-members: {REQUESTS}\n"
        if how == "autoclass" and not issubclass(thing, Exception)
        else "\n"
    )
    example = EXAMPLES.get(name, "") if module == "domainwise" else ""
    shown = f"```python\nimport domainwise as dw\n\n{example.strip()}\n```\n\n" if example else ""
    return f"```{{eval-rst}}\n.. {how}:: {module}.{name}{members}```\n\n{shown}"


def first_sentence(text: str | None) -> str:
    """Return the first sentence of a docstring, as Markdown."""
    paragraph = " ".join((text or "").split("\n\n")[0].split())
    return escaped(paragraph.replace("``", "`"))


def escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def toctree(entries: str) -> str:
    return f"```{{toctree}}\n:maxdepth: 1\n:hidden:\n\n{entries}\n```\n"


def command_pages() -> Iterator[tuple[str, str]]:
    group: Any = typer.main.get_command(app)
    panels = {heading: [one.__name__.replace("_", "-") for one in commands] for heading, commands in COMMANDS.items()}
    for name, command in group.commands.items():
        if not any(name in known for known in panels.values()):
            panels[command.rich_help_panel].append(name)
    parts = [
        f"## {heading}\n\n| command | |\n|---|---|\n"
        + "".join(f"| [`{name}`](commands/{name}.md) | {escaped(group.commands[name].help)} |\n" for name in known)
        for heading, known in panels.items()
    ]
    listed = "\n".join(f"commands/{name}" for known in panels.values() for name in known)
    yield "commands.md", f"# Commands\n\n{toctree(listed)}\n" + "\n".join(parts)
    for name, command in group.commands.items():
        yield f"commands/{name}.md", command_page(f"domainwise {name}", command)


def command_page(name: str, command: Any, level: int = 1) -> str:
    heading = f"{'#' * level} {name}\n\n{angled(command.help or '')}\n"
    if inner := getattr(command, "commands", None):
        return heading + "\n" + "\n".join(command_page(f"{name} {one}", inner[one], level + 1) for one in inner)
    given = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    usage = " ".join([name, *(f"{one.metavar or one.name.upper()}" for one in given), "[OPTIONS]" * bool(options)])
    text = f"{heading}\n```text\n{usage}\n```\n"
    if given:
        text += "\n| argument | |\n|---|---|\n"
        text += "".join(f"| `{one.metavar or one.name.upper()}` | {angled(one.help or '')} |\n" for one in given)
    panels = dict.fromkeys(one.rich_help_panel or "Options" for one in options)
    for panel in panels:
        members = [one for one in options if (one.rich_help_panel or "Options") == panel]
        text += f"\n**{panel}**\n\n| option | | default |\n|---|---|---|\n" + "".join(map(option_row, members))
    return text


def option_row(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    value = "" if option.is_flag else f" `{option.metavar or option.name.upper()}`"
    default = "" if option.default in (None, False, "", ()) else f"`{option.default}`"
    return f"| {names}{escaped(value)} | {angled(option.help or '')} | {escaped(default)} |\n"


def angled(text: str) -> str:
    """Return a text in which a word in angle brackets is shown instead of taken for HTML."""
    return escaped(" ".join(text.split())).replace("<", "\\<").replace(">", "\\>").replace("*", "\\*")


def algorithm_pages() -> Iterator[tuple[str, str]]:
    for name in names():
        yield f"algorithms/{name}.md", algorithm_page(name)
    rows = "".join(f"| [`{name}`](algorithms/{name}.md) | {summary_of(name)} |\n" for name in names())
    listed = "\n".join(f"algorithms/{name}" for name in names())
    yield (
        "algorithms.md",
        f"# A page for each algorithm\n\n{toctree(listed)}\nAll of them in one table, with what they cost: "
        f"[algorithms](../algorithms.md).\n\n| name | |\n|---|---|\n{rows}",
    )


def summary_of(name: str) -> str:
    return escaped(make_algorithms.parts(type(create(name)))[0])


def allowed(default: object, about: Any) -> str:
    return "True or False" if isinstance(default, bool) else escaped(about.range())


def algorithm_page(name: str) -> str:
    """Write the page of one algorithm: what it does, its objective, its settings, its cost, and how to run it."""
    cls = type(create(name))
    summary, objective, elsewhere = make_algorithms.parts(cls)
    rows = "".join(
        f"| `{field}` | `{about.shown(one.default)}` | {allowed(one.default, about)} "
        f"| {f'`{about.draw}`' if about.draw else 'not drawn'} |\n"
        for field, (one, about) in hypers(cls).items()
    )
    cost = "".join(f"- {line}\n" for line in make_algorithms.costs_of(name))
    members = ["loss", "legs", "stepper", "weights", "terms", "prepare", "step", "answer"]
    own = ", ".join(member for member in members if hasattr(cls, member))
    parts = [
        f"# {name}\n\n{summary}\n",
        f"{objective.replace('``', '`')}\n",
        f"{elsewhere.replace('``', '`')}\n" if elsewhere else "",
        f"## Settings\n\n| name | default | allowed | drawn by a random search |\n|---|---|---|---|\n{rows}",
        f"## Cost\n\n{cost}",
        f"## Try it\n\n```bash\ndomainwise compare --data digits --algorithms erm,{name}\n```\n\n"
        f'```python\nimport domainwise as dw\n\nmodel = dw.fit(dw.digits(), "{name}", steps=20)\n```\n',
        f"## In Python\n\n```{{eval-rst}}\n.. autoclass:: {cls.__module__}.{cls.__name__}\n   :members: {own}\n```\n",
    ]
    return "\n".join(part for part in parts if part)
