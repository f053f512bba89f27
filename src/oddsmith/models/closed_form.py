"""What models share that need one fold and no iteration: reading, folding, and naming of dependent columns."""

from __future__ import annotations

import warnings
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.design.inputs import check_class_weights, nonfinite_error
from oddsmith.engines import MemorySource, engine_of
from oddsmith.errors import CollinearityWarning, InvalidInputError
from oddsmith.models.expanding import has_basis, learn_basis
from oddsmith.models.reading import read_data
from oddsmith.numerics import EPS, Array, SpdFactor
from oddsmith.statistic import Statistic

S = TypeVar("S", bound=Statistic)
LARGEST_SCATTER = 20_000


def read_source(
    model: Any, X: Any, y: Any, sample_weight: Any, how: dict[str, Any] | None = None
) -> tuple[npt.NDArray[Any], Any]:
    """Return the classes, and rows, labels and weights as something to fold; NaN in the rows is not yet looked for."""
    data = read_data(model, X, y, sample_weight, None, how, reset=True)
    source = data.source
    if data.class_weight is None and source.s is not None:
        weight = np.bincount(source.t, weights=source.s, minlength=len(data.classes))
        check_class_weights(weight.astype(np.float64), data.classes)
    source = learn_basis(model, source)
    check_width(model, source)
    return data.classes, source


def check_width(model: Any, source: Any) -> None:
    """Refuse more columns than a matrix of all their pairs can be kept for."""
    M = source.shape.M
    if M > LARGEST_SCATTER:
        raise InvalidInputError(
            f"{type(model).__name__} keeps a matrix of {M} × {M} numbers for {M} columns, and takes {LARGEST_SCATTER} "
            "columns at most. Use fewer (by hashing or a projection), or LogisticRegression, which needs no such thing."
        )


def fold(model: Any, source: Any, statistic: type[S], params: Any) -> S:
    """Return the statistic of the rows.

    NaN and infinity are found in the sums, which saves reading the data for them; the error then names the column.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        total = engine_of(source, model.threads).fold(statistic, source, params)
    fields = [np.asarray(getattr(total, name)) for name in total.__dataclass_fields__]
    if not all(np.isfinite(field).all() for field in fields):
        raise _not_finite(model, source)
    return total


def _not_finite(model: Any, source: Any) -> InvalidInputError:
    if not isinstance(source, MemorySource):
        return InvalidInputError("The squares of a column add up to more than a float64 can hold. Rescale the columns.")
    names, rows = getattr(model, "feature_names_in_", None), source.block(0, source.n_rows).Phi
    values = rows.data if sparse.issparse(rows) else rows
    if not np.isfinite(values).all():
        names = model._names() if has_basis(model) else names
        return nonfinite_error(rows, names)
    largest = int(np.argmax(abs(rows).max(axis=0).toarray() if sparse.issparse(rows) else np.abs(rows).max(axis=0)))
    return InvalidInputError(
        f"The squares of column {str(model._names()[largest])!r} add up to more than a float64 can hold. "
        "Divide it by a power of ten."
    )


def check_threads(threads: Any) -> None:
    """Refuse what is no number of threads."""
    if threads is not None and not (isinstance(threads, int | np.integer) and threads >= 1):
        raise InvalidInputError(f"threads must be None or a whole number of at least 1, found {threads!r}.")


def without_traces(scatter: Array, mean: Array, weight: float) -> Array:
    """Return the scatter with columns zeroed whose spread is nothing but the rounding of their mean.

    >>> without_traces(np.array([[1e-20, 0.0], [0.0, 4.0]]), np.array([1e6, 1.0]), 2.0).tolist()
    [[0.0, 0.0], [0.0, 4.0]]
    """
    still = np.sqrt(np.diag(scatter) / weight) <= 4.0 * EPS * np.abs(mean)
    return np.where(still[:, None] | still, 0.0, scatter) if still.any() else scatter


def null_vectors(S: Array, factor: SpdFactor) -> Array:
    """Return a basis of the combinations of columns that do not vary, M × number of columns set aside.

    A column set aside is ``x_j = Σ_i c_i x_i + const`` over those kept, hence ``e_j − Σ_i c_i e_i``.

    >>> from oddsmith.numerics import factor_spd
    >>> S = np.array([[1.0, 2.0], [2.0, 4.0]])
    >>> null_vectors(S, factor_spd(S)).tolist()
    [[-2.0], [1.0]]
    """
    out = factor.aliased
    N = -factor.solve(S[:, out])
    N[out, np.arange(len(out))] = 1.0
    return N


def smallest_norm(solution: Array, N: Array) -> Array:
    """Return the solution without its part in the span of ``N``, which fits as well."""
    result: Array = solution - N @ np.linalg.lstsq(N, solution, rcond=None)[0] if N.size else solution
    return result


def warn_collinear(aliased: list[str], consequence: str, remedy: str, *, stacklevel: int) -> None:
    """Name the columns that depend on earlier ones, and say what was done about it."""
    if not aliased:
        return
    shown = ", ".join(repr(name) for name in aliased[:8]) + (f" and {len(aliased) - 8} more" if aliased[8:] else "")
    what = f"Column {shown} depends" if len(aliased) == 1 else f"Columns {shown} depend"
    warnings.warn(
        f"{what} linearly on earlier columns (or on none, being constant): {consequence}. {remedy}",
        CollinearityWarning,
        stacklevel=stacklevel,
    )
