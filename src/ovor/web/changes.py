"""Changes of the served model that are done at once: in its file, and for the next prediction.

They happen in this process, on the file as it is, as the command line would make them: with its
lock, with the file before kept for undoing, wholly or not at all. Predictions go on meanwhile.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import ExitStack

from ovor.classifier.lock import check_finished, locked
from ovor.classifier.model import Classifier
from ovor.classifier.new import blank
from ovor.errors import OvorError, in_words
from ovor.web.errors import Refused
from ovor.web.predictor import NO_FILE, ServedModel, check_kind, file_stamp, ready
from ovor.web.service import Service
from ovor.web.settings import Settings
from ovor.web.words import for_clients

Act = Callable[[Classifier], object]
log = logging.getLogger("ovor.web")


async def change(service: Service, what: str, act: Act) -> ServedModel:
    """Change the model, and predict with it from now on; `what` is for the log."""
    service.check_running()
    service.lessons.check_free()
    async with service.changing:
        service.lessons.check_free()
        old = service.predictor.served
        new = await asyncio.to_thread(changed, service.settings, old, act)
        log.info("%s", what)
        service.after_change(new)
    return new


def changed(settings: Settings, old: ServedModel, act: Act) -> ServedModel:
    """Return the model as it is after a change, which is in its file by then."""
    path = settings.model
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(path))
            check_finished(path)
        except OvorError as error:
            raise Refused(409, for_clients(error, path), retry_after=5) from error
        try:
            stamp = file_stamp(path)
            model = opened(settings, old)
            act(model)
            if file_stamp(path) != stamp:
                raise replaced()
            model.save(path)
        except OvorError as error:
            raise refused(error, settings) from error
        except OSError as error:
            log.error("the model cannot be changed: %s", in_words(error))
            raise Refused(503, for_clients(error, path)) from error
        stamp = file_stamp(path)
    model.drop_past()  # its file's past is what is gone back to
    return ready(model, old.version + 1, stamp)


def opened(settings: Settings, old: ServedModel) -> Classifier:
    """Return the model of the file, or a new one where nothing is taught yet."""
    path = settings.model
    if old.empty and file_stamp(path) == NO_FILE:
        return blank(old.model).at(path)
    found = Classifier.load(
        path, backbone=settings.backbone, device=settings.device, like=old.model
    )
    check_kind(found, old.model)
    return found


def replaced() -> OvorError:
    return OvorError(
        "Somebody has put another file in the model's place meanwhile: it is left as it is; try "
        "again."
    )


def refused(error: OvorError, settings: Settings) -> Refused:
    """Return what a client is told who asked for what cannot be done to the model as it is.

    What was sent has been found good by then.
    """
    return Refused(409, for_clients(error, settings.model))
