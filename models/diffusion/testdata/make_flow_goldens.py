"""Writes flow.json: what diffusers' FlowMatchEulerDiscreteScheduler and training_utils compute.

    oracle/bin/python models/diffusion/testdata/make_flow_goldens.py

(diffusers 0.42.1.) Each case has a configuration, the file that save_config writes for it, noise levels of training at
some indices, and for a number of steps the levels and x after every call. The model predicts 0.5 x + sin(t / 100).
"""

import json
import math
import pathlib
import tempfile

import numpy
import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from diffusers.training_utils import compute_loss_weighting_for_sd3

DYNAMIC = {"use_dynamic_shifting": True}
# Configurations, and their samplings: steps, spacing, image tokens (of a dynamic shift).
CASES = [
    ({}, [(7, "trained", None), (1, "trained", None)]),
    ({"shift": 3.0}, [(28, "trained", None), (4, "trained", None)]),  # Stable Diffusion 3
    ({"shift": 1.0}, [(4, "full", None)]),  # FLUX.1 schnell
    ({"shift": 3.0, **DYNAMIC}, [(20, "full", 256), (8, "full", 1024), (5, "full", 4096)]),  # FLUX.1 dev
    ({**DYNAMIC, "time_shift_type": "linear", "base_shift": 0.3, "max_shift": 0.9, "num_train_timesteps": 500},
     [(6, "trained", 777)]),
    ({"shift": 2.0, "shift_terminal": 0.1}, [(6, "full", None)]),
]


def mu_of(config, tokens):
    """calculate_shift of diffusers' FLUX pipeline."""
    slope = (config["max_shift"] - config["base_shift"]) / (config["max_image_seq_len"] - config["base_image_seq_len"])
    return tokens * slope + config["base_shift"] - slope * config["base_image_seq_len"]


def sample(scheduler, steps, spacing, tokens):
    arguments = {"mu": mu_of(scheduler.config, tokens)} if tokens else {}
    if spacing == "full":
        scheduler.set_timesteps(sigmas=numpy.linspace(1.0, 1 / steps, steps), **arguments)
    else:
        scheduler.set_timesteps(steps, **arguments)
    x = torch.randn(2, 4, generator=torch.Generator().manual_seed(steps))
    result = {"steps": steps, "spacing": spacing, "tokens": tokens, "start": x.flatten().tolist(),
              "levels": scheduler.sigmas.tolist(), "calls": []}
    for t in scheduler.timesteps:
        x = scheduler.step(0.5 * x + math.sin(t / 100), t, x).prev_sample
        result["calls"].append(x.flatten().tolist())
    return result


def main():
    cases = []
    for config, samplings in CASES:
        scheduler = FlowMatchEulerDiscreteScheduler(**config)
        with tempfile.TemporaryDirectory() as folder:
            scheduler.save_config(folder)
            text = (pathlib.Path(folder) / "scheduler_config.json").read_text()
        count = len(scheduler.sigmas)
        levels = [[i, scheduler.sigmas[i].item()] for i in (0, 1, 7, count // 2, count - 1)]
        cases.append({"config": config, "text": text, "train_levels": levels,
                      "samplings": [sample(FlowMatchEulerDiscreteScheduler(**config), *s) for s in samplings]})
    levels = torch.tensor([0.001, 0.1, 0.25, 0.5, 0.9, 1.0])
    weights = {name: compute_loss_weighting_for_sd3(name, levels).tolist() for name in ("none", "sigma_sqrt", "cosmap")}
    path = pathlib.Path(__file__).parent / "flow.json"
    path.write_text(json.dumps({"cases": cases, "levels": levels.tolist(), "weights": weights}, indent=1) + "\n")


if __name__ == "__main__":
    main()
