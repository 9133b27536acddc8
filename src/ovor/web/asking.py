"""POST /predict: from the bytes of a request to the answers about its images."""

import asyncio
import time
from typing import Any

import numpy as np
from starlette.requests import Request

from ovor.data.class_names import UNKNOWN
from ovor.web.failures import Fault, Refused
from ovor.web.form import Upload
from ovor.web.pictures import Unusable, decoded
from ovor.web.predicting import Full, View
from ovor.web.served import Served
from ovor.web.service import Service
from ovor.web.settings import Limits
from ovor.web.uploads import to_memory

BEST = 5  # classes that an answer names


async def predict(service: Service, request: Request) -> dict[str, Any]:
    service.check_running()
    begun = time.perf_counter()
    with service.budget.share() as take:
        form = await to_memory(request, service.limits, take)
        try:
            service.predictor.reserve(len(form.images))
        except Full:
            raise Refused(
                429, "Too many images wait to be predicted: try again in a moment.", retry_after=1
            ) from None
        served, found = await answered(service, form.images)
    service.metrics.images.inc(sum("answer" in row for row in found))
    service.metrics.seconds.observe(time.perf_counter() - begun)
    return {"version": served.version, "predictions": found}


async def answered(service: Service, images: list[Upload]) -> tuple[Served, list[dict[str, Any]]]:
    """Of images that have their places in the queue."""
    predictor, made_for = service.predictor, service.predictor.served
    waiting = len(images)
    try:
        loop = asyncio.get_running_loop()
        views, faults = await loop.run_in_executor(
            service.decoders, look_at, images, made_for, service.limits
        )
        if not views:
            raise none_usable(faults)
        future = predictor.ask(list(views.values()), made_for)
        waiting -= len(views)  # the predictor gives their places back
    finally:
        predictor.release(waiting)
    served, found = await asyncio.wrap_future(future)
    return served, rows(
        images, served, dict(zip(views, zip(*found, strict=True), strict=True)), faults
    )


def look_at(
    images: list[Upload], served: Served, limits: Limits
) -> tuple[dict[int, View], list[Fault]]:
    """One decoded image in memory at a time, however many there are; views by position."""
    views, faults = {}, []
    for index, upload in enumerate(images):
        try:
            views[index] = served.model.view(opened(upload, limits))
        except Unusable as error:
            faults.append(Fault(index, upload.name, str(error), error.status))
    return views, faults


def opened(upload: Upload, limits: Limits) -> Any:
    if upload.size > limits.image_bytes:
        raise Unusable(
            413, f"{upload.name} is larger than {limits.image_bytes:,} bytes: make it smaller."
        )
    return decoded(upload.content, upload.name, limits)


def none_usable(faults: list[Fault]) -> Refused:
    """The status is the one that they share."""
    statuses = {fault.status for fault in faults}
    status = statuses.pop() if len(statuses) == 1 else 422
    sentence = faults[0].error if len(faults) == 1 else "No image can be used: each says why."
    return Refused(status, sentence, images=tuple(faults))


def rows(
    images: list[Upload], served: Served, found: dict[int, Any], faults: list[Fault]
) -> list[dict[str, Any]]:
    errors, names = {fault.index: fault.error for fault in faults}, served.classes
    return [
        {"name": upload.name, "error": errors[index]}
        if index in errors
        else {"name": upload.name, **row(names, *found[index])}
        for index, upload in enumerate(images)
    ]


def row(names: list[str], chances: Any, margin: float) -> dict[str, Any]:
    order = np.argsort(-chances, kind="stable")[:BEST]
    best = [{"name": names[i], "confidence": round(float(chances[i]), 6)} for i in order]
    unknown = bool(margin < 0)
    return {
        "answer": UNKNOWN if unknown else best[0]["name"],
        "unknown": unknown,
        "confidence": best[0]["confidence"],
        "classes": best,
    }
