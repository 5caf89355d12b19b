"""Whether FLUX.1 folders and adapters that this code writes load in FluxPipeline and draw the same images there.

    bazel build //tests/golden:dump_images
    oracle/bin/python models/flux/load_in_diffusers.py [--tolerance=1e-4] [CASE ...]

Cases: data/tiny_flux; weights of testdata/tiny, saved again here; random weights; both without the embedding of the
guidance scale; adapters of the default layers and of every linear layer under diffusers' names, and of the default
layers under kohya's. dump_images writes each folder and draws; FluxPipeline reads the folder, its adapters by
load_lora_weights, and draws from the same noise: four steps, guidance 3.5 (without the embedding: true_cfg_scale).
Prints relative L2 errors of latents and decoded images. The environment is that of tests/golden/README.md with peft
0.21.2.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import torch
from diffusers import FluxPipeline
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROMPTS = ["a large red circle", "a small blue square left of a green star"]
STEPS, GUIDANCE, TOKENS = 4, 3.5, 24
TINY_FLUX = "tiny_flux"


def edit(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values, indent=2))


def make_model(folder, with_weights, embeds_guidance):
    shutil.copytree(HERE / "testdata" / "tiny", folder)
    shutil.copytree(ROOT / "data" / "tiny_sd" / "tokenizer", folder / "tokenizer")
    (folder / "tokenizer_2").mkdir()
    shutil.copy(ROOT / "models" / "tokenizer" / "testdata" / "t5" / "spiece.model", folder / "tokenizer_2")
    (folder / "tokenizer_2" / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "T5Tokenizer", "extra_ids": 100, "model_max_length": TOKENS}))
    transformer = folder / "transformer"
    weights = {name: value for shard in transformer.glob("*.safetensors") for name, value in load_file(shard).items()}
    if not embeds_guidance:
        edit(transformer / "config.json", guidance_embeds=False)
        edit(folder / "scheduler" / "scheduler_config.json", use_dynamic_shifting=False)
        weights = {name: value for name, value in weights.items() if "guidance_embedder" not in name}
    for file in transformer.glob("*.safetensors*"):
        file.unlink()
    if with_weights:
        save_file(weights, transformer / "diffusion_pytorch_model.safetensors")
    return folder


def nhwc(x):
    return x.permute(0, 2, 3, 1)


def draw(folder, noise):
    pipeline = FluxPipeline.from_pretrained(folder, torch_dtype=torch.float32)
    pipeline.set_progress_bar_config(disable=True)
    if (folder / "pytorch_lora_weights.safetensors").exists():
        pipeline.load_lora_weights(folder)
    count, height, width, channels = noise.shape
    side = height * pipeline.vae_scale_factor
    given = {"guidance_scale": GUIDANCE}
    if not pipeline.transformer.config.guidance_embeds:
        given = {"true_cfg_scale": GUIDANCE, "negative_prompt": [""] * count}
    packed = pipeline._pack_latents(noise.permute(0, 3, 1, 2), count, channels, height, width)
    packed = pipeline(PROMPTS, height=side, width=side, num_inference_steps=STEPS, latents=packed, output_type="latent",
                      max_sequence_length=pipeline.tokenizer_2.model_max_length, **given).images
    latents = pipeline._unpack_latents(packed, side, side, pipeline.vae_scale_factor)
    config = pipeline.vae.config
    with torch.no_grad():
        pixels = pipeline.vae.decode(latents / config.scaling_factor + config.shift_factor).sample
    return {"latents": nhwc(latents), "pixels": nhwc(pixels)}


CASES = {
    TINY_FLUX: (True, False, []),
    "weights of tiny": (True, True, []),
    "random weights": (False, True, []),
    "no guidance embedding": (True, False, []),
    "adapters": (True, True, ["--lora_rank=3"]),
    "adapters of all linear layers": (True, True, ["--lora_rank=3", "--lora_targets=all-linear"]),
    "adapters under kohya's names": (True, True, ["--lora_rank=3", "--lora_format=kohya"]),
}


def compare(case, binary, scratch):
    with_weights, embeds_guidance, flags = CASES[case]
    model = TINY_FLUX if case == TINY_FLUX else make_model(scratch / "given", with_weights, embeds_guidance)
    subprocess.run([binary, f"--model={model}", f"--out={scratch}", f"--prompts={'|'.join(PROMPTS)}",
                    f"--steps={STEPS}", f"--guidance={GUIDANCE}", *flags], check=True, cwd=ROOT)
    ours = load_file(scratch / "images.safetensors")
    theirs = draw(scratch / "model", ours["noise"])
    errors = {name: ((ours[name].double() - expected.double()).norm() / expected.double().norm()).item()
              for name, expected in theirs.items()}
    print(f"{case}: latents {errors['latents']:.1e}, pixels {errors['pixels']:.1e}", flush=True)
    return max(errors.values()), ours["latents"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "bazel-bin" / "tests" / "golden" / "dump_images")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("case", nargs="*", help="of CASES; default: all")
    args = parser.parse_args()
    worst, plain = 0.0, None
    for case in args.case or CASES:
        with tempfile.TemporaryDirectory() as scratch:
            error, latents = compare(case, args.binary, pathlib.Path(scratch))
        worst = max(worst, error)
        if case == "weights of tiny":
            plain = latents
        elif case.startswith("adapters") and plain is not None:
            print(f"  adapters change the latents by {((latents - plain).norm() / plain.norm()).item():.2f}")
    sys.exit(0 if worst <= args.tolerance else 1)


if __name__ == "__main__":
    main()
