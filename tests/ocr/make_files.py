#!/usr/bin/env python3
"""Draws the pictures in files/ with Pillow and the font DejaVu Sans (Debian's fonts-dejavu-core)."""

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

FOLDER = Path(__file__).parent / "files"
FONTS = Path("/usr/share/fonts/truetype/dejavu")


def font(size, name="DejaVuSans"):
    return ImageFont.truetype(str(FONTS / f"{name}.ttf"), size)


def label(text, face, ink, paper):
    left, top, right, bottom = face.getbbox(text)
    picture = Image.new("RGB", (right - left + 24, bottom - top + 20), paper)
    ImageDraw.Draw(picture).text((12 - left, 10 - top), text, font=face, fill=ink)
    return picture


def page():
    """A poster: text of several sizes and colours, tilted, upside down and from bottom to top."""
    paper = (244, 240, 230)
    picture = Image.new("RGB", (720, 480), paper)
    draw = ImageDraw.Draw(picture)
    draw.rectangle((0, 0, 720, 92), fill=(28, 58, 94))
    draw.text(
        (30, 20),
        "Harbour Museum",
        font=font(44, "DejaVuSans-Bold"),
        fill=(255, 255, 255),
    )
    draw.text((30, 116), "Open daily from 10 to 18", font=font(28), fill=(20, 20, 20))
    draw.text(
        (30, 162), "Adults 12.50", font=font(24, "DejaVuSerif"), fill=(20, 20, 20)
    )
    draw.text(
        (330, 162), "Children free", font=font(24, "DejaVuSerif"), fill=(20, 20, 20)
    )
    draw.ellipse((60, 240, 190, 370), fill=(214, 158, 60))
    draw.text(
        (30, 430), "Please do not touch the ships", font=font(18), fill=(90, 90, 90)
    )
    tilted = label(
        "Summer exhibition", font(30, "DejaVuSans-Bold"), (160, 30, 30), paper
    )
    tilted = tilted.rotate(
        14, expand=True, resample=Image.Resampling.BICUBIC, fillcolor=paper
    )
    picture.paste(tilted, (230, 240))
    turned = label(
        "Ticket number 4071", font(26), (20, 60, 20), (222, 232, 214)
    ).rotate(180)
    picture.paste(turned, (230, 376))
    upwards = label(
        "EMERGENCY EXIT", font(26, "DejaVuSans-Bold"), (255, 255, 255), (30, 120, 60)
    )
    picture.paste(upwards.rotate(90, expand=True), (640, 150))
    return picture


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    page().save(FOLDER / "page.png", optimize=True)
    page().save(FOLDER / "page.jpg", quality=85)
