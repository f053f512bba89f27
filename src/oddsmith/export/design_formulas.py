"""The columns of a table as formulas: those of a `Design` with its policies, or plain numbers."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import reduce
from itertools import product
from typing import Any

import numpy as np

from oddsmith.design.formula import Expression, States, called, column_name, parse
from oddsmith.design.functions import Center, Poly, Scale, Splines
from oddsmith.design.levels import Category
from oddsmith.design.table import Design
from oddsmith.design.terms import Factor
from oddsmith.errors import InvalidInputError
from oddsmith.export.formulas import Columns, FormulaWriter, expand
from oddsmith.protocols import Indices

MOST_POWER, LARGEST_EXPONENT = 20, 700.0
SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Lt: "<", ast.LtE: "<=", ast.Eq: "=", ast.NotEq: "="}


def design_columns(w: FormulaWriter[Columns], design: Design, kept: Indices | None = None) -> Columns:
    """Return the columns that a fitted `Design` makes, or those of them that are ``kept``, in that order.

    A row that the design refuses has no result: a missing value without a policy for it, a level that it does not know
    (unless ``unseen="reference"``), a function of a formula that is not defined there. What no column kept needs is not
    read, and not checked.
    """
    categories: dict[str, Columns] = {}
    numbers: dict[str, Columns] = {}
    if kept is None:
        categories = {name: _category(w, design, category) for name, category in design.categories_.items()}

    def levels(name: str) -> Columns:
        if name not in categories:
            categories[name] = _category(w, design, design.categories_[name])
        return categories[name]

    def column(name: str) -> Columns:
        if name not in numbers:
            x = w.number(name, design.kinds_[name])
            if name in design.fills_:
                x = w.let(w.apply("where", w.apply("missing", x), w.constant(design.fills_[name]), x))
            w.require_finite(x)
            numbers[name] = x
        return numbers[name]

    def columns(factor: Factor) -> Columns:
        if factor.what == "levels":
            return w.pick(levels(factor.of), design.categories_[factor.of].columns(full=factor.full))
        if factor.what == "indicator":
            return w.indicator(w.apply("missing", w.number(factor.of, design.kinds_[factor.of])))
        value = w.let(_expression(w, factor.of, column, design.states_))
        if factor.of.column is None:
            w.require_finite(value)
        return value

    if kept is None:
        return w.join(*(_product(w, [columns(factor) for factor in term.factors]) for term in design.terms_))
    ends = np.cumsum([term.width for term in design.terms_])
    place, made = np.searchsorted(ends, kept, side="right"), {}
    for i in np.unique(place).tolist():
        made[i] = w.let(_product(w, [columns(factor) for factor in design.terms_[i].factors]))
    starts = ends - [term.width for term in design.terms_]
    return w.join(*(w.pick(made[i], [int(j - starts[i])]) for i, j in zip(place.tolist(), kept, strict=True)))


def _category(w: FormulaWriter[Columns], design: Design, category: Category) -> Columns:
    """Return a 0/1 column for every level, that of the reference included."""
    levels, missing = w.category(category.name, category.levels, category.kind)
    known = w.apply("<", w.constant(0.5), w.let(w.sum_columns(levels)))
    if design.unseen == "error":
        w.require(known)
    elif None not in category.levels:
        w.require_not(missing)
    if design.unseen != "reference":
        return levels
    # Whatever is no other level is the reference.
    others = category.columns(full=False)
    if not others:
        return w.constant(1.0)
    rest = w.let(w.scale(w.sum_columns(w.pick(levels, others)), -1.0, 1.0))
    return w.join(*(w.pick(levels, [i]) if i in others else rest for i in category.columns(full=True)))


def _product(w: FormulaWriter[Columns], factors: list[Columns]) -> Columns:
    """Return the products of all combinations of columns, the first factor changing fastest."""
    if len(factors) == 1:
        return factors[0]
    factors = [w.let(factor) for factor in factors]
    products = []
    for chosen in product(*(range(w.width(factor)) for factor in reversed(factors))):
        parts = [w.pick(factor, [j]) for factor, j in zip(factors, reversed(chosen), strict=True)]
        products.append(reduce(lambda x, y: w.apply("*", x, y), parts))
    return w.join(*products)


def _expression(
    w: FormulaWriter[Columns], expression: Expression, column: Callable[[str], Columns], states: States
) -> Columns:
    if expression.column is not None:
        return column(expression.column)

    def value(node: ast.expr) -> Columns:
        if isinstance(node, ast.Name):
            return column(column_name(node))
        if isinstance(node, ast.Constant):
            return w.constant(float(node.value))  # type: ignore[arg-type]
        if isinstance(node, ast.Call):
            name, x = called(node), w.let(value(node.args[0]))
            return _PLAIN[name](w, x) if name in _PLAIN else _learned(w, x, states[ast.unparse(node)])
        if isinstance(node, ast.UnaryOp):
            inner = value(node.operand)
            return w.scale(inner, -1.0) if isinstance(node.op, ast.USub) else inner
        if isinstance(node, ast.Compare):
            return _comparison(w, node.ops[0], value(node.left), value(node.comparators[0]))
        assert isinstance(node, ast.BinOp)
        if isinstance(node.op, ast.Pow):
            return _power(w, w.let(value(node.left)), node.right, expression.text)
        return _arithmetic(w, node.op, w.let(value(node.left)), w.let(value(node.right)))

    return value(parse(expression.text))


def _arithmetic(w: FormulaWriter[Columns], operator: ast.operator, x: Columns, y: Columns) -> Columns:
    if type(operator) in SIGNS:
        return w.apply(SIGNS[type(operator)], x, y)
    zero = w.apply("=", y, w.constant(0.0))
    w.require_not(zero)
    quotient = w.apply("/", x, w.let(w.apply("where", zero, w.constant(1.0), y)))
    if isinstance(operator, ast.Div):
        return quotient
    whole = w.apply("floor", quotient)
    return whole if isinstance(operator, ast.FloorDiv) else w.apply("-", x, w.apply("*", y, whole))


def _comparison(w: FormulaWriter[Columns], operator: ast.cmpop, x: Columns, y: Columns) -> Columns:
    if isinstance(operator, ast.Gt | ast.GtE):
        return _comparison(w, ast.Lt() if isinstance(operator, ast.Gt) else ast.LtE(), y, x)
    yes = 0.0 if isinstance(operator, ast.NotEq) else 1.0
    return w.indicator(w.apply(SIGNS[type(operator)], x, y), yes, 1.0 - yes)


def _power(w: FormulaWriter[Columns], x: Columns, exponent: ast.expr, text: str) -> Columns:
    try:
        p = float(ast.literal_eval(exponent))
    except (ValueError, TypeError):
        raise InvalidInputError(
            f"{text} in the formula has a power that is not constant, which cannot be exported. Compute it before the "
            "fit."
        ) from None
    if not p.is_integer() or abs(p) > MOST_POWER:
        return _exp(w, w.scale(_log(w, x), p))
    value = w.constant(1.0)
    for _ in range(int(abs(p))):
        value = w.apply("*", value, x)
    return value if p >= 0 else _arithmetic(w, ast.Div(), w.constant(1.0), w.let(value))


def _exp(w: FormulaWriter[Columns], x: Columns) -> Columns:
    x = w.let(x)
    w.require(w.apply("<=", x, w.constant(LARGEST_EXPONENT)))
    return w.apply("exp", w.apply("min", x, w.constant(LARGEST_EXPONENT)))


def _log(w: FormulaWriter[Columns], x: Columns) -> Columns:
    w.require_positive(x)
    return w.safe_log(x)


def _sqrt(w: FormulaWriter[Columns], x: Columns) -> Columns:
    w.require_positive(x, zero=True)
    return w.apply("sqrt", w.apply("max", x, w.constant(0.0)))


_PLAIN: dict[str, Callable[[FormulaWriter[Any], Any], Any]]
_PLAIN = {"exp": _exp, "log": _log, "sqrt": _sqrt, "I": lambda w, x: x}


def _learned(w: FormulaWriter[Columns], x: Columns, state: object) -> Columns:
    """Return a column transformed by a function that has learned something."""
    if isinstance(state, Splines):
        return expand(w, x, [state.basis])
    if isinstance(state, Poly):
        return _orthogonal(w, x, state)
    assert isinstance(state, Center | Scale)
    return w.standardize(x, np.array([state.mean]), state.sd if isinstance(state, Scale) else 1.0)


def _orthogonal(w: FormulaWriter[Columns], x: Columns, state: Poly) -> Columns:
    before, now, columns = w.constant(0.0), w.constant(1.0), []
    for k, center in enumerate(state.center):
        ratio = state.norm[k] / state.norm[k - 1] if k else 0.0
        step = w.apply("*", w.scale(x, 1.0, -center), now)
        before, now = now, w.let(w.apply("-", step, w.scale(before, ratio)))
        columns.append(w.scale(now, 1.0 / float(np.sqrt(state.norm[k + 1]))))
    return w.join(*columns)
