"""Formulas such as ``low ~ age + C(race) * log(smoke)``: read as data, never run as code.

formulaic parses the operators between terms. An expression inside a term, such as ``spline(lwt, knots=5)``, is parsed
to Python's syntax tree, and every node must be allowed: columns, numbers, arithmetic, comparisons, and the functions of
`functions`. The nodes are then evaluated on arrays, one by one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from oddsmith.design.functions import LEARNED, OPTIONS, PLAIN
from oddsmith.errors import InvalidInputError, InvalidTypeError
from oddsmith.numerics import Array

if TYPE_CHECKING:
    from formulaic.parser.types import Term

LONGEST = 20_000  # Maximum length of a formula.
MOST_FACTORS, MOST_TERMS = 16, 300_000  # Maximum factors of a product, and terms after expansion.
MOST_NODES = 200
QUOTED = re.compile(r"`[^`]*`")
OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    **{ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide, ast.Pow: np.power},
    **{ast.FloorDiv: np.floor_divide, ast.Mod: np.mod, ast.USub: np.negative, ast.UAdd: np.positive},
    **{ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal},
    **{ast.Eq: np.equal, ast.NotEq: np.not_equal},
}
FUNCTIONS = ("C", *sorted({*LEARNED, *PLAIN}))

States = dict[str, Any]  # Learned states of formula functions, by the text of their call.


@dataclass(frozen=True, kw_only=True)
class Expression:
    """A validated expression: its text, and the columns that it names.

    ``column`` is set if the expression is a single column; ``category`` for ``C(column)``, with its ``reference``
    level, if any.

    >>> read_expression("log(age) * 2").columns, read_expression("C(race, reference='white')").category
    (('age',), 'race')
    """

    text: str
    columns: tuple[str, ...]
    column: str | None = None
    category: str | None = None
    reference: Any = None


def plain_column(name: str) -> Expression:
    """Return the expression for a column of any name."""
    return Expression(text=name, columns=(name,), column=name)


def read_expression(text: str) -> Expression:
    """Return an expression; raise an error that says what is not allowed."""
    tree = parse(text)
    columns = tuple(dict.fromkeys(_columns(tree, text, top=True)))
    if not columns:
        raise _refuse(text, "it names no column")
    if isinstance(tree, ast.Call) and called(tree) == "C":
        given = [*tree.args[1:], *(keyword.value for keyword in tree.keywords)]
        reference = _constant(given[0], text) if given else None
        return Expression(text=text, columns=columns, category=columns[0], reference=reference)
    return Expression(text=text, columns=columns, column=columns[0] if isinstance(tree, ast.Name) else None)


def evaluate(expression: Expression, column: Callable[[str], Array], states: States) -> Array:
    """Return an expression's values, n × w, from a function that returns columns, and the learned state."""
    if expression.column is not None:
        return column(expression.column)[:, None]
    tree = parse(expression.text)
    list(_columns(tree, expression.text, top=True))  # checked again: it may come from a file
    with np.errstate(all="ignore"):  # what is not finite is refused by the caller, with the row
        values = np.asarray(_value(tree, column, states), dtype=np.float64)
    return values if values.ndim == 2 else values[:, None]


def learn(expression: Expression, column: Callable[[str], Array], s: Array, states: States) -> None:
    """Learn the state of the functions of an expression from all rows and their weights, inner functions first."""
    for node in reversed(learned_calls(expression)):  # a walk meets the outer before the inner
        key = ast.unparse(node)
        if key in states:
            continue
        with np.errstate(all="ignore"):
            x = np.asarray(_value(node.args[0], column, states), dtype=np.float64)
        if not np.isfinite(x).all():
            raise not_finite(expression, int(np.argmin(np.isfinite(x))))
        try:
            states[key] = LEARNED[called(node)](x, s, **_options(node, expression.text))
        except InvalidInputError as error:
            why = str(error).rstrip(".")
            raise InvalidInputError(f"{expression.text} in the formula cannot be learned: {why}.") from None


def learned_calls(expression: Expression) -> list[ast.Call]:
    """Return the calls in an expression that learn something from the rows."""
    nodes = () if expression.column is not None else ast.walk(parse(expression.text))
    return [node for node in nodes if isinstance(node, ast.Call) and called(node) in LEARNED]


def not_finite(expression: Expression, row: int) -> InvalidInputError:
    """Return the error that names the row in which an expression is not finite."""
    if expression.column is not None:
        what = f"Column {expression.column!r} has infinite values (inf), the first in row {row}."
        return InvalidInputError(f"{what} Replace them by finite numbers.", row=row)
    return InvalidInputError(
        f"{expression.text} is not a finite number in row {row}. Correct the value there, or choose another function.",
        row=row,
    )


def parse(text: str) -> ast.expr:
    """Return the syntax tree of an expression; a name in backticks keeps them, see `column_name`.

    Learned states are keyed by the text of a call's node (`ast.unparse`).
    """
    quoted: dict[str, str] = {}
    prefix = "quoted_"
    while prefix in text:
        prefix += "_"

    def stand_in(match: re.Match[str]) -> str:
        return quoted.setdefault(match.group(), f"{prefix}{len(quoted)}")

    try:
        tree = ast.parse(_with_powers(QUOTED.sub(stand_in, text)).strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _refuse(text, "it cannot be read") from None
    nodes = list(ast.walk(tree))
    if len(nodes) > MOST_NODES:
        raise _refuse(text, "it is too long")
    names = {name: quote for quote, name in quoted.items()}
    for node in nodes:
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return tree


def _with_powers(text: str) -> str:
    """Return an expression with R's powers, ``x^2``, as Python's, except in quoted strings.

    >>> _with_powers("x^2 + (y == 'a^b')")
    "x**2 + (y == 'a^b')"
    """
    return re.sub(r"('[^']*'|\"[^\"]*\")|\^", lambda match: match.group(1) or "**", text)


def column_name(node: ast.Name) -> str:
    """Return the column that a node of a syntax tree names."""
    return node.id.strip("`")


def called(node: ast.Call) -> str:
    """Return the name of the called function, or an empty string."""
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _refuse(text: str, why: str) -> InvalidInputError:
    return InvalidInputError(
        f"{text!r} in the formula is not allowed: {why}. A formula holds columns (in `backticks` if their names are "
        f"odd), numbers, arithmetic, and the functions {', '.join(FUNCTIONS)}; compute anything else before the fit."
    )


def _columns(node: ast.expr, text: str, *, top: bool = False) -> Iterator[str]:
    """Yield the columns of an expression, and refuse every node that is not allowed."""
    if isinstance(node, ast.Name):
        if node.id.startswith("__"):
            raise _refuse(text, f"{node.id} is not a column name here")
        yield column_name(node)
    elif isinstance(node, ast.Constant):
        _constant(node, text, numbers=True)
    elif isinstance(node, ast.Call):
        _check_call(node, text, top=top)
        yield from _columns(node.args[0], text)
    else:
        operator, operands = _operation(node)
        if operator is None:
            kind = type(node).__name__
            raise _refuse(text, f"it holds {'an' if kind[0] in 'AEIOU' else 'a'} {kind}")
        for operand in operands:
            yield from _columns(operand, text)


def _check_call(node: ast.Call, text: str, *, top: bool) -> None:
    name = called(node)
    if name not in FUNCTIONS:
        what = f"{name}() is" if name else "it calls something that is"
        raise _refuse(text, f"{what} not a formula function")
    if not node.args or (name in LEARNED and not any(isinstance(part, ast.Name) for part in ast.walk(node.args[0]))):
        raise _refuse(text, f"{name}() needs a column")
    if name == "C":
        if not top or not isinstance(node.args[0], ast.Name) or len(node.args) + len(node.keywords) > 2:
            raise _refuse(text, "C() takes one column and, at most, a reference=")
        if node.keywords and node.keywords[0].arg != "reference":
            raise _refuse(text, f"C() has no option {node.keywords[0].arg}")
    elif name in PLAIN:
        if len(node.args) > 1 or node.keywords:
            raise _refuse(text, f"{name}() takes one argument")
    else:
        if not top and name not in ("center", "scale"):
            raise _refuse(text, f"{name}() makes several columns, so it cannot stand inside another expression")
        _options(node, text)


def _options(node: ast.Call, text: str) -> dict[str, Any]:
    """Return the options of a function that learns: constants, by place or by name."""
    name = called(node)
    known = OPTIONS[name]
    if len(node.args) - 1 > len(known):
        raise _refuse(text, f"{name}() has too many arguments")
    options = {key: _constant(value, text) for key, value in zip(known, node.args[1:], strict=False)}
    for keyword in node.keywords:
        if keyword.arg not in known or keyword.arg in options:
            raise _refuse(text, f"{name}() takes {', '.join(known) or 'no options'}, each once")
        options[keyword.arg] = _constant(keyword.value, text)
    whole = [key for key in ("df", "degree") if key in options]
    if any(type(options[key]) is not int for key in whole):
        raise _refuse(text, f"{' and '.join(whole)} of {name}() must be whole numbers")
    return options


def _constant(node: ast.expr, text: str, *, numbers: bool = False) -> Any:
    """Return a constant: a number, or (unless ``numbers``) a string, a boolean or a list of numbers."""
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


def _operation(node: ast.expr) -> tuple[Callable[..., Any] | None, list[ast.expr]]:
    """Return the function of an operation and its operands, None if it is not allowed."""
    match node:
        case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]):
            return OPERATORS.get(type(op)), [left, right]
        case ast.UnaryOp(op=op, operand=operand):
            return OPERATORS.get(type(op)), [operand]
    return None, []


def _value(node: ast.expr, column: Callable[[str], Array], states: States) -> Any:
    if isinstance(node, ast.Name):
        return column(column_name(node))
    if isinstance(node, ast.Constant):
        return float(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.Call):
        function = PLAIN.get(called(node)) or states[ast.unparse(node)]
        return function(_value(node.args[0], column, states))
    operator, operands = _operation(node)
    assert operator is not None  # the expression was checked
    return np.asarray(operator(*(_value(operand, column, states) for operand in operands)), dtype=np.float64)


@dataclass(frozen=True)
class Formula:
    """The terms of a formula, by degree; each is a product of expressions. ``intercept`` says if there is a constant.

    >>> formula = read_formula("low ~ age + C(race):smoke", ["low", "age", "race", "smoke"])
    >>> formula.target, formula.intercept, [[factor.text for factor in term] for term in formula.terms]
    ('low', True, [['age'], ['C(race)', 'smoke']])
    """

    target: str | None
    terms: tuple[tuple[Expression, ...], ...]
    intercept: bool = True

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns on the right-hand side, in order."""
        return tuple(dict.fromkeys(name for term in self.terms for factor in term for name in factor.columns))


def read_formula(text: object, columns: Iterable[str]) -> Formula:
    """Return the formula, or raise an error that explains it; ``.`` means all ``columns`` except the target."""
    if not isinstance(text, str):
        raise InvalidTypeError(f"formula must be a string such as 'low ~ age + race', found {text!r}.")
    _check_size(text)
    if "%in%" in QUOTED.sub("", text):
        raise InvalidInputError(
            f"%in% in the formula {text!r} has other meanings elsewhere than in R. Write a:b instead."
        )
    text = _translated(text)
    sides, written = _parsed(text, columns)
    left, right = getattr(sides, "lhs", None), getattr(sides, "rhs", sides)
    found = list(map(_factors, _terms(right, text)))
    terms = [factors for factors in found if factors]
    if not terms:
        raise InvalidInputError(
            f"The formula {text!r} has no columns on its right-hand side. For the null model, every fit has "
            "summary().null_log_likelihood. Name a column."
        )
    # As in R: factors in the order in which they are written, terms by degree.
    order = {text: place for place, text in reversed(list(enumerate(written)))}
    inside = [tuple(sorted(dict.fromkeys(term), key=lambda f: order.get(f.text, len(order)))) for term in terms]
    formula = Formula(_target(left, text), tuple(sorted(dict.fromkeys(inside), key=len)), intercept=() in found)
    if formula.target in formula.columns:
        raise InvalidInputError(
            f"The formula {text!r} has {formula.target!r} on both sides: labels cannot explain themselves."
        )
    return formula


def _translated(text: str) -> str:
    """Return a formula with R's ``factor(x)`` and ``as.factor(x)`` as ``C(x)``; refuse ``offset(x)``.

    >>> _translated("low ~ as.factor(race) + `factor(x)`")
    'low ~ C(race) + `factor(x)`'
    """
    outside = QUOTED.sub("", text)
    found = re.search(r"(?<![\w.])offset\s*\(([^()]*)\)", outside)
    if found is not None:
        raise InvalidInputError(
            f"{found.group()} in the formula: an offset is an argument of fit here. Leave it out of the formula, and "
            f"write fit(table, offset=table[{found.group(1).strip()!r}])."
        )
    return re.sub(r"(`[^`]*`)|(?<![\w.])(?:as\.)?factor\s*\(", lambda match: match.group(1) or "C(", text)


def _check_size(text: str) -> None:
    """Refuse formulas that could expand to very many terms.

    D different names give up to 2^D terms, multiplied p times by a power p; n names in p + 1 factors give up to
    (1 + n / (p + 1))^(p + 1).
    """
    text = re.sub(r"\w+\([^()]*\)", "f", text)  # what stands inside a function is arithmetic
    powers = [int(power[:9]) for power in re.findall(r"(?:\*\*|\^)\s*(\d+)", text)]
    factors = 1 + len(re.findall(r"(?<!\*)[*/](?!\*)|\)\s*:|:\s*\(", text))
    names, different = 1 + len(re.findall(r"[-+*/:]", text)), len(set(re.findall(r"[^\W\d]\w*|`[^`]*`", text)))
    if len(text) <= LONGEST and factors + sum(powers) <= MOST_FACTORS:
        written = (1.0 + names / factors) ** factors * (1.0 + names) ** sum(powers)
        if min(written, 2.0 ** min(different * max(2, *powers, 0), 99)) <= MOST_TERMS:
            return
    raise InvalidInputError(
        f"The formula, {len(text)} characters with {factors - 1} products and powers up to {max(powers, default=1)}, "
        "may expand to more terms than can be handled. Write only those that you need."
    )


def _parsed(text: str, columns: Iterable[str]) -> tuple[Any, list[str]]:
    """Return the terms of both sides, and the names and calls in the order in which they are written."""
    try:
        from formulaic.parser import DefaultFormulaParser
    except ImportError:
        raise InvalidInputError(
            "Formulas need the package formulaic, which is not installed: install oddsmith[formula]."
        ) from None
    parser, context = DefaultFormulaParser(), {"__formulaic_variables_available__": list(columns)}
    try:
        written = [str(token.token) for token in parser.get_tokens(text) if token.kind.value in ("name", "python")]
        return parser.get_terms(text, context=context), [*written, *columns]
    except Exception as error:
        why = re.sub(r"\x1b\[[0-9;]*m|[⧛⧚]", "", str(error)).split("\n")[0].rstrip(". ")
        raise InvalidInputError(
            f"The formula {text!r} cannot be read ({why}). Write it as in 'low ~ age + C(race) * smoke + spline(lwt)'."
        ) from None


def _terms(side: Iterable[Term] | None, text: str) -> list[Term]:
    from formulaic.parser.types import Term

    terms = [None] if side is None else list(side)
    if not all(isinstance(term, Term) for term in terms):
        raise InvalidInputError(f"The formula {text!r} has several parts on a side; expected one on each side.")
    return terms


def _factors(term: Term) -> tuple[Expression, ...]:
    """Return the expressions of a term, none for the constant."""
    if [factor.expr for factor in term.factors] == ["1"]:
        return ()
    how = {factor.expr: factor.eval_method.value for factor in term.factors}
    if "literal" in how.values():
        raise InvalidInputError(
            f"{str(term)!r} in the formula multiplies a column by a number, which changes no fit. Leave the number "
            "out, or write I(2 * column) if you mean it."
        )
    return tuple(plain_column(e) if way == "lookup" else read_expression(e) for e, way in how.items())


def _target(left: Iterable[Term] | None, text: str) -> str | None:
    if left is None:
        return None
    terms = _terms(left, text)
    factors: list[Any] = list(terms[0].factors) if len(terms) == 1 else []
    if len(factors) != 1 or factors[0].eval_method.value != "lookup":
        raise InvalidInputError(
            f"The left-hand side of the formula {text!r} must be the name of one column, the labels. Compute them "
            "before the fit, and pass them as y."
        )
    return str(factors[0].expr)
