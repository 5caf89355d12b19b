"""Writes formula.safetensors: what diffusers computes with small U-Nets whose weights come from a formula.

    oracle/bin/python models/testdata/make_formula_goldens.py

The configurations differ from data/tiny_sd in what that one does not have: projections that are convolutions, several
transformer blocks, unequal heads, up and down blocks of unlike types. For each: inputs, noisy latents, the prediction,
each sample's loss, and the gradient of their mean to every parameter as its L2 norm. In float64 from float32 inputs
and weights, rounded once. Images are NHWC. The formula is in weight(); formula_weights.h is its other half. The
environment is that of tests/golden/README.md.
"""

import json
import math
import pathlib

import numpy
import torch
from diffusers import UNet2DConditionModel
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent


def weight(name, shape):
    """uniform in +-sqrt(1.5 / fan_in); norms' scales around 1."""
    count = math.prod(shape)
    key = 2166136261
    for byte in name.encode():
        key = ((key ^ byte) * 16777619) % 2**32
    index = numpy.arange(count, dtype=numpy.uint64)
    mixed = ((index + key) * 2654435761) % 2**32
    mixed = ((mixed ^ (mixed >> 15)) * 2246822519) % 2**32
    uniform = (mixed >> 8).astype(numpy.float64) / 2**23 - 1
    if len(shape) == 1:
        values = 0.2 * uniform + (1 if "norm" in name and name.endswith("weight") else 0)
    else:
        values = uniform * math.sqrt(1.5 / (count // shape[0]))
    return torch.from_numpy(values.astype(numpy.float32).reshape(shape))


def nhwc(x):
    return x.permute(0, 2, 3, 1).contiguous()


def compute(name, prediction_type, out):
    config = json.loads((HERE / f"{name}.json").read_text())
    model = UNet2DConditionModel.from_config(config).double()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.copy_(weight(key, tuple(parameter.shape)))
    generator = torch.Generator().manual_seed(7)
    latents = torch.randn(2, 8, 8, config["in_channels"], generator=generator)
    context = torch.randn(2, 5, config["cross_attention_dim"], generator=generator)
    noise = torch.randn(2, 8, 8, config["out_channels"], generator=generator)
    timesteps = torch.tensor([3, 912], dtype=torch.int32)
    betas = torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float64) ** 2
    abar = torch.cumprod(1 - betas, 0)[timesteps.long()][:, None, None, None]
    noisy = abar.sqrt() * latents.double() + (1 - abar).sqrt() * noise.double()
    target = noise.double()
    if prediction_type == "v_prediction":
        target = abar.sqrt() * noise.double() - (1 - abar).sqrt() * latents.double()
    prediction = nhwc(model(noisy.permute(0, 3, 1, 2), timesteps.long(), context.double()).sample)
    losses = (prediction - target).square().mean((1, 2, 3))
    losses.mean().backward()
    out |= {f"{name}/latents": latents, f"{name}/noise": noise, f"{name}/context": context,
            f"{name}/timesteps": timesteps, f"{name}/noisy_latents": noisy, f"{name}/prediction": prediction,
            f"{name}/losses": losses}
    for key, parameter in model.named_parameters():
        out[f"{name}/gradient_norm/{key}"] = parameter.grad.norm().reshape(1)


def main():
    out = {}
    compute("unet_mixed", "epsilon", out)
    compute("unet_conv", "v_prediction", out)
    tensors = {k: v.detach().float() if v.is_floating_point() else v for k, v in out.items()}
    save_file({k: v.contiguous().clone() for k, v in tensors.items()}, HERE / "formula.safetensors")
    (HERE / "formula.safetensors").chmod(0o644)


if __name__ == "__main__":
    main()
