"""POST /tasks: from the bytes of a request to a lesson that can begin, or what is wrong with it."""

import asyncio
import copy
import shutil
from pathlib import Path

from starlette.requests import Request

from ovor.classifier.file import check_finished
from ovor.data.class_names import as_name, check_name, listed
from ovor.errors import OvorError
from ovor.web.asking import none_usable, opened
from ovor.web.failures import Fault, Refused
from ovor.web.form import Form
from ovor.web.job import Job, Wanted
from ovor.web.pictures import Unusable
from ovor.web.served import Served
from ovor.web.service import Service
from ovor.web.settings import Limits
from ovor.web.uploads import to_folder

EPOCHS = 1000  # at most
LABEL = 200  # characters of a class's name


async def teach(service: Service, request: Request) -> Job:
    service.check_running()
    service.lessons.claim()
    folder = service.scratch.folder()
    try:
        check_no_other(service.settings.model)
        form = await to_folder(request, service.limits, folder)
        labels = labels_of(form, service.predictor.served)
        epochs = epochs_of(form, service.predictor.served)
        skip = choice(form, "on_error", ("stop", "skip")) == "skip"
        keep = choice(form, "keep_set_aside", ("false", "true")) == "true"
        loop = asyncio.get_running_loop()
        faults = await loop.run_in_executor(service.decoders, check, form, service.limits)
        if faults and (not skip or len(faults) == len(form.images)):
            raise bad_images(faults, len(form.images))
        bad = {fault.index for fault in faults}
        good = [index for index in range(len(labels)) if index not in bad]
        check_left(labels, good)
        service.check_running()  # it may have been told to stop meanwhile
        return service.lessons.start(
            Wanted(
                folder,
                tuple(folder / str(index) for index in good),
                tuple(labels[index] for index in good),
                epochs,
                keep,
                tuple(faults),
            )
        )
    except BaseException:
        await asyncio.to_thread(shutil.rmtree, folder, True)
        service.lessons.release()
        raise


def check_no_other(model: Path) -> None:
    try:
        check_finished(model)
    except OvorError as error:
        raise Refused(409, str(error), retry_after=60) from error


def labels_of(form: Form, served: Served) -> list[str]:
    given = form.fields.get("labels", [])
    if len(given) != len(form.images):
        raise Refused(
            422,
            f"There are {len(form.images)} images and {len(given)} labels: send one label each, in "
            "the same order.",
        )
    if any(len(label) > LABEL for label in given):
        raise Refused(422, f"A label is longer than {LABEL} characters: choose a shorter name.")
    labels = [as_name(label) for label in given]
    for name in labels:
        try:
            check_name(name, "choose another name", "choose another name")
        except OvorError as error:
            raise Refused(422, str(error)) from error
    known = sorted(set(labels) & set(served.classes))
    if known:
        raise Refused(
            422,
            f"{listed(known)} {'is' if len(known) == 1 else 'are'} learned already, and a class "
            "cannot be learned twice: leave it out, or choose another name.",
        )
    return labels


def choice(form: Form, name: str, allowed: tuple[str, ...]) -> str:
    """The first is the default."""
    given = form.fields.get(name, [allowed[0]])
    if len(given) != 1 or given[0] not in allowed:
        raise Refused(422, f"{name} must be one of {', '.join(allowed)}, and given once.")
    return given[0]


def epochs_of(form: Form, served: Served) -> int | None:
    given = form.fields.get("epochs")
    if given is None:
        return None
    text = given[0]
    if len(given) != 1 or not (text.isascii() and text.isdecimal()) or len(text) > 4:
        raise bad_epochs()
    epochs = int(text)
    if not 1 <= epochs <= EPOCHS:
        raise bad_epochs()
    asked = copy.copy(served.model)
    asked.epochs = epochs
    try:
        asked.run()
    except OvorError as error:
        raise Refused(422, str(error)) from error
    return epochs


def bad_epochs() -> Refused:
    return Refused(422, f"epochs must be one whole number from 1 to {EPOCHS}.")


def check(form: Form, limits: Limits) -> list[Fault]:
    """Every image decoded once, and let go."""
    faults = []
    for index, upload in enumerate(form.images):
        try:
            opened(upload, limits)
        except Unusable as error:
            faults.append(Fault(index, upload.name, str(error), error.status))
    return faults


def bad_images(faults: list[Fault], images: int) -> Refused:
    if len(faults) == images:
        return none_usable(faults)
    sentence = f"{faults[0].error} Or send on_error=skip to go on without such images."
    return Refused(422, sentence, images=tuple(faults))


def check_left(labels: list[str], good: list[int]) -> None:
    empty = sorted(set(labels) - {labels[index] for index in good})
    if empty:
        raise Refused(422, f"No image of {listed(empty)} can be read: send others.")
