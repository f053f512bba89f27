"""The summary of a fit, from its record: covariance, intervals, the table and the remarks below it."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import chi2

from oddsmith.engines import one_blas_thread
from oddsmith.errors import InvalidInputError, UnknownNameError
from oddsmith.inference.covariance import CovarianceKind, covariance
from oddsmith.inference.fit_record import INTERCEPT, FitRecord, shown_weights
from oddsmith.inference.profile import profile_ends
from oddsmith.inference.summary import FREQUENTIST, POSTERIOR, Summary, wald_columns
from oddsmith.numerics import Array
from oddsmith.priors import split_prior

INTERVALS = ("wald", "profile", "confint")


def check_intervals(intervals: str) -> str:
    """Return a checked kind of intervals."""
    if intervals not in INTERVALS:
        raise UnknownNameError("kind of intervals", intervals, INTERVALS)
    return intervals


def summarize(fit: FitRecord, kind: CovarianceKind, intervals: str, level: float) -> Summary:
    """Return estimates, standard errors, tests and intervals of a fit; see ``LogisticRegression.summary``."""
    weights = fit.weights
    is_posterior = split_prior(fit.fitted_prior)[0] is not None
    if is_posterior and (kind.needs_rows or intervals != "wald"):
        raise InvalidInputError(
            "Robust standard errors and profile intervals require maximum likelihood, but this model has a Gaussian "
            "prior: its summary() gives posterior standard deviations and credible intervals. Fit with prior=None."
        )
    with one_blas_thread():
        columns = wald_columns(weights.estimate, _standard_errors(fit, covariance(fit, kind)), level)
        if intervals != "wald":
            errors = columns["std_error"] if intervals == "confint" else None
            columns["lower"], columns["upper"] = profile_ends(fit, level, errors)
    columns = {name: np.where(weights.aliased, np.nan, column) for name, column in columns.items()}
    names: dict[str, Any] = {} if weights.classes is None else {"class": weights.classes}
    table = {**names, "term": weights.terms, **_shown_columns(fit, columns, is_posterior)}
    return _summary(fit, table, _remarks(fit, kind, intervals, level), level)


def _shown_columns(fit: FitRecord, columns: dict[str, Array], is_posterior: bool) -> dict[str, Array]:
    """Return the columns of a summary under the names that they have there, with odds ratios for the logit."""
    estimate, lower, upper = (columns[name] for name in ("estimate", "lower", "upper"))
    if is_posterior:
        columns = dict(zip(POSTERIOR, (estimate, columns["std_error"], lower, upper), strict=True))
    if fit.link is None:
        with np.errstate(over="ignore"):
            odds = {"odds_ratio": estimate, "odds_lower": lower, "odds_upper": upper}
            columns |= {name: np.exp(values) for name, values in odds.items()}
    return columns


def list_estimates(fit: FitRecord, reason: str, level: float) -> Summary:
    """Return the estimates alone, the intercepts first and then the largest, and why there are no standard errors.

    Memory O(weights): nothing of the size of their covariance is formed.
    """
    W, inside = shown_weights(fit.state)
    P = W.shape[1]
    free = np.asarray(fit.state.free.any(axis=0))
    if fit.state.sparse:
        inside = inside[(inside % P == 0) | (W.ravel()[inside] != 0.0)]
    estimate = np.where(free[inside % P], W.ravel()[inside], np.nan)
    size = np.where(inside % P == 0, np.inf, np.nan_to_num(np.abs(estimate)))
    order = np.argsort(-size, kind="stable")
    inside, estimate = inside[order], estimate[order]
    names: dict[str, Any] = {} if len(W) == 1 else {"class": [fit.classes[i // P] for i in inside]}
    terms = [INTERCEPT, *fit.names]
    shown = POSTERIOR if split_prior(fit.fitted_prior)[0] is not None else FREQUENTIST
    table = {**names, "term": [terms[i % P] for i in inside], **{name: np.full(len(inside), np.nan) for name in shown}}
    table["estimate"] = estimate
    if fit.link is None:
        with np.errstate(over="ignore"):
            table["odds_ratio"] = np.exp(estimate)
    remarks = [reason, _selection_remark(W)] if fit.state.sparse else [reason]
    return _summary(fit, table, (*remarks, "the largest estimates come first"), level)


def _selection_remark(W: Array) -> str:
    """Return how many columns have a weight that is not zero: only those are in the table."""
    selected = int((W[:, 1:] != 0.0).any(axis=0).sum())
    return f"{selected:,} of {W.shape[1] - 1:,} columns were selected; the weights of the others are exactly zero"


def summarize_levels(fit: FitRecord, level: float) -> Summary:
    """Return the summary of two classes whose largest factor was eliminated: no covariance of all weights is formed.

    A remark has the joint test of that factor's levels (Wald; after a Gaussian prior there is none).
    """
    state, gaussian = fit.state, split_prior(fit.fitted_prior)[0] is not None
    H = state.bordered
    assert H is not None
    W, inside = shown_weights(state)
    with one_blas_thread():
        columns = wald_columns(W[0, inside], state.bordered_errors()[inside], level)
    columns = {name: np.where(state.free[0, inside], column, np.nan) for name, column in columns.items()}
    terms = [INTERCEPT, *fit.names]
    remarks = [f"{'Gaussian prior' if gaussian else 'maximum likelihood'}; {100 * level:.4g}% Wald intervals"]
    if fit.separation is not None:
        infinite = np.array([terms[j] in fit.separation.infinite for j in inside])
        columns = {n: c if n == "estimate" else np.where(infinite, np.nan, c) for n, c in columns.items()}
        remarks.append("separated classes: terms without a standard error have no estimate; use a GaussianPrior")
    elif not gaussian:
        levels = state.x[0, H.start : H.stop]
        df = int(state.free[0, H.start : H.stop].sum())
        statistic = H.joint_statistic(np.where(state.free[0, H.start : H.stop], levels, 0.0))
        name = str(terms[H.start]).partition("[")[0]
        p = chi2.sf(statistic, df)
        remarks.append(f"{name}: joint Wald test of {df:,} levels, χ² = {statistic:.6g}, p = {p:.4g}")
    table: dict[str, Any] = {"term": [terms[j] for j in inside], **_shown_columns(fit, columns, gaussian)}
    return _summary(fit, table, tuple(remarks), level)


def _summary(fit: FitRecord, table: dict[str, Any], remarks: tuple[str, ...], level: float) -> Summary:
    state = fit.state
    labels, reference = fit.classes, state.reference
    what = f"{fit.model_name} ({fit.link_name}) of {labels[1]!r} against {labels[0]!r}"
    if len(labels) > 2:
        against = "" if reference is None else f", against {labels[reference]!r}"
        what = f"{fit.model_name} of {len(labels)} classes{against}"
    return Summary(
        columns=table,
        heading=f"{what}: {state.n_rows} rows, {fit.n_parameters} weights",
        log_likelihood=state.log_likelihood,
        null_log_likelihood=state.null_log_likelihood,
        n_rows=state.n_rows,
        n_parameters=fit.n_parameters,
        n_classes=state.K,
        aliased=tuple(fit.aliased),
        certificate=fit.certificate,
        plan=fit.plan,
        remarks=remarks,
        level=level,
    )


def _standard_errors(fit: FitRecord, V: Array) -> Array:
    """Return standard errors, infinite for terms that run away: for all, if the separation is complete."""
    weights, error = fit.weights, fit.weights.errors(V)
    if fit.separation is None:
        return error
    if fit.separation.kind == "complete":
        return np.where(weights.aliased, np.nan, np.inf)
    infinite = {key if weights.classes is None else key[1] for key in fit.separation.infinite}
    return np.where([term in infinite for term in weights.terms], np.inf, error)


def _remarks(fit: FitRecord, kind: CovarianceKind, intervals: str, level: float) -> tuple[str, ...]:
    gaussian, jeffreys = split_prior(fit.fitted_prior)
    if gaussian is not None:
        prior = "Gaussian and Jeffreys' prior" if jeffreys else "Gaussian prior"
        remarks = [f"{prior}; Laplace approximation of the posterior; {100 * level:.4g}% credible intervals"]
    else:
        method = "Jeffreys' prior (Firth)" if jeffreys else "maximum likelihood"
        what = {"wald": "Wald", "confint": "profile (interpolated)"}.get(intervals, intervals)
        what = f"penalised {what}" if jeffreys and intervals != "wald" else what
        remarks = [f"{method}; {kind.remark}; {100 * level:.4g}% {what} intervals"]
    if fit.post_selection:
        remarks.append(
            "the columns were selected by the labels: if by those of these rows, intervals are too short and p-values "
            "too small, since they ignore the selection"
        )
    if fit.standardized:
        remarks.append("a unit of a column is one standard deviation of it (Standardize; levels stay 0 and 1)")
    if fit.state.moved:
        remarks.append("intercepts moved to another class prior: likelihood and standard errors are those of the fit")
    if fit.aliased:
        remarks.append(f"aliased (set aside): {', '.join(fit.aliased)}")
    if fit.separation is not None:
        remarks.append(
            "separated classes: terms with an infinite standard error have no estimate; use prior=JeffreysPrior()"
        )
    return tuple(remarks)
