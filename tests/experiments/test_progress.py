"""What a person sees of a run while it goes on."""

import pytest

from ovor.config import Run
from ovor.events import MeansUpdated, RunBegins
from ovor.experiments.progress import RunProgress, Speed


@pytest.mark.parametrize("many", ["images", "texts"])
def test_speed_is_counted_in_what_is_learned(many: str) -> None:
    with RunProgress(Run(), "lesson") as listen:
        listen(RunBegins(train_images=(8,), test_images=(0,), epochs=(0,), reads=many))
        listen(MeansUpdated(0, 8))
        assert Speed().render(listen.bar.tasks[0]).plain.endswith(f" {many}/s")
