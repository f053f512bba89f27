"""The model of a pane: from the fields of a request to an estimator, and from that to the code that makes it."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from oddsmith.design.basis.polynomial import Polynomial
from oddsmith.design.basis.radial import GaussianKernel, RadialBasis
from oddsmith.design.basis.spline import Spline
from oddsmith.design.basis.standardize import Standardize
from oddsmith.lab.fields import BadRequestError, Fields
from oddsmith.links import LINKS
from oddsmith.models.base import Classifier
from oddsmith.models.fisher import FisherDiscriminant
from oddsmith.models.gaussian import GaussianClassifier
from oddsmith.models.least_squares import LeastSquaresClassifier
from oddsmith.models.logistic import LogisticRegression
from oddsmith.models.multiclass import OneVsOne, OneVsRest
from oddsmith.models.naive_bayes import NaiveBayes
from oddsmith.models.perceptron import PerceptronClassifier
from oddsmith.priors import GaussianPrior, JeffreysPrior
from oddsmith.protocols import Indices

KINDS = ("logistic", "least_squares", "fisher", "perceptron", "gaussian", "naive_bayes", "one_vs_rest", "one_vs_one")
BASES = ("none", "standardize", "polynomial", "radial", "kernel", "spline")
PRIORS = ("none", "gaussian", "jeffreys")
COVARIANCES = ("shared", "separate", "diagonal", "spherical", "tied")
INNER = ("logistic", "least_squares", "perceptron", "fisher")
FIELDS = ("kind", "link", "prior", "basis", "covariance", "inner", "epochs", "seed", "step_size")


def build_model(fields: Fields, classes: Indices, dims: int) -> Classifier:
    """Return the estimator that the field ``model`` describes, for these class codes and ``dims`` columns.

    >>> build_model(Fields({"kind": "gaussian", "covariance": "separate"}), np.arange(2), 2)
    GaussianClassifier(covariance='separate')
    """
    fields.only(*FIELDS)
    kind, basis = fields.choice("kind", KINDS), build_basis(fields.inner("basis"), dims)
    if kind == "gaussian":
        return GaussianClassifier(_covariance(fields, classes), basis=basis)
    if kind == "naive_bayes":
        return NaiveBayes("gaussian", basis=basis)
    if kind in ("one_vs_rest", "one_vs_one"):
        inner = _linear_model(fields, fields.choice("inner", INNER, "logistic"))
        return (OneVsRest if kind == "one_vs_rest" else OneVsOne)(inner, basis=basis)
    return _linear_model(fields, kind, basis)


def _linear_model(fields: Fields, kind: str, basis: BaseEstimator | None = None) -> Classifier:
    """Return a model that is linear in its basis functions."""
    if kind == "logistic":
        link = fields.choice("link", tuple(LINKS), "logit")
        return LogisticRegression(build_prior(fields.inner("prior")), link=link, basis=basis)
    if kind == "least_squares":
        prior = build_prior(fields.inner("prior"))
        if isinstance(prior, JeffreysPrior):
            raise BadRequestError("Least squares takes no Jeffreys prior. Choose none, or a Gaussian one.")
        return LeastSquaresClassifier(prior=prior, basis=basis)
    if kind == "fisher":
        return FisherDiscriminant(basis=basis)
    step_size, epochs = fields.number("step_size", 1e-6, 1e6, 1.0), fields.whole("epochs", 1, 500, 20)
    return PerceptronClassifier(step_size, max_epochs=epochs, seed=fields.whole("seed", 0, 10**6, 0), basis=basis)


def build_prior(fields: Fields) -> GaussianPrior | JeffreysPrior | None:
    """Return the prior of the weights that an object describes, or None.

    >>> build_prior(Fields({"kind": "gaussian", "scale": 2.0}))
    GaussianPrior(scale=2.0)
    """
    fields.only("kind", "scale")
    kind, scale = fields.choice("kind", PRIORS, "none"), fields.number("scale", 1e-3, 1e4, 1.0)
    if kind == "none":
        return None
    return JeffreysPrior() if kind == "jeffreys" else GaussianPrior(scale=scale)


def build_basis(fields: Fields, dims: int) -> BaseEstimator | None:
    """Return the basis functions that an object describes, or None for the columns themselves."""
    fields.only("kind", "degree", "centers", "places", "width", "landmarks", "knots")
    kind = fields.choice("kind", BASES, "none")
    if kind == "none":
        return None
    if kind == "standardize":
        return Standardize()
    if kind == "polynomial":
        return Polynomial(fields.whole("degree", 1, 8, 2))
    if kind == "spline":
        return Spline(fields.whole("knots", 3, 12, 5))
    width: Any = fields.number("width", 1e-3, 1e6) if fields.has("width") else "median"
    if kind == "kernel":
        return GaussianKernel(width, fields.whole("landmarks", 1, 100, 30))
    if fields.has("places"):  # centres that were put somewhere by hand
        places = fields.table("places", dims, most=60)
        if not len(places):
            raise BadRequestError("model.basis.places holds no centre. Expected 1 to 60.")
        return RadialBasis(places.tolist(), width)
    return RadialBasis(fields.whole("centers", 1, 60, 9), width)


def _covariance(fields: Fields, classes: Indices) -> Any:
    chosen = fields.choice("covariance", COVARIANCES, "shared")
    if chosen != "tied":
        return chosen
    return {int(k): "first two" if i < 2 else f"class {k}" for i, k in enumerate(classes)}


def code_of(value: object) -> str:
    """Return the expression that makes an estimator, a prior or plain data; arguments at their defaults are left out.

    >>> code_of(LogisticRegression(GaussianPrior(scale=2.0), basis=Polynomial(3)))
    'LogisticRegression(prior=GaussianPrior(scale=2.0), basis=Polynomial(degree=3))'
    """
    if isinstance(value, GaussianPrior):
        return f"GaussianPrior(scale={value.scale!r})"
    if isinstance(value, np.ndarray):
        return repr(value.tolist())
    if not isinstance(value, BaseEstimator):
        return repr(value)
    given = value.get_params(deep=False)
    parts = [
        f"{name}={code_of(given[name])}"
        for name, parameter in signature(type(value)).parameters.items()
        if name in given and not _same(given[name], parameter.default)
    ]
    return f"{type(value).__name__}({', '.join(parts)})"


def _same(value: object, default: object) -> bool:
    return type(value) is type(default) and bool(np.all(value == default))
