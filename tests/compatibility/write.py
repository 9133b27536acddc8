"""Write files of every method with the version of ovor that is installed, for later versions.

Run it as `python tests/compatibility/write.py FILE.tar.xz`; test_files.py reads what it wrote.
"""

import hashlib
import json
import runpy
import shlex
import shutil
import sys
import tarfile
import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import asdict, replace
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import torch
from PIL import Image
from safetensors.torch import save_file

from ovor import Classifier, Run, settings

TAKE_VOR = ["oneprompt", "oneprompt-deep", "l2p", "dualprompt", "coda-p", "linear", "slca", "l2"]
TUNED = ["finetune", "vpt-shallow", "vpt-deep", "adapter", "ssf"]  # ways of ADAM
OTHERS = ["simplecil", "ranpac", "a-prompt", "finetune", "joint", *(f"adam-{way}" for way in TUNED)]
METHODS = [name + vor for name in TAKE_VOR for vor in ("", "+vor")] + OTHERS
ONCE = ("simplecil", "adam-", "ranpac", "joint")  # have epochs in the first task, or in none
SLOW = {"slowdown": 0.1}
OPTIONS: dict[str, dict[str, Any]] = {  # where the usual ones are too large for the backbone
    "oneprompt": {"lengths": [2, 3]},
    "l2p": {"pool": 4, "top_k": 2, "length": 2},
    "dualprompt": {"general_lengths": [2], "expert_length": 2, "expert_layers": [1]},
    "coda-p": {"per_task": 2, "length": 2, "layers": [0, 1]},
    "ranpac": {"bottleneck": 4, "projection": 24},
    **dict.fromkeys(("slca", "l2", "a-prompt", "finetune", "joint"), SLOW),
}
WIDTH, SIDE = 16, 8
DECISIVE = 5e-4  # by how much an answer must be clear, so that rounding cannot change it
writes: list[int] = []  # how often a checkpoint may be written before Ctrl-C; empty: always


def stop(event: str, arguments: tuple[Any, ...]) -> None:
    """Interrupt ovor where it is about to write one checkpoint too many."""
    if writes and event == "open" and "w" in (arguments[1] or ""):
        writes[0] -= str(arguments[0]).endswith(("checkpoint.safetensors.tmp", ".learning.tmp"))
        if writes[0] < 0:
            writes.clear()
            raise KeyboardInterrupt


def ovor(*arguments: str, code: int = 0) -> str:
    """Run a command line, check its exit code, and return what it printed."""
    out, err, ended = StringIO(), StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err), patch.object(sys, "argv", ["", *arguments]):
        try:
            runpy.run_module("ovor", run_name="__main__")
        except SystemExit as end:
            ended = int(end.code or 0)
    assert ended == code, f"{arguments} ended with {ended}: {err.getvalue()}"
    return out.getvalue()


def small(run: Run) -> Run:
    """Make a run fit the backbone and the few images."""
    npos = run.vor and replace(run.vor.npos, k=3, noise=10, beta=4, alpha=2)
    vor = run.vor and replace(run.vor, epochs=1, tau_current=-5.0, npos=npos)
    view = replace(run.transform, scale=(0.5, 1.0), crop_pct=1.0, mean=0.5, std=0.2)
    own = {"options": OPTIONS.get(run.method, {}), "vor": vor, "transform": view}
    return replace(run, **own, epochs=3, batch_size=4, lr=0.02, num_heads=1, device="cpu")


class Small(Classifier):
    """A new classifier with such settings, which its model file keeps."""

    def run(self) -> Run:
        return small(super().run())


def save_images() -> None:
    """Draw a pattern for each class, and noise for each image: for runs, lessons and questions."""
    rng = np.random.default_rng(0)
    for lesson, names in enumerate((("ant", "bee"), ("cat", "dog"), ("elk", "fox")), 1):
        for name in names:
            pattern = rng.integers(0, 256, (SIDE // 2, SIDE // 2, 3)).repeat(2, 0).repeat(2, 1)
            for number in range(10):
                pixels = np.clip(pattern + rng.normal(0, 10, pattern.shape), 0, 255)
                own = (
                    ("images/train", f"lesson{lesson}") if number < 8 else ("images/test", "asked")
                )
                for place in own:
                    Path(place, name).mkdir(parents=True, exist_ok=True)
                    Image.fromarray(pixels.astype(np.uint8)).save(f"{place}/{name}/{number}.png")


def save_backbone() -> None:
    """Draw a ViT of two blocks; without a bias of keys, whose gradient would be rounding alone."""
    sizes = {"cls_token": [1, 1, WIDTH], "pos_embed": [1, 5, WIDTH]}
    sizes |= {"patch_embed.proj.weight": [WIDTH, 3, SIDE // 2, SIDE // 2]}
    sizes |= {f"blocks.{block}.attn.qkv.weight": [3 * WIDTH, WIDTH] for block in (0, 1)}
    linear = [f"blocks.{n}.{name}" for n in (0, 1) for name in ("attn.proj", "mlp.fc1", "mlp.fc2")]
    norms = ["norm", *(f"blocks.{n}.norm{place}" for n in (0, 1) for place in (1, 2))]
    sizes |= {f"{name}.weight": [WIDTH, WIDTH] for name in linear}
    sizes |= {f"{name}.weight": [WIDTH] for name in norms}
    sizes |= {f"{name}.bias": [WIDTH] for name in (*linear, *norms, "patch_embed.proj")}
    draw = torch.Generator().manual_seed(0)
    weights = {k: 0.3 * torch.randn(size, generator=draw) for k, size in sizes.items()}
    save_file(
        {k: x + ("norm" in k and "weight" in k) for k, x in weights.items()}, "tiny.safetensors"
    )


def predictions(model: str) -> list[dict[str, Any]]:
    """Ask a model about images of classes that it knows and of others; return the clear answers."""
    clear = []
    for row in json.loads(ovor("predict", model, "asked", "--top", "2", "--json")):
        first, second = (best["confidence"] for best in row["best"])
        clear += [row] if min(abs(row["margin"]), first - second) > DECISIVE else []
    assert len(clear) > 5, f"{model} has {len(clear)} clear answers of 12"
    return clear


def write_run(method: str) -> None:
    """Write a finished run, and the same run stopped, which continues to the same weights."""
    run = small(settings("folder:images", method, tasks=3))
    run = replace(run, backbone="tiny.safetensors", threads=1, workers=0)
    Path("run.json").write_text(json.dumps(asdict(run)))
    begin = ["run", "--from", "run.json", "--no-report", "--out"]
    ovor(*begin, f"finished/{method}")
    writes[:] = [2 if method.startswith(ONCE) else 5]
    ovor(*begin, f"stopped/{method}", code=130)
    shutil.copytree(f"stopped/{method}", "copy")
    ovor("run", "--resume", "--out", "copy", "--no-report")
    ended = [Path(folder, "weights.safetensors") for folder in (f"finished/{method}", "copy")]
    assert ended[0].read_bytes() == ended[1].read_bytes()
    shutil.rmtree("copy")
    Path("run.json").unlink()


def write_model(method: str) -> dict[str, Any]:
    """Write a model of one lesson; return its answers, and those after a second lesson."""
    path = f"models/{method}.ovor"
    Small("tiny.safetensors", method, num_heads=1, device="cpu").learn("lesson1").save(path)
    found = {"first": predictions(path)}
    shutil.copy(path, "copy.ovor")
    ovor("learn", "copy.ovor", "lesson2", "--device", "cpu")
    found["second"] = predictions("copy.ovor")
    Path("copy.ovor").unlink()
    return found


def write_unfinished(method: str, *new: str) -> dict[str, Any]:
    """Write a lesson that was stopped after its first epoch; return the answers after its end."""
    if not new:
        shutil.copy(f"models/{method}.ovor", "unfinished")
    arguments = ["lesson2", "--device", "cpu", *new]
    writes[:] = [1]
    ovor("learn", f"unfinished/{method}.ovor", *arguments, code=130)
    shutil.copytree("unfinished", "copy")
    ovor("learn", f"copy/{method}.ovor", *arguments, "--resume")
    found = {"arguments": arguments, "after": predictions(f"copy/{method}.ovor")}
    shutil.rmtree("copy")
    return found


def without_traces(path: Path) -> None:
    """Take the places of source files on this machine out of an export, and renew its digest."""
    whole = path.read_bytes()  # the model, and 81 bytes more: an entry of its metadata
    model = onnx.ModelProto.FromString(whole[:-81])
    for node in model.graph.node:
        del node.metadata_props[:]
    body = model.SerializeToString()
    path.write_bytes(body + whole[-81:-64] + hashlib.sha256(body).hexdigest().encode())


def write_all() -> None:
    """Write all files into this folder, and into expected.json what is to come of them."""
    save_images()
    save_backbone()
    for folder in ("models", "unfinished"):
        Path(folder).mkdir()
    for method in METHODS:
        write_run(method)
    new = shlex.split("--method adam-adapter --backbone tiny.safetensors --num-heads 1 --epochs 3")
    grid = "grid main-table --methods linear linear+vor --data folder:images --tasks 3 --seeds 0"
    grid += " --epochs 3 --backbone embedded --workers 0 --jobs 1 --device cpu --out grid"
    arguments = [*shlex.split(grid), "--no-report", "--json"]
    models = {method: write_model(method) for method in METHODS if method != "joint"}
    lessons = {method: write_unfinished(method) for method in ("oneprompt+vor", "slca")}
    lessons["adam-adapter"] = write_unfinished("adam-adapter", *new)
    table = {"arguments": arguments, "table": json.loads(ovor(*arguments))}
    ovor("export", "models/oneprompt+vor.ovor", "exported.onnx")
    without_traces(Path("exported.onnx"))
    ovor("export", "models/oneprompt+vor.ovor", "bundle.ovor", "--bundle")
    expected = {"methods": METHODS, "models": models, "unfinished": lessons, "grid": table}
    Path("expected.json").write_text(json.dumps(expected))


def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out whose file it is and when it was written, and what is no result."""
    member.mtime = member.uid = member.gid = 0
    member.uname = member.gname = ""
    return None if member.name.endswith((".lock", ".stems", "lesson3")) else member


if __name__ == "__main__":
    sys.addaudithook(stop)
    torch.set_num_threads(1)
    target = Path(sys.argv[1]).absolute()
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        write_all()
        for path in filter(Path.is_file, Path().rglob("*")):
            for place in (folder, str(Path.home()), sys.prefix, str(Path(__file__).parents[2])):
                assert place.encode() not in path.read_bytes(), f"{path} names {place}"
        with tarfile.open(target, "w:xz", preset=9) as archive:
            for path in sorted(Path().iterdir()):
                archive.add(path, filter=anonymous)
