"""Random hostile problems for every registered model: huge and tiny scales, missing values, odd labels and parameters.

A problem ends well in one of two ways: a fit whose every prediction is a finite number, or an error of this library,
which is a sentence. Anything else is a finding: another library's exception, a warning of NumPy, NaN, infinity where a
number is promised, probabilities that do not sum to one. A problem is made from its number alone, so it can be run
again:

    python -m tests.hostile 20000              # problems 0 … 19,999
    python -m tests.hostile 20000 --start 512  # from 512 on
    python -m tests.hostile --only 512         # one of them, with its traceback
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from scipy import sparse

import oddsmith
from oddsmith.design.table import Design
from oddsmith.errors import OddsmithError, OddsmithWarning
from oddsmith.models import MODELS

Rng = np.random.Generator

SCALES = (
    1e-320,
    1e-308,
    1e-200,
    1e-155,
    1e-100,
    1e-30,
    1e-8,
    1.0,
    1.0,
    1.0,
    1e8,
    1e30,
    1e100,
    1e153,
    1e155,
    1e200,
    1e308,
)
SLOW = 10.0
"""Seconds beyond which a problem is a finding."""
STUCK = 20
"""Seconds after which it is stopped."""


@dataclass(frozen=True)
class Problem:
    """A model, rows, labels, weights and rows to predict, with the words that say how they were made."""

    model: Any
    X: Any
    y: Any
    fit: dict[str, Any]
    new: Any
    words: tuple[str, ...]


@dataclass(frozen=True)
class Finding:
    """What went wrong in a problem."""

    number: int
    where: str
    what: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.number}: {self.where}: {self.what}\n    {' | '.join(self.words)}"


def pick(rng: Rng, things: Any) -> Any:
    """Return one of some things."""
    return things[int(rng.integers(len(things)))]


# Rows


def plain_rows(rng: Rng) -> np.ndarray:
    n = int(pick(rng, (1, 2, 3, 5, 10, 20, 20, 40, 40, 60, 60)))
    return rng.normal(size=(n, int(pick(rng, (1, 1, 2, 3, 5, 12)))))


def scale_columns(rng: Rng, X: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return X * np.array([pick(rng, SCALES) for _ in range(X.shape[1])])


def scale_all(rng: Rng, X: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return X * pick(rng, SCALES)


def shift(rng: Rng, X: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return X + pick(rng, (1e3, -1e8, 1e12, 1e16, 1e100, 1e300))


def make_constant(rng: Rng, X: np.ndarray) -> np.ndarray:
    X[:, int(rng.integers(X.shape[1]))] = pick(rng, (0.0, 1.0, -1e9, 1e300, 5e-324))
    return X


def duplicate(rng: Rng, X: np.ndarray) -> np.ndarray:
    return np.column_stack([X, X[:, 0] * pick(rng, (1.0, -2.0, 1e-9))])


def all_same(rng: Rng, X: np.ndarray) -> np.ndarray:
    return np.repeat(X[:1], len(X), axis=0)


def put_bad_value(rng: Rng, X: np.ndarray) -> np.ndarray:
    X[int(rng.integers(len(X))), int(rng.integers(X.shape[1]))] = pick(rng, (np.nan, np.inf, -np.inf, 1.7e308, -0.0))
    return X


def missing_column(rng: Rng, X: np.ndarray) -> np.ndarray:
    X[:, 0] = np.nan
    return X


def outlier(rng: Rng, X: np.ndarray) -> np.ndarray:
    X[0, 0] = pick(rng, (1e6, 1e20, 1e150, 1e300))
    return X


def counts(rng: Rng, X: np.ndarray) -> np.ndarray:
    return rng.poisson(pick(rng, (0.1, 2.0, 1e6)), size=X.shape).astype(float)


def binary(rng: Rng, X: np.ndarray) -> np.ndarray:
    return (X > 0).astype(float)


def none(rng: Rng, X: np.ndarray) -> np.ndarray:
    return X


ROWS: tuple[Callable[[Rng, np.ndarray], np.ndarray], ...] = (
    *(none, none, none, scale_columns, scale_columns, scale_all, scale_all, shift, make_constant, duplicate, all_same),
    *(put_bad_value, missing_column, outlier, counts, binary),
)


# Containers


def as_objects(rng: Rng, X: np.ndarray) -> Any:
    Z = X.astype(object)
    if rng.random() < 0.5 and Z.size:
        Z[0, 0] = pick(rng, (None, "a", "1.5", {"a": 1}, [1], complex(1, 1), 10**400, pd.NA, np.float128(1)))
    return Z


def as_integers(rng: Rng, X: np.ndarray) -> Any:
    with np.errstate(all="ignore"):
        return np.clip(np.nan_to_num(X), -9e18, 9e18).astype(pick(rng, (np.int64, np.int8, np.uint64)))


def as_float16(rng: Rng, X: np.ndarray) -> Any:
    with np.errstate(all="ignore"):
        return X.astype(pick(rng, (np.float16, np.float32, np.longdouble)))


def as_bool(rng: Rng, X: np.ndarray) -> Any:
    return X > 0


def as_texts(rng: Rng, X: np.ndarray) -> Any:
    return X.astype(str)


def as_complex(rng: Rng, X: np.ndarray) -> Any:
    return X + 1j


def as_matrix(rng: Rng, X: np.ndarray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.matrix(X)


def as_masked(rng: Rng, X: np.ndarray) -> Any:
    return np.ma.masked_array(X, mask=X > 1)


def as_dates(rng: Rng, X: np.ndarray) -> Any:
    return np.full(X.shape, np.datetime64("2020-01-01"))


def as_fortran(rng: Rng, X: np.ndarray) -> Any:
    return np.asfortranarray(X)[:: int(pick(rng, (1, 1, 1)))]


def as_view(rng: Rng, X: np.ndarray) -> Any:
    return np.column_stack([X, X])[:, : X.shape[1]]


def as_readonly(rng: Rng, X: np.ndarray) -> Any:
    X.flags.writeable = False
    return X


def as_sparse(rng: Rng, X: np.ndarray) -> Any:
    X = np.where(rng.random(X.shape) < 0.6, 0.0, X)
    kind = pick(rng, ("csr", "csc", "coo", "lil", "dok", "bsr", "dia"))
    make = pick(rng, (getattr(sparse, f"{kind}_array"), getattr(sparse, f"{kind}_matrix")))
    return make(X)


def as_wild_sparse(rng: Rng, X: np.ndarray) -> Any:
    """A CSR matrix with stored zeros, unsorted and doubled entries, of int64 places or with no entry at all."""
    Z = sparse.csr_array(np.nan_to_num(X, posinf=1.0, neginf=-1.0))
    data, indices, indptr = np.repeat(Z.data / 2, 2), np.repeat(Z.indices, 2), Z.indptr * 2
    wild = sparse.csr_array((data, indices[::1].astype(np.int64), indptr.astype(np.int64)), shape=Z.shape)
    return sparse.csr_array(X.shape) if rng.random() < 0.3 else wild


def as_list(rng: Rng, X: np.ndarray) -> Any:
    return X.tolist() if rng.random() < 0.7 else [tuple(row) for row in X.tolist()]


def as_ragged(rng: Rng, X: np.ndarray) -> Any:
    return [[1.0] * int(rng.integers(0, 4)) for _ in X]


def as_wrong_shape(rng: Rng, X: np.ndarray) -> Any:
    return pick(
        rng,
        (
            X[:, 0],
            X[None],
            X[:0],
            X[:, :0],
            np.float64(1.0),
            np.empty((0, 0)),
            X.ravel(),
            X[:, 0].tolist(),
            [],
            None,
            "",
            (),
        ),
    )


def as_other(rng: Rng, X: np.ndarray) -> Any:
    return pick(
        rng,
        (
            {"a": X[:, 0]},
            {"a": 1},
            ["good film", "bad film"],
            np.array(["good film", "bad film"]),
            pl.DataFrame({"a": X[:, 0]}).lazy(),
            pd.Series(X[:, 0]),
            pl.Series(X[:, 0]),
            "y ~ x",
            "no_such_file.csv",
            iter([1]),
            (row for row in X),
            object(),
            3,
            b"bytes",
            set(),
            range(4),
            lambda: 1,
            type,
        ),
    )


def table_columns(rng: Rng, X: np.ndarray) -> dict[str, Any]:
    columns: dict[str, Any] = {f"c{j}": X[:, j] for j in range(X.shape[1])}
    n = len(X)
    if rng.random() < 0.5:
        columns["word"] = [pick(rng, ("a", "b", "ü", "", None)) for _ in range(n)]
    if rng.random() < 0.3:
        columns["flag"] = [pick(rng, (True, False)) for _ in range(n)]
    if rng.random() < 0.3:
        columns["id"] = [f"id{i}" for i in range(n)]
    return columns


def as_pandas(rng: Rng, X: np.ndarray) -> Any:
    frame = pd.DataFrame(table_columns(rng, X))
    extra: tuple[Callable[[], Any], ...] = (
        lambda: pd.cut(np.arange(len(X), dtype=float), 3) if len(X) > 1 else [1],
        lambda: pd.arrays.IntervalArray.from_breaks(np.arange(len(X) + 1)),
        lambda: pd.period_range("2020-01", periods=len(X), freq="M"),
        lambda: pd.timedelta_range("1h", periods=len(X)),
        lambda: pd.date_range("2020-01-01", periods=len(X), tz="UTC"),
        lambda: pd.array([1] * len(X), dtype="Int64"),
        lambda: pd.array([pd.NA] * len(X), dtype="Float64"),
        lambda: pd.Categorical(["a"] * len(X), categories=["a", "b"]),
        lambda: [object() for _ in range(len(X))],
        lambda: [[1, 2]] * len(X),
        lambda: [1j] * len(X),
        lambda: pd.arrays.SparseArray(np.zeros(len(X))),
        lambda: [1, "a", 2.5, None, (1,)][: len(X)] + [0] * max(0, len(X) - 5),
    )
    if rng.random() < 0.6:
        frame["extra"] = pick(rng, extra)()
    way = rng.random()
    if way < 0.1:
        frame.columns = range(frame.shape[1])
    elif way < 0.2:
        frame.columns = ["same"] * frame.shape[1]
    elif way < 0.25:
        frame.columns = pd.MultiIndex.from_tuples([("a", j) for j in range(frame.shape[1])])
    elif way < 0.3:
        frame.index = [0] * len(frame)
    return frame


def as_polars(rng: Rng, X: np.ndarray) -> Any:
    columns = table_columns(rng, X)
    frame = pl.DataFrame(columns, strict=False)
    extra = (pl.lit(None), pl.lit([1, 2]), pl.lit(18262).cast(pl.Date), pl.lit(b"x"), pl.lit(1).cast(pl.Decimal(10, 2)))
    return frame.with_columns(pick(rng, extra).alias("extra")) if rng.random() < 0.5 else frame


def as_arrow(rng: Rng, X: np.ndarray) -> Any:
    table = pl.DataFrame(table_columns(rng, X), strict=False).to_arrow()
    return table if rng.random() < 0.7 else table.append_column("n", pa.nulls(len(X)))


CONTAINERS: tuple[Callable[[Rng, np.ndarray], Any], ...] = (
    *(none,) * 14,
    *(as_objects, as_integers, as_float16, as_bool, as_texts, as_complex, as_matrix, as_masked, as_dates, as_fortran),
    *(
        as_view,
        as_readonly,
        as_sparse,
        as_sparse,
        as_sparse,
        as_wild_sparse,
        as_list,
        as_ragged,
        as_wrong_shape,
        as_other,
    ),
    *(as_pandas, as_pandas, as_polars, as_arrow),
)


# Labels, weights, offsets


def labels(rng: Rng, n: int, K: int) -> tuple[Any, str]:
    t = rng.integers(0, K, n)
    t[: min(n, K)] = np.arange(K)[: min(n, K)]
    words = np.array(["a", "b", "c", "ä" * 40, ""])
    ways: tuple[tuple[str, Callable[[], Any]], ...] = (
        *((("codes", lambda: t)),) * 8,
        *((("words", lambda: words[t % 5])),) * 3,
        ("objects", lambda: words[t % 5].astype(object)),
        ("floats", lambda: t * 0.5),
        ("whole floats", lambda: t.astype(float)),
        ("huge", lambda: t * (2**62)),
        ("huge floats", lambda: t * 1e300),
        ("bool", lambda: t > 0),
        ("one class", lambda: np.zeros(n, dtype=int)),
        ("rare class", lambda: np.arange(n) == 0),
        ("every row its own", lambda: np.arange(n) % 15),
        ("NaN", lambda: np.where(t == 0, np.nan, t)),
        ("None", lambda: [None, *t.tolist()[1:]] if n else []),
        ("mixed", lambda: ["a", *t.tolist()[1:]] if n else []),
        ("too short", lambda: t[: n // 2]),
        ("matrix", lambda: np.column_stack([t, t])),
        ("column", lambda: t[:, None]),
        ("missing", lambda: None),
        ("a name", lambda: "c0"),
        ("dates", lambda: np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]")[t % 2]),
        ("bytes", lambda: np.array([b"a", b"b"])[t % 2]),
        ("tuples", lambda: [(int(k), 1) for k in t]),
        ("series", lambda: pd.Series(words[t % 5])),
        ("categorical", lambda: pd.Series(pd.Categorical(words[t % 5]))),
        ("polars", lambda: pl.Series(t)),
        ("complex", lambda: t + 1j),
        ("a number", lambda: 1),
        ("a set", lambda: set(t.tolist())),
        ("a dict", lambda: {"y": t}),
        ("list", lambda: t.tolist()),
    )
    name, make = pick(rng, ways)
    return make(), name


def calm_labels(rng: Rng, X: np.ndarray, K: int) -> Any:
    """Labels 0 … K − 1, each of which occurs where there are rows enough; separated, overlapping or at random."""
    n = len(X)
    with np.errstate(all="ignore"):
        score = np.argsort(np.argsort(np.nan_to_num(X[:, 0]) if rng.random() < 0.3 else rng.normal(size=n)))
    return (score * K // max(n, 1)).astype(int)


def fit_arguments(rng: Rng, n: int, K: int) -> dict[str, Any]:
    """Weights and offsets, mostly none."""
    given: dict[str, Any] = {}
    way = rng.random()
    if way < 0.7:
        with np.errstate(all="ignore"):
            given["sample_weight"] = pick(
                rng,
                (
                    rng.random(n),
                    rng.integers(0, 2, n).astype(float),
                    np.zeros(n),
                    np.full(n, 1e300),
                    np.full(n, 1e-300),
                    np.full(n, 5e-324),
                    10.0 ** rng.uniform(-200, 200, n),
                    np.append(np.full(max(n - 1, 0), 1e-200), 1e200)[:n],
                    -np.ones(n),
                    np.full(n, np.nan),
                    np.full(n, np.inf),
                    np.ones(n + 1),
                    np.ones((n, 1)),
                    np.ones(n, dtype=object),
                    2,
                    0,
                    "balanced",
                    "c0",
                    ["a"] * n,
                    None,
                    {},
                    True,
                ),
            )
    return given


def offsets(rng: Rng, n: int, K: int) -> dict[str, Any]:
    with np.errstate(all="ignore"):
        return {
            "offset": pick(
                rng,
                (
                    rng.normal(size=n if K == 2 else (n, K)),
                    np.full(n if K == 2 else (n, K), 1e3),
                    rng.normal(size=n if K == 2 else (n, K)) * 1e300,
                    np.full(n, 1e8),
                    np.full(n, np.nan),
                    np.ones(n + 1),
                    "c0",
                    5,
                ),
            )
        }


# Models and their parameters


ODD = (
    None,
    0,
    -1,
    1,
    2,
    0.5,
    1e-300,
    1e300,
    float("nan"),
    float("inf"),
    "auto",
    "x",
    True,
    False,
    [],
    {},
    object(),
    (1, 2),
)

CHOICES: dict[str, tuple[Any, ...]] = {
    "prior": (
        *(None, 1.0, 1e-6, 1e6, 1e-60, 1e60, 1e150, 1e-150, 1e-320),
        oddsmith.JeffreysPrior(),
        oddsmith.GaussianPrior("evidence"),
        oddsmith.GaussianPrior("loo"),
        oddsmith.GaussianPrior("cv"),
        oddsmith.GaussianPrior("evidence", groups="each"),
        oddsmith.GaussianPrior(1.0, mean=1e100),
        oddsmith.GaussianPrior(covariance=np.array([[1.0, 1.0], [1.0, 1.0]])),
        oddsmith.GaussianPrior(covariance=-1.0),
        oddsmith.GaussianPrior(np.nan),
    ),
    "link": ("logit", "logit", "probit", "cloglog", "loglog", "cauchit", "log", "identity"),
    "basis": (
        *(None, None, None),
        oddsmith.Standardize(),
        oddsmith.Standardize(center=False),
        oddsmith.Polynomial(2),
        oddsmith.Polynomial(3),
        oddsmith.Polynomial(40),
        oddsmith.RadialBasis(3, 1.0),
        oddsmith.RadialBasis(),
        oddsmith.RadialBasis(2, 1e-300),
        oddsmith.RadialBasis(2, 1e300),
        oddsmith.GaussianKernel(),
        oddsmith.GaussianKernel(1.0, landmarks=3),
        oddsmith.Spline(),
        oddsmith.Spline(4),
        [oddsmith.Standardize(), oddsmith.Polynomial(2)],
        [],
    ),
    "solver": ("auto", "auto", "newton", "truncated-newton", "gradient", "sgd", "lbfgs"),
    "tol": (1e-8, 1e-2, 1e-15, 0.999),
    "max_iter": (200, 1, 2, 5),
    "max_epochs": (200, 1, 3),
    "covariance": (
        "shared",
        "separate",
        "diagonal",
        "spherical",
        "shared-diagonal",
        "shared-spherical",
        {0: "a", 1: "a"},
    ),
    "shrinkage": (0.0, 0.1, 1.0, "oas", 1e-300),
    "class_prior": (None, [0.5, 0.5], {0: 0.3, 1: 0.7}, [0.2, 0.3, 0.5], [1e-300, 1.0], [0.0, 1.0]),
    "class_weight": (None, None, "balanced", {0: 2.0}, {"a": 3}, {0: 1e300, 1: 1e-300}, {0: 0}),
    "features": (
        "auto",
        "gaussian",
        "bernoulli",
        "categorical",
        "poisson",
        "multinomial",
        {0: "poisson"},
        ["gaussian"],
    ),
    "smoothing": (1.0, 0.0, 1e-300, 1e300),
    "variance_smoothing": (1e-9, 0.0, 1e-300, 1e300),
    "n_components": (None, 1, 2, 100),
    "targets": ("one-hot", "fisher"),
    "step_size": (1.0, 1e-300, 1e300),
    "fit_intercept": (True, False),
    "method": ("logistic", "temperature", "isotonic"),
    "cv": (5, 2, 100),
    "reference": (None, 0, "a", 7),
    "warm_start": (False, True),
    "missing": ("auto", "marginalise"),
    "design": (
        *(None, None, None),
        Design(missing="indicator"),
        Design(missing="drop"),
        Design(unseen="reference"),
        Design(formula="c0"),
    ),
    "n_jobs": (None, 2),
    "threads": (None, 1, 3),
    "seed": (None, 0, 1),
}


def make_model(rng: Rng, kind: type[Any]) -> Any:
    known = list(kind().get_params(deep=False))
    given: dict[str, Any] = {}
    for name in known:
        if name == "model" and rng.random() < 0.5:
            inner = pick(rng, [k for n, k in MODELS.items() if n not in ("one-vs-one", "one-vs-rest", "recalibrated")])
            given[name] = make_model(rng, inner)
        elif name in CHOICES and rng.random() < (0.01 if name == "design" else 0.13):
            given[name] = pick(rng, CHOICES[name])
        elif rng.random() < 0.008:
            given[name] = pick(rng, ODD)
    return kind(**given)


def make_problem(number: int) -> Problem:
    """Return the problem of a number: hostile in some respects, calm in the others, so that many fits get through."""
    rng = np.random.default_rng([20_261_117, number])
    kinds = [kind for _, kind in MODELS.items()]
    wild = rng.random(4) < (0.25, 0.25, 0.3, 0.75)  # container, labels, weights, rows
    model = make_model(rng, kinds[number % len(kinds)])
    words = [repr(model)]
    X = plain_rows(rng)
    for _ in range(int(pick(rng, (1, 1, 2))) if wild[3] else 0):
        change = pick(rng, ROWS)
        X = change(rng, X)
        words.append(change.__name__)
    n, K = len(X), int(pick(rng, (2, 2, 2, 3, 4)))
    y, what = labels(rng, n, K) if wild[1] else (calm_labels(rng, X, K), "calm")
    words.append(f"y {what}")
    no_weights = isinstance(model, oddsmith.PerceptronClassifier) or not wild[2]
    given = {} if no_weights else fit_arguments(rng, n, K)
    if isinstance(model, oddsmith.LogisticRegression) and rng.random() < 0.1:
        given |= offsets(rng, n, K)
    for name, value in given.items():
        words.append(f"{name} {value!r:.60}")
    # Rows that are new: the same, others, huge ones, bad ones.
    new = pick(rng, (none, none, scale_all, scale_columns, outlier, put_bad_value, shift))
    Z = new(rng, X.copy())
    container = pick(rng, CONTAINERS) if wild[0] else none
    words += [container.__name__, f"new {new.__name__}", f"{X.shape}"]
    state = rng.bit_generator.state
    rows = container(rng, X.copy())
    rng.bit_generator.state = state
    return Problem(model, rows, y, given, container(rng, Z), tuple(words))


# Verdicts


def numbers(value: Any) -> np.ndarray:
    return np.asarray(value, dtype=np.float64)


def check_fit(problem: Problem) -> None:
    """Fit, and look at what was estimated."""
    model = problem.model
    found = model.fit(problem.X, problem.y, **problem.fit)
    assert found is model, "fit returned something else"
    for name in ("coef_", "intercept_", "class_prior_", "means_", "log_likelihood_"):
        value = getattr(model, name, None)
        assert value is None or not np.isnan(numbers(value)).any(), f"{name} holds NaN"


def check_predictions(problem: Problem, rows: Any) -> None:
    """Predict, and look for NaN."""
    model = problem.model
    predicted = model.predict(rows)
    n = len(predicted)
    assert set(predicted.tolist()) <= set(model.classes_.tolist()), "a label that is none"
    values = numbers(model.decision_function(rows))
    assert not np.isnan(values).any(), "decision_function holds NaN"
    assert len(values) == n, "decision_function has another length"
    if not hasattr(model, "predict_proba"):
        return
    P = numbers(model.predict_proba(rows))
    assert P.shape == (n, len(model.classes_)), "predict_proba has another shape"
    assert np.isfinite(P).all(), "predict_proba holds NaN"
    assert (np.abs(P.sum(axis=1) - 1.0) < 1e-6).all(), "probabilities do not sum to one"
    assert (P >= 0).all(), "a probability is negative"
    L = model.predict_log_proba(rows) if hasattr(model, "predict_log_proba") else np.zeros(1)
    assert not np.isnan(numbers(L)).any(), "predict_log_proba holds NaN"


def check_further(problem: Problem) -> None:
    """Call what else the model has: other priors, densities, samples, geometry, inference, a file."""
    model, rows = problem.model, problem.X
    model.score(rows, problem.y)
    if hasattr(model, "with_class_prior"):
        K = len(model.classes_)
        other = model.with_class_prior(dict.fromkeys(model.classes_.tolist(), 1.0 / K))
        assert np.isfinite(numbers(other.predict_proba(rows))).all(), "with_class_prior gives NaN"
        model.decide(rows, loss=1.0 - np.eye(K), reject=0.1)
    if hasattr(model, "log_density"):
        assert not np.isnan(numbers(model.log_density(rows))).any(), "log_density holds NaN"
        with suppress(OddsmithError):
            model.sample(3, seed=0)
    if hasattr(model, "boundary_"):
        model.distance(rows)
    if isinstance(model, oddsmith.LogisticRegression):
        for ask in (
            model.summary,
            lambda: model.predictive(rows),
            lambda: model.log_evidence_,
            lambda: model.posterior_.mean,
        ):
            with suppress(OddsmithError):
                ask()
        given = {name: value for name, value in problem.fit.items() if name in ("sample_weight", "offset")}
        with suppress(OddsmithError):
            model.leave_one_out(rows, problem.y, **given)  # NaN for a row without which there is no optimum
    with suppress(OddsmithError), tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/m.odds")
        loaded = oddsmith.load(f"{folder}/m.odds")
        assert np.array_equal(loaded.predict(rows), model.predict(rows)), "a loaded model predicts otherwise"


STEPS: tuple[tuple[str, Callable[[Problem], None]], ...] = (
    ("fit", check_fit),
    ("predict the rows of the fit", lambda problem: check_predictions(problem, problem.X)),
    ("predict other rows", lambda problem: check_predictions(problem, problem.new)),
    ("further methods", check_further),
)


def run(number: int) -> Finding | None:
    """Return what is wrong with a problem, None if all is well."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem = make_problem(number)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", OddsmithWarning)
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", FutureWarning)
        for where, step in STEPS:
            try:
                step(problem)
            except OddsmithError as error:
                text = str(error)
                if len(text) < 20 or not text.rstrip().endswith((".", "?", ")", "]")) or len(text) > 3000:
                    return Finding(number, where, f"no sentence: {text[:200]!r}", problem.words)
                if where == "fit":
                    break
            except Exception as error:
                frames = traceback.extract_tb(error.__traceback__)
                place = [frame for frame in frames if "/oddsmith/" in frame.filename or frame is frames[0]][-1]
                at = f"{place.filename.rpartition('/')[2]}:{place.lineno}"
                return Finding(number, where, f"{type(error).__name__} at {at}: {str(error)[:200]}", problem.words)
    seconds = time.perf_counter() - began
    return Finding(number, "all", f"took {seconds:.1f} s", problem.words) if seconds > SLOW else None


def stop(signum: int, frame: object) -> None:
    raise TimeoutError(f"still running after {STUCK} s")


def findings(count: int, start: int = 0, tell: Callable[[int], None] = lambda done: None) -> Iterator[Finding]:
    """Yield the findings of some problems."""
    if hasattr(signal, "SIGALRM") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGALRM, stop)
    for number in range(start, start + count):
        with suppress(AttributeError):
            signal.alarm(STUCK)
        found = run(number)
        with suppress(AttributeError):
            signal.alarm(0)
        if found is not None:
            yield found
        tell(number + 1 - start)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description="Run random hostile problems.")
    parser.add_argument("count", type=int, nargs="?", default=300)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--only", type=int)
    given = parser.parse_args()
    if given.only is not None:
        problem = make_problem(given.only)
        print(*problem.words, sep="\n")
        warnings.simplefilter("error", RuntimeWarning)
        for where, step in STEPS:
            print(where)
            try:
                step(problem)
            except OddsmithError as error:
                print(f"  {type(error).__name__}: {error}")
        return 0

    def tell(done: int) -> None:
        if done % 1000 == 0:
            print(f"{done:,} of {given.count:,}", file=sys.stderr, flush=True)

    kinds: Counter[str] = Counter()
    for found in findings(given.count, given.start, tell):
        print(found, flush=True)
        kinds[found.what] += 1
    print(f"{given.count:,} problems, {kinds.total():,} findings of {len(kinds):,} kinds")
    return int(bool(kinds))


if __name__ == "__main__":
    sys.exit(main())
