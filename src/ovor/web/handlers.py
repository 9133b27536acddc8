"""POST /predict and POST /tasks: from the bytes of a request to predictions, or to a lesson."""

import asyncio
import copy
import shutil
import time
from pathlib import Path
from typing import Any

from starlette.requests import Request

from ovor.classifier.lock import check_finished
from ovor.classifier.prediction import Prediction
from ovor.data.class_names import as_name, check_name, listed
from ovor.errors import OvorError
from ovor.web.errors import ImageFault, Refused, none_usable
from ovor.web.lessons import Lesson, LessonRequest
from ovor.web.predictor import ServedModel
from ovor.web.schemas import MAX_EPOCHS, MAX_LABEL, TOP
from ovor.web.service import Service
from ovor.web.upload import Form, UploadedImage, read_to_folder, read_to_memory


async def predict(service: Service, request: Request) -> dict[str, Any]:
    """Return what POST /predict responds."""
    service.check_running()
    begun = time.perf_counter()
    with service.budget.share() as take:
        form = await read_to_memory(request, service.limits, take)
        service.predictor.reserve(len(form.images))
        served, found = await predict_reserved(service, form.images)
    rows = [row(image.name, said) for image, said in zip(form.images, found, strict=True)]
    service.metrics.images.inc(sum(isinstance(said, Prediction) for said in found))
    service.metrics.seconds.observe(time.perf_counter() - begun)
    return {"version": served.version, "predictions": rows}


async def predict_reserved(
    service: Service, images: list[UploadedImage]
) -> tuple[ServedModel, list[Prediction | ImageFault]]:
    """Predict images that have their places in the queue; say what is wrong with the others."""
    predictor, made_for = service.predictor, service.predictor.served
    waiting = len(images)
    aside = 0

    def set_aside() -> None:
        nonlocal waiting, aside
        predictor.set_aside(waiting)
        waiting, aside = 0, aside + waiting

    try:
        transform = made_for.model.transform()
        seen = await service.decoders.views(images, transform, set_aside)
        predictor.return_to_queue(aside)
        waiting, aside = waiting + aside, 0
        views = [view for view in seen if not isinstance(view, ImageFault)]
        if not views:
            raise none_usable([fault for fault in seen if isinstance(fault, ImageFault)])
        future = predictor.predict(views, made_for)
        waiting -= len(views)  # the predictor gives their places back
    finally:
        predictor.return_to_queue(aside)
        predictor.release(waiting + aside)
    served, predictions = await asyncio.wrap_future(future)
    rest = iter(predictions)
    return served, [said if isinstance(said, ImageFault) else next(rest) for said in seen]


def row(name: str, said: Prediction | ImageFault) -> dict[str, Any]:
    if isinstance(said, ImageFault):
        return {"name": name, "error": said.error}
    best = said.best(TOP)
    return {
        "name": name,
        "answer": said.label,
        "unknown": said.unknown,
        "confidence": best[0][1],
        "classes": [{"name": label, "confidence": confidence} for label, confidence in best],
    }


async def teach(service: Service, request: Request) -> Lesson:
    """Start the lesson that POST /tasks asks for."""
    service.check_running()
    service.lessons.claim()
    folder = service.scratch.folder()
    try:
        check_no_other(service.settings.model)
        form = await read_to_folder(request, service.limits, folder)
        wanted = await checked(service, form, folder)
        service.check_running()  # it may have been told to stop meanwhile
        return service.lessons.start(wanted)
    except BaseException:
        await asyncio.to_thread(shutil.rmtree, folder, True)
        service.lessons.release()
        raise


def check_no_other(model: Path) -> None:
    """Refuse a lesson while one of the command line is unfinished."""
    try:
        check_finished(model)
    except OvorError as error:
        raise Refused(409, str(error), retry_after=60) from error


async def checked(service: Service, form: Form, folder: Path) -> LessonRequest:
    """Return the lesson that a form asks for, or say what is wrong with it."""
    labels = labels_of(form, service.predictor.served)
    epochs = epochs_of(form, service.predictor.served)
    skip = choice(form, "on_error", ("stop", "skip")) == "skip"
    keep = choice(form, "keep_set_aside", ("false", "true")) == "true"
    faults = await service.decoders.faults(form.images)
    if faults and (not skip or len(faults) == len(form.images)):
        raise bad_images(faults, len(form.images))
    bad = {fault.index for fault in faults}
    good = [index for index in range(len(labels)) if index not in bad]
    empty = sorted(set(labels) - {labels[index] for index in good})
    if empty:
        raise Refused(422, f"No image of {listed(empty)} can be read: send others.")
    return LessonRequest(
        folder,
        images=tuple(folder / str(index) for index in good),
        labels=tuple(labels[index] for index in good),
        epochs=epochs,
        keep_validation=keep,
        left_out=tuple(faults),
    )


def labels_of(form: Form, served: ServedModel) -> list[str]:
    given = form.fields.get("labels", [])
    if len(given) != len(form.images):
        raise Refused(
            422,
            f"There are {len(form.images)} images and {len(given)} labels: send one label each, in "
            "the same order.",
        )
    if any(len(label) > MAX_LABEL for label in given):
        raise Refused(422, f"A label is longer than {MAX_LABEL} characters: choose a shorter name.")
    labels = [as_name(label) for label in given]
    for name in labels:
        try:
            check_name(name, "choose another name", "choose another name")
        except OvorError as error:
            raise Refused(422, str(error)) from error
    known = sorted(set(labels) & set(served.classes))
    if known and not served.exact:
        raise Refused(
            422,
            f"{listed(known)} {'is' if len(known) == 1 else 'are'} learned already, and a class "
            "cannot be learned twice: leave it out, or choose another name.",
        )
    return labels


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


def bad_images(faults: list[ImageFault], images: int) -> Refused:
    if len(faults) == images:
        return none_usable(faults)
    sentence = f"{faults[0].error} Or send on_error=skip to go on without such images."
    return Refused(422, sentence, images=tuple(faults))
