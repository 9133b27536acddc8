"""Runs and grids in which images come in another way than class by class."""

import json
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from command import ovor
from experiments.test_grid import Here
from ovor.config import RUN, Run
from ovor.errors import OvorError
from ovor.events import Event, RunBegins
from ovor.experiments import summary
from ovor.experiments.folder import Folder, read_run
from ovor.experiments.grid import digest, execute_one, folder_of, run_of
from ovor.experiments.runner import execute, prepare
from ovor.experiments.scenarios import arriving
from ovor.experiments.tables import Row, sections
from ovor.learners import METHODS, at_once, looks_again, may_tune, returning
from ovor.presets import in_scenario, settings
from ovor.report.make import of_grid
from tiny import NARROW

ABLE = [name for name in METHODS if returning(name)]


def of(tiny_run: Run, method: str, **changes: Any) -> Run:
    return replace(tiny_run, method=method, vor=None, options=NARROW.get(method, {}), **changes)


class StopError(Exception):
    pass


@pytest.mark.parametrize("method", ABLE)
def test_a_resumed_repetition_equals_an_unbroken_one(
    method: str, tiny_run: Run, tmp_path: Path
) -> None:
    run = of(tiny_run, method, scenario="repetition", imbalance=(4, 9), seed=1, epochs=2)
    events: list[Event] = []
    unbroken = Folder(tmp_path / "unbroken")
    expected = execute(run, unbroken, events.append)
    for stop in np.linspace(1, len(events) - 2, 4).astype(int).tolist():
        folder, before = Folder(tmp_path / f"stopped{stop}"), iter(events[:stop])

        def interrupt(event: Event, before: Iterator[Any] = before) -> None:
            if next(before, None) is None:
                raise StopError

        with pytest.raises(StopError):
            execute(run, folder, interrupt)
        result = execute(read_run(folder.run_file), folder)
        assert result["accuracy"] == expected["accuracy"]
        assert folder.weights.read_bytes() == unbroken.weights.read_bytes()


def test_old_classes_return_and_every_image_is_counted_once(tiny_run: Run, tmp_path: Path) -> None:
    run = of(tiny_run, "simplecil", scenario="repetition")
    context, _ = prepare(run, tmp_path / "c")
    plain, _ = prepare(replace(run, scenario="classes"), tmp_path / "c")
    later = context.tasks[-1]
    assert later.train.labels.min() < later.start
    events: list[Event] = []
    result = execute(run, Folder(tmp_path / "run"), events.append, diagnostics=True)
    (begins,) = [event for event in events if isinstance(event, RunBegins)]
    assert sum(begins.train_images) == sum(len(task.train) for task in plain.tasks) == 60
    assert result["arrival"] == ["repetition"]
    closeup = json.loads((tmp_path / "run/closeup.json").read_text())
    assert min(closeup["plane"]["labels"]) >= 0  # of the middle task's own classes


def test_simplecil_ends_the_same_in_whatever_way_images_come(tiny_run: Run, tmp_path: Path) -> None:
    """Only the means at the end count, and they are of the same images."""
    found = [
        execute(of(tiny_run, "simplecil", scenario=scenario), Folder(tmp_path / scenario))
        for scenario in ("classes", "repetition")
    ]
    assert found[0]["accuracy"][-1] == found[1]["accuracy"][-1]


@pytest.mark.parametrize("method", [m for m in METHODS if m not in ABLE])
def test_who_learns_a_tasks_own_classes_alone_refuses_classes_that_return(
    method: str, tiny_run: Run, tmp_path: Path
) -> None:
    run = replace(tiny_run, method=method, vor=None, scenario="repetition", data="folder:nowhere")
    with pytest.raises(
        OvorError, match=r"choose analytic, shapes, simplecil, .*ranpac.*fecam.* or joint\.$"
    ):
        execute(run, Folder(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_unequal_classes(method: str, tiny_run: Run, tmp_path: Path) -> None:
    run = of(tiny_run, method, imbalance=(1, 4), epochs=1)
    events: list[Event] = []
    result = execute(run, Folder(tmp_path / "run"), events.append)
    (begins,) = [event for event in events if isinstance(event, RunBegins)]
    assert sum(begins.train_images) == 1 + 1 + 2 + 2 + 3 + 4  # 4^(i/5), rounded
    assert sum(begins.test_images) == 24
    assert len(result["tasks"]) == (1 if at_once(method) else 3)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_wrong_labels_and_is_tested_on_right_ones(
    method: str, tiny_run: Run, tmp_path: Path
) -> None:
    run = of(tiny_run, method, label_noise=0.4, epochs=1)
    context, _ = prepare(run, tmp_path / "c")
    data = context.dataset
    position = {old: new for new, old in enumerate(context.order)}
    truth = {
        part: [position[label] for label in images.labels]
        for part, images in (("train", data.train), ("test", data.test))
    }
    wrong = sum(
        int((task.train.labels != np.array(truth["train"])[task.train.indices]).sum())
        for task in context.tasks
    )
    assert 8 <= wrong <= 32  # of the 47 that may be, 19 are expected
    for task in context.tasks:
        assert (task.test.labels == np.array(truth["test"])[task.test.indices]).all()
    result = execute(run, Folder(tmp_path / "run"))
    assert result["arrival"] == ["label noise 0.4"]
    assert np.isfinite(result["metrics"]["A_T"])


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_class_by_class_while_the_domain_shifts(
    method: str, tiny_run: Run, tmp_path: Path
) -> None:
    """As many tasks as classes, each darker than the one before."""
    run = of(tiny_run, method, task_sizes=(1,) * 6, shift="light", epochs=1)
    context, _ = prepare(run, tmp_path / "c")
    light = [
        np.mean([np.asarray(context.dataset.test.image(i)).mean() for i in own])
        for own in (np.flatnonzero(context.dataset.test.labels == c) for c in context.order)
    ]
    assert light[-1] < 0.6 * light[0]
    result = execute(run, Folder(tmp_path / "run"))
    assert result["arrival"] == ["shift light"]
    assert result["tasks"] == ([6] if at_once(method) else [1] * 6)
    assert np.isfinite(result["metrics"]["A_T"])


def test_vor_learns_class_by_class(tiny_run: Run, tmp_path: Path) -> None:
    result = execute(replace(tiny_run, task_sizes=(1,) * 6), Folder(tmp_path))
    assert result["tasks"] == [1] * 6


def test_vor_learns_unequal_classes(tiny_run: Run, tmp_path: Path) -> None:
    assert execute(replace(tiny_run, imbalance=(1, 4)), Folder(tmp_path))["tasks"] == [3, 2, 1]


@pytest.mark.parametrize("method", METHODS)
def test_a_stream_shows_each_image_once_or_is_refused(
    method: str, tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the images that are opened: those of training once each, by whoever may learn at all."""
    run = of(tiny_run, method, scenario="stream", epochs=1)
    tuned = {"tuning": "adapter"} if may_tune(method) else {}
    again = replace(run, options=run.options | tuned)
    if looks_again(method, again.options):
        advice = r"leave .* as it is \(--method.tuning none\)" if tuned else "choose oneprompt"
        with pytest.raises(OvorError, match=f"a stream shows each once: {advice}"):
            execute(again, Folder(tmp_path / "run"))
        assert not (tmp_path / "run").exists()
        if not tuned:
            return
        run = replace(run, options=run.options | {"tuning": "none"})
    context, _ = prepare(run, tmp_path / "c")
    opened: list[int] = []
    kind = type(context.dataset.train)
    usual = kind.image
    train = len(context.dataset.train)

    def image(self: Any, index: int) -> Any:
        if len(self) == train:
            opened.append(index)
        return usual(self, index)

    monkeypatch.setattr(kind, "image", image)
    execute(run, Folder(tmp_path / "run"))
    assert sorted(opened) == list(range(train))


def test_what_contradicts_a_stream_or_imbalance_is_no_run(tiny_run: Run) -> None:
    with pytest.raises(ValidationError, match="leave out the"):
        replace(tiny_run, scenario="stream")
    with pytest.raises(ValidationError, match="epochs must be 1, not 4"):
        replace(tiny_run, vor=None, scenario="stream")
    with pytest.raises(ValidationError, match="not 80 5: try 5 80"):
        replace(tiny_run, imbalance=(80, 5))
    with pytest.raises(OvorError, match=r"choose oneprompt, without \+vor"):
        in_scenario(tiny_run, "stream")
    assert in_scenario(replace(tiny_run, vor=None), "stream").epochs == 1


def test_the_usual_scenario_has_the_names_it_had(tiny_run: Run, tmp_path: Path) -> None:
    """A grid finds the runs that were done before there were scenarios."""
    row = Row("plain", tiny_run)
    written = json.loads(RUN.dump_json(tiny_run))
    new = ("scenario", "imbalance", "label_noise", "shift")
    old = {k: v for k, v in written.items() if k not in new}
    assert RUN.validate_python(old) == tiny_run
    dumped = json.loads(RUN.dump_json(tiny_run, exclude_defaults=True))
    assert not set(new) & set(dumped)
    name = folder_of(tmp_path, row, 3).path.name
    assert name.endswith(f"-oneprompt+vor-seed3-{digest(run_of(row, 3))}")


def test_no_scenario_shares_a_folder_with_another(tiny_run: Run, tmp_path: Path) -> None:
    plain = of(tiny_run, "linear", epochs=1)
    ways: list[Any] = [
        ("classes", None),
        ("stream", None),
        ("stream", (5, 80)),
        ("classes", (5, 80)),
        ("classes", None, 0.1),
        ("classes", None, 0.0, "ink"),
    ]
    names = [folder_of(tmp_path, Row("", in_scenario(plain, *way)), 0).path.name for way in ways]
    assert len(set(names)) == 6
    assert len({name.rsplit("-", 1)[0] for name in names}) == 6  # to be told apart by a reader
    assert "-stream-imbalance-5-to-80-linear-seed0-" in names[2]


def test_a_table_names_its_scenario_and_leaves_the_papers_figures_out(
    tiny_run: Run, tmp_path: Path
) -> None:
    _, (part,) = sections("main-table", ["imagenet-r"], [10], ["simplecil", "ranpac"])
    assert part.rows[0].paper[0] is not None
    part = arriving(part, "repetition", (5, 80))
    assert part.title == "imagenet-r, 10 tasks, repetition, imbalance 5 to 80"
    assert [row.run.scenario for row in part.rows] == ["repetition"] * 2
    found = summary.collect([part], "accuracy", [0], tmp_path)
    headings, _ = summary.accuracy_lines(found[0])
    assert "paper" not in headings
    assert f"*{part.title}*" in summary.as_markdown(found, "accuracy")
    row = Row("simplecil", of(tiny_run, "simplecil", scenario="repetition"))
    execute_one(run_of(row, 0), folder_of(tmp_path, row, 0).path, None)
    done = arriving(replace(part, title="tiny", rows=[row]), "repetition", None)
    assert of_grid([done], [0], tmp_path).title.endswith("on tiny, repetition")


def test_a_grid_refuses_before_it_runs(tiny_run: Run, tmp_path: Path) -> None:
    data = ("--data", tiny_run.data, "--out", "o", "--tasks", "2")
    for flags, words in (
        (("--scenario", "repetition"), "choose analytic, shapes, simplecil"),
        (("--scenario", "stream"), "without +vor, or another method. --methods chooses rows"),
        (("--scenario", "stream", "--epochs", "5"), "leave out --epochs"),
        (("--imbalance", "80", "5"), "try 5 80"),
        (("--seeds",), "--seeds names none"),
        (("--epochs", "1"), "needs two epochs"),
    ):
        said = ovor("grid", "main-table", *data, *flags, cwd=tmp_path)
        assert said.returncode in (1, 2)
        assert words in said.stderr
        assert said.stdout == ""
        assert not (tmp_path / "o").exists()


def test_a_grid_in_a_scenario(
    tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ovor.cli.grid.on_this_machine", lambda *_: nullcontext(Here()))
    place = ("--data", tiny_run.data, "--backbone", tiny_run.backbone, "--out", "o", "--jobs", "1")
    few = ("--tasks", "2", "--seeds", "0", "--methods", "simplecil", "--device", "cpu")
    for flags in ((), ("--scenario", "repetition", "--imbalance", "2", "5")):
        said = ovor("grid", "main-table", *place, *few, *flags, "--json", cwd=tmp_path)
        assert said.returncode == 0, said.stderr
        (part,) = json.loads(said.stdout)["sections"]
        assert part["title"].endswith(
            ", 2 tasks" + (", repetition, imbalance 2 to 5" if flags else "")
        )
        assert len(part["rows"][0]["A_T"]) == 1
    assert {path.name for path in tmp_path.glob("o/report-*.html")} == {
        "report-main-table.html",
        "report-main-table-repetition-imbalance-2-to-5.html",
    }
    assert len(list(tmp_path.glob("o/*/result.json"))) == 2


def test_a_run_in_a_scenario_repeats_and_resumes(tiny_run: Run, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(RUN.dump_json(of(tiny_run, "simplecil")))
    flags = ("--from", "run.json", "--scenario", "repetition", "--imbalance", "2", "5")
    said = ovor("run", *flags, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert ", repetition, imbalance 2 to 5" in " ".join(said.stdout.split())
    (folder,) = (tmp_path / "runs").iterdir()
    assert "-repetition-imbalance-2-to-5-simplecil-seed0" in folder.name
    page = (folder / "report.html").read_text()
    assert "repetition, imbalance 2 to 5" in page
    again = ovor("run", "--from", folder / "run.json", "--out", "again", "--json", cwd=tmp_path)
    first = json.loads((folder / "result.json").read_text())
    assert json.loads(again.stdout)["accuracy"] == first["accuracy"]
    resumed = ovor("run", "--resume", "--out", "again", "--json", cwd=tmp_path)
    assert json.loads(resumed.stdout)["accuracy"] == first["accuracy"]
    other = ovor("run", "--resume", "--out", "again", "--from", "run.json", cwd=tmp_path)
    assert "other settings" in other.stderr


def test_a_run_with_noise_and_shift_repeats(tiny_run: Run, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(RUN.dump_json(of(tiny_run, "fecam")))
    flags = ("--from", "run.json", "--label-noise", "0.2", "--shift", "ink")
    said = ovor("run", *flags, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    assert "-label-noise-0.2-shift-ink-fecam-seed0" in folder.name
    assert "label noise 0.2, shift ink" in (folder / "report.html").read_text()
    again = ovor("run", "--from", folder / "run.json", "--out", "again", "--json", cwd=tmp_path)
    first = json.loads((folder / "result.json").read_text())
    assert json.loads(again.stdout)["accuracy"] == first["accuracy"]
    wrong = ovor("run", "--from", "run.json", "--label-noise", "1.5", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "less than 1" in wrong.stderr


def test_in_a_stream_a_preset_has_one_epoch() -> None:
    from ovor.cli.run import parse_run

    run = parse_run(["--method", "l2p", "--scenario", "stream"]).run
    assert (run.scenario, run.epochs) == ("stream", 1)
    assert run == in_scenario(replace(settings("quickdraw", "l2p"), options=run.options), "stream")
