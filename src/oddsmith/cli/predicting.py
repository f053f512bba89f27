"""What a model says about rows, as tables to write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from oddsmith.cli.making import check_column
from oddsmith.errors import InvalidInputError


def predictions(model: Any, rows: Any, intervals: bool = False, level: float = 0.95) -> Any:
    """Return the predicted class of each row, and the probabilities of all where the model has them.

    >>> from oddsmith import GaussianClassifier
    >>> model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["no", "no", "yes", "yes"])
    >>> predictions(model, np.array([[0.0]])).column_names
    ['predicted', 'p_no', 'p_yes']
    """
    columns = {"predicted": pa.array(model.predict(rows).tolist())}
    names = [str(label) for label in model.classes_.tolist()]
    if intervals and not hasattr(model, "predictive"):
        raise InvalidInputError(
            f"{type(model).__name__} has no posterior, and so no --intervals. Use a logistic model with a --prior."
        )
    if hasattr(model, "predict_proba"):
        columns |= _by_class("p", names, model.predict_proba(rows))
    if intervals:
        found = model.predictive(rows, level=level)
        columns |= _by_class("lower", names, found.lower) | _by_class("upper", names, found.upper)
    return pa.table(columns)


def _by_class(prefix: str, names: list[str], values: Any) -> dict[str, Any]:
    return {f"{prefix}_{name}": pa.array(np.ascontiguousarray(values[:, k])) for k, name in enumerate(names)}


class Decisions:
    """The decisions of a model under a loss."""

    def __init__(self, model: Any, loss: Any, reject: Any) -> None:
        from oddsmith.decision.loss import read_loss

        self.model, self.reject = model, reject
        self.loss = read_loss(loss, model.classes_)

    def __call__(self, rows: Any) -> Any:
        """Return the decision (null if rejected) and its expected loss for each row."""
        from oddsmith.decision.acting import REJECT, expected_loss

        actions = self.model.decide(rows, self.loss, self.reject)
        P = self.model.predict_proba(rows)
        costs = expected_loss(P, self.loss, self.reject, classes=self.model.classes_)
        said = [None if action is REJECT else action for action in actions.tolist()]
        kind = pa.array(self.loss.actions.tolist()).type
        columns = {"decision": pa.array(said, type=kind)}
        if self.reject is not None:
            columns["rejected"] = pa.array([action is None for action in said])
        return pa.table({**columns, "expected_loss": pa.array(costs.min(axis=1))})


def beside(table: Any, kept: Sequence[str], said: Any) -> Any:
    """Return kept columns of a table with what was said about its rows at their right."""
    for name in kept:
        check_column(table, name, "--keep")
        if name in said.column_names:
            raise InvalidInputError(
                f"DATA has a column {name!r}, and so has what is written. Leave it out of --keep, or rename it."
            )
    return pa.table({**{name: table[name] for name in kept}, **{name: said[name] for name in said.column_names}})


def drawn(model: Any, n: int, target: str, seed: int) -> Any:
    """Return n rows and their classes from a generative model.

    >>> from oddsmith import GaussianClassifier
    >>> model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["no", "no", "yes", "yes"])
    >>> drawn(model, 3, "class", 0).column_names
    ['x0', 'class']
    """
    if not hasattr(model, "sample"):
        raise InvalidInputError(
            f"{type(model).__name__} says how classes depend on columns, not how columns are spread: nothing can be "
            "drawn from it. Fit --model gaussian or naive-bayes for that."
        )
    rows, labels = model.sample(n, seed=seed)
    if isinstance(rows, np.ndarray):
        names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(rows.shape[1])])
        table = pa.table({str(name): rows[:, j] for j, name in enumerate(names)})
    else:
        import narwhals as nw

        table = nw.from_native(rows, eager_only=True).to_arrow()
    return beside(table, table.column_names, pa.table({target: pa.array(labels.tolist())}))
