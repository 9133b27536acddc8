"""What any classifier can be asked in Python, whether it is of a model file or of an export."""

from typing import Any

from ovor.classifier.evaluate import evaluate
from ovor.classifier.labels import Labels
from ovor.classifier.prediction import Predictions, Predictor, as_columns, predict_images
from ovor.data.labelled import Labels as Labelling
from ovor.data.modality import Columns
from ovor.data.task_data import OnError
from ovor.events import Listener, silent


class Answers:
    """Labels, what is said beside them, and how often they are right."""

    def predict(self: Predictor, X: Any) -> Labels:  # noqa: N803
        """Return the likeliest class of each of a folder's images, or of given images."""
        return Labels.of(as_columns(predict_images(self, self.reads.listed(X))))

    def classify(self: Predictor, X: Any) -> Predictions:  # noqa: N803
        """Return labels, confidences, and which images are unknown: an array each."""
        return as_columns(predict_images(self, self.reads.listed(X)))

    def evaluate(
        self: Predictor,
        source: Any,
        labels: Labelling | None = None,
        *,
        unknown: Any = None,
        rename: dict[str, str] | None = None,
        on_error: OnError = "stop",
        columns: Columns = (None, None),
        listen: Listener = silent,
    ) -> dict[str, Any]:
        """Return what `ovor evaluate --json` prints; shares are in percent.

        The images are given in any of the ways that `learn` takes them; those of a folder `test`
        beside `train`. `unknown` are images of other things, which it should not know.
        """
        return evaluate(self, source, unknown, rename or {}, on_error, listen, labels, columns)
