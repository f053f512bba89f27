"""The answer to a pane: a model fitted to the points, its weights, loss and map; and a script that does the same."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

import oddsmith
from oddsmith.evaluation.model_output import has_proba
from oddsmith.lab.fields import BadRequestError, Fields
from oddsmith.lab.maps import LAYERS, Grid, map_of, with_weights
from oddsmith.lab.pane_model import build_model, code_of
from oddsmith.models.base import Classifier
from oddsmith.models.fisher import FisherDiscriminant
from oddsmith.models.gaussian import GaussianClassifier
from oddsmith.models.least_squares import LeastSquaresClassifier
from oddsmith.models.logistic import LogisticRegression
from oddsmith.models.naive_bayes import NaiveBayes
from oddsmith.models.perceptron import PerceptronClassifier
from oddsmith.numerics import Array
from oddsmith.priors import GaussianPrior
from oddsmith.protocols import Indices

MOST_POINTS, MOST_CLASSES = 20_000, 4
POINT_FIELDS = ("X", "t", "split")
MOST_WEIGHTS = 400
_REMEDIES = {
    re.compile(r"Use prior=JeffreysPrior\(\).*$", re.DOTALL): "Choose Firth or a Gaussian prior for finite weights.",
    re.compile(r"If detect_separation.*$", re.DOTALL): "Add basis functions, or use logistic regression.",
}
"""Remedies that the page has, for those that warnings name in Python."""


@dataclass(frozen=True)
class Points:
    """Rows, the codes of their classes, and which of them are held out."""

    X: Array
    t: Indices
    test: Indices

    @classmethod
    def read(cls, fields: Fields) -> Points:
        """Return the points of a request: ``X`` of one or two columns, ``t``, and ``split`` (share, seed).

        >>> points = Points.read(Fields({"X": [[0.0], [1.0], [2.0]], "t": [0, 1, 0], "split": {"share": 0.0}}))
        >>> points.train[1].tolist()
        [0, 1, 0]
        """
        X = fields.table("X", None, most=MOST_POINTS, size=1e6)
        codes = fields.numbers("t", len(X), size=MOST_CLASSES - 1)
        if X.shape[1] not in (1, 2) and len(X):
            raise BadRequestError(f"X must have one or two columns, found {X.shape[1]}.")
        if (codes < 0).any() or (codes % 1).any():
            raise BadRequestError(f"t must hold whole numbers from 0 to {MOST_CLASSES - 1}, one for each row of X.")
        split = fields.inner("split")
        split.only("share", "seed")
        share, seed = split.number("share", 0.0, 0.9, 0.0), split.whole("seed", 0, 10**6, 0)
        # Drawn point by point, so that a further point leaves the others where they are.
        test = np.flatnonzero(np.random.default_rng(seed).random(len(X)) < share)
        return cls(X, codes.astype(np.int64), test)

    @property
    def train(self) -> tuple[Array, Indices]:
        """The rows and classes that models are fitted to."""
        kept = np.ones(len(self.X), dtype=bool)
        kept[self.test] = False
        return self.X[kept], self.t[kept]

    @property
    def held_out(self) -> tuple[Array, Indices]:
        """The rows and classes that are kept for the test."""
        return self.X[self.test], self.t[self.test]

    def check(self) -> tuple[Array, Indices]:
        """Return the rows and classes to fit to, if there are enough of them."""
        X, t = self.train
        if len(X) == 0:
            raise BadRequestError("There are no points to fit to. Add some, of two classes at least.")
        if len(np.unique(t)) < 2:
            raise BadRequestError(f"All {len(X):,} points to fit to are of one class. Add a point of another class.")
        return X, t


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect the warnings of the library as sentences, each once. Not for two threads at a time."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield texts
    texts += dict.fromkeys(_for_page(str(w.message)) for w in caught if issubclass(w.category, UserWarning))


def _for_page(text: str) -> str:
    """Return a warning with a remedy that the page has, in place of Python's."""
    for pattern, remedy in _REMEDIES.items():
        text = pattern.sub(remedy, text)
    return text


def answer_pane(fields: Fields) -> dict[str, Any]:
    """Return everything that a pane shows, from points, a model, and the rectangle that is seen."""
    fields.only(*POINT_FIELDS, "model", "view", "grid", "layers", "weights", "decision")
    points = Points.read(fields)
    X, t = points.check()
    grid, layers = Grid.read(fields, X.shape[1]), fields.choices("layers", LAYERS)
    classes = np.unique(t)
    decision = read_decision(fields.inner("decision"), len(classes)) if fields.has("decision") else None
    with collected_warnings() as texts:
        model = build_model(fields.inner("model"), classes, X.shape[1]).fit(X, t)
        optimum = weights_of(model)
        shown = _moved(model, fields, optimum)
        found = map_of(shown, grid, layers, decision)
        losses = {"value": loss_of(shown, X, t), "optimum": loss_of(model, X, t)} if optimum is not None else None
    return {
        "classes": classes,
        "test": points.test,
        "weights": weights_of(shown),
        "optimum": optimum,
        "editable": is_editable(model),
        "names": term_names(model),
        "functions": _function_names(model, optimum),
        "loss": losses and losses | {"name": loss_name(model)},
        "accuracy": {"train": _accuracy(shown, X, t), "test": _accuracy(shown, *points.held_out)},
        "facts": _facts(model),
        "warnings": texts + found.pop("notes", []),
        "map": found,
    }


def _moved(model: Classifier, fields: Fields, optimum: Array | None) -> Classifier:
    """Return the model with the weights of the request, if it names some."""
    if not fields.has("weights"):
        return model
    if optimum is None or not is_editable(model):
        name = type(model).__name__
        raise BadRequestError(f"The weights of {name} follow from its densities and cannot be edited.")
    W = fields.table("weights", optimum.shape[1], most=len(optimum), size=1e9)
    if W.shape != optimum.shape:
        raise BadRequestError(f"weights must be {len(optimum)} rows of {optimum.shape[1]} numbers, not {len(W)}.")
    return with_weights(model, W)  # type: ignore[no-any-return]


def is_editable(model: Classifier) -> bool:
    """Whether a model is made of weights that can be put by hand."""
    return isinstance(model, LogisticRegression | LeastSquaresClassifier | PerceptronClassifier | FisherDiscriminant)


def weights_of(model: Classifier) -> Array | None:
    """Return intercept and coefficients of each linear function; None where a model is not linear, or has too many."""
    try:
        intercept, coef = np.atleast_1d(model.intercept_), np.atleast_2d(model.coef_)
    except AttributeError:
        return None
    W = np.column_stack([intercept, coef])
    return W if W.size <= MOST_WEIGHTS else None


def term_names(model: Classifier) -> list[str]:
    """Return the names of the weights, the intercept first."""
    names = [str(name) for name in model._names()] if isinstance(model, LogisticRegression) else []
    W = weights_of(model)
    if W is not None and len(names) != W.shape[1] - 1:
        names = [f"φ{j}" for j in range(1, W.shape[1])] if vars(model).get("basis") is not None else []
        names = names or [f"x{j}" for j in range(W.shape[1] - 1)]
    return ["intercept", *names]


def _function_names(model: Classifier, W: Array | None) -> list[str]:
    """Return what each row of weights is for: a class, or a pair of classes."""
    labels = [str(label) for label in model.classes_.tolist()]
    if W is None or len(W) == len(labels):
        return [] if W is None else labels
    return [f"{b} : {a}" for a, b in combinations(labels, 2)]


def loss_name(model: Classifier) -> str:
    """Return what a linear model minimises, in words."""
    if isinstance(model, LogisticRegression):
        return "cross-entropy + prior" if isinstance(model.prior, GaussianPrior) else "cross-entropy"
    if isinstance(model, LeastSquaresClassifier):
        return "sum of squares"
    return "perceptron criterion" if isinstance(model, PerceptronClassifier) else "errors"


def loss_of(model: Classifier, X: Array, t: Indices) -> float:
    """Return the loss of a linear model at its weights, a sum over rows.

    >>> X, t = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> model = LogisticRegression(GaussianPrior(scale=2.0)).fit(X, t)
    >>> round(loss_of(model, X, t) - model.trace_.to_dict()["objective"][-1], 9)
    0.0
    """
    code = np.searchsorted(model.classes_, t)
    if isinstance(model, LogisticRegression):
        penalty = 0.0
        if isinstance(model.prior, GaussianPrior):
            penalty = 0.5 * float((model.coef_**2).sum()) / float(model.prior.scale) ** 2  # type: ignore[arg-type]
        return penalty - float(model.predict_log_proba(X)[np.arange(len(X)), code].sum())
    A = np.asarray(model.decision_function(X), dtype=float)
    if isinstance(model, LeastSquaresClassifier):
        T = 2.0 * code - 1.0 if A.ndim == 1 else np.eye(A.shape[1])[code]
        return 0.5 * float(((A - T) ** 2).sum())
    if isinstance(model, PerceptronClassifier):
        if A.ndim == 1:
            return float(np.maximum(-A * (2 * code - 1), 0.0).sum())
        return float((A.max(axis=1) - A[np.arange(len(A)), code]).sum())
    return float((model.predict(X) != t).sum())


def _accuracy(model: Classifier, X: Array, t: Indices) -> dict[str, Any] | None:
    if not len(X):
        return None
    right = model.predict(X) == t
    found: dict[str, Any] = {"right": int(right.sum()), "of": len(t)}
    known = np.isin(t, model.classes_)
    if has_proba(model) and known.all():
        own = model.predict_proba(X)[np.arange(len(X)), np.searchsorted(model.classes_, t)]
        with np.errstate(divide="ignore"):
            found["log_loss"] = float(-np.log(own).mean())
    return found


def _facts(model: Classifier) -> dict[str, Any]:
    """Return what a fit says of itself."""
    if isinstance(model, LogisticRegression):
        found = model.certificate_
        return {
            "certificate": {"gap": found.gap, "gradient_norm": found.gradient_norm, "converged": found.converged},
            "iterations": len(model.trace_.to_dict()["iteration"]) - 1,
            "log_likelihood": model.log_likelihood_,
            "parameters": model.n_parameters_,
        }
    if isinstance(model, GaussianClassifier):
        return {"log_likelihood": model.log_likelihood_, "parameters": model.n_parameters_}
    return {"parameters": model.n_parameters_} if isinstance(model, NaiveBayes | LeastSquaresClassifier) else {}


def read_decision(fields: Fields, K: int) -> dict[str, Any]:
    """Return the loss matrix, the cost of rejecting and the class prior of a request, for K classes.

    >>> read_decision(Fields({"reject": 0.2}), 2)["reject"]
    0.2
    """
    fields.only("loss", "reject", "class_prior")
    loss = fields.table("loss", K, most=K, size=1e6) if fields.has("loss") else 1.0 - np.eye(K)
    if len(loss) != K:
        raise BadRequestError(f"decision.loss must be {K} rows of {K} numbers, found {len(loss)} rows.")
    prior = None
    if fields.has("class_prior"):
        prior = fields.numbers("class_prior", K, size=1.0)
        if (prior <= 0).any():
            raise BadRequestError("decision.class_prior must hold numbers above 0, one for each class.")
        prior = prior / prior.sum()
    reject = fields.number("reject", 0.0, 1e6) if fields.has("reject") else None
    return {"loss": loss, "reject": reject, "class_prior": prior}


PER_LINE = 6


def answer_script(fields: Fields) -> dict[str, Any]:
    """Return the script of a pane."""
    fields.only(*POINT_FIELDS, "model", "weights", "decision")
    X, t = Points.read(fields).check()
    model = build_model(fields.inner("model"), np.unique(t), X.shape[1])
    W = fields.table("weights", None, most=10) if fields.has("weights") else None
    if W is not None and not (is_editable(model) and W.size):
        raise BadRequestError(f"The weights of {type(model).__name__} cannot be put by hand.")
    decision = read_decision(fields.inner("decision"), len(np.unique(t))) if fields.has("decision") else None
    return {"script": script_of(model, X, t, W) + ("" if decision is None else _decision_code(decision))}


def _decision_code(decision: dict[str, Any]) -> str:
    """Return the line that decides for each row under a loss, as the pane does."""
    loss, reject, prior = decision["loss"].tolist(), decision["reject"], decision["class_prior"]
    shifted = "model" if prior is None else f"model.with_class_prior({prior.tolist()!r})"
    return f"decisions = {shifted}.decide(X, {loss!r}, reject={reject!r})\n"


def script_of(model: Classifier, X: Array, t: Indices, W: Array | None = None) -> str:
    """Return the code that fits a model to points: imports, data, fit, and weights by hand if there are some.

    >>> from oddsmith import LogisticRegression
    >>> print(script_of(LogisticRegression(1.0), np.array([[0.0], [1.0]]), np.array([0, 1])))
    import numpy as np
    from oddsmith import LogisticRegression
    <BLANKLINE>
    X = np.array([
        [0.0], [1.0],
    ])
    y = np.array([
        0, 1,
    ])
    <BLANKLINE>
    model = LogisticRegression(prior=1.0).fit(X, y)
    print("accuracy", model.score(X, y))
    print("weights", np.column_stack([model.intercept_, model.coef_]).tolist())
    <BLANKLINE>
    """
    code = code_of(model)
    names = [name for name in oddsmith.__all__ if f"{name}(" in code]
    lines = ["import numpy as np", f"from oddsmith import {', '.join(names)}", ""]
    lines += ["X = np.array([", *_rows([repr(row) for row in X.tolist()]), "])"]
    lines += ["y = np.array([", *_rows([repr(k) for k in t.tolist()], 30), "])", ""]
    lines.append(f"model = {code}.fit(X, y)")
    if W is not None:
        lines += [f"W = np.array({W.tolist()!r})  # by hand", "model.intercept_, model.coef_ = W[:, 0], W[:, 1:]"]
    lines.append('print("accuracy", model.score(X, y))')
    curved = isinstance(model, NaiveBayes) or (isinstance(model, GaussianClassifier) and model.covariance != "shared")
    if not curved:
        lines.append('print("weights", np.column_stack([model.intercept_, model.coef_]).tolist())')
    return "\n".join(lines) + "\n"


def _rows(items: list[str], per_line: int = PER_LINE) -> list[str]:
    return [f"    {', '.join(items[i : i + per_line])}," for i in range(0, len(items), per_line)]
