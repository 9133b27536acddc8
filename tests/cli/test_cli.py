"""The command line as a person meets it: exit codes, streams, resume, repeat."""

import json
import re
import signal
import subprocess
import time
from contextlib import chdir, nullcontext
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from command import in_new_process, ovor, start
from drawings import draw
from ovor import Classifier
from ovor.cli import COMMANDS
from ovor.cli.run import parse_run
from ovor.cli.running import what_to_run
from ovor.config import RUN, Run
from ovor.errors import OvorError
from ovor.experiments.folder import Folder
from ovor.learners import METHODS
from ovor.presets import ALIASES, settings


@pytest.fixture(scope="module")
def run_file(tiny_run: Run, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("run") / "tiny.json"
    path.write_bytes(RUN.dump_json(tiny_run))
    return str(path)


@pytest.fixture(scope="module")
def finished(run_file: str) -> CompletedProcess[str]:
    """Do a run with all that it leaves, in the folder `here` beside the file."""
    return ovor("run", "--from", run_file, "--json", "--out", "here", cwd=Path(run_file).parent)


def run_quietly(*arguments: object, cwd: Path) -> dict[str, Any]:
    done = ovor("run", *arguments, "--json", "--no-report", cwd=cwd)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return without_time(result)


def without_time(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if "seconds" not in key}


def test_help_needs_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from ovor.cli import COMMANDS, main\n"
        "for name in ('', *COMMANDS):\n"
        "    sys.argv = ['ovor', *filter(None, [name]), '--help']\n"
        "    try: main()\n"
        "    except SystemExit: pass\n"
        "assert 'torch' not in sys.modules"
    )
    done = in_new_process(code=code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("usage: ovor") == len(COMMANDS) + 1


@pytest.mark.parametrize("backbone", ["embedded", "tiny.safetensors"])
def test_one_image_waits_for_torch_and_little_else(
    backbone: str, tiny_backbone: str, tmp_path: Path
) -> None:
    """What torch imports on the way to a few of its functions takes as long as torch itself."""
    for suffix in (".safetensors", ".json"):
        (tmp_path / f"tiny{suffix}").symlink_to(Path(tiny_backbone).with_suffix(suffix))
    draw(tmp_path / "images", ["owl", "sun"], 2)
    with chdir(tmp_path):
        Classifier(backbone, device="cpu").learn("images").save("m.ovor")
    late = ["sympy", "scipy", "sklearn", "timm", "torchvision", "lightning", "huggingface_hub"]
    code = (
        "import sys; from ovor.cli import main; main()\n"
        f"found = [name for name in {[*late, 'torch._dynamo']} if name in sys.modules]\n"
        "assert not found, found"
    )
    done = in_new_process("predict", "m.ovor", "images/owl/000.png", code=code, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there(name: str) -> None:
    assert callable(getattr(import_module(f"ovor.cli.{name}"), f"{name}_command"))


def test_the_overview_loads_no_command() -> None:
    code = (
        "import sys; from ovor.cli import COMMANDS, overview; overview()\n"
        "assert not {f'ovor.cli.{name}' for name in COMMANDS} & set(sys.modules)"
    )
    done = in_new_process(code=code)
    assert done.returncode == 0, done.stderr


def test_json_is_all_of_stdout_and_the_folder_is_complete(
    finished: CompletedProcess[str], run_file: str
) -> None:
    assert finished.returncode == 0, finished.stderr
    result, here = json.loads(finished.stdout), Path(run_file).with_name("here")
    assert result == json.loads((here / "result.json").read_text())
    assert result["method"] == "oneprompt+vor"
    assert result["tasks"] == [3, 2, 1]
    assert sorted(result["class_order"]) == list(range(6))
    assert {"name", "source", "sha256"} <= result["backbone"].keys()
    assert sorted(p.name for p in here.iterdir()) == [
        "closeup.json",
        "events.jsonl",
        "report.html",
        "result.json",
        "run.json",
        "weights.safetensors",
    ]
    events = [json.loads(line) for line in (here / "events.jsonl").open()]
    task = ["epoch"] * 4 + ["task"]
    assert [e["event"] for e in events] == ["begin", *task * 3, "finished"]
    assert all(e["loss"] >= 0 and e["seconds"] > 0 for e in events if e["event"] == "epoch")
    assert "task  3/3" in finished.stderr


def test_a_run_repeats_exactly_from_its_run_json(
    finished: CompletedProcess[str], run_file: str, tmp_path: Path
) -> None:
    here = Path(run_file).with_name("here")
    again = run_quietly("--from", here / "run.json", "--out", "two", cwd=tmp_path)
    assert again == without_time(json.loads(finished.stdout))
    one, two = (folder / "weights.safetensors" for folder in (here, tmp_path / "two"))
    assert one.read_bytes() == two.read_bytes()


def test_the_table_shows_both_metrics(run_file: str, tmp_path: Path) -> None:
    done = ovor("run", "--from", run_file, "--no-report", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "A_T" in done.stdout
    assert "F_T" in done.stdout
    assert "Results in runs/" in done.stdout


def test_ctrl_c_leaves_a_folder_that_resume_finishes(run_file: str, tmp_path: Path) -> None:
    process = start(
        *("run", "--from", run_file, "--out", "here", "--epochs", "40"),
        cwd=tmp_path,
        # A shell that put these tests into the background has made them deaf to it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    checkpoint = tmp_path / "here/checkpoint.safetensors"
    deadline = time.monotonic() + 240
    while not checkpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    try:
        _, message = process.communicate(timeout=40)
    except subprocess.TimeoutExpired:  # Python may lose one in a destructor: people press again
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "ovor run --resume --out here" in message
    assert "Traceback" not in message
    resumed = ovor("run", "--resume", "--out", "here", "--json", "--no-report", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert "continuing at task" in resumed.stderr
    whole = run_quietly("--from", run_file, "--epochs", "40", "--out", "whole", cwd=tmp_path)
    assert without_time(json.loads(resumed.stdout)) == whole


def test_resume_takes_the_flags_that_the_run_was_started_with(
    run_file: str, tmp_path: Path
) -> None:
    flags = ["--from", run_file, "--seed", "3", "--method.lengths", "3", "3"]
    whole = run_quietly(*flags, "--out", "whole", cwd=tmp_path)
    (tmp_path / "part").mkdir()
    (tmp_path / "part/run.json").write_bytes((tmp_path / "whole/run.json").read_bytes())
    assert run_quietly(*flags, "--out", "part", "--resume", cwd=tmp_path) == whole


def test_resume_takes_the_flags_of_a_run_that_began_with_fewer_options(tmp_path: Path) -> None:
    """An older version may not have known all that there are now."""
    for options, same in (({"ridge": 10.0}, True), ({"ridge": 1.0}, False)):
        run = replace(settings("quickdraw", "klda"), options=options)
        (tmp_path / "run.json").write_bytes(RUN.dump_json(run))
        flags = ["--method", "klda", "--method.ridge", "10", "--method.projection", "5000"]
        argv = ["--resume", "--out", str(tmp_path), *flags, "--method.gamma", "1"]
        with nullcontext() if same else pytest.raises(OvorError, match="other settings"):
            assert what_to_run(parse_run(argv), argv, Folder(tmp_path)) == run


def test_resume_refuses_other_settings(run_file: str, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here/run.json").write_bytes(Path(run_file).read_bytes())
    for flags in (["--seed", "3"], ["--method.lengths", "3", "3"], ["--method", "l2p"]):
        done = ovor("run", "--resume", "--out", "here", *flags, cwd=tmp_path)
        assert done.returncode == 1
        assert "other settings" in done.stderr


WRONG_USAGE = [
    (["frobnicate"], "no command 'frobnicate'"),
    (["run", "--epochs", "0"], "epochs"),
    (["run", "--data", "shards:a-0.tar", "shards:a-1.tar"], "Quote what --data names"),
    (["run", "--vor.epochs", "9"], "vor.epochs (9) is a part of epochs"),
    (["run", "--method", "l2p", "--vor.weight", "1"], "--vor.weight"),
    (["run", "--method", "oneprompt", "--method.pool", "3"], "--method.pool"),
    (["run", "--method", "l2p", "--vor-preset", "released"], "+vor"),
    (["run", "nonsense"], "nonsense"),
    (["run", "--seed", "1", "quickdraw-dev"], "Put the preset first"),
    (["run", "--vor_preset", "released"], "--vor-preset"),
    (["run", "--method"], "--method"),
    (["run", "--transform.scale", "0.9", "0.2"], "transform.scale must grow"),
    (["run", "--transform.mean", "1000"], "ovor: transform.mean must be from -100 to 100"),
    (["run", "--method", "l2p", "--scenario", "stream", "--epochs", "5"], "must be 1, not 5"),
    (["run", "--scenario", "often"], "often"),
    (["run", "--imbalance", "80", "5"], "not 80 5: try 5 80"),
    (["run", "--imbalance", "0", "5"], "imbalance"),
    (["run", "--method", "klda", "--method.gamma", "0"], "ovor: method.gamma: Input should be"),
    (["run", "--vor.npos.k", "0"], "ovor: vor.npos.k: Input should be greater than"),
    (["grid", "--jobs", "0"], "jobs"),
]
FAILURES = [
    (["run", "--method", "lpp"], "no method 'lpp'"),
    (["run", "--data", "mnist"], "no data set 'mnist'"),
    (["run", "--data", "folder:nowhere"], "nowhere"),
    (["run", "--tasks", "101"], "100 classes cannot make 101 tasks"),
    (["run", "--task-sizes", "50", "49"], "add up to"),
    (["run", "--backbone", "vit_base_patch16_224"], "tag"),
    (["run", "--backbone", "missing.safetensors"], "missing.safetensors"),
    (["run", "--precision", "bf16", "--device", "cpu"], "bf16 needs a GPU"),
    (["run", "--from", "missing.json"], "missing.json"),
    (["run", "--resume"], "no unfinished run"),
    (["run", "--from", "."], "."),
    (["run", "--method", "ovor+vor"], "leave out the +vor"),
    (["run", "--method", "klda+vor", "--epochs", "1"], "klda has no linear head for VOR"),
    (["run", "--vor-preset", "none"], "no VOR preset 'none'"),
    (["run", "--transform.size", "16"], "multiple of the backbone's patches"),
    (["run", "--method", "l2p", "--method.top-k", "40"], "top_k"),
    (["run", "--scenario", "repetition"], "choose analytic, shapes, simplecil"),
    (["run", "--scenario", "repetition", "--devices", "2"], "own classes alone"),
    (["run", "--scenario", "stream"], "choose oneprompt, without +vor"),
    (["run", "--scenario", "stream", "--method", "slca"], "each once: choose oneprompt"),
]


REFUSED = [*((2, *row) for row in WRONG_USAGE), *((1, *row) for row in FAILURES)]


@pytest.mark.parametrize(("code", "arguments", "words"), REFUSED, ids=[row[2] for row in REFUSED])
def test_what_cannot_be_done(code: int, arguments: list[str], words: str, tmp_path: Path) -> None:
    done = ovor(*arguments, cwd=tmp_path)
    assert done.returncode == code
    assert words in " ".join((done.stdout + done.stderr).split())
    assert "Traceback" not in done.stderr
    assert code == 2 or done.stdout == ""
    assert not (tmp_path / "runs").exists()


def test_method_options_show_in_the_help_of_the_method(tmp_path: Path) -> None:
    assert "--method.pool" in ovor("run", "--method", "l2p", "--help", cwd=tmp_path).stdout


def test_coda_shares_its_components_among_the_tasks(tmp_path: Path) -> None:
    for tasks, components in (("20", 5), ("10", 10), ("5", 20)):
        run = parse_run(["--method", "coda-p", "--tasks", tasks]).run
        assert (run.tasks, run.options["per_task"]) == (int(tasks), components)
    flags = ["--method", "coda-p", "--tasks", "5", "--method.per-task", "3"]
    assert parse_run(flags).run.options["per_task"] == 3


def test_the_help_names_every_method(tmp_path: Path) -> None:
    text = ovor("run", "--help", cwd=tmp_path).stdout
    words = set(re.findall(r"[\w-]+", text))
    assert {*METHODS, *ALIASES} <= words


def test_version(tmp_path: Path) -> None:
    assert ovor("--version", cwd=tmp_path).stdout.strip().count(".") == 2


@pytest.mark.parametrize(
    ("arguments", "epochs", "of_vor"),
    [
        ([], 50, 10),
        (["--epochs", "8"], 8, 2),
        (["--epochs", "2"], 2, 1),
        (["--epochs", "15"], 15, 10),
        (["--epochs", "6", "--vor.epochs", "2"], 6, 2),
    ],
)
def test_few_epochs_leave_vor_its_share(arguments: list[str], epochs: int, of_vor: int) -> None:
    run = parse_run(["--data", "folder:x", *arguments]).run
    assert run.vor is not None
    assert (run.epochs, run.vor.epochs) == (epochs, of_vor)
