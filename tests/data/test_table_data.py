"""Texts as they are, and tables in files: token ids are made once, and a model takes texts too."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import domainwise as dw
from domainwise.data.domains import HOLDOUT, MAIN, Domains
from domainwise.data.sources.texts import LONGEST, tokenised
from domainwise.errors import InputError
from domainwise.training.reading import open_data

Command = Callable[..., tuple[int, str, str]]
GOOD, BAD = "a wonderful, moving film", "a dull and tiresome bore"
ABOUT = {"books": "chapter prose author", "films": "actor scene camera", "songs": "chorus melody band"}


def reviews(count: int = 30) -> dict[str, tuple[list[str], list[str]]]:
    random = np.random.default_rng(0)
    texts = {name: [] for name in ABOUT}  # type: ignore[var-annotated]
    for name, words in ABOUT.items():
        for i in range(count):
            said = [*(GOOD if i % 2 else BAD).split(), *random.choice(words.split(), 3)]
            texts[name].append(" ".join(random.permutation(said)))
    return {name: (own, ["good" if i % 2 else "bad" for i in range(count)]) for name, own in texts.items()}


def written(path: Path, rows: list[str], encoding: str = "utf-8") -> Path:
    path.write_text("\n".join(rows) + "\n", encoding=encoding)
    return path


def review_file(path: Path, **kwargs: Any) -> Path:
    rows = ["domain,label,text,stars"]
    rows += [
        f'{name},{y},"{x}",5' for name, (own, labels) in reviews().items() for x, y in zip(own, labels, strict=True)
    ]
    return written(path, rows, **kwargs)


def test_words_are_the_same_in_any_case_and_company_and_signs_without_blanks_are_words() -> None:
    ids = lambda text: tokenised({"": [text]})[""]["input_ids"][0].tolist()  # noqa: E731
    assert ids("The film, was") == [*ids("the"), *ids("film"), *ids(","), *ids("was")]
    assert ids("\uff26ilm Ström") == ids("film STRÖM")
    assert ids("電影 good") == [*ids("電"), *ids("影"), *ids("good")]
    assert len(ids("so " * 1000)) == LONGEST
    assert min(ids(" ".join(map(str, range(200))))) > 0
    made = tokenised({"a": ["one two three"], "b": ["one"]})
    assert made["b"]["input_ids"].shape == (1, 3)
    assert made["b"]["attention_mask"].tolist() == [[True, False, False]]


def test_texts_in_a_file_and_in_memory_are_the_same(tmp_path: Path) -> None:
    made = dw.domains(reviews(), name="reviews", classes=["bad", "good"])
    for encoding in ("utf-8", "utf-16"):
        opened = open_data(review_file(tmp_path / "reviews.csv", encoding=encoding))
        assert (opened.form, opened.names, opened.classes) == ("texts", ("books", "films", "songs"), ("bad", "good"))
        assert opened.fingerprint == made.fingerprint
    made.save(tmp_path / "kept")
    assert Domains.open(tmp_path / "kept").tokenizer == made.tokenizer == "words"
    as_array = {name: (np.array(x, dtype=object), y) for name, (x, y) in reviews().items()}
    assert dw.domains(as_array, name="reviews").fingerprint == made.fingerprint


def test_a_model_takes_texts_and_says_what_it_saw(tmp_path: Path) -> None:
    file = review_file(tmp_path / "reviews.csv")
    results = dw.compare(str(file), "erm,arith", seeds=1, targets="songs", steps=15, output=tmp_path / "out")
    assert {one.trial.network for one in results.outcomes} == {"words"}
    model = dw.fit(str(file), "arith", steps=40, lr=0.01, output=tmp_path / "model")
    assert model.predict(["What a wonderful film!", "tiresome, dull"]) == ["good", "bad"]
    assert model.predict("Wonderful and moving.") == ["good"]
    assert json.loads((tmp_path / "model/best/config.json").read_text())["tokenizer"] == "words"
    again = dw.load(tmp_path / "model")
    longer = "and so on " * 60 + GOOD  # longer than any that was trained on
    assert np.array_equal(again.probabilities([longer]), model.probabilities([longer]))
    assert again.evaluate(str(file)).accuracy > 0.9
    assert again.evaluate({"new": (["a wonderful scene", "dull"], ["good", "bad"])}).accuracy == 1
    with pytest.raises(InputError, match=r"the list has 1 of 2 texts without a word \(number 1 \('  '\)\)"):
        again.predict(["good", "  "])


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (
            ["fine", "", " ", "so"],
            r'domain "b" has 2 of 4 texts without a word \(number 1 \(\'\'\), 2 \(\' \'\)\): leave',
        ),
        (
            ["fine", float("nan"), "so", None],
            r'domain "b" has 2 of 4 texts that are no texts \(number 1 \(nan\), 3 \(N',
        ),
        (np.zeros((4, 2)), 'domain "a" has texts and "b" has none: all must have one form'),
    ],
)
def test_bad_texts_are_counted_and_the_first_ones_named(texts: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        dw.domains({"a": (["x", "y", "x", "y"], [0, 1, 0, 1]), "b": (texts, [0, 1, 0, 1])})


def test_numbers_in_a_file_are_a_table_with_its_groups_and_parts(tmp_path: Path) -> None:
    rows = ["domain;label;height;weight;group;split"]
    rows += [
        f"{name};{i % 2};{i}.5;{-i};p{i // 2};{'train' if i < 8 else 'holdout'}" for name in "ba" for i in range(10)
    ]
    data = open_data(written(tmp_path / "sizes.csv", rows))
    assert (data.form, data.names, data.extent, data.classes) == ("rows", ("a", "b"), "2 columns", ("0", "1"))
    assert data["a"].images[3].tolist() == [3.5, -3]
    assert data["b"].groups is not None
    assert data["b"].groups.tolist() == [i // 2 for i in range(10)]
    assert data["a"].fixed is not None
    assert data["a"].fixed.tolist() == [MAIN] * 8 + [HOLDOUT] * 2
    dw.compare(str(tmp_path / "sizes.csv"), "erm", seeds=1, steps=2, output=tmp_path / "out")


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (
            ["domain,label,x", "a,0,1", "a,1,", "b,0,y", "b,1,2"],
            r'column "x" has 2 of 4 cells .*, the first of them "" on',
        ),
        (["domain,label,x", "a,0,1", "a,1,2"], "sizes has only one domain"),
        (["domain,label,x", "a,0,1", "a,,2", "b,0,1"], "line 3: there is no label"),
        (["domain,label,x", "a,0,1", "a,1"], "line 3: 2 cells, but the header has 3"),
        (["domain,label,file", "a,0,x.png", "b,1,y.png"], "has no column path"),
        (["domain,text", "a,so", "b,no"], "has no column path and no label"),
    ],
)
def test_a_bad_table_is_a_sentence_that_says_where(tmp_path: Path, rows: list[str], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        open_data(written(tmp_path / "sizes.csv", rows))


def test_texts_in_a_file_go_through_every_command(domainwise: Command, tmp_path: Path) -> None:
    file = review_file(tmp_path / "reviews.csv")
    done, out, _ = domainwise("inspect", file)
    assert (done, "reviews: 90 texts in 3 domains" in out, "each: 8 tokens" in out) == (0, True, True)
    assert not (tmp_path / "domainwise-inspect.png").exists()
    done, _, err = domainwise("inspect", file, "--picture", "p.png")
    assert (done, "reviews has texts and no images" in err) == (2, True)
    asked = ("--algorithms", "erm", "--steps", 4, "--seeds", 1, "-o", "out")
    assert domainwise("compare", "--data", file, *asked)[0] == 0
    assert domainwise("report", "out")[0] == 0
    done, out, err = domainwise("fit", "--from", "out", "--data", file, "-o", "model")
    assert (done, "predict(samples)" in out, "of new images" in out) == (0, True, False), err
    assert domainwise("evaluate", "model", file)[0] == 0


def test_a_table_in_another_encoding_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 2: this is not UTF-8: save the file with that encoding"):
        open_data(written(tmp_path / "x.csv", ["domain,label,text", "a,0,schön", "b,1,so"], encoding="latin-1"))


def test_a_folder_of_npz_files_is_its_arrays(tmp_path: Path) -> None:
    place = tmp_path / "waves"
    place.mkdir()
    x, y = np.random.default_rng(0).normal(size=(6, 2, 9)), np.array(["up", "down"] * 3)
    for name in "ba":
        np.savez(place / f"{name}.npz", X=x, y=y, group=np.arange(6) // 2)
    data = open_data(place)
    groups = dict.fromkeys("ab", np.arange(6) // 2)
    made = dw.domains({"a": (x, y), "b": (x, y)}, name="waves", groups=groups)
    assert (data.form, data.fingerprint, data.names) == ("signals", made.fingerprint, ("a", "b"))
    for name in "ab":
        np.savez(place / f"{name}.npz", input_ids=np.ones((6, 4), int), attention_mask=np.ones((6, 4), bool), y=y)
    assert (open_data(place).form, open_data(place).extent) == ("texts", "4 tokens")
    assert dw.open_data(place).form == "texts"


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"X": np.ones((4, 2))}, r"b.npz has X: it must have the samples X and the labels y"),
        ({"X": np.ones((4, 2)), "y": np.array([0, 1, 0, 1])}, r"b.npz has no group, and others have"),
        ({"X": np.ones((4, 2)), "y": np.array(["a", None, "b", "a"])}, r"b.npz cannot be read as arrays .* dtype=str"),
        (None, r"b.npz cannot be read as arrays"),
    ],
)
def test_a_bad_npz_file_is_named(tmp_path: Path, arrays: dict[str, Any] | None, sentence: str) -> None:
    np.savez(tmp_path / "a.npz", X=np.ones((4, 2)), y=np.array([0, 1, 0, 1]), group=np.arange(4))
    if arrays is None:
        (tmp_path / "b.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:100])
    else:
        np.savez(tmp_path / "b.npz", **arrays)
    with pytest.raises(InputError, match=sentence):
        open_data(tmp_path)
