"""Nothing that predicts, serves or reports asks whether it has images or texts: encoders say it.

What these packages need of a kind they get from `Encoder.reads`, or by the word that a file or a
report has for it. A comparison with such a word, or with a class of one kind, would be a question.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src/ovor"
FILES = sorted(
    path for part in ("classifier", "web", "report") for path in (SOURCE / part).rglob("*.py")
)
KINDS = {"image", "images", "text", "texts", "bert"}
CLASSES = {"Bert", "TextModality", "ImageModality"}
MODULES = {"ovor.encoders.bert", "ovor.encoders.text", "ovor.data.texts"}


def questions(tree: ast.AST) -> Iterator[str]:
    """Yield the places where a kind is asked for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            plain = [side for side in sides if isinstance(side, ast.Constant)]
            asked = any(isinstance(op, ast.Eq | ast.NotEq | ast.Is | ast.IsNot) for op in node.ops)
            if asked and any(side.value in KINDS for side in plain):
                yield f"line {node.lineno} compares with a kind"
        elif isinstance(node, ast.Name) and node.id in CLASSES:
            yield f"line {node.lineno} names {node.id}"
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            yield f"line {node.lineno} imports {node.module}"


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(SOURCE)) for path in FILES])
def test_no_kind_is_asked_for(path: Path) -> None:
    assert not list(questions(ast.parse(path.read_text())))


@pytest.mark.parametrize(
    "code",
    [
        'if model.reads.many == "texts": pass',
        "isinstance(encoder, Bert)",
        "from ovor.data.texts import to_text",
    ],
)
def test_a_question_would_be_found(code: str) -> None:
    assert list(questions(ast.parse(code)))
