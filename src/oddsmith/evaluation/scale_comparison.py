"""Comparison of the prior scales that evidence, leave-one-out and cross-validation select."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from oddsmith.engines import one_blas_thread
from oddsmith.errors import InvalidInputError, InvalidTypeError
from oddsmith.models.logistic import LogisticRegression
from oddsmith.prior_selection.cross_validation import by_cross_validation, folds
from oddsmith.prior_selection.prior_family import PriorFamily
from oddsmith.prior_selection.quadratic_model import Selection
from oddsmith.prior_selection.selection import by_evidence, by_leave_one_out, check_selectable, exact_curves, scale_grid
from oddsmith.priors import GaussianPrior, as_prior
from oddsmith.records import Table


@dataclass(frozen=True)
class WidthComparison(Table):
    """The prior scales selected by three criteria, side by side.

    Attributes
    ----------
    selections : dict
        Method → `Selection`.
    curve : dict
        Columns for a plot, one entry for each candidate: ``width`` (the scale), ``log_evidence``, ``loo`` and ``cv``
        (mean log loss), ``loo_error`` and ``cv_error`` (standard errors).
    """

    selections: dict[str, Selection]
    curve: dict[str, list[float]]

    def to_dict(self) -> dict[str, list[Any]]:
        """Return one row per method: its scale, and every criterion at that scale, interpolated between candidates.

        NaN if the scale lies outside the range of the candidates, which is possible for the evidence.
        """
        at = np.log([float(s.width) for s in self.selections.values()])
        table: dict[str, list[Any]] = {"method": list(self.selections), "width": np.exp(at).tolist()}
        tried = np.log(self.curve["width"])
        outside = (at < tried[0] - 1e-9) | (at > tried[-1] + 1e-9)
        for name in ("log_evidence", "loo", "cv"):
            table[name] = np.where(outside, np.nan, np.interp(at, tried, self.curve[name])).tolist()
        return table


def compare_widths(
    X: Any,
    y: Any,
    *,
    model: LogisticRegression | None = None,
    scales: npt.ArrayLike | None = None,
    cv: object = 5,
    sample_weight: npt.ArrayLike | None = None,
    offset: npt.ArrayLike | None = None,
) -> WidthComparison:
    """Select the scale of a Gaussian prior by evidence, leave-one-out and cross-validation, and compare them.

    Parameters
    ----------
    X, y, sample_weight, offset
        As in ``LogisticRegression.fit``.
    model : LogisticRegression, optional
        Supplies everything except the scale of the prior.
    scales, cv
        As in `GaussianPrior`.

    Cost: a path of fits over the scales, and another for each fold.

    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> comparison = compare_widths((X - X.mean(axis=0)) / X.std(axis=0), y)
    >>> list(comparison.selections), [round(s.width, 1) for s in comparison.selections.values()]
    (['evidence', 'loo', 'cv'], [1.4, 0.8, 0.8])
    """
    probe = LogisticRegression() if model is None else clone(model)
    if not isinstance(probe, LogisticRegression):
        raise InvalidTypeError(f"compare_widths needs a LogisticRegression or ProbitRegression, found {probe!r}.")
    given = as_prior(probe.prior) or GaussianPrior(scale=1.0)
    if given.covariance is not None:
        raise InvalidInputError(
            "compare_widths selects one scale, but the model's prior has a covariance: give a scale instead."
        )
    probe.set_params(prior=GaussianPrior(scale="loo", mean=given.mean, space=given.space, scales=scales, cv=cv))
    probe._check_parameters()
    _, problem = probe._problem(X, y, sample_weight, offset, reset=True)
    prior = problem.prior
    assert prior is not None
    check_selectable(problem, prior)
    with one_blas_thread():
        family = PriorFamily.of(problem, prior)
        widths = scale_grid(prior, family)
        by_cv = by_cross_validation(family, widths, folds(problem, cv, probe.seed))
        selections = {"evidence": by_evidence(family)[0], "loo": by_leave_one_out(family, widths)[0], "cv": by_cv}
        curve = {"width": widths.tolist(), **exact_curves(family, widths)[0]}
    curve |= {"cv": by_cv.table["log_loss"], "cv_error": by_cv.table["std_error"]}
    return WidthComparison(selections, curve)
