"""Draw the figures of the gallery, their contact sheet and the page that shows them.

python docs/gallery/build.py              all of them, into docs/gallery/figures/
python docs/gallery/build.py zigzag roc   these figures, the contact sheet and the page
"""

import sys
from collections.abc import Mapping
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
from PIL import Image, ImageDraw, ImageFont

from oddsmith.lectures.gallery import SECTIONS, draw, save, scripts, topic_of, words

HERE = Path(__file__).parent
FIGURES = HERE / "figures"
INTRODUCTION = """# Gallery

Each figure comes from one short script that uses only public names of oddsmith. `make gallery` redraws all figures and
rewrites this page; `oddsmith gallery` draws them larger, as PNG, SVG or PDF. Tests in `tests/plots/test_gallery.py`
check the claims of the figures.

![All figures of the gallery, small](figures/contact_sheet.png)
"""


def main(wanted: list[str]) -> None:
    """Draw the named figures, or all of them, then the contact sheet and the page."""
    matplotlib.use("agg")
    FIGURES.mkdir(exist_ok=True)
    for name in wanted or scripts():
        path = FIGURES / f"{name}.png"
        save(draw(name)["figure"], path, dpi=120)
        plt.close("all")
        with Image.open(path) as picture:
            smaller(picture.convert("RGB")).save(path, optimize=True)
        print(f"{name}: {path.stat().st_size / 1000:.0f} kB")
    if all((FIGURES / f"{name}.png").is_file() for name in scripts()):
        contact_sheet({name: FIGURES / f"{name}.png" for name in scripts()}, FIGURES / "contact_sheet.png")
        (HERE / "README.md").write_text(gallery_page(), encoding="utf-8")


def gallery_page() -> str:
    """Return the page of the documentation, in Markdown."""
    parts = [INTRODUCTION]
    for section, names in SECTIONS.items():
        parts.append(f"## {section}\n")
        for name in names:
            (title, text), topic, script = words(name), topic_of(name), scripts()[name].name
            where = f"[{topic.title}](../syllabus.md#{anchor(topic.number, topic.title)})"
            parts.append(f"### {title}\n\n{text}\n\n![{title}](figures/{name}.png)\n")
            parts.append(f"Topic: {where}. Script: [{script}]({script})\n")
    return "\n".join(parts)


def anchor(number: int, title: str) -> str:
    """Return the name under which the section of a topic can be linked to."""
    kept = "".join(letter for letter in f"{number} {title}".lower() if letter.isalnum() or letter in " -")
    return kept.replace(" ", "-")


def contact_sheet(
    files: Mapping[str, Path], path: Path, *, columns: int = 6, width: int = 250, height: int = 215
) -> None:
    """Write one picture with all figures, small and under their names."""
    rows = -(-len(files) // columns)
    sheet = Image.new("RGB", (columns * width, rows * height), "white")
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=13)
    for i, (name, file) in enumerate(files.items()):
        left, top = i % columns * width, i // columns * height
        with Image.open(file) as picture:
            small = picture.convert("RGB")
        small.thumbnail((width - 16, height - 34), Image.Resampling.LANCZOS)
        sheet.paste(small, (left + (width - small.width) // 2, top + 26))
        pen.text((left + 8, top + 5), name.replace("_", " "), fill="black", font=font)
    smaller(sheet).save(path, optimize=True)


def smaller(picture: Image.Image) -> Image.Image:
    """Return a Pillow image with fewer colours, which is enough for figures and a third of the size."""
    return picture.quantize(192, dither=Image.Dither.NONE)


if __name__ == "__main__":
    main(sys.argv[1:])
