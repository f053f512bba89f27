"""The scikit-learn classifiers: fit = fold → solve → assign. Each is imported when it is first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from oddsmith.models.base import MODELS as MODELS

if TYPE_CHECKING:
    from oddsmith.models.fisher import FisherDiscriminant as FisherDiscriminant
    from oddsmith.models.gaussian import GaussianClassifier as GaussianClassifier
    from oddsmith.models.least_squares import LeastSquaresClassifier as LeastSquaresClassifier
    from oddsmith.models.logistic import LogisticRegression as LogisticRegression
    from oddsmith.models.multiclass import OneVsOne as OneVsOne
    from oddsmith.models.multiclass import OneVsRest as OneVsRest
    from oddsmith.models.naive_bayes import NaiveBayes as NaiveBayes
    from oddsmith.models.perceptron import PerceptronClassifier as PerceptronClassifier
    from oddsmith.models.probit import ProbitRegression as ProbitRegression
    from oddsmith.models.recalibrated import RecalibratedClassifier as RecalibratedClassifier

_CLASSIFIERS = (
    ("fisher", "FisherDiscriminant", "fisher"),
    ("gaussian", "GaussianClassifier", "gaussian"),
    ("least-squares", "LeastSquaresClassifier", "least_squares"),
    ("logistic", "LogisticRegression", "logistic"),
    ("naive-bayes", "NaiveBayes", "naive_bayes"),
    ("one-vs-one", "OneVsOne", "multiclass"),
    ("one-vs-rest", "OneVsRest", "multiclass"),
    ("perceptron", "PerceptronClassifier", "perceptron"),
    ("probit", "ProbitRegression", "probit"),
    ("recalibrated", "RecalibratedClassifier", "recalibrated"),
)
"""Name in the registry, class and module of each classifier."""
_HOME = {kind: f"oddsmith.models.{module}" for _, kind, module in _CLASSIFIERS}

for _name, _kind, _ in _CLASSIFIERS:
    MODELS.later(_name, _HOME[_kind])


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
