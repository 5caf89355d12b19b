"""Prototype of the tiny_sd training recipe: trains the U-Net on cached latents and text states.

The recipe (schedule, learning rate, batch, caption drop, EMA) is the one the C++ trainer follows; the network's
configuration is written to unet/config.json and the noise schedule to scheduler/scheduler_config.json.
"""

import argparse
import copy
import json
import math
import os
import pathlib
import time

import numpy as np
import torch
from diffusers import AutoencoderKL, DDIMScheduler, UNet2DConditionModel
from transformers import CLIPTextModel, CLIPTokenizer

from recognize import COLORS, SHAPES, recognize
from scenes import load_scenes, save_grid, to_unit_range

KINDS = {"C": ("CrossAttnDownBlock2D", "CrossAttnUpBlock2D"), "D": ("DownBlock2D", "UpBlock2D")}


def make_unet(channels, kinds, heads):
    """`kinds`: one letter a level, C with cross-attention, D without; mirrored on the way up."""
    return UNet2DConditionModel(
        sample_size=16,
        in_channels=4,
        out_channels=4,
        block_out_channels=channels,
        layers_per_block=1,
        down_block_types=[KINDS[k][0] for k in kinds],
        up_block_types=[KINDS[k][1] for k in reversed(kinds)],
        cross_attention_dim=64,
        norm_num_groups=16,
        attention_head_dim=heads,
        use_linear_projection=True,
    )


def make_scheduler(prediction_type="epsilon"):
    return DDIMScheduler(
        num_train_timesteps=1000, beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear",
        clip_sample=False, set_alpha_to_one=False, steps_offset=1, prediction_type=prediction_type)


def encode_texts(captions, tokenizer, text_model, batch=64):
    states = []
    with torch.no_grad():
        for i in range(0, len(captions), batch):
            ids = tokenizer(captions[i : i + batch], padding="max_length", max_length=32, truncation=True,
                            return_tensors="pt").input_ids
            states.append(text_model(ids).last_hidden_state)
    return torch.cat(states)


def encode_images(images, vae, batch=32):
    """Mean and standard deviation of the scaled latents."""
    means, stds = [], []
    with torch.no_grad():
        for chunk in images.split(batch):
            posterior = vae.encode(to_unit_range(chunk)).latent_dist
            means.append(posterior.mean)
            stds.append(posterior.std)
    return torch.cat(means) * vae.config.scaling_factor, torch.cat(stds) * vae.config.scaling_factor


def sample(unet, vae, scheduler, text, empty, noise, steps=30, guidance=4.0):
    """DDIM (eta 0) with classifier-free guidance; returns images in [-1, 1]."""
    scheduler.set_timesteps(steps)
    z, context = noise.clone(), torch.cat([empty.expand_as(text), text])
    with torch.no_grad():
        for t in scheduler.timesteps:
            plain, told = unet(torch.cat([z, z]), t, context).sample.chunk(2)
            z = scheduler.step(plain + guidance * (told - plain), t, z).prev_sample
        return vae.decode(z / vae.config.scaling_factor).sample


def held_out_loss(unet, scheduler, z, text, seed=5):
    """Error of the predicted noise on fixed noise and evenly spread timesteps: (mean, mean where t >= 500)."""
    generator = torch.Generator().manual_seed(seed)
    noise, errors = torch.randn(z.shape, generator=generator), []
    t = (torch.arange(len(z)) * 1000 // len(z)).long()
    abar = scheduler.alphas_cumprod[t][:, None, None, None]
    with torch.no_grad():
        for i in range(0, len(z), 32):
            part = slice(i, i + 32)
            noisy = scheduler.add_noise(z[part], noise[part], t[part])
            out = unet(noisy, t[part], text[part]).sample
            if scheduler.config.prediction_type == "v_prediction":
                out = abar[part].sqrt() * out + (1 - abar[part]).sqrt() * noisy
            errors.append((out - noise[part]).square().mean((1, 2, 3)))
    errors = torch.cat(errors)
    return errors.mean().item(), errors[t >= 500].mean().item()


def report_samples(unet, vae, scheduler, tokenizer, text_model, guidance, pictures, copies=2):
    """Draws every colour and shape, prints how many are recognized as asked, and saves the grid."""
    wanted = [(c, s) for s in SHAPES for c in COLORS] * copies
    prompts = [f"{'an' if c == 'orange' else 'a'} large {c} {s} on a gray background" for c, s in wanted]
    text, empty = (encode_texts(p, tokenizer, text_model) for p in (prompts, [""]))
    noise = torch.randn(len(text), 4, 16, 16, generator=torch.Generator().manual_seed(11))
    images = sample(unet, vae, scheduler, text, empty, noise, guidance=guidance)
    pixels = ((images.clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1).numpy()
    seen = [recognize(image) or ("", "", 0.0) for image in pixels]
    colors = np.array([got[0] == want[0] for got, want in zip(seen, wanted)])
    shapes = np.array([got[1] == want[1] for got, want in zip(seen, wanted)])
    print(json.dumps({"samples": len(wanted), "guidance": guidance, "colour": colors.mean(), "shape": shapes.mean(),
                      "both": (colors & shapes).mean(), "mean_overlap": float(np.mean([got[2] for got in seen]))}))
    if pictures:
        pathlib.Path(pictures).mkdir(parents=True, exist_ok=True)
        save_grid(images, pathlib.Path(pictures) / f"samples_{guidance:g}.png", columns=8, scale=2)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--model", required=True, help="folder with vae/, text_encoder/, tokenizer/")
    parser.add_argument("--out", help="folder that gets unet/ and scheduler/; default: --model")
    parser.add_argument("--pictures")
    parser.add_argument("--cache", help="file for cached latents and text states")
    parser.add_argument("--channels", type=int, nargs="+", default=[48, 96])
    parser.add_argument("--kinds", default="DC")
    parser.add_argument("--heads", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--cpu_seconds", type=float, default=1e9, help="stop after this much CPU time")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--ema", type=float, default=0.995)
    parser.add_argument("--caption_drop", type=float, default=0.1)
    parser.add_argument("--prediction", default="epsilon", choices=["epsilon", "v_prediction"])
    parser.add_argument("--validation", type=int, default=256)
    parser.add_argument("--mean_latents", action="store_true", help="the posterior's mean instead of a sample")
    parser.add_argument("--guidance", type=float, nargs="*", default=[2.0, 4.0])
    parser.add_argument("--fp16", action="store_true", help="store the weights in half precision")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    model = pathlib.Path(args.model)
    out = pathlib.Path(args.out or args.model)

    vae = AutoencoderKL.from_pretrained(model / "vae").eval().requires_grad_(False)
    tokenizer = CLIPTokenizer.from_pretrained(model / "tokenizer")
    text_model = CLIPTextModel.from_pretrained(model / "text_encoder").eval()
    if args.cache and os.path.exists(args.cache):
        mean, std, text = torch.load(args.cache)
    else:
        images, captions = load_scenes(args.data)
        mean, std = encode_images(images, vae)
        text = encode_texts(captions, tokenizer, text_model)
        if args.cache:
            torch.save((mean, std, text), args.cache)
    empty = encode_texts([""], tokenizer, text_model)
    count = len(mean) - args.validation

    unet = make_unet(args.channels, args.kinds, args.heads)
    average = copy.deepcopy(unet).requires_grad_(False)
    print("parameters", sum(p.numel() for p in unet.parameters()))
    scheduler = make_scheduler(args.prediction)
    optimizer = torch.optim.AdamW(unet.parameters(), lr=args.lr, betas=(0.9, 0.99), weight_decay=0.01)
    start, used, running = time.time(), time.process_time(), None
    progress = 0.0
    for step in range(args.steps):
        progress = max(step / args.steps, (time.process_time() - used) / args.cpu_seconds)
        if progress >= 1:
            break
        lr = args.lr * min(1.0, (step + 1) / args.warmup) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * progress)))
        for group in optimizer.param_groups:
            group["lr"] = lr
        index = torch.randint(count, (args.batch,))
        z = mean[index] + (0 if args.mean_latents else std[index] * torch.randn_like(mean[index]))
        noise, t = torch.randn_like(z), torch.randint(1000, (args.batch,))
        dropped = torch.rand(args.batch) < args.caption_drop
        context = torch.where(dropped[:, None, None], empty, text[index])
        noisy = scheduler.add_noise(z, noise, t)
        target = noise if args.prediction == "epsilon" else scheduler.get_velocity(z, noise, t)
        loss = (unet(noisy, t, context).sample - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        optimizer.step()
        with torch.no_grad():
            decay = min(args.ema, (1 + step) / (10 + step))
            for a, p in zip(average.parameters(), unet.parameters()):
                a.lerp_(p, 1 - decay)
        running = loss.item() if running is None else 0.98 * running + 0.02 * loss.item()
        if step % 100 == 0:
            print(f"step {step} loss {running:.4f} wall {time.time() - start:.0f} s "
                  f"cpu {time.process_time() - used:.0f} s", flush=True)
    print(json.dumps({"steps": step + 1, "loss": running, "wall_s": time.time() - start,
                      "cpu_s": time.process_time() - used}))
    (average.half() if args.fp16 else average).save_pretrained(out / "unet")
    average.float()
    scheduler.save_pretrained(out / "scheduler")
    held = torch.randperm(args.validation, generator=torch.Generator().manual_seed(6)) + count
    print(json.dumps(dict(zip(("held_out_loss", "held_out_loss_t_over_500"),
                              held_out_loss(average, scheduler, mean[held], text[held])))))
    for guidance in args.guidance:
        report_samples(average, vae, make_scheduler(args.prediction), tokenizer, text_model, guidance, args.pictures)


if __name__ == "__main__":
    main()
