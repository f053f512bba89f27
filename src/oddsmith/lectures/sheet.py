"""Pages that show the figures of the gallery: for a browser, for the documentation, and as one picture."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from oddsmith.lectures.gallery import SECTIONS, scripts, topic_of, words

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

_INTRODUCTION = """# Gallery

Each figure is made by one short script with the public names of oddsmith. `make gallery` makes all of them again, a
contact sheet beside them, and this page from the first lines of the scripts; `oddsmith gallery` draws them larger, as
PNG, SVG or PDF. What a figure claims is also a test, in `tests/plots/test_gallery.py`.

![All figures of the gallery, small](figures/contact_sheet.png)
"""

_HTML = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>oddsmith: the gallery</title>
<style>
:root {{ color-scheme: light; font: 16px/1.45 system-ui, sans-serif; color: #222; background: #fff }}
body {{ max-width: 84rem; margin: 0 auto; padding: 1rem }}
.sheet {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(18rem, 1fr)); gap: 1rem }}
figure {{ margin: 0; padding: .75rem; border: 1px solid #ddd; border-radius: .4rem; break-inside: avoid }}
img {{ display: block; width: 100%; height: 14rem; object-fit: contain; background: #fff }}
figcaption {{ margin-top: .5rem; font-size: .9rem }}
figcaption p {{ margin: .25rem 0; color: #444 }}
code {{ font-size: .85rem }}
a:focus-visible {{ outline: 3px solid #004488 }}
</style>
</head>
<body>
<main>
<h1>Figures for a course on classification</h1>
<p>Each figure is under the name of its topic; <code>oddsmith lecture TOPIC</code> prints the topic with an example.</p>
{sections}
</main>
</body>
</html>
"""


def index_page(files: Mapping[str, str]) -> str:
    """Return a page for a browser with the figures in these files, section by section, each with its text."""
    parts = []
    for section, names in SECTIONS.items():
        shown = [_figure(name, files[name]) for name in names if name in files]
        if shown:
            parts.append(f'<h2>{escape(section)}</h2>\n<div class="sheet">\n' + "\n".join(shown) + "\n</div>")
    return _HTML.format(sections="\n".join(parts))


def _figure(name: str, file: str) -> str:
    title, text = map(escape, words(name))
    topic, file = topic_of(name), escape(file)
    if file.endswith(".pdf"):  # no browser shows a PDF as a picture
        picture = f'<a href="{file}">{file}</a>'
    else:
        picture = f'<a href="{file}"><img src="{file}" alt="{title}" loading="lazy"></a>'
    return (
        f"<figure>{picture}<figcaption><strong>{title}</strong><p>{text}</p>"
        f"<p>Topic {topic.number}: {escape(topic.title)} (<code>oddsmith lecture {topic.name}</code>)</p>"
        "</figcaption></figure>"
    )


def gallery_page() -> str:
    """Return the page of the documentation, in Markdown."""
    parts = [_INTRODUCTION]
    for section, names in SECTIONS.items():
        parts.append(f"## {section}\n")
        for name in names:
            (title, text), topic, script = words(name), topic_of(name), scripts()[name].name
            where = f"[{topic.title}](../syllabus.md#{anchor(topic.number, topic.title)})"
            parts.append(f"### {title}\n\n{text}\n\n![{title}](figures/{name}.png)\n")
            parts.append(f"Topic: {where}. Script: [{script}]({script})\n")
    return "\n".join(parts)


def anchor(number: int, title: str) -> str:
    """Return the name under which the section of a topic can be linked to.

    >>> anchor(15, "Fisher's discriminant")
    '15-fishers-discriminant'
    """
    kept = "".join(letter for letter in f"{number} {title}".lower() if letter.isalnum() or letter in " -")
    return kept.replace(" ", "-")


def contact_sheet(
    files: Mapping[str, Path], path: Path, *, columns: int = 6, width: int = 250, height: int = 215
) -> None:
    """Write one picture with all figures, small and under their names."""
    from PIL import Image, ImageDraw, ImageFont

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


def smaller(picture: Picture) -> Picture:
    """Return a picture (Pillow) with few colours: figures need no more, and their files are a third of the size."""
    from PIL.Image import Dither

    return picture.quantize(192, dither=Dither.NONE)
