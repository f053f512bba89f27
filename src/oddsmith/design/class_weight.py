"""Weights of rows, and class weights: a factor on the weights of the rows of each class."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from oddsmith.design.input_errors import explain_numbers, negative_weights, nonfinite_numbers
from oddsmith.design.inputs import Codes, as_array, check_two_classes
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError, as_input_errors
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


def leave_out(present: npt.NDArray[np.bool_], classes: Labels, t: Codes) -> tuple[Labels, Codes]:
    """Return the classes of the rows that are ``present``, and the code of each row's class; others have any of them.

    >>> leave_out(np.array([True, False, True]), np.array(["a", "b", "c"]), np.array([0, 1, 2], dtype=np.int8))
    (array(['a', 'c'], dtype='<U1'), array([0, 0, 1], dtype=int8))
    """
    from oddsmith.kernels.texts import count_codes

    np.copyto(t, t[np.argmax(present)], where=~present)
    kept = np.flatnonzero(count_codes(t, len(classes))[1:])
    check_two_classes(classes[kept])
    return classes[kept], t if len(kept) == len(classes) else np.searchsorted(kept, t).astype(t.dtype)


def read_weights(sample_weight: object, n_rows: int) -> Array | None:
    """Return checked weights in float64, or None for all ones."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, str):
        advice = "For rows in memory pass the weights themselves, such as table['weight']."
        if sample_weight == "balanced":
            advice = "Weights by class are a parameter of the model: LogisticRegression(class_weight='balanced')."
        raise InvalidTypeError(f"sample_weight is the text {sample_weight!r}; expected a weight for each row. {advice}")
    with as_input_errors(partial(explain_numbers, "sample_weight")):
        if np.isscalar(sample_weight):
            sample_weight = np.full(n_rows, sample_weight)
        s = np.asarray(as_array(sample_weight), dtype=np.float64)
    if s.shape != (n_rows,):
        raise InvalidInputError(f"sample_weight has shape {s.shape}; expected ({n_rows},), one weight per row.")
    if not np.isfinite(s).all():
        raise nonfinite_numbers("sample_weight", s, "a weight")
    if (s < 0).any():
        raise negative_weights(s)
    if not s.any():
        raise InvalidInputError("All sample weights are zero: nothing is left to fit.")
    return s


LEAST_SHARE = 1e-100  # Minimum share of the total weight for a class: squares must stay in range.
LEAST_WEIGHT = 1e-250  # Minimum total weight.


def check_class_weights(weight: Array, classes: Labels) -> None:
    """Refuse a class whose rows all have weight zero."""
    values = weight.tolist()
    least, most, total = min(values), max(values), sum(values)
    if least <= 0.0:
        empty = classes.tolist()[int(np.argmax(weight <= 0))]
        raise InvalidInputError(
            f"All rows of class {empty!r} have sample weight 0. Leave these rows out, or give them weight."
        )
    if least < LEAST_SHARE * total or not LEAST_WEIGHT < total < 1.0 / LEAST_SHARE:
        lightest, heaviest = classes.tolist()[int(weight.argmin())], classes.tolist()[int(weight.argmax())]
        raise InvalidInputError(
            f"The weights of the rows add up to {least:.3g} in class {lightest!r} and to {most:.3g} in "
            f"class {heaviest!r}, which is out of range. Give weights near one, and classes that differ by less."
        )
