"""Says what a single-object scene shows: the prototype's measure of "samples match their captions".

Background = the border's median colour; object = pixels far from it; colour = the palette entry nearest to most
object pixels; shape = the one whose rendering best overlaps the object (intersection over union), over a small
search of centre and radius. Palette and shapes are those of data/scenes/scene.cc.
"""

import numpy as np

COLORS = {"red": (220, 30, 30), "green": (30, 165, 50), "blue": (40, 70, 230), "yellow": (245, 225, 40),
          "purple": (165, 40, 195), "orange": (250, 130, 20), "cyan": (50, 210, 225), "white": (250, 250, 250)}
SHAPES = ("circle", "square", "triangle", "star", "cross")


def inside_star(x, y):
    angle = np.pi * np.arange(10) / 5
    radius = np.where(np.arange(10) % 2 == 0, 1.0, 0.45)
    px, py = radius * np.sin(angle), -radius * np.cos(angle)
    inside = np.zeros_like(x, bool)
    for i in range(10):
        j = i - 1
        crosses = (py[i] > y) != (py[j] > y)
        with np.errstate(divide="ignore", invalid="ignore"):
            inside ^= crosses & (x < (px[j] - px[i]) * (y - py[i]) / (py[j] - py[i]) + px[i])
    return inside


def inside(shape, x, y):
    ax, ay = np.abs(x), np.abs(y)
    if shape == "circle":
        return x * x + y * y <= 1
    if shape == "square":
        return np.maximum(ax, ay) <= 0.85
    if shape == "triangle":
        return (y <= 0.85) & (ax <= (y + 0.95) / 1.8)
    if shape == "star":
        return inside_star(x, y)
    return (np.minimum(ax, ay) <= 0.33) & (np.maximum(ax, ay) <= 1)


def best_overlap(shape, mask):
    """Largest intersection over union of `shape` with the mask over centres and radii near the mask's box."""
    ys, xs = np.nonzero(mask)
    height, width = mask.shape
    gy, gx = np.mgrid[0:height, 0:width] + 0.5
    cx, cy = (xs.min() + xs.max() + 1) / 2, (ys.min() + ys.max() + 1) / 2
    size, best = max(np.ptp(xs), np.ptp(ys)) + 1, 0.0
    for radius in size / 2 * np.array([0.9, 1.0, 1.1, 1.2]):
        for dy in (-1.5, 0, 1.5):
            drawn = inside(shape, (gx - cx) / radius, (gy - cy - dy) / radius)
            best = max(best, (drawn & mask).sum() / max(1, (drawn | mask).sum()))
    return best


def recognize(image):
    """uint8 [H, W, 3] -> (colour, shape, overlap), or None where there is no object of a sensible size."""
    pixels = image.astype(np.float64)
    border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    mask = np.linalg.norm(pixels - np.median(border, 0), axis=-1) > 60
    if not 40 <= mask.sum() <= 1600:
        return None
    palette = np.array(list(COLORS.values()), float)
    nearest = np.linalg.norm(pixels[mask][:, None] - palette[None], axis=-1).argmin(1)
    color = list(COLORS)[np.bincount(nearest, minlength=len(palette)).argmax()]
    overlaps = [best_overlap(s, mask) for s in SHAPES]
    return color, SHAPES[int(np.argmax(overlaps))], max(overlaps)
