"""Writes what diffusers computes with ControlNets, for models/controlnet/*_test.cc.

    oracle/bin/python models/controlnet/testdata/make_goldens.py          # small ones; a minute
    oracle/bin/python models/controlnet/testdata/make_goldens.py --full   # full size too: 13 GB of memory

For each of the U-Net configurations of models/testdata: <name>.json, the config.json of a ControlNet made from that
U-Net; <name>.parameters, a line "name dim dim ..." for each of its parameters; and in goldens.safetensors (full size:
goldens_full.safetensors) inputs, the controlled U-Net's prediction, each sample's loss, and the gradient of their mean
to every parameter of the ControlNet as its L2 norm. In float64 from float32 inputs and weights, rounded once. Weights
come from the formula of models/testdata/make_formula_goldens.py, by name; the U-Net's names have "unet." in front.
Images are NHWC. The environment is that of tests/golden/README.md.
"""

import argparse
import json
import pathlib
import sys

import torch
from diffusers import ControlNetModel, UNet2DConditionModel
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
TESTDATA = HERE.parent.parent / "testdata"
sys.path.append(str(TESTDATA))
from make_formula_goldens import nhwc, weight  # noqa: E402

# name: the U-Net's name, the hint network's channels, prediction type, samples, tokens
CASES = {
    "controlnet_mixed": ("unet_mixed", (4, 6, 8), "epsilon", 2, 5),
    "controlnet_conv": ("unet_conv", (4, 6), "v_prediction", 2, 5),
}
FULL = {"controlnet_v15": ("unet_v15", (16, 32, 96, 256), "epsilon", 1, 5)}
KEYS = ["act_fn", "attention_head_dim", "block_out_channels", "cross_attention_dim", "down_block_types",
        "downsample_padding", "flip_sin_to_cos", "freq_shift", "in_channels", "layers_per_block",
        "mid_block_scale_factor", "norm_eps", "norm_num_groups", "only_cross_attention",
        "transformer_layers_per_block", "upcast_attention", "use_linear_projection"]


def make_config(unet, hint):
    shared = {key: unet[key] for key in KEYS if key in unet}
    return {"_class_name": "ControlNetModel", **shared, "conditioning_embedding_out_channels": list(hint),
            "controlnet_conditioning_channel_order": "rgb", "global_pool_conditions": False}


def write_config(name, unet, hint):
    config = make_config(unet, hint)
    (HERE / f"{name}.json").write_text(json.dumps(config, indent=2) + "\n")
    with torch.device("meta"):
        model = ControlNetModel.from_config(config)
    lines = sorted(" ".join([key, *map(str, p.shape)]) for key, p in model.named_parameters())
    (HERE / f"{name}.parameters").write_text("\n".join(lines) + "\n")
    print(name, len(lines), sum(p.numel() for p in model.parameters()))


def formula(model, prefix):
    model = model.double()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.copy_(weight(prefix + key, tuple(parameter.shape)))
    return model


def compute(name, case, out):
    unet_name, hint, prediction_type, samples, tokens = case
    unet_config = json.loads((TESTDATA / f"{unet_name}.json").read_text())
    with torch.device("meta"):
        unet, model = UNet2DConditionModel.from_config(unet_config), ControlNetModel.from_config(
            json.loads((HERE / f"{name}.json").read_text()))
    unet = formula(unet.to_empty(device="cpu"), "unet.").requires_grad_(False)
    model = formula(model.to_empty(device="cpu"), "")
    generator = torch.Generator().manual_seed(11)
    size = 8 * 2 ** (len(hint) - 1)
    latents = torch.randn(samples, 8, 8, 4, generator=generator)
    noise = torch.randn(samples, 8, 8, 4, generator=generator)
    context = torch.randn(samples, tokens, unet_config["cross_attention_dim"], generator=generator)
    condition = torch.rand(samples, size, size, 3, generator=generator)
    timesteps = torch.tensor([912, 3][:samples], dtype=torch.int32)
    betas = torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float64) ** 2
    abar = torch.cumprod(1 - betas, 0)[timesteps.long()][:, None, None, None]
    noisy = abar.sqrt() * latents.double() + (1 - abar).sqrt() * noise.double()
    target = noise.double()
    if prediction_type == "v_prediction":
        target = abar.sqrt() * noise.double() - (1 - abar).sqrt() * latents.double()
    x, steps = noisy.permute(0, 3, 1, 2), timesteps.long()
    down, mid = model(x, steps, encoder_hidden_states=context.double(),
                      controlnet_cond=condition.double().permute(0, 3, 1, 2), return_dict=False)
    prediction = nhwc(unet(x, steps, context.double(), down_block_additional_residuals=down,
                           mid_block_additional_residual=mid).sample)
    losses = (prediction - target).square().mean((1, 2, 3))
    losses.mean().backward()
    out |= {f"{name}/latents": latents, f"{name}/noise": noise, f"{name}/context": context,
            f"{name}/timesteps": timesteps, f"{name}/condition": condition, f"{name}/noisy_latents": noisy,
            f"{name}/prediction": prediction, f"{name}/losses": losses, f"{name}/mid_residual": nhwc(mid)}
    for key, parameter in model.named_parameters():
        out[f"{name}/gradient_norm/{key}"] = parameter.grad.norm().reshape(1)


def save(out, path):
    tensors = {k: v.detach().float() if v.is_floating_point() else v for k, v in out.items()}
    save_file({k: v.contiguous().clone() for k, v in tensors.items()}, path)
    path.chmod(0o644)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    arguments = parser.parse_args()
    for name, case in (CASES | FULL).items():
        write_config(name, json.loads((TESTDATA / f"{case[0]}.json").read_text()), case[1])
    out = {}
    for name, case in CASES.items():
        compute(name, case, out)
    save(out, HERE / "goldens.safetensors")
    if arguments.full:
        out = {}
        for name, case in FULL.items():
            compute(name, case, out)
        save(out, HERE / "goldens_full.safetensors")


if __name__ == "__main__":
    main()
