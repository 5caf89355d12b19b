"""Trains the KL autoencoder of tiny_sd and writes it in diffusers layout.

Loss = L1 + 2 MSE + L1 of finite differences (keeps edges crisp) + kl_weight * KL per 1,024 latents (one image).
The first part of training sees random 32x32 crops, which costs a quarter and shows as many edges; the rest sees
whole images, so that the group norms' statistics and the middle attention fit them.
The scaling factor is 1 / std of the sampled latents over the training images.
"""

import argparse
import copy
import json
import math
import pathlib
import time

import torch
from diffusers import AutoencoderKL

from scenes import load_scenes, save_grid, to_unit_range


def make_vae(channels):
    levels = len(channels)
    return AutoencoderKL(
        in_channels=3,
        out_channels=3,
        down_block_types=["DownEncoderBlock2D"] * levels,
        up_block_types=["UpDecoderBlock2D"] * levels,
        block_out_channels=channels,
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=16,
        sample_size=64,
    )


def edge_loss(a, b):
    """L1 between the horizontal and vertical finite differences of two images."""
    d = a - b
    return (d[..., 1:] - d[..., :-1]).abs().mean() + (d[..., 1:, :] - d[..., :-1, :]).abs().mean()


def draw_crop(images, size=32, attempts=3):
    """A random crop; one without any edge is drawn again, up to `attempts` times."""
    for _ in range(attempts):
        i = int(torch.randint(len(images), ()))
        y, x = torch.randint(images.shape[-1] - size + 1, (2,)).tolist()
        crop = images[i, :, y : y + size, x : x + size]
        if (crop.amax((1, 2)) - crop.amin((1, 2))).max() > 0.1:
            break
    return crop


def draw_batch(images, batch, crops):
    """`batch` random images, or 2 x batch random 32x32 crops, plain background drawn less often."""
    if not crops:
        return images[torch.randint(len(images), (batch,))].contiguous(memory_format=torch.channels_last)
    pieces = [draw_crop(images) for _ in range(2 * batch)]
    return torch.stack(pieces).contiguous(memory_format=torch.channels_last)


def reconstruction_error(vae, images, batch=32):
    """Mean absolute error (in [-1, 1] units) and PSNR in dB (of the [0, 1] range), decoding the mean."""
    mae = mse = 0.0
    with torch.no_grad():
        for chunk in images.split(batch):
            d = vae(chunk).sample.clamp(-1, 1) - chunk
            mae += d.abs().mean().item() * len(chunk) / len(images)
            mse += (d / 2).square().mean().item() * len(chunk) / len(images)
    return mae, -10 * math.log10(mse)


def latent_statistics(vae, images, batch=32):
    """Standard deviation of sampled latents and mean posterior standard deviation."""
    samples, sigmas = [], []
    with torch.no_grad():
        for chunk in images.split(batch):
            posterior = vae.encode(chunk).latent_dist
            samples.append(posterior.sample())
            sigmas.append(posterior.std.mean())
    z = torch.cat(samples)
    print("per-channel mean", z.mean((0, 2, 3)).tolist(), "std", z.std((0, 2, 3)).tolist())
    return z.std().item(), torch.stack(sigmas).mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True, help="the vae/ folder to write")
    parser.add_argument("--init", help="a vae/ folder to continue from; default: new weights")
    parser.add_argument("--pictures", help="folder for reconstruction grids")
    parser.add_argument("--channels", type=int, nargs="+", default=[32, 64, 64])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--crop_share", type=float, default=0.75, help="share of the steps on 32x32 crops")
    parser.add_argument("--batch", type=int, default=16, help="whole images per step; twice as many crops")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--kl_weight", type=float, default=1e-6)
    parser.add_argument("--ema", type=float, default=0.99)
    parser.add_argument("--validation", type=int, default=256, help="images held out, from the end")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)

    images, _ = load_scenes(args.data)
    images = to_unit_range(images).contiguous(memory_format=torch.channels_last)
    train, held_out = images[: -args.validation], images[-args.validation :]
    vae = AutoencoderKL.from_pretrained(args.init) if args.init else make_vae(args.channels)
    vae = vae.train().to(memory_format=torch.channels_last)
    average = copy.deepcopy(vae).requires_grad_(False)
    print("parameters", sum(p.numel() for p in vae.parameters()))
    optimizer = torch.optim.AdamW(vae.parameters(), lr=args.lr, betas=(0.9, 0.99), weight_decay=0.0)
    warmup = 30
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda i: min(1.0, (i + 1) / warmup) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * i / args.steps))),
    )
    start = time.time()
    for step in range(args.steps):
        x = draw_batch(train, args.batch, crops=step < args.crop_share * args.steps)
        posterior = vae.encode(x).latent_dist
        y = vae.decode(posterior.sample()).sample
        l1, mse, edges = (y - x).abs().mean(), (y - x).square().mean(), edge_loss(y, x)
        kl = posterior.kl().mean() * 4096 / (x.shape[2] * x.shape[3])
        loss = l1 + 2 * mse + edges + args.kl_weight * kl
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(vae.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        decay = min(args.ema, (step + 1) / (step + 10))
        with torch.no_grad():
            for a, p in zip(average.parameters(), vae.parameters()):
                a.lerp_(p, 1 - decay)
        if step % 50 == 0 or step == args.steps - 1:
            print(f"step {step} l1 {l1:.4f} edges {edges:.4f} kl {kl:.0f} {time.time() - start:.0f} s", flush=True)

    mae, psnr = reconstruction_error(average, held_out)
    std, sigma = latent_statistics(average, train[:1024])
    average.register_to_config(scaling_factor=round(1.0 / std, 5))
    average.register_to_config(_name_or_path="")
    average.save_pretrained(args.out)
    print(json.dumps({"held_out_mae": mae, "held_out_psnr_db": psnr, "latent_std": std, "posterior_sigma": sigma,
                      "scaling_factor": round(1.0 / std, 5), "seconds": time.time() - start}))
    if args.pictures:
        pictures = pathlib.Path(args.pictures)
        pictures.mkdir(parents=True, exist_ok=True)
        with torch.no_grad():
            y = average(held_out[:24]).sample
        save_grid(torch.cat([torch.stack([a, b]) for a, b in zip(held_out[:24], y)]), pictures / "vae.png", scale=3)


if __name__ == "__main__":
    main()
