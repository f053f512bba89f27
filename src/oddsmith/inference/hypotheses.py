"""Hypothesis tests about weights: Wald tests of linear hypotheses, and comparisons of nested models."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.engines import one_blas_thread
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.inference.covariance import CovarianceKind, covariance
from oddsmith.inference.fit_record import FitRecord, LikelihoodModel, expression_of
from oddsmith.inference.profile import Profiler, make_profiler, objective_of
from oddsmith.inference.summary import chi_square_p
from oddsmith.inference.tables import ColumnTable, ReportTable
from oddsmith.numerics import Array, factor_spd
from oddsmith.priors import split_prior
from oddsmith.solvers import Newton
from oddsmith.solvers.base import ObjectiveValue

TESTS = ("likelihood-ratio", "score", "wald")
MOST_NAMED = 8  # Columns that the text of a hypothesis names.


@dataclass(frozen=True, repr=False)
class ChiSquareTest(ReportTable):
    """A test statistic with a χ² distribution of ``df`` degrees of freedom under the hypothesis.

    >>> test = ChiSquareTest("likelihood ratio", 3.841458820694124, 1)
    >>> round(test.p_value, 6)
    0.05
    """

    test: str
    statistic: float
    df: int
    hypothesis: str = ""

    @property
    def p_value(self) -> float:
        """P(χ² ≥ statistic)."""
        return chi_square_p(self.statistic, self.df)

    @property
    def notes(self) -> tuple[str, ...]:
        return (f"hypothesis: {self.hypothesis}",) if self.hypothesis else ()

    def to_dict(self) -> dict[str, list[Any]]:
        return {"test": [self.test], "statistic": [self.statistic], "df": [self.df], "p_value": [self.p_value]}


@dataclass(frozen=True, repr=False)
class DropOne(ColumnTable):
    """Tests of the model without each term: a row for the full model, then one per term (or group of columns).

    The columns are ``term``, ``df``, ``deviance``, ``aic``, ``statistic``, ``p_value``; deviance and AIC describe the
    model without the term (NaN for tests that do not fit the smaller models).
    """

    columns: Mapping[str, Any]
    test: str

    _header = ReportTable._header

    @property
    def notes(self) -> tuple[str, ...]:
        return (f"{self.test} tests of each term against the whole model",)


def refuse_separated(fit: FitRecord) -> None:
    """Refuse a Wald test of weights without a finite estimate."""
    if fit.separation is not None:
        raise InvalidInputError(
            "The classes are separated: some weights have no estimate, and Wald's test says nothing about them. "
            "Use a likelihood-ratio test, drop_one(X, y), or prior=JeffreysPrior()."
        )


def linear_test(fit: FitRecord, R: object, r: object, kind: CovarianceKind) -> ChiSquareTest:
    """Test linear hypotheses about the reported weights; see ``LogisticRegression.test_linear``."""
    refuse_separated(fit)
    weights = fit.weights
    matrix, side, text = read_hypotheses(R, r, weights.labels, weights.zero)
    tested_and_aliased = (matrix != 0.0).any(axis=0) & weights.aliased
    if tested_and_aliased.any():
        first = weights.labels[int(np.argmax(tested_and_aliased))]
        raise InvalidInputError(f"{first!r} is aliased: its weight was not estimated.")
    return wald_test(matrix @ weights.estimate - side, matrix @ weights.J, covariance(fit, kind), text)


def wald_test(value: Array, A: Array, V: Array, hypothesis: str = "") -> ChiSquareTest:
    """Test ``value = 0``, where ``value`` (length q) is estimated with covariance ``A V Aᵀ``.

    Hypotheses implied by earlier ones do not count; contradictory ones are refused.
    """
    S = A @ V @ A.T
    factor = factor_spd((S + S.T) / 2.0, tol=1e-12)
    if not factor.kept.any():
        raise InvalidInputError("These hypotheses concern no estimated weight: their variance is zero.")
    scaled = factor.solve(value)
    predicted = S @ scaled
    size = np.sqrt(np.maximum(np.diag(S), 0.0)) + np.abs(value)
    if np.any(np.abs(predicted - value)[~factor.kept] > 1e-6 * np.maximum(size, 1e-300)[~factor.kept]):
        raise InvalidInputError(
            "Some of the hypotheses follow from the others in part, with another right-hand side: they contradict each "
            "other. Leave out those that are not needed."
        )
    return ChiSquareTest("Wald", float(value @ scaled), int(factor.kept.sum()), hypothesis)


def read_hypotheses(R: object, r: object, labels: Sequence[Any], zero: Sequence[Any] = ()) -> tuple[Array, Array, str]:
    """Return ``R`` (q × weights), ``r`` (length q) and their text.

    ``R`` may be a matrix (or a single row) with a column for each weight in the order of ``labels``; a mapping from
    weights to factors, or a list of mappings; both with ``r`` (default 0); or text, such as
    ``"age = 0, 2*lwt - ptl = 1"`` or, with classes, ``"age[a] = age[b]"``. ``labels`` are terms, or pairs (class,
    term). Text may also name the ``zero`` weights of a reference class.
    """
    if isinstance(R, str):
        if r is not None:
            raise InvalidInputError("A hypothesis given as text has its right-hand side in it: leave out r.")
        factors, sides = zip(*_equations(R, [*labels, *zero]), strict=True)
        return np.array(factors)[:, : len(labels)], np.array(sides), R
    rows = [R] if isinstance(R, Mapping) else R
    if isinstance(rows, Sequence) and len(rows) and all(isinstance(row, Mapping) for row in rows):
        matrix = np.array([_factors(row, [*labels, *zero]) for row in rows])[:, : len(labels)]
    else:
        try:
            matrix = np.atleast_2d(np.asarray(R, dtype=np.float64))
        except (TypeError, ValueError):
            raise InvalidInputError(
                "R must be a matrix of numbers, a mapping from terms to factors or a text such as 'age = 0'; found "
                f"{R!r}."
            ) from None
    if matrix.ndim != 2 or matrix.shape[1] != len(labels) or not len(matrix) or not np.isfinite(matrix).all():
        raise InvalidInputError(
            f"R has shape {matrix.shape}; expected finite numbers, a row a hypothesis and {len(labels)} columns, in "
            f"the order of summary(): {', '.join(map(_text, labels[:6]))}{' …' if len(labels) > 6 else ''}."
        )
    try:
        side = np.zeros(len(matrix)) if r is None else np.asarray(r, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"r must be numeric, one number for each row of R; found {r!r}.") from None
    if side.ndim > 1 or side.size not in (1, len(matrix)) or not np.isfinite(side).all():
        raise InvalidInputError(
            f"r has shape {side.shape}; expected {len(matrix)} numbers, finite and one for each row of R."
        )
    side = np.broadcast_to(side, len(matrix)).astype(np.float64)
    return matrix, side, ", ".join(_written(row, value, labels) for row, value in zip(matrix, side, strict=True))


def _text(label: object) -> str:
    return f"{label[1]}[{label[0]}]" if isinstance(label, tuple) else str(label)


def _written(row: Array, value: float, labels: Sequence[Any]) -> str:
    parts = [(v, _text(label)) for v, label in zip(row.tolist(), labels, strict=True) if v]
    left = " ".join(
        f"{('- ' if i else '-') if v < 0 else '+ ' if i else ''}{'' if abs(v) == 1 else f'{abs(v):g}*'}{name}"
        for i, (v, name) in enumerate(parts)
    )
    return f"{left or '0'} = {value:g}"


def _factors(row: Mapping[Any, float], labels: Sequence[Any]) -> Array:
    result, names = np.zeros(len(labels)), [_text(label) for label in labels]
    for key, value in row.items():
        found = [i for i, label in enumerate(labels) if key in (label, names[i])]
        if not found:
            raise UnknownNameError("weight", key, names)
        place = _only(str(key), found)
        try:
            result[place] += float(value)
        except (TypeError, ValueError):
            raise InvalidInputError(f"The factor of {key!r} must be a number, found {value!r}.") from None
    return result


def _only(name: str, places: Sequence[int]) -> int:
    """Return the position of a name; raise if two weights have this name."""
    if len(places) > 1:
        raise InvalidInputError(f"{len(places)} weights are called {name!r}. Rename a column, or give R as a matrix.")
    return places[0]


def _tokens(text: str, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield operators, numbers and known names; the longest matching name wins."""
    known = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    number = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
    kinds = rf"\s+|(?P<name>(?:{known})(?!\w))|(?P<sign>[-+*=,])|(?P<number>{number})|(?P<unknown>[^\s+*=,-]+)"
    for found in re.finditer(kinds, text):
        kind, value = found.lastgroup, found.group()
        if kind == "unknown":
            raise UnknownNameError("weight", value, names)
        if kind is not None:  # no white space
            yield (value if kind == "sign" else kind), float(value) if kind == "number" else value


BEFORE = {
    "name": ("", "+", "-", "=", "*", "number"),
    "number": ("", "+", "-", "="),
    "*": ("number",),
    "+": ("", "=", "name", "number"),
    "-": ("", "=", "name", "number"),
    "=": ("name", "number"),
    ",": ("", "name", "number"),
}
"""What may stand before each kind of token; "" is the beginning of an equation."""


def _equations(text: str, labels: Sequence[Any]) -> Iterator[tuple[Array, float]]:
    """Yield the rows and right-hand sides of equations in text; a missing side is zero."""
    names = [_text(label) for label in labels]
    row, constant, side, sign, factor, seen, before = np.zeros(len(labels)), 0.0, 1.0, 1.0, None, False, ""
    for kind, value in [*_tokens(text, names), (",", ",")]:
        if before not in BEFORE[kind]:
            where = {",": "ends too early", "*": "has a '*' with no number before it"}
            what = where.get(kind, f"has {value!r} where it cannot be read")
            raise InvalidInputError(f"An equation of {text!r} {what}: write 'age = 0, 2*lwt - ptl = 1'.")
        before = "" if kind == "," else kind
        if kind == "name":
            place = _only(value, [i for i, name in enumerate(names) if name == value])
            row[place] += side * sign * (1.0 if factor is None else factor)
            factor, sign, seen = None, 1.0, True
        elif kind == "number":
            factor = value
        elif kind != "*":
            if factor is not None:
                constant, factor = constant - side * sign * factor, None
            sign = -1.0 if kind == "-" else 1.0
            if kind == "=":
                if side < 0:
                    raise InvalidInputError(f"{text!r} has two '=' in one equation: separate equations by commas.")
                side = -1.0
            elif kind == ",":
                if not seen:
                    raise InvalidInputError(f"{text!r} has an equation without any weight in it.")
                yield row, constant
                row, constant, side, seen = np.zeros(len(labels)), 0.0, 1.0, False


def likelihood_ratio_test(small: LikelihoodModel, large: LikelihoodModel) -> ChiSquareTest:
    """Test a model against a larger one that contains it: ``2 (log L_large − log L_small)``.

    Both must be maximum likelihood fits to the same rows; this is checked as far as possible (number of rows, class
    weights, offsets, links, column names). Equal to ``anova(small, large, test = "Chisq")`` in R.

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
        if model._learned is None or model._learned.sparse or split_prior(model.prior) != (None, False):
            raise InvalidInputError(
                f"A likelihood-ratio test compares maximum likelihood fits, but {what} is {model!r}. Fit it with "
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
    more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
    text = f"no effect of {', '.join(missing[:MOST_NAMED])}{more}" if missing else ""
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
            f"The models were fitted with different offsets: the null log likelihood is {nulls[0]:.8g} for small and "
            f"{nulls[1]:.8g} for large. Fit both with the same offset."
        )
    if small.link_name != large.link_name:
        raise InvalidInputError(
            f"The models have different links, {small.link_name!r} and {large.link_name!r}: they do not nest."
        )
    foreign = set(small.names) - set(large.names) if small.named and large.named else set()
    if foreign or (intercepts[0] and not intercepts[1]):
        what = ", ".join(sorted(map(repr, foreign))) or "an intercept"
        raise InvalidInputError(f"The models do not nest: small has {what}, which large does not have.")


def _constrained_fit(fit: FitRecord, profiler: Profiler, A: Array) -> ObjectiveValue:
    """Return the fit with ``A x = 0``, starting from the nearest feasible point in the metric of the Hessian."""
    if profiler.anchor is not None:  # the classes may be separated without these columns too
        objective = objective_of(fit)
        objective = objective.restricted(objective.free & (A.sum(axis=0) == 0.0).reshape(objective.shape))
        solver = Newton(watch_divergence=False)
        return profiler.evaluate(solver.minimise(objective, np.zeros(objective.size), tol=1e-8, max_iter=60).w)
    best, zero = profiler.best, np.zeros(len(A))
    found = profiler.fit_constrained(best, A, zero, np.zeros_like(best.w), shortest=1e-6, max_iter=200)
    if found is None:
        raise InvalidInputError(
            "The model without these columns could not be fitted: the search left the domain of the link."
        )
    return found.e


def drop_one(fit: FitRecord, groups: object, test: str) -> DropOne:
    """Test the model without each column (or group of columns); see ``LogisticRegression.drop_one``."""
    gaussian, jeffreys = split_prior(fit.prior)
    if test not in TESTS:
        raise UnknownNameError("test", test, TESTS)
    if gaussian is not None or (jeffreys and test == "score"):
        raise InvalidInputError(
            f"drop_one with test={test!r} compares likelihoods, but this model has the prior {fit.prior!r}. Fit it "
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
                # Rao's: gᵀ I⁻¹ g at the fit without the columns, with the expected information.
                e, kept, objective = _constrained_fit(fit, profiler, A), state.kept, objective_of(fit)
                H = objective.evaluate(e.w, order=2, expected=not objective.canonical).dense_hessian
                statistic = factor_spd(H[np.ix_(kept, kept)], tol=0.0).norm(e.gradient[kept]) ** 2
            else:
                statistic = max(2.0 * (_constrained_fit(fit, profiler, A).value - profiler.best.value), 0.0)
                without = deviance + statistic
            aic = without + 2.0 * (fit.n_parameters - df)
            rows.append((name, df, without, aic, statistic, chi_square_p(statistic, df)))
    header = ("term", "df", "deviance", "aic", "statistic", "p_value")
    table = {name: np.array(values) for name, values in zip(header, zip(*rows, strict=True), strict=True)}
    return DropOne(table, ("penalised " if jeffreys and test == TESTS[0] else "") + test)


def _own_groups(fit: FitRecord) -> dict[str, list[int]]:
    """Return every estimated column as a group; for a design, every term that is not part of another."""
    aliased = set(fit.aliased)
    if not fit.terms:
        return {name: [j] for j, name in enumerate(fit.names) if name not in aliased}
    texts = [[expression_of(factor).text for factor in term.factors] for term in fit.terms]
    groups: dict[str, list[int]] = {}
    for (start, term), own in zip(fit.places_of_terms, texts, strict=True):
        places = [start + j for j, name in enumerate(term.names) if name not in aliased]
        if places and not any(set(own) < set(other) for other in texts):
            groups[term.names[0] if term.width == 1 else ":".join(own)] = places
    return groups


def _read_groups(fit: FitRecord, groups: object) -> dict[str, list[int]]:
    """Return the positions of the columns of each group."""
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
