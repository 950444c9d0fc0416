"""Write down the presets: every setting of each protocol, and what benchmarks, networks and algorithms change of it."""

from __future__ import annotations

from typing import Any

_DOMAINBED: dict[str, Any] = {
    "network": "resnet50", "weights": "pretrained", "freeze_batch_norm": True, "dropout": 0.0,
    "input_size": 224, "train_size": 256, "augment": "domainbed", "validation": "augmented",
    "batch": 32, "balanced": False, "class_weights": "none",
    "steps": 5001, "patience": 0, "evaluate_every": 300, "select_every": 300,
    "holdout": 0.2, "domains_per_step": 0, "domains_by": "uniform", "features": "trained", "duplicates": "apart",
    "test": "main", "selection": "validation", "metric": "accuracy", "precision": "bf16",
    "lr": 5e-5, "weight_decay": 0.0, "optimizer": "adam", "schedule": "constant", "clip": 0.0,
    "erm_updates": 0, "epochs": 0,
}  # fmt: skip
AUTO = "auto"  # the network that suits the data and the machine
# A network chosen by hand brings what it needs: a backbone starts pretrained, sees 224 pixels and takes small steps.
BACKBONE = {
    name: _DOMAINBED[name]
    for name in ("weights", "freeze_batch_norm", "input_size", "train_size", "augment", "lr")
}  # fmt: skip
# A head on features that were computed once, from images as they are, takes larger steps than what made them.
FROZEN = {"features": "frozen", "augment": "none", "validation": "plain", "lr": 1e-3, "weight_decay": 1e-2}
UNTRAINED = {"weights": "none", "freeze_batch_norm": False, "augment": "none", "lr": 1e-3}

# An epoch of WILDS shows every image once on average; the batches of all domains of an update are one of its batches.
_WILDS = {
    **_DOMAINBED, "freeze_batch_norm": False, "augment": "none", "train_size": 224, "validation": "plain",
    "domains_by": "size", "epochs": 10,
}  # fmt: skip

PRESETS: dict[str, dict[str, Any]] = {
    "quick": {
        **_DOMAINBED, **UNTRAINED, "network": "auto", "input_size": 64, "train_size": 64, "validation": "plain",
        "steps": 300, "evaluate_every": 30, "select_every": 30, "precision": "fp32", "duplicates": "together",
    },
    "domainbed": _DOMAINBED,
    # The model without averaging is still selected on domainbed's grid of evaluations.
    "swad": {**_DOMAINBED, "validation": "plain", "evaluate_every": 100},
    "wilds": _WILDS,
    # An update of Fish takes a whole batch of each domain, and walks by the optimizer that ERM has.
    "fish": {
        **_WILDS, "domains_by": "uniform", "optimizer": "adam(amsgrad=True)", "lr": 1e-4, "epochs": 20,
        "inner": "amsgrad", "outer": "interpolate", "scale": 0.01,
    },
}  # fmt: skip

TITLES = {
    "quick": "what suits the data and the machine, pretrained where weights are at hand; not as published",
    "domainbed": "the protocol of 2020 behind the published tables",
    "swad": "the protocol of SWAD: plain validation images, evaluated more often",
    "wilds": "the defaults that WILDS trains its sets with, by epochs and official splits",
    "fish": "the settings of Fish's authors for the sets of WILDS: ERM first, then walks that a part is taken of",
}

_SMALL_IMAGES = {
    **UNTRAINED, "input_size": 28, "train_size": 28, "network": "mnist", "batch": 64, "validation": "plain",
}  # fmt: skip
_DIGITS = {**_SMALL_IMAGES, "input_size": 16, "train_size": 16, "network": "small"}
_TEXTS = {"optimizer": "adamw", "schedule": "linear", "clip": 1.0, "lr": 1e-5, "weight_decay": 0.01}
_CAMELYON17 = {"network": "densenet121", "weights": "none"}
BENCHMARKS: dict[str, dict[str, dict[str, Any]]] = {
    "quick": {
        "digits": {"network": "small", "input_size": 16, "train_size": 16},
        "rotated_mnist": {"network": "small", "input_size": 28, "train_size": 28},
        "colored_mnist": {"network": "small", "input_size": 28, "train_size": 28},
    },
    "domainbed": {
        "digits": _DIGITS,
        "rotated_mnist": {**_SMALL_IMAGES, "evaluate_every": 100, "select_every": 100},
        "colored_mnist": {**_SMALL_IMAGES, "evaluate_every": 100, "select_every": 100},
        "domainnet": {"evaluate_every": 1000, "select_every": 1000},
    },
    "swad": {
        "digits": _DIGITS,
        "rotated_mnist": _SMALL_IMAGES,
        "colored_mnist": _SMALL_IMAGES,
        "vlcs": {"evaluate_every": 50},
        "domainnet": {"steps": 15001, "evaluate_every": 500, "select_every": 1000},
    },
    "wilds": {
        "camelyon17": {
            **_CAMELYON17,
            "input_size": 96,
            "train_size": 96,
            "optimizer": "sgd(momentum=0.9)",
            "lr": 1e-3,
            "weight_decay": 0.01,
            "batch": 16,
            "domains_per_step": 2,
            "epochs": 10,
        },
        "iwildcam": {
            "network": "resnet50",
            "input_size": 448,
            "train_size": 448,
            "lr": 3e-5,
            "batch": 8,
            "domains_per_step": 2,
            "epochs": 12,
        },
        "fmow": {
            "network": "densenet121",
            "schedule": "step(by=0.96)",
            "lr": 1e-4,
            "batch": 4,
            "domains_per_step": 8,
            "epochs": 60,
        },
        "amazon": {**_TEXTS, "batch": 4, "domains_per_step": 2, "epochs": 3},
        "civilcomments": {**_TEXTS, "batch": 16, "domains_per_step": 1, "epochs": 5},
    },
    "fish": {
        "camelyon17": {
            **_CAMELYON17,
            "optimizer": "sgd(momentum=0.9)",
            "inner": "momentum",
            "inner_lr": 1e-4,
            "epochs": 20,
            "erm_updates": 10_000,
            "batch": 32,
            "domains_per_step": 3,
        },
        "iwildcam": {"network": "resnet50", "epochs": 18, "erm_updates": 24_000, "batch": 16, "domains_per_step": 10},
        "fmow": {"network": "densenet121", "epochs": 12, "erm_updates": 24_000, "batch": 64, "domains_per_step": 5},
        "amazon": {"lr": 2e-6, "epochs": 3, "erm_updates": 31_000, "batch": 8, "domains_per_step": 5},
        "civilcomments": {
            "lr": 1e-5,
            "epochs": 5,
            "erm_updates": 20_000,
            "batch": 16,
            "domains_per_step": 5,
            "scale": 0.05,
        },
    },
}

PACE = ("steps", "evaluate_every", "select_every")  # which go together
SMALL = 28  # images up to this size have their own ranges in a search, and no settings of their algorithm's own
ALGORITHMS: dict[str, dict[str, Any]] = {
    "arm": {"batch": 8},  # which is also what it sums up in a context
    "erm": {"erm_updates": 0},  # it is what would come first
    # which costs so little that it is trained to its end wherever the others stop early
    "probe": {**FROZEN, **{name: PRESETS["quick"][name] for name in ("batch", *PACE, "patience")}},
}
