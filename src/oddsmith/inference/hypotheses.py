"""Tests of hypotheses about weights: chi-square statistics, and the reading of linear hypotheses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.errors import InvalidInputError, UnknownNameError
from oddsmith.inference.fit_record import FitRecord
from oddsmith.inference.sandwich import CovarianceKind, covariance
from oddsmith.inference.summary import chi_square_p
from oddsmith.inference.tables import ColumnTable, ReportTable
from oddsmith.numerics import Array, factor_spd


@dataclass(frozen=True)
class ChiSquareTest(ReportTable):
    """A test statistic that is χ² with ``df`` degrees of freedom if the hypothesis holds.

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


@dataclass(frozen=True)
class DropOne(ColumnTable):
    """What the model loses with each term: a row for the model itself, then one per term (or group of columns).

    Columns ``term``, ``df``, ``deviance``, ``aic``, ``statistic``, ``p_value``; the deviance and AIC are those without
    the term (NaN for tests that do not fit the smaller models).
    """

    columns: Mapping[str, Any]
    test: str

    _header = ReportTable._header

    @property
    def notes(self) -> tuple[str, ...]:
        return (f"{self.test} tests of each term against the whole model",)


def refuse_separated(fit: FitRecord) -> None:
    """Refuse a Wald test of weights that have no estimate."""
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
        raise InvalidInputError(f"{first!r} was set aside as aliased: nothing can be said about its weight.")
    return wald_test(matrix @ weights.estimate - side, matrix @ weights.J, covariance(fit, kind), text)


def wald_test(value: Array, A: Array, V: Array, hypothesis: str = "") -> ChiSquareTest:
    """Test ``value = 0``, where ``value`` (length q) is estimated with covariance ``A V Aᵀ``.

    Hypotheses that follow from earlier ones do not count; those that contradict them are refused.
    """
    S = A @ V @ A.T
    factor = factor_spd((S + S.T) / 2.0, tol=1e-12)
    if not factor.kept.any():
        raise InvalidInputError("These hypotheses are about nothing that was estimated: their variance is zero.")
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

    ``R`` may be

    * a matrix (or one row of it), a column for each weight in the order of ``labels``, with ``r`` (0 if not given);
    * a mapping from weights to factors, or a list of such, with ``r``;
    * a text such as ``"age = 0, 2*lwt - ptl = 1"``; with classes ``"age[a] = age[b]"``.

    ``labels`` are terms, or pairs (class, term). Those of weights that are ``zero`` (of a reference class) may be
    named, too.
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
        raise InvalidInputError(f"r must be made of numbers, one for each row of R; found {r!r}.") from None
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
    """Return the one place of a name; two weights of one name cannot be told apart."""
    if len(places) > 1:
        raise InvalidInputError(f"{len(places)} weights are called {name!r}. Rename a column, or give R as a matrix.")
    return places[0]


def _tokens(text: str, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield operators, numbers and known names; the longest name that fits comes first."""
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
    """Yield the rows and right-hand sides of a text of equations; a side that is missing is zero."""
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
