"""Draws with diffusers what //tools:score_control --images=IMAGES drew, from the same saved folder, and compares.

    bazel run //tools:score_control -- --model=MODEL --images=IMAGES
    oracle/bin/python models/controlnet/testdata/check_pictures.py MODEL IMAGES

MODEL is loaded as a StableDiffusionControlNetPipeline. The noise that drawing begins with is that of core/base/philox
for the picture's number. Prints, per picture, the largest difference of any byte and the share of bytes that differ;
exits with 1 where any differs by more than 2.
"""

import json
import math
import pathlib
import sys

import numpy
import torch
from diffusers import StableDiffusionControlNetPipeline
from PIL import Image

SAMPLE = 9  # RandomPurpose::kSample


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 % 2**32, (p0 >> 32) ^ c[3] ^ k[1], p0 % 2**32]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return c


def noise(seed, sample, shape):
    """[height, width, channels], as diffusion::DrawNoise of step 0."""
    mixed = philox([0, 0, 0, 0], [seed % 2**32, seed >> 32])
    uniform, values, position = [], [], 0
    count = math.prod(shape)
    while len(values) < count:
        uniform += [(word >> 8) / 2**24 for word in philox([position, sample, SAMPLE, mixed[2]], mixed[:2])]
        position += 1
        while len(uniform) >= 2:
            radius, angle = math.sqrt(-2 * math.log(1 - uniform[0])), 2 * math.pi * uniform[1]
            values += [radius * math.cos(angle), radius * math.sin(angle)]
            uniform = uniform[2:]
    return torch.tensor(values[:count], dtype=torch.float32).reshape(shape)


def main():
    model, images = sys.argv[1], pathlib.Path(sys.argv[2])
    drawn = json.loads((images / "drawn.json").read_text())
    pipeline = StableDiffusionControlNetPipeline.from_pretrained(model, safety_checker=None, torch_dtype=torch.float32)
    pipeline.set_progress_bar_config(disable=True)
    size = pipeline.unet.config.sample_size
    shape = (size, size, pipeline.unet.config.in_channels)
    worst = 0
    for i, caption in enumerate(drawn["captions"]):
        outline = Image.open(images / f"outline_{i}.png").convert("RGB")
        expected = numpy.asarray(Image.open(images / f"drawn_{i}.png").convert("RGB")).astype(int)
        start = noise(drawn["seed"], i, shape).permute(2, 0, 1)[None]
        output = pipeline(caption, image=outline, num_inference_steps=drawn["steps"], guidance_scale=drawn["guidance"],
                          latents=start, eta=0.0, height=outline.height, width=outline.width, output_type="np")
        actual = numpy.clip(numpy.rint(output.images[0] * 255), 0, 255).astype(int)
        difference = numpy.abs(actual - expected)
        worst = max(worst, difference.max())
        print(f"{i} '{caption}': largest difference {difference.max()}, {100 * (difference > 0).mean():.2f} % differ")
    sys.exit(1 if worst > 2 else 0)


if __name__ == "__main__":
    main()
