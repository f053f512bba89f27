"""The summary of a fit: estimates, standard errors, tests and intervals in one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from oddsmith.errors import InvalidInputError
from oddsmith.inference.tables import ColumnTable
from oddsmith.numerics import Array
from oddsmith.records import Certificate

FREQUENTIST = ("estimate", "std_error", "z", "p_value", "lower", "upper")
POSTERIOR = ("estimate", "posterior_sd", "credible_lower", "credible_upper")


def check_level(level: object) -> float:
    """Return a checked confidence level."""
    if isinstance(level, bool) or not isinstance(level, int | float | np.number) or not 0 < level < 1:
        raise InvalidInputError(f"level must be a number between 0 and 1, such as 0.95; found {level!r}.")
    return float(level)


def normal_quantile(level: float) -> float:
    """Return z with P(|Z| ≤ z) = ``level``."""
    return float(-special.ndtri((1.0 - level) / 2.0))


def normal_p(z: Array) -> Array:
    """Return P(|Z| ≥ |z|), with full relative precision far out in the tails."""
    return np.asarray(special.erfc(np.abs(z) / np.sqrt(2.0)))


def chi_square_p(statistic: float, df: float) -> float:
    """Return P(χ² ≥ ``statistic``) for ``df`` degrees of freedom, with full relative precision in the tail."""
    return float(special.gammaincc(0.5 * df, 0.5 * max(statistic, 0.0))) if df > 0 else 1.0


def wald_columns(estimate: Array, error: Array, level: float) -> dict[str, Array]:
    """Return estimate, standard error, z, p and the interval ``estimate ± z · error``."""
    half = normal_quantile(level) * error
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(np.isinf(error), np.nan, estimate / error)
    values = (estimate, error, z, normal_p(z), estimate - half, estimate + half)
    return dict(zip(FREQUENTIST, values, strict=True))


@dataclass(frozen=True, kw_only=True, repr=False)
class Summary(ColumnTable):
    """Estimates with standard errors and intervals, one row per weight, and the likelihood of the model.

    Columns are also attributes (arrays): ``term`` (the intercept first, named ``(intercept)``), preceded by ``class``
    for more than two classes; ``estimate``, ``std_error``, ``z``, ``p_value``, ``lower``, ``upper``; and, for the logit
    link, ``odds_ratio`` with its interval (``odds_lower``, ``odds_upper``). After a fit with a Gaussian prior,
    ``posterior_sd``, ``credible_lower`` and ``credible_upper`` replace these, without z and p. Aliased columns are NaN.
    Without standard errors (``has_errors``), rows are ordered by the size of the estimate, and printing shows the first
    50.

    Attributes
    ----------
    log_likelihood, null_log_likelihood : float
        At the weights, and for the null model (intercept and offset; without an intercept, weights 0).
    n_rows : int
        Number of rows of positive weight, the N of ``bic``, as in R: a row of weight 20 counts once.
    n_parameters, n_classes : int
    deviance, null_deviance, aic, bic, pseudo_r2 : float
        Deviances are −2 log likelihood; AIC adds 2 n_parameters, BIC log(n_rows) n_parameters; pseudo R² is McFadden's
        1 − LL / LL₀. AIC and BIC are NaN after a fit with a Gaussian prior, which has fewer effective parameters.
    aliased : tuple of str
        Columns that are linear combinations of earlier ones.
    certificate : Certificate
        Bound on the distance from the optimum.
    plan : str
        The algorithm of the fit and the reason for it; empty for model files without this information.

    >>> columns = {"term": ["(intercept)"], **wald_columns(np.ones(1), np.full(1, 0.5), 0.95)}
    >>> likelihoods = {"log_likelihood": -6.0, "null_log_likelihood": -8.0}
    >>> sizes = {"n_rows": 20, "n_parameters": 1, "n_classes": 2}
    >>> certificate = Certificate(converged=True, gap=0.0, gradient_norm=0.0, condition=1.0, passes=3)
    >>> s = Summary(columns=columns, heading="A model", **likelihoods, **sizes, certificate=certificate)
    >>> s.aic, s.deviance, s.pseudo_r2, s.estimate.tolist()
    (14.0, 12.0, 0.25, [1.0])
    """

    columns: Mapping[str, Any]
    heading: str
    log_likelihood: float
    null_log_likelihood: float
    n_rows: int
    n_parameters: int
    n_classes: int
    certificate: Certificate
    aliased: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    level: float = 0.95
    plan: str = ""

    @property
    def title(self) -> str:  # type: ignore[override]
        """The line above the table."""
        return self.heading

    @property
    def is_posterior(self) -> bool:
        """Whether the table describes a posterior rather than an estimator."""
        return "posterior_sd" in self.columns

    @property
    def has_errors(self) -> bool:
        """Whether there are standard errors; a model with very many weights has estimates only."""
        errors = np.asarray(self.columns["posterior_sd" if self.is_posterior else "std_error"], dtype=np.float64)
        return bool(len(self.aliased) == len(errors) or not np.isnan(errors).all())

    @property
    def most_rows(self) -> int:  # type: ignore[override]
        """Maximum number of printed rows."""
        return 1000 if self.has_errors and len(self.columns["term"]) <= 1000 else 50

    @property
    def deviance(self) -> float:
        """−2 log likelihood."""
        return -2.0 * self.log_likelihood

    @property
    def null_deviance(self) -> float:
        """−2 log likelihood of the null model."""
        return -2.0 * self.null_log_likelihood

    @property
    def aic(self) -> float:
        """Akaike's criterion."""
        return float("nan") if self.is_posterior else self.deviance + 2.0 * self.n_parameters

    @property
    def bic(self) -> float:
        """Schwarz's criterion."""
        return float("nan") if self.is_posterior else self.deviance + float(np.log(self.n_rows)) * self.n_parameters

    @property
    def pseudo_r2(self) -> float:
        """McFadden's 1 − LL / LL₀."""
        if self.null_log_likelihood == 0.0:
            return float("nan")
        return 1.0 - self.log_likelihood / self.null_log_likelihood

    @property
    def notes(self) -> tuple[str, ...]:
        """The likelihood, special cases, the certificate, and the plan."""
        of = f"log likelihood {self.log_likelihood:.6g}, null {self.null_log_likelihood:.6g}"
        criteria = "" if self.is_posterior else f" · AIC {self.aic:.6g} · BIC {self.bic:.6g}"
        c = self.certificate
        if not c.optimum_exists:
            state = "no optimum exists: the classes are separated"
        elif c.converged:
            state = f"at most {c.gap:.1e} from the optimum" + ("" if c.rigorous else " (an estimate)")
        else:
            state = f"NOT CONVERGED: up to {c.gap:.1e} from the optimum"
        first = f"{of} · deviance {self.deviance:.6g}{criteria} · pseudo R² {self.pseudo_r2:.4f}"
        plan = (f"plan: {self.plan}",) if self.plan else ()
        return (first, *self.remarks, f"certificate: {state}", *plan)
