"""Networks of transformers, from a folder: trained, saved with their tokenizer, and loaded without the folder."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import domainwise as dw
from domainwise.errors import InputError
from domainwise.networks.network import build
from domainwise.networks.text_encoders import check_name, tokenizer_json
from domainwise.networks.torchvision_compat import torchvision_ready

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad", "film", "book", "song", "a", "the"]


def test_without_the_package_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InputError, match=r'need transformers: pip install "domainwise\[text\]"'):
        check_name("transformers:distilbert-base-uncased")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A DistilBERT of two small layers with random weights, and a tokenizer of eleven words."""
    torchvision_ready()
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    place = tmp_path_factory.mktemp("hub") / "tiny-distilbert"
    torch.manual_seed(0)
    sizes = {"vocab_size": len(WORDS), "dim": 16, "hidden_dim": 32, "n_layers": 2, "n_heads": 2}
    config = transformers.DistilBertConfig(**sizes, max_position_embeddings=64)
    transformers.DistilBertForSequenceClassification(config).save_pretrained(place)
    made = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.save(str(place / "tokenizer.json"))
    return place


def reviews(tokenizer: str) -> dw.Domains:
    texts = [f"a {word} {{}}" if i % 2 else f"the {{}} {word}" for i, word in enumerate(["good", "bad"] * 8)]
    about = {"films": "film", "books": "book", "songs": "song"}
    pairs = {name: ([text.format(what) for text in texts], ["up", "down"] * 8) for name, what in about.items()}
    return dw.domains(pairs, name="reviews", tokenizer=tokenizer)


def test_texts_are_numbered_by_the_tokenizer_of_the_network(folder: Path) -> None:
    data = reviews(f"transformers:{folder}")
    assert data.extent == "5 tokens"
    first = data["films"].images[0]
    assert first["input_ids"].tolist() == [WORDS.index(word) for word in ("[CLS]", "the", "film", "good", "[SEP]")]


def test_the_features_are_the_state_of_the_first_token_with_the_weights_of_the_folder(folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    data = reviews(f"transformers:{folder}")
    net = build(f"transformers:{folder}", data.layout, 2, pretrained=True).eval()
    x = {
        name: torch.from_numpy(data["songs"].images[name].astype(np.int64)) for name in ("input_ids", "attention_mask")
    }
    states = transformers.AutoModel.from_pretrained(folder).eval()(**x).last_hidden_state
    assert torch.allclose(net.features(x), states[:, 0], atol=1e-6)
    longer = {name: torch.cat([value, torch.zeros(16, 3, dtype=torch.long)], 1) for name, value in x.items()}
    assert torch.allclose(net.features(longer), states[:, 0], atol=1e-5)


def test_a_comparison_and_a_model_that_needs_the_folder_no_more(folder: Path, tmp_path: Path) -> None:
    place = shutil.copytree(folder, tmp_path / "tiny-distilbert")
    network = f"transformers:{place}"
    data = reviews(network)
    results = dw.compare(
        data,
        "erm,fish,arith,coral",
        network=network,
        seeds=1,
        targets="songs",
        steps=3,
        batch=4,
        output=tmp_path / "out",
    )
    assert [one.result["status"] for one in results.outcomes] == ["finished"] * 4
    trial = results.outcomes[0].trial
    assert (trial.network, len(trial.weights), trial.hyperparameters["lr"]) == (
        "transformers:tiny-distilbert",
        64,
        1e-5,
    )
    model = dw.fit(data, "erm", network=network, lr=1e-3, steps=30, batch=8, output=tmp_path / "model")
    texts = ["a good song", "the bad film"]
    expected = model.probabilities(texts)
    shutil.rmtree(place)
    again = dw.load(tmp_path / "model")
    assert np.allclose(again.probabilities(texts), expected, atol=1e-6)
    assert again.features(texts).shape == (2, 16)


def test_random_weights_and_frozen_features_are_asked_for_like_those_of_images(folder: Path, tmp_path: Path) -> None:
    network = f"transformers:{folder}"
    data = reviews(network)
    fresh = dw.fit(data, "erm", network=network, weights="none", steps=1, output=tmp_path / "fresh")
    assert fresh.config["trial"]["weights"] == "none"
    frozen = dw.fit(data, "erm", network=network, features="frozen", steps=5, output=tmp_path / "frozen")
    assert np.allclose(
        dw.load(tmp_path / "frozen").probabilities(["a good song"]), frozen.probabilities(["a good song"])
    )


def test_what_does_not_go_together_is_a_sentence(folder: Path, tmp_path: Path) -> None:
    network = f"transformers:{folder}"
    with pytest.raises(InputError, match=r'were numbered by "words", and transformers:.* has numbers of its'):
        dw.fit(reviews("words"), "erm", network=network, steps=1, output=tmp_path / "x")
    with pytest.raises(InputError, match="tiny-distilbert is for texts, and digits has images"):
        dw.fit(dw.digits(), "erm", network=network, steps=1, output=tmp_path / "x")
    with pytest.raises(InputError, match="tokenizer is \"words\", or transformers:NAME of a network, got 'bert'"):
        reviews("bert")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"has no tokenizer.json"):
        tokenizer_json(f"transformers:{tmp_path}/empty")
    with pytest.raises(InputError, match=r"has no config.json: give a folder that save_pretrained"):
        check_name(f"transformers:{tmp_path}/empty")
    with pytest.raises(InputError, match="nobody/nothing could not be loaded"):  # tests are offline
        tokenizer_json("transformers:nobody/nothing")
