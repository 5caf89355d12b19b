"""Writes ddim.json, dpm_solver.json and dpm_solver_karras.json: trajectories of diffusers' DDIMScheduler and
DPMSolverMultistepScheduler (DPM-Solver++ 2M; with Karras sigmas) under a model that is a formula.

    oracle/bin/python models/diffusion/testdata/make_sampler_goldens.py

(The virtual environment of tests/golden/README.md.) The model predicts 0.5 x + sin(t / 100); x has 2 samples
of 4 values. Each case has the scheduler's configuration, the timesteps visited, some of alphas_cumprod, and x
before the first step and after the last. Other processors differ in the last digits of alphas_cumprod and x.
"""

import json
import math
import pathlib

import diffusers
import torch

STABLE_DIFFUSION = {"beta_schedule": "scaled_linear", "beta_start": 0.00085, "beta_end": 0.012,
                    "clip_sample": False, "set_alpha_to_one": False, "steps_offset": 1}
CASES = [
    ({}, 10),
    (STABLE_DIFFUSION, 4),
    (STABLE_DIFFUSION, 7),
    ({**STABLE_DIFFUSION, "prediction_type": "v_prediction"}, 20),
    ({**STABLE_DIFFUSION, "prediction_type": "sample"}, 5),
    ({**STABLE_DIFFUSION, "prediction_type": "v_prediction", "rescale_betas_zero_snr": True,
      "timestep_spacing": "trailing"}, 6),
    ({**STABLE_DIFFUSION, "timestep_spacing": "trailing"}, 7),
    ({**STABLE_DIFFUSION, "timestep_spacing": "linspace"}, 8),
    ({"beta_schedule": "squaredcos_cap_v2", "clip_sample_range": 2.0}, 10),
    ({"num_train_timesteps": 200, "prediction_type": "sample", "clip_sample_range": 0.5}, 9),
]
LEADING = {"timestep_spacing": "leading"}
# DPM-Solver++ never clips, ends without noise, and has a default spacing of its own; it ignores keys that its scheduler
# lacks, such as clip_sample.
DPM_CASES = [
    ({**STABLE_DIFFUSION, **LEADING}, 4),
    ({**STABLE_DIFFUSION, **LEADING}, 20),
    ({**STABLE_DIFFUSION, "prediction_type": "v_prediction", **LEADING}, 25),
    ({**STABLE_DIFFUSION, "prediction_type": "sample", **LEADING}, 7),
    ({**STABLE_DIFFUSION, "timestep_spacing": "trailing"}, 10),
    ({**STABLE_DIFFUSION, "timestep_spacing": "linspace"}, 15),
    (STABLE_DIFFUSION, 15),
    # Here one place lies at a half, 15 * 999 / 30 = 499.5, which numpy's linspace comes to from below.
    (STABLE_DIFFUSION, 30),
    ({**STABLE_DIFFUSION, "prediction_type": "v_prediction", "rescale_betas_zero_snr": True,
      "timestep_spacing": "trailing"}, 12),
    ({"beta_schedule": "squaredcos_cap_v2", **LEADING}, 10),
    # Begins at the last timestep, whose abar is 2e-9.
    ({"beta_schedule": "squaredcos_cap_v2", "prediction_type": "v_prediction"}, 10),
]
COSINE_300 = {"beta_schedule": "squaredcos_cap_v2", "num_train_timesteps": 300}
KARRAS = {"use_karras_sigmas": True}
KARRAS_CASES = [
    ({**STABLE_DIFFUSION, **KARRAS}, 5),
    ({**STABLE_DIFFUSION, **KARRAS}, 20),
    # Here neighbouring sigmas share a timestep.
    ({**STABLE_DIFFUSION, **KARRAS}, 300),
    ({**STABLE_DIFFUSION, **KARRAS}, 1),
    ({**STABLE_DIFFUSION, "prediction_type": "v_prediction", "timestep_spacing": "leading", **KARRAS}, 25),
    ({**STABLE_DIFFUSION, "prediction_type": "sample", "timestep_spacing": "trailing", **KARRAS}, 7),
    ({**STABLE_DIFFUSION, "prediction_type": "v_prediction", "rescale_betas_zero_snr": True,
      "timestep_spacing": "trailing", **KARRAS}, 12),
    (KARRAS, 10),
    ({"num_train_timesteps": 200, "prediction_type": "sample", **KARRAS}, 9),
    # Timesteps are truncated here. (With 1000 timesteps diffusers' fp32 makes 998 of the first one, 999.)
    ({**COSINE_300, "prediction_type": "v_prediction", **KARRAS}, 10),
    ({**COSINE_300, "prediction_type": "sample", **KARRAS}, 20),
]
CHECKED_TIMESTEPS = [0, 1, 57, 100, 198, 199]


def trajectory(kind, config, steps):
    known = kind().config
    scheduler = kind(**{key: value for key, value in config.items() if key in known})
    scheduler.set_timesteps(steps)
    if hasattr(scheduler, "set_begin_index"):
        scheduler.set_begin_index(0)  # else the first of two equal timesteps would be left out
    start = torch.randn(2, 4, generator=torch.Generator().manual_seed(steps))
    x = start.double()
    for t in scheduler.timesteps:
        x = scheduler.step(0.5 * x + math.sin(t.item() / 100), t, x).prev_sample
    return {"config": config, "steps": steps, "timesteps": scheduler.timesteps.tolist(),
            "alphas_cumprod": [[t, scheduler.alphas_cumprod[t].item()] for t in CHECKED_TIMESTEPS],
            "start": start.flatten().tolist(), "end": x.flatten().tolist()}


def write(name, kind, cases):
    out = pathlib.Path(__file__).with_name(name)
    lines = ",\n".join(json.dumps(trajectory(kind, *case)) for case in cases)
    out.write_text('{"diffusers": "%s", "cases": [\n%s\n]}\n' % (diffusers.__version__, lines))


write("ddim.json", diffusers.DDIMScheduler, CASES)
write("dpm_solver.json", diffusers.DPMSolverMultistepScheduler, DPM_CASES)
write("dpm_solver_karras.json", diffusers.DPMSolverMultistepScheduler, KARRAS_CASES)
