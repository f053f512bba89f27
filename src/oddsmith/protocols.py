"""Protocols of external objects: other libraries' classifiers, labels of any type, unchecked input.

``object`` is the type of unchecked user input.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Labels: TypeAlias = npt.NDArray[Any]  # Class labels, of whatever type the user's labels have.
Indices: TypeAlias = npt.NDArray[np.intp]  # Row or column numbers.


class RowsLike(Protocol):
    """Rows as users give them: a table of any library, an array or a sparse matrix."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows × columns."""

    def __getitem__(self, which: Any) -> Any: ...


class ClassifierLike(Protocol):
    """A fitted classifier, ours or another library's."""

    classes_: Labels

    def predict(self, X: Any) -> Labels:
        """Return the class of each row."""


class ProbabilisticClassifierLike(ClassifierLike, Protocol):
    """A fitted classifier that gives probabilities."""

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the probability of each class, N × K."""
