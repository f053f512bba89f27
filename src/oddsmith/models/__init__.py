"""The scikit-learn classifiers: fit = fold → solve → assign."""

from oddsmith.models.base import MODELS as MODELS
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
