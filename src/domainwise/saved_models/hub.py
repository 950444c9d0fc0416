"""Share saved models on the Hugging Face hub: their weights and what is known of them, and never code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from domainwise.errors import InputError, warn
from domainwise.networks.forms import form_of
from domainwise.networks.pretrained import hub_answers
from domainwise.saved_models.build import FEATURIZER, layout_of
from domainwise.saved_models.card import CARD, ESTIMATE, MADE_FROM, README, shared_text

PREFIX = "hf:"
WEIGHTS = ("model.safetensors", FEATURIZER)
FILES = ("config.json", *WEIGHTS, CARD, MADE_FROM, ESTIMATE)  # and README.md; nothing else is fetched
REPOSITORY = re.compile(r"(?P<name>[\w-][\w.-]*/[\w-][\w.-]*)(?:@(?P<revision>[\w./-]+))?")


def fetched(place: Path | str) -> Path:
    """Return the folder that a model is in: for ``hf:user/model`` that in the hub's cache, downloaded if new."""
    if not str(place).startswith(PREFIX):
        return Path(place).expanduser()
    from huggingface_hub import constants, snapshot_download

    name, revision = _repository(str(place).removeprefix(PREFIX))
    here = constants.HF_HUB_OFFLINE or not hub_answers(f"{constants.ENDPOINT}/{name}/resolve/main/{FILES[0]}")
    with _sentences(name, revision, "be loaded"):
        wanted = [*FILES, README]
        folder = snapshot_download(name, revision=revision, allow_patterns=wanted, local_files_only=here)
    if here:
        warn(f"the hub cannot be reached from here: this is the {name} that was downloaded before")
    return Path(folder)


def push(
    folder: Path, weights: Mapping[str, Tensor], config: Mapping[str, Any], repository: str, *, private: bool
) -> str:
    """Put the files of a saved model and its card on the hub in one commit; return the address.

    ``weights`` are those that the model has now: where the files have others, a sentence says so.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, constants, get_token

    name, revision = _repository(repository.removeprefix(PREFIX))
    if revision:
        raise InputError(f"a model is put on the hub as its newest revision: leave out @{revision}")
    _require_same(folder, weights)
    if not get_token():
        raise InputError("the hub does not know who you are: log in with hf auth login, or set HF_TOKEN")
    if constants.HF_HUB_OFFLINE or not hub_answers(f"{constants.ENDPOINT}/{name}"):
        raise InputError(f"{name} cannot be shared: the hub cannot be reached from here")
    api, address = HfApi(constants.ENDPOINT), f"{constants.ENDPOINT}/{name}"
    about = _front_matter(form_of(layout_of(config))) + shared_text(folder, config, PREFIX + name)
    own = [file for file in FILES if (folder / file).is_file()]
    with _sentences(name, None, "be shared"):
        api.create_repo(name, private=private, exist_ok=True)
        stale = {*api.list_repo_files(name)} & ({*FILES} - {*own})
        added = [CommitOperationAdd(file, str(folder / file)) for file in own]
        added.append(CommitOperationAdd(README, about.encode()))
        removed = [CommitOperationDelete(file) for file in sorted(stale)]
        trial = config["trial"]
        message = f"{trial['label'] or trial['algorithm']}, trained on {trial['data']}"
        api.create_commit(name, [*added, *removed], commit_message=message)
    return address


def _require_same(folder: Path, weights: Mapping[str, Tensor]) -> None:
    from safetensors.torch import load_file

    there = [load_file(folder / file) for file in WEIGHTS if (folder / file).is_file()]
    saved = {name: tensor for part in there for name, tensor in part.items()}
    same = saved.keys() == weights.keys()
    if not same or not all(torch.equal(tensor, weights[name].cpu()) for name, tensor in saved.items()):
        raise InputError(
            f"{folder} no longer holds the weights that this model has: load it again, or save these first"
        )


def _repository(text: str) -> tuple[str, str | None]:
    found = REPOSITORY.fullmatch(text)
    if not found:
        raise InputError(f'a model on the hub is named as in "hf:user/model" or "hf:user/model@revision", not "{text}"')
    return found["name"], found["revision"]


@contextmanager
def _sentences(name: str, revision: str | None, what: str) -> Iterator[None]:
    """Say in a sentence what the hub's client raises."""
    from huggingface_hub import errors

    try:
        yield
    except errors.RevisionNotFoundError as error:
        raise InputError(f'{name} on the hub has no revision "{revision}"') from error
    except errors.GatedRepoError as error:
        raise InputError(f"{name} is only for those whom its owner lets in: ask for it on the hub's page") from error
    except errors.RepositoryNotFoundError as error:
        raise InputError(
            f"the hub has no {name} that you may see: check the name; for a private model log in with hf auth login"
        ) from error
    except errors.LocalEntryNotFoundError as error:
        raise InputError(
            f"{name} cannot {what}: the hub cannot be reached from here, and it was not downloaded before"
        ) from error
    except Exception as error:  # of the network, and of whatever the hub answers
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"{name} cannot {what}: {why}") from error


def _front_matter(form: str) -> str:
    """Return the head of a card, which the hub reads; it has a name for most tasks."""
    tasks = {"images": "image-classification", "rows": "tabular-classification", "texts": "text-classification"}
    task = tasks.get(form)
    tags = "tags:\n- domain-generalization\n- domainwise\n"
    return "---\nlibrary_name: domainwise\n" + f"pipeline_tag: {task}\n" * bool(task) + f"{tags}---\n\n"
