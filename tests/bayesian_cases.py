"""The models of the reference records about posteriors: standardised columns, a prior on every weight."""

import numpy as np
from numpy.typing import NDArray
from tests.reference_data import Case

from oddsmith import GaussianPrior, LogisticRegression


def codes(case: Case) -> NDArray[np.int64]:
    """The labels as numbers, the reference 0."""
    return np.array([case.classes.index(label) for label in case.y.tolist()])


def fit(case: Case) -> tuple[LogisticRegression, NDArray[np.float64]]:
    """The model of a reference record, and its rows."""
    e = case.expected
    Z = (case.X - np.array(e["standardised"]["center"])) / np.array(e["standardised"]["scale"])
    more = {"reference": 0} if e.get("form") == "reference" and len(case.classes) > 2 else {}
    prior = GaussianPrior(covariance=np.full(Z.shape[1] + 1, e["prior_scale"] ** 2.0))
    return LogisticRegression(prior, **more).fit(Z, codes(case), sample_weight=case.weights), Z
