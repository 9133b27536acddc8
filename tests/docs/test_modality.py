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
            if any(is_kind(side) for side in (node.left, *node.comparators)):
                yield f"line {node.lineno} compares with a kind"
        elif isinstance(node, ast.MatchValue) and is_kind(node.value):
            yield f"line {node.value.lineno} chooses by a kind"
        elif isinstance(node, ast.Dict) and {"images", "texts"} <= {*map(constant, node.keys)}:
            yield f"line {node.lineno} has something else for each kind"
        elif isinstance(node, ast.Name | ast.Attribute) and name_of(node) in CLASSES:
            yield f"line {node.lineno} names {name_of(node)}"
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            yield f"line {node.lineno} imports {node.module}"
        elif isinstance(node, ast.Import) and MODULES & {one.name for one in node.names}:
            yield f"line {node.lineno} imports a module of one kind"


def constant(node: ast.AST | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def name_of(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def is_kind(node: ast.AST) -> bool:
    """Tell whether it is the word for a kind, some of which one is, or the kind itself."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(map(is_kind, node.elts))
    return constant(node) in KINDS or name_of(node) == "IMAGES"


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(SOURCE)) for path in FILES])
def test_no_kind_is_asked_for(path: Path) -> None:
    assert not list(questions(ast.parse(path.read_text())))


@pytest.mark.parametrize(
    "code",
    [
        'if model.reads.many == "texts": pass',
        'if reads.many in ("texts", "sounds"): pass',
        "if reads is IMAGES: pass",
        'match reads.many:\n    case "texts": pass',
        'EXAMPLES = {"images": "a.jpg", "texts": "Hello"}',
        "isinstance(encoder, Bert)",
        "isinstance(reads, tokens.TextModality)",
        "import ovor.data.texts",
        "from ovor.data.texts import to_text",
    ],
)
def test_a_question_would_be_found(code: str) -> None:
    assert list(questions(ast.parse(code)))
