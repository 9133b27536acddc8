"""The inbox: what waits, like beside like; named many at a time, by mouse and by keyboard."""

import pytest
from playwright.sync_api import Page, expect

from .conftest import Open
from .stub import ALIKE, PHONE, an_inbox, calls, done

WAITING = an_inbox(train=5, fish=3)


def boxes(page: Page) -> list[bool]:
    """Return which images are selected."""
    found: list[bool] = page.locator(".waiting input").evaluate_all(
        "(all) => all.map((b) => b.checked)"
    )
    return found


def test_what_waits_is_grouped_by_likeness_and_counted(show: Open) -> None:
    page = show(inbox=WAITING)
    expect(page.get_by_role("tab", name="Inbox")).to_have_text("Inbox 8")
    page.get_by_role("tab", name="Inbox").click()
    expect(
        page.get_by_role("region", name="Group 1: 5 that look alike").locator("li")
    ).to_have_count(5)
    expect(
        page.get_by_role("region", name="Group 2: 3 that look alike").locator("li")
    ).to_have_count(3)
    expect(page.locator(".waiting img")).to_have_count(8)  # each has its picture
    expect(page.locator(".waiting").first).to_have_text("unknown \u2013 most like train")


def test_images_that_are_like_no_other_stand_together(show: Open) -> None:
    page = show(view="inbox", inbox=an_inbox(train=3, fish=1, banana=1))
    expect(page.get_by_role("region")).to_have_count(2)
    alone = page.get_by_role("region", name="2 images like no other")
    expect(alone.locator("li")).to_have_count(2)


def test_a_whole_group_is_selected_by_one_click_named_and_taught(show: Open) -> None:
    page = show(view="inbox", inbox=WAITING, lesson=done())
    expect(page.locator("#inbox-teach")).to_be_disabled()
    page.locator(".group .check input").first.check()
    assert boxes(page) == [True] * 5 + [False] * 3
    expect(page.locator("#inbox-count")).to_have_text("5 images selected")
    page.get_by_label("They are a").fill(" tram ")
    page.get_by_role("button", name="Teach", exact=True).click()
    expect(page.locator(".outcome.good")).to_be_visible()  # in this view, too
    [call] = calls(page, "inboxTeach")
    assert (sorted(call["ids"]), call["label"]) == (["0", "1", "2", "3", "4"], "tram")
    expect(page.get_by_role("tab", name="Inbox")).to_have_text("Inbox 3")
    expect(page.locator(".waiting")).to_have_count(3)
    expect(page.locator("#inbox-name")).to_have_value("")


def test_shift_selects_all_between_two_clicks(show: Open) -> None:
    page = show(view="inbox", inbox=WAITING)
    page.locator(".waiting input").nth(1).click()
    page.locator(".waiting input").nth(6).click(modifiers=["Shift"])
    assert boxes(page) == [False] + [True] * 6 + [False]
    group = page.locator(".group .check input").first
    assert group.evaluate("(box) => box.indeterminate")
    page.get_by_role("button", name="Select all").click()
    assert boxes(page) == [True] * 8
    page.get_by_role("button", name="Select none").click()
    assert boxes(page) == [False] * 8


def test_the_keyboard_is_enough_to_select_name_and_teach(show: Open) -> None:
    page = show(inbox=an_inbox(train=2, fish=2), lesson=done())
    press = page.keyboard.press
    press("Tab")
    press("ArrowRight")
    expect(page.get_by_role("tab", name="Inbox")).to_be_focused()
    press("Tab")  # select all
    press("Tab")
    expect(page.locator(".group .check input").first).to_be_focused()
    press("Tab")
    press("Space")
    press("Tab")
    press("Tab")
    press("Tab")
    press("Shift+Space")
    assert boxes(page) == [True, True, True, False]
    for _ in range(2):
        press("Tab")
    expect(page.locator("#inbox-name")).to_be_focused()
    page.keyboard.type("tram")
    press("Enter")
    expect(page.locator(".outcome.good")).to_be_visible()
    expect(page.locator("#outcome")).to_be_focused()
    assert len(calls(page, "inboxTeach")[0]["ids"]) == 3


@pytest.mark.parametrize(
    ("held", "then"),
    [
        (".waiting input >> nth=1", ".waiting input >> nth=1"),
        (".group .check input >> nth=1", ".group .check input >> nth=1"),
        (".waiting input >> nth=4", ".group .check input >> nth=0"),  # it is gone
    ],
)
def test_looking_again_leaves_the_keyboard_where_it_is(show: Open, held: str, then: str) -> None:
    page = show(view="inbox", inbox=an_inbox(train=3, fish=2))
    page.locator(held).focus()
    page.evaluate("window.stub.inbox.images.pop(); dispatchEvent(new Event('hashchange'))")
    expect(page.locator(".waiting")).to_have_count(4)
    expect(page.locator(then)).to_be_focused()


def test_images_are_thrown_away(show: Open) -> None:
    page = show(view="inbox", inbox=an_inbox(train=2))
    page.locator(".waiting input").first.check()
    page.get_by_role("button", name="Throw away").click()
    question = page.get_by_role("dialog")
    expect(question).to_contain_text("Throw away 1 image?")
    question.get_by_role("button", name="Cancel").click()
    expect(page.locator(".waiting")).to_have_count(2)
    page.get_by_role("button", name="Throw away").click()
    question.get_by_role("button", name="Throw away").click()
    expect(page.locator(".waiting")).to_have_count(1)
    expect(page.locator("#status")).to_have_text("1 image thrown away.")
    page.get_by_role("button", name="Select all").click()
    page.get_by_role("button", name="Throw away").click()
    question.get_by_role("button", name="Throw away").click()
    expect(page.locator("#inbox-empty")).to_be_visible()
    expect(page.locator("#waiting")).to_be_hidden()
    assert [call["ids"] for call in calls(page, "inboxThrowAway")] == [["0"], ["1"]]


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        ("memory", "gone when it stops; started with --inbox FOLDER"),
        ("folder", "kept in the folder"),
    ],
)
def test_a_line_says_how_long_they_are_kept(show: Open, kept: str, words: str) -> None:
    page = show(PHONE, view="inbox", inbox={**WAITING, "kept": kept})
    expect(page.locator("#inbox-where")).to_contain_text(words)


def test_a_name_like_a_known_one_is_asked_about_and_refusals_are_said(show: Open) -> None:
    page = show(view="inbox", inbox=WAITING, lesson=done(), refuse={"inboxTeach": ALIKE})
    page.locator(".waiting input").first.check()
    page.get_by_label("They are a").fill("Fish")
    page.get_by_label("They are a").press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Yes, it is").click()
    expect(page.locator(".outcome.good")).to_be_visible()
    assert [call["label"] for call in calls(page, "inboxTeach")] == ["Fish", "fish"]
    gone = {"status": 404, "error": "Some of these images are gone: look again."}
    page = show(view="inbox", inbox=WAITING, refuse={"inboxTeach": gone})
    page.locator(".waiting input").first.check()
    page.get_by_label("They are a").fill("tram")
    page.get_by_label("They are a").press("Enter")
    expect(page.locator("#told")).to_contain_text("Some of these images are gone: look again.")
    assert boxes(page)[0]
