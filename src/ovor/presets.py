"""Named settings, as Python values made by `replace`: per data set, per VOR control.

The paper's hyper-parameters are the defaults in config.py. The embedded drawings need others,
which embedded/tune.py chose on the development classes alone.
"""

from dataclasses import replace

from ovor.config import Npos, OvorError, Run, Transform, Vor

ALIASES = {"ovor": "oneprompt+vor", "ovor-deep": "oneprompt-deep+vor"}

QUICKDRAW = Run(
    data="quickdraw",
    transform=Transform(scale=(0.6, 1.0), crop_pct=1.0),
    epochs=5,
    lr=5e-3,
    batch_size=64,
)
QUICKDRAW_VOR = Vor(epochs=1, npos=Npos(k=50))

PAPER = Run(data="folder", backbone="vit_base_patch16_224.augreg_in21k_ft_in1k", workers=4)

# By data set: the run without VOR, and the VOR that goes with it.
SETTINGS: dict[str, tuple[Run, Vor]] = {
    "quickdraw": (QUICKDRAW, QUICKDRAW_VOR),
    "quickdraw-dev": (replace(QUICKDRAW, data="quickdraw-dev", tasks=5), QUICKDRAW_VOR),
    "folder": (PAPER, Vor()),
}


def released(vor: Vor) -> Vor:
    """Outliers as the authors' released code makes them: noise alone (methods.md, F)."""
    npos = replace(vor.npos, add_boundary=False, space="mixed", self_neighbor=True, shuffle=False)
    return replace(vor, npos=npos)


def vor_preset(name: str, vor: Vor) -> Vor:
    """The paper's VOR, the released code's, or a control that leaves a part out."""
    choices = {
        "paper": vor,
        "released": released(vor),
        "ce-only": replace(vor, terms="none"),
        "current-only": replace(vor, terms="current"),
        "outlier-only": replace(vor, terms="outlier"),
    }
    if name not in choices:
        raise OvorError(f"There is no VOR preset {name!r}: choose from {', '.join(choices)}.")
    return choices[name]


def settings(data: str, method: str, vor: str = "paper") -> Run:
    """The defaults for a data set and a method, by the names that the command line takes."""
    kind = data.partition(":")[0]
    if kind not in SETTINGS:
        raise OvorError(f"There is no data set {data!r}: choose from {', '.join(SETTINGS)}:PATH.")
    base, regularization = SETTINGS[kind]
    name = ALIASES.get(method, method)
    plain = name.removesuffix("+vor")
    return replace(
        base,
        data=data,
        method=plain,
        vor=vor_preset(vor, regularization) if name != plain else None,
    )
