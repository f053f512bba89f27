"""oddsmith itself, as a user calls it: no setting but the prior."""

from __future__ import annotations

from typing import Any

from ..problem import Matrix
from .base import OWN_TARGET, Peer


class Oddsmith(Peer):
    """The subject. It must come a hundred times closer than a peer to count."""

    name = "oddsmith"
    module = "oddsmith"
    distribution = "oddsmith"
    note = "default settings"
    ladder = (None,)
    target = OWN_TARGET

    def missing(self) -> str | None:
        """Why the library cannot be imported here, or None."""
        try:
            from oddsmith import LogisticRegression  # noqa: F401
        except ImportError as error:
            return f"oddsmith is not installed ({error})"
        return None

    def fit(self, X: Matrix, y: Any, sigma: float | None, tol: float | None) -> tuple[Any, Any]:
        """Fit with the default tolerance, or with ``tol`` where an optimum to measure gaps from is wanted."""
        from oddsmith import LogisticRegression

        model = LogisticRegression(prior=sigma, **({} if tol is None else {"tol": tol})).fit(X, y)
        return model.coef_, model.intercept_


ADAPTERS = (Oddsmith(),)
