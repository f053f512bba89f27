"""A fitted model to ask: a form of its columns, the probability of a row, why, and what would change the decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from oddsmith.data_access.streamed_prediction import columns_of, expected_types, model_inputs
from oddsmith.decision.actions import REJECT, expected_loss
from oddsmith.decision.loss import read_loss
from oddsmith.engines.text_formats import TextFormat
from oddsmith.errors import InvalidInputError, OddsmithError
from oddsmith.evaluation.model_output import has_proba
from oddsmith.lab.fields import BadRequestError, Fields
from oddsmith.lab.form_columns import FormColumn, form_columns
from oddsmith.models.base import Classifier
from oddsmith.models.gaussian import GaussianClassifier
from oddsmith.models.logistic import LogisticRegression
from oddsmith.models.naive_bayes import NaiveBayes
from oddsmith.numerics import Array
from oddsmith.protocols import ProbabilisticClassifierLike

Row = dict[str, Any]
SCAN = 81  # Values of a numeric column at which a row is looked at again.
MOST_LEVELS = 200  # Levels of a category that are tried.
LARGEST_LOG_ODDS = 700.0
ROUNDS, PARTS = 3, 12  # How a value at which the decision changes is narrowed down.


@dataclass(frozen=True, kw_only=True)
class Explorer:
    """A model, its columns as a form, the rows to click through, and the costs that it decides under."""

    model: Classifier
    title: str
    columns: tuple[FormColumn, ...]
    table: pa.Table | None
    costs: dict[str, Any]

    @classmethod
    def of(cls, model: Classifier, title: str, table: pa.Table | None, costs: dict[str, Any]) -> Explorer:
        """Return the explorer of a fitted model; ``costs`` has the loss and the cost of rejecting, or None.

        >>> from oddsmith import GaussianClassifier
        >>> model = GaussianClassifier().fit([[0.0], [1.0], [4.0], [5.0]], list("aabb"))
        >>> explorer = Explorer.of(model, "tiny", None, {"loss": None, "reject": None})
        >>> [column.name for column in explorer.columns]
        ['x0']
        >>> explorer.answer_row(Fields({"values": {"x0": 0.5}}))["decision"]
        'a'
        """
        if not has_proba(model) and any(cost is not None for cost in costs.values()):
            raise InvalidInputError(f"{type(model).__name__} has no probabilities, so it has no expected loss.")
        columns = form_columns(model, table)
        missing = [c.name for c in columns if table is not None and c.name not in table.column_names]
        if missing and columns_of(model) is not None:
            raise InvalidInputError(f"The data has no column {missing[0]!r}, which the model reads.")
        return cls(model=model, title=title, columns=columns, table=table, costs=costs)

    def actions(self) -> dict[str, Callable[[Fields], dict[str, Any]]]:
        """Return what the page may ask for."""
        return {"form": self.answer_form, "row": self.answer_row, "data": self.answer_data}

    def answer_form(self, fields: Fields) -> dict[str, Any]:
        """Return the columns of the form, and what the model is."""
        fields.only()
        return {
            "title": self.title,
            "kind": type(self.model).__name__,
            "classes": [str(label) for label in self.model.classes_.tolist()],
            "columns": [column.as_json() for column in self.columns],
            "rows": 0 if self.table is None else self.table.num_rows,
            "known_ranges": self.table is not None or all(c.known for c in self.columns),
            "costs": self.costs["loss"] is not None or self.costs["reject"] is not None,
        }

    def answer_data(self, fields: Fields) -> dict[str, Any]:
        """Return a row of the data: the values of the form, and the other columns as text."""
        fields.only("index")
        if self.table is None or not self.table.num_rows:
            raise BadRequestError("No data was given. Start with: oddsmith explore MODEL DATA.", 404)
        index = fields.whole("index", 0, self.table.num_rows - 1)
        row = self.table.slice(index, 1).to_pylist()[0]
        values = {c.name: c.plain(row[c.source]) for c in self.columns if c.source in row}
        read = {c.source for c in self.columns}
        other = {name: "" if value is None else str(value) for name, value in row.items() if name not in read}
        return {"index": index, "values": values, "other": other}

    def answer_row(self, fields: Fields) -> dict[str, Any]:
        """Return what the model says of one row: probabilities, decision, contributions, and what would change it."""
        fields.only("values")
        given = fields.inner("values")
        given.only(*(c.name for c in self.columns))
        row = {c.name: c.read(given) for c in self.columns}
        usual = [row | {c.name: c.default} for c in self.columns]
        scans = [[row | {c.name: value} for value in c.values(SCAN, MOST_LEVELS)] for c in self.columns]
        rows = [row, *usual, *(variant for scan in scans for variant in scan)]
        inputs = self._inputs(rows)
        values, decisions = self._values(inputs), self._decisions(inputs)
        k = 1 if values.shape[1] == 2 else int(values[0].argmax())  # the class that the answer is about
        effects = values[0, k] - values[1 : 1 + len(usual), k]
        start, said, profiles = 1 + len(usual), [], {}
        for column, scan in zip(self.columns, scans, strict=True):
            here = slice(start, start + len(scan))
            said.append(decisions[here])
            profiles[column.name] = {"x": [variant[column.name] for variant in scan], "y": values[here, k]}
            start += len(scan)
        return {
            "values": row,
            "class": str(self.model.classes_.tolist()[k]),
            "probabilities": self._probabilities(inputs),
            "decision": decisions[0],
            "costs": self._costs(inputs),
            "contributions": [
                {"column": c.name, "effect": float(effect), "usual": c.default}
                for c, effect in zip(self.columns, effects, strict=True)
            ],
            "scale": "log odds" if has_proba(self.model) else "discriminant",
            "changes": self._changes(row, scans, said, decisions[0]),
            "profiles": profiles,
        }

    def _inputs(self, rows: Sequence[Row]) -> Any:
        if columns_of(self.model) is None:
            return np.array([[row[c.name] for c in self.columns] for row in rows], dtype=float)
        types = expected_types(self.model) or {}
        arrays = []
        for column in self.columns:
            kind, values = types.get(column.name), [row[column.name] for row in rows]
            if column.date:
                kind = kind.type if isinstance(kind, TextFormat) else kind
                zone = kind.tz if kind is not None and pa.types.is_timestamp(kind) else None
                times = pa.array([round(day * 86_400e6) for day in values], pa.int64())
                arrays.append(times.cast(pa.timestamp("us", zone)))
                continue
            if isinstance(kind, TextFormat):  # the form has its values, not its text
                kind = None if kind.kind == "date" else kind.type
            whole = kind is not None and pa.types.is_integer(kind)
            arrays.append(pa.array([round(v) for v in values] if whole else values, type=kind))
        table = pa.table(arrays, names=[c.name for c in self.columns])
        return model_inputs(self.model, table)

    def _values(self, inputs: Any) -> Array:
        """Return the log odds of each class, or the discriminants where there are no probabilities."""
        if has_proba(self.model):
            L = _log_proba(self.model, inputs)
            rest = [np.logaddexp.reduce(np.delete(L, k, axis=1), axis=1) for k in range(L.shape[1])]
            return np.asarray(np.clip(L - np.stack(rest, axis=1), -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS))
        A = np.asarray(self.model.decision_function(inputs))
        return np.stack([-A, A], axis=1) if A.ndim == 1 else A

    def _decisions(self, inputs: Any) -> list[str]:
        if not has_proba(self.model) or not isinstance(self.model, Classifier):
            return [str(label) for label in self.model.predict(inputs).tolist()]
        taken = self.model.decide(inputs, self.costs["loss"], reject=self.costs["reject"])
        return ["no decision" if action is REJECT else str(action) for action in taken.tolist()]

    def _probabilities(self, inputs: Any) -> list[dict[str, Any]] | None:
        """Return probability and 90 % interval of each class of the first row."""
        if not has_proba(self.model):
            return None
        first = inputs[:1]
        P = self.model.predict_proba(first)[0]
        found = [
            {"class": str(c), "probability": float(p)} for c, p in zip(self.model.classes_.tolist(), P, strict=True)
        ]
        if isinstance(self.model, LogisticRegression):
            try:
                integrated = self.model.predictive(first)
            except OddsmithError:
                return found
            for k, part in enumerate(found):
                part |= {"lower": float(integrated.lower[0, k]), "upper": float(integrated.upper[0, k])}
        return found

    def _costs(self, inputs: Any) -> list[dict[str, Any]] | None:
        """Return what each action is expected to cost."""
        if not has_proba(self.model):
            return None
        labels, P = self.model.classes_.tolist(), self.model.predict_proba(inputs[:1])
        loss, reject = self.costs["loss"], self.costs["reject"]
        expected = expected_loss(P, loss, reject, classes=labels)[0].tolist()
        names = [str(action) for action in read_loss(loss, labels).actions.tolist()]
        names += [] if reject is None else ["no decision"]
        return [{"action": name, "cost": cost} for name, cost in zip(names, expected, strict=True)]

    def _changes(self, row: Row, scans: list[list[Row]], decisions: list[list[str]], now: str) -> list[dict[str, Any]]:
        """Return the changes of one column alone that turn the decision: the nearest value, or the levels that do."""
        found: list[dict[str, Any]] = []
        brackets: list[tuple[FormColumn, float, float]] = []
        for column, scan, said in zip(self.columns, scans, decisions, strict=True):
            other = [(variant[column.name], text) for variant, text in zip(scan, said, strict=True) if text != now]
            if column.levels:
                found += [{"column": column.name, "to": str(v), "decision": text} for v, text in other[:5]]
            elif other:
                here = float(row[column.name])
                brackets.append((column, here, min((float(v) for v, _ in other), key=lambda v: abs(v - here))))
        return found + self._edges(row, brackets, now)

    def _edges(self, row: Row, brackets: list[tuple[FormColumn, float, float]], now: str) -> list[dict[str, Any]]:
        """Return the first values beyond which the decision changes, all columns narrowed down together."""
        said: list[str] = []
        for _ in range(ROUNDS if brackets else 0):
            tried = [np.linspace(inside, outside, PARTS + 1)[1:].tolist() for _, inside, outside in brackets]
            rows = [row | {c.name: v} for (c, _, _), values in zip(brackets, tried, strict=True) for v in values]
            decisions, narrower, said = self._decisions(self._inputs(rows)), [], []
            for i, ((column, inside, _), values) in enumerate(zip(brackets, tried, strict=True)):
                part = decisions[i * PARTS : (i + 1) * PARTS]
                at = next((j for j, text in enumerate(part) if text != now), PARTS - 1)
                narrower.append((column, values[at - 1] if at else inside, values[at]))
                said.append(part[at])
            brackets = narrower
        return [
            {"column": c.name, "to": outside, "by": outside - float(row[c.name]), "decision": text}
            for (c, _, outside), text in zip(brackets, said, strict=True)
        ]


def _log_proba(model: ProbabilisticClassifierLike, inputs: Any) -> Array:
    """Return log probabilities, exact far out in the tails where a model gives them."""
    if isinstance(model, LogisticRegression | GaussianClassifier | NaiveBayes):
        return np.asarray(model.predict_log_proba(inputs))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(model.predict_proba(inputs)))
