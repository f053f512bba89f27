"""The figures of the gallery: one short script each, run here and saved with the same bytes every time."""

from __future__ import annotations

import ast
import io
import runpy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files as resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oddsmith.errors import InvalidInputError, UnknownNameError
from oddsmith.lectures.syllabus import Topic, documents, topics

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
SECTIONS = {
    "From activations to probabilities": ["links", "sigmoid_steepness", "growth", "other_links", "softmax", "network"],
    "Densities and Bayes' rule": [
        *("class_densities", "gaussian_shared", "pooled_covariance", "covariances", "quadrics", "quadrics_3d"),
        *("posterior_panels", "class_prior", "two_humps", "naive_bayes", "synthetic", "parameters"),
    ],
    "Decision regions": [
        *("distance", "decision_regions", "four_classes", "generalised_linear", "expansion", "feature_space", "bases"),
        *("ambiguous", "fisher", "fisher_least_squares"),
    ],
    "Posterior maps": ["posterior_maps", "prior_width", "worked_two_classes", "worked_classes"],
    "Uncertain weights": ["laplace", "posterior", "uncertainty"],
    "Outliers and order": ["perceptron", "outliers_least_squares", "outliers_probit", "influence"],
    "Optimisers": [
        *("newton", "one_step", "descent_1d", "local_maxima", "zigzag", "scaling", "sgd", "working_response", "trace")
    ],
    "Weights and priors": [
        *("logistic", "coefficients", "separation", "profile", "widths", "weight_path", "cv_curve", "residuals")
    ],
    "Evaluation": ["reliability", "roc", "costs", "comparison"],
}


@cache
def scripts() -> Mapping[str, Path]:
    """Return the scripts by the name of their figure, section by section."""
    folder = documents() / "gallery"
    return {name: folder / f"plot_{name}.py" for names in SECTIONS.values() for name in names}


def words(name: str) -> tuple[str, str]:
    """Return the title of a figure and what is said below it: the first line of its script, and the others.

    >>> words("four_classes")[1]
    'Each region is where one of four linear functions is the largest, so every region is convex.'
    """
    text = ast.get_docstring(ast.parse(_script(name).read_text(encoding="utf-8"))) or ""
    title, _, rest = text.partition("\n\n")
    return title.rstrip("."), rest.strip()


def topic_of(name: str) -> Topic:
    """Return the topic of the syllabus that a figure belongs to: the one that shows it, or that mentions it first.

    >>> topic_of("zigzag").name, topic_of("roc").name
    ('gradient', 'decisions')
    """
    for topic in sorted(topics(), key=lambda topic: topic.figure != name):
        if name in (topic.figure, *topic.also):
            return topic
    raise InvalidInputError(f"The figure {name!r} belongs to no topic of the syllabus.")


def file_stem(name: str) -> str:
    """Return what the file of a figure is called: the topic's number and name, and its own where these are not enough.

    >>> file_stem("zigzag"), file_stem("roc")
    ('22-gradient', '35-decisions-roc')
    """
    topic = topic_of(name)
    return topic.stem if name == topic.figure else f"{topic.stem}-{name}".replace("_", "-")


def draw(name: str) -> dict[str, Any]:
    """Run the script of a figure and return what it defines; ``figure`` is the figure. Nothing is shown."""
    return runpy.run_path(str(_script(name)))


def format_of(path: str | Path) -> str:
    """Return the format that a file is to have; refuse one that is not known, or a folder that is not there."""
    path = Path(path)
    kind = path.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise UnknownNameError("format of a figure", kind or str(path), FORMATS)
    if not path.resolve().parent.is_dir():
        raise InvalidInputError(f"There is no folder to write {str(path)!r} to. Make it first.")
    return kind


def save(figure: Figure, path: str | Path, *, dpi: int = 200) -> None:
    """Write a figure; the ending of ``path`` is the format. The same figure gives the same bytes again."""
    import matplotlib

    path, kind = Path(path), format_of(path)
    undated = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    page = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "oddsmith", "svg.fonttype": "path"}):
        figure.savefig(page, format=kind, dpi=dpi, bbox_inches="tight", pad_inches=0.08, metadata=undated)
    path.write_bytes(page.getvalue())  # only a figure that is whole replaces one that was there


@dataclass(frozen=True)
class Picture:
    """A figure as PNG, which a notebook shows whatever its backend is."""

    png: bytes

    def _repr_png_(self) -> bytes:
        return self.png


def picture(name: str, *, dpi: int = 100) -> Picture:
    """Draw a figure and return it for a notebook; the figure itself is closed.

    >>> picture("links").png[1:4]
    b'PNG'
    """
    import matplotlib.pyplot as plt

    figure, page = draw(name)["figure"], io.BytesIO()
    figure.savefig(page, format="png", dpi=dpi, bbox_inches="tight", pad_inches=0.08)
    plt.close(figure)
    return Picture(page.getvalue())


def save_all(
    folder: str | Path, kind: str = "png", names: Iterable[str] | None = None, *, dpi: int = 200
) -> Iterator[tuple[str, Path]]:
    """Draw the figures, all or those named, into a folder, and yield each name and file when it is there.

    An ``index.html`` with all of them comes last.
    """
    import matplotlib.pyplot as plt

    chosen = list(scripts()) if names is None else list(names)
    for name in chosen:
        _script(name)
    if kind not in FORMATS:
        raise UnknownNameError("format of a figure", kind, FORMATS)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: f"{file_stem(name)}.{kind}" for name in chosen}
    for name, file in files.items():
        figure = draw(name)["figure"]
        save(figure, folder / file, dpi=dpi)
        plt.close(figure)
        yield name, folder / file
    index = folder / "index.html"
    index.write_text(index_page(files), encoding="utf-8")
    yield "index", index


def index_page(files: Mapping[str, str]) -> str:
    """Return a page for a browser with the figures in these files, section by section, each with its text."""
    parts = []
    for section, names in SECTIONS.items():
        shown = [_figure(name, files[name]) for name in names if name in files]
        if shown:
            parts.append(f'<h2>{escape(section)}</h2>\n<div class="sheet">\n' + "\n".join(shown) + "\n</div>")
    page = resources("oddsmith.lectures").joinpath("gallery.html").read_text(encoding="utf-8")
    return page.replace("{sections}", "\n".join(parts))


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


def _script(name: str) -> Path:
    if name not in scripts():
        raise UnknownNameError("figure", name, scripts())
    return scripts()[name]
