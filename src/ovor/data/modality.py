"""What a network reads, as it says itself: images or texts, and all that follows from it.

The words for people, where such items are found, how one is decoded, and the view of it: an array
of one shape for all, so that stacks, batches and digests of views are the same for every kind.
Nothing else in the project asks which kind it is.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ovor.config import Transform
from ovor.data.base import Integers, Items
from ovor.data.image_files import each_image, find_images, instead
from ovor.data.images import Content, Picture, at_home, called, spread, to_image
from ovor.data.labelled import Labelled, Labels, read_images, read_labelled
from ovor.data.memory import Pair, pairs_of
from ovor.data.packed import Packed
from ovor.data.parts import Part
from ovor.data.tables import Row
from ovor.data.transforms import draw_view, test_view, train_view
from ovor.errors import OvorError

if TYPE_CHECKING:
    from PIL import Image

Item = Any  # as it is given, such as a path; `decoded` makes an image or a text of it
View = NDArray[Any]  # what the network sees of an item, however large that was
Found = tuple[str, Item | OvorError]  # an item as it is named, and itself or why it is not there
Columns = tuple[str | None, str | None]  # of a table: of the items, and of their labels


@dataclass(frozen=True)
class Words:
    """What people call items of a kind."""

    one: str
    many: str
    example: str
    """of an item, as Python is given it"""
    said: bool = False
    """is an item called by its own words, not by the name of its file?"""

    def count(self, number: float) -> str:
        """Return a number of items in words."""
        return f"{number:,.10g} {self.one if number == 1 else self.many}"

    def quoted(self, name: str) -> str:
        """Return what an item is called within a sentence, with marks around what somebody said."""
        return f'"{name}"' if self.said else name


WORDS = {
    words.many: words
    for words in (
        Words("image", "images", "a.jpg"),
        Words("text", "texts", "Where is my parcel?", said=True),
    )
}


class Modality(ABC):
    """A kind of items that a network reads."""

    words: ClassVar[Words]
    steady: ClassVar[bool] = False
    """is an item the same in every epoch, and are its features, whatever goes along with it?"""
    written: ClassVar[bool] = False
    """is it writing, which a form or JSON can hold, and which nothing must decode?"""
    unit: ClassVar[str]
    """what the size of a view is counted in"""
    at_once: ClassVar[int]
    """items that are predicted together, once it is under way"""
    input_name: ClassVar[str]
    """of the input of an export"""

    @property
    def one(self) -> str:
        """What people call an item; the key that names it in a row of a prediction, too."""
        return self.words.one

    @property
    def many(self) -> str:
        """What people call several items; also the name of the kind."""
        return self.words.many

    def count(self, number: float) -> str:
        """Return a number of items in words."""
        return self.words.count(number)

    @staticmethod
    @abstractmethod
    def seen(transform: Transform) -> str:
        """Return in words how much of an item the network sees."""

    @staticmethod
    @abstractmethod
    def numbers(transform: Transform) -> dict[str, Any]:
        """Return the numbers by which an item becomes a view."""

    @abstractmethod
    def listed(self, given: Any) -> list[Item]:
        """List the single items of whatever Python was given."""

    @abstractmethod
    def found(
        self, source: Any, name: str | None = None, columns: Columns = (None, None)
    ) -> list[Item]:
        """List the items in a source; of a class, if it is named and the source tells classes."""

    @abstractmethod
    def asked(self, given: str, columns: Columns = (None, None)) -> Iterator[Found]:
        """Yield what an argument of a command means, such as all in a folder."""

    @abstractmethod
    def line(self, line: str, place: str = "This line") -> Iterator[Found]:
        """Yield what a line of standard input means; `place` is what a sentence calls it."""

    @abstractmethod
    def labelled(
        self, source: Any, labels: Labels | None, part: Part, columns: Columns = (None, None)
    ) -> Labelled:
        """Return the items of each class; of a data set in parts, those of this part."""

    @abstractmethod
    def pairs(self, source: Any, labels: Any) -> list[Pair]:
        """Return every item in memory with its label, in the order in which they were given."""

    def rows(self, content: bytes, name: str, labelled: bool) -> list[Row]:
        """Return the rows of a table in which items stand themselves, some maybe without any."""
        raise OvorError(f"{name} is no {self.one}: a table can only name {self.many}; give those.")

    @abstractmethod
    def decoded(self, item: Item) -> Any:
        """Return the image or the text; one that cannot be read is an OvorError."""

    @abstractmethod
    def called(self, item: Item) -> str:
        """Return what a sentence or a list calls an item."""

    def identity(self, item: Item) -> bytes:
        """Return bytes that tell one item from another without decoding it."""
        if isinstance(item, str | Path):
            path = at_home(item)
            size = path.stat().st_size if path.exists() else None  # reading it will complain
            return repr((path.parent.name, path.name, size)).encode()
        if isinstance(item, Packed):
            return repr((item.archive.name, item.name, item.size, item.crc)).encode()
        if isinstance(item, Content):
            item = item.content
        if isinstance(item, bytes | bytearray | memoryview):
            return hashlib.sha256(item).digest()
        content = item.tobytes() if hasattr(item, "tobytes") else np.asarray(item).tobytes()
        return hashlib.sha256(content).digest()

    @abstractmethod
    def view(self, decoded: Any, transform: Transform) -> View:
        """Return what the network sees of an item, without chance."""

    @abstractmethod
    def random_view(self, decoded: Any, transform: Transform, rng: np.random.Generator) -> View:
        """Return what the network sees of an item in training, as chance will have it."""

    @abstractmethod
    def blank(self, transform: Transform) -> View:
        """Return a view of nothing in particular, to try a network with."""

    @abstractmethod
    def portions(self, views: View) -> list[Integers]:
        """Return which views of a stack an export should be given together."""

    @abstractmethod
    def exported(self, views: View) -> NDArray[Any]:
        """Return a stack of views as an export takes it."""

    @abstractmethod
    def described(self, transform: Transform) -> dict[str, Any]:
        """Return how an item becomes an export's input, in words and numbers."""

    def files(self) -> dict[str, bytes]:
        """Return what must lie beside an export, by the ends of the names."""
        return {}

    def share(self, view: View) -> float:
        """Return which part of all that is predicted together an item takes."""
        return 1 / self.at_once

    @abstractmethod
    def shortened(self, view: View) -> bool:
        """Tell whether the end of an item is beyond what the network sees of it."""

    @staticmethod
    @abstractmethod
    def preview(name: str) -> "Image.Image | str":
        """Return what a page shows of an item of this name; without it, an OvorError."""


class ImageModality(Modality):
    """Images, as files, in memory, and in all that holds them."""

    words, unit, at_once, input_name = WORDS["images"], "pixels", 32, "images"

    @staticmethod
    def seen(transform: Transform) -> str:
        size = f"{transform.size} x {transform.size} pixels" if transform.size else "its own size"
        mean, std = (spaced(numbers) for numbers in (transform.mean, transform.std))
        return f"{size}, {transform.interpolation}, mean {mean}, std {std}"

    @staticmethod
    def numbers(transform: Transform) -> dict[str, Any]:
        return {
            "size": transform.size or None,
            "mean": transform.mean,
            "std": transform.std,
            "crop_pct": transform.crop_pct,
            "interpolation": transform.interpolation,
        }

    def listed(self, given: Any) -> list[Picture]:
        return spread(given)

    def found(
        self, source: Any, name: str | None = None, columns: Columns = (None, None)
    ) -> list[Picture]:
        return read_images(source, name)

    def asked(self, given: str, columns: Columns = (None, None)) -> Iterator[Found]:
        return self.line(str(at_home(given)))

    def line(self, line: str, place: str = "This line") -> Iterator[Found]:
        path = Path(line)
        if not path.is_dir():
            yield str(path), path
            return
        image: Path | OvorError | None = None
        for image in each_image(path):
            yield str(path if isinstance(image, OvorError) else image), image
        if image is None:
            held = instead(find_images(path)[1])
            yield str(path), OvorError(f"There is no image in {path}{held}: check the folder.")

    def labelled(
        self, source: Any, labels: Labels | None, part: Part, columns: Columns = (None, None)
    ) -> Labelled:
        return read_labelled(source, labels, part, columns)

    def pairs(self, source: Any, labels: Any) -> list[Pair]:
        return pairs_of(source, labels)[0]

    def decoded(self, item: Picture) -> "Image.Image":
        return to_image(item)

    def called(self, item: Picture) -> str:
        return called(item)

    def view(self, decoded: Any, transform: Transform) -> View:
        return np.asarray(test_view(decoded, transform))  # S, S, 3 bytes

    def random_view(self, decoded: Any, transform: Transform, rng: np.random.Generator) -> View:
        drawn = draw_view(transform, decoded.width, decoded.height, rng)
        return np.asarray(train_view(decoded, drawn, transform))

    def blank(self, transform: Transform) -> View:
        return np.full((transform.size, transform.size, 3), 128, np.uint8)

    def portions(self, views: View) -> list[Integers]:
        return [np.arange(len(views))]

    def exported(self, views: View) -> NDArray[Any]:
        return views.transpose(0, 3, 1, 2).astype(np.float32) / np.float32(255)

    def described(self, transform: Transform) -> dict[str, Any]:
        return {
            "color": "RGB, transparent pixels on white, upright as EXIF says",
            "resize": f"shorter side to {int(transform.size / transform.crop_pct)}, "
            f"{transform.interpolation} with antialiasing (Pillow's)",
            "crop": f"central {transform.size} x {transform.size}",
            "scale": "divide bytes by 255",
            "normalise": f"in the graph: (x - {transform.mean}) / {transform.std}",
            "size": transform.size,
            "crop_pct": transform.crop_pct,
            "interpolation": transform.interpolation,
        }

    def shortened(self, view: View) -> bool:
        return False  # its edge may be cut off, as every network has it

    @staticmethod
    def preview(name: str) -> "Image.Image":
        return to_image(name)


def spaced(numbers: float | tuple[float, ...]) -> str:
    """Return one number or three as people write them."""
    each = numbers if isinstance(numbers, tuple) else (numbers,)
    return " ".join(f"{number:g}" for number in each)


IMAGES = ImageModality()


@dataclass(frozen=True, eq=False)
class Given(Items):
    """Labelled items as they were given, each decoded when it is asked for."""

    items: Sequence[Item]
    labels: Integers
    reads: Modality = IMAGES

    @property
    def many(self) -> str:
        return self.reads.many

    def item(self, index: int) -> Any:
        return self.reads.decoded(self.items[index])

    def called(self, index: int) -> str:
        """Return what to call an item in a list: its path, or its number where it has none."""
        said = self.reads.called(self.items[index])
        return f"{self.reads.one} {index}" if said.endswith("in memory") else said
