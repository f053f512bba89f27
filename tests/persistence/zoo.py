"""Random models of all kinds, and all that can be asked of one: for tests that save and load them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import get_tags

from oddsmith import (
    GaussianPrior,
    JeffreysPrior,
    LaplacePrior,
    NaiveBayes,
    Polynomial,
    Standardize,
    recalibrate,
)
from oddsmith.design.basis import BASES
from oddsmith.design.table import Design
from oddsmith.errors import OddsmithError
from oddsmith.models import MODELS
from oddsmith.solvers import SOLVERS

N, D = 40, 3
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
CROSS_VALIDATED = LaplacePrior("cv", cv=3)
"""Takes a second to fit: only where it is wanted, and on few columns."""
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
    *(LaplacePrior(0.1), CROSS_VALIDATED, LaplacePrior(0.2, gaussian=1.0, groups="class", factors=[0, 1, 2])),
]
LINKS = ["logit", "logit", "probit", "cloglog", "loglog", "cauchit"]
FORMULAS = [
    *("~ a * word + flag", "~ scale(a) + poly(b, 2) + C(word, reference='birch')", "~ 0 + center(a):word + spline(b)"),
    *("~ log(a + 9) + ns(b, 3)", "~ . - day + I(a > 0) * flag"),
]
OPTIONS: dict[str, list[Any]] = {
    "basis": [None, None, *(basis() for _, basis in BASES.items()), [Standardize(), Polynomial(2)]],
    "design": [
        *(None, Design(missing="indicator"), Design(unseen="reference", reference="most frequent")),
        *(Design(formula, missing=missing) for formula in FORMULAS for missing in ("error", "indicator")),
    ],
    "prior": PRIORS,
    "link": ["logit", "logit", "probit", "cloglog", "loglog", "cauchit"],
    "method": ["logistic", "temperature", "isotonic"],
    "covariance": ["shared", "separate", "diagonal", "spherical"],
    "fit_intercept": [True, True, False],
    "solver": ["auto", "auto", *(name for name in SOLVERS if name != "sgd"), SOLVERS["newton"]()],
    "model": [None, *(model() for name, model in MODELS.items() if not name.startswith(("recal", "one-")))],
    "labels": list(LABELS),
    "shape": ["array", "float32", "pandas", "polars", "sparse", "mixed", "mixed"],
    "after": ["", "", "class prior", "partial fit", "update", "merge", "recalibrated"],
}
AFTER = {"partial fit": "gaussian", "merge": "least-squares", "recalibrated": "perceptron"}


def models(count: int, seed: int) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield random models: one or more for each option of each kind, then each registered kind in turn."""
    kinds = list(MODELS)
    wanted: list[tuple[str, dict[str, Any]]] = []
    for name, options in OPTIONS.items():
        able = [kind for kind in kinds if name in MODELS[kind]().get_params(deep=False)] or ["logistic"]
        home = "logistic" if "logistic" in able else able[0]
        wanted += [(AFTER.get(str(option), home), {name: option}) for option in options if option not in (None, "")]
    wanted += [(kinds[i % len(kinds)], {}) for i in range(max(0, count - len(wanted)))]
    for i, (kind, chosen) in enumerate(wanted):
        yield random_model(kind, np.random.default_rng([seed, i]), **chosen)


def random_model(kind: str, rng: np.random.Generator, **wanted: Any) -> tuple[str, Any, Any, Any]:
    """Return a description, a fitted model of a registered kind, rows and labels; ``wanted`` options are given."""

    def pick(name: str) -> Any:
        drawn = OPTIONS[name][int(rng.integers(len(OPTIONS[name])))]
        return wanted.get(name, 1.0 if drawn is CROSS_VALIDATED else drawn)

    for _ in range(500):
        shape = "mixed" if wanted.get("design") is not None else pick("shape")
        labels, after = pick("labels"), pick("after")
        model = MODELS[kind]()
        chosen = {name: pick(name) for name in OPTIONS if name in model.get_params(deep=False)}
        if shape != "mixed":
            chosen.pop("design", None)
        if chosen.get("prior") is CROSS_VALIDATED:
            chosen["basis"] = None
        model.set_params(**chosen)
        K = 2 if labels == "bool" or not get_tags(model).classifier_tags.multi_class else int(rng.integers(2, 4))
        t = rng.permutation(np.arange(N) % K)
        values = rng.normal(size=(N, D)) + 0.7 * t[:, None] * np.array([1.0, -0.5, 0.2])
        X, y = _shaped(values, shape, rng), LABELS[labels][:K][t]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # on few rows there is much to warn of
                model = _later(model.fit(X, y), after, X, y, rng)
        except (OddsmithError, AttributeError):
            continue  # not every model takes every prior, link and table, or becomes another one
        return f"{kind} {chosen} labels={labels} K={K} X={shape} {after}", model, X, y
    raise AssertionError(f"No {kind} can be fitted with {wanted}.")


def _shaped(values: Any, shape: str, rng: np.random.Generator) -> Any:
    if shape == "float32":
        return values.astype(np.float32)
    if shape == "sparse":
        return sparse.csr_array(np.where(np.abs(values) < 0.5, 0.0, values))
    if shape == "array":
        return values
    if shape == "mixed":
        return _mixed(values, rng)
    module = import_module(shape)
    return module.DataFrame({name: values[:, j] for j, name in enumerate(["a", "'; DROP TABLE m; --", "{c}"])})


def _mixed(values: Any, rng: np.random.Generator) -> Any:
    """Return a table with numbers, categories, truth values and dates, half of the time with values missing."""
    columns = {
        "a": values[:, 0],
        "b": np.where((rng.random(N) < 0.1) & (rng.random() < 0.5), np.nan, values[:, 1]),
        "word": np.array(["ash", "birch", "čedar"])[np.digitize(values[:, 2] + rng.normal(size=N), [-0.5, 0.5])],
        "flag": rng.random(N) < 0.4,
        "day": np.datetime64("2020-01-01", "us") + rng.integers(0, 9, N).astype("timedelta64[D]"),
    }
    return import_module(str(rng.choice(["pandas", "polars"]))).DataFrame(columns)


def _later(model: Any, after: str, X: Any, y: Any, rng: np.random.Generator) -> Any:
    """Return what becomes of a model after its fit: nothing, another class prior, more rows, another map."""
    K = len(model.classes_)
    if after == "class prior":
        return model.with_class_prior(rng.dirichlet(np.full(K, 9.0)))
    if after == "partial fit":
        return model.partial_fit(X, y)
    if after == "update":
        return model.update(X, y)
    if after == "merge":
        return model.merge(model)
    if after == "recalibrated":
        return recalibrate(model, X, y, method=str(rng.choice(OPTIONS["method"])))
    return model


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
            warnings.simplefilter("ignore")  # the question is whether two models say the same
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
