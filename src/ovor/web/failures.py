"""What is said to a client whose request cannot be done."""

from dataclasses import dataclass

from ovor.errors import one_line


@dataclass(frozen=True)
class Fault:
    """One image that cannot be used."""

    index: int
    name: str
    error: str
    status: int = 422


class Refused(Exception):  # noqa: N818 - as it reads where it is raised
    """A request that is answered with an error: a status, and a sentence that names the fix."""

    def __init__(
        self,
        status: int,
        sentence: str,
        *,
        images: tuple[Fault, ...] = (),
        retry_after: int | None = None,
    ) -> None:
        super().__init__(one_line(sentence))
        self.status = status
        self.images = images
        self.retry_after = retry_after
