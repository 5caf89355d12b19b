"""Whether a folder that this code writes loads in diffusers and gives the same images there.

    bazel build //tests/golden:dump_images
    oracle/bin/python tests/golden/compare_images_with_diffusers.py [--store=fp16] [case ...]

Cases: tiny_sd (trained weights), and two with random weights made by this code from configurations alone: v15 and v21,
which are data/models/stable_diffusion_v1_5 and _v2_1 with a tenth of their widths (convolutions as projections, 8
heads, quick GELU and noise prediction; linear projections, heads by level, exact GELU and v prediction); sdxl, the
pipeline of models/sdxl/testdata/make_goldens.py. Also a
scheduler of diffusers, "PNDMScheduler" for example: tiny_sd with that scheduler in its folder; it must not draw fresh
noise. For each: dump_images writes the folder, in a temporary place, and draws; DiffusionPipeline.from_pretrained reads it and
draws from the same noise. Prints relative L2 errors of the final latents and the decoded images; exits with 1 past
--tolerance.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import torch
import diffusers
from diffusers import DiffusionPipeline
from safetensors.torch import load_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROMPTS = ["a large red circle", "a small blue square left of a green star"]
STEPS, GUIDANCE = 6, 4.0


def edit(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values, indent=2))


def reduced(name, folder):
    """A copy of a full-size configuration with a tenth of its widths."""
    shutil.copytree(ROOT / "data" / "models" / name, folder)
    width = {"stable_diffusion_v1_5": 64, "stable_diffusion_v2_1": 96}[name]
    heads = {"stable_diffusion_v1_5": 8, "stable_diffusion_v2_1": [2, 4, 8, 8]}[name]
    edit(folder / "unet" / "config.json", block_out_channels=[32, 64, 128, 128], norm_num_groups=8, sample_size=16,
         cross_attention_dim=width, attention_head_dim=heads)
    edit(folder / "vae" / "config.json", block_out_channels=[16, 32, 48, 48], norm_num_groups=8, sample_size=128)
    edit(folder / "text_encoder" / "config.json", hidden_size=width, intermediate_size=4 * width,
         num_attention_heads=4, num_hidden_layers=3, projection_dim=width)
    return folder


def with_scheduler(name, folder):
    """A copy of tiny_sd whose scheduler is of this class, with skip_prk_steps as Stable Diffusion's PNDMScheduler."""
    shutil.copytree(ROOT / "data" / "tiny_sd", folder)
    config = json.loads((folder / "scheduler" / "scheduler_config.json").read_text()) | {"skip_prk_steps": True}
    getattr(diffusers, name).from_config(config).save_pretrained(folder / "scheduler")
    edit(folder / "model_index.json", scheduler=["diffusers", name])
    return folder


def nhwc(x):
    return x.permute(0, 2, 3, 1)


def draw(folder, noise):
    pipeline = DiffusionPipeline.from_pretrained(folder, torch_dtype=torch.float32)
    pipeline.set_progress_bar_config(disable=True)
    given = {"num_inference_steps": STEPS, "guidance_scale": GUIDANCE, "latents": noise.permute(0, 3, 1, 2)}
    latents = pipeline(PROMPTS, output_type="latent", **given).images
    with torch.no_grad():
        pixels = pipeline.vae.decode(latents / pipeline.vae.config.scaling_factor).sample
    return {"latents": nhwc(latents), "pixels": nhwc(pixels)}


def compare(case, binary, store, scratch):
    model = "tiny_sd"
    if case.endswith("Scheduler"):
        model = with_scheduler(case, scratch / "scheduled")
    elif case == "sdxl":
        model = scratch / "sdxl"
        subprocess.run([sys.executable, ROOT / "models" / "sdxl" / "testdata" / "make_goldens.py", f"--folder={model}"],
                       check=True)
    elif case != "tiny_sd":
        model = reduced({"v15": "stable_diffusion_v1_5", "v21": "stable_diffusion_v2_1"}[case], scratch / "configs")
    subprocess.run([binary, f"--model={model}", f"--out={scratch}", f"--prompts={'|'.join(PROMPTS)}", f"--store={store}",
                    f"--steps={STEPS}", f"--guidance={GUIDANCE}"], check=True, cwd=ROOT)
    ours = load_file(scratch / "images.safetensors")
    theirs = draw(scratch / "model", ours["noise"])
    errors = {}
    for name, expected in theirs.items():
        difference = ours[name].double() - expected.double()
        errors[name] = (difference.norm() / expected.double().norm()).item()
        errors[name + ", in 1/255"] = difference.abs().max().item() * 127.5
    levels = errors["pixels, in 1/255"]
    print(f"{case}, {store}: latents {errors['latents']:.1e}, pixels {errors['pixels']:.1e}, at most {levels:.2f} of "
          f"255 levels; pixels' deviation {theirs['pixels'].std().item():.2f}", flush=True)
    return max(errors["latents"], errors["pixels"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "bazel-bin" / "tests" / "golden" / "dump_images")
    parser.add_argument("--store", default="fp32")
    parser.add_argument("--tolerance", type=float, default=1e-3, help="errors grow over the sampler's steps")
    parser.add_argument("case", nargs="*")
    args = parser.parse_args()
    worst = 0.0
    for case in args.case or ["tiny_sd", "v15", "v21", "sdxl"]:
        with tempfile.TemporaryDirectory() as scratch:
            worst = max(worst, compare(case, args.binary, args.store, pathlib.Path(scratch)))
    sys.exit(0 if worst <= args.tolerance else 1)


if __name__ == "__main__":
    main()
