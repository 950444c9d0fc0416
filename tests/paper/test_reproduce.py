from __future__ import annotations

import io
import json
import re
import shutil
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from made_data import image_folder
from made_outcomes import Study
from made_paper import ended, settings, tiny

from domainwise.__main__ import main
from domainwise.paper.claims import Gap
from domainwise.paper.layout import PaperRequest
from domainwise.paper.tables import TABLE4
from domainwise.report.formats import Row, Table
from domainwise.report.page.page import render

FORMATS = ("txt", "md", "tex", "csv", "json")


@pytest.fixture
def reproduce(monkeypatch, tmp_path, capsys):
    """The command, run in this process and in an empty folder: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["domainwise", "reproduce", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return int(end.value.code or 0), said.out, said.err

    return call


DIGITS = ["--data", "digits", "--seeds", 1, "--steps", 3, "--targets", "75", "--processes", 1]


def test_a_table_is_printed_written_in_every_format_and_not_run_again(reproduce, tmp_path: Path) -> None:
    short = ["table1", *DIGITS, "--algorithms", "erm,arith", "-o", "out"]
    code, out, err = reproduce(*short)
    assert code == 0, err
    assert out.startswith("Table 1, accuracy on DomainBed: digits stands in for the paper's data")
    assert "the numbers are not comparable" in out
    assert "[2/2]" in err
    made = tmp_path / "out" / "reproduce"
    assert {file.name for file in made.iterdir()} == {
        "index.html",
        "report.html",
        *(f"table1.{suffix}" for suffix in FORMATS),
    }
    assert (made / "table1.txt").read_text() == out.removesuffix("\n")
    report = (made / "report.html").read_text()
    assert "numbers and these" in report
    assert '<td><span class="plain">85.5</span></td>' in report.replace("\n", "")  # what the paper has for ERM
    again = reproduce(*short)
    assert again[1] == out
    assert "2 of them are in out already and are not repeated" in again[2]
    alone = reproduce("table1", "--from", "out")
    assert alone[1] == out
    found = json.loads(reproduce("table1", "--from", "out", "--format", "json")[1])
    assert [row["name"] for row in found["sections"][0]["rows"] if row["cells"][0]["selected"]["n"]] == ["ERM", "Arith"]


def test_tables_share_what_they_run(reproduce) -> None:
    short = [*DIGITS, "--algorithms", "fish", "-o", "out"]
    assert "[1/1]" in reproduce("table4", *short)[2]
    assert "1 of them are in out already" in reproduce("table1", *short)[2]
    assert "1 of them are in out already" in reproduce("figure5", *short)[2]


def test_figure_5_is_a_picture_and_its_numbers(reproduce, tmp_path: Path) -> None:
    code, out, err = reproduce("figure5", *DIGITS, "--algorithms", "fish", "-o", "out")
    assert code == 0, err
    assert "Fish, k = 10" in out
    made = tmp_path / "out" / "reproduce"
    assert (made / "figure5.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (made / "figure5.svg").read_text()
    assert (made / "figure5-numbers.csv").is_file()
    assert 'src="figure5.svg"' in (made / "index.html").read_text()


@pytest.fixture(scope="module")
def without_data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of all that needs no data, and what was printed."""
    folder, out = tmp_path_factory.mktemp("paper"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        patch.setattr(sys, "argv", ["domainwise", "reproduce", "all", "-o", str(folder), "-q"])
        with pytest.raises(SystemExit) as end:
            main()
    assert not end.value.code
    return folder, out.getvalue()


def test_what_needs_no_data_is_made_without(without_data: tuple[Path, str]) -> None:
    made = without_data[0] / "reproduce"
    for suffix, begins in (("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF")):
        pictures = {file.stem: file.read_bytes() for file in made.glob(f"*.{suffix}")}
        assert set(pictures) == {"figure1", "figure1-plane", "figure1-ends", "figure2", "figure4"}
        assert all(content.startswith(begins) for content in pictures.values())
    assert b"/FontFile2" in pictures["figure1"]  # TrueType
    assert b"/Type3" not in pictures["figure1"]  # fonts that journals refuse
    assert b"CreationDate" not in pictures["figure1"]  # the same bytes another time
    shown = re.findall(r'<a href="(figure1\S*\.svg)"><img', (made / "index.html").read_text())
    assert shown == [f"figure1{added}.svg" for added in ("", "-ends", "-plane")]  # as the notes tell of them


def test_all_of_it_without_data_is_what_the_paper_printed_and_what_is_computed(without_data: tuple[Path, str]) -> None:
    folder, out = without_data
    assert "Table 5" in out
    assert out.count("the paper's numbers alone") == 6  # table 3 has two parts
    made = {file.stem for file in (folder / "reproduce").glob("*.txt")}
    assert made == {*(f"table{i}" for i in range(1, 6)), "figure1", "figure2", "figure4"}


def test_a_folder_serves_afterwards(without_data: tuple[Path, str], reproduce, tmp_path: Path) -> None:
    shutil.copytree(without_data[0], tmp_path / "out")
    assert reproduce("table1", *DIGITS, "--algorithms", "erm", "-o", "out")[0] == 0
    page = (tmp_path / "out" / "reproduce" / "index.html").read_text()
    assert all(f'id="{name}"' in page for name in ("table1", "table5", "figure1", "figure2", "figure4"))


def test_a_dry_run_names_every_trial_once_and_leaves_nothing(reproduce, tmp_path: Path) -> None:
    code, out, _ = reproduce("all", *DIGITS, "--dry-run")
    assert code == 0
    ids = [line.split()[0] for line in out.splitlines() if "target 75" in line]
    assert len(set(ids)) == 15 + 7 + 8 + 8  # tables 1, 2, 3 and figure 5; table 4 is among them
    assert len(ids) == len(set(ids)) + 1  # the model that figures 3 and 4 look inside has a folder of its own
    assert not list(tmp_path.iterdir())


def test_digits_have_settings_of_their_own_for_a_quick_look(reproduce) -> None:
    _, out, err = reproduce("table4", "--data", "digits", "--dry-run")
    assert "24 trials of 151 updates" in err
    assert "target 0, 75; 3 seeds" in err
    assert "reproduce-digits" in out


def test_data_that_a_table_is_not_about_is_not_run_for_it(reproduce, tmp_path: Path) -> None:
    (tmp_path / "vlcs").mkdir()
    code, out, _ = reproduce("table2", "--data", "vlcs=vlcs", "-o", "out")
    assert code == 0
    assert "Not run: A, C, P, S, Avg; the paper's numbers alone." in out


def test_a_folder_that_is_only_called_like_a_benchmark_is_not_taken_for_it(reproduce, tmp_path: Path) -> None:
    image_folder(tmp_path / "pacs", ("a", "b", "c"))
    code, _, err = reproduce("table1", "--data", "pacs", "--algorithms", "erm", "--size", 8)
    assert code == 2
    assert "pacs is called like a benchmark of the paper: if it is that, give --data pacs=pacs" in err


def test_nothing_is_written_into_a_folder_of_somebody_elses(reproduce, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").touch()
    code, _, err = reproduce("figure1", "-o", "out")
    assert code == 2
    assert "has files that are not from domainwise (thesis.tex)" in err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.tex"]


def test_no_link_in_a_folder_is_written_through(reproduce, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "out" / "reproduce").mkdir(parents=True)
    for name in ("figure2.svg", "figure2.txt", "figure2.png", "index.html"):
        (tmp_path / "out" / "reproduce" / name).symlink_to(victim)
    assert reproduce("figure2", "-o", "out")[0] == 0
    assert victim.read_text() == "mine"
    assert not (tmp_path / "out" / "reproduce" / "index.html").is_symlink()


def test_settings_that_differ_in_a_folder_make_tables_apart(reproduce, tmp_path: Path) -> None:
    for precision in ("fp32", "bf16"):
        trials = TABLE4.trials(
            tiny(), settings("swad", precision=precision), PaperRequest(seeds=1), tmp_path / "results"
        )
        ended(trials, swad=0.01)
    code, out, _ = reproduce("table4", "--from", "results", "-o", "out")
    assert code == 0
    assert "(precision=bf16)" in out
    assert "(precision=fp32)" in out
    made = {file.name for file in (tmp_path / "out" / "reproduce").glob("*.md")}
    assert made == {"table4-precision-bf16.md", "table4-precision-fp32.md"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["table9", "--data", "digits"], 'there is no "table9" to reproduce: did you mean'),
        (["table2", "--data", "digits", "--per-domain"], "--per-domain is for table1 and table4"),
        (["table2", "--data", "digits", "--algorithms", "coral"], '"coral" is not in table2'),
        (["table1"], "table1 needs --data"),
        (["table1", "--data", "pacs=nowhere", "--data", "digits"], "digits is none of the paper's data"),
        (["figure3", "--from", "results"], "figure3 cannot be made from results alone"),
        (["table1", "--from", "nowhere"], "nowhere has no finished trials"),
        (["table2", "--from", "results", "--algorithms", "maml"], "has no trial that belongs to table2"),
        (["table1", "--data", "pacs"], "pacs is not embedded: say where it lies"),
    ],
)
def test_what_cannot_be_made_is_a_sentence(words: list[str], sentence: str, reproduce, tmp_path: Path) -> None:
    ended(TABLE4.trials(tiny(), settings("swad"), PaperRequest(seeds=1), tmp_path / "results"), swad=0.01)
    code, _, err = reproduce(*words)
    assert code == 2
    assert sentence in err
    assert len(err.strip().splitlines()) == 1


def test_a_difference_has_its_sign_on_the_page_as_in_the_text(tmp_path: Path) -> None:
    table = Table(("paper",), (Row("a above b", (Gap(0.012),)),), "claims", "claim")
    page = render(Study(tmp_path).add().outcomes, beside=[("claims", [table])])
    assert "+1.2" in table.render()
    assert '<span class="plain">+1.2</span>' in page


def test_an_algorithm_of_ones_own_has_its_row_in_the_first_table(reproduce, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from domainwise.algorithms import Algorithm, algorithm, hyper\n\n\n@algorithm\nclass Mine(Algorithm):\n"
        "    strength: float = hyper(0.1)\n"
    )
    short = ["table1", *DIGITS, "-o", "out", "--algorithms"]
    code, out, err = reproduce(*short, "erm,mine.py:Mine(strength=0.2)")
    assert code == 0, err
    own, *_ = re.findall(r"^Mine\(strength=0.2\) .*$", out, re.MULTILINE)
    assert re.search(r"\d\d?\.\d", own)
    code, out, err = reproduce("table1", "--from", "out")
    assert code == 0, err
    assert own.split() == re.findall(r"^Mine\(strength=0.2\) .*$", out, re.MULTILINE)[0].split()
    code, _, err = reproduce("table2", *DIGITS, "--algorithms", "mine.py:Mine")
    assert (code, "algorithms of your own have their place in table1" in err) == (2, True)
