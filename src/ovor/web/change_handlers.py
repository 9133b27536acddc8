"""What POST /correct, /unlearn, /undo, /rename, /forget and /merge do."""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.requests import Request

from ovor.classifier.model import Classifier
from ovor.classifier.prediction import predict_views
from ovor.data.modality import View
from ovor.errors import OvorError
from ovor.web.changes import change
from ovor.web.described import described
from ovor.web.errors import ImageFault, Refused, none_usable
from ovor.web.form_reader import Form, UploadedImage
from ovor.web.handlers import asked, choice, labels_of, row
from ovor.web.inbox import digest
from ovor.web.json_body import read_json
from ovor.web.labels import check_alike, checked_name, known_name
from ovor.web.merging import read_other
from ovor.web.predictor import seen_by
from ovor.web.service import Service
from ovor.web.upload import CORRECTION_FIELDS, Take, read_model_file, read_one
from ovor.web.written import is_written, read_written


async def correct(service: Service, request: Request) -> dict[str, Any]:
    """Teach one image at once, or move it to the class that it shows."""
    service.check_running()
    with service.budget.share() as take:
        form = await corrected(service, request, take)
        served = service.predictor.served
        label, yes = checked_name(one(form, "label"), "The label"), said_yes(form)
        check_alike([label], served.classes, yes)
        was = known_name(one(form, "was"), served) if "was" in form.fields else None
        views = await seen(service, form.images, served.model)

        def act(model: Classifier) -> None:
            with seeing(model, served.model):
                if model.tasks_:
                    model.correct(views, label, from_=was, yes=yes)
                else:
                    model.learn_task(model.read_task(views, [label]), None)

        moved = f" instead of {was!r}" if was else ""
        named = f"{'an' if service.reads.one[0] in 'aeiou' else 'a'} {service.reads.one}"
        new = await change(service, f"corrected: {named} is {label!r}{moved}", act)
        content = form.images[0].content
        assert isinstance(content, bytes)
        await asyncio.to_thread(service.inbox.drop, [digest(content)])
        [found] = await asyncio.to_thread(predict_views, new.model, views)
    return {**described(service, True), "row": row(form.images[0].name, found, service.reads.one)}


async def unlearn(service: Service, request: Request) -> dict[str, Any]:
    """Take images back that were taught."""
    service.check_running()
    service.check_taught()
    with service.budget.share() as take:
        form = await asked(service, request, take, ("labels",), "lessons")
        served = service.predictor.served
        given = form.fields.get("labels", [])
        if len(given) != len(form.images):
            labels_of(form, served, yes=True)  # which says so
        labels = [known_name(label, served) for label in given]
        views = await seen(service, form.images, served.model)

        def act(model: Classifier) -> None:
            with seeing(model, served.model):
                model.unlearn(views, labels)

        await change(service, f"unlearned: {service.reads.count(len(views))}", act)
    return described(service, True)


async def undo(service: Service) -> dict[str, Any]:
    """Go back to the model before its last change."""
    service.check_taught()
    if not service.predictor.served.can_undo:
        raise Refused(
            409,
            "Nothing is kept of the model before its last change, so it cannot be undone: take "
            "back what it learned (POST /unlearn), or use a copy of your own.",
        )
    await change(service, "undone: the last change", lambda model: model.undo())
    return described(service, True)


async def rename(service: Service, request: Request) -> dict[str, Any]:
    """Give a class another name."""
    wanted = await read_json(request, service.limits, {"class": str, "to": str}, yes=bool)
    service.check_taught()
    served = service.predictor.served
    old, new = known_name(wanted["class"], served), checked_name(wanted["to"], "The name")
    if new in served.classes:
        raise Refused(409, f"There is a class {new!r} already: choose another name.")
    others = [name for name in served.classes if name != old]
    check_alike([new], others, wanted.get("yes", False))
    await change(
        service, f"renamed: {old!r} to {new!r}", lambda model: model.rename(old, new, yes=True)
    )
    service.evaluation.rename(old, new)
    return described(service, True)


async def forget(service: Service, request: Request) -> dict[str, Any]:
    """Take a class out of the model."""
    wanted = await read_json(request, service.limits, {"class": str})
    service.check_taught()
    name = known_name(wanted["class"], service.predictor.served)
    if service.predictor.served.classes == [name]:
        raise Refused(
            409, f"{name!r} is the only class, and a model knows at least one: teach another first."
        )
    await change(service, f"forgotten: {name!r}", lambda model: model.forget(name))
    return described(service, True)


async def merge(service: Service, request: Request) -> dict[str, Any]:
    """Add what another model has learned."""
    service.check_running()
    service.check_taught()
    folder = service.scratch.folder()
    try:
        with service.disk.share() as take:
            form = await read_model_file(request, service.limits, take, service.reads, folder)
        yes, served = said_yes(form), service.predictor.served
        other = await asyncio.to_thread(read_other, folder / "0", form.images[0].name, served)
        check_alike(other.classes_.tolist(), served.classes, yes)
        names = f"{len(other.classes_)} classes"
        await change(service, f"merged: {names}", lambda model: model.merge(other, yes=True))
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, True)
    return described(service, True)


async def corrected(service: Service, request: Request, take: Take) -> Form:
    """Return the one item of a correction, and what is said of it."""
    limits, reads = service.limits, service.reads
    if is_written(request, reads):
        return await read_written(request, limits, take, reads, "one", 1, CORRECTION_FIELDS)
    return await read_one(request, limits, take, reads)


async def seen(service: Service, images: list[UploadedImage], model: Classifier) -> list[View]:
    """Return what the network sees of all images of a request, or say what is wrong with some."""
    found = await service.sight.views(images, model)
    faults = [view for view in found if isinstance(view, ImageFault)]
    if faults:
        raise none_usable(faults, service.reads.one)
    return [view for view in found if not isinstance(view, ImageFault)]


@contextmanager
def seeing(model: Classifier, made_for: Classifier) -> Iterator[None]:
    """Let a model learn from views, which were made for this one or another of its network."""
    if seen_by(model) != seen_by(made_for):
        raise OvorError("Another model is being served by now: try again.")
    with model.seeing_views():
        yield


def one(form: Form, name: str) -> str:
    """Return the only value of a field."""
    given = form.fields.get(name, [])
    if not given:
        raise Refused(422, f"The field {name} is missing: send it.")
    if len(given) > 1:
        raise Refused(422, f"There are {len(given)} fields {name}: send one.")
    return given[0]


def said_yes(form: Form) -> bool:
    return choice(form, "yes", ("false", "true")) == "true"
