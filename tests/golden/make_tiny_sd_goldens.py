"""Writes tiny_sd.safetensors and tiny_sd.json: what diffusers and transformers compute with data/tiny_sd.

Forward: VAE encoder moments and decoder output, text states, U-Net output, each from a stored input. Backward: for
the loss mean((unet(noisy) - noise)^2), every U-Net parameter's gradient as its L2 norm and its first 8 values.
Diffusion: the noise schedule, noising, v targets, min-SNR weights, a guided DDIM trajectory of 4 steps.

All in float64 from float32 inputs and from the stored weights. Images and latents are NHWC.
"""

import argparse
import hashlib
import json
import pathlib

import torch
from diffusers import AutoencoderKL, DDIMScheduler, UNet2DConditionModel
from safetensors.torch import save_file
from transformers import CLIPTextModel, CLIPTokenizer

HERE = pathlib.Path(__file__).parent
PROMPTS = ["a large red circle on a gray background", "a small blue square left of a large yellow star"]
TIMESTEPS = [37, 731]
GUIDANCE = 4.0
GRADIENT_HEAD = 8


def nhwc(x):
    return x.permute(0, 2, 3, 1).contiguous()


def nchw(x):
    return x.permute(0, 3, 1, 2).contiguous()


class TinySd:
    """The folder's components in float64."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.vae = AutoencoderKL.from_pretrained(folder / "vae").double().eval()
        self.text = CLIPTextModel.from_pretrained(folder / "text_encoder").double().eval()
        self.unet = UNet2DConditionModel.from_pretrained(folder / "unet").double()
        self.tokenizer = CLIPTokenizer.from_pretrained(folder / "tokenizer")
        self.scheduler = DDIMScheduler.from_pretrained(folder / "scheduler")


def draw_inputs(model):
    """The stored float32 / int32 inputs; a smooth picture, so that the encoder sees something like an image."""
    generator = torch.Generator().manual_seed(20240602)
    y, x = torch.meshgrid(torch.linspace(-1, 1, 64), torch.linspace(-1, 1, 64), indexing="ij")
    disc = ((x - 0.2).square() + (y + 0.1).square() < 0.25).float()
    picture = torch.stack([0.9 * disc - 0.4, 0.5 - disc, 0.3 * x + 0.2 * disc], -1)
    box = ((x + 0.3).abs() < 0.3) & ((y - 0.4).abs() < 0.3)
    other = torch.stack([box * 0.8 - 0.5, box * 0.7 - 0.5, 0.2 - 0.9 * box], -1)
    image = torch.stack([picture, other]) + 0.01 * torch.randn(2, 64, 64, 3, generator=generator)
    ids = model.tokenizer(PROMPTS + [""], padding="max_length", max_length=32, truncation=True,
                          return_tensors="pt").input_ids
    return {
        "vae/image": image.clamp(-1, 1),
        "vae/latent": torch.randn(2, 16, 16, 4, generator=generator) / model.vae.config.scaling_factor,
        "text/ids": ids.int(),
        "unet/latent": torch.randn(2, 16, 16, 4, generator=generator),
        "unet/noise": torch.randn(2, 16, 16, 4, generator=generator),
        "unet/timesteps": torch.tensor(TIMESTEPS, dtype=torch.int32),
        "ddim/start": torch.randn(2, 16, 16, 4, generator=generator),
    }


def compute_frozen(model, inputs):
    with torch.no_grad():
        moments = model.vae._encode(nchw(inputs["vae/image"].double()))
        decoded = model.vae.decode(nchw(inputs["vae/latent"].double())).sample
        states = model.text(inputs["text/ids"].long()).last_hidden_state
    return {"vae/moments": nhwc(moments), "vae/decoded": nhwc(decoded), "text/states": states}


def compute_unet(model, inputs, states):
    """Output, loss and the gradients' digests. Noising is the scheduler's."""
    latent, noise = nchw(inputs["unet/latent"].double()), nchw(inputs["unet/noise"].double())
    t = inputs["unet/timesteps"].long()
    alpha = model.scheduler.alphas_cumprod.double()[t][:, None, None, None]
    noisy = alpha.sqrt() * latent + (1 - alpha).sqrt() * noise
    model.unet.zero_grad()
    prediction = model.unet(noisy, t, states[:2]).sample
    velocity = alpha.sqrt() * noise - (1 - alpha).sqrt() * latent
    target = velocity if model.scheduler.config.prediction_type == "v_prediction" else noise
    loss = (prediction - target).square().mean()
    loss.backward()
    out = {"unet/noisy": nhwc(noisy), "unet/output": nhwc(prediction), "unet/loss": loss.reshape(1),
           "unet/v_target": nhwc(velocity)}
    for name, parameter in model.unet.named_parameters():
        out[f"unet/gradient_norm/{name}"] = parameter.grad.norm().reshape(1)
        out[f"unet/gradient_head/{name}"] = parameter.grad.flatten()[:GRADIENT_HEAD]
    return out


def compute_schedule(model):
    abar = model.scheduler.alphas_cumprod.double()
    snr = abar / (1 - abar)
    clipped = snr.clamp(max=5.0)
    return {"schedule/betas": model.scheduler.betas, "schedule/alphas_cumprod": abar,
            "schedule/min_snr_5_weight_epsilon": clipped / snr, "schedule/min_snr_5_weight_v": clipped / (snr + 1)}


def compute_ddim(model, inputs, states, steps=4):
    """Latents after each step of guided DDIM, eta 0; states[2] is the empty caption's."""
    model.scheduler.set_timesteps(steps)
    z = nchw(inputs["ddim/start"].double())
    context = torch.cat([states[2:3].expand(2, -1, -1), states[:2]])
    out = {"ddim/timesteps": model.scheduler.timesteps.int()}
    with torch.no_grad():
        for i, t in enumerate(model.scheduler.timesteps):
            plain, told = model.unet(torch.cat([z, z]), t, context).sample.chunk(2)
            z = model.scheduler.step(plain + GUIDANCE * (told - plain), t, z).prev_sample
            out[f"ddim/latent_{i + 1}"] = nhwc(z)
    return out


def compute_all(folder):
    """(inputs, outputs): the stored inputs and everything computed from them, outputs in float64."""
    model = TinySd(folder)
    inputs = draw_inputs(model)
    outputs = compute_frozen(model, inputs)
    states = outputs["text/states"]
    outputs |= compute_unet(model, inputs, states)
    outputs |= compute_schedule(model)
    outputs |= compute_ddim(model, inputs, states)
    return inputs, outputs


def fingerprint(folder):
    """SHA-256 of each component's weights, so that stale goldens can be told from wrong code."""
    files = sorted(pathlib.Path(folder).glob("*/*.safetensors"))
    return {f"{f.parent.name}/{f.name}": hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=HERE.parent.parent / "data" / "tiny_sd")
    args = parser.parse_args()
    inputs, outputs = compute_all(args.model)
    tensors = {k: v.detach().float() if v.is_floating_point() else v for k, v in (inputs | outputs).items()}
    save_file({k: v.contiguous().clone() for k, v in tensors.items()}, HERE / "tiny_sd.safetensors")
    (HERE / "tiny_sd.json").write_text(json.dumps(
        {"prompts": PROMPTS + [""], "guidance": GUIDANCE, "gradient_head": GRADIENT_HEAD,
         "inputs": sorted(inputs), "weights_sha256": fingerprint(args.model)}, indent=1) + "\n")
    size = (HERE / "tiny_sd.safetensors").stat().st_size
    print(f"{len(tensors)} tensors, {size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
