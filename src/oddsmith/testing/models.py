"""The contract of models: scikit-learn's checks and our own."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils import get_tags

from oddsmith import statistics as _register_all  # noqa: F401
from oddsmith.errors import OddsmithError, OddsmithWarning
from oddsmith.evaluation.model_output import has_proba
from oddsmith.models import MODELS
from oddsmith.models.base import Classifier
from oddsmith.numerics import Array
from oddsmith.records import Certificate, Trace
from oddsmith.testing.folds import leaves


def all_models() -> Iterator[Classifier]:
    """Yield an instance of every registered classifier, with its default parameters.

    >>> "LogisticRegression" in [type(model).__name__ for model in all_models()]
    True
    """
    for _, model in MODELS.items():
        yield model()


def check_model(model: Classifier) -> None:
    """Check a classifier with scikit-learn's checks, with none expected to fail, and against our own contract.

    1. `sklearn.utils.estimator_checks.check_estimator` passes.
    2. A fit on overlapping classes (two and three) gives finite weights and probabilities that sum to one.
    3. A model that minimises an objective has ``trace_`` and ``certificate_``.
    4. Repeating a fit gives bit-identical results.
    5. A failed first fit leaves nothing behind; a failed later fit leaves the earlier one unchanged; the error is one
       of this library.
    6. A fitted model holds no rows.

    >>> from oddsmith import LogisticRegression
    >>> check_model(LogisticRegression(prior=1.0))
    """
    several = get_tags(model).classifier_tags.multi_class
    with warnings.catch_warnings():
        # Checks fit random, separated and constant data: warnings of ours are right there, and not the point.
        warnings.simplefilter("ignore", OddsmithWarning)
        _check_scikit_learn(model)
        for K in (2, 3) if several else (2,):
            X, y = _overlapping(200, K)
            fitted = clone(model).fit(X, y)
            _check_fitted(fitted, X, K)
            again = clone(model).fit(X, y)
            for name, value in _state(fitted).items():
                assert name == "trace_" or _equal(value, getattr(again, name)), f"{name} differs when fitted again."
        _check_refusals(model)
        _check_size(model)


def _check_scikit_learn(model: Classifier) -> None:
    from sklearn.utils.estimator_checks import check_estimator

    results = check_estimator(clone(model), on_skip=None, on_fail=None)
    failed = [f"{r['check_name']}: {r['exception']!r}" for r in results if r["status"] not in ("passed", "skipped")]
    assert not failed, f"{model!r} fails scikit-learn's checks:\n" + "\n".join(failed)


def _overlapping(n: int, K: int) -> tuple[Array, npt.NDArray[Any]]:
    """Return rows whose classes, named by words, overlap."""
    rng = np.random.default_rng(K)
    t = np.arange(n) % K
    X = rng.normal(size=(n, 4)) + 0.7 * t[:, None] * np.array([1.0, -0.5, 0.0, 0.2])
    return X, np.array(["ash", "birch", "cedar"])[t]


def _check_fitted(model: Classifier, X: Array, K: int) -> None:
    name = type(model).__name__
    assert model.classes_.tolist() == ["ash", "birch", "cedar"][:K], f"{name}: classes_ are {model.classes_}."
    assert set(model.predict(X)) <= set(model.classes_), f"{name} predicts labels that it was not given."
    for attribute in ("coef_", "intercept_"):
        if hasattr(model, attribute):
            assert np.all(np.isfinite(getattr(model, attribute))), f"{name}: {attribute} is not finite."
    if has_proba(model):
        P = model.predict_proba(X)
        assert P.shape == (len(X), K) and np.all((P >= 0) & (P <= 1)), f"{name}: probabilities outside [0, 1]."
        assert np.allclose(P.sum(axis=1), 1.0, rtol=1e-12), f"{name}: probabilities do not sum to one."
        agree = model.classes_[P.argmax(axis=1)] == model.predict(X)
        assert np.all(agree), f"{name}: predict is not the most probable class."
    if "solver" in model.get_params():
        certificate, trace = getattr(model, "certificate_", None), getattr(model, "trace_", None)
        assert isinstance(certificate, Certificate), f"{name} has a solver and no certificate_."
        assert isinstance(trace, Trace) and len(trace) > 0, f"{name} has a solver and no trace_."
        assert certificate.gap >= 0.0 and certificate.optimum_exists, f"{name}: {certificate}"


def _check_refusals(model: Classifier) -> None:
    X, y = _overlapping(60, 2)
    hole, gap, one = X.copy(), y.astype(object), np.array(["ash"] * 60)
    hole[7, 1], gap[3] = np.nan, None
    refused: list[tuple[str, Any, Any]] = [
        ("infinity", np.where(np.isnan(hole), np.inf, hole), y),
        ("one class", X, one),
        ("y too short", X, y[:-1]),
        ("no rows", X[:0], y[:0]),
        ("no columns", X[:, :0], y),
        ("a missing label", X, gap),
    ]
    if not get_tags(model).input_tags.allow_nan:
        refused += [("NaN", hole, y), ("other columns and NaN", hole[:, :2], y)]
    for what, rows, labels in refused:
        fresh, fitted = clone(model), clone(model).fit(X, y)
        before, labelled = _state(fitted), fitted.predict(X)
        for instance in (fresh, fitted):
            try:
                instance.fit(rows, labels)
            except OddsmithError as error:
                assert isinstance(error, ValueError | TypeError), f"{what}: {type(error)} is no ValueError."
            else:
                raise AssertionError(f"{type(model).__name__} was fitted to {what}.")
        left = sorted(_state(fresh))
        assert not left, f"{type(model).__name__}, refused a first fit ({what}), is left with {left}."
        after = _state(fitted)
        changed = [name for name in before | after if not _equal(before.get(name), after.get(name))]
        assert not changed, f"{type(model).__name__}, refused a second fit ({what}), changed in {changed}."
        assert np.array_equal(fitted.predict(X), labelled), f"{type(model).__name__} predicts otherwise after {what}."


def _check_size(model: Classifier) -> None:
    small, large = (len(pickle.dumps(clone(model).fit(*_overlapping(n, 2)))) for n in (500, 5000))
    # Five thousand rows take 160 kB; a trace may be some records longer.
    assert large < small + 60_000, f"A fitted {type(model).__name__} grows with its rows: {small} → {large} bytes."


def _state(model: Classifier) -> dict[str, Any]:
    return {name: value for name, value in vars(model).items() if name.endswith("_") and not name.startswith("_")}


def _equal(a: object, b: object) -> bool:
    """Whether two fitted attributes are the same to the bit."""
    left, right = leaves(a), leaves(b)
    return left.keys() == right.keys() and all(np.array_equal(left[path], right[path]) for path in left)
