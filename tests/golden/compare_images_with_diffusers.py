"""Whether a folder that this code writes loads in diffusers and gives the same images there.

    bazel build //tests/golden:dump_images
    oracle/bin/python tests/golden/compare_images_with_diffusers.py [--store=fp16] [case ...]

For each case dump_images writes the folder, in a temporary place, and draws; DiffusionPipeline.from_pretrained reads it,
and its adapters by load_lora_weights, and draws from the same noise. Prints relative L2 errors of the final latents and
the decoded images; exits with 1 past --tolerance. Cases:

    tiny_sd         trained weights
    v15, v21        random weights made by this code from configurations alone: data/models/stable_diffusion_v1_5 and
                    _v2_1 with a tenth of their widths (convolutions as projections, 8 heads, quick GELU and noise
                    prediction; linear projections, heads by level, exact GELU and v prediction)
    sdxl            the pipeline of models/sdxl/testdata/make_goldens.py
    flux, sd3       models/FAMILY/testdata/tiny, also with random weights; FLUX.1 without the embedding of the guidance
                    scale (true_cfg_scale in diffusers); Stable Diffusion 3 without T5
    ... adapters    of the last three, with random adapters; also of every linear layer, and under kohya's names
    ...Scheduler    tiny_sd with that scheduler of diffusers in its folder; it must not draw fresh noise

diffusers does not read kohya's names of Stable Diffusion 3: these are those of the original layout, which
convert_sd3_transformer_checkpoint_to_diffusers converts. The environment is that of README.md, with peft 0.21.2.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import torch
import diffusers
from diffusers import DiffusionPipeline
from diffusers.loaders.single_file_utils import convert_sd3_transformer_checkpoint_to_diffusers
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROMPTS = ["a large red circle", "a small blue square left of a green star"]
STEPS, GUIDANCE, T5_TOKENS = 6, 4.0, 24
ADAPTERS = "pytorch_lora_weights.safetensors"


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


def sdxl(folder):
    script = ROOT / "models" / "sdxl" / "testdata" / "make_goldens.py"
    subprocess.run([sys.executable, script, f"--folder={folder}"], check=True)
    return folder


def small(family, folder, with_weights=True, change=None):
    """models/FAMILY/testdata/tiny with tokenizers. `change` edits the folder and the transformer's weights."""
    shutil.copytree(ROOT / "models" / family / "testdata" / "tiny", folder)
    for name, (_, kind) in [(name, value) for name, value in json.loads((folder / "model_index.json").read_text()).items()
                            if name.startswith("tokenizer")]:
        if kind == "CLIPTokenizer":
            shutil.copytree(ROOT / "data" / "tiny_sd" / "tokenizer", folder / name)
            continue
        (folder / name).mkdir()
        shutil.copy(ROOT / "models" / "tokenizer" / "testdata" / "t5" / "spiece.model", folder / name)
        (folder / name / "tokenizer_config.json").write_text(json.dumps(
            {"tokenizer_class": "T5Tokenizer", "extra_ids": 100, "model_max_length": T5_TOKENS}))
    files = list((folder / "transformer").glob("*.safetensors*"))
    weights = {name: value for file in files if file.suffix == ".safetensors" for name, value in load_file(file).items()}
    if change is not None:
        weights = change(folder, weights)
    for file in files:
        file.unlink()
    if with_weights:
        save_file(weights, folder / "transformer" / "diffusion_pytorch_model.safetensors")
    return folder


def without_guidance(folder, weights):
    edit(folder / "transformer" / "config.json", guidance_embeds=False)
    edit(folder / "scheduler" / "scheduler_config.json", use_dynamic_shifting=False)
    return {name: value for name, value in weights.items() if "guidance_embedder" not in name}


def without_t5(folder, weights):
    edit(folder / "model_index.json", text_encoder_3=[None, None], tokenizer_3=[None, None])
    for name in ("text_encoder_3", "tokenizer_3"):
        shutil.rmtree(folder / name)
    return weights


LORA = ["--lora_rank=3"]
CASES = {
    "tiny_sd": (lambda folder: "tiny_sd", []),
    "v15": (lambda folder: reduced("stable_diffusion_v1_5", folder), []),
    "v21": (lambda folder: reduced("stable_diffusion_v2_1", folder), []),
    "sdxl": (sdxl, []),
    "flux": (lambda folder: small("flux", folder), []),
    "flux without guidance embedding": (lambda folder: small("flux", folder, change=without_guidance), []),
    "sd3": (lambda folder: small("sd3", folder), []),
    "sd3 without t5": (lambda folder: small("sd3", folder, change=without_t5), [f"--max_sequence_length={T5_TOKENS}"]),
}
CASES |= {f"{family} random": (lambda folder, family=family: small(family, folder, with_weights=False), [])
          for family in ("flux", "sd3")}
for family in ("sdxl", "flux", "sd3"):
    weights_of = CASES[family][0]
    # In single blocks of FLUX.1, whose layers are joined, diffusers reads adapters of the full width only.
    kohya = {"sdxl": [], "sd3": ["--lora_targets=all-linear"],
             "flux": ["--lora_targets=add_q_proj,add_k_proj,add_v_proj,to_add_out,to_out.0,ff.net.0.proj,ff.net.2"]}[family]
    CASES |= {
        f"{family} adapters": (weights_of, LORA),
        f"{family} adapters under kohya's names": (weights_of, LORA + kohya + ["--lora_format=kohya"]),
    }
    if family != "sdxl":
        CASES[f"{family} adapters of all linear layers"] = (weights_of, LORA + ["--lora_targets=all-linear"])


def nhwc(x):
    return x.permute(0, 2, 3, 1)


class Differences(dict):
    """Differences of weights by original names; biases have none."""

    def pop(self, name, *default):
        return super().pop(name, *default) if name in self or default else torch.zeros(6)


def add_kohya_adapters(transformer, adapters):
    """Adds adapters of Stable Diffusion 3 that have names of the original layout."""
    differences = Differences()
    for flat in {name.split(".")[0] for name in adapters}:
        down, up, alpha = (adapters[f"{flat}.{part}"] for part in ("lora_down.weight", "lora_up.weight", "alpha"))
        name = flat.removeprefix("lora_unet_")
        name = re.sub(r"^joint_blocks_(\d+)_(x|context)_block_", r"joint_blocks.\1.\2_block.", name)
        name = re.sub(r"_(qkv|proj|fc1|fc2)$", r".\1", name)
        name = name.replace("_modulation_1", "_modulation.1").replace("_mlp_", ".mlp.")
        name = name.replace("final_layer_", "final_layer.")
        differences[name + ".weight"] = up @ down * (alpha / len(down))
    converted = convert_sd3_transformer_checkpoint_to_diffusers(differences)
    parameters = dict(transformer.named_parameters())
    added = 0
    with torch.no_grad():
        for name, difference in converted.items():
            if name.endswith(".weight") and difference is not None and difference.ndim == 2:
                parameters[name] += difference
                added += 1
    assert not differences and added == sum(isinstance(layer, torch.nn.Linear) for layer in transformer.modules())


def draw(folder, noise):
    index = json.loads((folder / "model_index.json").read_text())
    absent = {name: None for name in ("text_encoder_3", "tokenizer_3") if index.get(name) == [None, None]}
    pipeline = DiffusionPipeline.from_pretrained(folder, torch_dtype=torch.float32, **absent)
    pipeline.set_progress_bar_config(disable=True)
    family, count = type(pipeline).__name__, len(noise)
    if (folder / ADAPTERS).exists():
        adapters = load_file(folder / ADAPTERS)
        if family == "StableDiffusion3Pipeline" and all(name.startswith("lora_unet_") for name in adapters):
            add_kohya_adapters(pipeline.transformer, adapters)
        else:
            pipeline.load_lora_weights(folder)
    given = {"num_inference_steps": STEPS, "guidance_scale": GUIDANCE, "latents": noise.permute(0, 3, 1, 2)}
    if family in ("FluxPipeline", "StableDiffusion3Pipeline"):
        given["max_sequence_length"] = T5_TOKENS
    _, height, width, channels = noise.shape
    if family == "FluxPipeline":
        side = {name: size * pipeline.vae_scale_factor for name, size in [("height", height), ("width", width)]}
        given |= side | {"latents": pipeline._pack_latents(given["latents"], count, channels, height, width)}
        if not pipeline.transformer.config.guidance_embeds:
            given |= {"true_cfg_scale": GUIDANCE, "negative_prompt": [""] * count}
    latents = pipeline(PROMPTS, output_type="latent", **given).images
    if family == "FluxPipeline":
        latents = pipeline._unpack_latents(latents, side["height"], side["width"], pipeline.vae_scale_factor)
    config = pipeline.vae.config
    with torch.no_grad():
        pixels = pipeline.vae.decode(latents / config.scaling_factor + (config.shift_factor or 0)).sample
    return {"latents": nhwc(latents), "pixels": nhwc(pixels)}


def compare(case, binary, store, scratch):
    make, flags = CASES.get(case) or (lambda folder: with_scheduler(case, folder), [])
    model = make(scratch / "given")
    subprocess.run([binary, f"--model={model}", f"--out={scratch}", f"--prompts={'|'.join(PROMPTS)}", f"--store={store}",
                    f"--steps={STEPS}", f"--guidance={GUIDANCE}", *flags], check=True, cwd=ROOT)
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
    return max(errors["latents"], errors["pixels"]), ours["latents"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "bazel-bin" / "tests" / "golden" / "dump_images")
    parser.add_argument("--store", default="fp32")
    parser.add_argument("--tolerance", type=float, default=1e-3, help="errors grow over the sampler's steps")
    parser.add_argument("case", nargs="*")
    args = parser.parse_args()
    worst, plain = 0.0, {}
    for case in args.case or CASES:
        with tempfile.TemporaryDirectory() as scratch:
            error, latents = compare(case, args.binary, args.store, pathlib.Path(scratch))
        worst = max(worst, error)
        plain[case] = latents
        without = plain.get(case.split()[0])
        if " adapters" in case and without is not None:
            print(f"  adapters change the latents by {((latents - without).norm() / without.norm()).item():.2f}")
    sys.exit(0 if worst <= args.tolerance else 1)


if __name__ == "__main__":
    main()
