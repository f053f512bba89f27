"""A report on a fitted model: one self-contained page for the person who has to sign it."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any

import numpy.typing as npt

from oddsmith.decision.loss import LossLike
from oddsmith.errors import InvalidInputError, InvalidTypeError
from oddsmith.evaluation.comparison import Comparison
from oddsmith.inference.summary import check_level
from oddsmith.models.base import Classifier
from oddsmith.models.report_mixin import ReportMixin
from oddsmith.persistence.file import write
from oddsmith.report.context import ReportContext, read_context
from oddsmith.report.data import data_section
from oddsmith.report.fit import certificate_section, model_section, weights_section
from oddsmith.report.glance import glance_section
from oddsmith.report.html import clean
from oddsmith.report.page import Section, make_page
from oddsmith.report.performance import calibration_section, decision_section, discrimination_section
from oddsmith.report.robustness import class_prior_section, comparison_section, influence_section
from oddsmith.report.usage import provenance_section, signature_section, usage_section


def make_report(
    model: ReportMixin,
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
    if title is not None and not isinstance(title, str):
        raise InvalidTypeError(f"title must be a text, found {title!r}.")
    assert isinstance(model, Classifier)
    rows = {"sample_weight": sample_weight, "offset": offset}
    context = read_context(model, X, y, loss=loss, reject=reject, level=check_level(level), seed=seed, **rows)
    if title is None:
        target = f" of {clean(y)}" if isinstance(y, str) else ""
        title = f"{context.name}{target}"
    path = None if model_path is None else fspath(model_path)
    return make_page(title, _lead(context), _sections(context, comparison, path))


def write_report(model: ReportMixin, X: Any, y: Any, path: str | PathLike[str], **options: Any) -> None:
    """Write the page of `make_report` to a file, whole or not at all."""
    if not isinstance(path, str | PathLike):
        raise InvalidInputError(f"path must be that of the file to write, such as 'report.html'; found {path!r}.")
    write(path, make_report(model, X, y, **options).encode())


def _lead(context: ReportContext) -> str:
    labels = ", ".join(clean(label) for label in context.classes[:6]) + (", …" if context.K > 6 else "")
    return f"{context.name} on {context.n_rows:,} rows: {context.K} classes ({labels})."


def _sections(context: ReportContext, comparison: Comparison | None, path: str | None) -> list[Section]:
    return [
        Section("glance", "At a glance", glance_section(context)),
        Section("data", "The data", data_section(context)),
        Section("model", "The model", model_section(context)),
        Section("certificate", "Certificate", certificate_section(context)),
        Section("weights", "Weights", weights_section(context)),
        Section("calibration", "Calibration", calibration_section(context)),
        Section("discrimination", "Discrimination", discrimination_section(context)),
        Section("decision", "Decision", decision_section(context)),
        Section("influence", "Influential rows", influence_section(context)),
        Section("prior", "Class prior", class_prior_section(context)),
        Section("comparison", "Comparison", comparison_section(comparison)),
        Section("use", "Using the model", usage_section(context, path)),
        Section("provenance", "Provenance", provenance_section(context, path)),
        Section("signature", "Signature", signature_section()),
    ]
