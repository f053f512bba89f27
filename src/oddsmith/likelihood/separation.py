"""Separation of the classes, by linear programming.

The likelihood of logistic or softmax regression has a maximum exactly when no direction ``d ≠ 0`` of the
weights orders every row on its own class's side: ``m_nk = (d_t − d_k)ᵀ(1, x_n) ≥ 0`` for all rows n and classes
k ≠ t_n, with some m > 0. If all m > 0 hold for one direction, the separation is complete, else quasi-complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import linalg, optimize, sparse

from oddsmith.design.class_weight import read_weights
from oddsmith.design.fitted_basis import level_columns
from oddsmith.design.fitted_design import through_design
from oddsmith.design.inputs import check_finite, read_labels, read_offset, read_rows
from oddsmith.errors import InvalidInputError
from oddsmith.numerics import EPS, Array, factor_spd
from oddsmith.protocols import Labels
from oddsmith.records import Table

Codes: TypeAlias = npt.NDArray[np.int32]
DesignRows: TypeAlias = npt.NDArray[Any] | sparse.csr_matrix | sparse.csr_array
"""Checked rows as a model sees them, dense or sparse."""
WORKING_ROWS = 2000
TRIES = 2
SMALL_PROGRAM = 20_000
SLACK = 1e-6  # A margin below this is none, in units in which those that the program asked for are one.
REWEIGHTINGS = 4
LARGE_PROGRAM, LARGEST_PROGRAM = 5_000, 15_000
"""Margins (rows × other classes) beyond which classes are tried one by one first, and beyond which only they are."""
MANY_WEIGHTS = 300  # Weights of three or more classes beyond which, after a fit, classes are tried one by one first
# (1,000 rows × 60 columns, seven classes: 24 → 0.3 s; × 50 columns, 13 classes: 46 → 0.3 s).
MANY_COLUMNS = 2500  # Columns beyond which no program is solved after a fit: a factor of theirs alone takes minutes.
LARGEST_DENSE = 1e9  # Numbers that 0/1 columns of levels may become for a program: 8 GB.
RAREST = 50  # Classes that are tried one by one.
ALONE_COLUMNS = 50  # Columns from which those that order rows alone are set aside before a program, which takes long.
POSITIVE = 1e-5  # A margin above this, of directions no longer than 1e5, is more than the program's rounding.


@dataclass(frozen=True)
class Separation(Table):
    """Whether and how the classes are separated.

    Attributes
    ----------
    kind : "none", "quasi" or "complete"
    infinite : dict
        Term → +1 or −1, the direction in which its estimate diverges; for more than two classes (class, term), relative
        to the first class. The intercept is named ``(intercept)``. If several sets of columns separate the classes,
        only a small set is named.
    alone : tuple of str
        Columns that each separate the classes completely by themselves; one of them may contain the answer.
    """

    kind: str
    infinite: dict[Any, int]
    alone: tuple[str, ...] = ()

    @property
    def question(self) -> str:
        """The question about columns that separate the classes by themselves.

        >>> Separation("complete", {"affairs": 1}, ("affairs",)).question
        "'affairs' separates the classes by itself: does it hold the answer?"
        """
        first, last = self.alone[:3], self.alone[3:]
        names = [*map(repr, first), *([f"{len(last)} more"] if last else [])]
        if len(names) < 2:
            return f"{names[0]} separates the classes by itself: does it hold the answer?" if names else ""
        return f"{', '.join(names[:-1])} and {names[-1]} each separate the classes: do they hold the answer?"

    def explains(self, term: Any) -> bool:
        """Whether a term belongs to a column that separates the classes by itself; always true if no column does."""
        name = term[1] if isinstance(term, tuple) else term
        return not self.alone or any(name == one or name.startswith(f"{one}[") for one in self.alone)

    def to_dict(self) -> dict[str, list[Any]]:
        """Return one row per term with an infinite estimate."""
        return {"term": list(self.infinite), "sign": list(self.infinite.values())}

    def __str__(self) -> str:
        if self.kind == "none":
            return "The classes overlap: the maximum likelihood estimate exists."
        how = "completely" if self.kind == "complete" else "quasi-completely"
        terms = ", ".join(f"{term!r} → {'+' if sign > 0 else '−'}∞" for term, sign in self.infinite.items())
        leak = f"{self.question}\n" if self.alone else ""
        return (
            f"{leak}The classes are {how} separated; diverging weights: {terms}.\nThe likelihood has no maximum. What "
            "to do: prior=JeffreysPrior() for finite estimates with valid intervals; a GaussianPrior; or leave out "
            "columns that give the class away."
        )


def detect_separation(
    X: Any,
    y: Any = None,
    *,
    sample_weight: object = None,
    offset: object = None,
    fit_intercept: bool = True,
    design: object = None,
) -> Separation:
    """Return whether the maximum likelihood estimate exists, and which weights are infinite if not.

    Rows of weight 0 do not count; other sample weights and offsets do not matter, because they are finite. Tables are
    read as models read them (``design``). Cost: a few linear programs over a working set, which grows by the rows that
    the last solution got wrong, so that large data needs few rows in the program.

    >>> detect_separation([[1.0], [2.0], [3.0], [4.0]], [0, 0, 1, 1]).kind
    'complete'
    >>> detect_separation([[1.0], [2.0], [2.0], [4.0]], [0, 0, 1, 1]).infinite
    {'(intercept)': -1, 'x0': 1}
    >>> detect_separation([[1.0], [3.0], [2.0], [4.0]], [0, 0, 1, 1]).kind
    'none'
    """
    from sklearn.base import BaseEstimator

    probe = BaseEstimator()
    probe.fit_intercept = fit_intercept
    X, y, sample_weight, offset = through_design(probe, design, X, y, sample_weight, offset, reset=True)
    rows = read_rows(probe, X, reset=True)
    learned = vars(probe)
    names = learned["design_"].get_feature_names_out() if "design_" in learned else learned.get("feature_names_in_")
    check_finite(rows, names)
    if not isinstance(rows, np.ndarray) and rows.shape[0] * float(rows.shape[1]) > LARGEST_DENSE:
        raise InvalidInputError(
            f"A linear program over {rows.shape[0]:,} rows × {rows.shape[1]:,} columns does not fit into memory. Leave "
            "out columns with many levels, or fit LogisticRegression() to the table: it counts levels of one class."
        )
    classes, t = read_labels(y, rows.shape[0])
    s = read_weights(sample_weight, rows.shape[0])
    read_offset(offset, rows.shape[0], len(classes))
    if s is not None:
        rows, t = rows[s > 0], t[s > 0]
    terms = [f"x{j}" for j in range(rows.shape[1])] if names is None else [str(name) for name in names]
    return separation(rows, t, classes, terms, fit_intercept=fit_intercept, levels=level_columns(probe))


def separation(
    rows: DesignRows,
    t: Codes,
    classes: Labels,
    terms: list[str],
    *,
    fit_intercept: bool,
    weights: tuple[Array, Array] | None = None,
    levels: Mapping[str, Sequence[int]] | None = None,
) -> Separation:
    """Return the separation of checked rows; see `detect_separation` and `separating_direction`."""
    found = separating_direction(rows, t, len(classes), fit_intercept=fit_intercept, weights=weights)
    verdict = verdict_of(found, classes, terms)
    return with_alone(verdict, rows, t, classes, terms, levels) if verdict.kind == "complete" else verdict


def with_alone(
    verdict: Separation,
    rows: DesignRows,
    t: Codes,
    classes: Labels,
    terms: list[str],
    levels: Mapping[str, Sequence[int]] | None = None,
) -> Separation:
    """Return a separation with the columns that separate the classes by themselves, their terms first."""
    found = Separation(verdict.kind, verdict.infinite, separating_columns(rows, t, len(classes), terms, levels))
    ordered = sorted(verdict.infinite, key=lambda term: not found.explains(term))
    return replace(found, infinite={term: verdict.infinite[term] for term in ordered})


def verdict_of(
    found: tuple[Array, bool] | None, classes: Labels, terms: Sequence[str] | Mapping[int, str]
) -> Separation:
    """Return the separation for a separating direction (K−1 × (1 + columns), user units), complete or not, or None.

    ``terms`` has the names of the columns, or of those that separate.

    >>> verdict_of((np.array([[0.0, -2.0]]), True), np.array(["no", "yes"]), ["x"]).infinite
    {'x': -1}
    """
    if found is None:
        return Separation("none", {})
    direction, complete = found
    infinite: dict[Any, int] = {}
    for label, d in zip(classes.tolist()[1:], direction, strict=True):
        for j in np.flatnonzero(d).tolist():
            term = terms[j - 1] if j else "(intercept)"
            infinite[term if len(classes) == 2 else (label, term)] = 1 if d[j] > 0 else -1
    return Separation("complete" if complete else "quasi", infinite)


def separating_direction(
    rows: DesignRows, t: Codes, K: int, *, fit_intercept: bool, weights: tuple[Array, Array] | None = None
) -> tuple[Array, bool] | None:
    """Return a direction that orders all rows, K−1 × (1 + columns), and whether completely; None if there is none.

    ``weights`` from a fit (coefficients and intercepts against class 0) may decide at once: if they order every row,
    the separation is complete, and large problems need no linear program. After a fit, the programs of very many
    classes or columns are not solved: they take minutes.
    """
    if weights is not None and rows.shape[0] * rows.shape[1] * (K - 1) > SMALL_PROGRAM:
        if margins(rows @ weights[0].T + weights[1], t).min() > 0.0:
            return np.column_stack([weights[1], weights[0]]), True
        if rows.shape[1] > MANY_COLUMNS:
            return None
    frame = _scale_columns(rows, fit_intercept)
    margins_at_first = min(len(t), _step(K)) * (K - 1)
    many = margins_at_first > LARGE_PROGRAM or (weights is not None and (K - 1) * frame.Z.shape[1] > MANY_WEIGHTS)
    found = _rare_class_direction(frame.Z, t, K) if many and K > 2 else None
    if found is None and (weights is None or margins_at_first <= LARGEST_PROGRAM):
        wide = K == 2 and frame.Z.shape[1] > ALONE_COLUMNS
        found = _direction_by_columns(frame.Z, t) if wide else _direction(frame.Z, t, K)
    return None if found is None else (frame.to_user(found[0]), found[1])


def runs_away(Z: Array, t: Codes, K: int, towards: Array, free: npt.NDArray[np.bool_] | None = None) -> bool:
    """Return whether a direction that orders every row increases ``Σ towards · d``: its maximum is then at infinity.

    ``Z`` are rows with the constant first, of columns about as large as one; ``towards`` and directions d are
    K−1 × P, against class 0, and d is zero for columns that are not ``free``.

    >>> Z, t = np.array([[1.0, -1.0], [1.0, 0.0], [1.0, 0.0], [1.0, 1.0]]), np.array([0, 0, 1, 1])
    >>> [runs_away(Z, t, 2, np.array([[0.0, side]])) for side in (1.0, -1.0)]
    [True, False]
    """
    A = _margin_matrix(Z, t, K)
    bound = np.ones(towards.shape) if free is None else np.broadcast_to(free, towards.shape).astype(np.float64)
    size = bound.ravel()
    cost = -towards.ravel() / max(np.abs(towards).max(), np.finfo(float).tiny)
    bounds = np.column_stack([-size, size])
    answer = optimize.linprog(cost, A_ub=-A, b_ub=np.zeros(A.shape[0]), bounds=bounds, method="highs")
    return bool(answer.x is not None and -answer.fun > SLACK)


@dataclass(frozen=True)
class _Frame:
    """Independent columns, the intercept (if any) first, the others of unit spread (and centred beside one)."""

    Z: Array
    center: Array
    scale: Array
    kept: npt.NDArray[np.bool_]

    def to_user(self, direction: Array) -> Array:
        """Return a direction (K−1 × kept) in the user's columns, intercept first; rounding errors are set to 0."""
        small = 1e-6 * np.abs(direction).max()
        user = np.zeros((len(direction), len(self.kept)))
        user[:, self.kept] = np.where(np.abs(direction) > small, direction, 0.0) / self.scale[self.kept]
        moved = user[:, 1:] * self.center[1:]
        intercept = user[:, 0] - moved.sum(axis=1)
        size = np.abs(user[:, 0]) + np.abs(moved).sum(axis=1)
        user[:, 0] = np.where(np.abs(intercept) > 1e-6 * size, intercept, 0.0)
        return user


def _scale_columns(rows: DesignRows, fit_intercept: bool) -> _Frame:
    dense = np.asarray(rows if isinstance(rows, np.ndarray) else rows.toarray(), dtype=np.float64)
    # About the median most rows of a rare level are 0, not a little beside it: sums that are 0 are so to the last bit.
    center = np.concatenate([[0.0], np.median(dense, axis=0) * fit_intercept])
    Z = np.column_stack([np.full(len(dense), float(fit_intercept)), dense - center[1:]])
    scale = np.sqrt((Z**2).mean(axis=0))
    # Rounding leaves a trace of spread in a constant column: that is no spread.
    kept = scale > 4.0 * EPS * np.abs(center)
    Z /= np.where(kept, scale, 1.0)
    kept &= factor_spd(Z.T @ Z).kept
    return _Frame(Z[:, kept], center, scale, kept)


def _direction_by_columns(Z: Array, t: Codes) -> tuple[Array, bool] | None:
    """As `_direction` for two classes, from columns that order rows alone, such as levels of one class.

    1. A column separates the rows in which it is not 0 if its sign is that of their class. 2. Such columns and rows are
    set aside, and what remains is searched in the same way. 3. A multiple of the first direction outweighs the second.
    """
    towards = np.where(t == 1, 1.0, -1.0)
    signed = Z * towards[:, None]
    alone = np.where(signed.min(axis=0) >= 0.0, 1.0, 0.0) - (signed.max(axis=0) <= 0.0)  # 1
    margin = signed @ alone
    rest, others = margin <= SLACK, alone == 0.0
    if rest.all():
        return _direction(Z, t, 2)
    if not rest.any():
        return alone[None], True
    found = _direction_by_columns(Z[np.ix_(rest, others)], t[rest])  # 2
    if found is None:
        return alone[None], False
    D = np.zeros(Z.shape[1])
    D[others] = found[0][0]
    return (D + alone * (1.0 + np.abs(signed @ D).max()) / margin[~rest].min())[None], found[1]  # 3


def _direction(Z: Array, t: Codes, K: int) -> tuple[Array, bool] | None:
    """Return a separating direction (K−1 × P) and whether it is complete, or None.

    1. Solve the program on a working set of rows. 2. None there, at full rank: none at all.
    3. Check the direction on all rows and add those on the wrong side; repeat.
    4. A row of the working set whose margin stays 0 proves that no direction separates completely. Rows outside whose
       margin is 0 may still be separable: some are added, as long as that separates any of them. If the program then
       fails, which its tolerance allows, the direction that was checked before stands.
    """
    rng = np.random.default_rng(0)
    n = len(Z)
    step = _step(K)
    working = np.zeros(n, dtype=bool)
    working[rng.permutation(n)[:step]] = True
    tried, checked = 0, None
    while True:
        D = _linear_program(Z[working], t[working], K)  # 1
        if D is None and checked is not None:
            return checked, False
        if D is None:
            unseen = _null_space(Z[working])  # 2
            if working.all() or not unseen.shape[1]:
                return None
            # The rows that move in the directions which no row of the working set moves in.
            reach = np.where(working, 0.0, np.linalg.norm(Z @ unseen, axis=1))
            working[np.argsort(-reach)[:step]] = True
            continue
        margin = margins(Z @ D.T, t)
        wrong = np.flatnonzero(~working & (margin < -SLACK))  # 3
        if len(wrong):
            working[wrong[np.argsort(margin[wrong])[:step]]] = True
            continue
        if margin.min() < -SLACK:
            return None  # only the program's own tolerance can have let a wrong side pass
        tight = margin <= SLACK  # 4
        outside = np.flatnonzero(~working & tight)
        if not len(outside) or (tried >= TRIES and (tight & working).any()):
            return D, not tight.any()
        tried, checked = tried + 1, D
        working[rng.permutation(outside)[:step]] = True


def _null_space(Z: Array) -> Array:
    """Return a basis of the directions that move no row; `scipy.linalg.null_space` alone takes n × n numbers."""
    return np.asarray(linalg.null_space(np.linalg.qr(Z, mode="r"), rcond=EPS * max(Z.shape)))


def _step(K: int) -> int:
    """Return the rows that a working set begins with, and grows by."""
    return max(200, WORKING_ROWS // (K - 1))


def _rare_class_direction(Z: Array, t: Codes, K: int) -> tuple[Array, bool] | None:
    """Return a direction that orders one of the rarest classes against all others, and whether it orders all rows."""
    for k in np.argsort(np.bincount(t, minlength=K), kind="stable")[:RAREST]:
        found = _direction(Z, (t == k).astype(np.int32), 2)
        if found is not None:
            D = np.zeros((K - 1, Z.shape[1]))
            D[slice(None) if k == 0 else k - 1] = (-1.0 if k == 0 else 1.0) * found[0][0]
            return D, bool(margins(Z @ D.T, t).min() > SLACK)
    return None


def margins(A: Array, t: Codes) -> Array:
    """Return the margin of each row: the activation of its class minus the largest other one (class 0: zero)."""
    A = np.column_stack([np.zeros(len(A)), A])
    own = A[np.arange(len(A)), t]
    A[np.arange(len(A)), t] = -np.inf
    return np.asarray(own - A.max(axis=1))


def _linear_program(Z: Array, t: Codes, K: int) -> Array | None:
    """Return a direction that separates as many rows as possible with few columns; None if it separates none.

    1. Maximise Σ v over directions whose margins are m ≥ v, 0 ≤ v ≤ 1: every margin that can be positive is.
    2. Of the directions with m ≥ 1 where v > 0, and m ≥ 0 elsewhere, take one of least Σ c|d|, and again with the
       price c of a column raised where its |d| is small, so that columns which are not needed drop out.
    """
    C, P = K - 1, Z.shape[1]
    A = _margin_matrix(Z, t, K)
    m = A.shape[0]
    cost = np.concatenate([np.zeros(C * P), -np.ones(m)])  # 1
    bounds = np.concatenate([np.tile([-1e5, 1e5], (C * P, 1)), np.tile([0.0, 1.0], (m, 1))])
    matrix = sparse.hstack([-A, sparse.eye_array(m)], format="csr")
    first = optimize.linprog(cost, A_ub=matrix, b_ub=np.zeros(m), bounds=bounds, method="highs")
    if first.x is None or first.x[C * P :].max() < POSITIVE:
        return None
    reached = first.x[C * P :]
    found: Array = first.x[: C * P] / reached.max()
    wanted, both_signs = np.where(reached >= POSITIVE, 1.0, 0.0), sparse.hstack([-A, A], format="csr")
    price = np.tile(np.where((Z == Z[0]).all(axis=0), 1e-3, 1.0), C)  # 2, the intercept as good as free
    for _ in range(REWEIGHTINGS):
        size = np.abs(found)
        worth = price / (size / size.max() + 1e-3)
        answer = optimize.linprog(np.tile(worth, 2), A_ub=both_signs, b_ub=-wanted, method="highs")
        if answer.x is None:
            break
        found = answer.x[: C * P] - answer.x[C * P :]
    return found.reshape(C, P)


def _margin_matrix(Z: Array, t: Codes, K: int) -> sparse.csr_array:
    """Return the matrix that maps a direction to the margin of every row against every other class."""
    (n, P), C = Z.shape, K - 1
    row = np.repeat(np.arange(n), C)
    own = t[row]
    other = np.tile(np.arange(C), n)
    other += other >= own
    order = np.lexsort((row, other, own))
    row, own, other = row[order], own[order], other[order]
    entry = np.arange(len(row))[:, None]
    parts = []
    for sign, k in ((1.0, own), (-1.0, other)):
        inside = k > 0  # class 0 has no weights
        places = np.broadcast_to(entry[inside], (int(inside.sum()), P))
        columns = (k[inside, None] - 1) * P + np.arange(P)
        parts.append((sign * Z[row[inside]].ravel(), places.ravel(), columns.ravel()))
    values, places, columns = (np.concatenate(some) for some in zip(*parts, strict=True))
    stored = values != 0.0  # of levels few are, and the programs take as long as there are numbers
    entries = values[stored], (places[stored], columns[stored])
    return sparse.coo_array(entries, shape=(len(row), C * P)).tocsr()


ROWS_OF_LEVEL = 5  # Rows for each level below which levels of one class each are no news: an id has such, too.


def separating_columns(
    rows: DesignRows,
    t: npt.NDArray[np.int32],
    K: int,
    terms: Sequence[str],
    levels: Mapping[str, Sequence[int]] | None = None,
) -> tuple[str, ...]:
    """Return the columns that each determine every row's class.

    A numeric column does if its ranges in the classes do not overlap; a category (``levels`` maps its name to its 0/1
    columns) if each level occurs in one class only. Cost: one pass.

    >>> rows, t = np.array([[1.0, 5.0], [2.0, 4.0], [7.0, 4.0], [8.0, 5.0]]), np.array([0, 0, 1, 1], dtype=np.int32)
    >>> separating_columns(rows, t, 2, ["affairs", "age"])
    ('affairs',)
    """
    low, high = _ranges(rows, t, K)
    order = np.argsort(low, axis=0)
    low, high = np.take_along_axis(low, order, 0), np.take_along_axis(high, order, 0)
    apart = (high[:-1] < low[1:]).all(axis=0)
    found = [terms[j] for j in np.flatnonzero(apart).tolist()]
    for name, columns in (levels or {}).items():
        if ROWS_OF_LEVEL * (len(columns) + 1) <= len(t) and _is_pure(rows[:, list(columns)], t, K):
            found.append(name)
    return tuple(found)


def _ranges(rows: DesignRows, t: npt.NDArray[np.int32], K: int) -> tuple[Array, Array]:
    """Return the least and the largest value of each column in each class, K × M."""
    parts = [rows[t == k] for k in range(K)]
    least, most = ([_extreme(part, which) for part in parts] for which in ("min", "max"))
    return np.array(least), np.array(most)


def _extreme(part: DesignRows, which: str) -> Array:
    found = getattr(part, which)(axis=0)
    return np.asarray(found.toarray() if sparse.issparse(found) else found, dtype=np.float64).ravel()


def _is_pure(indicators: DesignRows, t: npt.NDArray[np.int32], K: int) -> bool:
    """Whether each level, the reference among them, occurs in one class only."""
    counts = np.array([np.asarray(indicators[t == k].sum(axis=0)).ravel() for k in range(K)])
    reference = np.bincount(t, minlength=K) - counts.sum(axis=1)
    together = np.column_stack([counts, reference])
    return bool(((together > 0).sum(axis=0) <= 1).all())
