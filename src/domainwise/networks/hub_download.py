"""Pretrained weights from the hub that timm keeps them on, or a sentence at once where it cannot be reached."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

from domainwise.errors import InputError

_FILES = ("model.safetensors", "pytorch_model.bin")
_PATIENCE = 5.0  # seconds for the hub to answer at all; its own client tries again and again for half a minute


def hub_file(repository: str, name: str) -> Path:
    """The weight file of a repository: from the cache without asking anybody, or downloaded."""
    import huggingface_hub as hub
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    for file in _FILES:
        cached = hub.try_to_load_from_cache(repository, file)
        if isinstance(cached, str):
            return Path(cached)
    address = f"{hub.constants.ENDPOINT}/{repository}"
    if hub.constants.HF_HUB_OFFLINE:
        raise _unavailable(name, address, "HF_HUB_OFFLINE is set, and they are not in the cache")
    if not _answers(hub.constants.ENDPOINT):
        raise _unavailable(name, address, "the hub cannot be reached from here")
    for file in _FILES:
        try:
            return Path(hub.hf_hub_download(repository, file))
        except EntryNotFoundError as error:
            if isinstance(error, LocalEntryNotFoundError):  # the hub went away between the two questions
                raise _unavailable(name, address, "the hub cannot be reached from here") from error
        except Exception as error:
            raise _unavailable(name, address, str(error).strip().splitlines()[0]) from error
    raise _unavailable(name, address, f"the hub has neither {' nor '.join(_FILES)}")


def _unavailable(name: str, address: str, why: str) -> InputError:
    return InputError(
        f"the pretrained weights of {name} could not be had: {why}. On a machine with internet, download "
        f"{address}/resolve/main/{_FILES[0]}, bring it here and pass --weights FILE"
    )


def _answers(address: str) -> bool:
    from huggingface_hub.utils import get_session  # type: ignore[attr-defined]

    heard: list[bool] = []

    def ask() -> None:
        try:
            get_session().head(address, timeout=_PATIENCE)
        except Exception:
            return
        heard.append(True)

    # Beside the main thread because looking up a name cannot be given a time limit.
    asking = Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_PATIENCE)
    return bool(heard)
