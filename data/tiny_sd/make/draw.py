"""Loads data/tiny_sd with diffusers' StableDiffusionPipeline and draws prompts: proof that the folder is one."""

import argparse
import pathlib

import torch
from diffusers import StableDiffusionPipeline

HERE = pathlib.Path(__file__).parent


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=HERE.parent)
    parser.add_argument("--prompt", default="a large red circle on a gray background")
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--guidance", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default="sample.png")
    args = parser.parse_args()
    pipeline = StableDiffusionPipeline.from_pretrained(args.model, dtype=torch.float32)
    pipeline.set_progress_bar_config(disable=True)
    images = pipeline(
        [args.prompt] * args.count, height=64, width=64, num_inference_steps=args.steps,
        guidance_scale=args.guidance, generator=torch.Generator().manual_seed(args.seed)).images
    out = pathlib.Path(args.out)
    for i, image in enumerate(images):
        image.save(out if args.count == 1 else out.with_stem(f"{out.stem}_{i}"))
    print(f"{args.count} image(s) of {images[0].size}")


if __name__ == "__main__":
    main()
