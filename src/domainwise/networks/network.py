"""Build networks of a featurizer and a linear head, which most algorithms need apart from each other."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from domainwise.errors import InputError, require
from domainwise.networks.forms import Layout, extent_of, form_of
from domainwise.networks.own import made_by, sizes, told, tried, width_of
from domainwise.networks.samples import Samples, blank, each, one_of
from domainwise.networks.text_encoders import PREFIX, check_name as check_encoder, encoder
from domainwise.networks.words import Words
from domainwise.user_files import OWN, function_of, name_of, source_of


class Network(nn.Module):
    """A featurizer and a head: ``net(x)`` is ``net.logits(net.features(x))``.

    Args:
        featurizer: from inputs to features.
        head: from features to logits.
        dropout: of the features, while training.
        freeze_batch_norm: keep the running statistics of every batch-norm as they are, and use them in training too.
            Their weights and biases train all the same.
    """

    def __init__(
        self, featurizer: nn.Module, head: nn.Module, *, dropout: float = 0.0, freeze_batch_norm: bool = False
    ) -> None:
        super().__init__()
        require("dropout", dropout, float)
        if not 0 <= dropout <= 1:
            raise InputError(f"dropout must be from 0 to 1, got {dropout}")
        self.featurizer = featurizer
        self.head = head
        self.dropout = nn.Dropout(dropout)
        self.freeze_batch_norm = freeze_batch_norm
        self.low_precision = False  # run the featurizer in bfloat16; head and losses stay in full precision
        self.pad_to = 0  # smaller batches are padded to this size in evaluation: a compiler wants to see one shape
        if freeze_batch_norm:
            self.train()

    def lowered(self, device: torch.device) -> AbstractContextManager[object]:
        """Return the context that the featurizer runs in: bfloat16 where ``low_precision`` is set."""
        return torch.autocast(device.type, torch.bfloat16) if self.low_precision else nullcontext()

    def features(self, x: Samples) -> Tensor:
        """Return the features of a batch, a tensor or a dict of tensors, with dropout while training."""
        if self.pad_to and len(one_of(x)) < self.pad_to and not any(module.training for module in self.modules()):
            missing = self.pad_to - len(one_of(x))  # padding counts from the last dimension
            return self.features(each(lambda t: F.pad(t, (0, 0) * (t.dim() - 1) + (0, missing)), x))[:-missing]
        with self.lowered(one_of(x).device):
            features: Tensor = self.featurizer(x)
        dropped: Tensor = self.dropout(features.float() if self.low_precision else features)
        return dropped

    def logits(self, features: Tensor) -> Tensor:
        """Return the head's logits for features."""
        logits: Tensor = self.head(features)
        return logits

    def forward(self, x: Samples) -> Tensor:
        return self.logits(self.features(x))

    if TYPE_CHECKING:  # nn.Module's own says that it returns anything

        def __call__(self, *inputs: Any) -> Tensor: ...

    def train(self, mode: bool = True) -> Self:
        """Switch to training or evaluation; frozen batch-norms stay in evaluation."""
        super().train(mode)
        if self.freeze_batch_norm:
            for module in self.modules():
                if isinstance(module, _BatchNorm):
                    module.eval()
        return self


class PoolTo(nn.AdaptiveAvgPool2d):
    """Average-pool to a size; inputs of that size pass at once, which is faster on a CPU."""

    def forward(self, x: Tensor) -> Tensor:
        return x if x.shape[-2:] == (self.output_size, self.output_size) else super().forward(x)


def small_cnn(channels: int, classes: int, width: int = 16) -> Network:
    """Return two convolutions with group-norm, for small images and machines without a GPU."""
    featurizer = nn.Sequential(
        nn.Conv2d(channels, width, 3, stride=2, padding=1),
        nn.GroupNorm(4, width),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
        nn.GroupNorm(4, 2 * width),
        nn.ReLU(),
        PoolTo(4),
        nn.Flatten(),
    )
    return Network(featurizer, nn.Linear(2 * width * 16, classes))


def mnist_cnn(channels: int, classes: int) -> Network:
    """Return DomainBed's network for images of 28 x 28, which normalises after the ReLU."""

    def block(inputs: int, outputs: int, stride: int = 1) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1), nn.ReLU(), nn.GroupNorm(8, outputs)]

    featurizer = nn.Sequential(
        *block(channels, 64),
        *block(64, 128, stride=2),
        *block(128, 128),
        *block(128, 128),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    return Network(featurizer, nn.Linear(128, classes))


def mlp(columns: int, classes: int, width: int = 128) -> Network:
    """Return two hidden layers for the rows of a table."""
    layers = [nn.Linear(columns, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    return Network(nn.Sequential(*layers), nn.Linear(width, classes))


def cnn1d(channels: int, classes: int, width: int = 32) -> Network:
    """Return three convolutions over time with group-norm, whose mean over all steps is the features of a signal."""

    def block(inputs: int, outputs: int, across: int) -> list[nn.Module]:
        convolution = nn.Conv1d(inputs, outputs, across, stride=2, padding=across // 2)
        return [convolution, nn.GroupNorm(4, outputs), nn.ReLU()]

    layers = [*block(channels, width, 7), *block(width, 2 * width, 5), *block(2 * width, 4 * width, 3)]
    return Network(nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten()), nn.Linear(4 * width, classes))


def linear(columns: int, classes: int) -> Network:
    """Return a head alone, for features that are good as they are."""
    return Network(nn.Identity(), nn.Linear(columns, classes))


def words(fields: Mapping[str, tuple[int, ...]], classes: int) -> Network:
    """Return a network for the token ids of texts, small enough for a CPU."""
    return Network(Words(), nn.Linear(128, classes))


IMAGES: dict[str, Callable[[Any, int], Network]] = {"small": small_cnn, "mnist": mnist_cnn}
OTHERS: dict[str, dict[str, Callable[[Any, int], Network]]] = {  # networks for each other form, the usual one first
    "rows": {"mlp": mlp, "linear": linear},
    "signals": {"cnn1d": cnn1d},
    "texts": {"words": words},
    "dicts": {},
}
FORMS = {name: form for form, makers in {"images": IMAGES, **OTHERS}.items() for name in makers}
UNTRAINED = {name: make for makers in (IMAGES, *OTHERS.values()) for name, make in makers.items()}


def build(
    name: str,
    shape: Layout,
    classes: int,
    *,
    pretrained: bool = False,
    weights: Path | str | None = None,
    dropout: float = 0.0,
    freeze_batch_norm: bool = True,
    extra_channels: int = 0,
    source: str = "",
    architecture: Mapping[str, Any] | None = None,
) -> Network:
    """Build a network for images of shape (H, W, C), rows of a table (columns,), signals (channels, steps) or dicts.

    Args:
        name: "small", "mnist", for tables "mlp" and "linear", for signals "cnn1d", for texts "words", the timm name of
            a backbone ("resnet50", "resnet50.a1_in1k"), the original ResNet-50 ("resnet50.v1"), a network for texts
            ("transformers:distilbert-base-uncased", "transformers:FOLDER"), or "my_net.py:build", a function of yours
            that is called with (channels, classes), of dicts with the shapes of their fields in the place of channels,
            and returns a featurizer or a whole :class:`Network`.
        pretrained: take the backbone's weights from the hub.
        weights: take them from this file instead.
        dropout: of the features.
        freeze_batch_norm: keep its statistics fixed. In a network of your own only if its weights come from a file,
            since otherwise there are no statistics yet to keep.
        extra_channels: input channels beside those of the images.
        source: the hash that a file of yours must have to be run.
        architecture: what a saved model says of a network of transformers, which is then neither sought nor loaded.
    """
    if not 0 <= dropout < 1:
        raise InputError(f"dropout must be 0 or more and below 1, got {dropout}")
    form = form_of(shape)
    if not fits(name, form):
        raise InputError(f"{name} is for {form_for(name)}, and this is {extent_of(shape)}: {fitting(form)}")
    sample = blank(shape, extra_channels)
    weights = None if weights is None else Path(weights)
    own = OWN.fullmatch(name)
    if own or name in UNTRAINED:
        net = _own(own, sample, classes, source) if own else UNTRAINED[name](told(sample), classes)
        _fill(net.featurizer, name, pretrained, weights)
    elif name.startswith(PREFIX):
        featurizer = encoder(name, pretrained=pretrained, weights=weights, architecture=architecture)
        net = Network(featurizer, nn.Linear(width_of(featurizer, sample, name), classes))
    else:
        net = _backbone(name, sample, classes, pretrained, weights)
    net.dropout.p = dropout or net.dropout.p
    net.freeze_batch_norm |= freeze_batch_norm and not (own and weights is None)
    return net.train()


def check_name(name: str, *, pretrained: bool = False) -> None:
    """Refuse the name of an unknown network, or of one without pretrained weights, without building it."""
    own = OWN.fullmatch(name)
    if own:
        function_of(own)
    if pretrained and (own or name in UNTRAINED):
        raise _no_weights(name)
    if name.startswith(PREFIX):
        check_encoder(name, pretrained=pretrained)
    elif not own and name not in UNTRAINED:
        from domainwise.networks.timm_backbones import check_name as check_backbone

        check_backbone(name, pretrained=pretrained)


def check_network(name: str, weights: str, side: int) -> None:
    """Refuse a network whose name, file of weights or download is at fault, before hours of other work.

    With weights the network is built and thrown away, since only then is it known that they fit; they are on this disk
    afterwards. ``side`` is that of the images that the network is to see.
    """
    check_name(name, pretrained=weights == "pretrained")
    if weights != "none" and not name.startswith(PREFIX):
        shape = {"rows": (side,), "signals": (1, side)}.get(FORMS.get(name, ""), (side, side, 3))
        file = None if weights == "pretrained" else weights
        build(name, shape, 2, pretrained=file is None, weights=file)


def fits(name: str, form: str) -> bool:
    """Return whether a network is for samples of a form, as far as its name tells."""
    return OWN.fullmatch(name) is not None or form_for(name) == form


def form_for(name: str) -> str:
    """Return the form of samples that a network takes, by its name."""
    return "texts" if name.startswith(PREFIX) else FORMS.get(name, "images")


def fitting(form: str) -> str:
    """Say which networks to take for samples of a form."""
    if form == "images":
        return f"take {' or '.join(IMAGES)}, or the name of a timm backbone"
    own = "FILE.py:FUNCTION for one of your own"
    return f"take {', '.join(OTHERS[form])}, or {own}" if OTHERS[form] else f"take {own}"


def network_source(name: str) -> str:
    """Return the hash of a user's file, which tells networks of one name apart; "" for one of ours."""
    own = OWN.fullmatch(name)
    return source_of(own["file"]) if own else ""


def _backbone(name: str, sample: Samples, classes: int, pretrained: bool, weights: Path | None) -> Network:
    from domainwise.networks.timm_backbones import backbone

    channels, *size = sample.shape[1:]
    featurizer = backbone(name, (size[0], size[1]), channels, pretrained=pretrained, weights=weights)
    return Network(featurizer, nn.Linear(width_of(featurizer, sample, name), classes))


def _fill(featurizer: nn.Module, name: str, pretrained: bool, weights: Path | None) -> None:
    if weights is not None:
        from domainwise.networks.weight_files import load_into, read_weights

        load_into(featurizer, read_weights(weights), weights, name)
    elif pretrained:
        raise _no_weights(name)


def _no_weights(name: str) -> InputError:
    return InputError(f"there are no pretrained weights for {name}: pass a file of your own with --weights FILE")


def _own(written: re.Match[str], sample: Samples, classes: int, source: str) -> Network:
    made, name = made_by(written, told(sample), classes, source), name_of(written)
    if not isinstance(made, Network):
        return Network(made, nn.Linear(width_of(made, sample, name), classes))
    logits = tried(made, sample, name)
    if logits.shape != (1, classes):
        raise InputError(f"{name} must give {classes} logits for an image, and gave {sizes(logits)}")
    return made
