"""Memory: what is known, by how many images, how far that can be trusted, and changing it."""

import re
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from ..browser import drop
from .conftest import Open
from .stub import GARDEN, PHONE, a_model, calls, lesson


def wilson(right: float, images: int) -> str:
    """Return Wilson's 95 % interval as the page writes it, by the formula of textbooks."""
    z, p = 1.96, right / images
    middle = p + z * z / (2 * images)
    half = z * sqrt((p * (1 - p) + z * z / (4 * images)) / images)
    low, high = ((middle + sign * half) / (1 + z * z / images) for sign in (-1, 1))
    return f"{max(0, low) * 100:.0f} to {min(1, high) * 100:.0f} %"


def remembered(**right: list[int]) -> dict[str, Any]:
    """Return a model with a lesson a class, which was asked of four images after each lesson."""
    names = list(right)
    exams = [
        {
            "lessons": number,
            "groups": [],
            "classes": [
                {"name": name, "lesson": 1, "images": 4, "right": right[name][number - 1]}
                for name in names
            ],
        }
        for number in range(1, len(names) + 1)
    ]
    memory = [
        {
            "name": name,
            "lesson": 1,
            "images": 30,
            "points": [
                {"lessons": number, "images": 4, "right": count, "by": "exam"}
                for number, count in enumerate(counts, 1)
            ],
        }
        for name, counts in right.items()
    ]
    lessons = [lesson(number, **{name: 30}) for number, name in enumerate(names, 1)]
    return a_model(*lessons, exams=exams, memory=memory)


def test_lines_have_names_image_counts_and_intervals(show: Open) -> None:
    page = show(view="memory", model=remembered(banana=[4, 1, 0], fish=[4, 4, 4], owl=[2, 3, 4]))
    expect(page.locator("#curve .curve text")).to_have_text(["banana", "fish", "owl"])
    expect(page.locator(".legend li")).to_have_text(
        ["banana4 images", "fish4 images", "owl4 images"]
    )
    expect(page.locator("#curve .whisker")).to_have_count(9)
    page.get_by_text("The same as a table").click()
    cells = page.locator("tbody tr", has_text="banana").locator("td")
    said = [f"{share} % ({wilson(n, 4)})" for share, n in ((100, 4), (25, 1), (0, 0))]
    expect(cells).to_have_text(["4", *said])
    row = page.locator(".class-row", has_text="banana")
    expect(row).to_contain_text(f"0 % ({wilson(0, 4)}) of 4 asked again")


def test_what_was_measured_of_an_undone_lesson_is_not_drawn(show: Open) -> None:
    model = remembered(banana=[4, 4, 1], fish=[4, 4, 4], owl=[4, 4, 4])
    model["lessons"] = model["lessons"][:2]
    model["memory"] = model["memory"][:2]
    page = show(view="memory", model=model)
    expect(page.locator("#curve .whisker")).to_have_count(4)
    expect(page.locator(".class-row", has_text="banana")).to_contain_text("100 %")


def test_many_classes_are_lines_by_lesson(show: Open) -> None:
    names = [f"class{i}" for i in range(12)]
    model = remembered(**{name: [4] * 12 for name in names})
    model["lessons"] = [
        lesson(1, **dict.fromkeys(names[:8], 30)),
        lesson(2, **dict.fromkeys(names[8:], 30)),
    ]
    model["exams"] = [
        {
            "lessons": n,
            "classes": [],
            "groups": [{"lesson": 1, "images": 32, "right": 30, "accuracy": 93.8}],
        }
        for n in (1, 2)
    ]
    page = show(PHONE, view="memory", model=model)
    expect(page.locator(".legend li")).to_have_text(["class0, class1 and 6 more32 images"])
    expect(page.locator("#curve .curve text")).to_have_count(0)  # a phone has no room for names


def test_a_model_of_the_command_line_has_something_to_show(show: Open) -> None:
    page = show(view="memory")  # it was never asked again
    expect(page.locator(".lesson-card h3")).to_have_text(["Lesson 1", "Lesson 2"])
    banana = page.locator(".class-row", has_text="banana")
    expect(banana).to_contain_text("30 images")
    expect(banana).to_contain_text(f"expect 90 % ({wilson(27, 30)})")
    expect(banana.locator(".track")).to_be_visible()
    expect(page.locator("#curve")).to_contain_text("--exam FOLDER")
    trained = a_model({**lesson(1, fish=20), "held_out": 4, "held_out_accuracy": 75.0}, exact=False)
    trained["lessons"][0]["classes"][0]["expected"] = None
    page = show(view="memory", model=trained)
    expect(page.locator(".lesson-card")).to_contain_text(f"75 % ({wilson(3, 4)}) of 4 set aside")


@pytest.mark.parametrize(("right", "images"), [(0, 1), (1, 4), (27, 30), (200, 200)])
def test_the_interval_is_wilsons(show: Open, right: int, images: int) -> None:
    page = show()
    said = page.evaluate(
        "async ([right, images]) => (await import('/static/interval.js')).inWords(right, images)",
        [right, images],
    )
    assert said.replace("\xa0", " ").endswith(f"({wilson(right, images)})")


def changed(page: Page, words: str) -> None:
    expect(page.locator("#told")).to_contain_text(words)
    expect(page.locator("#status")).to_contain_text(words)


def test_a_class_is_renamed_and_forgotten_when_it_is_confirmed(show: Open) -> None:
    page = show(view="memory", after={"lessons": [lesson(1, plantain=30, fish=30)]})
    page.get_by_role("button", name="Forget train").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert not calls(page, "forget")
    expect(page.get_by_role("button", name="Forget train")).to_be_focused()
    page.get_by_role("button", name="Rename banana").click()
    expect(page.get_by_label("New name")).to_be_focused()
    page.get_by_label("New name").fill("plantain")
    page.keyboard.press("Enter")
    changed(page, "\u201cbanana\u201d is called \u201cplantain\u201d from now on.")
    expect(page.locator("#told")).not_to_contain_text("gone")
    assert [(call["from"], call["to"]) for call in calls(page, "rename")] == [
        ("banana", "plantain")
    ]
    page.get_by_role("button", name="Forget fish").click()
    dialog = page.get_by_role("dialog", name="Forget \u201cfish\u201d?")
    expect(dialog).to_contain_text("cannot be undone")
    dialog.get_by_role("button", name="Forget \u201cfish\u201d").click()
    changed(page, "Forgotten.")
    expect(page.locator("#told").get_by_role("button", name="Close")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab", name="Memory")).to_be_focused()


def test_a_rename_to_a_look_alike_is_asked_about(show: Open) -> None:
    alike = {"status": 409, "error": "?", "alike": [{"given": "FISH", "known": "fish"}]}
    page = show(view="memory", refuse={"rename": alike})
    page.get_by_role("button", name="Rename banana").click()
    page.get_by_label("New name").fill("FISH")
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="look alike").get_by_role("button", name="Go on").click()
    changed(page, "from now on")
    assert [call["yes"] for call in calls(page, "rename")] == [False, True]


def test_the_last_change_is_undone(show: Open) -> None:
    page = show(view="memory", before={"lessons": [lesson(1, banana=30, fish=28)]})
    page.get_by_role("button", name="Undo the last change").click()
    page.get_by_role("dialog").get_by_role("button", name="Undo").click()
    changed(page, "Undone. \u201ctrain\u201d is gone, \u201cfish\u201d has 28 images.")
    page.locator("#told").get_by_role("button", name="Close").click()
    expect(page.locator("#told")).to_be_hidden()
    page = show(view="memory", model={**GARDEN, "can_undo": False})
    expect(page.get_by_role("button", name="Undo the last change")).to_be_disabled()


def test_the_model_is_downloaded_under_its_name(show: Open, tmp_path: Path) -> None:
    page = show(view="memory")
    with page.expect_download() as found:
        page.get_by_role("button", name="Download the model").click()
    assert found.value.suggested_filename == "garden.ovor"
    found.value.save_as(tmp_path / "garden.ovor")
    assert (tmp_path / "garden.ovor").read_text() == "a model"


def test_a_dropped_model_file_is_merged_when_it_is_confirmed(show: Open, tmp_path: Path) -> None:
    (tmp_path / "south.ovor").write_text("another model")
    page = show(after={"lessons": [*GARDEN["lessons"], lesson(3, owl=9)]})
    dialog = page.get_by_role("dialog", name="Merge south.ovor into this model?")
    for view, place in (("ask", "#ask-zone"), ("teach", ".class"), ("memory", "#model-card")):
        page.locator(f"#tab-{view}").click()
        drop(page.locator(place).first, [tmp_path / "south.ovor"])
        dialog.get_by_role("button", name="Cancel").click()
    assert not calls(page, "merge")
    assert not calls(page, "predict")
    page.locator("#merge-file").set_input_files(tmp_path / "south.ovor")
    dialog.get_by_role("button", name="Merge").click()
    changed(page, "south.ovor is merged. \u201cowl\u201d is there with 9 images.")
    assert [call["file"] for call in calls(page, "merge")] == ["south.ovor"]


def test_what_the_server_refuses_is_said(show: Open) -> None:
    no = {"status": 422, "error": "'fish' is the only class: delete the model instead."}
    page = show(view="memory", refuse={"forget": no})
    page.get_by_role("button", name="Forget fish").click()
    page.get_by_role("dialog").get_by_role("button", name=re.compile("^Forget")).click()
    changed(page, "is the only class")


def test_a_long_sentence_leaves_room_for_its_button(show: Open) -> None:
    no = {"status": 422, "error": "This cannot be done, as there are reasons against it. " * 6}
    page = show(view="memory", refuse={"forget": no})
    page.get_by_role("button", name="Forget fish").click()
    page.get_by_role("dialog").get_by_role("button", name=re.compile("^Forget")).click()
    changed(page, "reasons against it")
    close = page.locator("#told").get_by_role("button", name="Close")
    assert close.evaluate("(one) => one.scrollWidth <= one.clientWidth && one.clientHeight < 50")
