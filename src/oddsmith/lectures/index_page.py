"""The page that shows figures of the gallery in a browser."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from oddsmith.lectures.gallery import SECTIONS, topic_of, words

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
