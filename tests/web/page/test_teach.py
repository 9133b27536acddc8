"""Teaching: what came of a lesson is as green, amber or red as it is good."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from ..access import check_access
from ..browser import TRIANGLE, drop, sketch
from .conftest import Open
from .stub import ALIKE, GARDEN, calls, done, lesson


def teach(page: Page, folder: Path, name: str = "owl") -> None:
    """Fill in the form with the images of a folder, and send it."""
    page.get_by_label("Class name").nth(0).fill(name)
    drop(page.locator(".class").nth(0), sorted(folder.iterdir()))
    expect(page.locator("#tally")).to_contain_text("1 class, 3 images")
    page.get_by_role("button", name="Learn", exact=True).click()


@pytest.mark.parametrize(
    ("verdict", "accuracy", "title", "tint"),
    [
        ("good", 95.0, "Learned well: owl (12).", "--tint"),
        ("fair", 78.0, "Learned, with doubts: owl (12).", "--warn-tint"),
        ("poor", 0.0, "Learned poorly: do not rely on it yet: owl (12).", "--bad-tint"),
    ],
)
def test_the_card_of_a_lesson_has_the_colour_of_its_verdict(
    show: Open, drawings: Path, verdict: str, accuracy: float, title: str, tint: str
) -> None:
    advice = [] if verdict == "good" else ["owl: 12 images: add about 10."]
    page = show(view="teach", lesson=done(verdict, accuracy, advice))
    teach(page, drawings / "owl")
    card = page.locator("#outcome")
    expect(card.locator("h2")).to_have_text(title)
    expect(card).to_contain_text(f"expect {accuracy:g} % named right (65 to 99 %, by 12 images")
    expect(card.locator(".advice li")).to_have_text(advice)
    expect(page.locator("#status")).to_contain_text(title)
    wanted = page.evaluate(
        "(name) => { const probe = document.createElement('canvas').getContext('2d');"
        " probe.fillStyle = getComputedStyle(document.body).getPropertyValue(name);"
        " const [r, g, b] = probe.fillStyle.match(/[0-9a-f]{2}/g).map((c) => parseInt(c, 16));"
        " return `rgb(${r}, ${g}, ${b})`; }",
        tint,
    )
    expect(card).to_have_css("background-color", wanted)


def test_learn_can_be_pressed_before_the_page_has_heard_of_its_model(
    show: Open, drawings: Path
) -> None:
    page = show(view="teach", late=True, lesson=done())
    teach(page, drawings / "owl")
    page.get_by_role("button", name="Learn", exact=True).click()  # out of impatience
    assert calls(page, "teach") == []
    page.evaluate("window.stub.late = false")
    expect(page.locator("#outcome h2")).to_have_text("Learned well: owl (12).")
    assert len(calls(page, "teach")) == 1


def test_without_a_verdict_the_card_has_no_colour(show: Open, drawings: Path) -> None:
    page = show(view="teach", lesson=done(None))
    teach(page, drawings / "owl")
    expect(page.locator("#outcome h2")).to_have_text("Learned: owl (12).")
    assert page.locator("#outcome").get_attribute("class") == "card outcome "


def test_a_lesson_that_failed_is_red_and_says_why(show: Open, drawings: Path) -> None:
    failed: dict[str, Any] = done(None, state="failed", error="The disk is full.")
    page = show(view="teach", lesson=failed)
    teach(page, drawings / "owl")
    expect(page.locator(".outcome.poor")).to_contain_text("This was not learned.The disk is full.")
    expect(page.get_by_label("Class name").nth(0)).to_have_value("owl")  # nothing is lost
    page.get_by_role("button", name="Remove class").nth(0).click()


def test_a_lesson_can_be_undone_from_its_card(show: Open, drawings: Path) -> None:
    after = {"lessons": [*GARDEN["lessons"], lesson(3, owl=12)]}
    before = {"lessons": GARDEN["lessons"]}
    page = show(view="teach", lesson=done(), after=after, before=before)
    teach(page, drawings / "owl")
    expect(page.locator("#about")).to_contain_text("owl")
    page.get_by_role("button", name="Undo this lesson").click()
    page.get_by_role("dialog", name="Undo the lesson about owl (12)?").get_by_role(
        "button", name="Undo"
    ).click()
    expect(page.locator("#told")).to_contain_text("Undone. \u201cowl\u201d is gone.")
    expect(page.locator("#about")).not_to_contain_text("owl")
    expect(page.locator("#outcome")).to_be_hidden()


def test_more_images_of_a_known_class_are_welcome(show: Open, drawings: Path) -> None:
    page = show(view="teach", lesson=done())
    expect(page.locator("#form")).to_contain_text("more images of known ones are welcome")
    teach(page, drawings / "fish", "fish")
    expect(page.locator("#outcome")).to_be_visible()
    assert [call["labels"] for call in calls(page, "teach")] == ["fish 3"]


def test_fish_beside_fish_is_asked_about(show: Open, drawings: Path) -> None:
    page = show(view="teach", lesson=done(), refuse={"teach": ALIKE})
    question = page.get_by_role("dialog", name="Is \u201cFish\u201d the same as \u201cfish\u201d?")
    teach(page, drawings / "fish", "Fish")
    question.get_by_role("button", name="Cancel").click()
    expect(page.get_by_label("Class name").nth(0)).to_have_value("Fish")
    page.get_by_role("button", name="Learn", exact=True).click()
    question.get_by_role("button", name="Yes, it is").click()
    expect(page.locator("#outcome")).to_be_visible()
    teach(page, drawings / "fish", "Fish")
    question.get_by_role("button", name="No, \u201cFish\u201d is another class").click()
    expect(page.locator("#outcome")).to_be_visible()
    said = [(call["labels"], call["yes"]) for call in calls(page, "teach")]
    assert said[2:] == [("fish 3", False), ("Fish 3", False), ("Fish 3", True)]


def test_what_becomes_of_older_classes_is_said(show: Open, drawings: Path) -> None:
    lost = {"class": "fish", "expected": 80.0, "lost": 12.0, "to": "owl"}
    for points, words in ((12.0, "about 12 images in 100 are now taken"), (0.1, "as before")):
        last = done()
        last["report"]["older"] = {"how": "estimated", "lost": points, "classes": [lost]}
        page = show(view="teach", lesson=last)
        teach(page, drawings / "owl")
        expect(page.locator("#outcome")).to_contain_text(words)


def test_the_card_goes_when_something_else_was_changed(show: Open, drawings: Path) -> None:
    page = show(view="teach", lesson=done())
    teach(page, drawings / "owl")
    expect(page.locator("#outcome")).to_be_visible()
    page.get_by_role("tab", name="Ask").click()
    sketch(page.locator("#pad"), TRIANGLE)
    page.get_by_role("tab", name="Teach").click()
    expect(page.locator("#outcome")).to_be_visible()  # nothing was changed by asking
    page.get_by_role("tab", name="Ask").click()
    page.locator("#sketch .wrong").click()
    page.locator(".choice").first.click()
    expect(page.locator(".learned")).to_be_visible()
    page.get_by_role("tab", name="Teach").click()
    expect(page.locator("#outcome")).to_be_hidden()  # its undo would undo the correction


def test_a_lesson_that_came_second_is_said_to_be_refused(show: Open, drawings: Path) -> None:
    busy = {"status": 409, "error": "Another lesson is going on: wait."}
    page = show(view="teach", lesson=done(), refuse={"teach": busy})
    teach(page, drawings / "owl")
    expect(page.locator("#problems")).to_contain_text("Yours was not taken: press Learn again")
    expect(page.get_by_label("Class name").nth(0)).to_have_value("owl")


def test_two_names_of_a_lesson_that_are_meant_to_be_one_become_one(
    show: Open, drawings: Path
) -> None:
    alike = {"label": "Kite", "alike": [{"given": "kite", "known": "Kite"}]}
    refused = {"status": 409, "error": "Kite looks like kite.", **alike}
    page = show(view="teach", lesson=done(), refuse={"teach": refused})
    for number, (name, folder) in enumerate((("Kite", "fish"), ("kite", "owl"))):
        page.get_by_label("Class name").nth(number).fill(name)
        drop(page.locator(".class").nth(number), sorted((drawings / folder).iterdir()))
    expect(page.locator("#tally")).to_have_text("2 classes, 6 images")
    page.get_by_role("button", name="Learn", exact=True).click()
    question = page.get_by_role("dialog", name="Is \u201ckite\u201d the same as \u201cKite\u201d?")
    expect(question).to_contain_text("Two names here differ only by case or look.")
    page.evaluate("delete window.stub.refuse")
    question.get_by_role("button", name="Yes, it is").click()
    expect(page.locator("#outcome")).to_be_visible()
    assert [call["labels"] for call in calls(page, "teach")] == ["Kite 3, kite 3", "Kite 6"]


def test_what_is_confused_looks_mislabelled_or_was_learned_before_is_said(
    show: Open, drawings: Path
) -> None:
    suspect = {"class": "owl", "looks_like": "fish", "confidence": 0.963}
    last = done()
    last["report"] |= {
        "pairs": [{"classes": ["fish", "owl"], "images": 2}],
        "suspects": [{**suspect, "image": f"00{i}.png"} for i in range(6)],
        "left_out": ["004.png"],
    }
    page = show(view="teach", lesson=last)
    teach(page, drawings / "owl")
    card = page.locator("#outcome")
    expect(card).to_contain_text("Taken for each other most often: fish and owl (2 images).")
    expect(card).to_contain_text("1 image was learned before, and left out.")
    expect(card).to_contain_text("Images that may have the wrong name")
    rows = card.locator(".suspects li")
    expect(rows).to_have_count(5)
    expect(rows.nth(0)).to_contain_text("000.png: taught as owl, looks like fish (96 %).")
    expect(card).to_contain_text("And 1 more, less surely.")
    expect(card.locator(".suspects img")).to_have_count(3)  # of those that are in the form
    check_access(page, 375, 1100)
    rows.nth(0).get_by_role("button", name="It is fish").click()
    expect(rows.nth(0)).to_have_text("000.png counts as fish now.")
    expect(rows.nth(1).get_by_role("button")).to_be_focused()
    [call] = calls(page, "correct")
    assert (call["file"], call["label"], call["was"]) == ("000.png", "fish", "owl")
    expect(card.get_by_role("link", name="Try it")).to_be_visible()
    expect(card.get_by_role("button", name="Undo this lesson")).to_have_count(0)


def test_an_image_that_could_not_be_put_right_can_be_tried_again(
    show: Open, drawings: Path
) -> None:
    last = done()
    suspect = {"class": "owl", "looks_like": "fish", "confidence": 0.963, "image": "000.png"}
    last["report"] |= {"suspects": [suspect]}
    page = show(view="teach", lesson=last, broken={"correct": "The disk is full."})
    teach(page, drawings / "owl")
    row = page.locator("#outcome .suspects li")
    row.get_by_role("button", name="It is fish").click()
    expect(row).to_contain_text("000.png: The disk is full.")
    page.evaluate("window.stub.broken = null")
    row.get_by_role("button", name="It is fish").click()
    expect(row).to_have_text("000.png counts as fish now.")


def test_a_browser_of_2023_shows_what_came_of_a_lesson(show: Open, drawings: Path) -> None:
    page = show(view="teach", lesson=done())
    page.evaluate("delete Element.prototype.checkVisibility; delete Promise.withResolvers")
    teach(page, drawings / "owl")
    expect(page.locator("#status")).to_contain_text("Learned well: owl (12).")
    expect(page.locator("#outcome")).to_be_focused()
