"""Compares decoded images with Pillow's, to the bit: python oracle_decode.py <decode_files>

Files that Pillow writes and files that the program writes are decoded by both. Pillow's result is
`ImageOps.exif_transpose(image).convert(mode)`.
"""
import os
import struct
import subprocess
import sys
import tempfile
import warnings
import zlib

import numpy as np
from PIL import Image, ImageOps, PngImagePlugin

random = np.random.default_rng(0)
warnings.filterwarnings("ignore", "Palette images with Transparency")


def picture(height, width, channels):
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    smooth = 3 * x + 2 * (c + 1) * y + 60 * ((x // 7 + y // 5) % 2)
    return ((smooth + random.integers(0, 16, smooth.shape)) % 256).astype(np.uint8)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, depth, color, rows, *chunks):
    """A PNG of packed rows, for forms that Pillow does not write."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0))
    data = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))
    parts = [header, *chunks, chunk(b"IDAT", data), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def jpegs():
    rgb, grey = Image.fromarray(picture(61, 83, 3)), Image.fromarray(picture(40, 37, 1)[..., 0])
    for sampling in (0, 1, 2):
        for quality in (30, 95):
            for progressive in (False, True):
                yield f"pillow{sampling}_{quality}_{progressive}.jpg", rgb, dict(
                    subsampling=sampling, quality=quality, progressive=progressive)
    yield "grey.jpg", grey, {}
    yield "grey_progressive.jpg", grey, dict(progressive=True)
    for size in ((1, 1), (1, 9), (17, 1), (8, 8), (16, 16), (15, 33)):
        for sampling in (0, 1, 2):
            small = Image.fromarray(picture(*size, 3))
            yield f"size{size}_{sampling}.jpg", small, dict(subsampling=sampling)
    yield "cmyk_pillow.jpg", Image.fromarray(picture(30, 31, 4), "CMYK"), {}
    for orientation in range(10):
        for endian in "<>":
            exif = Image.Exif()
            exif[0x0112] = orientation
            exif[0x010F] = "a name that is long enough to stand elsewhere"
            exif.endian = endian
            name = f"exif{orientation}{'b' if endian == '>' else 'l'}.jpg"
            yield name, rgb, dict(exif=exif.tobytes())
    for xmp in ('tiff:Orientation="6"', "<tiff:Orientation>8</tiff:Orientation>"):
        yield f"xmp{len(xmp)}.jpg", rgb, dict(xmp=xmp.encode())


def pngs():
    for mode, channels in (("L", 1), ("LA", 2), ("RGB", 3), ("RGBA", 4)):
        yield f"{mode}.png", Image.fromarray(picture(33, 29, channels).squeeze(), mode), {}
    rgb = Image.fromarray(picture(33, 29, 3))
    yield "one.png", rgb.convert("1"), {}
    for colors, bits in ((2, 1), (4, 2), (16, 4), (200, 8)):
        palette = rgb.quantize(colors)
        yield f"palette{bits}.png", palette, dict(bits=bits)
        yield f"palette{bits}_trns.png", palette, dict(bits=bits, transparency=bytes([0, 128]))
    yield "rgb_trns.png", rgb, dict(transparency=(1, 2, 3))
    yield "grey_trns.png", rgb.convert("L"), dict(transparency=7)
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        yield f"exif{orientation}.png", rgb, dict(exif=exif.tobytes())
        info = PngImagePlugin.PngInfo()
        info.add_itxt("XML:com.adobe.xmp", f'<x tiff:Orientation="{orientation}"/>')
        yield f"xmp{orientation}.png", rgb, dict(pnginfo=info)
        info = PngImagePlugin.PngInfo()
        data = b"Exif\0\0" + exif.tobytes().removeprefix(b"Exif\0\0")
        text = f"\nexif\n{len(data):8}\n{data.hex()}\n"
        info.add_text("Raw profile type exif", text, zip=orientation % 2 == 0)
        yield f"profile{orientation}.png", rgb, dict(pnginfo=info)


def raw_pngs():
    for depth in (1, 2, 4, 8):
        width = 19
        rows = random.integers(0, 256, (13, (width * depth + 7) // 8), np.uint8)
        yield f"raw_grey{depth}.png", png(width, 13, depth, 0, rows)
        colors = chunk(b"PLTE", random.integers(0, 256, 3 << depth, np.uint8).tobytes())
        yield f"raw_palette{depth}.png", png(width, 13, depth, 3, rows, colors)
    for color, channels in ((2, 3), (4, 2), (6, 4)):
        rows = random.integers(0, 256, (13, 19 * channels * 2), np.uint8)
        yield f"raw_sixteen{channels}.png", png(19, 13, 16, color, rows)
    for color, channels, depth in ((0, 1, 8), (2, 3, 8), (6, 4, 8), (3, 1, 4)):
        for size in ((1, 1), (3, 5), (29, 33)):
            yield interlaced(color, channels, depth, *size)


def interlaced(color, channels, depth, width, height):
    passes = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
              (0, 1, 1, 2))
    data = b""
    for x, y, dx, dy in passes:
        w, h = -(-(width - x) // dx), -(-(height - y) // dy)
        if w > 0 and h > 0:
            rows = random.integers(0, 256, (h, (w * channels * depth + 7) // 8), np.uint8)
            data += b"".join(b"\0" + row.tobytes() for row in rows)
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 1))
    colors = chunk(b"PLTE", random.integers(0, 256, 48, np.uint8).tobytes()) if color == 3 else b""
    parts = [header, colors, chunk(b"IDAT", zlib.compress(data)), chunk(b"IEND", b"")]
    return f"interlaced{color}_{width}.png", b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def ours(path):
    with open(path, "rb") as file:
        line = file.readline().decode().split(" ")
        if line[0] == "BadFile":
            return " ".join(line)
        return np.frombuffer(file.read(), line[0]).reshape([int(n) for n in line[1:]])


def pillow(path, mode):
    image = ImageOps.exif_transpose(Image.open(path))
    array = np.asarray(image if mode is None else image.convert(mode))
    array = array.astype(np.uint8) * 255 if array.dtype == bool else array
    return array if array.ndim == 3 else array[..., None]


def differ(a, b):
    if isinstance(a, str):
        return a
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{a.shape}, and Pillow has {b.dtype}{b.shape}"
    distance = np.abs(a.astype(int) - b.astype(int))
    if not distance.any():
        return ""
    return f"at most {distance.max()} apart, in {(distance > 0).mean():.1%}"


def main(program):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "make", folder], check=True)
        for name, image, options in [*jpegs(), *pngs()]:
            image.save(os.path.join(folder, name), **options)
        for name, file in raw_pngs():
            with open(os.path.join(folder, name), "wb") as out:
                out.write(file)
        sixteen = random.integers(0, 65536, (13, 19)).astype(np.uint16)
        Image.fromarray(sixteen).save(os.path.join(folder, "sixteen_grey.png"))
        names = sorted(os.listdir(folder))
        subprocess.run([program] + [os.path.join(folder, n) for n in names], check=True)
        failures = 0
        for name in names:
            path = os.path.join(folder, name)
            for suffix, mode in (("rgb", "RGB"), ("gray", "L"), ("unchanged", None)):
                got = ours(f"{path}.{suffix}")
                if name == "sixteen_grey.png":  # Pillow's convert clips; the upper 8 bits are meant
                    upper = (sixteen >> 8).astype(np.uint8)[..., None]
                    want = {"RGB": upper.repeat(3, 2), "L": upper, None: sixteen[..., None]}[mode]
                elif mode is None and name.startswith("raw_sixteen"):
                    want, got = pillow(path, None), (got >> 8).astype(np.uint8)
                    if name == "raw_sixteen2.png":  # Pillow opens it as RGBA
                        want = want[..., 2:]
                else:
                    want = pillow(path, mode)
                difference = differ(got, want)
                if difference:
                    print(f"{name}, {suffix}: {difference}")
                    failures += 1
        print(f"{len(names)} images in 3 modes, {failures} differ")
        return failures > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
