"""Random models of all kinds, and all that can be asked of one: for tests that save and load them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import get_tags

from oddsmith import (
    GaussianPrior,
    JeffreysPrior,
    NaiveBayes,
    Polynomial,
    RecalibratedClassifier,
    Standardize,
    recalibrate,
)
from oddsmith.design.basis import BASES
from oddsmith.errors import OddsmithError, OddsmithWarning
from oddsmith.models import MODELS
from oddsmith.solvers import SOLVERS

N, D = 60, 3
LABELS: dict[str, Any] = {
    "int64": np.array([-1, 0, 7]),
    "int8": np.array([1, 2, 3], dtype=np.int8),
    "uint8": np.array([1, 2, 255], dtype=np.uint8),
    "big-endian": np.array([10, 20, 30], dtype=">i4"),
    "float64": np.array([0.0, 1.0, 2.0]),
    "float32": np.array([0.0, 1.0, 2.0], dtype=np.float32),
    "bool": np.array([False, True]),
    "str": np.array(["no", "yes", "čau"]),
    "object": np.array(["no", "so-so", "yes"], dtype=object),
    "strings": np.array(["no", "so-so", "yes"], dtype=np.dtypes.StringDType()),
    "bytes": np.array([b"no", b"so", b"yes"]),
    "date": np.array(["2020-01-01", "2021-01-01", "2022-01-01"], dtype="datetime64[D]"),
    "time": np.array([1, 2, 3], dtype="datetime64[ns]"),
    "duration": np.array([1, 2, 3], dtype="timedelta64[s]"),
}
PRIORS: list[Any] = [
    *(
        None,
        None,
        1.0,
        np.float32(2.0),
        GaussianPrior(scale=2.0, mean=0.1),
        GaussianPrior(covariance=np.eye(D + 1) * 3),
    ),
    *(GaussianPrior(scale="evidence"), GaussianPrior(scale="loo"), GaussianPrior(scale="cv")),
    *(JeffreysPrior(), JeffreysPrior(gaussian=2.5)),
]
LINKS = ["logit", "logit", "probit", "cloglog", "loglog", "cauchit"]
METHODS = ["logistic", "temperature", "isotonic"]
COVARIANCES = ["shared", "separate", "diagonal", "spherical"]


def random_model(kind: str, rng: np.random.Generator) -> tuple[str, Any, Any, Any]:
    """Return a description, a fitted model of a registered kind, rows and labels."""
    while True:
        said, model = _parameters(kind, rng)
        labels = str(rng.choice(list(LABELS)))
        K = 2 if labels == "bool" or not get_tags(model).classifier_tags.multi_class else int(rng.integers(2, 4))
        t = rng.permutation(np.arange(N) % K)
        values = rng.normal(size=(N, D)) + 0.7 * t[:, None] * np.array([1.0, -0.5, 0.2])
        shape, X = _shaped(values, rng)
        y = LABELS[labels][:K][t]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", OddsmithWarning)
                after, model = _later(model.fit(X, y), X, y, rng)
        except OddsmithError:
            continue  # not every model takes every prior, link and table
        return f"{kind} {said} labels={labels} K={K} X={shape} {after}", model, X, y


def _parameters(kind: str, rng: np.random.Generator) -> tuple[dict[str, Any], Any]:
    def pick(options: Any) -> Any:
        return options[int(rng.integers(len(options)))]

    bases = [None, None, *(basis() for _, basis in BASES.items()), [Standardize(), Polynomial(2)]]
    choices = {
        "basis": bases,
        "prior": PRIORS,
        "link": LINKS,
        "method": METHODS,
        "covariance": COVARIANCES,
        "fit_intercept": [True, True, False],
        "solver": ["auto", "auto", *(name for name in SOLVERS if name != "sgd"), SOLVERS["newton"]()],
        "model": [None, *(model() for name, model in MODELS.items() if name not in ("recalibrated", kind))],
    }
    model = MODELS[kind]()
    chosen = {name: pick(options) for name, options in choices.items() if name in model.get_params(deep=False)}
    return chosen, model.set_params(**chosen)


def _shaped(values: Any, rng: np.random.Generator) -> tuple[str, Any]:
    shape = str(rng.choice(["array", "float32", "pandas", "polars", "sparse"]))
    if shape == "float32":
        return shape, values.astype(np.float32)
    if shape == "sparse":
        return shape, sparse.csr_array(np.where(np.abs(values) < 0.5, 0.0, values))
    if shape == "array":
        return shape, values
    module = __import__(shape)
    return shape, module.DataFrame({name: values[:, j] for j, name in enumerate(["a", "'; DROP TABLE m; --", "{c}"])})


def _later(model: Any, X: Any, y: Any, rng: np.random.Generator) -> tuple[str, Any]:
    """Return what becomes of a model after its fit: nothing, another class prior, more rows, another map."""
    K = len(model.classes_)
    after = str(rng.choice(["", "", "class prior", "partial fit", "update", "merge", "recalibrated"]))
    if after == "class prior" and hasattr(model, "with_class_prior"):
        return after, model.with_class_prior(rng.dirichlet(np.full(K, 9.0)))
    if after == "partial fit" and hasattr(model, "partial_fit"):
        return after, model.partial_fit(X, y)
    if after == "update" and hasattr(model, "update"):
        return after, model.update(X, y)
    if after == "merge" and hasattr(model, "merge"):
        return after, model.merge(model)
    if after == "recalibrated" and not isinstance(model, RecalibratedClassifier):
        return after, recalibrate(model, X, y, method=str(rng.choice(METHODS)))
    return "", model


def mixed_naive_bayes() -> tuple[Any, Any, Any]:
    """Return a naive Bayes model of columns of every family, its table and labels."""
    import pandas as pd

    rng = np.random.default_rng(5)
    y = np.arange(N) % 2
    table = pd.DataFrame(
        {
            "gauss": rng.normal(size=N) + y,
            "count": rng.poisson(2 + y),
            "flag": rng.random(N) < 0.3 + 0.3 * y,
            "word": pd.Categorical(np.array(["ash", "birch", "čedar"])[rng.integers(0, 3, N)]),
        }
    )
    return NaiveBayes().fit(table, y), table, y


def answers(model: Any, X: Any, y: Any) -> dict[str, Any]:
    """Return all that a fitted model says, errors included."""

    def ask(question: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OddsmithWarning)
            try:
                return question()
            except (OddsmithError, AttributeError) as error:
                return type(error).__name__, str(error)

    said = {
        name: ask(lambda name=name: getattr(model, name)(X))
        for name in ("predict", "predict_proba", "predict_log_proba", "decision_function", "predictive", "distance")
    }
    said |= {"transform": ask(lambda: model.transform(X)), "log_density": ask(lambda: model.log_density(X))}
    said |= {name: ask(lambda name=name: getattr(model, name)) for name in ("log_evidence_", "boundary_", "coef_")}
    said |= {"summary": ask(lambda: model.summary()), "loo": ask(lambda: model.leave_one_out(X, y))}
    said |= {
        "posterior": ask(lambda: (model.posterior_.mean, model.posterior_.covariance, model.posterior_.sample(3, 0)))
    }
    return said | {"sample": ask(lambda: model.sample(4, 0)), "decide": ask(lambda: model.decide(X, reject=0.2))}


def same(a: Any, b: Any) -> bool:
    """Whether two values are the same to the bit, types included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray) and a.dtype.kind == "T":
        return bool(a.dtype == b.dtype) and a.tolist() == b.tolist()
    if isinstance(a, np.ndarray) and a.dtype != object:
        return a.dtype == b.dtype and a.dtype.str == b.dtype.str and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, np.ndarray | list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if is_dataclass(a):
        return all(same(getattr(a, field.name), getattr(b, field.name)) for field in fields(a))
    if isinstance(a, float | np.floating):
        return np.array(a).tobytes() == np.array(b).tobytes()
    if hasattr(a, "to_numpy"):  # a table
        return list(a.columns) == list(b.columns) and np.array_equal(a.to_numpy(), b.to_numpy())
    if hasattr(a, "to_dict"):
        return same(a.to_dict(), b.to_dict())
    return bool(a == b)


def models(count: int, seed: int) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield random models, each registered kind in turn."""
    kinds = list(MODELS)
    for i in range(count):
        yield random_model(kinds[i % len(kinds)], np.random.default_rng([seed, i]))
