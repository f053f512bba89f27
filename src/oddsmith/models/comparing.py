"""Tests between nested models: what a fit loses without some of its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.inference.constrained import Tangent, minimise
from oddsmith.inference.hypotheses import ChiSquareTest, DropOne, wald_test
from oddsmith.inference.profile import Profiler
from oddsmith.inference.sandwich import CovarianceKind
from oddsmith.inference.summary import chi_square_p
from oddsmith.models.learned import Learned
from oddsmith.models.likelihood import Problem
from oddsmith.models.profiling import make_profiler, objective_of
from oddsmith.numerics import Array, factor_spd
from oddsmith.priors import split_prior
from oddsmith.solvers import Newton
from oddsmith.solvers.base import Evaluation

TESTS = ("likelihood-ratio", "score", "wald")


def likelihood_ratio_test(small: Any, large: Any) -> ChiSquareTest:
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
        if not hasattr(model, "_curved"):
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
    _check_nested(small, large)
    df = large.n_parameters_ - small.n_parameters_
    statistic = 2.0 * (large.log_likelihood_ - small.log_likelihood_)
    noise = 1e-9 * max(1.0, abs(large.log_likelihood_))
    if df <= 0 or statistic < -noise:
        raise InvalidInputError(
            f"The models are not nested: small has {small.n_parameters_} weights and log likelihood "
            f"{small.log_likelihood_:.8g}, large {large.n_parameters_} and {large.log_likelihood_:.8g}. Give the "
            "smaller model first; its columns must be among those of the larger."
        )
    return ChiSquareTest("likelihood ratio", max(statistic, 0.0), df, _without(small, large))


def _check_nested(small: Any, large: Any) -> None:
    a, b = small._learned, large._learned
    if small.classes_.tolist() != large.classes_.tolist():
        raise InvalidInputError(
            f"The models have different classes, {small.classes_.tolist()[:6]} and {large.classes_.tolist()[:6]}."
        )
    if a.n_rows != b.n_rows or not np.allclose(a.class_weight, b.class_weight, rtol=1e-12):
        raise InvalidInputError(
            f"The models were fitted to different rows: {a.n_rows} with weights {a.class_weight.tolist()} a class, and "
            f"{b.n_rows} with {b.class_weight.tolist()}. Fit both to the same rows."
        )
    nulls = a.null_log_likelihood, b.null_log_likelihood
    if small.fit_intercept == large.fit_intercept and abs(nulls[0] - nulls[1]) > 1e-7 * abs(nulls[0]):
        raise InvalidInputError(
            f"The models were fitted with different offsets: that of small leaves the constant alone a log likelihood "
            f"of {nulls[0]:.8g}, that of large {nulls[1]:.8g}. Fit both with the same offset."
        )
    if small.link != large.link:
        raise InvalidInputError(
            f"The models have different links, {small.link!r} and {large.link!r}: they do not nest."
        )
    named = hasattr(small, "feature_names_in_") and hasattr(large, "feature_names_in_")
    foreign = set(map(str, small._names())) - set(map(str, large._names())) if named else set()
    if foreign or (small.fit_intercept and not large.fit_intercept):
        what = ", ".join(sorted(map(repr, foreign))) or "an intercept"
        raise InvalidInputError(f"The models do not nest: small has {what}, which large has not.")


def _without(small: Any, large: Any) -> str:
    if not (hasattr(small, "feature_names_in_") and hasattr(large, "feature_names_in_")):
        return ""
    missing = [str(name) for name in large._names() if str(name) not in set(map(str, small._names()))]
    return f"no effect of {', '.join(missing)}" if missing else ""


@dataclass(frozen=True)
class Dropping:
    """Tests of a fit without some columns; ``constraint`` rows fix their weights at zero in every contrast."""

    model: Any
    learned: Learned
    problem: Problem

    def constraint(self, columns: list[int]) -> Array:
        """Return the matrix that picks the weights of these columns, those set aside left out."""
        C, P = self.learned.x.shape
        places = [c * P + 1 + j for c in range(C) for j in columns if self.learned.free[c, 1 + j]]
        return np.eye(C * P)[places]

    def fit(self, profiler: Profiler, A: Array) -> Evaluation:
        """Return the fit with ``A x = 0``, from the point on it that is nearest in the metric of the Hessian."""
        if profiler.anchor is not None:
            return self._towards_the_limit(profiler, A)
        start, share = profiler.best, 1.0
        while share > 1e-6:
            tangent = Tangent.of(start.hessian, A)  # type: ignore[arg-type]
            f = profiler.evaluate(start.w + tangent.step(np.zeros_like(start.w), -share * (A @ start.w)))
            found = None
            if np.isfinite(f.value):
                found = minimise(profiler.evaluate, f, A, tol=profiler.tol, max_iter=200, exact=profiler.exact)
            if found is None or not found.converged:
                share *= 0.5
            elif share == 1.0:
                return found.e
            else:
                start, share = found.e, min(1.0, 2.0 * share)
        raise InvalidInputError(
            "The model without these columns could not be fitted: the way there leaves the domain of the link."
        )

    def _towards_the_limit(self, profiler: Profiler, A: Array) -> Evaluation:
        """Return the fit with ``A x = 0`` where classes may be separated without these columns too."""
        objective = objective_of(self.learned, self.problem)
        objective.free = objective.free & (A.sum(axis=0) == 0.0).reshape(objective.shape)
        solver = Newton(watch_divergence=False)
        return profiler.evaluate(solver.minimise(objective, np.zeros(objective.size), tol=1e-8, max_iter=60).w)

    def score(self, profiler: Profiler, A: Array) -> float:
        """Return Rao's score statistic: ``gᵀ I⁻¹ g`` at the fit with ``A x = 0``, with the expected information."""
        e, kept = self.fit(profiler, A), self.learned.kept
        objective = objective_of(self.learned, self.problem)
        H = objective.evaluate(e.w, order=2, expected=not objective.canonical).hessian
        assert H is not None
        return factor_spd(H[np.ix_(kept, kept)], tol=0.0).norm(e.gradient[kept]) ** 2

    def wald(self, A: Array) -> float:
        """Return Wald's statistic."""
        V = self.model._covariance(self.learned, CovarianceKind("information"), None)
        kept = self.learned.kept
        return wald_test(A @ self.learned.x.ravel(), A[:, kept], V).statistic


def drop_one(model: Any, learned: Learned, problem: Problem, groups: Any, test: str) -> DropOne:
    """Test the model without each column (or group of columns); see ``LogisticRegression.drop_one``."""
    gaussian, jeffreys = split_prior(model.prior)
    if test not in TESTS:
        raise UnknownNameError("test", test, TESTS)
    if gaussian is not None or (jeffreys and test == "score"):
        raise InvalidInputError(
            f"drop_one with test={test!r} compares likelihoods, and this model has the prior {model.prior!r}. Fit it "
            "with prior=None, or with JeffreysPrior() for penalised likelihood-ratio tests."
        )
    if test == "wald":
        refuse_separated(model)
    names = [str(name) for name in model._names()]
    if groups is None:
        chosen = _own_groups(getattr(model, "design_", None), names, set(model.aliased_))
    else:
        chosen = _read_groups(groups, names, set(model.aliased_))
    dropping = Dropping(model, learned, problem)
    profiler = make_profiler(learned, problem, 0.0, existing=model._separation is None)
    # Under Jeffreys' prior the penalised likelihood takes the place of the likelihood, up to a constant.
    deviance = -2.0 * learned.log_likelihood
    rows: list[tuple[Any, ...]] = [("(none)", 0, deviance, deviance + 2.0 * model.n_parameters_, np.nan, np.nan)]
    for name, columns in chosen.items():
        A = dropping.constraint(columns)
        df, without = len(A), np.nan
        if test == "wald":
            statistic = dropping.wald(A)
        elif test == "score":
            statistic = dropping.score(profiler, A)
        else:
            statistic = max(2.0 * (dropping.fit(profiler, A).value - profiler.best.value), 0.0)
            without = deviance + statistic
        aic = without + 2.0 * (model.n_parameters_ - df)
        rows.append((name, df, without, aic, statistic, chi_square_p(statistic, df)))
    header = ("term", "df", "deviance", "aic", "statistic", "p_value")
    table = {name: np.array(values) for name, values in zip(header, zip(*rows, strict=True), strict=True)}
    return DropOne(table, ("penalised " if jeffreys and test == TESTS[0] else "") + test)


def refuse_separated(model: Any) -> None:
    """Refuse a Wald test of weights that have no estimate."""
    if model._separation is not None:
        raise InvalidInputError(
            "The classes are separated: some weights have no estimate, and Wald's test says nothing about them. "
            "Use a likelihood-ratio test, drop_one(X, y), or prior=JeffreysPrior()."
        )


def _own_groups(design: Any, names: list[str], aliased: set[str]) -> dict[str, list[int]]:
    """Return every column that was estimated as a group; of a design, every term that is no part of another."""
    if design is None or design.get_feature_names_out().tolist() != names:
        return {name: [j] for j, name in enumerate(names) if name not in aliased}
    # A factor is of a column, or of an expression with a text.
    texts = [[str(getattr(factor.of, "text", factor.of)) for factor in term.factors] for term in design.terms_]
    groups: dict[str, list[int]] = {}
    for term, own in zip(design.terms_, texts, strict=True):
        places = [names.index(name) for name in term.names if name not in aliased]
        if places and not any(set(own) < set(other) for other in texts):
            groups[term.names[0] if term.width == 1 else ":".join(own)] = places
    return groups


def _read_groups(groups: Any, names: list[str], aliased: set[str]) -> dict[str, list[int]]:
    """Return the columns of each group by their places."""
    if not isinstance(groups, Mapping):
        raise InvalidTypeError(
            f"groups must be a mapping from a name to a list of columns, found {groups!r}: "
            "groups={'race': ['race_black', 'race_other']}."
        )
    result = {}
    for key, columns in groups.items():
        listed = [columns] if isinstance(columns, str) else list(columns)
        for column in listed:
            if str(column) not in names:
                raise UnknownNameError("column", column, names)
        places = [names.index(str(column)) for column in listed]
        if all(names[j] in aliased for j in places):
            raise InvalidInputError(f"The group {key!r} has no column that was estimated: there is nothing to test.")
        result[str(key)] = places
    return result
