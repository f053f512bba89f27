"""The effect of each term, in the units of its column and for one standard deviation of it."""

from __future__ import annotations

import numpy as np

from oddsmith.design.basis.standardize import Standardize
from oddsmith.design.fitted_basis import learned_basis
from oddsmith.design.inputs import learned_design
from oddsmith.inference.fit_record import INTERCEPT
from oddsmith.inference.summary import Summary
from oddsmith.inference.tables import format_ratio
from oddsmith.models.base import Classifier
from oddsmith.numerics import Array
from oddsmith.report.context import ReportContext
from oddsmith.report.description import spread
from oddsmith.report.html import Markup, clean, join, number, tag
from oddsmith.report.tables import Column, table
from oddsmith.report.terms import indicator_texts

MOST_EFFECTS = 2_000


def term_scales(context: ReportContext) -> tuple[Array, Array] | None:
    """Return, for each term, how many of its units make one unit of its column, and the column's standard deviation.

    None for a basis that transforms columns: a power or a spline has no unit.
    """
    model, basis = context.model, learned_basis(context.model)
    M = len(model._names())
    if basis is not None:
        if len(basis.steps) != 1 or not isinstance(basis.steps[0], Standardize):
            return None
        scale = np.asarray(basis.steps[0].scale_, dtype=np.float64)
        return 1.0 / scale, scale
    sd = spread(context)
    return None if sd is None or len(sd) != M else (np.ones(M), sd)


def effects_table(context: ReportContext, found: Summary) -> Markup:
    """Return the effects of one unit and of one standard deviation, side by side; nothing if there are none."""
    scales = term_scales(context) if context.has_optimum else None
    terms, classes = list(found.columns["term"]), found.columns.get("class")
    if scales is None:
        return Markup()
    place = {str(name): j for j, name in enumerate(context.model._names())}
    finite = np.isfinite(found.estimate)
    kept = [i for i, term in enumerate(terms) if term != INTERCEPT and finite[i]][:MOST_EFFECTS]
    if not kept:
        return Markup()
    index = np.array([place[terms[i]] for i in kept])
    units, sd = scales[0][index], scales[1][index]
    compared = indicator_texts(context.model)
    numeric = np.array([terms[i] not in compared for i in kept])
    odds = "odds_ratio" in found.columns
    what = "odds ratio" if odds else "weight"
    change = [compared.get(terms[i]) or _unit(context.model, terms[i]) for i in kept]
    columns = [Column.names("term", [terms[i] for i in kept])]
    if classes is not None:
        columns.append(Column.names("class", [classes[i] for i in kept]))
    columns.append(Column("change", [tag("span", clean(text), class_="change") for text in change]))
    columns += _effect(found, kept, units, odds, what)
    columns.append(Column.numbers("sd", np.where(numeric, sd, np.nan)))
    columns += _effect(found, kept, np.where(numeric, units * sd, np.nan), odds, f"{what} per sd")
    of = "the class" if classes is not None else clean(context.model.classes_.tolist()[1])
    text = (
        f"The odds of {of} are multiplied by this ratio if the column changes as stated and all others stay the same. "
        "Ratios for one standard deviation can be compared across columns."
        if odds
        else "The linear predictor changes by this much if the column changes as stated and all others stay the same."
    )
    caption = f"Effects in original units and per standard deviation, with {100 * found.level:g}% intervals"
    return join([tag("p", text), table(caption, columns)])


def _unit(model: Classifier, term: str) -> str:
    design = learned_design(model)
    return "1 day more" if design is not None and design.kinds_.get(term) == "date" else "1 unit more"


def _ratio(value: float, digits: int) -> str:
    """Return a ratio as text: one near 1 with more digits than other numbers.

    >>> _ratio(0.51642, 3), _ratio(1.000329, 3), _ratio(2e7, 3)
    ('0.516', '1.00033', '20,000,000')
    """
    return format_ratio(value, digits) if abs(value - 1.0) < 0.1 else number(value, digits)


def _effect(found: Summary, kept: list[int], factor: Array, odds: bool, header: str) -> list[Column]:
    """Return a column of effects and one of their intervals."""
    with np.errstate(over="ignore", invalid="ignore"):
        values = [np.asarray(v)[kept] * factor for v in (found.estimate, found.lower, found.upper)]
        estimate, lower, upper = (np.exp(v) if odds else v for v in values)
    text = _ratio if odds else number
    ends = [f"{text(a, 3)} to {text(b, 3)}" if a == a else "" for a, b in zip(lower, upper, strict=True)]
    return [
        Column(header, [text(v, 4) for v in estimate.tolist()], estimate.tolist()),
        Column("interval", [tag("span", text, class_="whole") for text in ends]),
    ]
