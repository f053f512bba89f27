"""The geometry of linear models: decision values, boundary hyperplanes, signed distances."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from oddsmith.data_access.dispatch import streams
from oddsmith.models.estimator import Estimator, linear_activations
from oddsmith.numerics import Array
from oddsmith.protocols import Labels
from oddsmith.records import Boundary


def pairwise(coef: Array, intercept: Array, classes: Labels) -> tuple[Array, Array, list[Any]]:
    """Return the weights, intercepts and class pairs of the hyperplanes between classes.

    Two classes have one hyperplane; K > 2 have one for each pair (i, j), i < j, positive towards j:
    ``(w_j − w_i)ᵀ x + (w_j0 − w_i0) = 0``.

    >>> W, b, pairs = pairwise(np.eye(3), np.array([0.0, 1.0, 3.0]), np.array(["a", "b", "c"]))
    >>> W.tolist(), b.tolist()
    ([[-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0], [0.0, -1.0, 1.0]], [1.0, 3.0, 2.0])
    >>> pairs
    [('a', 'b'), ('a', 'c'), ('b', 'c')]
    """
    labels = classes.tolist()
    if len(coef) == 1:
        return coef, intercept, [(labels[0], labels[1])]
    i, j = np.array(list(combinations(range(len(labels)), 2))).T
    pairs = [(labels[a], labels[b]) for a, b in zip(i, j, strict=True)]
    with np.errstate(invalid="ignore"):  # of two intercepts that are infinite there is no difference
        return coef[j] - coef[i], intercept[j] - intercept[i], pairs


class GeometryMixin(Estimator):
    """A mixin for linear models: it turns ``coef_`` and ``intercept_`` into decisions, boundaries and distances.

    The model has ``classes_``, ``coef_`` (1 × M for two classes, K × M for more), ``intercept_``, and a method
    ``_rows(X)`` that checks rows and applies basis functions, if any: the geometry refers to the space in which the
    model is linear. List it before `Classifier`.

    Lengths are Euclidean, in the units of the columns. If two classes have equal weights, there is no hyperplane
    between them, and its numbers are NaN.

    >>> from oddsmith import LeastSquaresClassifier
    >>> model = LeastSquaresClassifier().fit([[0.0, 0.0], [4.0, 0.0], [0.0, 1.0], [4.0, 1.0]], [0, 1, 0, 1])
    >>> model.boundary_.normal.round(9).tolist(), round(model.boundary_.origin_distance, 9)
    ([1.0, 0.0], 2.0)
    >>> model.distance([[5.0, 7.0]]).round(9).tolist()
    [3.0]
    """

    def _linear_functions(self) -> tuple[Array, Array]:
        """Return weights and intercepts, which some models set in ``fit`` and others derive."""
        return self.coef_, self.intercept_

    def _hyperplanes(self) -> tuple[Array, Array, list[Any]]:
        """Return the weights, intercepts and class pairs of the boundary."""
        return pairwise(*self._linear_functions(), self.classes_)

    @property
    def boundary_(self) -> Boundary:
        """The decision boundary, a hyperplane for each pair of classes: unit normal, offset, distance of the origin.

        The hyperplane ``wᵀx + w₀ = 0`` has the unit normal ``w/‖w‖`` (towards the second class of the pair), the
        offset ``w₀/‖w‖``, and lies at ``−w₀/‖w‖`` from the origin along the normal.
        """
        W, b, pairs = self._hyperplanes()
        length = lengths(W)
        with np.errstate(over="ignore"):  # a hyperplane may lie farther off than any number
            normal, offset = W / length[:, None], b / length
        if len(pairs) == 1:
            return Boundary(pairs, normal[0], float(offset[0]), float(-offset[0]))
        return Boundary(pairs, normal, offset, -offset)

    def distance(self, X: Any) -> Array:
        """Return the signed distance ``(wᵀx + w₀)/‖w‖`` of each row from the boundary.

        It is positive on the side of the second class of a pair. Two classes: length N; more: N × pairs, in
        the order of ``boundary_.classes``.

        >>> from oddsmith import LeastSquaresClassifier
        >>> model = LeastSquaresClassifier().fit([[0.0], [2.0]], ["left", "right"])
        >>> model.distance([[-2.0], [1.5]]).round(9).tolist()
        [-3.0, 0.5]
        """
        rows, (W, b, pairs) = self._rows(X, deciding=True), self._hyperplanes()
        with np.errstate(over="ignore"):  # a row may lie farther off than any number
            d = linear_activations(rows, W, b) / lengths(W)
        return d[:, 0] if len(pairs) == 1 else d

    @streams
    def decision_function(self, X: Any) -> Array:
        """Return the value of the linear discriminant: length N (positive: ``classes_[1]``), or N × K (the largest).

        >>> from oddsmith import LeastSquaresClassifier
        >>> model = LeastSquaresClassifier().fit([[0.0], [2.0]], ["left", "right"])
        >>> model.decision_function([[-2.0], [1.0]]).round(9).tolist()
        [-3.0, 0.0]
        """
        rows, (W, b) = self._rows(X), self._linear_functions()
        A = linear_activations(rows, W, b)
        return A[:, 0] if A.shape[1] == 1 else A


def lengths(W: Array) -> Array:
    """Return the length of each row, NaN for zero, without over- or underflow.

    >>> lengths(np.array([[3e200, 4e200], [0.0, 0.0]])).tolist()
    [5e+200, nan]
    """
    top = np.abs(W).max(axis=1, initial=0.0)
    top = np.where(top > 0, top, np.nan)
    return np.asarray(top * np.linalg.norm(W / top[:, None], axis=1))
