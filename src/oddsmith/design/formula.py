"""Formulas such as ``low ~ age + C(race) * smoke``: formulaic reads their operators, and nothing of them is run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oddsmith.design.expressions import Expression, plain_column, read_expression
from oddsmith.errors import InvalidInputError, InvalidTypeError

if TYPE_CHECKING:
    from formulaic.parser.types import Term

LONGEST = 20_000
"""Characters in a formula."""
MOST_FACTORS, MOST_TERMS = 16, 300_000
"""Factors of a product, and terms that products may write out to."""


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
        """The columns that the right side names, in order."""
        return tuple(dict.fromkeys(name for term in self.terms for factor in term for name in factor.columns))


def read_formula(text: object, columns: Iterable[str]) -> Formula:
    """Return the formula, or say what is wrong with it; ``.`` stands for all ``columns`` but the target."""
    if not isinstance(text, str):
        raise InvalidTypeError(f"formula must be a string such as 'low ~ age + race', found {text!r}.")
    _check_size(text)
    if "%in%" in re.sub(r"`[^`]*`", "", text):
        raise InvalidInputError(
            f"%in% in the formula {text!r} has other meanings elsewhere than in R. Write a:b instead."
        )
    sides, written = _parsed(text, columns)
    left, right = getattr(sides, "lhs", None), getattr(sides, "rhs", sides)
    found = list(map(_factors, _terms(right, text)))
    terms = [factors for factors in found if factors]
    if not terms:
        raise InvalidInputError(f"The formula {text!r} has no columns on its right side.")
    # As in R: factors in the order in which they are written, terms by degree.
    order = {text: place for place, text in reversed(list(enumerate(written)))}
    inside = [tuple(sorted(dict.fromkeys(term), key=lambda f: order.get(f.text, len(order)))) for term in terms]
    formula = Formula(_target(left, text), tuple(sorted(dict.fromkeys(inside), key=len)), intercept=() in found)
    if formula.target in formula.columns:
        raise InvalidInputError(
            f"The formula {text!r} has {formula.target!r} on both sides: labels cannot explain themselves."
        )
    return formula


def _check_size(text: str) -> None:
    """Refuse what could write out to very many terms.

    D different names make up to 2^D terms, which a power p multiplies p times; and n names in p + 1 factors make up to
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
        "may write out to more terms than can be handled. Write down those that you need."
    )


def _parsed(text: str, columns: Iterable[str]) -> tuple[Any, list[str]]:
    """Return the terms of both sides, and the names and calls in the order in which they are written."""
    try:
        from formulaic.parser import DefaultFormulaParser
    except ImportError:
        raise InvalidInputError(
            "A formula is read by the package formulaic, which is not installed: install oddsmith[formula]."
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
        raise InvalidInputError(f"The formula {text!r} has several parts on a side; one on each is expected.")
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
            f"The left side of the formula {text!r} must be the name of one column, the labels. Compute them before "
            "the fit, and pass them as y."
        )
    return str(factors[0].expr)
