"""Checks of the inputs of a decision: probabilities, loss matrix, cost of rejecting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.numerics import Array
from oddsmith.protocols import Labels
from oddsmith.records import Table

Names: TypeAlias = Sequence[Any] | Labels | None  # Names of classes or actions; None: numbers.


@dataclass(frozen=True)
class LossMatrix(Table):
    """The cost of each action in each class: ``values[k, a]`` is the loss of action ``a`` if the true class is ``k``.

    Attributes
    ----------
    values : array, K × A
    classes, actions : arrays
        The names of rows and columns.

    >>> print(LossMatrix(np.array([[0.0, 5.0], [100.0, 0.0]]), np.array(["well", "sick"]), np.array(["go", "stay"])))
    class   go  stay
     well    0     5
     sick  100     0
    """

    values: Array
    classes: Labels
    actions: Labels

    def to_dict(self) -> dict[str, list[Any]]:
        """Return a row per class, a column per action."""
        columns = {str(a): self.values[:, j].tolist() for j, a in enumerate(self.actions.tolist())}
        return {"class": self.classes.tolist(), **columns}

    @property
    def error_cost(self) -> float | None:
        """The cost of an error, if all errors cost the same, correct answers are free and actions are the classes."""
        L = self.values
        if L.shape[0] != L.shape[1] or len(L) < 2 or not np.array_equal(self.actions, self.classes):
            return None
        cost = float(L[0, 1])
        return cost if cost > 0 and np.array_equal(L, cost * (1.0 - np.eye(len(L)))) else None

    @property
    def rounding(self) -> float:
        """The rounding error of an expected loss: costs this close count as equal."""
        return float(8 * len(self.values) * np.finfo(np.float64).eps * np.abs(self.values).max(initial=0.0))


LossLike: TypeAlias = LossMatrix | npt.ArrayLike | Mapping[Any, Mapping[Any, float]] | None
"""Costs of actions: None (every error costs 1), K × A numbers, or {class: {action: cost}}."""
RejectLike: TypeAlias = npt.ArrayLike | Mapping[Any, float] | None
"""Cost of rejecting: one number, one for each class, or {class: cost}; None: rejecting is not an action."""


def read_probabilities(proba: npt.ArrayLike, K: int | None = None) -> Array:
    """Return checked N × K probabilities.

    >>> read_probabilities([[0.2, 0.9]])
    Traceback (most recent call last):
    ...
    oddsmith.errors.InvalidInputError: The probabilities of row 0 sum to 1.1, not to 1. ...
    """
    given = np.asarray(proba)
    if given.dtype.kind not in "fiub":
        raise InvalidTypeError(f"proba must be an array of numbers, N × K; found one of type {given.dtype}.")
    P = given.astype(np.float64, copy=False)
    if P.ndim != 2 or P.shape[1] < 1:
        raise InvalidInputError(
            f"proba has shape {P.shape}; expected N × K, one column per class. For one row give [[p, q]]; for two "
            "classes and their second one's probabilities p give numpy.column_stack([1 - p, p])."
        )
    if K is not None and P.shape[1] != K:
        raise InvalidInputError(f"proba has {P.shape[1]} columns; expected {K}, one for each class.")
    tolerance = 1e-6 if given.dtype.itemsize > 4 or given.dtype.kind != "f" else 5e-4
    outside = ~((P >= -tolerance) & (P <= 1.0 + tolerance)).all(axis=1)
    if outside.any():
        n = int(np.argmax(outside))
        raise InvalidInputError(
            f"Row {n} of proba is {P[n].tolist()}: probabilities lie between 0 and 1, without NaN. Are these the "
            "values of a decision_function? Give those of predict_proba."
        )
    total = P.sum(axis=1)
    off = np.abs(total - 1.0) > tolerance
    if off.any():
        n = int(np.argmax(off))
        raise InvalidInputError(
            f"The probabilities of row {n} sum to {total[n]:.6g}, not to 1. Give one column for every class, or divide "
            "each row by its sum if that is what you mean."
        )
    return P


def read_loss(loss: LossLike, classes: Sequence[Any] | Labels, actions: Names = None) -> LossMatrix:
    """Return the loss matrix: from None (every error costs 1), K × A numbers, or {class: {action: cost}}.

    A pandas table with classes as rows and actions as columns is read by its names. Without names, actions are the
    classes if there are as many, else 0, 1, … .

    >>> read_loss({"sick": {"go": 100, "stay": 0}, "well": {"go": 0, "stay": 5}}, ["sick", "well"]).values.tolist()
    [[100.0, 0.0], [0.0, 5.0]]
    """
    labels = np.asarray(classes)
    K = len(labels)
    if loss is None:
        if actions is not None:
            raise InvalidInputError("actions are given, but no loss: without one, the actions are the classes.")
        return LossMatrix(1.0 - np.eye(K), labels, labels)
    if isinstance(loss, LossMatrix):
        rows = zip(loss.classes.tolist(), loss.values, strict=True)
        loss = {label: dict(zip(loss.actions.tolist(), row, strict=True)) for label, row in rows}
    elif hasattr(loss, "index") and hasattr(loss, "to_dict"):
        loss = loss.to_dict("index")  # a pandas table: its names count, not its order
    if isinstance(loss, Mapping):
        loss, actions = _from_names(loss, labels.tolist(), actions)
    values = _finite(loss, "loss")
    if values.ndim != 2 or values.shape[0] != K or values.shape[1] < 1:
        raise InvalidInputError(
            f"loss has shape {values.shape}; expected {K} × A: one row for each class ({_few(labels.tolist())}), one "
            "column for each action."
        )
    A = values.shape[1]
    if actions is None:
        return LossMatrix(values, labels, labels if A == K else np.arange(A))
    return LossMatrix(values, labels, as_labels(_check_names("actions", actions, A, "column of loss")))


def named_loss(loss: LossLike, K: int, classes: Names, actions: Names) -> LossMatrix:
    """Return the loss matrix for K classes, by default named 0 … K−1."""
    return read_loss(loss, range(K) if classes is None else _check_names("classes", classes, K, "class"), actions)


def _check_names(what: str, names: Sequence[Any] | Labels, n: int, of: str) -> list[Any]:
    """Return names as a list; raise unless they are ``n`` different names."""
    given = list(names)
    if len(given) != n or len(set(given)) != n:
        raise InvalidInputError(f"{what} are {given}; expected {n} different names, one for each {of}.")
    return given


def read_reject(reject: RejectLike, classes: Labels) -> Array:
    """Return the cost of rejecting in each class, from one number, {class: cost}, or a sequence.

    >>> read_reject(0.1, np.array(["a", "b"])).tolist()
    [0.1, 0.1]
    """
    labels = classes.tolist()
    if isinstance(reject, Mapping):
        _check_classes(reject, labels, "reject")
        reject = [reject[label] for label in labels]
    costs = _finite(reject, "reject")
    if costs.ndim == 0:
        return np.full(len(labels), float(costs))
    if costs.shape != (len(labels),):
        raise InvalidInputError(
            f"reject has shape {costs.shape}; expected one cost, or one for each of the classes {_few(labels)}."
        )
    return costs


def as_labels(names: Sequence[Any]) -> Labels:
    """Return names as an array of their common type, or of objects if their types differ."""
    if len({type(name) for name in names}) == 1 and isinstance(names[0], str | bool | int | float | np.generic):
        return np.array(names)
    labels = np.empty(len(names), dtype=object)
    labels[:] = names
    return labels


def _from_names(loss: Mapping[Any, Any], labels: list[Any], actions: Names) -> tuple[list[list[float]], list[Any]]:
    """Return rows of numbers in the order of the classes, and the actions."""
    _check_classes(loss, labels, "loss")
    if not all(isinstance(row, Mapping) for row in loss.values()):
        raise InvalidTypeError("A loss with names must be {class: {action: cost}}: every class needs a mapping.")
    found = list(loss[labels[0]])
    if actions is None:
        # Where the actions are the classes they keep the order of the classes, and so do ties.
        actions = labels if set(found) == set(labels) else found
    names = list(actions)
    for label in labels:
        if set(loss[label]) != set(names):
            strange = set(loss[label]) ^ set(names)
            raise InvalidInputError(
                f"loss names the actions {_few(list(loss[label]))} for class {label!r}; expected are {_few(names)}: "
                f"{_few(sorted(strange, key=str))} is not on both sides. Give every class a cost for every action."
            )
    return [[loss[label][action] for action in names] for label in labels], names


def _check_classes(given: Mapping[Any, Any], labels: list[Any], what: str) -> None:
    for name in given:
        if name not in labels:
            raise UnknownNameError(f"class in {what}", name, labels)
    lost = [label for label in labels if label not in given]
    if lost:
        raise InvalidInputError(f"{what} does not mention class {lost[0]!r}. Give a cost for each of {_few(labels)}.")


def as_numbers(given: object, expected: str) -> Array:
    """Return an array of numbers; raise an error that says what was expected and found."""
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidTypeError(f"{expected}, found {given!r}.") from None


def _finite(given: object, what: str) -> Array:
    values = as_numbers(given, f"{what} must be numeric")
    if not np.isfinite(values).all():
        raise InvalidInputError(
            f"{what} holds NaN or infinity. Give finite numbers; for an outcome that must never happen, use a very "
            f"large one."
        )
    return values


def _few(names: Sequence[Any]) -> str:
    return ", ".join(map(repr, names[:8])) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
