"""Take pretrained networks for texts from transformers: a folder on this disk, or a repository of the hub."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor, nn

from domainwise.errors import InputError
from domainwise.networks.pretrained import hub_answers
from domainwise.networks.torchvision_compat import torchvision_ready

PREFIX = "transformers:"  # of the name of such a network, before its folder or its repository
CONFIG, TOKENIZER = "config.json", "tokenizer.json"
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")

T = TypeVar("T")


class Encoder(nn.Module):
    """Give the last hidden state of the first token, which stands for the whole text."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    @property
    def architecture(self) -> dict[str, Any]:
        """Return the configuration that makes this network again, without its weights."""
        config: Any = self.model.config
        return dict(config.to_dict())

    def forward(self, x: Mapping[str, Tensor]) -> Tensor:
        states: Tensor = self.model(**x).last_hidden_state
        return states[:, 0]


def encoder(name: str, *, pretrained: bool, weights: Path | None, architecture: Mapping[str, Any] | None) -> Encoder:
    """Return the network that a name is of: with its weights, or made anew from its configuration."""
    transformers = _transformers()
    if architecture is not None:
        known = {key: value for key, value in architecture.items() if key != "model_type"}
        config = transformers.AutoConfig.for_model(architecture["model_type"], **known)
        return Encoder(transformers.AutoModel.from_config(config))
    if weights is not None:
        return Encoder(_loaded(name, lambda **how: transformers.AutoModel.from_pretrained(weights.parent, **how)))
    place = place_in(name)
    if pretrained:
        return Encoder(_loaded(name, lambda **how: transformers.AutoModel.from_pretrained(place, **how)))
    config = _loaded(name, lambda **how: transformers.AutoConfig.from_pretrained(place, **how))
    return Encoder(transformers.AutoModel.from_config(config))


def place_in(name: str) -> str:
    """Return the folder, or the repository of the hub, that the name of a network has behind its prefix."""
    place = name.removeprefix(PREFIX)
    folder = Path(place).expanduser()
    return str(folder.parent if folder.name == CONFIG else folder) if folder.exists() else place


def files_of(name: str, *, pretrained: bool) -> dict[str, Path]:
    """Return the configuration of a network in a folder, and its weights if they are wanted; none of one of the hub."""
    folder = Path(place_in(name))
    if not folder.is_dir():
        return {}
    if not (folder / CONFIG).is_file():
        raise InputError(f"{folder} has no {CONFIG}: give a folder that save_pretrained() of transformers wrote")
    found = {CONFIG: folder / CONFIG}
    if pretrained:
        weights = [folder / file for file in _WEIGHTS if (folder / file).is_file()]
        if not weights:
            raise InputError(
                f"{folder} has no weights ({' or '.join(_WEIGHTS)}): bring them there, or say weights=none"
            )
        found["weights"] = weights[0]
    return found


def check_name(name: str, *, pretrained: bool = False) -> None:
    """Refuse a name without a place, a folder that lacks something, or the missing package."""
    if not name.removeprefix(PREFIX).strip():
        raise InputError(f"{PREFIX} wants the name of a network behind it, as in {PREFIX}distilbert-base-uncased")
    _transformers()
    files_of(name, pretrained=pretrained)


def tokenizer_for(network: str) -> str:
    """Return what makes token ids of texts for a network."""
    return network if network.startswith(PREFIX) else "words"


def tokenizer_json(name: str) -> str:
    """Return the tokenizer of a network as the text that the package tokenizers reads."""
    place = place_in(name)
    if Path(place).is_dir():
        file = Path(place) / TOKENIZER
        if not file.is_file():
            raise InputError(f"{place} has no {TOKENIZER}: save a fast tokenizer of transformers there")
        return file.read_text(encoding="utf-8")
    from huggingface_hub import hf_hub_download

    found = _loaded(name, lambda **how: hf_hub_download(place, TOKENIZER, **how))
    return Path(found).read_text(encoding="utf-8")


def encoded(tokenizer: str, texts: Sequence[str], longest: int) -> tuple[list[list[int]], int]:
    """Return the token ids of texts by a tokenizer, and the id that fills up short ones."""
    try:
        made = import_module("tokenizers").Tokenizer.from_str(tokenizer)
    except ImportError:
        raise _missing() from None
    made.no_padding()
    made.enable_truncation(longest)
    blank = next((found for word in ("[PAD]", "<pad>") if (found := made.token_to_id(word)) is not None), 0)
    return [one.ids for one in made.encode_batch(list(texts))], int(blank)


def _loaded(name: str, load: Callable[..., T]) -> T:
    """Load from this disk, or else from the hub if that answers within seconds."""
    from huggingface_hub import constants

    try:
        return load(local_files_only=True)
    except Exception as error:
        here = error
    place = place_in(name)
    if not Path(place).exists() and not constants.HF_HUB_OFFLINE:
        if hub_answers(f"{constants.ENDPOINT}/{place}/resolve/main/{CONFIG}"):
            try:
                return load()
            except Exception as error:
                here = error
        else:
            raise InputError(
                f"{place} is not in the cache, and the hub cannot be reached from here: download it on a machine with "
                f"internet, bring the folder here, and say {PREFIX}FOLDER"
            )
    why = (str(here).strip() or type(here).__name__).splitlines()[0]
    raise InputError(f"{place} could not be loaded: {why}") from here


def _transformers() -> Any:
    torchvision_ready()  # which it imports too
    try:
        return import_module("transformers")
    except ImportError:
        raise _missing() from None


def _missing() -> InputError:
    return InputError('pretrained networks for texts need transformers: pip install "domainwise[text]"')
