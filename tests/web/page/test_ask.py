"""Asking: what to do is clear, the answer is in sight, and a wrong one is put right at once."""

from pathlib import Path

from playwright.sync_api import Page, expect

from ..browser import TRIANGLE, drop, sketch, sun
from .conftest import Open
from .stub import ALIKE, GARDEN, PHONE, a_model, calls, lesson, row, unknown


def draw_something(page: Page) -> None:
    """Draw one line, after which the page asks once."""
    sketch(page.locator("#pad"), TRIANGLE[:1])
    expect(page.locator("#sketch-answer .answer")).to_be_visible()
    expect(page.locator("#sketch-answer")).not_to_have_attribute("aria-busy", "true")


def in_sight(page: Page, selector: str) -> bool:
    """Tell whether something is above the fold as a whole, without scrolling."""
    box = page.locator(selector).bounding_box()
    size = page.viewport_size
    assert box
    assert size
    return box["y"] >= 0 and box["y"] + box["height"] <= size["height"]


def test_it_says_what_it_knows_and_where_to_draw(show: Open) -> None:
    page = show()
    expect(page.locator("#about")).to_have_text("Knows 3 classes: banana, fish, train")
    expect(page.locator("#known li")).to_have_text(["Bbanana30", "Ffish30", "Ttrain12"])
    expect(page.locator("#draw-here")).to_have_text("Draw here")
    assert in_sight(page, "#pad")
    assert in_sight(page, "#known")
    draw_something(page)
    expect(page.locator("#draw-here")).to_be_hidden()


def test_no_view_speaks_of_tasks_or_methods(show: Open) -> None:
    page = show()
    for view in ("ask", "inbox", "teach", "memory"):
        page.locator(f"#tab-{view}").click()
        words = page.locator("body").inner_text().lower()
        assert "task" not in words
        assert "analytic" not in words


def test_on_a_phone_pad_and_answer_are_in_sight_together(show: Open) -> None:
    page = show(PHONE)
    for _ in ("a line", "and another"):
        draw_something(page)
        assert page.evaluate("scrollY") == 0
        for part in ("#pad", "#sketch-answer .answer", "#sketch-answer .bars", "#sketch .wrong"):
            assert in_sight(page, part), part


def test_it_says_that_it_is_looking(show: Open, drawings: Path) -> None:
    page = show(delay=600)
    sketch(page.locator("#pad"), TRIANGLE)
    answer = page.locator("#sketch-answer")
    expect(answer).to_have_attribute("aria-busy", "true")
    expect(answer).to_contain_text("Looking\u2026")
    expect(answer.locator("strong")).to_have_text("train")
    sketch(page.locator("#pad"), sun())
    expect(answer).to_have_attribute("aria-busy", "true")  # what it said before is of another
    expect(answer).not_to_have_attribute("aria-busy", "true")
    expect(answer).not_to_contain_text("Looking")
    drop(page.locator("#ask-zone"), [drawings / "fish/000.png"])
    expect(page.locator(".result .said")).to_have_attribute("aria-busy", "true")
    expect(page.locator(".result strong")).to_have_text("train")


def test_unknown_and_a_percentage_do_not_contradict_each_other(show: Open, drawings: Path) -> None:
    page = show(rows=[unknown("train")])
    draw_something(page)
    drop(page.locator("#ask-zone"), [drawings / "fish/000.png"])
    expect(page.locator(".result .answer")).to_have_text("unknown \u2013 most like train")
    for place in (page.locator("#sketch-answer"), page.locator(".result")):
        expect(place.locator(".answer")).to_have_text("unknown \u2013 most like train")
        expect(place.locator("meter")).to_have_count(0)
        assert "%" not in place.inner_text()
    expect(page.locator("#status")).to_contain_text("unknown \u2013 most like train.")


def test_a_wrong_answer_is_put_right_by_a_known_class(show: Open) -> None:
    page = show()
    draw_something(page)
    page.get_by_role("button", name="Wrong? It is a \u2026").click()
    expect(page.locator(".choice")).to_have_text(["Ffish", "Bbanana"])  # the likelier first
    expect(page.locator(".choice").first).to_be_focused()
    page.locator(".choice", has_text="banana").click()
    expect(page.locator("#sketch-answer strong")).to_have_text("banana")
    expect(page.locator(".learned")).to_contain_text("Learned: it is \u201cbanana\u201d.")
    expect(page.locator("#status")).to_contain_text("It says now: banana")
    [call] = calls(page, "correct")
    assert (call["file"], call["label"], call["was"]) == ("drawing.png", "banana", None)
    assert len(calls(page, "predict")) == 1  # the answer came with the correction


def test_an_answer_to_half_a_drawing_is_not_put_right(show: Open) -> None:
    page = show(delay=600)
    draw_something(page)
    sketch(page.locator("#pad"), TRIANGLE[1:])
    expect(page.locator("#sketch-answer .looking")).to_be_visible()
    expect(page.locator("#sketch .wrong")).to_be_disabled()
    expect(page.locator("#sketch .wrong")).to_be_enabled()
    assert len(calls(page, "predict")) == 2


def test_a_correction_can_be_taken_back_or_corrected(show: Open) -> None:
    page = show()
    draw_something(page)
    for name in ("banana", "fish"):
        page.locator("#sketch .wrong").click()
        page.locator(".choice", has_text=name).click()
        expect(page.locator("#sketch-answer strong")).to_have_text(name)
    assert [call["was"] for call in calls(page, "correct")] == [None, "banana"]  # it is moved
    page.locator(".learned").get_by_role("button", name="Undo").click()
    expect(page.locator("#sketch-answer strong")).to_have_text("train")
    expect(page.locator(".learned")).to_contain_text("Undone")
    assert len(calls(page, "undo")) == 1


def test_an_unknown_image_is_taught_as_a_new_class(show: Open, drawings: Path) -> None:
    still = {**unknown("train"), "image": "000.png"}
    page = show(rows=[unknown("train")], corrected=still)
    drop(page.locator("#ask-zone"), [drawings / "fish/000.png"])
    page.get_by_role("button", name="Tell it: it is a \u2026").click()
    page.get_by_label("or something else").fill("  tram ")
    page.get_by_role("button", name="Learn it").click()
    expect(page.locator(".learned")).to_contain_text(
        "Learned as \u201ctram\u201d; one image is not"
    )
    [call] = calls(page, "correct")
    assert (call["file"], call["label"]) == ("000.png", "tram")


def test_a_name_that_looks_like_a_known_one_is_asked_about(show: Open) -> None:
    page = show(refuse={"correct": ALIKE})
    draw_something(page)
    page.locator("#sketch .wrong").click()
    field, learn = page.locator(".correct input"), page.get_by_role("button", name="Learn it")
    question = page.get_by_role("dialog", name="Is \u201cFish\u201d the same as \u201cfish\u201d?")
    field.fill("Fish")
    learn.click()
    question.get_by_role("button", name="Cancel").click()
    expect(learn).to_be_enabled()
    learn.click()
    question.get_by_role("button", name="Yes, it is").click()
    expect(page.locator("#sketch-answer strong")).to_have_text("fish")
    page.locator("#sketch .wrong").click()
    field.fill("Fish")
    learn.click()
    question.get_by_role("button", name="No, \u201cFish\u201d is another class").click()
    expect(page.locator("#sketch-answer strong")).to_have_text("Fish")
    asked = [(call["label"], call["yes"]) for call in calls(page, "correct")]
    assert asked == [("Fish", False)] * 2 + [("fish", False), ("Fish", False), ("Fish", True)]


def test_what_is_wrong_with_a_correction_is_said_and_nothing_is_lost(show: Open) -> None:
    page = show(refuse={"correct": {"status": 409, "error": "A lesson is going on: wait."}})
    draw_something(page)
    page.locator("#sketch .wrong").click()
    page.locator(".correct input").fill("owl")
    page.get_by_role("button", name="Learn it").click()
    expect(page.locator(".correct .error")).to_have_text("A lesson is going on: wait.")
    expect(page.locator(".correct input")).to_have_value("owl")
    expect(page.locator("#sketch-answer strong")).to_have_text("train")


def test_a_model_that_learns_lessons_only_lets_the_image_wait_in_teach(show: Open) -> None:
    page = show(model={**GARDEN, "exact": False})
    draw_something(page)
    page.locator("#sketch .wrong").click()
    page.locator(".correct input").fill("owl")
    page.get_by_role("button", name="Learn it").click()
    expect(page.get_by_label("Class name").nth(0)).to_have_value("owl")
    expect(page.get_by_role("button", name="Remove drawing.png")).to_be_visible()
    assert not calls(page, "correct")
    page.get_by_role("button", name="Remove drawing.png").click()


def test_half_a_drawing_does_not_wait_in_the_inbox(show: Open, drawings: Path) -> None:
    page = show()
    draw_something(page)
    drop(page.locator("#ask-zone"), [drawings / "fish/000.png"])
    expect(page.locator(".result strong")).to_have_text("train")
    assert [call["keep"] for call in calls(page, "predict")] == [False, True]


def test_a_model_of_photographs_asks_for_photographs(show: Open) -> None:
    page = show(model={**GARDEN, "drawing": False})
    expect(page.locator("#pad")).to_be_hidden()
    expect(page.locator("#ask-zone")).to_contain_text("Drop photographs here")
    assert in_sight(page, "#ask-zone")


def test_an_empty_model_wants_its_first_classes(show: Open) -> None:
    page = show(model=a_model())
    expect(page.locator("#pad")).to_be_hidden()
    expect(page.locator("#ask-zone")).to_be_hidden()
    page.get_by_role("link", name="Teach it its first classes").click()
    expect(page.get_by_role("heading", name="Teach it its first classes")).to_be_visible()


def test_who_may_only_ask_sees_nothing_that_teaches(show: Open) -> None:
    page = show(model=a_model(lesson(1, fish=30, train=12), can_teach=False), rows=[row("fish")])
    draw_something(page)
    expect(page.get_by_role("tab")).to_have_text(["Ask", "Memory"])
    expect(page.locator(".wrong")).to_have_count(0)
    page.get_by_role("tab", name="Memory").click()
    expect(page.locator(".class-row")).to_have_count(2)
    expect(page.locator("main button:visible")).to_have_count(0)
    page.goto("/#teach")
    page.reload()
    expect(page.locator("#teach")).to_be_hidden()
    page = show(model={**GARDEN, "can_teach": False, "learning": "one"})
    assert not calls(page, "watch")  # the lesson of somebody else is not for them
    page = show(model=a_model(can_teach=False))
    expect(page.locator("#empty")).to_be_visible()
    expect(page.get_by_role("link", name="Teach it")).to_be_hidden()


def test_a_whole_folder_can_be_chosen(show: Open, drawings: Path) -> None:
    (drawings / "owl/notes.txt").write_text("no image")
    page = show()
    expect(page.locator("#ask-folder-choose")).to_have_text("Choose a folder")
    page.locator("#ask-folder").set_input_files(drawings)
    images = len(list(drawings.rglob("*.png")))
    expect(page.locator("#results > li")).to_have_count(images)
    (drawings / "owl/notes.txt").unlink()


def test_only_the_last_correction_can_be_taken_back_by_its_button(
    show: Open, drawings: Path
) -> None:
    page = show()
    drop(page.locator("#ask-zone"), sorted((drawings / "owl").iterdir())[:2])
    rows = page.locator(".result")
    for number in (0, 1):
        rows.nth(number).locator(".wrong").click()
        rows.nth(number).locator(".choice", has_text="banana").click()
        expect(rows.nth(number).locator(".learned")).to_contain_text("Learned: it is")
        expect(rows.nth(number).get_by_role("button", name="Undo")).to_be_focused()
    expect(rows.nth(0).get_by_role("button", name="Undo")).to_have_count(0)
    rows.nth(1).get_by_role("button", name="Undo").click()
    expect(rows.nth(1).locator(".learned")).to_contain_text("Undone")


def test_what_a_correction_has_done_is_said_also_if_the_page_hears_of_the_model_first(
    show: Open,
) -> None:
    page = show()
    draw_something(page)
    page.evaluate("() => { stub.held = new Promise((done) => { window.release = done; }); }")
    page.locator("#sketch .wrong").click()
    page.locator(".choice", has_text="banana").click()
    expect(page.locator("#sketch-answer .looking")).to_have_text("Learning\u2026")
    page.evaluate(
        "window.stub.model = { ...window.stub.model, version: 2, name: 'other.ovor' };"
        " window.dispatchEvent(new Event('hashchange'))"
    )
    expect(page.locator("#name")).to_have_text("other.ovor")
    page.evaluate("window.release()")
    expect(page.locator(".learned")).to_contain_text("Learned: it is \u201cbanana\u201d.")
    assert len(calls(page, "predict")) == 1
