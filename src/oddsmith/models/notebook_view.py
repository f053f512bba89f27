"""The summary of a fitted model in a notebook, shown below scikit-learn's box."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from oddsmith.models.logistic import LogisticRegression
from oddsmith.models.multiclass import OneVsOne, OneVsRest
from oddsmith.models.perceptron import PerceptronClassifier
from oddsmith.models.recalibrated import RecalibratedClassifier
from oddsmith.models.selection_mixin import selected_columns
from oddsmith.records import Certificate, aligned_row

MOST_CLASSES, LONGEST = 6, 60


def fitted_facts(model: BaseEstimator, rows: float | None) -> dict[str, Any]:
    """Return classes, rows, prior, log loss and certificate of a fitted model, as far as it knows them.

    >>> model = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], ["no", "yes", "no", "yes"])
    >>> facts = fitted_facts(model, 4)
    >>> [facts[name] for name in ("classes", "rows", "prior", "log loss", "null log loss")]
    ['no, yes', '4', 'none', '0.5869', '0.6931']
    """
    labels = [str(label) for label in model.classes_[:MOST_CLASSES].tolist()]
    more = f" … ({len(model.classes_):,} in all)" if len(model.classes_) > MOST_CLASSES else ""
    facts = {"classes": ", ".join(labels) + more}
    if rows is not None:
        facts["rows"] = f"{rows:,.10g}"
    facts["columns"] = f"{model.n_features_in_:,}"
    parameters = model.get_params(deep=False)
    if "prior" in parameters:
        facts["prior"] = "none" if parameters["prior"] is None else _short(repr(parameters["prior"]))
    if isinstance(model, LogisticRegression) and model._learned is not None:
        weight = float(np.sum(model._learned.class_weight))
        facts["log loss"] = f"{-model.log_likelihood_ / weight:.4g}"
        facts["null log loss"] = f"{-model._learned.null_log_likelihood / weight:.4g}"
    selected = selected_columns(model)
    if selected is not None:
        facts["columns selected"] = f"{len(selected):,} of {model.coef_.shape[1]:,}"
    if isinstance(model, PerceptronClassifier):
        facts["wrong rows"] = f"{int(model.n_errors_):,}"
    found = list(_certificates(model))
    if found:
        facts["certificate"] = certificate_text(found)
    return facts


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _certificates(model: object) -> Iterator[Certificate]:
    if isinstance(model, RecalibratedClassifier):
        yield from _certificates(model._inner)
    elif isinstance(model, OneVsRest | OneVsOne):
        for part in model.models_.values():
            yield from _certificates(part)
    elif isinstance(model, LogisticRegression):
        yield model.certificate_


def certificate_text(found: list[Certificate]) -> str:
    """Return the certificates of a model, or of its parts, in a few words.

    >>> certificate_text([Certificate(converged=True, gap=3e-12, gradient_norm=0.0, condition=1.0, passes=5)])
    'at the optimum, gap ≤ 3e-12'
    """
    parts = "" if len(found) == 1 else f"{len(found)} parts: "
    if not all(c.optimum_exists for c in found):
        return f"{parts}no optimum, the classes are separated"
    gap = max(c.gap for c in found)
    about = f"gap {'≤' if all(c.rigorous for c in found) else '≈'} {gap:.2g}"
    return f"{parts}{'at the optimum' if all(c.converged for c in found) else 'NOT at the optimum'}, {about}"


def notebook_view(model: BaseEstimator, rows: float | None) -> str:
    """Return the facts of a fitted model as HTML, numbers right-aligned, with the plan of the fit below.

    >>> model = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])
    >>> notebook_view(model, 4).count("<th ")
    7
    """
    facts = fitted_facts(model, rows)
    text = [name in ("classes", "prior", "certificate") for name in facts]
    head, body = aligned_row(list(facts), text, "th"), aligned_row(list(facts.values()), text)
    plan = vars(model).get("plan_")
    below = f'<div style="font-size:90%">plan: {escape(str(plan))}</div>' if plan else ""
    return (
        f'<div class="oddsmith-fit" style="margin-top:6px"><table><thead>{head}</thead><tbody>{body}</tbody></table>'
        f"{below}</div>"
    )
