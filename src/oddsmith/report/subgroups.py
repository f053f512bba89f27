"""Results by subgroup: the scores of the rows with each value of a column."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from oddsmith.design.frame import Frame, read_frame
from oddsmith.design.inputs import as_table
from oddsmith.errors import InvalidInputError, InvalidTypeError, OddsmithWarning
from oddsmith.evaluation.scoring import Estimate, Evaluation, evaluate
from oddsmith.inference.summary import normal_quantile
from oddsmith.protocols import Indices
from oddsmith.report.html import Markup, absent, join, name_tag, number, tag
from oddsmith.report.tables import Column, table

if TYPE_CHECKING:
    from oddsmith.report.context import ReportContext

Mask = npt.NDArray[np.bool_]
MOST_GROUPS = 12
MOST_VALUES = 8  # Different numbers from which a column is cut at its quartiles.
REPLICATES = 500
UNKNOWN = Estimate(np.nan, np.nan, np.nan, "")
NOT_ASKED = (
    "No subgroups were requested. by='column' (on the command line --by COLUMN) shows the scores for each value of a "
    "column, such as region or age."
)


@dataclass(frozen=True)
class Grouping:
    """The subgroups of a column: their names, and the index of each row's subgroup."""

    column: str
    names: list[str]
    codes: Indices

    def take(self, rows: Indices) -> Grouping:
        """Return the subgroups of some rows."""
        return replace(self, codes=self.codes[rows])


def read_groups(by: object, X: Any, n_rows: int) -> tuple[Grouping, ...]:
    """Return the subgroups by columns of the table ``X``, by name, or by a mapping from names to values.

    >>> import polars
    >>> (found,) = read_groups("sex", polars.DataFrame({"sex": ["f", "m", None, "f"]}), 4)
    >>> found.names, found.codes.tolist()
    (['f', 'm', 'missing'], [0, 1, 2, 0])
    """
    if by is None or by == {}:
        return ()
    if isinstance(by, Mapping):
        import pyarrow as pa

        known = pa.Array | pa.ChunkedArray
        arrays = {str(k): v if isinstance(v, known) else pa.array(np.asarray(v)) for k, v in by.items()}
        frame = read_frame(pa.table(arrays))
    else:
        names = [by] if isinstance(by, str) else by
        if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
            raise InvalidTypeError(
                f"by must be the name of a column, a list of them, or {{name: values}}; found {by!r}."
            )
        if as_table(X) is None:
            raise InvalidInputError(
                f"by={by!r} names a column, but X is an array without column names: give by={{{names[0]!r}: values}}."
            )
        frame = read_frame(X, names)
    if frame.n_rows != n_rows:
        raise InvalidInputError(f"by has {frame.n_rows} values for {n_rows} rows: give one for each row.")
    return tuple(_grouping(frame, name) for name in frame.columns)


def _grouping(frame: Frame, name: str) -> Grouping:
    kind = frame.kinds[name]
    coded = None if kind == "empty" else frame.coded(name)
    if coded is None:
        return Grouping(name, ["missing"], np.zeros(frame.n_rows, dtype=np.intp))
    if kind != "category" and len(coded.levels) > MOST_VALUES:
        names, codes = _quartiles(frame, name)
    else:
        names, codes = [str(level) for level in coded.levels], coded.codes
        order = np.argsort(names, kind="stable") if kind == "category" and not coded.ordered else np.arange(len(names))
        places = np.empty(len(names) + 1, dtype=np.intp)
        places[order], places[-1] = np.arange(len(names)), -1
        names, codes = [names[i] for i in order], places[codes]
    if (codes < 0).any():
        names, codes = [*names, "missing"], np.where(codes < 0, len(names), codes)
    return Grouping(name, names, codes)


def _quartiles(frame: Frame, name: str) -> tuple[list[str], Indices]:
    values = frame.numbers(name)
    there = np.isfinite(values)
    edges = np.unique(np.quantile(values[there], [0.25, 0.5, 0.75]))
    codes = np.where(there, np.searchsorted(edges, values, side="right"), -1)
    texts = [number(edge) for edge in edges.tolist()]
    between = [f"{a} to below {b}" for a, b in pairwise(texts)]
    return [f"below {texts[0]}", *between, f"{texts[-1]} and above"], codes


def subgroups_section(context: ReportContext) -> Markup:
    """Return the scores of each subgroup."""
    if not context.groups:
        return absent(NOT_ASKED)
    text = (
        "The same predictions, scored separately in each subgroup. Subgroups whose mean probability differs from the "
        "class share by more than chance are marked: the model is too high or too low there."
    )
    return join([tag("p", text), *(_table(context, grouping) for grouping in context.groups)])


def _table(context: ReportContext, grouping: Grouping) -> Markup:
    sizes = np.bincount(grouping.codes, minlength=len(grouping.names))
    shown = sorted(np.argsort(-sizes, kind="stable")[:MOST_GROUPS].tolist())
    shown = [g for g in shown if sizes[g]]
    found = [_scores(context, grouping.codes == g) for g in shown]
    columns = [Column.names(grouping.column, [grouping.names[g] for g in shown])]
    columns.append(Column.numbers("rows", sizes[shown]))
    if context.probabilistic:
        columns += _mean_columns(context, grouping, shown)
    for name, header in {"log_loss": "log loss", "auc": "AUC", "accuracy": "accuracy"}.items():
        columns += _score_columns(found, name, header)
    if context.given_loss and context.probabilistic:
        columns += _score_columns(found, "realised_cost", "loss per row")
    rest = len(grouping.names) - len(shown)
    more = f", the {len(shown)} largest of {len(grouping.names):,} subgroups" if rest else ""
    return table(f"Results by {grouping.column}{more}", columns)


def _scores(context: ReportContext, rows: Mask) -> Evaluation:
    model, _, labels = context.subset(np.flatnonzero(rows)).labelled
    costs = {"loss": context.loss, "reject": context.reject} if context.probabilistic and context.given_loss else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OddsmithWarning)  # a subgroup may lack a class
        return evaluate(model, None, labels, level=context.level, seed=context.seed, replicates=REPLICATES, **costs)


def _score_columns(found: list[Evaluation], name: str, header: str) -> list[Column]:
    scores = [evaluation.scores.get(name, UNKNOWN) for evaluation in found]
    if all(np.isnan(score.value) for score in scores):
        return []
    cells: list[Any] = []
    for score in scores:
        ends = np.isfinite([score.lower, score.upper]).all()
        small = tag("small", f" ({number(score.lower, 3)} to {number(score.upper, 3)})") if ends else ""
        cells.append(join([number(score.value, 3), small]))
    return [Column(header, cells, [float(score.value) for score in scores])]


def _mean_columns(context: ReportContext, grouping: Grouping, shown: list[int]) -> list[Column]:
    """Return share and mean probability of the class that matters: of two the second, of more each row's own."""
    if context.K > 2 or context.answers.P is None:
        return []
    share, mean, cells = [], [], []
    for g in shown:
        own = grouping.codes == g
        off = deviation(context, own)
        share.append(float(np.mean(context.answers.t[own] == 1)))
        mean.append(float(context.answers.P[own, 1].mean()))
        cells.append(join([number(mean[-1], 3), "" if not off else " ▲ too high" if off > 0 else " ▼ too low"]))
    of = name_tag(context.classes[1])
    return [Column.shares(join(["share of ", of]), share), Column(join(["mean probability of ", of]), cells, mean)]


def deviation(context: ReportContext, rows: Mask) -> float:
    """Return the error of the second class's mean probability in some rows; 0 if chance explains it.

    If the probabilities p are right, ``Σ (t − p)`` has the variance ``Σ p (1 − p)``. The level is divided by the number
    of subgroups.
    """
    assert context.answers.P is not None
    p, t = context.answers.P[rows, 1], context.answers.t[rows] == 1
    tests = max(sum(len(grouping.names) for grouping in context.groups), 1)
    limit = normal_quantile(1.0 - (1.0 - context.level) / tests)
    off = float(p.sum() - t.sum())
    return off / len(p) if len(p) and abs(off) > limit * np.sqrt(float(p @ (1.0 - p))) + 0.5 else 0.0


def deviating_groups(context: ReportContext) -> list[tuple[str, str, float]]:
    """Return the subgroups in which the model is off by more than chance: column, name, and by how much."""
    if context.K != 2 or context.answers.P is None or not context.counted:
        return []
    return [
        (grouping.column, name, off)
        for grouping in context.groups
        for g, name in enumerate(grouping.names)
        if (off := deviation(context, grouping.codes == g))
    ]
