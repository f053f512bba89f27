"""oddsmith: probabilistic linear classification, from one fold of an additive statistic and a small solve.

Public names are imported when they are first used, so that ``import oddsmith`` is quick.

>>> from oddsmith import LogisticRegression
>>> LogisticRegression(prior=1.0)
LogisticRegression(prior=1.0)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Answer": "oddsmith.federated.messages",
    "Fit": "oddsmith.federated.fit",
    "Request": "oddsmith.federated.messages",
    "FisherDiscriminant": "oddsmith.models.fisher",
    "GaussianClassifier": "oddsmith.models.gaussian",
    "LeastSquaresClassifier": "oddsmith.models.least_squares",
    "LogisticRegression": "oddsmith.models.logistic",
    "NaiveBayes": "oddsmith.models.naive_bayes",
    "OneVsOne": "oddsmith.models.multiclass",
    "OneVsRest": "oddsmith.models.multiclass",
    "PerceptronClassifier": "oddsmith.models.perceptron",
    "RecalibratedClassifier": "oddsmith.models.recalibrated",
    "scan": "oddsmith.engines.scan",
    "REJECT": "oddsmith.decision.actions",
    "decide": "oddsmith.decision.actions",
    "decision_regions": "oddsmith.decision.actions",
    "expected_loss": "oddsmith.decision.actions",
    "compare": "oddsmith.evaluation.comparison",
    "estimate_class_prior": "oddsmith.evaluation.class_prior",
    "evaluate": "oddsmith.evaluation.scoring",
    "recalibrate": "oddsmith.evaluation.recalibration",
    "ProbitRegression": "oddsmith.models.probit",
    "Design": "oddsmith.design.table",
    "GaussianKernel": "oddsmith.design.basis.radial",
    "Polynomial": "oddsmith.design.basis.polynomial",
    "RadialBasis": "oddsmith.design.basis.radial",
    "Spline": "oddsmith.design.basis.spline",
    "Standardize": "oddsmith.design.basis.standardize",
    "bayes_error": "oddsmith.inference.bayes_error",
    "likelihood_ratio_test": "oddsmith.inference.nested_models",
    "load": "oddsmith.persistence.model_file",
    "write_predictions": "oddsmith.data_access.prediction_table",
    "merge": "oddsmith.models.merge_mixin",
    "GaussianPrior": "oddsmith.priors",
    "JeffreysPrior": "oddsmith.priors",
    "newton_raphson": "oddsmith.solvers.general",
    "gradient_descent": "oddsmith.solvers.general",
    "detect_separation": "oddsmith.likelihood.separation",
    "compare_widths": "oddsmith.evaluation.scale_comparison",
    "laplace": "oddsmith.inference.laplace",
}

if TYPE_CHECKING:
    from oddsmith.data_access.prediction_table import write_predictions as write_predictions
    from oddsmith.decision.actions import REJECT as REJECT
    from oddsmith.decision.actions import decide as decide
    from oddsmith.decision.actions import decision_regions as decision_regions
    from oddsmith.decision.actions import expected_loss as expected_loss
    from oddsmith.design.basis.polynomial import Polynomial as Polynomial
    from oddsmith.design.basis.radial import GaussianKernel as GaussianKernel
    from oddsmith.design.basis.radial import RadialBasis as RadialBasis
    from oddsmith.design.basis.spline import Spline as Spline
    from oddsmith.design.basis.standardize import Standardize as Standardize
    from oddsmith.design.table import Design as Design
    from oddsmith.engines.scan import scan as scan
    from oddsmith.evaluation.class_prior import estimate_class_prior as estimate_class_prior
    from oddsmith.evaluation.comparison import compare as compare
    from oddsmith.evaluation.recalibration import recalibrate as recalibrate
    from oddsmith.evaluation.scale_comparison import compare_widths as compare_widths
    from oddsmith.evaluation.scoring import evaluate as evaluate
    from oddsmith.federated.fit import Fit as Fit
    from oddsmith.federated.messages import Answer as Answer
    from oddsmith.federated.messages import Request as Request
    from oddsmith.inference.bayes_error import bayes_error as bayes_error
    from oddsmith.inference.laplace import laplace as laplace
    from oddsmith.inference.nested_models import likelihood_ratio_test as likelihood_ratio_test
    from oddsmith.likelihood.separation import detect_separation as detect_separation
    from oddsmith.models.fisher import FisherDiscriminant as FisherDiscriminant
    from oddsmith.models.gaussian import GaussianClassifier as GaussianClassifier
    from oddsmith.models.least_squares import LeastSquaresClassifier as LeastSquaresClassifier
    from oddsmith.models.logistic import LogisticRegression as LogisticRegression
    from oddsmith.models.merge_mixin import merge as merge
    from oddsmith.models.multiclass import OneVsOne as OneVsOne
    from oddsmith.models.multiclass import OneVsRest as OneVsRest
    from oddsmith.models.naive_bayes import NaiveBayes as NaiveBayes
    from oddsmith.models.perceptron import PerceptronClassifier as PerceptronClassifier
    from oddsmith.models.probit import ProbitRegression as ProbitRegression
    from oddsmith.models.recalibrated import RecalibratedClassifier as RecalibratedClassifier
    from oddsmith.persistence.model_file import load as load
    from oddsmith.priors import GaussianPrior as GaussianPrior
    from oddsmith.priors import JeffreysPrior as JeffreysPrior
    from oddsmith.solvers.general import gradient_descent as gradient_descent
    from oddsmith.solvers.general import newton_raphson as newton_raphson

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'oddsmith' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
