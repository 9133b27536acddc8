"""The page of `ovor serve`, used by mouse, files and keyboard in a real browser."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FileChooser, Locator, Page, expect

from drawings import draw
from ovor import Classifier

from .browser import TRIANGLE, Watch, drop, paste, sketch, sun
from .live import serving

pytestmark = pytest.mark.xdist_group("page")  # they share a server, and what it has learned

KNOWN = [["banana", "fish", "triangle"], ["sun", "train"]]
TOKEN = "an-honest-token"
LESSON = 60_000  # milliseconds that a lesson may take on a busy machine


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model, garden.ovor."""
    return with_model(tmp_path_factory.mktemp("page"), Classifier("embedded"))


def with_model(root: Path, classifier: Classifier) -> Path:
    for number, names in enumerate(KNOWN):
        classifier.learn(draw(root / str(number), names, 30))
    classifier.save(root / "garden.ovor")
    return root


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with serving(folder, model="garden.ovor") as live:
        yield live.url


@pytest.fixture(scope="module")
def slow_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a model that trains for epochs and sets images aside."""
    root = with_model(tmp_path_factory.mktemp("slow"), Classifier("embedded", "ovor"))
    with serving(root, model="garden.ovor") as live:
        yield live.url


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    yield from opened(browser, address)


def opened(browser: Browser, address: str) -> Iterator[Page]:
    page = browser.new_page(base_url=address, viewport={"width": 1100, "height": 900})
    page.watch = Watch(page, address)
    page.goto("/")
    yield page
    watch: Watch = page.watch
    page.close()
    watch.check()


@pytest.fixture
def ready(page: Page) -> Page:
    expect(page.locator("#about")).to_contain_text("Knows")
    return page


@pytest.fixture
def slow(browser: Browser, slow_address: str) -> Iterator[Page]:
    for page in opened(browser, slow_address):
        expect(page.locator("#about")).to_contain_text("Knows")
        yield page


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Return a folder of drawings that the model was not shown."""
    draw(tmp_path / "new", ["banana", "fish", "sun"], 2, first=70)
    return tmp_path / "new"


@pytest.fixture
def text_as_png(tmp_path: Path) -> Path:
    (tmp_path / "letter.png").write_text("Dear reader,")
    return tmp_path / "letter.png"


def result(page: Page, name: str) -> Locator:
    return page.locator(".result", has_text=name)


def answered(page: Page, images: int) -> list[str]:
    """Wait for so many answers, and return the class that each image is most like."""
    said = page.locator(".result .answer")
    expect(said).to_have_count(images, timeout=LESSON)
    expect(page.locator(".result [aria-busy]")).to_have_count(0)
    found = [(one.locator("strong").inner_text(), one.inner_text()) for one in said.all()]
    return [text.rpartition(" ")[2] if name == "unknown" else name for name, text in found]


def teach(page: Page, folder: Path) -> None:
    """Teach one class for each sub-folder; the folder is dropped as one."""
    page.get_by_role("tab", name="Teach").click()
    drop(page.locator("#folder-choose"), [folder])
    names = sorted(path.name for path in folder.iterdir())
    for number, name in enumerate(names):
        expect(page.get_by_label("Class name").nth(number)).to_have_value(re.compile(name))
    page.get_by_role("button", name="Learn").click()


def test_the_head_says_what_the_model_is(ready: Page) -> None:
    expect(ready.get_by_role("heading", level=1)).to_have_text("garden.ovor")
    expect(ready.locator("#about")).to_contain_text("banana, fish, triangle, sun, train")
    expect(ready.locator("#known li", has_text="fish")).to_contain_text("30")
    expect(ready).to_have_title("garden.ovor \u2013 ovor")


def test_a_drawing_is_named(ready: Page) -> None:
    for strokes, name in ((sun(), "sun"), (TRIANGLE, "triangle")):
        sketch(ready.locator("#pad"), strokes)
        expect(ready.locator("#sketch-answer strong")).to_have_text(name)
        expect(ready.locator("#status")).to_contain_text(f"The drawing: {name}, ")
        ready.get_by_role("button", name="Undo").click()
        ready.get_by_role("button", name="Clear", exact=True).click()
        expect(ready.locator("#sketch-answer meter")).to_have_count(0)
        expect(ready.get_by_role("button", name="Undo")).to_be_disabled()


def test_dropped_chosen_and_pasted_images_are_named(ready: Page, pictures: Path) -> None:
    drop(ready.locator("#ask-zone"), sorted(pictures.glob("fish/*")))
    assert answered(ready, 2) == ["fish", "fish"]
    ready.locator("#ask-files").set_input_files(pictures / "sun/070.png")
    assert answered(ready, 3)[0] == "sun"  # the newest is on top
    ready.locator("#ask-choose").focus()
    paste(ready, pictures / "sun/071.png")
    assert answered(ready, 4)[0] == "sun"
    expect(ready.locator("#status")).to_contain_text("1 image answered.")
    ready.get_by_role("button", name="Clear the list").click()
    expect(ready.locator(".result")).to_have_count(0)


def test_a_dropped_folder_is_opened_and_names_are_only_text(ready: Page, pictures: Path) -> None:
    evil = "<img src=x onerror=alert(1)>.png"
    (pictures / "fish/070.png").rename(pictures / "fish" / evil)
    (pictures / "notes.txt").write_text("not sent")
    drop(ready.locator("#ask-zone"), [pictures])
    answered(ready, 6)
    expect(result(ready, "onerror").locator(".file")).to_have_text(evil)


def test_a_bad_image_spoils_no_other(ready: Page, pictures: Path, text_as_png: Path) -> None:
    ready.watch.allow(415, 422)
    drop(ready.locator("#ask-zone"), [pictures / "sun/070.png", text_as_png])
    expect(result(ready, "070.png").locator("strong")).to_have_text("sun")
    expect(result(ready, "letter.png").locator(".error")).to_contain_text("letter.png")


def test_it_waits_when_the_server_is_busy(ready: Page, pictures: Path) -> None:
    ready.watch.allow(429)
    busy = {"status": 429, "headers": {"Retry-After": "1"}, "json": {"error": "Come again."}}
    ready.route("**/predict", lambda route: route.fulfill(**busy), times=1)
    drop(ready.locator("#ask-zone"), [pictures / "sun/070.png"])
    expect(result(ready, "070.png")).to_contain_text("The server is busy: trying again in 1 s.")
    expect(result(ready, "070.png").locator("strong")).to_have_text("sun")


def test_it_says_that_the_server_is_gone_and_goes_on(ready: Page, pictures: Path) -> None:
    ready.watch.allow("ERR_INTERNET_DISCONNECTED")
    ready.context.set_offline(True)
    drop(ready.locator("#ask-zone"), [pictures / "sun/070.png"])
    expect(ready.get_by_role("alert")).to_contain_text("The server does not answer.")
    ready.context.set_offline(False)
    expect(result(ready, "070.png").locator("strong")).to_have_text("sun")
    expect(ready.locator("#gone")).to_be_hidden()


def test_what_is_wrong_with_a_lesson_is_said_before_it_is_sent(ready: Page, pictures: Path) -> None:
    sent = []
    ready.on("request", lambda request: sent.append(request.url) if request.post_data else None)
    ready.get_by_role("tab", name="Teach").click()
    learn = ready.get_by_role("button", name="Learn")
    first, second = ready.get_by_label("Class name").nth(0), ready.get_by_label("Class name").nth(1)
    hints = ready.locator(".class-hint")
    learn.click()
    expect(ready.locator("#problems")).to_contain_text("Name a class")
    first.fill("owl")
    second.fill(" owl")
    expect(hints.nth(1)).to_contain_text("two classes called “owl”")
    second.fill("unknown")
    expect(hints.nth(1)).to_contain_text("choose another name")
    second.fill("")
    learn.click()
    expect(hints.nth(0)).to_contain_text("some images")
    expect(ready.locator("#problems")).to_be_focused()
    drop(ready.locator(".class").nth(1), [pictures / "fish/070.png"])
    expect(ready.locator(".over")).to_have_count(0)
    expect(hints.nth(1)).to_contain_text("Give this class a name.")
    second.focus()
    paste(ready, pictures / "fish/071.png")
    expect(ready.locator(".class").nth(1)).to_contain_text("2 images")
    ready.get_by_role("button", name="Remove 070.png").click()
    expect(ready.get_by_role("button", name="Remove 071.png")).to_be_focused()
    expect(ready.locator("#tally")).to_contain_text("2 classes, 1 image")
    ready.get_by_role("button", name="Remove class").nth(1).click()
    expect(ready.locator(".class")).to_have_count(1)
    assert not sent
    first.fill("")  # else leaving asks whether to throw it away


def test_a_bad_image_in_a_lesson_is_shown_at_its_place(
    ready: Page, tmp_path: Path, text_as_png: Path
) -> None:
    ready.watch.allow(415, 422)
    folder = draw(tmp_path / "birds", ["owl", "whale"], 3)
    shutil.copy(text_as_png, folder / "owl/letter.png")
    teach(ready, folder)
    bad = ready.locator(".thumbs .bad")
    expect(bad).to_have_count(1)
    expect(bad).to_contain_text("letter.png")
    expect(ready.locator(".class", has=bad).get_by_label("Class name")).to_have_value("owl")
    ready.route("**/lessons", lambda route: route.abort())  # not to learn it here
    ready.watch.allow("ERR_FAILED")
    ready.get_by_role("button", name="Remove 1 bad image and try again").click()
    expect(bad).to_have_count(0)
    expect(ready.locator("#problems")).to_contain_text("The connection broke")
    expect(ready.locator("#tally")).to_have_text("2 classes, 6 images")


def test_more_images_of_a_known_class_and_a_new_one_are_taught(ready: Page, tmp_path: Path) -> None:
    ready.get_by_role("tab", name="Teach").click()
    expect(ready.locator("#form")).to_contain_text("more images of known ones are welcome")
    expect(ready.locator("#keep-choice")).to_be_hidden()
    teach(ready, draw(tmp_path / "new", ["fish", "frog"], 8, first=30))
    expect(ready.locator(".class-hint").nth(0)).to_have_text(
        "The model knows “fish”: it learns these images in addition."
    )
    done = ready.locator("#outcome")
    expect(done).to_contain_text(": fish (8) and frog (8).", timeout=LESSON)
    expect(done).to_contain_text(
        re.compile(r"Of new images like these expect [\d.]+\s% named right")
    )
    teach(ready, draw(tmp_path / "more", ["frog"], 2, first=40))
    expect(done).to_contain_text(": frog (2).", timeout=LESSON)
    ready.get_by_role("tab", name="Memory").click()
    expect(ready.locator(".class-row", has_text="fish")).to_contain_text("38 images")
    frog = ready.locator(".class-row", has_text="frog")
    expect(frog).to_contain_text(re.compile(r"10 images.*expect \d+\s% \(\d+ to \d+\s%\)"))
    expect(ready.locator("#curve .note")).to_contain_text(
        "--exam FOLDER (one sub-folder per class)."
    )


def test_a_model_that_trains_takes_no_known_class(slow: Page) -> None:
    slow.get_by_role("tab", name="Teach").click()
    expect(slow.locator("#form")).not_to_contain_text("known ones are", use_inner_text=True)
    expect(slow.locator("#keep-choice")).to_contain_text("Keep the few images set aside")
    slow.get_by_label("Class name").nth(0).fill("fish")
    expect(slow.locator(".class-hint").nth(0)).to_contain_text("known already")
    slow.get_by_label("Class name").nth(0).fill("")
    slow.get_by_role("tab", name="Memory").click()
    expect(slow.locator("#memory")).to_contain_text("a few images are set aside")


def test_two_classes_are_taught_and_known_while_predictions_go_on(
    slow: Page, tmp_path: Path
) -> None:
    teach(slow, draw(tmp_path / "new", ["circle", "lollipop"], 20))
    expect(slow.locator("#lesson-title")).to_have_text("Learning circle and lollipop")
    slow.get_by_role("tab", name="Ask").click()
    sketch(slow.locator("#pad"), TRIANGLE)
    expect(slow.locator("#sketch-answer strong")).to_have_text("triangle")
    expect(slow.locator("#percent")).to_be_visible()  # it is still at it
    slow.get_by_role("tab", name="Teach").click()
    done = slow.locator("#outcome")
    expect(done).to_contain_text(": circle (20) and lollipop (20).", timeout=LESSON)
    expect(done).to_contain_text(
        re.compile(r"named right \(\d+ to \d+\s%, by 4 images, not learned from")
    )
    expect(slow.get_by_label("Class name").nth(0)).to_have_value("")
    slow.get_by_role("link", name="Try it").click()
    strangers = draw(tmp_path / "strangers", ["circle", "lollipop"], 3, first=70)
    drop(slow.locator("#ask-zone"), sorted(strangers.glob("*/*.png")))
    assert answered(slow, 6) == ["circle"] * 3 + ["lollipop"] * 3
    slow.get_by_role("tab", name="Memory").click()
    expect(slow.locator(".class-row", has_text="circle")).to_contain_text("of 2 asked again")
    expect(slow.locator("#curve .whisker").last).to_be_visible()
    expect(slow.locator("#curve")).to_contain_text(
        "No images are there to ask about banana, fish and 3 more again"
    )


def test_a_reload_finds_the_lesson_again(slow: Page, tmp_path: Path) -> None:
    slow.watch.allow("ERR_FAILED")
    teach(slow, draw(tmp_path / "new", ["door", "lightning"], 20))
    expect(slow.locator("#lesson-title")).to_have_text("Learning door and lightning")
    slow.route("**/events", lambda route: route.abort(), times=1)  # a break is mended
    slow.reload()
    expect(slow.get_by_role("tab", name="Teach")).to_have_attribute("aria-selected", "true")
    expect(slow.locator("#lesson-title")).to_have_text("Learning door and lightning")
    expect(slow.locator("#lesson-doing")).to_contain_text("%")
    done = slow.locator("#outcome")
    expect(done).to_contain_text(": door (20) and lightning (20).", timeout=LESSON)
    slow.get_by_role("tab", name="Memory").click()
    expect(slow.locator("#lessons")).to_contain_text("lightning")


def test_a_lesson_can_be_cancelled(ready: Page, tmp_path: Path) -> None:
    before = ready.locator("#about").inner_text()
    ready.get_by_role("tab", name="Teach").click()
    ready.locator("#folder").set_input_files(draw(tmp_path / "new", ["mug", "stairs"], 6))
    expect(ready.get_by_label("Class name").nth(1)).to_have_value("stairs")
    ready.get_by_role("button", name="Learn").click()
    expect(ready.locator("#lesson-title")).to_have_text("Learning mug and stairs")
    ready.get_by_role("button", name="Cancel").click()
    expect(ready.locator("#outcome")).to_contain_text("Cancelled.", timeout=LESSON)
    expect(ready.locator("#tally")).to_have_text("2 classes, 12 images")  # nothing is lost
    assert ready.locator("#about").inner_text() == before


def test_drawn_examples_can_be_taught(ready: Page) -> None:
    ready.get_by_role("tab", name="Teach").click()
    ready.get_by_label("Class name").nth(0).fill("my sun")
    ready.get_by_role("button", name="Draw").nth(0).click()
    for turn in (0.1, 0.3):
        sketch(ready.locator(".easel .pad"), sun(turn))
        ready.get_by_role("button", name="Keep this drawing").click()
    expect(ready.get_by_role("button", name="Remove drawing-2.png")).to_be_visible()
    expect(ready.locator("#tally")).to_contain_text("1 class, 2 images. One class alone")


def test_the_token_is_asked_for(browser: Browser, folder: Path, pictures: Path) -> None:
    with serving(folder, model="garden.ovor", OVOR_TOKEN=TOKEN) as live:
        for page in opened(browser, live.url):
            page.watch.allow(401)
            field, go = page.locator("#token-value"), page.get_by_role("button", name="Go on")
            expect(field).to_be_focused()
            page.keyboard.press("Escape")
            page.keyboard.press("Escape")
            for wrong in ("not it", "notit", "näh"):
                field.fill(wrong)
                go.click()
                expect(page.locator("#token-wrong")).not_to_be_empty()
            field.fill(TOKEN)
            field.press("Enter")
            expect(page.locator("#name")).to_have_text("garden.ovor")
            drop(page.locator("#ask-zone"), [pictures / "sun/070.png"])
            expect(result(page, "070.png").locator("strong")).to_have_text("sun")
            page.reload()
            expect(page.locator("#name")).to_have_text("garden.ovor")
            assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]


def test_the_keyboard_is_enough(ready: Page, pictures: Path) -> None:
    press = ready.keyboard.press
    press("Tab")
    expect(ready.get_by_role("tab", name="Ask")).to_be_focused()
    for key, name in (
        ("ArrowRight", "Inbox"),
        ("ArrowRight", "Teach"),
        ("ArrowRight", "Memory"),
        ("ArrowRight", "Ask"),
        ("ArrowLeft", "Memory"),
        ("Home", "Ask"),
    ):
        press(key)
        tab = ready.get_by_role("tab", name=name)
        expect(tab).to_be_focused()
        expect(tab).to_have_attribute("aria-selected", "true")
        expect(ready.get_by_role("tabpanel", name=name)).to_be_visible()
    press("Tab")
    expect(ready.get_by_role("button", name="Choose images")).to_be_focused()
    choosers: list[FileChooser] = []
    ready.on("filechooser", lambda chooser: choosers.append(chooser))  # it wants a function
    for _ in range(5):  # on a busy machine Chromium at times lets the first one pass
        press("Enter")
        for _ in range(20):
            ready.wait_for_timeout(0 if choosers else 100)
        if choosers:
            break
    choosers[0].set_files(pictures / "sun/070.png")
    expect(result(ready, "070.png").locator("strong")).to_have_text("sun")
    press("Tab")
    expect(ready.locator("#ask-folder-choose")).to_be_focused()
    press("Tab")
    expect(ready.get_by_role("button", name="Clear the list")).to_be_focused()
    press("Enter")
    expect(ready.get_by_role("button", name="Choose images")).to_be_focused()
