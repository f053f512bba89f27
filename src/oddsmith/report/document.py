"""A report on a fitted model: one self-contained page for the person who has to sign it."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from os import PathLike
from typing import Any

import numpy.typing as npt

import oddsmith
from oddsmith.decision.loss import LossLike
from oddsmith.errors import InvalidInputError, InvalidTypeError
from oddsmith.evaluation.comparison import Comparison
from oddsmith.inference.summary import check_level
from oddsmith.models.base import Classifier
from oddsmith.persistence.file import write
from oddsmith.report.context import ReportContext, read_context
from oddsmith.report.data import data_section
from oddsmith.report.fit import certificate_section, model_section, weights_section
from oddsmith.report.glance import glance_section
from oddsmith.report.html import Markup, clean, tag
from oddsmith.report.importance import importance_section
from oddsmith.report.performance import calibration_section, decision_section, discrimination_section
from oddsmith.report.robustness import class_prior_section, comparison_section, influence_section
from oddsmith.report.subgroups import subgroups_section
from oddsmith.report.usage import Origin, Paths, provenance_section, signature_section, usage_section

Section = tuple[str, str, Markup]  # The key, title and body of a part of the page.


def make_report(
    model: Classifier,
    X: Any,
    y: Any = None,
    *,
    loss: LossLike = None,
    reject: object = None,
    comparison: Comparison | None = None,
    title: str | None = None,
    sample_weight: npt.ArrayLike | None = None,
    offset: npt.ArrayLike | None = None,
    model_path: str | PathLike[str] | None = None,
    data_path: Paths = None,
    by: object = None,
    period: str | None = None,
    purpose: str | None = None,
    author: str | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> str:
    """Return the page of ``model.report``, as text.

    >>> from oddsmith import LogisticRegression
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 0, 1, 0, 1, 1]
    >>> page = make_report(LogisticRegression().fit(X, y), X, y, title="Six rows")
    >>> page.startswith("<!doctype html>"), "<title>Six rows</title>" in page
    (True, True)
    """
    if comparison is not None and not isinstance(comparison, Comparison):
        raise InvalidTypeError(
            f"comparison must be what oddsmith.compare(models, X, y) returned, found {type(comparison).__name__}."
        )
    texts = {"title": title, "period": period, "purpose": purpose, "author": author}
    for name, text in texts.items():
        if text is not None and not isinstance(text, str):
            raise InvalidTypeError(f"{name} must be a text, found {text!r}.")
    origin = Origin.of(model_path, data_path, period=period, purpose=purpose, author=author)
    assert isinstance(model, Classifier)
    rows = {"sample_weight": sample_weight, "offset": offset}
    context = read_context(model, X, y, loss=loss, reject=reject, level=check_level(level), seed=seed, by=by, **rows)
    if title is None:
        title = f"{context.name} of {clean(y)}" if isinstance(y, str) else context.name
    labels = ", ".join(clean(label) for label in context.classes[:6]) + (", …" if context.K > 6 else "")
    lead = f"{context.name} on {context.frame.n_rows:,} rows: {context.K} classes ({labels})."
    return _page(title, lead, origin, _sections(context, comparison, origin))


def write_report(model: Classifier, X: Any, y: Any, path: str | PathLike[str], **options: Any) -> None:
    """Write the page of `make_report` to a file, completely or not at all."""
    if not isinstance(path, str | PathLike):
        raise InvalidInputError(f"path must be the path of the file to write, such as 'report.html'; found {path!r}.")
    write(path, make_report(model, X, y, **options).encode())


def _sections(context: ReportContext, comparison: Comparison | None, origin: Origin) -> list[Section]:
    return [
        ("glance", "At a glance", glance_section(context)),
        ("data", "The data", data_section(context)),
        ("model", "The model", model_section(context)),
        ("certificate", "Certificate", certificate_section(context)),
        ("importance", "Importance of columns", importance_section(context)),
        ("weights", "Weights", weights_section(context)),
        ("calibration", "Calibration", calibration_section(context)),
        ("discrimination", "Discrimination", discrimination_section(context)),
        ("decision", "Decision", decision_section(context)),
        ("subgroups", "Subgroups", subgroups_section(context)),
        ("influence", "Influential rows", influence_section(context)),
        ("prior", "Class prior", class_prior_section(context)),
        ("comparison", "Comparison", comparison_section(comparison)),
        ("use", "Using the model", usage_section(context, origin.model_path)),
        ("provenance", "Provenance", provenance_section(context, origin)),
        ("signature", "Signature", signature_section(origin)),
    ]


@cache
def _asset(name: str) -> Markup:
    return Markup(files("oddsmith.report").joinpath(name).read_text(encoding="utf-8"))


def _policy() -> str:
    """Return the Content-Security-Policy: nothing is loaded, and only our own style and script apply."""
    digests = (b64encode(sha256(_asset(name).encode()).digest()).decode() for name in ("style.css", "script.js"))
    style, script = (f"'sha256-{digest}'" for digest in digests)
    return f"default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'; form-action 'none'"


def _page(title: str, lead: str, origin: Origin, sections: list[Section]) -> str:
    """Return the page: one file with style and script inside, and a policy that admits nothing else."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy()),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content=f"oddsmith {oddsmith.__version__}"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", clean(title)),
        tag("style", _asset("style.css")),
    )
    links, parts = [], []
    for key, name, body in sections:
        absent = body.startswith('<p class="absent">')  # a sentence stands for a part that does not apply
        links.append(tag("li", tag("a", name, href=f"#{key}", class_="none" if absent else None)))
        heading = tag("h2", name, id=f"{key}-title")
        parts.append(tag("section", heading, body, id=key, aria_labelledby=f"{key}-title"))
    header = tag(
        "header",
        tag("p", f"Model report · {datetime.now(UTC).strftime('%d %B %Y')}", class_="kicker"),
        tag("h1", tag("bdi", clean(title))),
        tag("p", lead, class_="lead"),
        tag("p", origin.heading, class_="lead") if origin.heading else "",
        tag("button", "Theme: system", id="theme", type="button", hidden=True),
    )
    nav = tag("nav", tag("h2", "Contents"), tag("ol", *links), aria_label="Contents")
    footer = tag("footer", f"Made by oddsmith {oddsmith.__version__}. This page is one file and loads nothing.")
    page = tag("div", header, nav, tag("main", *parts, id="main"), footer, class_="page")
    skip, script = tag("a", "To the report", href="#main", class_="skip"), tag("script", _asset("script.js"))
    return f"<!doctype html>\n{tag('html', head, tag('body', skip, page, script), lang='en')}\n"
