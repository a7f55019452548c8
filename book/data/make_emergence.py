"""Write emergence.npz, the results of the longer training runs of the chapter on emergence.

The runs are those of the commands below, about 15 minutes on one core. R is any folder; then come

    python book/data/make_emergence.py R

A killed command goes on where it was when it is given again. Training is repeatable bit for bit on the same machine
with as many threads; elsewhere last digits differ.

    ictd sweep --out R/depth --gamma 0.9 --layers 3 5 10 20 --steps 1500
    ictd pretrain --out R/large-init --gamma 0.9 --layers 10 --steps 1500 --init-scale 0.3
    ictd pretrain --out R/untied --gamma 0.9 --layers 5 --steps 1500 --per-layer
    ictd pretrain --out R/heads --form independent_heads
    ictd pretrain --out R/one-hot --features one_hot
    ictd pretrain --out R/neu --objective neu
    ictd sweep --out R/masks --free none value score both --context 30 --records 10 --held-out 128 --neu-batches 8

The file holds plain arrays, readable without pickle, with names RUN/QUANTITY: settings and versions as JSON; for the
seeds of a run what `ictd.pretrain.History` explains, at the start and at the end; the matrices V and A where they have
no mask; errors of the predictors that the models are compared with.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch

from ictd import inputs, pretrain, runs, tasks
from ictd.runs.folder import CHECKPOINT
from ictd.state_form import state_values

FOLDERS = {
    "gamma9": "depth/layers-10",
    "gamma9_layers3": "depth/layers-3",
    "gamma9_layers5": "depth/layers-5",
    "gamma9_layers20": "depth/layers-20",
    "gamma9_large_init": "large-init",
    "gamma9_untied": "untied",
    "independent_heads": "heads",
    "one_hot": "one-hot",
    "neu": "neu",
    "masked": "masks/free-none",
    "free_value": "masks/free-value",
    "free_score": "masks/free-score",
    "free_both": "masks/free-both",
}
HISTORY = "value_weights score_matrix cosine_value_weights cosine_score_matrix diagonality_mean value_error".split()
REFERENCES = [
    f"value_error_{name}"
    for name in ("constant", "certainty_equivalence", "constructed")
]
UNMASKED = ("V", "A")


def read(folder):
    """The `Result` of a finished run."""
    saved = runs.read(folder)
    config = pretrain.Config(**saved.config)
    return pretrain.pretrain(
        config, saved.summary["seeds"], checkpoint_path=Path(folder) / CHECKPOINT
    )


def contents(result):
    """What the file keeps of a run, {quantity: array}."""
    settings = {
        name: result.summary()[name]
        for name in ("config", "seeds", "threads", "versions")
    }
    kept = {"settings": json.dumps(settings)}
    kept |= {name: getattr(result, name) for name in REFERENCES}
    for name in HISTORY:
        values = getattr(result.history, name)
        kept |= {f"{name}_start": values[0], f"{name}_end": values[-1]}
    return kept | {
        f"{name}_end": result.parameters[name]
        for name in UNMASKED
        if name in result.parameters
    }


def context_errors(result):
    """Value errors on tasks of their own, weighted by the states' frequencies in the context: (K,) and two numbers.

    Without masks a state has a value only where it stands in the context.
    """
    config = result.config
    rng = np.random.default_rng([5, 2026])
    batch = tasks.draw(256, config.n_states, config.dim, rng)
    contexts = batch.sample(config.n_transitions, rng)
    weights = contexts.empirical()[0] / config.n_transitions
    tensors = {name: torch.tensor(value) for name, value in result.parameters.items()}
    with torch.no_grad():
        values = state_values(
            tensors,
            inputs.from_contexts(batch, contexts, torch.float32),
            config.gamma,
            config.n_layers,
        )
    predictions = {
        "": values.double().numpy(),
        "_constant": np.repeat(
            contexts.constant_value(config.gamma)[:, None], config.n_states, axis=1
        ),
        "_certainty_equivalence": contexts.certainty_equivalence(config.gamma),
    }
    return {
        f"context_error{name}": pretrain.value_error(
            values, batch, config.gamma, weights
        )
        for name, values in predictions.items()
    }


def main(folder):
    arrays = {}
    for name, part in FOLDERS.items():
        result = read(Path(folder) / part)
        kept = contents(result)
        if part.startswith("masks"):
            kept |= context_errors(result)
        arrays |= {
            f"{name}/{quantity}": np.array(value) for quantity, value in kept.items()
        }
    floats = {
        name: a.astype(np.float32)
        for name, a in arrays.items()
        if a.dtype == np.float64 and a.ndim
    }
    np.savez_compressed(Path(__file__).with_name("emergence.npz"), **arrays | floats)


if __name__ == "__main__":
    main(sys.argv[1])
