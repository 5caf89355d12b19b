"""Reads a generated scene set (images + metadata.jsonl) into memory."""

import json
import pathlib

import numpy as np
import torch
from PIL import Image


def load_scenes(folder, limit=None):
    """Returns (images, captions): uint8 tensor [N, 3, H, W] and a list of N strings."""
    folder = pathlib.Path(folder)
    rows = [json.loads(line) for line in (folder / "metadata.jsonl").read_text().splitlines() if line]
    rows = rows[:limit]
    images = np.stack([np.asarray(Image.open(folder / r["file_name"]).convert("RGB")) for r in rows])
    captions = [r["text"] for r in rows]
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(), captions


def to_unit_range(images):
    """uint8 [0, 255] -> float32 [-1, 1], the range the VAE sees."""
    return images.float() / 127.5 - 1.0


def save_grid(images, path, columns=8, scale=2):
    """Writes float images [N, 3, H, W] in [-1, 1] as one PNG grid."""
    images = ((images.clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1).cpu().numpy()
    n, h, w, _ = images.shape
    rows = (n + columns - 1) // columns
    grid = np.zeros((rows * h, columns * w, 3), np.uint8)
    for i, image in enumerate(images):
        y, x = divmod(i, columns)
        grid[y * h : (y + 1) * h, x * w : (x + 1) * w] = image
    picture = Image.fromarray(grid)
    picture.resize((grid.shape[1] * scale, grid.shape[0] * scale), Image.NEAREST).save(path)
