"""Texts as a network reads them: windows of token ids, by Hugging Face's tokenizers.

A view is an array of whole numbers, windows x tokens: 0 where there is no token, else the token's
id and one. A text longer than a window goes on in the next; what is beyond the last is not read.
"""

import codecs
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ovor.config import Transform
from ovor.data.base import Integers
from ovor.data.formats import missing
from ovor.data.images import IN_MEMORY, at_home
from ovor.data.labelled import Labelled, Labels, rows_of_part
from ovor.data.memory import Pair, pairs_of
from ovor.data.modality import IMAGES, WORDS, Columns, Found, ImageModality, Modality, View
from ovor.data.parts import Part
from ovor.data.tables import ANY_TEXTS, Row, is_table, read_table
from ovor.data.texts import find_texts, is_place, quoted, read_texts, spread_texts, to_text
from ovor.errors import OvorError

WINDOWS = 8  # of a long text that are read
LONGEST_WORD = 100  # characters a token at most: so much of a text is looked at
PIECE = 4096  # characters that are tokenised without a pause, in which others have their turn
TOGETHER = 4096  # tokens that go through an export together, of texts with one window
TOKENIZER = ".tokenizer.json"  # how the file beside an export ends
INSTALL = "pip install 'ovor[text]'"


class TextModality(Modality):
    """Texts, as files, in memory, and in all that holds them."""

    words, unit, at_once, input_name = WORDS["texts"], "tokens", 512, "ids"
    steady, written = True, True
    windows: ClassVar[int] = WINDOWS

    @staticmethod
    def seen(transform: Transform) -> str:
        return (
            f"up to {WINDOWS} windows of {transform.size or 'as many as it likes'} tokens, averaged"
        )

    @staticmethod
    def numbers(transform: Transform) -> dict[str, Any]:
        return {"windows": WINDOWS, "tokens": transform.size or None}

    def __init__(self, tokenizer: bytes, padding: int = 0) -> None:
        """Take the content of a tokenizer.json, and the id that fills up what an export takes."""
        self.content, self.padding = tokenizer, padding
        self.tokenizer = open_tokenizer(tokenizer)
        # What it puts around every text, such as [CLS] and [SEP].
        around = self.tokenizer.encode("").ids
        self.first, self.last = around[:1], around[1:]

    def __getstate__(self) -> tuple[bytes, int]:
        return self.content, self.padding

    def __setstate__(self, state: tuple[bytes, int]) -> None:
        TextModality.__init__(self, *state)

    def listed(self, given: Any) -> list[Any]:
        return spread_texts(given)

    def found(
        self, source: Any, name: str | None = None, columns: Columns = (None, None)
    ) -> list[Any]:
        return list(find_texts(source, name, columns))

    def asked(self, given: str, columns: Columns = (None, None)) -> Iterator[Found]:
        """Yield the text itself if it has more than one word, else those of a file or a folder."""
        if is_place(given):
            path = at_home(given)
            items = find_texts(path, columns=columns)
            if not items:
                yield given, OvorError(f"There is no text in {path}: add .txt files to it.")
            yield from ((quoted(item), item) for item in items)
        elif len(given.split()) > 1:
            yield quoted(given), given
        else:
            yield given, no_file(given)

    def line(self, line: str, place: str = "This line") -> Iterator[Found]:
        line = line.removeprefix("\ufeff")
        try:
            line.encode()
        except UnicodeEncodeError:
            shown = quoted(line.encode("utf-8", "replace").decode())
            yield shown, OvorError(f"{place} is not UTF-8, which texts are read as.")
            return
        yield quoted(line), line

    def labelled(
        self, source: Any, labels: Labels | None, part: Part, columns: Columns = (None, None)
    ) -> Labelled:
        return read_texts(source, labels, part, columns)

    def pairs(self, source: Any, labels: Any) -> list[Pair]:
        return pairs_of(source, labels, "train", spread_texts, ANY_TEXTS)[0]

    def rows(self, content: bytes, name: str, labelled: bool) -> list[Row]:
        sought = ANY_TEXTS if labelled else ANY_TEXTS.unlabelled()
        objects = content.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"{")
        guess = ".jsonl" if objects else ".csv"
        suffix = Path(name).suffix.lower() if is_table(name) else guess
        rows = read_table(content, name, suffix, sought)
        if labelled:
            rows, _ = rows_of_part(rows, name, "train")
        return rows

    def decoded(self, item: Any) -> Any:
        return item if self.is_view(item) else to_text(item)

    def is_view(self, item: Any) -> bool:
        """Tell whether an item is what `view` has made of a text, which stays as it is."""
        whole = isinstance(item, np.ndarray) and item.dtype == np.int32
        return whole and item.ndim == 2 and len(item) == self.windows

    def called(self, item: Any) -> str:
        return f"a text {IN_MEMORY}" if self.is_view(item) else quoted(item)

    def identity(self, item: Any) -> bytes:
        text = item.encode("utf-8", "surrogatepass") if isinstance(item, str) else item
        return super().identity(text)

    def view(self, decoded: Any, transform: Transform) -> View:
        if self.is_view(decoded):
            return np.asarray(decoded)
        size = transform.size
        inner = size - len(self.first) - len(self.last)
        most = LONGEST_WORD * inner * self.windows
        text = decoded if len(decoded) <= most else " ".join(decoded.split())[:most]
        ids = self.ids(text, inner * self.windows)
        found = np.zeros((self.windows, size), np.int32)
        for number, start in enumerate(range(0, max(1, len(ids)), inner)):
            window = [*self.first, *ids[start : start + inner], *self.last]
            found[number, : len(window)] = window
            found[number, : len(window)] += 1
        return found

    def ids(self, text: str, most: int) -> list[int]:
        """Return the first ids of a text, without a look at what is far beyond them."""
        found: list[int] = []
        for piece in pieces(text):
            found += self.tokenizer.encode(piece, add_special_tokens=False).ids
            if len(found) >= most:
                break
        return found[:most]

    def random_view(self, decoded: Any, transform: Transform, rng: np.random.Generator) -> View:
        return self.view(decoded, transform)  # words are not cropped or flipped

    def blank(self, transform: Transform) -> View:
        found = np.zeros((self.windows, transform.size), np.int32)
        found[0, : len(self.first) + len(self.last)] = np.array(self.first + self.last) + 1
        return found

    def portions(self, views: View) -> list[Integers]:
        """Return texts of about the same length together, and not too many tokens at once."""
        lengths = (views > 0).sum(2).max(1)
        order = np.argsort(lengths, kind="stable")
        found: list[list[int]] = []
        for place in order.tolist():
            if not found or (len(found[-1]) + 1) * lengths[place] > TOGETHER:
                found.append([])
            found[-1].append(place)
        return [np.array(places, np.int64) for places in found]

    def exported(self, views: View) -> NDArray[Any]:
        """Return plain ids, of as many windows and tokens as the longest text has."""
        windows, tokens = int((views[:, :, 0] > 0).sum(1).max()), int((views > 0).sum(2).max())
        used = views[:, :windows, :tokens].astype(np.int64)
        return np.where(used > 0, used - 1, self.padding)

    def described(self, transform: Transform) -> dict[str, Any]:
        return {
            "reads": self.many,
            "tokens": "by the tokenizer.json beside this file, without its padding and truncation",
            "windows": f"up to {self.windows} of up to {transform.size} tokens each, every one "
            "between the tokenizer's special tokens; what is beyond them is not read",
            "fill": f"shorter windows, and missing ones, with the id {self.padding}",
            "size": transform.size,
            "padding": self.padding,
            "sha256": hashlib.sha256(self.content).hexdigest(),
        }

    def files(self) -> dict[str, bytes]:
        return {TOKENIZER: self.content}

    def share(self, view: View) -> float:
        return max(1 / self.at_once, int((view > 0).sum()) / TOGETHER)

    def shortened(self, view: View) -> bool:
        return bool(view[-1, -1])

    @staticmethod
    def preview(name: str) -> str:
        return name


def no_file(given: str) -> OvorError:
    """Say that there is no such file, and how a text of one word is given."""
    found = missing(given, "file")
    if set(given) & set("./\\:"):  # a path, or an address
        return found
    return OvorError(f"{found} A text of one word is given on standard input, as -.")


def pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces that end at a blank, or where there is none for long enough."""
    start = 0
    while len(text) - start > PIECE:
        blank = max(text.rfind(sign, start + 1, start + PIECE) for sign in " \n")
        end = blank if blank > 0 else start + PIECE
        yield text[start:end]
        start = end
    yield text[start:]


def modality_of(said: dict[str, Any], path: Path) -> Modality:
    """Return what an export reads, as it says; `path` is its own."""
    if said.get("reads") != TextModality.words.many:
        return IMAGES
    beside = path.with_suffix(TOKENIZER)
    if not beside.is_file():
        raise OvorError(
            f"{path} reads texts by {beside.name}, which is not beside it: put it there, or export "
            "the model anew."
        )
    content = beside.read_bytes()
    if hashlib.sha256(content).hexdigest() != said["sha256"]:
        raise OvorError(f"{beside} is not the tokenizer of {path.name}: export the model anew.")
    return TextModality(content, said["padding"])


def open_tokenizer(content: bytes) -> Any:
    """Return the tokenizer of a tokenizer.json, which neither cuts texts nor fills them up."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise OvorError(
            f"Texts need the package tokenizers, which is not installed: {INSTALL}"
        ) from error
    try:
        found = Tokenizer.from_str(content.decode())
    except Exception as error:  # its own kinds are not public
        raise OvorError(
            "The tokenizer is not one that this version of the package tokenizers reads: update "
            "that, or download the tokenizer.json again."
        ) from error
    found.no_padding()
    found.no_truncation()
    found.encode_special_tokens = True  # who writes [SEP] into a text means these letters
    return found


MODALITIES: dict[str, type[Modality]] = {
    kind.words.many: kind for kind in (ImageModality, TextModality)
}
