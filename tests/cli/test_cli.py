from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from made_data import image_folder
from typer.testing import CliRunner

from domainwise import __version__
from domainwise.acceleration.benchmark import Timing
from domainwise.cli.options import grouped
from domainwise.report.results import Results

SHORT = ["--targets", "75", "--seeds", 1, "--steps", 3, "--processes", 1]


def compare(*more: object) -> list[object]:
    return ["compare", "--data", "digits", "--algorithms", "erm,arith", *SHORT, *more]


def outside(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "domainwise", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def test_from_outside_a_comparison_makes_a_table_and_a_report(tmp_path: Path) -> None:
    end = outside(*compare("-o", "out"), cwd=tmp_path)
    assert end.returncode == 0, end.stderr
    assert "erm" in end.stdout
    assert "arith" in end.stdout
    assert "[2/2]" in end.stderr
    assert (tmp_path / "out" / "report.html").exists()
    again = outside(*compare("-o", "out"), cwd=tmp_path)
    assert "2 of them are in out already and are not repeated" in again.stderr
    assert again.stdout == end.stdout


def test_help_starts_without_torch_and_in_half_its_time(tmp_path: Path) -> None:
    def seconds(*command: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, *command], check=True, stdout=subprocess.PIPE, cwd=tmp_path)
        return time.perf_counter() - start

    loaded = "import sys; from domainwise.cli import app; sys.exit(any(m in sys.modules for m in ('torch', 'numpy')))"
    subprocess.run([sys.executable, "-c", loaded], check=True)
    assert min(seconds("-m", "domainwise", "--help") for _ in range(3)) < seconds("-c", "import torch") / 2


def test_version_and_help(domainwise) -> None:
    assert domainwise("--version") == (0, f"domainwise {__version__}\n", "")
    code, out, _ = domainwise("--help")
    assert code == 0
    assert all(command in out for command in ("demo", "compare", "run", "report", "algorithms"))
    assert domainwise("--show-completion")[0] in (0, 1)


@pytest.mark.parametrize("form", ["csv", "json", "markdown", "table"])
def test_only_the_table_is_on_standard_output(domainwise, form: str) -> None:
    code, out, err = domainwise(*compare("--format", form, "-o", "out"))
    assert code == 0
    assert "report: " in err
    assert "report: " not in out
    if form == "json":
        json.loads(out)
    if form == "csv":
        assert len(list(csv.DictReader(io.StringIO(out)))) >= 2


def test_quiet_says_nothing_but_the_result(domainwise) -> None:
    code, out, err = domainwise(*compare("--quiet"))
    assert (code, err) == (0, "")
    assert "arith" in out


def test_a_dry_run_runs_nothing(domainwise, tmp_path: Path) -> None:
    code, out, _ = domainwise(*compare("--dry-run", "-o", "out"))
    assert code == 0
    assert "2 trials to run" in out
    assert not (tmp_path / "out").exists()


def test_own_folders_with_strange_names_go_all_the_way_to_the_report(domainwise, tmp_path: Path) -> None:
    root = image_folder(tmp_path / "mine", ("<script>alert(1)", "a b", "ünï"))
    code, out, err = domainwise(
        "compare", "--data", root, "--algorithms", "erm,fish", "--targets", "all", "--seeds", 1, "--steps", 3,
        "--size", 16, "-o", tmp_path / "out",
    )  # fmt: skip
    assert code == 0, err
    assert "not pretrained" in err
    assert "ünï" in out
    assert "<script>alert(1)" not in (tmp_path / "out" / "report.html").read_text()


def test_a_third_partys_algorithm_runs_from_its_file(domainwise, tmp_path: Path) -> None:
    (tmp_path / "my_idea.py").write_text(
        "from domainwise.algorithms import Algorithm, algorithm, hyper\n"
        "@algorithm\n"
        "class MyIdea(Algorithm):\n"
        "    strength: float = hyper(0.1, least=0)\n"
    )
    code, out, err = domainwise(
        "compare", "--algorithms", "erm,my_idea.py:MyIdea(strength=0.2)", "--data", "digits", *SHORT
    )
    assert code == 0, err
    assert "MyIdea(strength=0.2)" in out


def test_one_trial_by_itself(domainwise) -> None:
    code, out, _ = domainwise("run", "--data", "digits", "--algorithm", "arith", "--target", "0", "--steps", 3)
    assert code == 0
    assert "arith" in out


def test_a_sweep_goes_on_from_a_comparison_and_knows_how_long_it_will_take(domainwise) -> None:
    domainwise(*compare("-o", "out"))
    sweep = ["sweep", *compare("-o", "out", "--draws", 2)[1:]]
    code, out, err = domainwise(*sweep)
    assert code == 0, err
    assert "4 trials of 3 updates" in err
    assert "2 of them are in out already" in err
    assert re.search(r"2 to run, 1 at once: about \d+ s", err)
    assert "several trials" in " ".join(out.split())
    assert "ended    4 finished" in domainwise("status", "out")[1]


def test_a_diverging_trial_ends_with_a_sentence_and_the_others_go_on(domainwise) -> None:
    algorithms = "erm,arith(lr=1e30,inner_lr=1e30)"
    code, out, err = domainwise("compare", "--data", "digits", "--algorithms", algorithms, *SHORT[:4], "--steps", 12)
    assert code == 1
    assert "diverged at" in out
    assert "try a smaller inner_lr" in err
    assert "Traceback" not in err


def test_a_report_can_be_made_again(domainwise, tmp_path: Path) -> None:
    domainwise(*compare("-o", "out"))
    (tmp_path / "out" / "report.html").unlink()
    code, out, _ = domainwise("report", "out")
    assert code == 0
    assert "arith" in out
    assert (tmp_path / "out" / "report.html").exists()


def test_models_are_kept_as_asked_and_the_disk_they_need_is_said(domainwise, tmp_path: Path) -> None:
    code, _, err = domainwise(*compare("--algorithms", "erm", "--keep", "all", "--snapshots", 2, "-o", "out"))
    assert code == 0, err
    assert re.search(r"disk: about [\d.]+ [kM]B for what stays and [\d.]+ [kM]B while it runs; .* are free", err)
    kept = {str(file.parent.relative_to(tmp_path / "out")) for file in tmp_path.rglob("*.safetensors")}
    assert {Path(*Path(folder).parts[2:]).as_posix() for folder in kept} == {
        "best", "models/0", "models/1", "models/2", "snapshots/1", "snapshots/2",
    }  # fmt: skip


def test_the_report_is_written_while_trials_run(domainwise, tmp_path: Path, monkeypatch) -> None:
    pages: list[str] = []
    write = Results.report

    def report(self, path, **how: str):
        written = write(self, path, **how)
        pages.append(written.read_text())
        return written

    monkeypatch.setattr(Results, "report", report)
    monkeypatch.setattr("domainwise.report.results.AT_LEAST", 0)
    monkeypatch.setattr("domainwise.report.results.SHARE", 0)
    domainwise(*compare("--algorithms", "erm,arith,fish", "-o", "out"))
    assert [re.findall(r"(\d) of 3 trials have ended", page) for page in pages] == [["1"], ["2"], []]
    assert ['http-equiv="refresh"' in page for page in pages] == [True, True, False]


def test_a_report_names_the_classes_though_no_model_was_kept(domainwise, tmp_path: Path) -> None:
    folder = image_folder(tmp_path / "pictures", ("art", "photo", "sketch"), count=8)
    about = ["--algorithms", "erm", "--targets", "art", "--seeds", 1, "--steps", 3, "--size", 16, "--keep", "none"]
    code, _, err = domainwise("compare", "--data", folder, *about, "-o", "out")
    assert code == 0, err
    page = (tmp_path / "out" / "report.html").read_text()
    assert not list(tmp_path.rglob("*.safetensors"))
    assert re.search(r">\s*cat\s*<", page)
    assert re.search(r">\s*dog\s*<", page)


def test_algorithms_are_listed_with_their_hyperparameters(domainwise) -> None:
    code, out, _ = domainwise("algorithms")
    assert code == 0
    assert all(word in out for word in ("erm", "arith", "inner_lr", "weight_decay"))
    assert "fish" not in domainwise("algorithms", "erm")[1]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (compare("--algorithms", "arih"), 'there is no algorithm "arih": did you mean arith'),
        (compare("--algorithms", "arith(inner_lr=-1)"), "inner_lr must be 0 or more"),
        (compare("--set", "inner_lr"), "write --set NAME=VALUE"),
        (compare("--set", "iner_lr=1"), 'has a hyperparameter "iner_lr"'),
        (compare("--targets", "76"), '"76" is not a domain of digits: did you mean 75'),
        (compare("--data", "nowhere"), "nowhere"),
        (compare("--device", "cuda:99"), "use the device cpu"),
        (compare("--device", "abacus"), '"abacus" is not a device'),
        (compare("--per-gpu", "some"), '--per-gpu is how many trials run side by side on a GPU, or auto: got "some"'),
        (["sweep", *compare("--engine", "ray", "--address", "127.0.0.2:1")[1:]], "Ray"),
        (["status", "nowhere"], "not a folder that domainwise has worked in"),
        (["report", "nowhere"], "nowhere has no finished trials"),
    ],
)
def test_bad_input_is_a_sentence_and_exit_code_2(domainwise, tmp_path: Path, arguments: list, sentence: str) -> None:
    code, _, err = domainwise(*arguments)
    assert code == 2
    assert sentence in err
    assert err.startswith("domainwise: ")
    assert "Traceback" not in err
    assert not (tmp_path / "domainwise-runs").exists()


def test_bad_folders_are_sentences(domainwise, tmp_path: Path) -> None:
    root = image_folder(tmp_path / "mine", ("a", "b"))
    ask = ["compare", "--data", root, "--algorithms", "erm", "--seeds", 1, "--steps", 2, "--size", 8, "-o", "out"]
    (root / "a" / "cat" / "0.png").write_bytes(b"no image")
    code, _, err = domainwise(*ask)
    assert (code, "a/cat/0.png" in err.replace("\\", "/"), "--skip-corrupt" in err) == (2, True, True)
    code, _, err = domainwise(*ask, "--skip-corrupt")
    assert code == 0
    assert "0.png" in err
    shutil.rmtree(root / "b" / "dog")
    code, _, err = domainwise(*ask, "--skip-corrupt", "--strict")
    assert code == 2
    assert 'domain "b" has no class "dog"' in err
    shutil.rmtree(root / "b")
    assert "only one domain" in domainwise(*ask)[2]


def test_options_in_groups_are_options_like_any_other() -> None:
    """A dataclass among the parameters of a command stands for its fields, with their names, defaults and help."""
    heard: list[Shared] = []

    @grouped
    def command(word: str, *, times: int = 2, shared: Shared) -> None:
        """What it does."""
        heard.append(shared)
        print(word * times)

    own = typer.Typer()
    own.command()(command)
    runner = CliRunner()
    assert runner.invoke(own, ["a"]).output == "aa\n"
    assert runner.invoke(own, ["b", "--times", "3", "--depth", "7", "--loud"]).output == "bbb\n"
    assert heard == [Shared(), Shared(7, True)]
    shown = runner.invoke(own, ["--help"]).output
    assert all(word in shown for word in ("What it does.", "--depth", "How deep.", "--loud", "[default: 1]"))
    assert "shared" not in shown
    assert runner.invoke(own, ["c", "--depth", "x"]).exit_code == 2


@dataclass(frozen=True)
class Shared:
    depth: Annotated[int, typer.Option(help="How deep.")] = 1
    loud: Annotated[bool, typer.Option("--loud")] = False


def test_bench_on_a_cpu_says_how_far_it_is_and_that_a_backbone_takes_long(domainwise, monkeypatch) -> None:
    monkeypatch.setattr("domainwise.terminal.SECONDS", 0.0)
    little = ["bench", "--algorithms=erm", "--size=16", "--batch=2", "--updates=1", "--threads=1"]
    code, _, said = domainwise(*little, "--network=small")
    assert code == 0
    assert "updates and evaluations: 1 of 17, about" in said
    assert "many minutes" not in said
    monkeypatch.setattr(
        "domainwise.acceleration.benchmark.measure", lambda *given: Timing("erm", 1.0, 1.0, 1.0, 1.0, None, 1.0)
    )
    assert "on a CPU an update of a backbone takes seconds" in domainwise(*little, "--network=resnet50")[2]
