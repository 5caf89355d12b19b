"""Writes the images of this folder and PIL's own reading of them, over white, as PNG; and the tar files.

    pip install pillow
    cd data/testdata && python3 make_goldens.py

The files checked in are those of Pillow 13.0.
"""

import io
import random
import struct
import tarfile
import zlib

from PIL import Image, ImageOps


def picture(width, height, seed, mode="RGB"):
    rng = random.Random(seed)
    small = Image.new("RGB", (5, 4))
    small.putdata([tuple(rng.randrange(256) for _ in range(3)) for _ in range(20)])
    return small.resize((width, height), Image.Resampling.BICUBIC).convert(mode)


def on_white(image):
    if image.has_transparency_data:
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    return image.convert("RGB")


def save_expected(name):
    on_white(Image.open(name)).save("expected_" + name.replace(".", "_") + ".png")


def save(image, name, **options):
    image.save(name, **options)
    save_expected(name)


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
save(alpha.convert("LA"), "grey_alpha.png")
save(color.quantize(16), "palette_alpha.png", transparency=bytes(range(0, 256, 16)))
color.save("animated.webp", save_all=True, append_images=[picture(37, 29, 2)], lossless=True)
for width, height in [(16, 16), (80, 50), (7, 61), (1, 1)]:
    color.resize((width, height), Image.Resampling.BILINEAR).save(f"resized_{width}x{height}.png")
color.save("color.png")


def save_turned(image, name, orientation, **options):
    """With an EXIF orientation; expected is the image as it is to be seen."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    image.save(name, exif=exif, **options)
    seen = ImageOps.exif_transpose(Image.open(name))
    on_white(seen).save("expected_" + name.replace(".", "_") + ".png")


for orientation in range(2, 9):
    save_turned(color, f"turned_{orientation}.jpg", orientation, quality=90)
save_turned(color, "turned_6.png", 6)
save_turned(alpha, "turned_alpha.png", 6)
for opacity, name in [(0, "transparent"), (255, "opaque")]:
    Image.new("RGBA", (8, 8), (255, 0, 255, opacity)).save(f"{name}_magenta.png")
save_turned(color, "turned_8.webp", 8, lossless=True)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write_png(name, image, depth, interlaced):
    """PIL writes neither interlaced nor 16-bit files in color."""
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
              (0, 1, 1, 2)] if interlaced else [(0, 0, 1, 1)]
    raw = b""
    for left, top, step_x, step_y in passes:
        for y in range(top, image.height, step_y):
            row = b"".join(
                struct.pack(">B" if depth == 8 else ">H", c if depth == 8 else c * 257)
                for x in range(left, image.width, step_x) for c in image.getpixel((x, y)))
            if row:
                raw += b"\0" + row
    with open(name, "wb") as out:
        out.write(b"\x89PNG\r\n\x1a\n")
        out.write(chunk(b"IHDR", struct.pack(">IIBBBBB", image.width, image.height, depth,
                                             6 if image.mode == "RGBA" else 2, 0, 0,
                                             int(interlaced))))
        out.write(chunk(b"IDAT", zlib.compress(raw, 9)))
        out.write(chunk(b"IEND", b""))
    save_expected(name)


write_png("interlaced.png", color, 8, True)
write_png("sixteen_bit.png", color, 16, True)
write_png("interlaced_alpha.png", alpha, 16, True)

LONG = "a" * 90 + "/" + "b" * 90 + "/" + "\u00e9" * 70 + ".txt"
for form, name in [(tarfile.USTAR_FORMAT, "ustar"), (tarfile.GNU_FORMAT, "gnu"),
                   (tarfile.PAX_FORMAT, "pax")]:
    with tarfile.open(f"{name}.tar", "w", format=form) as tar:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        names = ["./folder/one.txt", "x" * 80 + "/" + "y" * 90 + ".txt", "empty.txt"]
        if form != tarfile.USTAR_FORMAT:
            names.append(LONG)
        for number, member in enumerate(names):
            content = b"" if member == "empty.txt" else (f"content {number} " * 60).encode()
            info = tarfile.TarInfo(member)
            info.size = len(content)
            if form == tarfile.PAX_FORMAT:
                info.mtime = 1234567890.5
            tar.addfile(info, io.BytesIO(content))
            link = tarfile.TarInfo(f"link{number}")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(link)
