"""What the network sees of what strangers send: images by decoders, writing by threads.

Which of both it is the model's network says (`reads.written`).
"""

from collections.abc import Callable, Sequence

from ovor.classifier.model import Classifier
from ovor.data.modality import Modality, View
from ovor.web.decoding import Decoders
from ovor.web.errors import ImageFault
from ovor.web.form_reader import UploadedImage
from ovor.web.reading import Reading
from ovor.web.settings import Limits


class Sight:
    def __init__(self, limits: Limits, debug: bool, reads: Modality) -> None:
        self.reads = reads
        self.reading = Reading(limits)
        self.decoders = None if reads.written else Decoders(limits, debug)

    async def start(self) -> None:
        if self.decoders:
            await self.decoders.start()

    def close(self) -> None:
        self.reading.close()
        if self.decoders:
            self.decoders.close()

    async def views(
        self,
        items: Sequence[UploadedImage],
        model: Classifier,
        when_heavy: Callable[[], None] = lambda: None,
    ) -> list[View | ImageFault]:
        """Return what the network of a model sees of every item, or what is wrong with it.

        `when_heavy` is called before an item has to wait for others that take long, and may raise.
        """
        if self.decoders:
            return await self.decoders.views(items, model.transform(), when_heavy)
        return await self.reading.views(items, model)

    async def faults(self, items: Sequence[UploadedImage]) -> list[ImageFault]:
        """Return what is wrong with those items that cannot be used."""
        if self.decoders:
            return await self.decoders.faults(items)
        return await self.reading.faults(items, self.reads)
