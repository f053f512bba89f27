"""What a model without a summary has learned: its weights, or the parameters of its densities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def learned_parameters(model: Any) -> dict[str, list[Any]]:
    """Return the parameters of a fitted model, class by class: ``class``, ``term``, ``parameter``, ``value``.

    >>> from oddsmith import GaussianClassifier
    >>> learned_parameters(GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["a", "a", "b", "b"]))["term"]
    ['(intercept)', 'x0']
    """
    classes = [str(label) for label in model.classes_.tolist()]
    names = [str(name) for name in model._names()] if hasattr(model, "_names") else []
    if hasattr(model, "coef_") and len(names) == model.coef_.shape[1]:
        labels = classes if len(model.coef_) == len(classes) else classes[-1:]
        if len(model.coef_) > 1 and hasattr(model, "models_"):  # of each class, or of each pair of classes
            labels = [" | ".join(map(str, key)) if isinstance(key, tuple) else str(key) for key in model.models_]
        rows = [
            (label, term, "weight", float(value))
            for label, row, start in zip(labels, model.coef_, model.intercept_, strict=True)
            for term, value in [("(intercept)", start), *zip(names, row, strict=True)]
        ]
    else:
        rows = [row for k, label in enumerate(classes) for row in _density(model, names, k, label)]
    columns = ("class", "term", "parameter", "value")
    return {name: [row[i] for row in rows] for i, name in enumerate(columns)}


def _density(model: Any, names: list[str], k: int, label: str) -> Iterator[tuple[str, str, str, float]]:
    """Yield what is known of class k: its share, then the parameters of each column."""
    if getattr(model, "class_prior_", None) is not None:
        yield label, "(class)", "share", float(model.class_prior_[k])
    for column, parameters in getattr(model, "parameters_", {}).items():
        levels = getattr(model, "levels_", {}).get(column)
        for parameter, values in parameters.items():
            if levels is None:
                yield label, str(column), parameter, float(values[k])
            else:
                for level, value in zip(levels, values[k], strict=True):
                    yield label, f"{column}[{level}]", parameter, float(value)
    if hasattr(model, "means_"):
        for j, name in enumerate(names):
            yield label, name, "mean", float(model.means_[k, j])
