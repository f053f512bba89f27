"""Tests between nested models: what a fit loses without some of its columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from oddsmith.engines import one_blas_thread
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.inference.fit_record import FitRecord, LikelihoodModel, expression_of
from oddsmith.inference.hypotheses import ChiSquareTest, DropOne, refuse_separated, wald_test
from oddsmith.inference.profile import Profiler, make_profiler, objective_of
from oddsmith.inference.sandwich import CovarianceKind, covariance
from oddsmith.inference.summary import chi_square_p
from oddsmith.numerics import Array, factor_spd
from oddsmith.priors import split_prior
from oddsmith.solvers import Newton
from oddsmith.solvers.base import ObjectiveValue

TESTS = ("likelihood-ratio", "score", "wald")


def likelihood_ratio_test(small: LikelihoodModel, large: LikelihoodModel) -> ChiSquareTest:
    """Test a model against a larger one that contains it: ``2 (log L_large − log L_small)``.

    Both must be maximum likelihood fits to the same rows; that is checked as far as the models know (rows, class
    weights, offsets, links, columns by name). Equal to ``anova(small, large, test = "Chisq")`` in R.

    >>> from oddsmith import LogisticRegression
    >>> X, y = np.array([[0.0, 1], [1, 0], [2, 2], [3, 0], [4, 1], [5, 0]]), [0, 0, 1, 0, 0, 1]
    >>> small, large = LogisticRegression().fit(X[:, :1], y), LogisticRegression().fit(X, y)
    >>> test = likelihood_ratio_test(small, large)
    >>> test.df, round(test.statistic, 4), round(test.p_value, 4)
    (1, 1.5783, 0.209)
    """
    for what, model in (("small", small), ("large", large)):
        if not isinstance(model, LikelihoodModel):
            raise InvalidTypeError(
                f"{what} is a {type(model).__name__}; expected a model that is fitted by likelihood, such as "
                "LogisticRegression."
            )
        model._check_fitted()
        if model._learned is None or split_prior(model.prior) != (None, False):
            raise InvalidInputError(
                f"A likelihood-ratio test compares maximum likelihood fits, and {what} is {model!r}. Fit it with "
                "prior=None; for JeffreysPrior() use drop_one or profile intervals."
            )
    a, b = small._fit_record(hessian=False), large._fit_record(hessian=False)
    _check_nested(a, b)
    df = b.n_parameters - a.n_parameters
    statistic = 2.0 * (b.log_likelihood - a.log_likelihood)
    if df <= 0 or statistic < -1e-9 * max(1.0, abs(b.log_likelihood)):
        raise InvalidInputError(
            f"The models are not nested: small has {a.n_parameters} weights and log likelihood "
            f"{a.log_likelihood:.8g}, large {b.n_parameters} and {b.log_likelihood:.8g}. Give the "
            "smaller model first; its columns must be among those of the larger."
        )
    missing = [name for name in b.names if name not in a.names] if a.named and b.named else []
    text = f"no effect of {', '.join(missing)}" if missing else ""
    return ChiSquareTest("likelihood ratio", max(statistic, 0.0), df, text)


def _check_nested(small: FitRecord, large: FitRecord) -> None:
    a, b = small.state, large.state
    if small.classes != large.classes:
        raise InvalidInputError(f"The models have different classes, {small.classes[:6]} and {large.classes[:6]}.")
    if a.n_rows != b.n_rows or not np.allclose(a.class_weight, b.class_weight, rtol=1e-12):
        raise InvalidInputError(
            f"The models were fitted to different rows: {a.n_rows} with weights {a.class_weight.tolist()} a class, and "
            f"{b.n_rows} with {b.class_weight.tolist()}. Fit both to the same rows."
        )
    intercepts = [bool(state.free[:, 0].any()) for state in (a, b)]
    nulls = a.null_log_likelihood, b.null_log_likelihood
    if intercepts[0] == intercepts[1] and abs(nulls[0] - nulls[1]) > 1e-7 * abs(nulls[0]):
        raise InvalidInputError(
            f"The models were fitted with different offsets: that of small leaves the constant alone a log likelihood "
            f"of {nulls[0]:.8g}, that of large {nulls[1]:.8g}. Fit both with the same offset."
        )
    if small.link_name != large.link_name:
        raise InvalidInputError(
            f"The models have different links, {small.link_name!r} and {large.link_name!r}: they do not nest."
        )
    foreign = set(small.names) - set(large.names) if small.named and large.named else set()
    if foreign or (intercepts[0] and not intercepts[1]):
        what = ", ".join(sorted(map(repr, foreign))) or "an intercept"
        raise InvalidInputError(f"The models do not nest: small has {what}, which large has not.")


def _constrained_fit(fit: FitRecord, profiler: Profiler, A: Array) -> ObjectiveValue:
    """Return the fit with ``A x = 0``, from the point on it that is nearest in the metric of the Hessian."""
    if profiler.anchor is not None:  # the classes may be separated without these columns too
        objective = objective_of(fit)
        objective = objective.restricted(objective.free & (A.sum(axis=0) == 0.0).reshape(objective.shape))
        solver = Newton(watch_divergence=False)
        return profiler.evaluate(solver.minimise(objective, np.zeros(objective.size), tol=1e-8, max_iter=60).w)
    best, zero = profiler.best, np.zeros(len(A))
    found = profiler.fit_constrained(best, A, zero, np.zeros_like(best.w), shortest=1e-6, max_iter=200)
    if found is None:
        raise InvalidInputError(
            "The model without these columns could not be fitted: the way there leaves the domain of the link."
        )
    return found.e


def _score_statistic(fit: FitRecord, profiler: Profiler, A: Array) -> float:
    """Return Rao's score statistic: ``gᵀ I⁻¹ g`` at the fit with ``A x = 0``, with the expected information."""
    e, kept, objective = _constrained_fit(fit, profiler, A), fit.state.kept, objective_of(fit)
    H = objective.evaluate(e.w, order=2, expected=not objective.canonical).hessian
    assert H is not None
    return factor_spd(H[np.ix_(kept, kept)], tol=0.0).norm(e.gradient[kept]) ** 2


def drop_one(fit: FitRecord, groups: object, test: str) -> DropOne:
    """Test the model without each column (or group of columns); see ``LogisticRegression.drop_one``."""
    gaussian, jeffreys = split_prior(fit.prior)
    if test not in TESTS:
        raise UnknownNameError("test", test, TESTS)
    if gaussian is not None or (jeffreys and test == "score"):
        raise InvalidInputError(
            f"drop_one with test={test!r} compares likelihoods, and this model has the prior {fit.prior!r}. Fit it "
            "with prior=None, or with JeffreysPrior() for penalised likelihood-ratio tests."
        )
    if test == "wald":
        refuse_separated(fit)
    state = fit.state
    C, P = state.x.shape
    chosen = _own_groups(fit) if groups is None else _read_groups(fit, groups)
    with one_blas_thread():
        profiler = make_profiler(fit, 0.0)
        # Under Jeffreys' prior the penalised likelihood takes the place of the likelihood, up to a constant.
        deviance = -2.0 * state.log_likelihood
        rows: list[tuple[Any, ...]] = [("(none)", 0, deviance, deviance + 2.0 * fit.n_parameters, np.nan, np.nan)]
        for name, columns in chosen.items():
            # Rows of A pick the weights of these columns in every contrast, those set aside left out.
            A = np.eye(C * P)[[c * P + 1 + j for c in range(C) for j in columns if state.free[c, 1 + j]]]
            df, without = len(A), np.nan
            if test == "wald":
                V = covariance(fit, CovarianceKind("information"))
                statistic = wald_test(A @ state.x.ravel(), A[:, state.kept], V).statistic
            elif test == "score":
                statistic = _score_statistic(fit, profiler, A)
            else:
                statistic = max(2.0 * (_constrained_fit(fit, profiler, A).value - profiler.best.value), 0.0)
                without = deviance + statistic
            aic = without + 2.0 * (fit.n_parameters - df)
            rows.append((name, df, without, aic, statistic, chi_square_p(statistic, df)))
    header = ("term", "df", "deviance", "aic", "statistic", "p_value")
    table = {name: np.array(values) for name, values in zip(header, zip(*rows, strict=True), strict=True)}
    return DropOne(table, ("penalised " if jeffreys and test == TESTS[0] else "") + test)


def _own_groups(fit: FitRecord) -> dict[str, list[int]]:
    """Return every column that was estimated as a group; of a design, every term that is no part of another."""
    aliased = set(fit.aliased)
    if not fit.terms:
        return {name: [j] for j, name in enumerate(fit.names) if name not in aliased}
    texts = [[expression_of(factor).text for factor in term.factors] for term in fit.terms]
    groups: dict[str, list[int]] = {}
    for term, own in zip(fit.terms, texts, strict=True):
        places = [fit.names.index(name) for name in term.names if name not in aliased]
        if places and not any(set(own) < set(other) for other in texts):
            groups[term.names[0] if term.width == 1 else ":".join(own)] = places
    return groups


def _read_groups(fit: FitRecord, groups: object) -> dict[str, list[int]]:
    """Return the columns of each group by their places."""
    if not isinstance(groups, Mapping):
        raise InvalidTypeError(
            f"groups must be a mapping from a name to a list of columns, found {groups!r}: "
            "groups={'race': ['race_black', 'race_other']}."
        )
    result = {}
    for key, columns in groups.items():
        places = [fit.column(column) for column in ([columns] if isinstance(columns, str) else columns)]
        if all(fit.names[j] in fit.aliased for j in places):
            raise InvalidInputError(f"The group {key!r} has no column that was estimated: there is nothing to test.")
        result[str(key)] = places
    return result
