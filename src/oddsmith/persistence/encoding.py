"""The columns of a table as formulas: those of a `Design` with its policies, or plain numbers."""

from __future__ import annotations

import ast
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from oddsmith.design.expressions import Expression, _key, _name, _parsed
from oddsmith.design.terms import Factor
from oddsmith.errors import InvalidInputError
from oddsmith.persistence.formulas import (
    Columns,
    Writer,
    expansion,
    number,
    require_finite,
    require_positive,
    scaled,
    shifted,
    total,
)

MOST_POWER = 20
LARGEST_EXPONENT = 700.0


def plain_columns(w: Writer, names: list[str]) -> Columns:
    """Return columns of finite numbers; rows that lack one have no result."""
    x = w.join(*(w.number(name) for name in names))
    require_finite(w, x)
    return x


def design_columns(w: Writer, design: Any) -> Columns:
    """Return the columns that a fitted `Design` makes.

    A row that the design refuses has no result: a missing value without a policy for it, a level that it does not know
    (unless ``unseen="reference"``), a function of a formula that is not defined there.
    """
    categories = {name: _category(w, design, category) for name, category in design.categories_.items()}
    numbers: dict[str, Columns] = {}
    made = []
    for term in design.terms_:
        factors = [_factor(w, design, factor, categories, numbers) for factor in term.factors]
        made.append(_product(w, factors))
    return w.join(*made)


def _category(w: Writer, design: Any, category: Any) -> Columns:
    """Return a 0/1 column for every level, that of the reference included."""
    levels, missing = w.category(category.name, category.levels, category.kind)
    known = w.compare("<", number(w, 0.5), w.let(total(w, levels)))
    if design.unseen == "error":
        w.require(known)
    elif None not in category.levels:
        w.require(w.compare("<", w.where(missing, number(w, 1.0), number(w, 0.0)), number(w, 0.5)))
    if design.unseen == "reference":
        # Whatever is no other level is the reference.
        others = [i for i in range(len(category.levels)) if i != category.reference]
        if not others:
            return number(w, 1.0)
        rest = w.let(scaled(w, total(w, w.pick(levels, others)), -1.0, 1.0))
        order = [rest if i == category.reference else w.pick(levels, [i]) for i in range(len(category.levels))]
        return w.join(*order)
    return levels


def _factor(
    w: Writer, design: Any, factor: Factor, categories: dict[str, Columns], numbers: dict[str, Columns]
) -> Columns:
    if factor.what == "levels":
        return w.pick(categories[factor.of], design.categories_[factor.of].columns(full=factor.full))
    if factor.what == "indicator":
        return w.where(w.missing(w.number(factor.of, design.kinds_[factor.of])), number(w, 1.0), number(w, 0.0))

    def column(name: str) -> Columns:
        if name not in numbers:
            numbers[name] = _filled(w, name, design)
        return numbers[name]

    value = w.let(_expression(w, factor.of, column, design.states_))
    if factor.of.column is None:
        require_finite(w, value)
    return value


def _filled(w: Writer, name: str, design: Any) -> Columns:
    x = w.number(name, design.kinds_[name])
    if name in design.fills_:
        x = w.let(w.where(w.missing(x), number(w, design.fills_[name]), x))
    require_finite(w, x)
    return x


def _product(w: Writer, factors: list[Columns]) -> Columns:
    """Return the products of all combinations of columns, the first factor changing fastest."""
    if len(factors) == 1:
        return factors[0]
    factors = [w.let(factor) for factor in factors]
    made = []
    for chosen in product(*(range(w.width(factor)) for factor in reversed(factors))):
        parts = [w.pick(factor, [j]) for factor, j in zip(factors, reversed(chosen), strict=True)]
        value = parts[0]
        for part in parts[1:]:
            value = w.binary("*", value, part)
        made.append(value)
    return w.join(*made)


# ------------------------------------------------------------------------------- expressions of formulas


def _expression(w: Writer, expression: Expression, column: Callable[[str], Columns], states: dict[str, Any]) -> Columns:
    if expression.column is not None:
        return column(expression.column)
    tree, quoted = _parsed(expression.text)

    def value(node: ast.expr) -> Columns:
        if isinstance(node, ast.Name):
            return column(quoted.get(node.id, node.id))
        if isinstance(node, ast.Constant):
            return number(w, float(node.value))  # type: ignore[arg-type]
        if isinstance(node, ast.Call):
            name, x = _name(node), w.let(value(node.args[0]))
            return _PLAIN[name](w, x) if name in _PLAIN else _learned(w, x, states[_key(node, quoted)])
        if isinstance(node, ast.UnaryOp):
            inner = value(node.operand)
            return scaled(w, inner, -1.0) if isinstance(node.op, ast.USub) else inner
        if isinstance(node, ast.Compare):
            return _comparison(w, node.ops[0], value(node.left), value(node.comparators[0]))
        assert isinstance(node, ast.BinOp)
        if isinstance(node.op, ast.Pow):
            return _power(w, w.let(value(node.left)), node.right, expression.text)
        return _arithmetic(w, node.op, w.let(value(node.left)), w.let(value(node.right)))

    return value(tree)


def _arithmetic(w: Writer, operator: ast.operator, x: Columns, y: Columns) -> Columns:
    sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}.get(type(operator))
    if sign is not None:
        return w.binary(sign, x, y)
    zero = w.compare("=", y, number(w, 0.0))
    w.require(w.compare("<", w.where(zero, number(w, 1.0), number(w, 0.0)), number(w, 0.5)))
    quotient = w.binary("/", x, w.let(w.where(zero, number(w, 1.0), y)))
    if isinstance(operator, ast.Div):
        return quotient
    whole = w.unary("floor", quotient)
    return whole if isinstance(operator, ast.FloorDiv) else w.binary("-", x, w.binary("*", y, whole))


def _comparison(w: Writer, operator: ast.cmpop, x: Columns, y: Columns) -> Columns:
    if isinstance(operator, ast.Gt | ast.GtE):
        x, y = y, x
    sign = "<" if isinstance(operator, ast.Lt | ast.Gt) else "<=" if isinstance(operator, ast.LtE | ast.GtE) else "="
    yes, no = (0.0, 1.0) if isinstance(operator, ast.NotEq) else (1.0, 0.0)
    return w.where(w.compare(sign, x, y), number(w, yes), number(w, no))


def _power(w: Writer, x: Columns, exponent: ast.expr, text: str) -> Columns:
    try:
        p = float(ast.literal_eval(exponent))
    except (ValueError, TypeError):
        raise InvalidInputError(
            f"{text} in the formula has a power that is no constant, which is not exported. Compute it before the fit."
        ) from None
    if p.is_integer() and abs(p) <= MOST_POWER:
        value = number(w, 1.0)
        for _ in range(int(abs(p))):
            value = w.binary("*", value, x)
        return value if p >= 0 else _arithmetic(w, ast.Div(), number(w, 1.0), w.let(value))
    require_positive(w, x)
    return _exp(w, scaled(w, w.unary("log", w.binary("max", x, number(w, w.smallest))), p))


def _exp(w: Writer, x: Columns) -> Columns:
    x = w.let(x)
    w.require(w.compare("<=", x, number(w, LARGEST_EXPONENT)))
    return w.unary("exp", w.binary("min", x, number(w, LARGEST_EXPONENT)))


def _log(w: Writer, x: Columns) -> Columns:
    require_positive(w, x)
    return w.unary("log", w.binary("max", x, number(w, w.smallest)))


def _sqrt(w: Writer, x: Columns) -> Columns:
    require_positive(w, x, zero=True)
    return w.unary("sqrt", w.binary("max", x, number(w, 0.0)))


_PLAIN: dict[str, Callable[[Writer, Columns], Columns]] = {
    "exp": _exp,
    "log": _log,
    "sqrt": _sqrt,
    "I": lambda w, x: x,
}


def _learned(w: Writer, x: Columns, state: Any) -> Columns:
    """Return what a function that learned something makes of a column."""
    if hasattr(state, "basis"):
        return expansion(w, x, [state.basis])
    if hasattr(state, "norm"):
        return _orthogonal(w, x, state)
    return shifted(w, x, np.array([state.mean]), getattr(state, "sd", 1.0))


def _orthogonal(w: Writer, x: Columns, state: Any) -> Columns:
    before, now, made = number(w, 0.0), number(w, 1.0), []
    for k, center in enumerate(state.center):
        ratio = state.norm[k] / state.norm[k - 1] if k else 0.0
        step = w.binary("*", scaled(w, x, 1.0, -center), now)
        before, now = now, w.let(w.binary("-", step, scaled(w, before, ratio)))
        made.append(scaled(w, now, 1.0 / float(np.sqrt(state.norm[k + 1]))))
    return w.join(*made)
