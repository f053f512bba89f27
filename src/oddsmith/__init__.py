"""oddsmith: probabilistic linear classification by one fold of an additive statistic and a small solve.

Public names are imported on first use, so that ``import oddsmith`` is quick.

>>> from oddsmith import LogisticRegression
>>> LogisticRegression(prior=1.0)
LogisticRegression(prior=1.0)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_NAMES = {
    "data_access.prediction_table": "write_predictions",
    "decision.actions": "REJECT decide decision_regions expected_loss",
    "design.basis.polynomial": "Polynomial",
    "design.basis.radial": "GaussianKernel RadialBasis",
    "design.basis.selection": "SelectColumns",
    "design.basis.spline": "Spline",
    "design.basis.standardize": "Standardize",
    "design.table": "Design",
    "engines.scan": "scan",
    "evaluation.class_prior": "estimate_class_prior",
    "evaluation.comparison": "compare",
    "evaluation.probe": "probe",
    "evaluation.recalibration": "recalibrate",
    "evaluation.regularization_path": "regularization_path",
    "evaluation.scale_comparison": "compare_widths",
    "evaluation.scoring": "evaluate",
    "evaluation.stability": "stability",
    "federated.fit": "Fit",
    "federated.messages": "Answer Request",
    "inference.bayes_error": "bayes_error",
    "inference.laplace": "laplace",
    "inference.hypotheses": "likelihood_ratio_test",
    "likelihood.separation": "detect_separation",
    "models.fisher": "FisherDiscriminant",
    "models.gaussian": "GaussianClassifier",
    "models.least_squares": "LeastSquaresClassifier",
    "models.logistic": "LogisticRegression",
    "models.merge_mixin": "merge",
    "models.multiclass": "OneVsOne OneVsRest",
    "models.naive_bayes": "NaiveBayes",
    "models.perceptron": "PerceptronClassifier",
    "models.probit": "ProbitRegression",
    "models.recalibrated": "RecalibratedClassifier",
    "persistence.model_file": "load",
    "priors": "GaussianPrior JeffreysPrior LaplacePrior",
    "records": "record_weights",
    "solvers.general": "gradient_descent newton_raphson",
}
"""Public names by module."""
_HOME = {name: f"oddsmith.{module}" for module, names in _NAMES.items() for name in names.split()}

if TYPE_CHECKING:  # the same for type checkers, one module a line
    # isort: off
    from oddsmith.data_access.prediction_table import write_predictions as write_predictions
    from oddsmith.decision.actions import REJECT as REJECT, decide as decide
    from oddsmith.decision.actions import decision_regions as decision_regions, expected_loss as expected_loss
    from oddsmith.design.basis.polynomial import Polynomial as Polynomial
    from oddsmith.design.basis.radial import GaussianKernel as GaussianKernel, RadialBasis as RadialBasis
    from oddsmith.design.basis.selection import SelectColumns as SelectColumns
    from oddsmith.design.basis.spline import Spline as Spline
    from oddsmith.design.basis.standardize import Standardize as Standardize
    from oddsmith.design.table import Design as Design
    from oddsmith.engines.scan import scan as scan
    from oddsmith.evaluation.class_prior import estimate_class_prior as estimate_class_prior
    from oddsmith.evaluation.comparison import compare as compare
    from oddsmith.evaluation.probe import probe as probe
    from oddsmith.evaluation.recalibration import recalibrate as recalibrate
    from oddsmith.evaluation.regularization_path import regularization_path as regularization_path
    from oddsmith.evaluation.scale_comparison import compare_widths as compare_widths
    from oddsmith.evaluation.scoring import evaluate as evaluate
    from oddsmith.evaluation.stability import stability as stability
    from oddsmith.federated.fit import Fit as Fit
    from oddsmith.federated.messages import Answer as Answer, Request as Request
    from oddsmith.inference.bayes_error import bayes_error as bayes_error
    from oddsmith.inference.laplace import laplace as laplace
    from oddsmith.inference.hypotheses import likelihood_ratio_test as likelihood_ratio_test
    from oddsmith.likelihood.separation import detect_separation as detect_separation
    from oddsmith.models.fisher import FisherDiscriminant as FisherDiscriminant
    from oddsmith.models.gaussian import GaussianClassifier as GaussianClassifier
    from oddsmith.models.least_squares import LeastSquaresClassifier as LeastSquaresClassifier
    from oddsmith.models.logistic import LogisticRegression as LogisticRegression
    from oddsmith.models.merge_mixin import merge as merge
    from oddsmith.models.multiclass import OneVsOne as OneVsOne, OneVsRest as OneVsRest
    from oddsmith.models.naive_bayes import NaiveBayes as NaiveBayes
    from oddsmith.models.perceptron import PerceptronClassifier as PerceptronClassifier
    from oddsmith.models.probit import ProbitRegression as ProbitRegression
    from oddsmith.models.recalibrated import RecalibratedClassifier as RecalibratedClassifier
    from oddsmith.persistence.model_file import load as load
    from oddsmith.priors import (
        GaussianPrior as GaussianPrior,
        JeffreysPrior as JeffreysPrior,
        LaplacePrior as LaplacePrior,
    )
    from oddsmith.records import record_weights as record_weights
    from oddsmith.solvers.general import gradient_descent as gradient_descent, newton_raphson as newton_raphson

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'oddsmith' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
