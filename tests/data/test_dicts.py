"""Dicts of arrays, such as the token ids of texts with their masks, go the way of images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_trials import Killed, die, remains, run, trial

import domainwise as dw
from domainwise.acceleration.cuda_graph import updater
from domainwise.acceleration.recorders import Tapes
from domainwise.algorithms import create, names
from domainwise.analysis.task import Losses, gradient, task
from domainwise.data.batches.feed import Feed, batches
from domainwise.data.batches.inputs import Inputs, Part
from domainwise.data.batches.rows import Rows
from domainwise.data.domains import Domains
from domainwise.data.inspect import survey
from domainwise.errors import InputError
from domainwise.losses import in_parts, joined
from domainwise.networks.network import Network, build
from domainwise.networks.samples import one_of

LENGTH = 12


def texts(count: int = 40) -> Domains:
    """The class is which of two words is somewhere in a text; each domain has other words around it."""
    return dw.domains({name: tokens(i, count) for i, name in enumerate("abc")}, name="texts")


def tokens(seed: int, count: int = 40) -> tuple[dict[str, Any], list[str]]:
    random = np.random.default_rng(seed)
    y = np.arange(count) % 2
    ids = random.integers(100 * (seed + 1), 100 * (seed + 2), (count, LENGTH))
    long = random.integers(4, LENGTH + 1, count)
    ids[np.arange(count), random.integers(0, long)] = 10 + y
    mask = np.arange(LENGTH) < long[:, None]
    return {"input_ids": ids * mask, "attention_mask": mask.astype(np.int64)}, ["good" if one else "bad" for one in y]


def test_dicts_keep_their_arrays_and_names(tmp_path: Path) -> None:
    data = texts()
    data.save(tmp_path / "kept")
    again = Domains.open(tmp_path / "kept")
    for one in (data, again):
        assert (one.form, one.extent) == ("texts", "12 tokens")
        assert np.array_equal(one["b"].images["input_ids"], tokens(1)[0]["input_ids"])
        assert np.array_equal(one["b"].images["attention_mask"], tokens(1)[0]["attention_mask"])
    assert again.fingerprint == data.fingerprint
    assert again["a"].images.itemsize == 5 * LENGTH  # four bytes for an id, one for its mask
    assert survey(data).modes == {"numbers": 120}


def test_the_fingerprint_tells_dicts_by_values_and_names() -> None:
    y = [0, 1, 0, 1]
    ids = np.arange(8).reshape(4, 2)
    made = [{"input_ids": ids}, {"input_ids": ids + 1}, {"ids": ids}, {"input_ids": ids, "attention_mask": ids > 0}]
    assert len({dw.domains(dict.fromkeys("ab", (x, y))).fingerprint for x in made}) == 4


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (
            {"input_ids": np.zeros((4, 2)), "attention_mask": np.zeros((3, 2))},
            'domain "b" has 4 of input_ids, 3 of att',
        ),
        ({}, 'a dict has as many samples in each of its arrays, and domain "b" has none'),
        ({"input_ids": np.full((4, 2), -1)}, r'the input_ids of domain "b" must be .* from 0 to .* from -1 to -1'),
        ({"input_ids": np.full((4, 2), "a")}, r'the input_ids of domain "b" must be numbers, .*, got <U1 of \(4, 2\)'),
        (
            {"x": np.array([0, np.nan, 0, 0])},
            r'the x of domain "b" has 1 values in 1 of 4 rows \(number 1\) that are not',
        ),
        ({"input_ids": np.zeros((4, 3), int)}, 'dicts of domain "b" have 3 tokens, those of "a" 2 tokens'),
        ({"ids": np.zeros((4, 2), int)}, r'dicts of domain "b" have ids \(2\), those of "a" 2 tokens'),
        (np.zeros((4, 2)), 'images of domain "b" are'),
    ],
)
def test_a_bad_dict_is_a_sentence_that_says_where(bad: Any, sentence: str) -> None:
    y = [0, 1, 0, 1]
    with pytest.raises(InputError, match=sentence):
        dw.domains({"a": ({"input_ids": np.zeros((4, 2), int)}, y), "b": (bad, y)})


def test_a_minibatch_holds_the_same_rows_of_every_array_and_ids_are_whole_numbers() -> None:
    data = texts()
    parts = [Part(domain, np.arange(5, 25), "cpu") for domain in data]
    feed = Feed(parts, Inputs("none", 0), 8, 0)
    for domain, (x, y) in zip(data, feed.draw(), strict=True):
        assert {name: (tuple(t.shape), t.dtype) for name, t in x.items()} == dict.fromkeys(  # type: ignore[union-attr]
            ("input_ids", "attention_mask"), ((8, LENGTH), torch.int64)
        )
        known = {row["input_ids"].tobytes(): i for i, row in enumerate(domain.images)}
        for i in range(8):
            row = known[x["input_ids"][i].numpy().astype(np.int32).tobytes()]  # type: ignore[call-overload, index]
            assert 5 <= row < 25
            assert np.array_equal(domain.images["attention_mask"][row], x["attention_mask"][i])  # type: ignore[call-overload, index]
            assert y[i] == domain.labels[row]
    seen = [x["input_ids"] for x, _ in batches(parts[0], Inputs("none", 0))]
    assert np.array_equal(torch.cat(seen), data["a"].images["input_ids"][5:25])


def test_rows_of_dicts_are_the_same_from_memory_and_from_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts().save(tmp_path / "kept")
    part = lambda: Part(Domains.open(tmp_path / "kept")["b"], np.arange(30), "cpu")  # noqa: E731
    inputs = Inputs("none", 0)
    mapped = [x for x, _ in batches(part(), inputs)]
    monkeypatch.setattr("domainwise.data.decoded.read_ahead.SHARE", 0)
    read = part()
    assert isinstance(read.images, Rows)
    assert read.images.disk is not None
    for one, other in zip(mapped, [x for x, _ in batches(read, inputs)], strict=True):
        assert all(torch.equal(one[name], other[name]) for name in ("input_ids", "attention_mask"))


def test_batches_of_dicts_are_joined_and_cut_like_tensors() -> None:
    pairs = [({"a": torch.arange(n), "b": torch.arange(2 * n).view(n, 2)}, torch.arange(n)) for n in (5, 3)]
    x, y = joined(pairs)
    assert x["a"].tolist() == y.tolist() == [*range(5), *range(3)]
    assert x["b"].shape == (8, 2)
    cut = [both for share, part in in_parts(pairs, 4) for both in part]
    assert sorted(torch.cat([y for _, y in cut]).tolist()) == sorted(y.tolist())
    assert all(torch.equal(x["a"], y) and torch.equal(x["b"][:, 0], 2 * y) for x, y in cut)


def _net() -> Network:
    torch.manual_seed(0)
    return build("words", texts().layout, 2)


@pytest.mark.parametrize("name", [name for name in names() if name not in ("arm",)])
def test_every_algorithm_trains_on_dicts(name: str) -> None:
    algorithm = create(name, lr=1e-2).setup(_net(), seed=0)
    parts = [Part(domain, np.arange(40), "cpu") for domain in texts()]
    drawn = Feed(parts, Inputs("none", 0), 8, 0).draw(algorithm.fresh)
    first = algorithm.update(drawn)["loss"]
    for _ in range(10):
        last = algorithm.update(drawn)["loss"]
    assert torch.isfinite(last)
    if name in ("erm", "arith", "fish"):
        assert last < first


def test_what_cannot_be_done_with_dicts_is_a_sentence() -> None:
    with pytest.raises(InputError, match="arm adds a channel to images"):
        create("arm").setup(_net())
    algorithm = create("erm").setup(_net(), seed=0)
    x = {"input_ids": torch.zeros(4, 3, dtype=torch.long), "attention_mask": torch.zeros(3, 3)}
    with pytest.raises(InputError, match="the minibatch of domain 0 has 3 inputs and 4 labels"):
        algorithm.update([(x, torch.zeros(4, dtype=torch.long))])
    with pytest.raises(InputError, match="must be a pair of tensors"):
        algorithm.update([({}, torch.zeros(4, dtype=torch.long))])


def test_words_that_are_masked_and_their_order_make_no_difference() -> None:
    net = _net().eval()
    ids = torch.tensor([[5, 7, 9, 0], [9, 5, 7, 33]])
    mask = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 0]])
    one, other = net.features({"input_ids": ids, "attention_mask": mask})
    assert torch.allclose(one, other)
    assert torch.allclose(net.features({"input_ids": ids[:1]})[0], one)  # without a mask, 0 is no word
    padded = net.features({"input_ids": torch.cat([ids, ids], 1), "attention_mask": torch.cat([mask, 0 * mask], 1)})
    assert torch.allclose(padded[0], one)
    net.pad_to = 5
    assert torch.equal(net({"input_ids": ids}), net({"input_ids": ids.clone()}))
    assert len(net({"input_ids": ids})) == 2
    assert net({"input_ids": 0 * ids}).isfinite().all()  # texts without words
    assert len(one_of({"input_ids": ids})) == 2


def test_a_word_is_recognised_in_other_company_and_the_model_comes_back(tmp_path: Path) -> None:
    data = texts(80)
    results = dw.compare(data, "erm,fish,arith,coral", seeds=1, targets="c", steps=10, output=tmp_path / "out")
    assert {one.trial.network for one in results.outcomes} == {"words"}
    assert all(one.result["status"] == "finished" for one in results.outcomes)
    results.report(tmp_path / "report.html")
    model = dw.fit(data, "arith", steps=80, lr=0.01, output=tmp_path / "model")
    again = dw.load(tmp_path / "model")
    x, y = tokens(0, 80)
    assert (again.form, again.features(x).shape) == ("texts", (80, 128))
    assert np.array_equal(again.probabilities(x), model.probabilities(data["a"].images))
    assert np.mean(np.array(again.predict(x)) == y) > 0.9
    assert again.evaluate({"new": (x, y)}).accuracy == np.mean(np.array(again.predict(x)) == y)
    assert again.evaluate(data).accuracy > 0.9
    for bad, sentence in [
        ({"input_ids": x["input_ids"]}, "takes a dict of input_ids, attention_mask, got one of input_ids"),
        (x["input_ids"], "takes a dict of input_ids, attention_mask, got ndarray"),
    ]:
        with pytest.raises(InputError, match=sentence):
            again.predict(bad)
    padded = {name: np.concatenate([array, 0 * array], 1) for name, array in x.items()}
    assert np.allclose(again.probabilities(padded), again.probabilities(x), atol=1e-6)  # blanks make no difference
    with pytest.raises(InputError, match="a model of texts cannot be exported"):
        again.export(tmp_path / "model.pt2")


def test_a_killed_trial_on_dicts_goes_on_exactly(tmp_path: Path) -> None:
    data = texts()
    one = trial(data=data)
    run(one, tmp_path / "whole", data=data)
    with pytest.raises(Killed):
        run(one, tmp_path / "killed", data=data, at=10, then=die)
    assert run(one, tmp_path / "killed", data=data) == ["resumes at step 5"]
    assert remains(tmp_path / "killed") == remains(tmp_path / "whole")


def test_dicts_of_ones_own_need_a_network_of_ones_own(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    arrays = {
        name: ({"image": random.random((20, 3, 8, 8)), "age": random.random(20)}, np.arange(20) % 2) for name in "ab"
    }
    data = dw.domains(arrays)
    assert (data.form, data.extent) == ("dicts", "image (3, 8, 8), age (a number)")
    with pytest.raises(InputError, match=r"no network here is for dicts, .* FILE\.py:FUNCTION"):
        dw.fit(data, "erm", steps=1, output=tmp_path / "refused")
    (tmp_path / "mine.py").write_text(
        "import torch\nfrom torch import nn\n"
        "class Both(nn.Module):\n"
        "    def forward(self, x):\n"
        "        return torch.cat([x['image'].mean((2, 3)), x['age'][:, None]], 1)\n"
        "def build(fields, classes):\n"
        "    assert fields == {'image': (3, 8, 8), 'age': ()}\n"
        "    return Both()\n"
    )
    model = dw.fit(data, "erm", network=f"{tmp_path}/mine.py:build", steps=3, output=tmp_path / "model")
    assert model.features(arrays["a"][0]).shape == (20, 4)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"network": "small"},
            "the network small is for images, and .* texts of 12 tokens: take words, or",
        ),
        ({"augment": "flip"}, "augment='flip' is for images, and texts has texts"),
        ({"features": "frozen"}, "frozen features are those of a pretrained network"),
    ],
)
def test_what_is_for_images_is_refused_for_texts(tmp_path: Path, settings: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        dw.fit(texts(), "erm", output=tmp_path / "refused", **settings)


@pytest.mark.parametrize("name", ["arith", "coral"])
def test_updates_on_dicts_are_recorded_and_replayed_to_the_last_digit(name: str) -> None:
    after = []
    for recorder in (None, Tapes()):
        algorithm = create(name, lr=1e-2).setup(_net(), seed=0)
        update = updater(algorithm, capture=recorder is not None, recorder=recorder)
        feed = Feed([Part(domain, np.arange(40), "cpu") for domain in texts()], Inputs("none", 0), 8, 0)
        for _ in range(8):
            update(feed.draw())
        after.append([p.detach().clone() for p in algorithm.net.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*after, strict=True))


def test_a_model_of_dicts_is_looked_into(tmp_path: Path) -> None:
    data = texts()
    model = dw.fit(data, "arith", steps=3, output=tmp_path / "model")
    looked = task(model, data)
    losses = Losses(looked)()
    for loss, (x, y) in zip(losses, looked.domains.values(), strict=True):
        assert torch.allclose(loss, torch.nn.functional.cross_entropy(looked.net(x), y), atol=1e-5)
    assert gradient(looked, "a").isfinite().all()
    assert len(looked.minibatches("a", 2, 4)[0][0]["input_ids"]) == 4
