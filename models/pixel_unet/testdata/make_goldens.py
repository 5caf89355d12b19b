"""Writes small.safetensors and full.safetensors: what diffusers' UNet2DModel computes in a diffusion training step, from formula weights.

    oracle/bin/python models/pixel_unet/testdata/make_goldens.py [small | full]

Small configurations lie here; the full-size ones are those of data/models/cdm_*, at a small height and width. For each:
inputs, the prediction, each sample's loss, and of the gradient of their mean to every parameter its L2 norm and its
product with a vector, both over the same formula (a direction is the weights of the name with "#" behind it). A U-Net
with six input channels sees a noised picture of a quarter of the size, enlarged bilinearly. Weights are those of
models/testdata/make_formula_goldens.py. Small ones are computed in float64, full-size ones in float32; images are NHWC.
Also writes <name>.parameters, a line "name dim dim ..." for each parameter, sorted. Needs about 6 GB.
"""

import gc
import json
import math
import pathlib
import sys

import torch
from diffusers import UNet2DModel
from safetensors.torch import save_file
from torch.nn import functional as F

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "models/testdata"))
from make_formula_goldens import weight  # noqa: E402

# Name, config, side of the image.
SMALL = [(name, HERE / f"{name}.json", 8) for name in ("pixel_guided", "pixel_mixed", "pixel_plain_mid",
                                                         "pixel_one_head")]
FULL = [(f"{model}_{part}", ROOT / f"data/models/{model}/{part}/config.json", side)
        for model in ("cdm_lsun", "cdm_imagenet") for part, side in (("base", 16), ("super_resolution", 32))]
TINY = [(f"tiny_cdm_{part}", ROOT / f"data/tiny_cdm/{part}/config.json", side)
        for part, side in (("base", 16), ("super_resolution", 32))]


def cosine_abar(timesteps):
    """Nichol and Dhariwal, arXiv 2102.09672, as diffusers' squaredcos_cap_v2."""
    f = [math.cos((i / 1000 + 0.008) / 1.008 * math.pi / 2) ** 2 for i in range(1001)]
    betas = torch.tensor([min(1 - f[i + 1] / f[i], 0.999) for i in range(1000)], dtype=torch.float64)
    return torch.cumprod(1 - betas, 0)[timesteps.long()][:, None, None, None]


def noised(x, noise, timesteps, dtype):
    abar = cosine_abar(timesteps)
    return (abar.sqrt() * x.double() + (1 - abar).sqrt() * noise.double()).to(dtype)


def nhwc(x):
    return x.permute(0, 2, 3, 1)


def nchw(x):
    return x.permute(0, 3, 1, 2)


def compute(name, path, side, dtype, out):
    config = json.loads(path.read_text())
    with torch.device("meta"):
        model = UNet2DModel.from_config(config)
    model = model.to_empty(device="cpu").to(dtype)
    if config["class_embed_type"] == "timestep":  # diffusers casts only the time's sinusoids
        model.class_embedding.register_forward_pre_hook(lambda _, args: (args[0].to(dtype),))
    lines = []
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.copy_(weight(key, tuple(parameter.shape)))
            lines.append(" ".join([key, *map(str, parameter.shape)]))
    (HERE / f"{name}.parameters").write_text("\n".join(sorted(lines)) + "\n")
    generator = torch.Generator().manual_seed(11)
    pixels = torch.rand(2, side, side, 3, generator=generator) * 2 - 1
    noise = torch.randn(2, side, side, 3, generator=generator)
    timesteps = torch.tensor([40, 731], dtype=torch.int32)
    inputs = {"pixels": pixels, "noise": noise, "timesteps": timesteps}
    x, labels = nchw(noised(pixels, noise, timesteps, dtype)), None
    if config["in_channels"] == 6:
        low = torch.rand(2, side // 4, side // 4, 3, generator=generator) * 2 - 1
        low_noise = torch.randn(2, side // 4, side // 4, 3, generator=generator)
        labels = torch.tensor([3, 250], dtype=torch.int32)
        inputs |= {"low_resolution": low, "low_noise": low_noise, "noise_levels": labels}
        condition = nchw(noised(low, low_noise, labels, dtype))
        x = torch.cat([x, F.interpolate(condition, size=(side, side), mode="bilinear", align_corners=False)], 1)
    elif config["num_class_embeds"]:
        labels = torch.tensor([4, 1], dtype=torch.int32)
        inputs["labels"] = labels
    prediction = nhwc(model(x, timesteps.long(), class_labels=labels).sample)
    losses = (prediction - noise.to(dtype)).square().mean((1, 2, 3))
    losses.mean().backward()
    for key, value in (inputs | {"prediction": prediction, "losses": losses}).items():
        out[f"{name}/{key}"] = value
    for key, parameter in model.named_parameters():
        direction = weight(key + "#", tuple(parameter.shape)).to(dtype)
        out[f"{name}/gradient/{key}"] = torch.stack([parameter.grad.double().norm(), (parameter.grad.double() * direction.double()).sum()])
    print(name, sum(p.numel() for p in model.parameters()), losses.tolist(), flush=True)


def main():
    for group, cases, dtype in (("small", SMALL + TINY, torch.float64), ("full", FULL, torch.float32)):
        if sys.argv[1:] not in ([], [group]):
            continue
        out = {}
        for name, path, side in cases:
            compute(name, path, side, dtype, out)
            gc.collect()
        tensors = {k: v.detach().float() if v.is_floating_point() else v for k, v in out.items()}
        save_file({k: v.contiguous().clone() for k, v in tensors.items()}, HERE / f"{group}.safetensors")
        (HERE / f"{group}.safetensors").chmod(0o644)


if __name__ == "__main__":
    main()
