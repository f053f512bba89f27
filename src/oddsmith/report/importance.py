"""The importance of each column: the effect of shuffling it, and a joint test of all its weights."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from oddsmith.design.inputs import as_table
from oddsmith.engines import one_blas_thread
from oddsmith.errors import OddsmithError
from oddsmith.evaluation.model_output import predict_output
from oddsmith.inference.covariance import CovarianceKind, covariance
from oddsmith.inference.fit_record import FitRecord
from oddsmith.inference.hypotheses import ChiSquareTest, refuse_separated, wald_test
from oddsmith.models.logistic import LogisticRegression
from oddsmith.models.selection_mixin import selected_columns
from oddsmith.models.wrapper_mixin import take
from oddsmith.numerics import Array
from oddsmith.priors import split_prior
from oddsmith.protocols import Indices
from oddsmith.report.context import MOST_COLUMNS, ReportContext
from oddsmith.report.html import Markup, absent, clean, join, number, tag
from oddsmith.report.svg import Axis, Plot, figure
from oddsmith.report.tables import Column, table
from oddsmith.report.terms import column_terms

MOST_ROWS, MOST_REPEATS = 10_000, 5
MOST_BARS = 30
MOST_WEIGHTS = 3_000  # Weights up to which their covariance is formed for the joint tests.


@dataclass(frozen=True, kw_only=True)
class Importance:
    """The importance of each column: the rise of the ``score`` if its values are shuffled, and a joint test, if any.

    ``is_posterior`` says that the tests are about a posterior, after a fit with a Gaussian prior.
    """

    columns: list[str]
    score: str
    rise: Array
    terms: dict[str, list[int]]
    tests: dict[str, ChiSquareTest]
    is_posterior: bool


def importance_section(context: ReportContext) -> Markup:
    """Return one line for each column: its importance, and the joint test of all its weights."""
    found = measure_importance(context)
    if found is None:
        return absent("The importance of columns is unknown: the model cannot predict rows with shuffled values.")
    order = np.argsort(-found.rise, kind="stable")
    if selected_columns(context.model) is not None:
        order = order[found.rise[order] != 0.0]
        if not len(order):
            return absent("No column was selected, so none has any importance.")
    names = [found.columns[j] for j in order]
    shown, worth = names[:MOST_BARS], np.maximum(found.rise[order][:MOST_BARS], 0.0)
    plot = Plot(
        x=Axis(f"rise of the {found.score}", 0.0, 1.08 * float(worth.max(initial=0.0)) or 1.0),
        y=Axis("", names=shown),
        height=52 + 24 * len(shown),
    )
    plot.bars(worth)
    texts = [f"{clean(name)}: {number(value)}" for name, value in zip(shown, worth.tolist(), strict=True)]
    plot.read(worth, np.arange(len(shown)), texts)
    caption = (
        f"Importance of each column: how much the {found.score} of these rows rises if the values of that column alone "
        f"are shuffled.{f' The {MOST_BARS} most important of {len(names)}.' if len(names) > MOST_BARS else ''}"
    )
    text = (
        "One line for each column, with all levels of a category together. Columns that carry the same information "
        "share their importance: each of them seems to matter less than it would alone."
    )
    if selected_columns(context.model) is not None:
        text += " Columns that were not selected have no importance, and are left out."
    return join([tag("p", text), figure(plot, caption, caption), _table(found, order), *_notes(found)])


def _table(found: Importance, order: Indices) -> Markup:
    names = [found.columns[j] for j in order]
    columns = [Column.names("column", names), Column.numbers(f"rise of the {found.score}", found.rise[order])]
    if found.tests:
        tests = np.full((len(names), 3), np.nan)
        for i, test in enumerate(map(found.tests.get, names)):
            if test is not None:
                tests[i] = test.statistic, test.df, test.p_value
        columns.append(Column.numbers("terms", [len(found.terms.get(name, ())) for name in names]))
        columns += map(Column.numbers, ("Wald χ²", "df"), tests[:, :2].T)
        columns.append(Column.numbers("posterior tail" if found.is_posterior else "p", tests[:, 2], digits=3))
    return table("Importance and joint test of each column", columns)


def _notes(found: Importance) -> list[Markup]:
    if not found.tests:
        return []
    text = "The Wald test is a joint test of all weights of the column against zero."
    if found.is_posterior:
        text = (
            "The model has a Gaussian prior, so the joint test is based on its posterior: the tail is the "
            "probability of weights that are less plausible than no effect. A small tail is evidence for an effect."
        )
    return [tag("p", text, class_="note")]


def measure_importance(context: ReportContext) -> Importance | None:
    """Return the importance of each column, None for a model that cannot predict shuffled rows."""
    tests = joint_tests(context)
    columns = list(context.frame.columns)
    if len(columns) > MOST_COLUMNS:  # those with the largest statistics
        columns.sort(key=lambda name: -tests[name].statistic if name in tests else 0.0)
        columns = columns[:MOST_COLUMNS]
    with suppress(OddsmithError):
        rng = np.random.default_rng(context.seed)
        n = len(context.t)
        index = np.sort(rng.choice(n, MOST_ROWS, replace=False)) if n > MOST_ROWS else np.arange(n)
        rows, repeats = take(context.rows, index), int(np.clip(MOST_ROWS // len(index), 1, MOST_REPEATS))
        before = _score(context, rows, index)
        orders = [rng.permutation(len(index)) for _ in range(repeats)]
        rise = [
            float(np.mean([_score(context, _shuffled(rows, name, j, order), index) for order in orders])) - before
            for j, name in enumerate(context.frame.columns)
            if name in columns
        ]
        columns = [name for name in context.frame.columns if name in columns]
        gaussian = isinstance(context.model, LogisticRegression) and split_prior(context.model.prior_)[0] is not None
        return Importance(
            columns=columns,
            score="log loss" if context.probabilistic else "error rate",
            rise=np.array(rise),
            terms=column_terms(context.model, rows) if tests else {},
            tests=tests,
            is_posterior=gaussian,
        )
    return None


def _score(context: ReportContext, rows: object, index: Indices) -> float:
    """Return the log loss of rows, or the share of wrong predictions."""
    model, t = context.model, context.t[index]
    s = np.ones(len(index)) if context.weights is None else context.weights[index]
    if isinstance(model, LogisticRegression) and context.offset is not None:
        P = model.predict_proba(rows, offset=context.offset[index])
        loss = -np.log(np.clip(P[np.arange(len(t)), t], np.finfo(np.float64).eps, 1.0))
    else:
        found = predict_output(model, rows, t, context.answers.classes)
        loss = (found.predicted != t).astype(np.float64) if found.P is None else -np.log(found.own)
    return float(s @ loss / s.sum())


def _shuffled(rows: object, name: str, j: int, order: Indices) -> Any:
    """Return rows with the values of one column in another order."""
    table = as_table(rows)
    if table is not None:
        own = next(given for given in table.columns if str(given) == name)
        return table.with_columns(table.get_column(own)[order.tolist()].alias(own)).to_native()
    if sparse.issparse(rows):
        kept = sparse.csc_array(rows, copy=True)
        kept.indices[kept.indptr[j] : kept.indptr[j + 1]] = order[kept.indices[kept.indptr[j] : kept.indptr[j + 1]]]
        kept.has_sorted_indices = False
        return kept.tocsr()
    other = np.array(rows, copy=True)
    other[:, j] = other[order, j]
    return other


def joint_tests(context: ReportContext) -> dict[str, ChiSquareTest]:
    """Return Wald's test of all weights of each column; none for models without standard errors."""
    if not isinstance(context.model, LogisticRegression) or not context.has_optimum:
        return {}
    if context.fitted is not None and context.fitted.x.size > MOST_WEIGHTS:
        return {}
    for rows in context.row_arguments:
        with suppress(OddsmithError):
            fit = context.model._fit_record(**rows)
            return _joint_tests(fit, column_terms(context.model, context.rows))
    return {}


def _joint_tests(fit: FitRecord, terms: dict[str, list[int]]) -> dict[str, ChiSquareTest]:
    refuse_separated(fit)
    state = fit.state
    C, P = state.x.shape
    tests: dict[str, ChiSquareTest] = {}
    if len(terms) > 1 and all(len(places) == P - 1 for places in terms.values()):
        return tests  # every term depends on every column, as in a kernel: there is nothing to tell apart
    with one_blas_thread():
        V, at = covariance(fit, CovarianceKind("information")), {int(k): i for i, k in enumerate(state.kept)}
        for column, places in terms.items():
            kept = [c * P + 1 + j for c in range(C) for j in places if c * P + 1 + j in at]
            own = [at[k] for k in kept]
            if own:
                tests[column] = wald_test(state.x.ravel()[kept], np.eye(len(own)), V[np.ix_(own, own)])
    return tests
