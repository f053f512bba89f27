"""The rows of one call of ``partial_fit``, as a problem for stochastic gradient descent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from oddsmith.design.class_weight import read_weights, weigh_classes
from oddsmith.design.fitted_basis import learn_rows, whole
from oddsmith.design.fitted_design import through_design
from oddsmith.design.inputs import check_finite, read_rows
from oddsmith.engines import MemoryEngine, MemorySource
from oddsmith.likelihood.online import encode_labels, read_classes
from oddsmith.likelihood.problem import Problem
from oddsmith.priors import as_prior
from oddsmith.protocols import Labels

if TYPE_CHECKING:
    from oddsmith.models.logistic import LogisticRegression


def online_problem(
    model: LogisticRegression, X: Any, y: Any, classes: object, sample_weight: object
) -> tuple[Labels, Problem]:
    """Return all classes, and the problem of these rows; the first call settles classes, columns and coordinates."""
    first = "classes_" not in vars(model)
    known = read_classes(classes, None if first else model.classes_)
    X, y, sample_weight, _ = through_design(model, model.design, X, y, sample_weight, reset=first)
    rows = read_rows(model, X, reset=first)
    check_finite(rows, vars(model).get("feature_names_in_"))
    rows = whole(learn_rows(model, rows, sample_weight, reset=first))
    n, K = rows.shape[0], len(known)
    t = encode_labels(known, y, n)
    s = weigh_classes(model, known, t, read_weights(sample_weight, n), partial=True)
    problem = Problem(
        engine=MemoryEngine(model.threads),
        source=MemorySource(rows, t, K, s),
        prior=as_prior(model.prior),
        intercept=bool(model.fit_intercept),
        reference=model._reference_code(known),
        solver="sgd",
        tol=model.tol,
        max_iter=1,
        class_weight=np.ones(K) * (n if s is None else s.sum()) / K,
        start=None if first else model._against_first(),
        names=model._names,
    )
    return known, problem
