"""POST /predict and POST /lessons: from the bytes of a request to predictions, or to a lesson.

What is asked about or taught is called images here; the model may as well read texts.
"""

import asyncio
import copy
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.requests import Request

from ovor.classifier.lock import check_finished
from ovor.classifier.prediction import Prediction
from ovor.data.class_names import listed
from ovor.data.modality import Words
from ovor.errors import OvorError
from ovor.web.bodies import MAX_EPOCHS
from ovor.web.errors import ImageFault, Refused, none_usable
from ovor.web.form_reader import Form, UploadedImage
from ovor.web.labels import checked_labels
from ovor.web.lesson import Lesson, LessonRequest
from ovor.web.predictor import Answer, ServedModel
from ovor.web.schemas import TOP
from ovor.web.service import Service
from ovor.web.tables import lesson_form
from ovor.web.upload import PREDICTION_FIELDS, Take, read_to_memory
from ovor.web.words import without_paths
from ovor.web.written import Holds, is_written, read_written


async def predict(service: Service, request: Request) -> dict[str, Any]:
    """Return what POST /predict responds."""
    service.check_running()
    service.check_taught()
    begun = time.perf_counter()
    with service.budget.share() as take:
        form = await asked(service, request, take, PREDICTION_FIELDS)
        keep = choice(form, "keep", ("true", "false")) == "true"
        service.predictor.reserve(len(form.images))
        served, found = await predict_reserved(service, form.images)
        if keep:
            await asyncio.to_thread(service.inbox.consider, form.images, found, served)
    said = [answer.prediction if isinstance(answer, Answer) else answer for answer in found]
    one = service.reads.one
    rows = [row(image.name, own, one) for image, own in zip(form.images, said, strict=True)]
    service.metrics.images.inc(sum(isinstance(answer, Answer) for answer in found))
    service.metrics.seconds.observe(time.perf_counter() - begun)
    return {"version": served.version, "predictions": rows}


async def asked(
    service: Service, request: Request, take: Take, fields: tuple[str, ...], holds: Holds = "many"
) -> Form:
    """Return what a request asks about: as many items as a prediction may have, in memory."""
    limits, reads = service.limits, service.reads
    if is_written(request, reads):
        most = limits.images_per_prediction
        return await read_written(request, limits, take, reads, holds, most, fields)
    return await read_to_memory(request, limits, take, reads, fields)


async def predict_reserved(
    service: Service, images: list[UploadedImage]
) -> tuple[ServedModel, list[Answer | ImageFault]]:
    """Predict images that have their places in the queue; say what is wrong with the others."""
    predictor, made_for = service.predictor, service.predictor.served
    waiting = len(images)
    aside = 0

    def set_aside() -> None:
        nonlocal waiting, aside
        predictor.set_aside(waiting)
        waiting, aside = 0, aside + waiting

    try:
        seen = await service.sight.views(images, made_for.model, set_aside)
        predictor.return_to_queue(aside)
        waiting, aside = waiting + aside, 0
        views = [view for view in seen if not isinstance(view, ImageFault)]
        if not views:
            faults = [fault for fault in seen if isinstance(fault, ImageFault)]
            raise none_usable(faults, service.reads.one)
        future = predictor.predict(views, made_for)
        waiting -= len(views)  # the predictor gives their places back
    finally:
        predictor.return_to_queue(aside)
        predictor.release(waiting + aside)
    served, answers = await asyncio.wrap_future(future)
    rest = iter(answers)
    return served, [said if isinstance(said, ImageFault) else next(rest) for said in seen]


def row(name: str, said: Prediction | ImageFault, one: str) -> dict[str, Any]:
    """Return what is said of one image: its prediction, or why it cannot be read."""
    if isinstance(said, ImageFault):
        return {one: name, "error": said.error}
    return {one: name, **said.as_json(TOP)}


async def teach(service: Service, request: Request) -> Lesson:
    """Start the lesson that POST /lessons asks for.

    Its place is taken when all of it is there and could be read: who sends slowly, or never ends,
    or sends what takes long to decode, keeps nobody off.
    """
    service.check_running()
    service.lessons.check_free()
    check_no_other(service.settings.model)
    folder = service.scratch.folder()
    try:
        with service.disk.share() as take:
            form = await lesson_form(service, request, take, folder)
            return await begin(service, lambda: checked(service, form, folder))
    except BaseException:
        await asyncio.to_thread(shutil.rmtree, folder, True)
        raise


async def begin(service: Service, prepare: Callable[[], Awaitable[LessonRequest]]) -> Lesson:
    """Prepare a lesson, and start it if no other has been started meanwhile."""
    service.lessons.check_free()
    wanted = await prepare()
    async with service.changing:  # which takes a moment
        service.check_running()  # it may have been told to stop meanwhile
        return service.lessons.start(wanted)


def check_no_other(model: Path) -> None:
    """Refuse a lesson while one of the command line is unfinished."""
    try:
        check_finished(model)
    except OvorError as error:
        raise Refused(409, without_paths(str(error), model), retry_after=60) from error


async def checked(service: Service, form: Form, folder: Path) -> LessonRequest:
    """Return the lesson that a form asks for, or say what is wrong with it."""
    yes = choice(form, "yes", ("false", "true")) == "true"
    labels = labels_of(form, service.predictor.served, yes)
    epochs = epochs_of(form, service.predictor.served)
    skip = choice(form, "on_error", ("stop", "skip")) == "skip"
    keep = choice(form, "keep_set_aside", ("false", "true")) == "true"
    faults = await service.sight.faults(form.images)
    if faults and (not skip or len(faults) == len(form.images)):
        raise bad_images(faults, len(form.images), service.reads.words)
    bad = {fault.index for fault in faults}
    good = [index for index in range(len(labels)) if index not in bad]
    empty = sorted(set(labels) - {labels[index] for index in good})
    if empty:
        raise Refused(422, f"No {service.reads.one} of {listed(empty)} can be read: send others.")
    return LessonRequest(
        folder,
        images=tuple(folder / str(index) for index in good),
        labels=tuple(labels[index] for index in good),
        epochs=epochs,
        keep_validation=keep,
        left_out=tuple(faults),
        names=tuple(form.images[index].name for index in good),
        yes=yes,
    )


def labels_of(form: Form, served: ServedModel, yes: bool) -> list[str]:
    """Return the class of each image of a form."""
    given = form.fields.get("labels", [])
    if len(given) != len(form.images):
        raise Refused(
            422,
            f"There are {len(form.images)} {served.model.reads.many} and {len(given)} labels: send "
            "one label each, in the same order.",
        )
    return checked_labels(given, served, yes)


def choice(form: Form, name: str, allowed: tuple[str, ...]) -> str:
    """Return the value of a field; the first that is allowed is the default."""
    given = form.fields.get(name, [allowed[0]])
    if len(given) != 1 or given[0] not in allowed:
        raise Refused(422, f"{name} must be one of {', '.join(allowed)}, and given once.")
    return given[0]


def epochs_of(form: Form, served: ServedModel) -> int | None:
    """Return the epochs that a form asks for, or None where it leaves them to the model."""
    given = form.fields.get("epochs")
    if given is None:
        return None
    text = given[0]
    whole = text.isascii() and text.isdecimal() and len(text) <= 4
    if len(given) != 1 or not whole or not 1 <= int(text) <= MAX_EPOCHS:
        raise Refused(422, f"epochs must be one whole number from 1 to {MAX_EPOCHS}.")
    asked = copy.copy(served.model)
    asked.epochs = int(text)
    try:
        asked.run()
    except OvorError as error:
        raise Refused(422, str(error)) from error
    return int(text)


def bad_images(faults: list[ImageFault], images: int, words: Words) -> Refused:
    if len(faults) == images:
        return none_usable(faults, words.one)
    sentence = f"{faults[0].error} Or send on_error=skip to go on without such {words.many}."
    return Refused(422, sentence, images=tuple(faults))
