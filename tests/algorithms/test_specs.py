"""Algorithms are given as text, as classes and as objects, wherever the class was written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from made_data import stripes

import domainwise as dw
from domainwise.algorithms import Algorithm, algorithm, hyper, specs_of
from domainwise.algorithms.arith import Arith
from domainwise.algorithms.erm import ERM

SHORT = {"targets": "c", "seeds": 1, "steps": 4}
MINE = """
from domainwise.algorithms import Algorithm, algorithm, hyper

@algorithm
class Mine(Algorithm):
    strength: float = hyper(0.1)
    def loss(self, batches):
        return super().loss(batches) * (1 + self.strength)
"""


def test_classes_and_objects_stand_for_their_text() -> None:
    given = specs_of(["erm", Arith(inner_lr=0.02), ERM])
    assert [spec.label for spec in given] == ["erm", "arith(inner_lr=0.02)", "erm"]
    assert specs_of(Arith) == specs_of("arith")
    assert specs_of(Arith(inner_lr=0.02)) == specs_of("arith(inner_lr=0.02)")
    with pytest.raises(dw.InputError, match="Algorithm is not an algorithm: derive it from Algorithm"):
        specs_of(Algorithm)
    with pytest.raises(dw.InputError, match="no algorithm was named"):
        specs_of([])


def test_a_class_of_a_module_is_that_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "idea.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    import idea  # type: ignore[import-not-found]

    monkeypatch.delitem(sys.modules, "idea", raising=False)
    monkeypatch.setitem(sys.modules, "idea", idea)
    text = f"{tmp_path / 'idea.py'}:Mine(strength=0.5)"
    assert specs_of(idea.Mine(strength=0.5)) == specs_of(text)


def test_a_class_of_this_session_is_known_by_its_source_and_runs_here(tmp_path: Path) -> None:
    @algorithm
    class Mine(Algorithm):
        strength: float = hyper(0.1)

        def loss(self, batches):
            return super().loss(batches) * (1 + self.strength)

    data = stripes()
    results = dw.compare(data, ["erm", Mine, Mine(strength=0.5)], output=tmp_path, **SHORT)
    assert [one.trial.label for one in results.outcomes] == ["erm", "Mine", "Mine(strength=0.5)"]
    assert {one.result["status"] for one in results.outcomes} == {"finished"}
    (first,) = (one.trial for one in results.outcomes if one.trial.label == "Mine")
    for options in ({"processes": 2}, {"timeout": 60.0}):
        with pytest.raises(dw.InputError, match=r"Mine was defined in this program and lies in no file"):
            dw.compare(data, Mine, output=tmp_path, **SHORT, **options)

    @algorithm
    class Mine(Algorithm):  # another of that name
        strength: float = hyper(0.1)

        def loss(self, batches):
            return super().loss(batches) * (2 + self.strength)

    again = dw.compare(data, Mine, output=tmp_path, **SHORT).outcomes
    assert again[0].trial.id != first.id
    assert dw.fit(data, Mine, steps=2, output=tmp_path / "model").predict(data["a"].images[:3])


def test_another_session_says_what_it_lacks(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"{MINE}\nimport domainwise as dw\n"
        f"model = dw.fit(dw.digits(), Mine, steps=2, output={str(tmp_path / 'model')!r}, device='cpu')\n"
        f"print(model.predict(dw.digits()['0'].images[:2]))\n"
    )
    end = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert end.returncode == 0, end.stderr
    assert end.stdout.startswith("['")
    with pytest.raises(dw.InputError, match="the algorithm Mine was defined in a Python session and lies in no file"):
        dw.load(tmp_path / "model")


FACTOR = 1.0
TABLE = {"a": [1, 2]}
TEACHER = object()


def doubled(x):
    return FACTOR * x


def made_with(factor):
    @algorithm
    class Made(Algorithm):
        def loss(self, batches):
            return factor * super().loss(batches)

    return Made


def reading():
    @algorithm
    class Reading(Algorithm):
        def loss(self, batches):
            return sum(doubled(one) * TABLE["a"][0] for one in [super().loss(batches)])

    return Reading


def test_what_a_class_reads_around_it_makes_it_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def source(cls):
        return specs_of(cls)[0].source

    assert source(made_with(1.0)) == source(made_with(1.0)) != source(made_with(2.0))
    assert source(made_with(torch.ones(2))) != source(made_with(torch.zeros(2)))
    cls = reading()
    spec, seen = specs_of(cls)[0], {source(cls)}
    for name, value in {"FACTOR": 5.0, "TABLE": {"a": [7, 2]}, "doubled": lambda x: 2 * x}.items():
        with monkeypatch.context() as patch:
            patch.setitem(globals(), name, value)
            seen.add(source(cls))
            with pytest.raises(dw.InputError, match="what the algorithm Reading reads in this program has changed"):
                spec.cls()
    assert len(seen) == 4
    assert spec.cls() is cls
    data, asked = stripes(), {**SHORT, "output": tmp_path}
    ids = [dw.compare(data, made_with(factor), **asked).outcomes[0].trial.id for factor in (1.0, 0.0)]
    assert len(set(ids)) == 2
    with pytest.raises(dw.InputError, match="Made reads factor, an object of the type object, of which it cannot be"):
        specs_of(made_with(TEACHER))


def test_a_class_of_this_session_is_another_where_the_one_it_derives_from_is() -> None:
    def derived(factor):
        @algorithm
        class Derived(made_with(factor)):  # type: ignore[misc]
            def prepare(self, batches):
                return super().prepare(batches)

        return Derived

    assert specs_of(derived(1.0))[0].source != specs_of(derived(2.0))[0].source
