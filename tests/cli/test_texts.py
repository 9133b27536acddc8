"""Texts on the command line: taught, asked about, corrected, and what people do by mistake."""

import json
import shutil
import zipfile
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

import pytest

from command import contents, ovor
from ovor import Classifier
from small_texts import TICKETS, csv_of, text_folder

NEW = {"weather": ["rain and wind again", "sun in the morning", "snow on the hills"]}
LEARN = "learn m.ovor new.csv"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, tiny_backbone: str) -> Path:
    """A model of texts, one of images, and tables."""
    root = tmp_path_factory.mktemp("whole")
    text_folder(root / "small")
    csv_of(root / "tickets.csv")
    csv_of(root / "new.csv", NEW)
    shutil.copy(tiny_backbone, root / "tiny.safetensors")
    shutil.copy(Path(tiny_backbone).with_suffix(".json"), root / "tiny.json")
    for name in ("ant", "bee"):
        (root / "images" / name).mkdir(parents=True)
        shutil.copy(Path(__file__).parents[2] / "docs/figures/page-wrong-light.png", root / "a.png")
        shutil.copy(root / "a.png", root / "images" / name / "a.png")
    with chdir(root):  # models remember their backbone by the path that was given
        Classifier("text:small", device="cpu").learn("tickets.csv").save("m.ovor")
        Classifier("tiny.safetensors", device="cpu").learn("images").save("i.ovor")
    return root


def said(*arguments: object, stdin: bytes = b"") -> str:
    done = ovor(*arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_all_that_can_be_done_with_a_model_of_texts(world: Path) -> None:
    learned = said("learn", "n.ovor", "tickets.csv", "--backbone", "text:small", "--once")
    assert "account (6), billing (6), delivery (6)" in learned
    assert "texts" in learned
    assert "image" not in learned
    rows = said("predict", "n.ovor", "tickets.csv").splitlines()
    assert len(rows) == 18
    right = [row.split("\t")[2] for row in rows]
    assert sum(a == b for a, b in zip(right, sorted(right), strict=True)) >= 15
    assert "Every text here is learned already" in ovor("learn", "n.ovor", "tickets.csv").stderr
    said("learn", "n.ovor", "new.csv")
    text = TICKETS["billing"][0]
    assert "1 text from 'billing' to 'account'" in said(
        "correct", "n.ovor", text, "--from", "billing", "--to", "account"
    )
    assert "'billing' has 6 texts instead of 5" in said("undo", "n.ovor")
    assert "'weather' is gone" in said("unlearn", "n.ovor", "new.csv")
    said("rename", "n.ovor", "billing", "money")
    said("forget", "n.ovor", "delivery", "--images", "tickets.csv")
    assert "Digests of learned texts are kept" in said("inspect", "n.ovor")
    about = json.loads(said("inspect", "n.ovor", "--json"))
    assert about["backbone"]["reads"] == "texts"
    assert list(about["expected"]) == ["account", "money"]
    asked = ("evaluate", "m.ovor", "tickets.csv", "--unknown", "new.csv", "--json")
    found = json.loads(said(*asked))
    assert (found["reads"], found["images"], found["unknown"]["images"]) == ("texts", 18, 3)


@pytest.mark.parametrize("with_them", [False, True])
def test_what_stays_of_a_class_is_said_of_texts(world: Path, with_them: bool) -> None:
    csv_of(world / "billing.csv", {"billing": TICKETS["billing"]})
    given = ["--images", "billing.csv"] if with_them else []
    words = said("forget", "m.ovor", "billing", *given)
    assert "Not erased" in words
    assert "its texts" in words
    assert "images" not in words.replace("--images", "")


def test_what_is_learned_again_does_not_make_a_lesson_good(world: Path) -> None:
    mixed = {"a": [*TICKETS["billing"][:3], *TICKETS["account"][:3]], "b": TICKETS["delivery"]}
    csv_of(world / "mixed.csv", mixed)
    first = json.loads(said("learn", "n.ovor", "mixed.csv", "--backbone", "text:small", "--json"))
    assert first["report"]["judged"] == 12
    assert "repeated" not in first["report"]
    second = said("learn", "n.ovor", "mixed.csv")
    assert "Fair: nothing says how well new texts are named, as none of these is new." in second
    assert "so not judged by: 12 texts. --once leaves such out." in second
    csv_of(world / "more.csv", {"c": ["rain again", "rain again", "snow and wind"]})
    third = said("learn", "n.ovor", "more.csv")
    assert "so not judged by: 2 texts." in third
    assert ", by 1 text, each judged by all others" in third


def test_models_of_texts_are_merged(world: Path) -> None:
    said("learn", "n.ovor", "new.csv", "--backbone", "text:small")
    assert "4 classes by 21 texts" in said("merge", "all.ovor", "m.ovor", "n.ovor")
    Path("all.ovor").unlink()
    found = json.loads(said("merge", "all.ovor", "m.ovor", "n.ovor", "--json"))
    assert (found["reads"], sum(found["images"].values())) == ("texts", 21)


def test_rows_say_text_where_images_are_called_image(world: Path) -> None:
    long = "where is my parcel " * 80
    rows = [json.loads(line) for line in said("predict", "m.ovor", long, "--jsonl").splitlines()]
    assert list(rows[0])[:3] == ["text", "label", "unknown"]
    assert len(rows[0]["text"]) <= 60
    assert rows[0]["shortened"] is True
    done = ovor("predict", "m.ovor", long)
    assert "Longer than what is read, and named by the beginning: 1 text." in done.stderr


def test_a_text_a_line_on_standard_input(world: Path) -> None:
    lines = "\ufeffwhere is my parcel\r\n\nrefund my card\n".encode() + b"\xff\n"
    done = ovor("predict", "m.ovor", "-", "--jsonl", stdin=lines)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["text"] for row in rows[:2]] == ["where is my parcel", "refund my card"]
    assert [row.get("label") for row in rows[:2]] != [None, None]
    assert "not UTF-8" in rows[2]["error"]
    assert done.stderr == "ovor: 1 of 3 texts could not be read: their rows say why.\n"


def test_a_bad_first_line_does_not_cost_the_others(world: Path) -> None:
    done = ovor("predict", "m.ovor", "-", stdin=b"\ncaf\xe9 hello\nrefund my card\n")
    first, second = done.stdout.splitlines()
    assert "Line 2 of standard input is not UTF-8" in first
    assert second.startswith("refund my card\t")
    assert "1 of 2 texts could not be read" in done.stderr


def test_files_and_folders_of_texts(world: Path) -> None:
    for name, own in TICKETS.items():
        (world / "all" / name).mkdir(parents=True)
        for number, text in enumerate(own):
            (world / "all" / name / f"{number}.txt").write_text(text)
    said("learn", "f.ovor", "all", "--backbone", "text:small")
    assert said("predict", "f.ovor", "all/account").count("\n") == 6
    assert said("predict", "f.ovor", "all/account/0.txt").startswith("all/account/0.txt\t")
    asked = said("predict", "f.ovor", TICKETS["account"][0]).split("\t")[1:]
    assert said("predict", "m.ovor", "all/account/0.txt").split("\t")[1:] == asked
    said("learn", "f.ovor", "all/billing/0.txt", "--label", "money")


def test_the_report_quotes_texts_that_are_mistaken(world: Path) -> None:
    wrong = {**TICKETS, "account": TICKETS["billing"], "billing": TICKETS["account"]}
    csv_of(world / "wrong.csv", wrong)
    said("evaluate", "m.ovor", "wrong.csv", "--report", "r.html")
    page = (world / "r.html").read_text()
    assert "<blockquote>" in page
    assert any(text in page for text in TICKETS["billing"])
    assert 'such as "' in said("evaluate", "m.ovor", "wrong.csv")
    assert "18 texts" in page
    said("evaluate", "m.ovor", "wrong.csv", "--report", "s.html", "--no-images")
    assert "<blockquote>" not in (world / "s.html").read_text()


def test_exports_predict_the_same(world: Path) -> None:
    pytest.importorskip("onnxscript")
    assert "needed with it: m.tokenizer.json." in said("export", "m.ovor", "m.onnx")
    asked = ["predict", "tickets.csv", "a parcel " * 60, "--jsonl"]
    theirs, ours = (
        [json.loads(line) for line in said(asked[0], model, *asked[1:]).splitlines()]
        for model in ("m.onnx", "m.ovor")
    )
    assert [row["text"] for row in theirs] == [row["text"] for row in ours]
    for one, other in zip(theirs, ours, strict=True):
        assert one["likeliest"] == other["likeliest"]
        assert abs(one["confidence"] - other["confidence"]) < 1e-4
    Path("m.tokenizer.json").rename("elsewhere")
    assert "m.tokenizer.json, which is not beside it" in ovor("predict", "m.onnx", "a b").stderr
    Path("m.tokenizer.json").write_text("{}")
    assert "is not the tokenizer of m.onnx" in ovor("predict", "m.onnx", "a b").stderr


def test_a_bundle_needs_no_encoder(world: Path) -> None:
    said("export", "m.ovor", "b.ovor", "--bundle")
    expected = said("predict", "m.ovor", "tickets.csv")
    shutil.rmtree("small")
    assert said("predict", "b.ovor", "tickets.csv") == expected
    said("learn", "b.ovor", "new.csv")
    gone = ovor("predict", "m.ovor", "tickets.csv").stderr
    assert "needs the backbone text:small" in gone
    assert "all-MiniLM-L6-v2. Or say where it is now (--backbone)." in gone


def test_the_encoder_for_texts_is_chosen_by_itself(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ovor.encoders import text

    monkeypatch.setattr(text, "find_spec", lambda name: None)
    done = ovor("learn", "n.ovor", "tickets.csv")
    assert "pip install 'ovor[text]'" in done.stderr
    assert not Path("n.ovor").exists()


def test_a_line_without_text_is_a_row_and_the_rest_is_answered(world: Path) -> None:
    (world / "new.csv").write_text("id,text\n1,where is my parcel\n2,\n3,reset my password\n")
    done = ovor("predict", "m.ovor", "new.csv")
    first, second, third = done.stdout.splitlines()
    assert first.startswith("where is my parcel\t")
    assert "The text in line 3 of new.csv is empty" in second
    assert third.startswith("reset my password\t")
    assert "1 of 3 texts could not be read" in done.stderr


@pytest.mark.parametrize("command", [["predict"], ["correct", "--to", "billing"]])
def test_an_empty_argument_is_not_the_folder_where_one_is(world: Path, command: list[str]) -> None:
    (world / "a.txt").write_text("lies here by chance")
    before = contents(world)
    done = ovor(command[0], "m.ovor", "", *command[1:])
    assert (done.returncode, done.stdout) == (1, "")
    assert "An empty text is given: leave it out." in done.stderr
    assert contents(world) == before


def test_what_inspect_says_of_texts_has_nothing_of_images(world: Path) -> None:
    found = json.loads(said("inspect", "m.ovor", "--json"))
    assert found["texts"] == {"windows": 8, "tokens": 32}
    assert "images" not in found


# --- what people do by mistake


@dataclass(frozen=True)
class Case:
    name: str
    damage: Callable[[], object]
    command: str
    says: str

    @property
    def argv(self) -> list[str]:
        return self.command.split()


def nothing() -> None:
    """The files are as they should be."""


def holds(name: str, content: bytes) -> Callable[[], object]:
    def damage() -> None:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(content)

    return damage


def zipped(*names: str) -> Callable[[], object]:
    def damage() -> None:
        with zipfile.ZipFile("t.zip", "w") as file:
            for name in names:
                file.write("new.csv", name)

    return damage


def rows(*lines: bytes) -> Callable[[], object]:
    return holds("new.csv", b"\n".join([b"text,label", *lines]) + b"\n")


REFUSED = [
    Case("no such table", nothing, "learn m.ovor gone.csv", "gone.csv does not exist"),
    Case("empty table", holds("new.csv", b""), LEARN, "has no rows"),
    Case("head alone", rows(), LEARN, "has no rows"),
    Case("no text column", holds("new.csv", b"a,label\nb,c\n"), LEARN, "no column of texts"),
    Case("no label column", holds("new.csv", b"text,b\nb,c\n"), LEARN, "no column of labels"),
    Case("two", holds("new.csv", b"text,body,label\na,b,c\n"), LEARN, "either may be the texts"),
    Case(
        "two, for a new model",
        holds("new.csv", b"text,body,label\na,b,c\n"),
        "learn n.ovor new.csv --backbone text:small",
        "either may be the texts: name the one that is (--text-column NAME), or rename",
    ),
    Case(
        "one of them twice",
        holds("new.csv", b"text,Text,label\na,b,c\n"),
        "learn n.ovor new.csv",
        "new.csv has two columns 'text', and only one can be meant: rename",
    ),
    Case(
        "labels twice", holds("new.csv", b"text,label,label\na,b,c\n"), LEARN, "two columns 'label'"
    ),
    Case(
        "mistyped",
        nothing,
        f"{LEARN} --text-column nope",
        "no column 'nope', which was named as that of texts: name one that it has (--text-column "
        "NAME): 'text', 'label'",
    ),
    Case(
        "mistyped, for a new model",
        holds("new.csv", b"file,message,label\nx,a,b\n"),
        "learn n.ovor new.csv --text-column mesage",
        "no column 'mesage', which was named as that of texts: name one that it has (--text-",
    ),
    Case(
        "mistyped labels, of JSON",
        holds("a.jsonl", b'{"text": "a", "label": "b"}\n'),
        "learn m.ovor a.jsonl --label-column nope",
        "no column 'nope', which was named as that of labels: name one that it has (--label-column",
    ),
    Case(
        "no flag of a run",
        holds("own.csv", b"a,label\nb,c\n"),
        "run --data texts:own.csv --backbone text:small --method analytic",
        "give one of its columns the name 'text' in line 1 (it has",
    ),
    Case(
        "no such folder",
        nothing,
        "learn n.ovor new.csv --backbone text:/nowhere",
        "There is no folder /nowhere: give one with config.json, model.safetensors and tok",
    ),
    Case(
        "no such folder here",
        nothing,
        "learn n.ovor new.csv --backbone text:./nowhere",
        "There is no folder nowhere: give one",
    ),
    Case(
        "no name on the hub",
        nothing,
        "learn n.ovor new.csv --backbone text:a--b/c",
        "cannot be a name on the hub",
    ),
    Case("nothing said", nothing, "predict m.ovor -", "There is no text on standard input"),
    Case("empty text", rows(b"a,x", b",x"), LEARN, "The text in line 3 of new.csv is empty"),
    Case("no label", rows(b"a,x", b"b,"), LEARN, "Line 3 of new.csv has no label"),
    Case("NUL bytes alone", rows(b"\0\0,x", b"b,x"), LEARN, "text in line 2 of new.csv is empty"),
    Case("not UTF-8", rows(b"sch\xf6n,x"), LEARN, "Line 2 of new.csv is not UTF-8"),
    Case("open quote", rows(b'"a,x'), LEARN, "is broken"),
    Case("too many", rows(b"a, b,x"), LEARN, "has 3 values, and there are 2 columns"),
    Case("no JSON", holds("a.jsonl", b"x\n"), "learn m.ovor a.jsonl", "is not JSON"),
    Case("no object", holds("a.jsonl", b"[1]\n"), "learn m.ovor a.jsonl", "is no object"),
    Case(
        "list", holds("a.jsonl", b'{"text": [1], "label": 2}\n'), "learn m.ovor a.jsonl", "line 1"
    ),
    Case(
        "two tables", zipped("a.csv", "b.csv"), "learn m.ovor t.zip", "the tables a.csv and b.csv"
    ),
    Case("images to a model of texts", nothing, "learn m.ovor images", "reads texts: make another"),
    Case("texts to one of images", nothing, "learn i.ovor new.csv", "reads images: make another"),
    Case("texts judged", nothing, "evaluate i.ovor new.csv", "holds texts, and this model reads"),
    Case("images judged", nothing, "evaluate m.ovor images", "holds images, and this model reads"),
    Case("taken back", nothing, "unlearn m.ovor images", "holds images, and this model reads"),
    Case("never learned", nothing, "unlearn m.ovor new.csv", "There is no class 'weather'"),
    Case("wrong table", nothing, "forget m.ovor billing --images new.csv", "no line of 'billing'"),
    Case("no file", nothing, "predict m.ovor gone.txt", "There is no file gone.txt"),
    Case("no class", rows(b"a,unknown"), LEARN, "which is the answer for what is of no class"),
    Case("JSON", holds("a.json", b"[]"), "learn n.ovor a.json", "images, or of .txt files"),
    Case("nowhere", nothing, "learn n.ovor gone", "images, or of .txt files"),
    Case("one word", nothing, "predict m.ovor login", "one word is given on standard input"),
    Case(
        "columns of their own, for a new model",
        holds("new.csv", b"Betreff;Nachricht;Kategorie\na;b;c\n"),
        "learn n.ovor new.csv",
        "'betreff', 'nachricht', 'kategorie'): name that of the texts with --text-column",
    ),
    Case("no rows, for a new model", holds("new.csv", b"a,b\n"), "learn n.ovor new.csv", "no rows"),
    Case("no text at all", holds("a.txt", b""), "predict m.ovor a.txt", "could be read"),
    Case("latin", holds("a.txt", b"sch\xf6n"), "predict m.ovor a.txt", "could be read"),
    Case("empty folder", lambda: Path("no").mkdir(), "predict m.ovor no", "There is no text in no"),
    Case("an image", nothing, "predict m.ovor a.png", "could be read"),
    Case("other encoder", nothing, "merge x.ovor m.ovor i.ovor", "different backbones"),
    Case(
        "ViT's method",
        nothing,
        "learn n.ovor new.csv --backbone text:small --method l2",
        "a vision",
    ),
    Case("too long", nothing, "learn n.ovor new.csv --backbone text:small --image-size 900", "900"),
]
FINE = [
    Case("a million characters", rows(b"word " * 200_000 + b",x", b"b,x"), LEARN, "1 text"),
    Case("NUL inside", rows(b"a \0 b,x", b"b,x"), LEARN, "x (2)"),
    Case("line ends", holds("new.csv", b"text,label\r\na,x\nb,x\rc,x\n"), LEARN, "x (3)"),
    Case("mark", holds("new.csv", b"\xef\xbb\xbftext,label\na,x\nb,x\n"), LEARN, "x (2)"),
    Case("semicolons", holds("new.csv", b"text;label\na, b;x\nb;x\n"), LEARN, "x (2)"),
    Case("newline inside", rows(b'"a\nb",x', b"b,x"), LEARN, "x (2)"),
    Case("emoji", rows("👍 ok,x".encode(), b"b,x"), LEARN, "x (2)"),
    Case("special tokens", rows(b"[PAD] [SEP],x", b"b,x"), LEARN, "x (2)"),
    Case("two labels", rows(b"a,x", b"a,y"), LEARN, "more than one label"),
    Case("zip", zipped("new.csv"), "learn m.ovor t.zip", "Took the texts from"),
    Case(
        "what was left out",
        rows(b"\0,x", b"b,x"),
        f"{LEARN} --on-error skip",
        "Left out: The text in line 2 of new.csv is empty, or has nothing in it that could be "
        "read.\n",
    ),
    Case(
        "a column of paths beside one that is named",
        holds("new.csv", b"file,message,label\nx.eml,hello my friend,a\ny.eml,bye now,b\n"),
        "learn n.ovor new.csv --text-column message --backbone text:small",
        "a (1), b (1)",
    ),
    Case(
        "a column of paths, for a network that reads texts",
        holds("new.csv", b"file,message,label\nx.eml,hello my friend,a\ny.eml,bye now,b\n"),
        "learn n.ovor new.csv --backbone text:small",
        "a (1), b (1)",
    ),
    Case(
        "a column of paths, for a model of texts",
        holds("new.csv", b"image,message,label\nx.eml,hello my friend,a\ny.eml,bye now,b\n"),
        LEARN,
        "a (1), b (1)",
    ),
    Case("another column twice", holds("new.csv", b"id,id,text,label\n1,2,a,x\n"), LEARN, "x (1)"),
    Case("skipped", rows(b"\0,x", b"b,x"), f"{LEARN} --on-error skip", "x (1)"),
    Case("none, skipped", rows(b",x", b"b,x", b" ,x"), f"{LEARN} --on-error skip", "x (1)"),
    Case(
        "other columns",
        holds("new.csv", b"q,a\nb,x\nc,x\n"),
        f"{LEARN} --text-column Q --label-column a",
        "x (2)",
    ),
    Case(
        "other columns, asked about",
        holds("new.csv", b"q,a\nrain again,x\n"),
        "predict m.ovor new.csv --text-column Q",
        "rain again\t",
    ),
    Case(
        "other columns, put right",
        holds("new.csv", b"q,a\nrain again,x\n"),
        "correct m.ovor new.csv --text-column Q --to billing",
        "Taught 1 text as 'billing'",
    ),
    Case("planned", nothing, f"{LEARN} --dry-run", "Nothing was learned"),
    Case(
        "a linked table",
        lambda: Path("l.csv").symlink_to("new.csv"),
        "predict m.ovor l.csv",
        "rain and wind again\t",
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=[case.name for case in REFUSED])
def test_a_sentence_and_nothing_changed(case: Case, world: Path) -> None:
    case.damage()
    before = contents(world)
    done = ovor(*case.argv)
    assert "Traceback" not in done.stderr
    assert "mistake in ovor" not in done.stderr
    assert case.says in done.stderr
    assert done.returncode == 1
    assert contents(world) == before


@pytest.mark.parametrize("case", FINE, ids=[case.name for case in FINE])
def test_just_works(case: Case, world: Path) -> None:
    case.damage()
    done = ovor(*case.argv)
    assert done.returncode == 0, done.stderr
    assert case.says in done.stdout + done.stderr
    assert ovor("inspect", "m.ovor").returncode == 0
