"""Class weights: a factor on the sample weights of each class."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from sklearn.base import BaseEstimator

from oddsmith.design.inputs import Codes
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.numerics import Array
from oddsmith.protocols import Labels

BALANCED = "balanced"


def read_class_weight(given: object, classes: Labels, weight: Array, *, partial: bool = False) -> Array | None:
    """Return the factor of each class, from ``"balanced"`` or {class: factor}; None: no factors.

    ``weight`` is the total weight of the rows of each class; ``"balanced"`` gives all classes the same total without
    changing the overall total. Classes missing from a mapping have factor 1. For ``partial`` data, a mapping may name
    classes that appear later, and the totals are unknown.

    >>> read_class_weight("balanced", np.array(["no", "yes"]), np.array([90.0, 10.0])).round(3).tolist()
    [0.556, 5.0]
    >>> read_class_weight({"yes": 9}, np.array(["no", "yes"]), np.array([90.0, 10.0])).tolist()
    [1.0, 9.0]
    """
    if given is None:
        return None
    if isinstance(given, str):
        if given != BALANCED:
            raise UnknownNameError("class_weight", given, [BALANCED, "{class: weight}"])
        if partial:
            raise InvalidInputError(
                "class_weight='balanced' needs the class counts of all rows, and partial_fit sees a part of them. Give "
                "the weights as a dictionary, class_weight={class: weight}."
            )
        return np.asarray(weight.sum() / (len(weight) * np.where(weight > 0, weight, np.inf)))
    if not isinstance(given, Mapping):
        raise InvalidTypeError(
            f"class_weight must be None, 'balanced' or a dictionary {{class: weight}}, found {given!r:.80}."
        )
    labels = classes.tolist()
    for name in given:
        if name not in labels and not partial:
            raise UnknownNameError("class in class_weight", name, labels)
    values = [given.get(label, 1.0) for label in labels]
    bad = [(label, value) for label, value in zip(labels, values, strict=True) if not _is_positive(value)]
    if bad:
        label, value = bad[0]
        raise InvalidInputError(
            f"class_weight gives class {label!r} the weight {value!r:.60}; expected a positive number. To leave a "
            "class out, leave its rows out."
        )
    return np.array(values, dtype=np.float64)


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and 0 < float(value) < np.inf


def learn_class_weight(
    model: BaseEstimator, classes: Labels, weight: Array, *, reset: bool = True, partial: bool = False
) -> Array | None:
    """Return the factors of a model's classes and store them on it (``class_weight_``), if it has class weights.

    Without ``reset``, they are the factors of the fit, whatever the rows here.
    """
    if not reset:
        found = vars(model).get("class_weight_")
        factors = {} if found is None else dict(zip(model.classes_.tolist(), found.tolist(), strict=True))
        return None if found is None else np.array([factors.get(label, 1.0) for label in classes.tolist()])
    learned = read_class_weight(vars(model).get("class_weight"), classes, weight, partial=partial)
    model.__dict__.pop("class_weight_", None)
    if learned is not None:
        model.class_weight_ = learned
    return learned


def sample_weight_sum(model: BaseEstimator, weight: Array) -> float:
    """Return the total of the sample weights of a fit, from the weight of each class with its factor.

    >>> from oddsmith import LogisticRegression
    >>> model = LogisticRegression(class_weight={1: 3}).fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])
    >>> sample_weight_sum(model, np.array([2.0, 6.0]))
    4.0
    """
    factors = vars(model).get("class_weight_")
    return float((weight if factors is None else weight / factors).sum())


def weigh_classes(
    model: BaseEstimator, classes: Labels, t: Codes, s: Array | None, *, reset: bool = True, partial: bool = False
) -> Array | None:
    """Return the weights of rows, multiplied by the factors of their classes where the model has some.

    >>> from oddsmith import LogisticRegression
    >>> model, t = LogisticRegression(class_weight="balanced"), np.array([0, 0, 0, 1], dtype=np.int32)
    >>> weigh_classes(model, np.array(["a", "b"]), t, None).round(3).tolist()
    [0.667, 0.667, 0.667, 2.0]
    """
    if reset and vars(model).get("class_weight") is None:
        model.__dict__.pop("class_weight_", None)
        return s
    weight = np.bincount(t, weights=s, minlength=len(classes)).astype(np.float64)
    return multiply(s, t, learn_class_weight(model, classes, weight, reset=reset, partial=partial))


def multiply(s: Array | None, t: Codes, factors: Array | None) -> Array | None:
    """Return weights times the factors of the rows' classes; None: all ones.

    >>> multiply(None, np.array([1, 0], dtype=np.int32), np.array([1.0, 3.0])).tolist()
    [3.0, 1.0]
    """
    if factors is None:
        return s
    product = np.asarray(factors[t], dtype=np.float64)
    if s is not None:
        with np.errstate(over="ignore", under="ignore"):
            product = product * s
        if not np.isfinite(product).all() or ((product == 0) & (s > 0)).any():
            raise InvalidInputError(
                "sample_weight times class_weight exceeds the range of floating point. Divide the weights by a "
                "constant."
            )
    return product
