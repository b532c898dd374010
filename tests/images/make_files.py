#!/usr/bin/env python3
"""Writes tests/images/files: images in every format, and what Pillow makes of them (.ppm).

Needs the Python packages pillow and numpy.
"""

import io
import struct
from pathlib import Path

import numpy
from PIL import Image

FILES = Path(__file__).resolve().parent / "files"
WIDTH, HEIGHT = 19, 13


def colours() -> Image.Image:
    y, x = numpy.mgrid[0:HEIGHT, 0:WIDTH]
    channels = (x * 13 % 256, y * 19 % 256, (x * y + 40) % 256)
    return Image.fromarray(numpy.stack(channels, axis=2).astype(numpy.uint8))


def write(name: str, data: bytes, expected: Image.Image | None = None) -> None:
    (FILES / name).write_bytes(data)
    image = (
        expected
        if expected is not None
        else Image.open(io.BytesIO(data)).convert("RGB")
    )
    image.save(FILES / f"{name}.ppm")


def saved(image: Image.Image, name: str, **options: object) -> None:
    stream = io.BytesIO()
    kind = {"jpg": "JPEG", "jp2": "JPEG2000", "j2k": "JPEG2000", "tif": "TIFF"}
    suffix = name.rsplit(".", 1)[1]
    image.save(
        stream,
        format=kind.get(
            suffix, "PPM" if suffix[0] == "p" and suffix != "png" else suffix
        ),
        **options,
    )
    write(name, stream.getvalue())


def write_bmp(
    name: str, bits: int, compression: int, extra: bytes, data: bytes, rgb: Image.Image
) -> None:
    at = 14 + 40 + len(extra)
    info = struct.pack(
        "<IiiHHIIiiII", 40, WIDTH, HEIGHT, 1, bits, compression, len(data), 0, 0, 0, 0
    )
    write(
        name,
        struct.pack("<2sIHHI", b"BM", at + len(data), 0, 0, at) + info + extra + data,
        rgb,
    )


def run_lengths(indices: numpy.ndarray, bits: int) -> bytes:
    out = bytearray()
    for row in indices[::-1]:
        x = 0
        while x < WIDTH:
            run = 1
            while x + run < WIDTH and row[x + run] == row[x]:
                run += 1
            if run == 1 and x + 4 <= WIDTH:  # as they are
                some = [int(v) for v in row[x : x + 4]]
                part = (
                    bytes(some)
                    if bits == 8
                    else bytes([some[0] << 4 | some[1], some[2] << 4 | some[3]])
                )
                out += bytes([0, 4]) + part
                run = 4
            else:
                v = int(row[x])
                out += bytes([run, v if bits == 8 else v << 4 | v])
            x += run
        out += b"\0\0"
    return bytes(out) + b"\0\1"


def bitmaps() -> None:
    rgb = colours()
    for mode in ("1", "L", "P", "RGB", "RGBA"):
        saved(rgb.convert(mode), f"{mode}.bmp".lower())
    a = numpy.asarray(rgb).astype(int)
    packed = (a[:, :, 0] >> 3) << 11 | (a[:, :, 1] >> 2) << 5 | a[:, :, 2] >> 3
    rows = numpy.zeros((HEIGHT, WIDTH + WIDTH % 2), "<u2")
    rows[:, :WIDTH] = packed[::-1]
    steps = (numpy.array([31, 63, 31]), numpy.array([11, 5, 0]))
    wide = (packed[:, :, None] >> steps[1] & steps[0]) * 255 * 2 // steps[0] + 1 >> 1
    masks = struct.pack("<III", 0xF800, 0x7E0, 0x1F)
    write_bmp(
        "565.bmp",
        16,
        3,
        masks,
        rows.tobytes(),
        Image.fromarray(wide.astype(numpy.uint8)),
    )
    y, x = numpy.mgrid[0:HEIGHT, 0:WIDTH]
    for bits in (4, 8):
        indices = (x * y // 7) % 16
        palette = (
            numpy.array([[i * 16, 255 - i * 8, i * 3, 0] for i in range(1 << bits)])
            % 256
        )
        extra = palette.astype(numpy.uint8).tobytes()
        rgb = Image.fromarray(palette[indices][:, :, 2::-1].astype(numpy.uint8))
        write_bmp(
            f"rle{bits}.bmp",
            bits,
            2 if bits == 4 else 1,
            extra,
            run_lengths(indices, bits),
            rgb,
        )


def main() -> None:
    FILES.mkdir(exist_ok=True)
    rgb = colours()
    bitmaps()
    saved(rgb, "rgb.png")
    saved(rgb.convert("RGBA"), "rgba.png")
    saved(rgb.convert("P"), "palette.png")
    saved(rgb.convert("1"), "bits.png")
    saved(rgb.convert("LA"), "la.png")
    saved(rgb, "rgb.jpg", quality=90)
    saved(rgb, "full.jpg", quality=95, subsampling=0)
    saved(rgb, "progressive.jpg", progressive=True)
    saved(rgb.convert("L"), "grey.jpg")
    saved(rgb, "lossy.webp", quality=80)
    saved(rgb, "lossless.webp", lossless=True)
    saved(rgb, "rgb.jp2")
    saved(rgb.convert("L"), "grey.jp2")
    saved(rgb, "raw.j2k", no_jp2=True)
    saved(rgb, "none.tif")
    saved(rgb, "lzw.tif", compression="tiff_lzw")
    saved(rgb.convert("L"), "grey.tif", compression="packbits")
    saved(rgb.convert("1"), "fax.tif", compression="group4")
    saved(rgb.convert("P"), "palette.tif", compression="tiff_adobe_deflate")
    saved(rgb, "rgb.ppm")
    saved(rgb.convert("L"), "grey.pgm")
    saved(rgb.convert("1"), "bits.pbm")
    a = numpy.asarray(rgb)
    text = " ".join(str(v) for v in a.flatten())
    write("text.ppm", f"P3 # colours\n{WIDTH} {HEIGHT}\n255\n{text}\n".encode(), rgb)
    grey = numpy.asarray(rgb.convert("L"))
    text = "\n".join(str(v) for v in grey.flatten())
    write(
        "text.pgm",
        f"P2\n{WIDTH} {HEIGHT} 255\n{text}".encode(),
        rgb.convert("L").convert("RGB"),
    )
    bits = (grey < 128).astype(int)
    text = "".join(str(v) for v in bits.flatten())
    white = Image.fromarray(((1 - bits) * 255).astype(numpy.uint8)).convert("RGB")
    write("text.pbm", f"P1\n{WIDTH} {HEIGHT}\n{text}\n".encode(), white)
    deep = (grey.astype(">u2") * 257).tobytes()
    write(
        "deep.pgm",
        f"P5 {WIDTH} {HEIGHT} 65535\n".encode() + deep,
        rgb.convert("L").convert("RGB"),
    )


if __name__ == "__main__":
    main()
