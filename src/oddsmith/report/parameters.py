"""The parameters of a model without a summary: its weights, or the parameters of its densities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oddsmith.models.base import Classifier
from oddsmith.models.fisher import FisherDiscriminant
from oddsmith.models.gaussian import GaussianClassifier
from oddsmith.models.multiclass import OneVsOne, OneVsRest
from oddsmith.models.naive_bayes import NaiveBayes
from oddsmith.numerics import Array


def coefficients(model: Classifier) -> Array | None:
    """Return the weights of a linear model, None for others."""
    return getattr(model, "coef_", None)


def class_prior(model: Classifier) -> Array | None:
    """Return the class prior that a model knows, None if it knows none."""
    return getattr(model, "class_prior_", None)


def part_name(key: object) -> str:
    """Return the name of a part of a model: its class, or its pair of classes."""
    return " | ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def parameter_table(model: Classifier) -> dict[str, list[Any]]:
    """Return the parameters of a fitted model, class by class: ``class``, ``term``, ``parameter``, ``value``.

    >>> from oddsmith import GaussianClassifier
    >>> parameter_table(GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["a", "a", "b", "b"]))["term"]
    ['(intercept)', 'x0']
    """
    classes = [str(label) for label in model.classes_.tolist()]
    names, coef = [str(name) for name in model._names()], coefficients(model)
    if coef is not None and len(names) == coef.shape[1]:
        labels = classes if len(coef) == len(classes) else classes[-1:]
        if len(coef) > 1 and isinstance(model, OneVsRest | OneVsOne):
            labels = list(map(part_name, model.models_))
        rows = [
            (label, term, "weight", float(value))
            for label, row, start in zip(labels, coef, model.intercept_, strict=True)
            for term, value in [("(intercept)", start), *zip(names, row, strict=True)]
        ]
    else:
        rows = [row for k, label in enumerate(classes) for row in _density(model, names, k, label)]
    columns = ("class", "term", "parameter", "value")
    return {name: [row[i] for row in rows] for i, name in enumerate(columns)}


def _density(model: Classifier, names: list[str], k: int, label: str) -> Iterator[tuple[str, str, str, float]]:
    """Yield the parameters of class k: its share, then the parameters of each column."""
    prior = class_prior(model)
    if prior is not None:
        yield label, "(class)", "share", float(prior[k])
    if isinstance(model, NaiveBayes):
        for column, parameters in model.parameters_.items():
            levels = model.levels_.get(column)
            for parameter, values in parameters.items():
                if levels is None:
                    yield label, str(column), parameter, float(values[k])
                else:
                    for level, value in zip(levels, values[k], strict=True):
                        yield label, f"{column}[{level}]", parameter, float(value)
    if isinstance(model, GaussianClassifier | FisherDiscriminant):
        for j, name in enumerate(names):
            yield label, name, "mean", float(model.means_[k, j])
