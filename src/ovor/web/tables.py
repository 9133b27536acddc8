"""Lessons as they are sent, also in tables of what can be written; and tables to be shown."""

import asyncio
from pathlib import Path
from typing import Any

from starlette.requests import Request

from ovor.data.modality import Modality
from ovor.data.tables import Row
from ovor.errors import OvorError
from ovor.web.errors import Refused
from ovor.web.form_reader import Form, UploadedImage
from ovor.web.service import Service
from ovor.web.upload import LESSON_FIELDS, Take, read_table_file, read_to_folder
from ovor.web.written import is_written, item, read_written


async def lesson_form(service: Service, request: Request, take: Take, folder: Path) -> Form:
    """Return the fields of a lesson, and what it teaches as files called 0, 1, 2 and so on."""
    limits, reads = service.limits, service.reads
    if is_written(request, reads):
        most = limits.images_per_lesson
        form = await read_written(request, limits, take, reads, "lessons", most, LESSON_FIELDS)
        await asyncio.to_thread(write, form.images, folder, reads.many)
        return form
    form = await read_to_folder(request, limits, take, reads, folder)
    for table in form.tables:
        rows = await rows_of(service, table, labelled=True)
        form.fields.setdefault("labels", []).extend(row.label for row in rows)
        form.images += [in_line(row, table, reads, place) for place, row in enumerate(rows)]
        check_count(service, len(form.images))
        await asyncio.to_thread(write, form.images, folder, reads.many)
    return form


async def shown(service: Service, request: Request) -> dict[str, Any]:
    """Return the rows of a table that a client has sent."""
    service.check_running()
    with service.budget.share() as take:
        form = await read_table_file(request, service.limits, take, service.reads)
        given = form.fields.get("labelled", ["false"])
        if given not in (["false"], ["true"]):
            raise Refused(422, "labelled must be one of false, true, and given once.")
        labelled = given == ["true"]
        rows = await rows_of(service, form.tables[0], labelled)
    check_count(service, len(rows))
    one = service.reads.one
    empty = next((row for row in rows if not row.item), None)
    if empty:
        at = f"Line {empty.line} of {form.tables[0].name}"
        raise Refused(422, f"{at} has no {one}: add it, or remove the line.")
    return {"rows": [{one: row.item, "label": row.label if labelled else None} for row in rows]}


def in_line(row: Row, table: UploadedImage, reads: Modality, place: int) -> UploadedImage:
    """Return what a line of a table teaches; without any item, it is called by its number."""
    if row.item:
        return item(row.item, reads, place)
    return UploadedImage(f"The {reads.one} in line {row.line} of {table.name}", b"")


async def rows_of(service: Service, table: UploadedImage, labelled: bool) -> list[Row]:
    """Return what stands in a table, or say what is wrong with it."""
    content = table.content
    assert isinstance(content, bytes)
    try:
        return await service.sight.reading.run(
            lambda: service.reads.rows(content, table.name, labelled)
        )
    except OvorError as error:
        raise Refused(422, str(error)) from error


def check_count(service: Service, count: int) -> None:
    most, many = service.limits.images_per_lesson, service.reads.many
    if count > most:
        raise Refused(413, f"There are {count:,} {many}: send at most {most:,} at a time.")


def write(items: list[UploadedImage], folder: Path, many: str) -> None:
    """Write what is in memory only into files that are called by their places."""
    try:
        for place, one in enumerate(items):
            if isinstance(one.content, bytes):
                path = folder / str(place)
                path.write_bytes(one.content)
                one.content = path
    except OSError as error:
        raise Refused(
            503, f"The server cannot keep the {many} ({error.strerror}): tell who runs it."
        ) from error
