"""Writes the images of this folder and PIL's own reading of them, as PNG.

    pip install pillow
    cd data/testdata && python3 make_goldens.py

The files checked in are those of Pillow 13.0.
"""

import random

from PIL import Image


def picture(width, height, seed, mode="RGB"):
    rng = random.Random(seed)
    small = Image.new("RGB", (5, 4))
    small.putdata([tuple(rng.randrange(256) for _ in range(3)) for _ in range(20)])
    return small.resize((width, height), Image.Resampling.BICUBIC).convert(mode)


def save(image, name, **options):
    image.save(name, **options)
    Image.open(name).convert("RGB").save("expected_" + name.replace(".", "_") + ".png")


color = picture(37, 29, 1)
save(color, "lossy.webp", quality=80)
save(color, "lossless.webp", lossless=True)
save(color, "baseline.jpg", quality=90)
save(color, "progressive.jpg", quality=90, progressive=True)
save(color.convert("L"), "grey.jpg", quality=90)
save(color.convert("CMYK"), "cmyk.jpg", quality=90)
save(color.convert("L"), "grey.png")
save(color.convert("1"), "one_bit.png")
save(color.quantize(16), "palette.png")
alpha = color.copy()
alpha.putalpha(color.convert("L"))
save(alpha, "alpha.png")
save(alpha, "alpha.webp", lossless=True, exact=True)
color.save("animated.webp", save_all=True, append_images=[picture(37, 29, 2)], lossless=True)
for width, height in [(16, 16), (80, 50), (7, 61), (1, 1)]:
    color.resize((width, height), Image.Resampling.BILINEAR).save(f"resized_{width}x{height}.png")
color.save("color.png")
