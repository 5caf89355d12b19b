"""Writes samplers.json: trajectories of diffusers' schedulers under a model that is a formula.

    oracle/bin/python models/diffusion/testdata/make_sampler_goldens.py

(The virtual environment of tests/golden/README.md.) The model predicts 0.5 x + sin(t / 100) of what it is given;
x has 2 samples of 4 values. Each case has the sampler's name here, the scheduler's class and configuration, the
timesteps of all calls, some of alphas_cumprod, x before the first step (standard normal noise) and after every
call (of more than 10 calls: after the last), the largest |x| on the way (of which fp32 rounds a share), and the
fresh noise of every call that draws some.
Other processors differ in the last digits of alphas_cumprod and x.
"""

import json
import math
import pathlib

import diffusers
import torch

STABLE_DIFFUSION = {"beta_schedule": "scaled_linear", "beta_start": 0.00085, "beta_end": 0.012,
                    "clip_sample": False, "set_alpha_to_one": False, "steps_offset": 1}
V = {"prediction_type": "v_prediction"}
SAMPLE = {"prediction_type": "sample"}
LEADING = {"timestep_spacing": "leading"}
TRAILING = {"timestep_spacing": "trailing"}
LINSPACE = {"timestep_spacing": "linspace"}
ZERO_SNR = {**V, **TRAILING, "rescale_betas_zero_snr": True}
KARRAS = {"use_karras_sigmas": True}
EXPONENTIAL = {"use_exponential_sigmas": True}
# With 1000, diffusers' fp32 truncates the first timestep to 998.
SHORT = {"num_train_timesteps": 500}
TO_LEAST = {"final_sigmas_type": "sigma_min"}
COSINE = {"beta_schedule": "squaredcos_cap_v2"}
COSINE_300 = {**COSINE, "num_train_timesteps": 300}
PLMS = {"skip_prk_steps": True}
SDE = {"algorithm_type": "sde-dpmsolver++"}


def sd(*changes):
    config = dict(STABLE_DIFFUSION)
    for change in changes:
        config.update(change)
    return config


# By the sampler's name here: the scheduler, and configurations with numbers of steps.
CASES = {
    "ddim": (diffusers.DDIMScheduler, [
        ({}, 10), (sd(), 4), (sd(), 7), (sd(V), 20), (sd(SAMPLE), 5), (sd(ZERO_SNR), 6), (sd(TRAILING), 7),
        (sd(LINSPACE), 8), ({**COSINE, "clip_sample_range": 2.0}, 10),
        ({"num_train_timesteps": 200, **SAMPLE, "clip_sample_range": 0.5}, 9)]),
    "ddpm": (diffusers.DDPMScheduler, [
        ({}, 10), (sd(), 5), (sd(V, {"variance_type": "fixed_large"}), 8), (sd(SAMPLE, TRAILING), 6),
        (sd(LINSPACE, {"variance_type": "fixed_small_log"}), 4), (sd(ZERO_SNR), 5),
        ({**COSINE, "clip_sample_range": 2.0}, 7)]),
    # DPM-Solver++ never clips and has a default spacing of its own; it ignores keys that its scheduler lacks, such as
    # clip_sample.
    "dpm++": (diffusers.DPMSolverMultistepScheduler, [
        (sd(LEADING), 4), (sd(LEADING), 20), (sd(V, LEADING), 25), (sd(SAMPLE, LEADING), 7), (sd(TRAILING), 10),
        (sd(LINSPACE), 15), (sd(), 15),
        # Here one place lies at a half, 15 * 999 / 30 = 499.5, which numpy's linspace comes to from below.
        (sd(), 30),
        (sd(ZERO_SNR), 12), ({**COSINE, **LEADING}, 10),
        # Begins at the last timestep, whose abar is 2e-9.
        ({**COSINE, **V}, 10),
        (sd(KARRAS), 5), (sd(KARRAS), 20),
        # Here neighbouring sigmas share a timestep.
        (sd(KARRAS), 300),
        (sd(KARRAS), 1), (sd(V, LEADING, KARRAS), 25), (sd(SAMPLE, TRAILING, KARRAS), 7), (sd(ZERO_SNR, KARRAS), 12),
        (KARRAS, 10), ({"num_train_timesteps": 200, **SAMPLE, **KARRAS}, 9),
        # Timesteps are truncated here. (With 1000 timesteps diffusers' fp32 makes 998 of the first one, 999.)
        ({**COSINE_300, **V, **KARRAS}, 10), ({**COSINE_300, **SAMPLE, **KARRAS}, 20),
        (sd({"solver_order": 1}), 8), (sd({"solver_order": 3}), 8), (sd(V, {"solver_order": 3}), 20),
        (sd({"solver_order": 3, "lower_order_final": False}, TO_LEAST), 9),
        (sd({"solver_type": "heun"}), 12), (sd({"solver_type": "heun", "solver_order": 3}), 20),
        (sd(LEADING, TO_LEAST), 10), (sd(LEADING, TO_LEAST), 20), (sd(TO_LEAST, {"euler_at_final": True}), 20),
        (sd({"lower_order_final": False}), 8), (sd(EXPONENTIAL, SHORT), 12),
        (sd(SDE), 10), (sd(SDE, KARRAS), 20), (sd(SDE, V, {"solver_type": "heun"}), 16),
        (sd(SDE, {"solver_order": 3}), 18), (sd(SDE, {"solver_order": 1}, TO_LEAST), 6)]),
    "euler": (diffusers.EulerDiscreteScheduler, [
        ({}, 10), (sd(LEADING), 4), (sd(LEADING), 20), (sd(V, LEADING), 7), (sd(SAMPLE, LEADING), 6), (sd(TRAILING), 1),
        (sd(TRAILING), 9), (sd(), 13), (sd(V), 30), (sd(KARRAS), 10), (sd(LEADING, KARRAS, V), 20),
        (sd(EXPONENTIAL, TRAILING), 8), (sd(TO_LEAST, LEADING), 8), (sd(ZERO_SNR), 8), (sd(ZERO_SNR, KARRAS), 10)]),
    "euler_a": (diffusers.EulerAncestralDiscreteScheduler, [
        ({}, 6), (sd(LEADING), 10), (sd(V, LEADING), 7), (sd(TRAILING), 1), (sd(TRAILING), 5), (sd(), 9),
        (sd(ZERO_SNR), 6)]),
    "lcm": (diffusers.LCMScheduler, [
        ({}, 4), (sd(), 1), (sd(), 8), (sd(V), 3), (sd(SAMPLE), 6), ({"clip_sample": True}, 5),
        (sd({"original_inference_steps": 100, "timestep_scaling": 5.0}), 7), (sd(ZERO_SNR), 4)]),
    "pndm": (diffusers.PNDMScheduler, [
        (sd(PLMS), 1), (sd(PLMS), 2), (sd(PLMS), 3), (sd(PLMS), 4), (sd(PLMS), 10), (sd(PLMS), 50), (sd(PLMS, V), 20),
        (sd(PLMS, TRAILING), 7), (sd(PLMS, LINSPACE), 8), ({**PLMS, "set_alpha_to_one": True}, 6),
        ({}, 10), (sd(), 4), (sd(V), 5), (sd(TRAILING), 9), ({"num_train_timesteps": 200}, 7)]),
    "unipc": (diffusers.UniPCMultistepScheduler, [
        ({}, 10), (sd(), 1), (sd(), 2), (sd(), 5), (sd(), 20), (sd(LEADING), 12), (sd(TRAILING, V), 9), (sd(SAMPLE), 8),
        (sd(KARRAS), 10), (sd(KARRAS, V, {"solver_order": 3}), 16), (sd(EXPONENTIAL, SHORT), 7), (sd({"solver_order": 3}), 6),
        (sd({"solver_order": 3}), 20), (sd({"solver_order": 1}), 6), (sd({"solver_type": "bh1"}, TO_LEAST), 9),
        (sd({"solver_type": "bh1", "solver_order": 3}, TO_LEAST), 15),
        (sd({"lower_order_final": False}, TO_LEAST), 7), (sd(TO_LEAST, LEADING), 8), (sd(ZERO_SNR), 10),
        (COSINE, 9)]),
}
CHECKED_TIMESTEPS = [0, 1, 57, 100, 198, 199]


def rounded(x, digits=9):  # 9 tell every fp32 apart
    return [float("%.*g" % (digits, v)) for v in x.flatten().tolist()]


class FreshNoise:
    """In the place of randn_tensor: keeps what it draws."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)
        self.drawn = []

    def __call__(self, shape, dtype=None, **unused):
        noise = torch.randn(*shape, generator=self.generator)
        self.drawn.append(noise)
        return noise.to(dtype or torch.float32)


def trajectory(name, kind, config, steps):
    known = kind().config
    scheduler = kind(**{key: value for key, value in config.items() if key in known})
    scheduler.set_timesteps(steps)
    if hasattr(scheduler, "set_begin_index"):
        scheduler.set_begin_index(0)  # else the first of two equal timesteps would be left out
    fresh = FreshNoise(steps + 1000)
    module = __import__(kind.__module__, fromlist=["randn_tensor"])
    if hasattr(module, "randn_tensor"):
        module.randn_tensor = fresh
    start = torch.randn(2, 4, generator=torch.Generator().manual_seed(steps))
    x = start.double() * scheduler.init_noise_sigma
    calls, noises, largest = [], [], x.abs().max().item()
    for t in scheduler.timesteps:
        drawn = len(fresh.drawn)
        given = scheduler.scale_model_input(x, t)
        x = scheduler.step(0.5 * given + math.sin(t.item() / 100), t, x).prev_sample.double()
        assert torch.isfinite(x).all(), (name, config, steps)
        largest = max(largest, x.abs().max().item())
        calls.append(rounded(x, digits=7))
        noises.append(rounded(fresh.drawn[drawn]) if len(fresh.drawn) > drawn else None)
    if len(calls) > 10:
        calls = [None] * (len(calls) - 1) + calls[-1:]
    case = {"sampler": name, "class": kind.__name__, "config": config, "steps": steps,
            "timesteps": scheduler.timesteps.tolist(),
            "alphas_cumprod": [[t, scheduler.alphas_cumprod[t].item()] for t in CHECKED_TIMESTEPS],
            "start": rounded(start), "calls": calls, "largest": float("%.3g" % largest)}
    if any(noises):
        case["noise"] = noises
    return case


out = pathlib.Path(__file__).with_name("samplers.json")
lines = ",\n".join(json.dumps(trajectory(name, kind, config, steps))
                   for name, (kind, cases) in CASES.items() for config, steps in cases)
out.write_text('{"diffusers": "%s", "cases": [\n%s\n]}\n' % (diffusers.__version__, lines))
