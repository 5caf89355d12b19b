"""Loads a cascade's folder in diffusers: configurations and weights as they are, no key missing or left over.

    oracle/bin/python models/cascade/load_in_diffusers.py FOLDER [SAMPLES.png]

With a second argument it draws one picture a class (of the first 40) by DDIM, 30 steps, guidance 3, and saves a grid.
The environment is that of tests/golden/README.md.
"""

import json
import pathlib
import sys

import numpy
import torch
from diffusers import DDIMScheduler, UNet2DModel
from PIL import Image
from torch.nn import functional as F


def load(folder, part):
    model, info = UNet2DModel.from_pretrained(folder / part, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"], info
    scheduler = DDIMScheduler.from_pretrained(folder / f"{part}_scheduler")
    print(part, sum(p.numel() for p in model.parameters()), "parameters")
    return model.eval(), scheduler


def sample(model, scheduler, shape, condition, labels, no_label=None, guidance=3.0):
    x = torch.randn(shape)
    scheduler.set_timesteps(30)
    for t in scheduler.timesteps:
        given = x if condition is None else torch.cat([x, condition], 1)
        noise = model(given, t, class_labels=labels).sample
        if no_label is not None:
            free = model(given, t, class_labels=no_label).sample
            noise = free + guidance * (noise - free)
        x = scheduler.step(noise, t, x).prev_sample
    return x.clamp(-1, 1)


@torch.no_grad()
def main():
    folder = pathlib.Path(sys.argv[1])
    index = json.loads((folder / "model_index.json").read_text())
    base, base_scheduler = load(folder, "base")
    upscaler, scheduler = load(folder, "super_resolution")
    if len(sys.argv) < 3:
        return
    torch.manual_seed(1)
    rows = base.config.num_class_embeds
    count = min(40, rows - 1) if rows else 40
    labels = torch.arange(count) if rows else None
    size, large = base.config.sample_size, upscaler.config.sample_size
    small = sample(base, base_scheduler, (count, 3, size, size), None, labels,
                   torch.full((count,), rows - 1) if rows else None)
    level = torch.full((count,), index.get("noise_level", 50))
    low = DDIMScheduler.from_pretrained(folder / "low_res_scheduler").add_noise(small, torch.randn_like(small), level)
    low = F.interpolate(low, size=(large, large), mode="bilinear", align_corners=False)
    images = sample(upscaler, scheduler, (count, 3, large, large), low, level)
    pixels = ((images + 1) * 127.5).round().byte().permute(0, 2, 3, 1).numpy()
    columns = 8
    grid = numpy.concatenate([numpy.concatenate(list(pixels[i:i + columns]), 1) for i in range(0, count, columns)], 0)
    Image.fromarray(grid).resize((grid.shape[1] * 2, grid.shape[0] * 2), Image.NEAREST).save(sys.argv[2])


if __name__ == "__main__":
    main()
