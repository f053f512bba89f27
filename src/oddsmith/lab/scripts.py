"""A pane as a Python script that fits the same model to the same points and prints the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

import oddsmith
from oddsmith.lab.fields import BadRequestError, Fields
from oddsmith.lab.pane import POINT_FIELDS, Points, is_editable, read_decision
from oddsmith.lab.pane_model import build_model, code_of
from oddsmith.models.base import Classifier
from oddsmith.models.gaussian import GaussianClassifier
from oddsmith.models.naive_bayes import NaiveBayes
from oddsmith.numerics import Array
from oddsmith.protocols import Indices

PER_LINE = 6


def answer_script(fields: Fields) -> dict[str, Any]:
    """Return the script of a pane."""
    fields.only(*POINT_FIELDS, "model", "weights", "decision")
    X, t = Points.read(fields).check()
    model = build_model(fields.inner("model"), np.unique(t), X.shape[1])
    W = fields.table("weights", None, most=10) if fields.has("weights") else None
    if W is not None and not (is_editable(model) and W.size):
        raise BadRequestError(f"The weights of {type(model).__name__} cannot be put by hand.")
    decision = read_decision(fields.inner("decision"), len(np.unique(t))) if fields.has("decision") else None
    return {"script": script_of(model, X, t, W) + ("" if decision is None else _decision_code(decision))}


def _decision_code(decision: dict[str, Any]) -> str:
    """Return the line that decides for each row under a loss, as the pane does."""
    loss, reject, prior = decision["loss"].tolist(), decision["reject"], decision["class_prior"]
    shifted = "model" if prior is None else f"model.with_class_prior({prior.tolist()!r})"
    return f"decisions = {shifted}.decide(X, {loss!r}, reject={reject!r})\n"


def script_of(model: Classifier, X: Array, t: Indices, W: Array | None = None) -> str:
    """Return the code that fits a model to points: imports, data, fit, and weights by hand if there are some.

    >>> from oddsmith import LogisticRegression
    >>> print(script_of(LogisticRegression(1.0), np.array([[0.0], [1.0]]), np.array([0, 1])))
    import numpy as np
    from oddsmith import LogisticRegression
    <BLANKLINE>
    X = np.array([
        [0.0], [1.0],
    ])
    y = np.array([
        0, 1,
    ])
    <BLANKLINE>
    model = LogisticRegression(prior=1.0).fit(X, y)
    print("accuracy", model.score(X, y))
    print("weights", np.column_stack([model.intercept_, model.coef_]).tolist())
    <BLANKLINE>
    """
    code = code_of(model)
    names = [name for name in oddsmith.__all__ if f"{name}(" in code]
    lines = ["import numpy as np", f"from oddsmith import {', '.join(names)}", ""]
    lines += ["X = np.array([", *_rows([repr(row) for row in X.tolist()]), "])"]
    lines += ["y = np.array([", *_rows([repr(k) for k in t.tolist()], 30), "])", ""]
    lines.append(f"model = {code}.fit(X, y)")
    if W is not None:
        lines += [f"W = np.array({W.tolist()!r})  # by hand", "model.intercept_, model.coef_ = W[:, 0], W[:, 1:]"]
    lines.append('print("accuracy", model.score(X, y))')
    curved = isinstance(model, NaiveBayes) or (isinstance(model, GaussianClassifier) and model.covariance != "shared")
    if not curved:
        lines.append('print("weights", np.column_stack([model.intercept_, model.coef_]).tolist())')
    return "\n".join(lines) + "\n"


def _rows(items: list[str], per_line: int = PER_LINE) -> list[str]:
    return [f"    {', '.join(items[i : i + per_line])}," for i in range(0, len(items), per_line)]
