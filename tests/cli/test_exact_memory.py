"""The commands that change what a model was taught, each as a person would use it: what it does to
the file, what it says, and what it says as JSON.
"""

import json
import shutil
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from filelock import FileLock
from PIL import Image

from command import contents, ovor
from ovor import Classifier
from ovor.tensor_file import load_tensors

NEW = ["--backbone", "tiny.safetensors", "--method", "analytic"]
PATTERNS = np.random.default_rng(0).integers(0, 256, (5, 14, 14, 3))
CLASSES = ("ant", "bee", "cat", "dog", "elk")


def taught(root: Path, first: int, **counts: int) -> Path:
    """Write images of classes, a pattern and noise each; `first` is the number of their first."""
    for name, count in counts.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        for number in range(first, first + count):
            label = CLASSES.index(name)
            noise = np.random.default_rng((label, number)).normal(0, 60, PATTERNS[label].shape)
            pixels = np.clip(PATTERNS[label] + noise, 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(root / name / f"{number:02}.png")
    return root


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, tiny_backbone: str) -> Path:
    """A model of 6 images of ant and 6 of bee, and folders to go on with."""
    root = tmp_path_factory.mktemp("whole")
    shutil.copy(tiny_backbone, root / "tiny.safetensors")
    taught(root / "old", 0, ant=6, bee=6)
    taught(root / "more", 6, ant=3)
    taught(root / "new", 0, cat=4, dog=4)
    taught(root / "test", 20, ant=3, bee=3, cat=3, dog=3)
    with chdir(root):
        done("learn", "m.ovor", "old", *NEW)
    return root


def done(*argv: object) -> str:
    """Carry out a command that must succeed, and return what it prints."""
    result = ovor(*argv)
    assert result.returncode == 0, result.stderr
    return result.stdout


def value(*argv: object) -> dict[str, Any]:
    """Return the one JSON value that a command prints."""
    printed = done(*argv, "--json")
    assert printed.count("\n") == 1
    found: dict[str, Any] = json.loads(printed)
    return found


def refused(*argv: object) -> str:
    """Return the one sentence of a command that cannot be done, and changes nothing."""
    before = contents(Path())
    result = ovor(*argv)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("ovor: ")
    assert result.stderr.count("\n") == 1
    assert contents(Path()) == before
    return result.stderr


def counts(path: str = "m.ovor") -> dict[str, int]:
    """Return the images of every class, as `ovor inspect` says."""
    return {k: n for task in value("inspect", path)["tasks"] for k, n in task["classes"].items()}


def sums(path: str) -> dict[str, torch.Tensor]:
    """Return the exact sums in a file."""
    names = ("counts", "sums", "second", "gone")
    return {name: load_tensors(Path(path))[0][f"learner.{name}"] for name in names}


def content(path: str) -> Any:
    """Return all that a file holds, but for which one was before it, and where it was computed."""
    tensors, meta = load_tensors(Path(path))
    about = meta["about"] | {"before": None, "run": meta["about"]["run"] | {"device": None}}
    return about, {name: tensor.tolist() for name, tensor in tensors.items()}


def scores(path: str) -> Any:
    """Return what the head says of the test images, in the order of the classes' names."""
    model = Classifier.load(path, device="cpu")
    return model.decision_function("test")[:, np.argsort(model.classes_)]


def assert_same(one: str, other: str) -> None:
    """The same sums and the same scores of every class, bit for bit."""
    ours, theirs = sums(one), sums(other)
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name]), name
    np.testing.assert_array_equal(scores(one), scores(other))


# --- more of a known class


def test_more_images_of_a_known_class_are_as_if_taught_at_once(world: Path) -> None:
    done("learn", "m.ovor", "more")
    assert counts() == {"ant": 9, "bee": 6}
    shutil.copytree("more", "old", dirs_exist_ok=True)
    done("learn", "n.ovor", "old", *NEW)
    assert_same("m.ovor", "n.ovor")


def test_once_leaves_out_what_was_taught(world: Path) -> None:
    done("learn", "n.ovor", "old", *NEW, "--once")
    shutil.copytree("more", "old", dirs_exist_ok=True)
    said = done("learn", "n.ovor", "old")
    assert "Learned: ant (3).\nLearned before, 12 left out: 'old/ant/00.png', " in said
    assert counts("n.ovor") == {"ant": 9, "bee": 6}
    assert "there is nothing new to learn" in refused("learn", "n.ovor", "old")


def test_digests_know_which_images_were_taught(world: Path) -> None:
    done("learn", "n.ovor", "old", *NEW, "--once")
    said = refused("unlearn", "n.ovor", "more")
    assert "more/ant/06.png was not learned as 'ant' since digests are kept" in said
    move = ["correct", "n.ovor", "old/bee/00.png", "--to", "wasp", "--from"]
    assert "old/bee/00.png was not learned as 'ant'" in refused(*move, "ant")
    done(*move, "bee")
    assert counts("n.ovor") == {"ant": 6, "bee": 5, "wasp": 1}


# --- correct


def test_correct_moves_images_to_their_class(world: Path) -> None:
    """A bee among the ants, found later: the model is as if it had been among the bees."""
    shutil.copy("old/bee/00.png", "old/ant/bee.png")
    done("learn", "wrong.ovor", "old", *NEW)
    said = done("correct", "wrong.ovor", "old/ant/bee.png", "--from", "ant", "--to", "bee")
    assert said == (
        "Moved 1 image from 'ant' to 'bee': 'ant' has 6 images instead of 7; 'bee' has 7 images "
        "instead of 6.\n"
    )
    shutil.move("old/ant/bee.png", "old/bee/bee.png")
    done("learn", "right.ovor", "old", *NEW)
    assert_same("wrong.ovor", "right.ovor")


def test_correct_teaches_what_was_never_taught(world: Path) -> None:
    found = value("correct", "m.ovor", "more/ant", "--to", "ant")
    assert found == {
        "model": "m.ovor",
        "changed": {"ant": {"before": 6, "after": 9}},
        "classes": ["ant", "bee"],
        "images": 3,
        "from": None,
        "to": "ant",
    }
    said = done("correct", "m.ovor", "new/cat/00.png", "new/cat/01.png", "--to", "cat")
    assert said == "Taught 2 images as 'cat': 'cat' is there with 2 images.\n"
    assert counts() == {"ant": 9, "bee": 6, "cat": 2}


def test_correct_reads_paths_from_a_pipe(world: Path) -> None:
    piped = ovor(
        "correct", "m.ovor", "-", "--to", "ant", stdin=b"more/ant/06.png\nmore/ant/07.png\n"
    )
    assert (piped.returncode, piped.stderr) == (0, "")
    assert counts()["ant"] == 8


def test_a_class_whose_last_image_moves_is_gone(world: Path) -> None:
    said = done("correct", "m.ovor", "old/bee", "--from", "bee", "--to", "wasp")
    assert "'bee' is gone; 'wasp' is there with 6 images." in said
    assert counts() == {"ant": 6, "wasp": 6}


# --- unlearn


def test_unlearned_images_leave_nothing(world: Path) -> None:
    done("learn", "n.ovor", "old", *NEW)
    done("learn", "n.ovor", "more")
    said = done("unlearn", "n.ovor", "more")
    assert said == (
        "Took 3 images back out of n.ovor: 'ant' has 6 images instead of 9.\n"
        "Copies and exports that were made before still have them.\n"
    )
    assert_same("m.ovor", "n.ovor")
    assert not Path("n.ovor.before").exists()


def test_a_class_that_loses_its_last_image_is_gone(world: Path) -> None:
    done("learn", "m.ovor", "new")
    shutil.rmtree("new/cat")
    found = value("unlearn", "m.ovor", "new")
    assert found["changed"] == {"dog": {"before": 4, "after": 0}}
    assert (found["taken"], found["classes"]) == (4, ["ant", "bee", "cat"])


def test_unlearn_takes_other_names_and_skips_what_cannot_be_read(world: Path) -> None:
    shutil.move("more/ant", "more/emmet")
    Path("more/emmet/bad.png").touch()
    done("correct", "m.ovor", "more/emmet/06.png", "--to", "ant")
    Path("more/emmet/07.png").unlink()
    Path("more/emmet/08.png").unlink()
    assert "bad.png cannot be read" in refused("unlearn", "m.ovor", "more", "--rename", "emmet=ant")
    skip = ["--rename", "emmet=ant", "--on-error", "skip"]
    result = ovor("unlearn", "m.ovor", "more", *skip, "--json")
    assert json.loads(result.stdout)["changed"] == {"ant": {"before": 7, "after": 6}}
    assert "bad.png cannot be read" in result.stderr


# --- undo


@pytest.mark.parametrize(
    "argv",
    [
        ["learn", "m.ovor", "new"],
        ["learn", "m.ovor", "more"],
        ["correct", "m.ovor", "more/ant", "--to", "bee"],
        ["correct", "m.ovor", "old/ant/00.png", "--from", "ant", "--to", "bee"],
        ["rename", "m.ovor", "ant", "emmet"],
        ["merge", "m.ovor", "m.ovor", "other.ovor"],
    ],
    ids=["a class", "more", "taught", "moved", "renamed", "merged"],
)
def test_undo_brings_back_what_was(argv: list[str], world: Path) -> None:
    done("learn", "other.ovor", "new", *NEW)
    before = content("m.ovor")
    done(*argv)
    after = content("m.ovor")
    assert after != before
    assert done("undo", "m.ovor").startswith("m.ovor is as it was before its last change")
    assert content("m.ovor") == before
    done("undo", "m.ovor")  # which was a change too
    assert content("m.ovor") == after


def test_undo_says_what_it_brought_back(world: Path) -> None:
    done("learn", "m.ovor", "more")
    found = value("undo", "m.ovor")
    assert found == {
        "model": "m.ovor",
        "changed": {"ant": {"before": 9, "after": 6}},
        "classes": ["ant", "bee"],
    }


@pytest.mark.parametrize(
    "argv", [["unlearn", "m.ovor", "more"], ["forget", "m.ovor", "ant"]], ids=["unlearn", "forget"]
)
def test_what_was_taken_out_does_not_come_back(argv: list[str], world: Path) -> None:
    done("learn", "m.ovor", "more")
    assert Path("m.ovor.before").exists()
    done(*argv)
    assert not Path("m.ovor.before").exists()
    assert "m.ovor" in refused("undo", "m.ovor")


def test_a_new_model_has_nothing_to_undo(world: Path) -> None:
    refused("undo", "m.ovor")


# --- forget


def test_forget_with_the_images_leaves_nothing(world: Path) -> None:
    done("learn", "n.ovor", "old", *NEW)
    done("learn", "n.ovor", "new")
    said = done("forget", "n.ovor", "dog", "--images", "new/dog")
    assert "'dog' is out of n.ovor" in said
    assert "3 classes are left" in said
    assert "The others are told apart as if it had never been." in said
    shutil.rmtree("new/dog")
    done("learn", "m.ovor", "new")
    assert_same("m.ovor", "n.ovor")


def test_forget_without_them_says_what_stays(world: Path) -> None:
    done("learn", "m.ovor", "new")
    said = done("forget", "m.ovor", "dog")
    assert "Not erased: how its images differed from one another" in said
    assert "prompt" not in said
    assert counts() == {"ant": 6, "bee": 6, "cat": 4}
    found = value("forget", "m.ovor", "cat")
    assert found == {
        "model": "m.ovor",
        "changed": {"cat": {"before": 4, "after": 0}},
        "classes": ["ant", "bee"],
        "forgotten": "cat",
        "exact": False,
    }


def test_forget_takes_all_images_of_the_class_and_no_others(world: Path) -> None:
    said = refused("forget", "m.ovor", "ant", "--images", "old/bee")
    assert "These are not the images that were learned" in said
    Path("old/ant/00.png").unlink()
    said = refused("forget", "m.ovor", "ant", "--images", "old/ant")
    assert "'ant' was learned from 6 images, and here are 5" in said


@pytest.mark.parametrize("how", ["forget", "forget with images", "unlearn"])
def test_the_name_of_a_class_that_is_gone_is_nowhere_in_the_file(how: str, world: Path) -> None:
    """Not even as what another class is confused with."""
    taught(Path("more"), 10, bee=6)
    shutil.move("more/bee", "old/wasp")
    done("learn", "n.ovor", "old", *NEW)
    assert "wasp" in value("inspect", "n.ovor")["expected"]["bee"]["confused_with"]
    if how == "unlearn":
        shutil.rmtree("old/ant")
        shutil.rmtree("old/bee")
        done("unlearn", "n.ovor", "old")
    else:
        done("forget", "n.ovor", "wasp", *(["--images", "old/wasp"] if "with" in how else []))
    assert b"wasp" not in Path("n.ovor").read_bytes()


def test_the_words_of_forget_fit_the_method(world: Path) -> None:
    done("learn", "s.ovor", "old", *NEW[:-1], "simplecil")
    assert "weights that classes share" in done("forget", "s.ovor", "ant")


# --- rename


def test_rename_changes_the_name_alone(world: Path) -> None:
    before = sums("m.ovor")
    assert done("rename", "m.ovor", "ant", "emmet") == (
        "'ant' is called 'emmet' in m.ovor from now on.\n"
    )
    assert counts() == {"emmet": 6, "bee": 6}
    assert all(torch.equal(tensor, before[name]) for name, tensor in sums("m.ovor").items())
    assert value("rename", "m.ovor", "emmet", "ant") == {
        "model": "m.ovor",
        "old": "emmet",
        "new": "ant",
        "classes": ["ant", "bee"],
    }


# --- merge


def test_merged_models_are_one_that_was_taught_all(world: Path) -> None:
    taught(Path("there"), 6, ant=3, cat=4)
    done("learn", "there.ovor", "there", *NEW)
    files = contents(world)
    assert done("merge", "out.ovor", "m.ovor", "there.ovor") == (
        "out.ovor knows what m.ovor and there.ovor know: 3 classes by 19 images.\n"
        "In more than one of them, and added up: 'ant'.\n"
    )
    out = contents(world)
    assert {name for name in out if name not in files} == {str(world / "out.ovor")}
    assert all(out[name] == content for name, content in files.items())
    shutil.copytree("there", "old", dirs_exist_ok=True)
    done("learn", "whole.ovor", "old", *NEW)
    assert_same("out.ovor", "whole.ovor")


def test_merge_may_write_one_of_its_models(world: Path) -> None:
    done("learn", "other.ovor", "new", *NEW)
    done("learn", "third.ovor", "more", *NEW)
    found = value("merge", "m.ovor", "m.ovor", "other.ovor", "third.ovor")
    assert found == {
        "model": "m.ovor",
        "merged": ["m.ovor", "other.ovor", "third.ovor"],
        "images": {"ant": 9, "bee": 6, "cat": 4, "dog": 4},
        "shared": ["ant"],
        "twice": 0,
        "once": False,
        "classes": ["ant", "bee", "cat", "dog"],
        "reads": "images",
    }
    assert counts() == found["images"]


def test_merge_may_write_another_of_its_models_and_be_undone(world: Path) -> None:
    done("learn", "other.ovor", "new", *NEW)
    before = content("other.ovor")
    done("merge", "other.ovor", "m.ovor", "other.ovor")
    assert counts("other.ovor") == {"cat": 4, "dog": 4, "ant": 6, "bee": 6}
    done("undo", "other.ovor")
    assert content("other.ovor") == before


def test_merge_counts_what_two_models_were_both_taught(world: Path) -> None:
    done("learn", "a.ovor", "old", *NEW, "--once")
    shutil.copytree("more", "old", dirs_exist_ok=True)
    done("learn", "b.ovor", "old", *NEW, "--once")
    said = done("merge", "out.ovor", "a.ovor", "b.ovor")
    assert "Taught to more than one of them, and counted twice: 12 images." in said
    assert value("merge", "p.ovor", "a.ovor", "b.ovor")["twice"] == 12
    said = done("merge", "q.ovor", "a.ovor", "m.ovor")
    assert "Not all of them keep digests (--once), so it keeps none." in said


def test_merge_overwrites_nothing_else(world: Path) -> None:
    done("learn", "other.ovor", "new", *NEW)
    shutil.copy("m.ovor", "out.ovor")
    said = refused("merge", "out.ovor", "m.ovor", "other.ovor")
    assert "out.ovor exists already, and is none of the models" in said
    assert "no folder no: make it" in refused("merge", "no/out.ovor", "m.ovor", "other.ovor")
    assert "There is no model gone.ovor" in refused("merge", "o.ovor", "m.ovor", "gone.ovor")


def test_a_model_is_not_merged_with_itself(world: Path) -> None:
    Path("link.ovor").symlink_to("m.ovor")
    for other in ("m.ovor", "./m.ovor", "link.ovor"):
        said = refused("merge", "out.ovor", "m.ovor", other)
        assert "is named twice, and what it learned would count twice" in said
    one = ovor("merge", "out.ovor", "m.ovor")
    assert (one.returncode, one.stdout) == (2, "")
    assert "two models or more" in one.stderr


def test_models_of_two_backbones_do_not_merge(world: Path) -> None:
    from tiny import save_backbone

    save_backbone(Path("other.safetensors"), seed=1)
    done("learn", "other.ovor", "new", "--backbone", "other.safetensors", *NEW[2:])
    assert "backbone" in refused("merge", "out.ovor", "m.ovor", "other.ovor")


# --- models that keep no sums


@pytest.mark.parametrize(
    "argv",
    [
        ["correct", "s.ovor", "more/ant", "--to", "ant"],
        ["unlearn", "s.ovor", "old"],
        ["merge", "out.ovor", "s.ovor", "m.ovor"],
        ["merge", "out.ovor", "m.ovor", "s.ovor"],
        ["forget", "s.ovor", "ant", "--images", "old/ant"],
    ],
    ids=["correct", "unlearn", "merge", "merged", "forget with images"],
)
def test_another_method_cannot_and_says_so(argv: list[str], world: Path) -> None:
    done("learn", "s.ovor", "old", *NEW[:-1], "simplecil")
    assert "simplecil" in refused(*argv)


@pytest.mark.parametrize(
    "argv",
    [
        ["correct", "m.ovor", "more/ant", "--to", "ant"],
        ["unlearn", "m.ovor", "more"],
        ["rename", "m.ovor", "ant", "emmet"],
        ["undo", "m.ovor"],
        ["merge", "m.ovor", "m.ovor", "other.ovor"],
        ["forget", "m.ovor", "cat", "--images", "new/cat"],
    ],
    ids=lambda argv: argv[0],
)
def test_a_moved_backbone_can_be_named(argv: list[str], world: Path) -> None:
    done("learn", "other.ovor", "new", *NEW)
    done("learn", "m.ovor", "new")
    done("learn", "m.ovor", "more")
    Path("tiny.safetensors").rename("moved.safetensors")
    assert "--backbone" in refused(*argv)
    done(*argv, "--backbone", "moved.safetensors")


def test_while_another_process_changes_it_nobody_else_does(world: Path) -> None:
    done("learn", "other.ovor", "new", *NEW)
    with FileLock(world / ".m.ovor.lock"):
        for argv in (
            ["correct", "m.ovor", "more/ant", "--to", "ant"],
            ["unlearn", "m.ovor", "old"],
            ["undo", "m.ovor"],
            ["rename", "m.ovor", "ant", "emmet"],
            ["merge", "m.ovor", "m.ovor", "other.ovor"],
        ):
            assert "Another process is changing m.ovor" in refused(*argv)


def test_json_counts_what_this_lesson_brought(world: Path) -> None:
    """Not what the last new classes have."""
    assert value("learn", "m.ovor", "more")["classes"] == {"ant": 3}
    shutil.copytree("more/ant", "new/ant")
    assert value("learn", "m.ovor", "new")["classes"] == {"ant": 3, "cat": 4, "dog": 4}
