"""How far each task moved OnePrompt's prompt and the features of its test images (App. E).

It is measured on the weights that a run with `keep="tasks"` left after every task.
"""

import json

import torch
from torch import Tensor

from ovor.analysis.drift import (
    centered_prompt_cosine,
    feature_cosine,
    kernel_cka,
    linear_cka,
    prompt_cosine,
)
from ovor.atomic import write_atomically
from ovor.experiments.folder import Folder, read_run
from ovor.experiments.runner import prepare
from ovor.tensor_file import load_tensors
from ovor.training.features import Features

OF_PROMPTS = {"prompt": prompt_cosine, "prompt_centered": centered_prompt_cosine}
OF_FEATURES = {"cosine": feature_cosine, "cka_linear": linear_cka, "cka_kernel": kernel_cka}
MEASURES = (*OF_PROMPTS, *OF_FEATURES)


@torch.no_grad()
def measure_drift(folder: Folder) -> dict[str, list[float]]:
    """Return the similarity in percent before and after each task from the second on, by measure.

    What was measured before is read from drift.json.
    """
    if folder.drift_file.exists():
        return json.loads(folder.drift_file.read_text())  # type: ignore[no-any-return]
    run = read_run(folder.run_file)
    context, learner = prepare(run, folder.checkpoint)
    features = Features(context)
    learner.eval()
    found: dict[str, list[float]] = {name: [] for name in MEASURES}
    earlier: dict[str, Tensor] = {}
    for number, task in enumerate(context.tasks):
        before = features.of_test(learner, number - 1, number)[0] if number else None
        learner.begin_task(len(task.classes), (run.seed, number))
        state, _ = load_tensors(folder.weights_after(number))
        learner.load_learned_state(state)
        prompt = {k: v for k, v in state.items() if k.startswith("prompt.")}
        if before is not None:
            after = features.of_test(learner, number, number)[0]
            for name, of_prompts in OF_PROMPTS.items():
                found[name].append(of_prompts(earlier, prompt))
            for name, of_features in OF_FEATURES.items():
                found[name].append(of_features(before, after))
        earlier = prompt
    write_atomically(folder.drift_file, json.dumps(found, indent=1).encode() + b"\n")
    return found
