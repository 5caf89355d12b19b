"""Loads a folder of low-rank adapters that //tools:train wrote into diffusers and checks what they compute.

    oracle/bin/python tests/golden/check_lora_with_diffusers.py --model out/train/model

(The virtual environment of README.md, with peft.) The U-Net with the adapters loaded by diffusers, whichever of
--model.lora_format's names they have, must give what the U-Net with W + B A merged into its weights by hand gives, and
something else than without them. Prints the relative errors; exits with 1 if the first exceeds --tolerance or the second
is 0.
"""

import argparse
import pathlib
import sys

import torch
from diffusers import StableDiffusionPipeline, UNet2DConditionModel
from safetensors.torch import load_file

FILE = "pytorch_lora_weights.safetensors"


def run(unet, inputs):
    with torch.no_grad():
        return unet(*inputs).sample.double()


def products(adapters, layers):
    """By layer, what its adapter adds to the weight."""
    flat = {"lora_unet_" + layer.replace(".", "_"): layer for layer in layers}
    for name, down in adapters.items():
        if name.endswith(".lora_A.weight"):
            base = name.removesuffix(".lora_A.weight")
            yield base.removeprefix("unet."), adapters[f"{base}.lora_B.weight"] @ down
        if name.endswith(".lora_down.weight"):
            base = name.removesuffix(".lora_down.weight")
            scale = adapters[f"{base}.alpha"].item() / down.shape[0]
            yield flat[base], scale * adapters[f"{base}.lora_up.weight"] @ down


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tolerance", type=float, default=1e-5)
    args = parser.parse_args()
    folder = pathlib.Path(args.model)
    adapters = load_file(folder / FILE)
    pipe = StableDiffusionPipeline.from_pretrained(folder, safety_checker=None)
    unet = pipe.unet.eval()
    size, channels = unet.config.sample_size, unet.config.in_channels
    generator = torch.Generator().manual_seed(1)
    inputs = (torch.randn(2, channels, size, size, generator=generator), torch.tensor([10, 700]),
              torch.randn(2, 16, unet.config.cross_attention_dim, generator=generator))
    plain = run(unet, inputs)

    merged = UNet2DConditionModel.from_pretrained(folder / "unet").eval()
    state = merged.state_dict()
    for layer, product in products(adapters, [name for name, _ in merged.named_modules()]):
        state[layer + ".weight"] += product
    merged.load_state_dict(state)
    by_hand = run(merged, inputs)

    pipe.load_lora_weights(folder, weight_name=FILE)
    loaded = run(unet, inputs)
    error = ((loaded - by_hand).norm() / by_hand.norm()).item()
    effect = ((loaded - plain).norm() / plain.norm()).item()
    print(f"{len(adapters)} tensors; loaded by diffusers against merged by hand: {error:.1e}; "
          f"against no adapters: {effect:.1e}")
    sys.exit(0 if error <= args.tolerance and effect > 0 else 1)


if __name__ == "__main__":
    main()
