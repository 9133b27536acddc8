"""`ovor learn`: one process at a time changes a model, and a dry run changes nothing."""

import json
import re
import time
from pathlib import Path

import pytest
from filelock import FileLock

from command import contents, ovor, start
from drawings import draw
from ovor import Classifier
from ovor.classifier.file import read_model

LEARN = ["learn", "m.ovor", "second"]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    draw(tmp_path / "first", ["banana", "candle"], 8)
    draw(tmp_path / "second", ["owl", "sun"], 8)
    Classifier("embedded", device="cpu").learn("first").save("m.ovor")
    return tmp_path


def test_the_second_of_two_lessons_says_so_and_stops(world: Path) -> None:
    """A real process learns for long; another one, a forget and a link to the model do not."""
    long = ["learn", "l.ovor", "second", "--backbone", "embedded", "--method", "linear"]
    first = start(*long, "--epochs", "100000", "--device", "cpu")
    Path("other.ovor").symlink_to("l.ovor")
    try:
        deadline = time.monotonic() + 240
        while not Path("l.ovor.learning").exists():
            assert first.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        for argv in (
            ["learn", "l.ovor", "first", "--backbone", "embedded"],
            ["learn", "l.ovor", "first", "--backbone", "embedded", "--restart"],
            ["learn", "other.ovor", "first", "--backbone", "embedded", "--resume"],
            ["forget", "l.ovor", "owl"],
        ):
            done = ovor(*argv)
            assert (done.returncode, done.stdout) == (1, "")
            assert done.stderr == (
                f"ovor: Another process is changing {argv[1]}: wait until it is done, and try "
                "again.\n"
            )
            assert Path("l.ovor.learning").exists()
            assert not Path("l.ovor").exists()
    finally:
        first.kill()
        first.communicate()
    # What a killed process leaves, its lock among it, is in nobody's way.
    assert ovor(*long, "--restart", "--epochs", "2").returncode == 0
    names = {path.name for path in world.iterdir()}
    assert names == {"first", "second", "m.ovor", "l.ovor", "other.ovor"}


def test_a_held_lock_changes_nothing(world: Path) -> None:
    with FileLock(world / ".m.ovor.lock"):
        before = contents(world)
        for argv in (LEARN, ["forget", "m.ovor", "banana"]):
            done = ovor(*argv)
            assert done.returncode == 1
            assert "Another process is changing m.ovor" in done.stderr
        # Who only looks need not wait: the file is replaced in one move.
        for argv in (["inspect", "m.ovor"], ["predict", "m.ovor", "second"], [*LEARN, "--dry-run"]):
            assert ovor(*argv).returncode == 0
        assert contents(world) == before


@pytest.mark.parametrize("method", ["analytic", "simplecil", "ovor"])
def test_a_dry_run_writes_nothing(method: str, world: Path) -> None:
    before = contents(world)
    new = ["learn", "n.ovor", "second", "--backbone", "embedded", "--method", method]
    for argv in ([*LEARN, "--dry-run"], [*new, "--dry-run"]):
        done = ovor(*argv)
        assert done.returncode == 0, done.stderr
        assert "owl: 8 images\n  sun: 8 images\nAbout " in done.stdout
        assert "MB of memory" in done.stdout
        assert "Nothing was learned." in done.stdout
        plan = json.loads(ovor(*argv, "--json").stdout)
        assert plan["classes"] == {"owl": 8, "sun": 8}
        assert plan["seconds"] >= 0
        assert plan["megabytes"] > 0
    assert contents(world) == before


def test_a_dry_run_leaves_an_unfinished_lesson_alone(world: Path) -> None:
    Path("m.ovor.learning").write_bytes(b"an unfinished lesson")
    before = contents(world)
    for flags in ([], ["--resume"], ["--restart"]):
        assert ovor(*LEARN, "--dry-run", *flags).returncode == 0
    assert contents(world) == before


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["no/m.ovor", "first"], "There is no folder no: make it first"),
        (["first", "second"], "first is a folder"),
    ],
)
def test_a_dry_run_finds_what_learning_would(argv: list[str], says: str, world: Path) -> None:
    before = contents(world)
    done = ovor("learn", *argv, "--dry-run")
    assert done.returncode == 1
    assert says in done.stderr
    assert contents(world) == before


def test_a_dry_run_of_a_method_that_trains_finds_known_classes(world: Path) -> None:
    new = ["learn", "l.ovor", "first", "--backbone", "embedded", "--method", "linear"]
    assert ovor(*new, "--epochs", "1").returncode == 0
    before = contents(world)
    done = ovor("learn", "l.ovor", "first", "--dry-run")
    assert done.returncode == 1
    assert "'banana', 'candle' are learned already" in done.stderr
    assert contents(world) == before


def test_known_classes_get_more_images_and_the_file_before_is_kept(world: Path) -> None:
    before = (world / "m.ovor").read_bytes()
    draw(world / "more", ["banana", "owl"], 4, first=20)
    plan = json.loads(ovor("learn", "m.ovor", "more", "--dry-run", "--json").stdout)
    assert plan["classes"] == {"banana": 4, "owl": 4}
    done = ovor("learn", "m.ovor", "more")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "Learned: banana (4), owl (4)."
    expect, judged = lines[1].split(" (")
    assert re.fullmatch(
        r"(Good|Fair|Poor): of new images like these expect [\d.]+ % named right", expect
    )
    assert re.fullmatch(
        r"[\d.]+ to [\d.]+ %, by 8 images, each judged by all others; guessing: 33.3 %\)\.", judged
    )
    assert re.fullmatch(r"m\.ovor knows 3 classes in [\d.]+ MB\.", lines[-1])
    assert (world / "m.ovor.before").read_bytes() == before
    tasks = json.loads(ovor("inspect", "m.ovor", "--json").stdout)["tasks"]
    assert [task["classes"] for task in tasks] == [{"banana": 12, "candle": 8}, {"owl": 4}]
    table = ovor("inspect", "m.ovor").stdout
    for column in ("class", "images", "expect", "confused with", "lesson"):
        assert column in table
    assert re.search(r"banana\W+12\W", table)


def test_learning_twice_says_what_was_learned_and_once_leaves_it_out(world: Path) -> None:
    told = json.loads(ovor("learn", "m.ovor", "second", "--once", "--json").stdout)
    assert told["classes"] == {"owl": 8, "sun": 8}
    assert (told["held_out"], told["all_classes"]) == (0, 4)
    assert told["report"]["judged"] == 16
    assert [found["class"] for found in told["report"]["classes"]] == ["owl", "sun"]
    assert told["report"]["left_out"] == []
    before = contents(world)
    done = ovor("learn", "m.ovor", "second")
    assert done.returncode == 1
    assert "Every image here is learned already: there is nothing new to learn." in done.stderr
    assert contents(world) == before
    draw(world / "second", ["sun"], 1, first=8)
    expected = read_model(world / "m.ovor").about.expected
    said = ovor("learn", "m.ovor", "second")
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("Learned: sun (1).\nLearned before, 16 left out: ")
    assert "owl: " not in said.stdout  # nothing of it is new, so nothing new is said of it
    assert read_model(world / "m.ovor").about.expected["owl"] == expected["owl"]


def test_a_failed_lesson_leaves_the_model_and_no_lock(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(world)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    for argv in (LEARN, ["forget", "m.ovor", "banana"]):
        done = ovor(*argv)
        assert done.returncode == 1
        assert "No space left on device" in done.stderr
    assert contents(world) == before


def test_a_task_may_be_forgotten_class_by_class(world: Path) -> None:
    for method in ("analytic", "simplecil", "linear"):
        new = ["--backbone", "embedded", "--method", method, "--epochs", "2"]
        assert ovor("learn", "n.ovor", "first", *new).returncode == 0
        for argv in (
            ["learn", "n.ovor", "second"],
            ["forget", "n.ovor", "banana"],
            ["forget", "n.ovor", "candle"],
            ["predict", "n.ovor", "first"],
            ["evaluate", "n.ovor", "second"],
            ["learn", "n.ovor", "first"],
        ):
            done = ovor(*argv)
            assert (done.returncode, done.stderr) == (0, "")
        Path("n.ovor").unlink()
        Path("n.ovor.before").unlink()


def test_json_is_all_of_stdout(world: Path) -> None:
    (world / "second/notes.txt").touch()
    (world / "second/owl/bad.png").touch()
    skip = ["--on-error", "skip", "--json"]
    for argv in (
        ["learn", "m.ovor", "second", *skip, "--dry-run"],
        ["learn", "m.ovor", "second", *skip],
        ["predict", "m.ovor", "second", *skip],
        ["predict", "m.ovor", "-", *skip],
        ["evaluate", "m.ovor", "second", "--unknown", "first", *skip],
        ["inspect", "m.ovor", "--json"],
        ["forget", "m.ovor", "owl", "--json"],
        ["drawings", "d", "owl", "--each", "2", "--json"],
    ):
        done = ovor(*argv, stdin=b"second/owl\nsecond/owl/bad.png\n")
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("\n") == 1
        json.loads(done.stdout, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
        wrong = ovor(*argv[:-1], "--json", "--nonsense")
        assert (wrong.returncode, wrong.stdout) == (2, "")
