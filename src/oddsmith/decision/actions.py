"""From probabilities to actions: the action of smallest expected loss, or rejection."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from oddsmith.decision.loss import LossLike, LossMatrix, Names, RejectLike, named_loss, read_probabilities, read_reject
from oddsmith.errors import InvalidInputError
from oddsmith.numerics import Array
from oddsmith.protocols import Labels
from oddsmith.records import Table


class Rejection(Enum):
    """The type of `REJECT`: a singleton, preserved by pickling and copying."""

    REJECT = "reject"

    def __repr__(self) -> str:
        return "REJECT"

    __str__ = __repr__


REJECT: Final = Rejection.REJECT
"""The decision of a rejected row."""


def expected_loss(
    proba: ArrayLike, loss: LossLike = None, reject: RejectLike = None, *, classes: Names = None, actions: Names = None
) -> Array:
    """Return the expected cost of each action for each row.

    ``R[n, a] = Σ_k p(C_k | x_n) L[k, a]``, N × A; ``reject`` adds a column for rejecting.

    Parameters
    ----------
    proba, loss, reject, classes, actions
        As in `decide`.

    Cost: one product of N × K and K × A.

    >>> expected_loss([[0.9, 0.1], [0.5, 0.5]], [[0, 1], [10, 0]]).tolist()
    [[1.0, 0.9], [5.0, 0.5]]
    """
    P = read_probabilities(proba)
    return _costs(P, named_loss(loss, P.shape[1], classes, actions), reject)


def decide(
    proba: ArrayLike, loss: LossLike = None, reject: RejectLike = None, *, classes: Names = None, actions: Names = None
) -> Labels:
    """Return the action of smallest expected loss for each row, or `REJECT`.

    ``a_n = argmin_a Σ_k p(C_k | x_n) L[k, a]``. If all errors cost the same, this is the most probable class. Ties go
    to the first action; a row is rejected only if rejecting is cheaper than every action. With losses 0 and 1 and
    ``reject=c``, exactly the rows with ``1 − max p > c`` are rejected.

    Parameters
    ----------
    proba : array, N × K
        Probabilities of the classes; each row sums to 1.
    loss : None, K × A numbers, or {class: {action: cost}}
        The cost of each action in each class; negative numbers are gains. None: 1 for every error. Actions need not be
        classes.
    reject : None, number, {class: cost}, or K numbers
        The cost of rejecting a row (making no decision). None: every row gets a decision.
    classes, actions : sequences, optional
        Names of the rows and columns of ``loss``. Default: classes 0 … K−1; actions are the classes if there are as
        many, else 0 … A−1. The model's method ``decide`` knows its classes.

    Returns
    -------
    array of length N
        Actions; with ``reject``, an object array in which rejected rows are ``oddsmith.REJECT``.

    Cost: one product of N × K and K × A.

    References
    ----------
    C. M. Bishop, Pattern Recognition and Machine Learning, 2006, section 1.5. C. K. Chow, On optimum recognition
    error and reject tradeoff, IEEE Transactions on Information Theory 16, 1970.

    >>> P = [[0.97, 0.03], [0.6, 0.4], [0.2, 0.8]]
    >>> decide(P, classes=["well", "sick"]).tolist()
    ['well', 'well', 'sick']
    >>> loss = {"well": {"go": 0, "test": 1, "treat": 10}, "sick": {"go": 100, "test": 3, "treat": 0}}
    >>> decide(P, loss, classes=["well", "sick"]).tolist()
    ['test', 'test', 'treat']
    >>> decide(P, reject=0.3).tolist()
    [0, REJECT, 1]
    """
    P = read_probabilities(proba)
    return decide_by(P, named_loss(loss, P.shape[1], classes, actions), reject)


def decide_by(P: Array, loss: LossMatrix, reject: RejectLike = None) -> Labels:
    """Return the decisions for checked probabilities and a checked loss."""
    costs = _costs(P, loss, None)
    if loss.error_cost is not None:
        # The sums of the other classes' probabilities round; the probabilities themselves do not.
        codes, slack = P.argmax(axis=1), 0.0
    else:
        slack = loss.rounding
        codes = (costs <= costs.min(axis=1, keepdims=True) + slack).argmax(axis=1)
    actions = np.asarray(loss.actions[codes])
    if reject is None:
        return actions
    return mark(actions, costs.min(axis=1) > _reject_cost(P, loss, reject) + slack)


def mark(actions: Labels, rejected: npt.NDArray[np.bool_]) -> Labels:
    """Return the actions as objects, with `REJECT` in the rejected rows."""
    marked = actions.astype(object)
    marked[rejected] = REJECT
    return marked


def threshold_for(loss: LossLike = None, *, classes: Names = None, actions: Names = None) -> float:
    """Return the probability of the second of two classes above which the second action is cheaper.

    ``p > (L₀₁ − L₀₀) / (L₀₁ − L₀₀ + L₁₀ − L₁₁)``, with ``L[k, a]`` the loss of action ``a`` in class ``k``; ½ if both
    errors cost the same. With more actions, or a reject option, see `decision_regions`.

    >>> threshold_for([[0, 1], [9, 0]])
    0.1
    """
    matrix = named_loss(loss, 2, classes, actions)
    if matrix.values.shape[1] != 2:
        raise InvalidInputError(
            f"loss has {matrix.values.shape[1]} actions; a threshold lies between two. decision_regions(loss) gives "
            "the range of each."
        )
    L, (first, second) = matrix.values, matrix.actions.tolist()
    up, down = float(L[0, 1] - L[0, 0]), float(L[1, 0] - L[1, 1])
    if up <= 0 and down <= 0:
        raise InvalidInputError(
            f"By this loss {second!r} is as good as {first!r} or better in class {matrix.classes.tolist()[0]!r}, and "
            "vice versa in the other class: it rewards errors, or does not distinguish the actions. Are rows "
            "(classes) and columns (actions) in the right order?"
        )
    if up < 0 or down < 0:
        better = second if up < 0 else first
        raise InvalidInputError(
            f"Whatever the class, {better!r} costs less: no threshold is needed. Check the loss if this is not "
            f"intended."
        )
    return up / (up + down)


@dataclass(frozen=True)
class DecisionRegions(Table):
    """The best action for each range of the second class's probability.

    Attributes
    ----------
    actions : list
        From the smallest probabilities to the largest; `REJECT` for a range without a decision.
    edges : array
        ``actions[i]`` is best between ``edges[i]`` and ``edges[i + 1]``; from 0 to 1.
    """

    actions: list[Any]
    edges: Array

    def to_dict(self) -> dict[str, list[Any]]:
        """Return a row per region."""
        return {"action": list(self.actions), "lower": self.edges[:-1].tolist(), "upper": self.edges[1:].tolist()}


def decision_regions(
    loss: LossLike = None, reject: RejectLike = None, *, classes: Names = None, actions: Names = None
) -> DecisionRegions:
    """Return the ranges of the second class's probability in which each action is best (two classes).

    Expected losses are linear in that probability; the regions are the pieces of their lower envelope.

    >>> print(decision_regions(reject=0.2))
    action  lower  upper
         0      0    0.2
    REJECT    0.2    0.8
         1    0.8      1
    """
    matrix = named_loss(loss, 2, classes, actions)
    L = matrix.values
    if reject is not None:
        L = np.column_stack([L, read_reject(reject, matrix.classes)])
    crossings = [0.0, 1.0]
    for i, j in combinations(range(L.shape[1]), 2):
        d0, d1 = L[0, i] - L[0, j], L[1, i] - L[1, j]
        if d0 * d1 < 0:
            crossings.append(float(d0 / (d0 - d1)))
    edges = np.unique(crossings)
    middle = (edges[:-1] + edges[1:]) / 2
    chosen = decide_by(np.column_stack([1.0 - middle, middle]), matrix, reject).tolist()
    kept = [0, *(i for i in range(1, len(chosen)) if chosen[i] != chosen[i - 1])]
    return DecisionRegions([chosen[i] for i in kept], np.append(edges[kept], 1.0))


def _costs(P: Array, loss: LossMatrix, reject: RejectLike) -> Array:
    error = loss.error_cost
    costs: Array = P @ loss.values if error is None else error * (1.0 - P)
    return costs if reject is None else np.column_stack([costs, _reject_cost(P, loss, reject)])


def _reject_cost(P: Array, loss: LossMatrix, reject: RejectLike) -> Array:
    costs = read_reject(reject, loss.classes)
    # One cost for all classes is that cost, whatever the last digit of the probabilities' sum.
    return np.full(len(P), costs[0]) if (costs == costs[0]).all() else P @ costs
