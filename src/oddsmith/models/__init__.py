"""The scikit-learn classifiers: fit = fold → solve → assign."""

from oddsmith.models.base import MODELS
from oddsmith.models.fisher import FisherDiscriminant
from oddsmith.models.gaussian import GaussianClassifier
from oddsmith.models.least_squares import LeastSquaresClassifier
from oddsmith.models.logistic import LogisticRegression
from oddsmith.models.multiclass import OneVsOne, OneVsRest
from oddsmith.models.naive_bayes import NaiveBayes
from oddsmith.models.perceptron import PerceptronClassifier
from oddsmith.models.probit import ProbitRegression
from oddsmith.models.recalibrated import RecalibratedClassifier

__all__ = [
    "MODELS",
    "FisherDiscriminant",
    "GaussianClassifier",
    "LeastSquaresClassifier",
    "LogisticRegression",
    "NaiveBayes",
    "OneVsOne",
    "OneVsRest",
    "PerceptronClassifier",
    "RecalibratedClassifier",
    "ProbitRegression",
]
