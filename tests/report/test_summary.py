"""The first sentences, the names of classes and their mistakes."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ovor.config import Run, Transform
from ovor.data import load_dataset
from ovor.experiments.folder import Folder
from ovor.experiments.runner import execute
from ovor.presets import in_scenario, settings
from ovor.report import charts, make, page, pictures
from ovor.report.summary import measured, share
from report import synthetic
from small_texts import TICKETS, csv_of, text_folder


def first_words(root: Path) -> str:
    return " ".join(make.of_folders([root]).contents[0].summary)


def test_the_sentence_has_accuracy_chance_bound_forgetting_and_what_was_lost(
    tmp_path: Path,
) -> None:
    """All from the result: nothing is typed in."""
    result = synthetic.write(tmp_path / "a", settings("quickdraw", "oneprompt"))
    words = first_words(tmp_path)
    accuracy, lost = result["metrics"]["pooled_accuracy"], result["metrics"]["F_T"]
    assert words.startswith(f"oneprompt names {accuracy:.1f} % (95 % interval ")
    assert "of 2,000 drawings of 100 classes, where 1 % is chance" in words
    assert f"loses {lost:.1f} points to forgetting; most lost: thing " in words
    learned = [result["class_right"][label // 10][label] for label in range(100)]
    drops = np.subtract(learned, result["class_right"][-1])
    (name,) = re.findall(r"most lost: (thing \d+) ", words)
    assert drops[int(name.split()[1])] == drops.max()
    assert "at once" not in words  # with this backbone, nobody measured it


def test_all_data_at_once_is_a_run_of_the_report(tmp_path: Path) -> None:
    synthetic.write(tmp_path / "a", settings("quickdraw", "oneprompt"))
    bound = [
        synthetic.write(
            tmp_path / f"joint{seed}", replace(settings("quickdraw", "joint"), seed=seed)
        )
        for seed in (0, 1)
    ]
    content = make.of_folders([tmp_path]).contents[0]
    mean = fmean(result["metrics"]["pooled_accuracy"] for result in bound)
    assert f"and {mean:.1f} % is reached with all data at once" in content.summary[0]
    assert not any("at once" in words for words in content.summary if words.startswith("joint "))
    assert "the runs of joint below, 2 seeds" in content.sources[0]


@pytest.mark.parametrize("known", [True, False])
def test_all_data_at_once_as_it_was_measured_or_not_at_all(known: bool, tmp_path: Path) -> None:
    """With the embedded backbone, on all of the drawings; and the source is said."""
    run = settings("quickdraw", "oneprompt")
    result = synthetic.write(tmp_path / "a", run if known else in_scenario(run, "stream"))
    result["backbone"]["sha256"] = measured()["quickdraw"]["backbone"]
    (tmp_path / "a/result.json").write_text(json.dumps(result))
    content = make.of_folders([tmp_path]).contents[0]
    mean = fmean(measured()["quickdraw"]["A_T"])
    assert (f"{mean:.1f} % is reached with all data at once" in content.summary[0]) is known
    assert ("docs/results/main-table-quickdraw.json" in "".join(content.sources)) is known


@pytest.mark.parametrize(
    ("percent", "words"), [(1.0, "1 %"), (0.5, "0.5 %"), (100 / 6, "16.7 %"), (0.02, "0.02 %")]
)
def test_chance_has_the_digits_that_it_needs(percent: float, words: str) -> None:
    assert share(percent) == words


def test_of_many_methods_the_best_and_the_first_are_told(tmp_path: Path) -> None:
    for number, run in enumerate(synthetic.every_method()[:8]):
        synthetic.write(tmp_path / str(number), run)
    (content,) = make.of_folders([tmp_path]).contents
    best = max(content.rows, key=lambda row: row["A_T_mean"])["method"]
    assert [words.split()[0] for words in content.summary] == [best, content.rows[0]["method"]]
    titles = [section.title for section in content.sections]
    assert [t for t in titles if t.startswith("Worst")] == [
        f"Worst classes of {best}",
        f"Worst classes of {content.rows[0]['method']}",
    ]


def test_several_seeds_have_their_spread(tmp_path: Path) -> None:
    run = settings("quickdraw", "oneprompt")
    found = [synthetic.write(tmp_path / str(s), replace(run, seed=s)) for s in (0, 1, 2)]
    values = [result["metrics"]["pooled_accuracy"] for result in found]
    assert f"names {np.mean(values):.1f} ± {np.std(values):.1f} % of 2,000" in first_words(tmp_path)


def test_runs_of_an_older_version_still_make_a_report(tmp_path: Path) -> None:
    """They knew no names: what is not known is left out, and the rest stands."""
    synthetic.write(tmp_path / "a", settings("quickdraw", "oneprompt"), older=True)
    report = make.of_folders([tmp_path])
    (content,) = report.contents
    assert "of 2,000 drawings of 100 classes" in content.summary[0]
    assert "most lost" not in content.summary[0]
    assert not any(section.cards for section in content.sections)
    assert report.notes[0].startswith("Without mistakes by class: a. ")
    assert "confusion" in {chart.name for chart in content.charts}
    assert page.html(report.contents, report.title, report.notes)


def test_classes_have_their_names(finished: Path) -> None:
    (content,) = make.of_folders([finished]).contents
    drawn = {chart.name: chart.records for chart in content.charts}
    names = {f"class{number}" for number in range(6)}
    assert {one["class"] for one in drawn["plane"] if one["class"]} <= names
    shown = {card.title for section in content.sections for card in section.cards}
    assert shown
    assert shown <= names


def test_names_of_classes_are_only_text(tmp_path: Path) -> None:
    evil = '"><script>alert(1)</script><!--'
    result = synthetic.write(tmp_path / "a", settings("quickdraw", "oneprompt"))
    result["class_names"][:2] = [evil, evil + "2"]
    result["class_right"][-1][:2] = [0, 0]
    (tmp_path / "a/result.json").write_text(json.dumps(result))
    report = make.of_folders([tmp_path])
    assert evil in [card.title for part in report.contents[0].sections for card in part.cards]
    text = page.html(report.contents, report.title, report.notes)
    assert "<script>alert" not in text
    assert "<!--" not in text


def test_what_was_not_forgotten_is_not_lost(tmp_path: Path) -> None:
    result = synthetic.write(tmp_path / "a", settings("quickdraw", "oneprompt"))
    result["metrics"]["F_T"] = -2.04
    result["class_right"] = [[20] * len(row) for row in result["class_right"]]
    (tmp_path / "a/result.json").write_text(json.dumps(result))
    words = first_words(tmp_path)
    assert words.endswith("; loses nothing to forgetting, and gains 2.0 points.")


def test_tasks_are_known_by_their_classes_where_all_runs_have_the_same(tmp_path: Path) -> None:
    synthetic.write(tmp_path / "a", settings("quickdraw", "oneprompt"))
    result = synthetic.write(tmp_path / "b", settings("quickdraw", "simplecil"))
    (content,) = make.of_folders([tmp_path]).contents
    drawn = {chart.name: chart.records for chart in content.charts}
    assert drawn["matrix"][-1]["classes"] == "thing 90, thing 91, thing 92 and 7 more"
    (table,) = [t for part in content.sections for t in part.tables if t.name == "tasks"]
    assert table.rows[0][1].text == ", ".join(f"thing {label}" for label in range(10))
    result["class_names"].reverse()
    (tmp_path / "b/result.json").write_text(json.dumps(result))
    (content,) = make.of_folders([tmp_path]).contents
    drawn = {chart.name: chart.records for chart in content.charts}
    assert "classes" not in drawn["matrix"][-1]


def test_of_one_seed_a_point_has_the_interval_of_its_images(tmp_path: Path) -> None:
    result = synthetic.write(tmp_path / "a", settings("quickdraw", "oneprompt"))
    (content,) = make.of_folders([tmp_path]).contents
    (curve,) = [chart.records for chart in content.charts if chart.name == "curves"]
    first = curve[0]
    assert first["low"] < result["accuracy"][0][0] < first["high"]
    assert 10 < first["high"] - first["low"] < 15  # of 200 images
    said = " ".join(words for section in content.sections for words in section.words)
    assert "A task has 200 test examples: by chance alone, a number of one seed is off by" in said
    assert "One test example of a task is 0.5 points." in said
    assert (first["guessing"], curve[-1]["guessing"]) == (10, 1)


def test_errors_between_tasks_stand_beside_those_of_guessing(tmp_path: Path) -> None:
    synthetic.write(tmp_path / "a", settings("quickdraw", "oneprompt"))
    (content,) = make.of_folders([tmp_path]).contents
    share_by_chance = content.rows[0]["errors_between_share_by_chance"]
    assert share_by_chance == pytest.approx(100 * 90 / 99)
    (section,) = [part for part in content.sections if part.title == "Confusion between tasks"]
    assert "guessing among the wrong classes would give 90.9 %" in " ".join(section.words)


@pytest.fixture
def mistaken(tiny_run: Run, tmp_path: Path) -> Path:
    """A run with mistakes, on images of its own."""
    data = tmp_path / "data"
    shutil.copytree(tiny_run.data.removeprefix("folder:"), data)
    run = replace(tiny_run, method="finetune", vor=None, lr=1.0, data=f"folder:{data}")
    execute(run, Folder(tmp_path / "run"), diagnostics=True)
    return tmp_path


def pictures_in(report: make.Report) -> list[str]:
    cards = [card for section in report.contents[0].sections for card in section.cards]
    assert cards
    return [one.uri for card in cards for taken in card.taken for one in taken.pictures]


def test_mistakes_show_the_very_images(mistaken: Path) -> None:
    run, data = mistaken / "run", load_dataset(f"folder:{mistaken / 'data'}")
    known = {pictures.thumbnail(data.test.image(i)) for i in range(len(data.test))}
    shown = pictures_in(make.of_folders([run]))
    assert shown
    assert set(shown) <= known
    assert pictures_in(make.of_folders([run], images=False)) == []


@pytest.mark.parametrize("fate", ["gone", "other images"])
def test_without_the_images_there_are_names_and_counts(fate: str, mistaken: Path) -> None:
    if fate == "gone":
        shutil.rmtree(mistaken / "data")
    else:
        for path in (mistaken / "data").rglob("*.png"):
            Image.open(path).rotate(180).save(path)
    pictures.dataset.cache_clear()
    report = make.of_folders([mistaken / "run"])
    assert pictures_in(report) == []
    (section,) = [part for part in report.contents[0].sections if part.cards]
    assert "The images are not there any more, or have changed" in section.words[-1]
    pictures.dataset.cache_clear()


def test_axes_begin_at_0_or_say_that_they_do_not(report: make.Report) -> None:
    drawn = [*report.contents[0].charts, charts.drift([])]
    cut = set()
    for chart in drawn:
        for axis in axes(chart.spec):
            scale = axis.get("scale") or {}
            if axis["field"] in ("A_T", "accuracy"):
                assert scale["domain"] == [0, 100]
            if scale.get("zero") is False and axis["field"] not in ("task", "beside"):
                cut.add(chart.name)
                said = axis["axis"]["title"].endswith("not from 0")
                assert said is (chart.name != "plane")  # where 0 is nothing special
    assert cut == {"drift", "plane"}


def test_chance_alone_does_not_look_like_a_change(report: make.Report) -> None:
    """The axis of changes spans ten points either way, however small they are."""
    (chart,) = [chart for chart in report.contents[0].charts if chart.name == "changes"]
    ends = [part["encoding"]["y"].get("datum") for part in chart.spec["layer"]]
    assert {-10, 10} <= set(ends)


def test_nothing_is_drawn_as_areas_over_each_other(report: make.Report) -> None:
    for chart in report.contents[0].charts:
        marks = [part["mark"]["type"] for part in chart.spec.get("layer", [chart.spec])]
        assert "area" not in marks


def axes(spec: Any) -> list[dict[str, Any]]:
    """Return every axis of a chart that has a column."""
    if isinstance(spec, list):
        return [found for part in spec for found in axes(part)]
    if not isinstance(spec, dict):
        return []
    own = [spec] if "axis" in spec and "field" in spec else []
    return own + [found for part in spec.values() for found in axes(part)]


def test_runs_on_texts_are_not_said_to_be_of_images(tmp_path: Path) -> None:
    torn = TICKETS["account"]  # in two classes: some of them must be mistaken
    csv_of(tmp_path / "tickets.csv", {**TICKETS, "other": torn})
    backbone = f"text:{text_folder(tmp_path / 'small')}"
    run = Run(
        method="analytic",
        data=f"texts:{tmp_path / 'tickets.csv'}",
        backbone=backbone,
        tasks=2,
        transform=Transform(size=32),
        threads=1,
    )
    execute(run, Folder(tmp_path / "run"), diagnostics=True)
    (found,) = make.of_folders([tmp_path / "run"]).contents
    words = [found.intro, *found.summary, *(line for part in found.sections for line in part.words)]
    words += [table.caption for part in found.sections for table in part.tables]
    words += [said for chart in found.charts for said in (chart.title, chart.alt)]
    assert any("test examples" in said for said in words)
    assert [said for said in words if "image" in said] == []
