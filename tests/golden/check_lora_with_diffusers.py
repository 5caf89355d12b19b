"""Loads a folder of low-rank adapters that //tools:train wrote into diffusers and checks what they compute.

    oracle/bin/python tests/golden/check_lora_with_diffusers.py --model out/train

(The virtual environment of README.md, with peft.) The U-Net with the adapters loaded by diffusers must give what
the U-Net with W + B A merged into its weights by hand gives, and something else than without them. Prints the
relative errors; exits with 1 if the first exceeds --tolerance or the second is 0.
"""

import argparse
import pathlib
import sys

import torch
from diffusers import UNet2DConditionModel
from safetensors.torch import load_file


def run(unet, inputs):
    with torch.no_grad():
        return unet(*inputs).sample.double()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tolerance", type=float, default=1e-5)
    args = parser.parse_args()
    folder = pathlib.Path(args.model)
    adapters = load_file(folder / "pytorch_lora_weights.safetensors")
    unet = UNet2DConditionModel.from_pretrained(folder / "unet").eval()
    size, channels = unet.config.sample_size, unet.config.in_channels
    generator = torch.Generator().manual_seed(1)
    inputs = (torch.randn(2, channels, size, size, generator=generator), torch.tensor([10, 700]),
              torch.randn(2, 16, unet.config.cross_attention_dim, generator=generator))
    plain = run(unet, inputs)

    merged = UNet2DConditionModel.from_pretrained(folder / "unet").eval()
    state = merged.state_dict()
    for name, down in adapters.items():
        if not name.endswith(".lora_A.weight"):
            continue
        layer = name.removeprefix("unet.").removesuffix(".lora_A.weight")
        state[layer + ".weight"] += adapters[f"unet.{layer}.lora_B.weight"] @ down
    merged.load_state_dict(state)
    by_hand = run(merged, inputs)

    unet.load_lora_adapter(adapters, prefix="unet")
    loaded = run(unet, inputs)
    error = ((loaded - by_hand).norm() / by_hand.norm()).item()
    effect = ((loaded - plain).norm() / plain.norm()).item()
    print(f"{len(adapters)} tensors; loaded by diffusers against merged by hand: {error:.1e}; "
          f"against no adapters: {effect:.1e}")
    sys.exit(0 if error <= args.tolerance and effect > 0 else 1)


main()
