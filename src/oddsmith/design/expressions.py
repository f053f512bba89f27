"""Expressions of a formula such as ``log(age)`` or ``spline(lwt, knots=5)``: read as data, never run as code.

An expression is parsed to Python's syntax tree, and every node of it must be one that is known here: columns, numbers,
arithmetic, comparisons, and the functions of `functions`. The nodes are then evaluated on arrays, one by one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.design.functions import LEARNED, OPTIONS, PLAIN
from oddsmith.errors import InvalidInputError
from oddsmith.numerics import Array

MOST_NODES = 200
QUOTED = re.compile(r"`([^`]*)`")
OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.Pow: np.power,
    ast.USub: np.negative,
    ast.UAdd: np.positive,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}
FUNCTIONS = ("C", *sorted({*LEARNED, *PLAIN}))

States = dict[str, Any]
"""What the functions of a formula have learned, by the text of their call."""


@dataclass(frozen=True)
class Expression:
    """An expression that was found harmless: its text, and the columns that it names.

    ``column`` is the one that stands alone; ``category`` that of ``C(column)``, and ``reference`` its level, None where
    there is none.

    >>> read_expression("log(age) * 2").columns, read_expression("C(race, reference='white')").category
    (('age',), 'race')
    """

    text: str
    columns: tuple[str, ...]
    column: str | None = None
    category: str | None = None
    reference: Any = None


def plain_column(name: str) -> Expression:
    """Return the expression that is a column, whatever its name."""
    return Expression(name, (name,), column=name)


def read_expression(text: str) -> Expression:
    """Return an expression, or say what in it is not allowed."""
    tree, quoted = _parsed(text)
    names: dict[str, None] = {}
    _check(tree, text, names, quoted, top=True)
    columns = tuple(names)
    if not columns:
        raise _refuse(text, "it names no column")
    if isinstance(tree, ast.Call) and _called(tree, text) == "C":
        given = [*tree.args[1:], *(keyword.value for keyword in tree.keywords)]
        return Expression(text, columns, category=columns[0], reference=_constant(given[0], text) if given else None)
    return Expression(text, columns, column=columns[0] if isinstance(tree, ast.Name) else None)


def evaluate(expression: Expression, column: Callable[[str], Array], states: States) -> Array:
    """Return an expression's values, n × w, from a function that gives a column's values, and what was learned."""
    if expression.column is not None:
        return column(expression.column)[:, None]
    tree, quoted = _parsed(expression.text)
    _check(tree, expression.text, {}, quoted, top=True)  # it may come from a file
    with np.errstate(all="ignore"):  # what is not finite is refused by the caller, with the row
        values = np.asarray(_value(tree, column, states, quoted), dtype=np.float64)
    return values if values.ndim == 2 else values[:, None]


def learn(expression: Expression, column: Callable[[str], Array], s: Array, states: States) -> None:
    """Learn, from all rows and their weights, what the functions of an expression keep; inner ones first."""
    if expression.column is not None:
        return
    tree, quoted = _parsed(expression.text)
    for node in reversed(_learning(tree)):  # a walk meets the outer before the inner
        key = _key(node, quoted)
        if key in states:
            continue
        with np.errstate(all="ignore"):
            x = np.asarray(_value(node.args[0], column, states, quoted), dtype=np.float64)
        if not np.isfinite(x).all():
            raise not_finite(expression, int(np.argmin(np.isfinite(x))))
        try:
            states[key] = LEARNED[_name(node)](x, s, **_options(node, expression.text))
        except InvalidInputError as error:
            why = str(error).rstrip(".")
            raise InvalidInputError(f"{expression.text} in the formula cannot be learned: {why}.") from None


def learns(expression: Expression) -> bool:
    """Whether an expression learns something from the rows.

    >>> learns(read_expression("log(x)")), learns(read_expression("scale(x)"))
    (False, True)
    """
    return expression.column is None and bool(_learning(_parsed(expression.text)[0]))


def _learning(tree: ast.expr) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node) in LEARNED]


def not_finite(expression: Expression, row: int) -> InvalidInputError:
    """Return the error that says where an expression has no finite value."""
    if expression.column is not None:
        return InvalidInputError(
            f"Column {expression.column!r} has infinite values (inf), the first in row {row}. Replace them by finite "
            "numbers."
        )
    return InvalidInputError(
        f"{expression.text} is not a finite number in row {row}. Correct the value there, or choose another function."
    )


def _parsed(text: str) -> tuple[ast.expr, dict[str, str]]:
    quoted: dict[str, str] = {}
    prefix = "quoted_"
    while prefix in text:
        prefix += "_"

    def stand_in(match: re.Match[str]) -> str:
        name = f"{prefix}{len(quoted)}"
        quoted[name] = match.group(1)
        return name

    try:
        tree = ast.parse(QUOTED.sub(stand_in, text).strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _refuse(text, "it cannot be read") from None
    return tree, quoted


def _refuse(text: str, why: str) -> InvalidInputError:
    return InvalidInputError(
        f"{text!r} in the formula is not allowed: {why}. A formula holds columns (in `backticks` if their names are "
        f"odd), numbers, arithmetic, and the functions {', '.join(FUNCTIONS)}; compute anything else before the fit."
    )


def _check(tree: ast.expr, text: str, names: dict[str, None], quoted: dict[str, str], *, top: bool) -> None:
    """Refuse every node that is not known; collect the columns."""
    if sum(1 for _ in ast.walk(tree)) > MOST_NODES:
        raise _refuse(text, "it is too long")
    if isinstance(tree, ast.Name):
        if tree.id.startswith("__"):
            raise _refuse(text, f"{tree.id} is no name for a column here")
        names[quoted.get(tree.id, tree.id)] = None
    elif isinstance(tree, ast.Constant):
        _constant(tree, text, numbers=True)
    elif isinstance(tree, ast.BinOp) and type(tree.op) in OPERATORS:
        for part in (tree.left, tree.right):
            _check(part, text, names, quoted, top=False)
    elif isinstance(tree, ast.UnaryOp) and type(tree.op) in OPERATORS:
        _check(tree.operand, text, names, quoted, top=False)
    elif isinstance(tree, ast.Compare) and len(tree.ops) == 1 and type(tree.ops[0]) in OPERATORS:
        for part in (tree.left, tree.comparators[0]):
            _check(part, text, names, quoted, top=False)
    elif isinstance(tree, ast.Call):
        _check_call(tree, text, names, quoted, top=top)
    else:
        raise _refuse(text, f"it holds {_article(type(tree).__name__)}")


def _check_call(tree: ast.Call, text: str, names: dict[str, None], quoted: dict[str, str], *, top: bool) -> None:
    name = _called(tree, text)
    if not tree.args:
        raise _refuse(text, f"{name}() needs a column")
    if name == "C":
        if not top or not isinstance(tree.args[0], ast.Name) or len(tree.args) + len(tree.keywords) > 2:
            raise _refuse(text, "C() stands alone, around one column, with a reference= at most")
        if tree.keywords and tree.keywords[0].arg != "reference":
            raise _refuse(text, f"C() has no option {tree.keywords[0].arg}")
    elif name in PLAIN:
        if len(tree.args) > 1 or tree.keywords:
            raise _refuse(text, f"{name}() takes one argument")
    else:
        if not top and name not in ("center", "scale"):
            raise _refuse(text, f"{name}() makes several columns, so it cannot stand inside another expression")
        _options(tree, text)
        if not any(isinstance(node, ast.Name) for node in ast.walk(tree.args[0])):
            raise _refuse(text, f"{name}() needs a column")
    _check(tree.args[0], text, names, quoted, top=False)


def _called(tree: ast.Call, text: str) -> str:
    if not isinstance(tree.func, ast.Name):
        raise _refuse(text, "it calls something that is no function of formulas")
    if tree.func.id not in FUNCTIONS:
        raise _refuse(text, f"{tree.func.id}() is no function of formulas")
    return tree.func.id


def _name(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _options(tree: ast.Call, text: str) -> dict[str, Any]:
    """Return the options of a function that learns: constants, by place or by name."""
    name = _name(tree)
    known = OPTIONS[name]
    if len(tree.args) - 1 > len(known):
        raise _refuse(text, f"{name}() has too many arguments")
    options = {key: _constant(value, text) for key, value in zip(known, tree.args[1:], strict=False)}
    for keyword in tree.keywords:
        if keyword.arg not in known or keyword.arg in options:
            raise _refuse(text, f"{name}() takes {', '.join(known) or 'no options'}, each once")
        options[keyword.arg] = _constant(keyword.value, text)
    whole = [key for key in ("df", "degree") if key in options]
    if any(isinstance(options[key], bool) or not isinstance(options[key], int) for key in whole):
        raise _refuse(text, f"{' and '.join(whole)} of {name}() must be whole numbers")
    return options


def _constant(node: ast.expr, text: str, *, numbers: bool = False) -> Any:
    """Return a constant: a number, or (unless ``numbers``) a word, a truth value or a list of numbers."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return -_constant(node.operand, text, numbers=True)
    if isinstance(node, ast.List | ast.Tuple) and not numbers:
        return [_constant(part, text, numbers=True) for part in node.elts]
    value: Any = node.value if isinstance(node, ast.Constant) else None
    allowed = isinstance(value, int | float) and not isinstance(value, bool)
    if not (allowed or (not numbers and isinstance(value, str | bool))):
        raise _refuse(text, "numbers are expected where it has something else")
    if allowed and not abs(value) < 1e300:
        raise _refuse(text, "its numbers are too large")
    return value


def _key(node: ast.expr, quoted: dict[str, str]) -> str:
    """Return the text of a call, the same wherever in a formula it stands."""
    text = ast.unparse(node)
    for stand_in, name in reversed(quoted.items()):
        text = text.replace(stand_in, f"`{name}`")
    return text


def _article(word: str) -> str:
    return f"{'an' if word[0] in 'AEIOU' else 'a'} {word}"


def _value(node: ast.expr, column: Callable[[str], Array], states: States, quoted: dict[str, str]) -> Any:
    if isinstance(node, ast.Name):
        return column(quoted.get(node.id, node.id))
    if isinstance(node, ast.Constant):
        return float(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.Call):
        x = _value(node.args[0], column, states, quoted)
        function = PLAIN.get(_name(node)) or states[_key(node, quoted)]
        return function(x)
    operator: ast.AST
    if isinstance(node, ast.BinOp):
        operator, operands = node.op, [node.left, node.right]
    elif isinstance(node, ast.Compare):
        operator, operands = node.ops[0], [node.left, *node.comparators]
    else:
        assert isinstance(node, ast.UnaryOp)
        operator, operands = node.op, [node.operand]
    values = [_value(operand, column, states, quoted) for operand in operands]
    return np.asarray(OPERATORS[type(operator)](*values), dtype=np.float64)
