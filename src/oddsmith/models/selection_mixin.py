"""The columns that a fit with a Laplace prior selected, and a refit to them."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import clone
from sklearn.utils.metaestimators import available_if

from oddsmith.errors import InvalidInputError
from oddsmith.models.estimator import Estimator
from oddsmith.numerics import Array
from oddsmith.priors import LaplacePrior


def has_selected(model: SelectionMixin) -> bool:
    """Whether a model has selected columns for a refit; raise an error that says why not."""
    if not isinstance(vars(model).get("prior_", model.prior), LaplacePrior):
        raise AttributeError(f"refit needs columns selected by a LaplacePrior; found prior={model.prior!r}.")
    return True


def selected_columns(model: object) -> list[str] | None:
    """Return the columns that a model with a LaplacePrior selected, None for other models.

    >>> from oddsmith import LogisticRegression
    >>> selected_columns(LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])) is None
    True
    """
    if not isinstance(model, SelectionMixin) or not isinstance(vars(model).get("prior_"), LaplacePrior):
        return None
    return model.selected_


class SelectionMixin(Estimator):
    """A mixin for models whose prior leaves some weights at exactly zero."""

    prior: object
    basis: Any
    coef_: Array

    @property
    def selected_(self) -> list[str]:
        """Names of the columns that a fit with a `LaplacePrior` selected, the columns with a nonzero weight.

        >>> from oddsmith import LaplacePrior, LogisticRegression
        >>> X, y = [[0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [3.0, 1.0]], [0, 0, 1, 1]
        >>> LogisticRegression(LaplacePrior(1.0)).fit(X, y).selected_
        ['x0']
        """
        if not isinstance(vars(self).get("prior_"), LaplacePrior):
            raise AttributeError("selected_ requires a fit with a LaplacePrior.")
        return [str(name) for name in self._names()[(self.coef_ != 0.0).any(axis=0)]]

    @available_if(has_selected)
    def refit(self, X: Any, y: Any = None, sample_weight: object = None, offset: object = None, **how: object) -> Self:
        """Return a new model, fitted by maximum likelihood to the selected columns (``selected_``).

        This undoes the shrinkage of the `LaplacePrior`. Standard errors, p-values and intervals treat the columns as
        known in advance. On the rows that selected them, intervals are too short and p-values too small, because the
        strongest of many columns look strong partly by chance; the summary says so. For valid inference, refit to rows
        that the selection has not seen. The arguments are those of ``fit``.

        >>> import numpy as np
        >>> from oddsmith import LaplacePrior, LogisticRegression
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(400, 5))
        >>> y = rng.random(400) < 1 / (1 + np.exp(-2 * X[:, 0]))
        >>> model = LogisticRegression(LaplacePrior(0.05)).fit(X[:200], y[:200])
        >>> refitted = model.refit(X[200:], y[200:])
        >>> model.selected_, refitted.summary().std_error.round(2).tolist()
        (['x0'], [0.19, 0.27])
        """
        if not self.selected_:
            raise InvalidInputError(
                "No column was selected: all weights are zero. Use a larger scale of the LaplacePrior."
            )
        from oddsmith.design.basis.selection import SelectColumns

        before = list(self.basis) if isinstance(self.basis, list | tuple) else [self.basis] if self.basis else []
        basis = [*before, SelectColumns(self.selected_, post_selection=True)]
        model: Self = clone(self).set_params(prior=None, basis=basis, warm_start=False)
        fitted: Self = model.fit(X, y, sample_weight, offset, **how)
        return fitted
