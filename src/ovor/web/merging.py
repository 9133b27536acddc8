"""Model files that clients send: checked as any file, and never a reason to load anything else."""

from pathlib import Path

from ovor.classifier.contents import check_mergeable
from ovor.classifier.file import read_model
from ovor.classifier.model import Classifier
from ovor.errors import OvorError
from ovor.web.errors import Refused
from ovor.web.predictor import ServedModel
from ovor.web.words import without_paths

MOST_CLASSES = 5000  # the head is solved with matrices of as many rows and columns


def read_other(path: Path, name: str, served: ServedModel) -> Classifier:
    """Return the model that a client has sent, if what it has learned can be added to ours.

    It must have our network, which is not loaded anew: a file could name any, here or elsewhere.
    """
    try:
        served.model.exact("merge")
        about = read_model(path).about
        check_mergeable(served.model, about)
        classes = len(served.classes) + sum(len(task.classes) for task in about.tasks)
        if classes > MOST_CLASSES:
            raise OvorError(
                f"The models have {classes:,} classes together, and at most {MOST_CLASSES:,} are "
                "merged here: merge the files on the command line (ovor merge)."
            )
        return Classifier.load(path, device=served.model.device, like=served.model)
    except OvorError as error:
        raise Refused(422, without_paths(str(error).replace(str(path), name), path)) from error
