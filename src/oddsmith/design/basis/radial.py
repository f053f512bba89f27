"""Radial basis functions, and the Gaussian kernel at training rows or landmarks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral, Real

import numpy as np
import numpy.typing as npt
from scipy import linalg
from scipy.spatial.distance import cdist, pdist

from oddsmith.design.basis.base import BASES, LIMIT, AllRows, Basis, Names, dense_tiles
from oddsmith.design.inputs import ArrayOrCSR, dense
from oddsmith.engines import AnySource, Engine
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError, as_input_errors
from oddsmith.numerics import EPS, Array
from oddsmith.registry import Registry
from oddsmith.statistics import Sample, SampleParams

CENTERS = 25  # Default number of centres.
MEDIAN_ROWS = 1000  # Rows for the median distance.
KMEANS_ROWS = 1 << 14  # Maximum rows for k-means.
FAR = 1e4  # Squared distance from the centre, in widths, up to which distances by products keep 11 digits.

METHODS: Registry[Callable[[AnySource, Engine, int, int], Array]] = Registry("method")
"""Methods for placing centres: (source, engine, count, seed) → centres."""


@METHODS.register("sample")
def sample_rows(source: AnySource, engine: Engine, count: int, seed: int) -> Array:
    """Return a uniform sample of distinct rows, by one fold."""
    return engine.fold(Sample, source, SampleParams(count, seed)).found[0]


@METHODS.register("kmeans")
def kmeans(source: AnySource, engine: Engine, count: int, seed: int) -> Array:
    """Return k-means centres of a uniform sample of distinct rows, weighted by their frequency."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    rows, weight = engine.fold(Sample, source, SampleParams(max(KMEANS_ROWS, 8 * count), seed)).found
    if count >= len(rows):
        return rows
    with np.errstate(over="ignore", invalid="ignore"):
        middle = rows.mean(axis=0)
        if not np.isfinite(((rows - middle) ** 2).sum()):
            raise InvalidInputError(
                "The squared distances between rows exceed the range of floating point, so no centres can be found "
                "among them. Divide the columns by a power of ten, or put Standardize() first."
            )
    # Threads would add up the clusters in an order that differs from run to run. A warning that rows lie so close
    # together that some centres are equal would help nobody.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = KMeans(count, n_init=1, random_state=seed % 2**32).fit(rows - middle, sample_weight=weight)
    return np.asarray(fitted.cluster_centers_ + middle, dtype=np.float64)


class _Bumps(Basis):
    """The base of both bases: centres, a width, and ``k(x, c) = exp(−‖x − c‖² / (2 width²))``."""

    centers_: Array
    width_: float
    width: float | str
    seed: int | None
    limit: int
    _argument = "centers"
    """The argument that gives the centres, or their number."""

    @property
    def _given(self) -> int | npt.ArrayLike | None:
        return getattr(self, self._argument)  # type: ignore[no-any-return]

    def check_parameters(self) -> None:
        if self.seed is not None:
            self._check_whole("seed", 0)
        self._check_whole("limit", 1)
        if isinstance(self._given, Integral | bool):
            self._check_whole(self._argument, 1)
        name = type(self).__name__
        if isinstance(self.width, str):
            if self.width != "median":
                raise UnknownNameError(f"width of {name}", self.width, ["median"])
        elif isinstance(self.width, bool) or not isinstance(self.width, Real):
            raise InvalidTypeError(f"width of {name} must be a positive number or 'median', found {self.width!r}.")
        elif not 0.0 < float(self.width) < np.inf:
            raise InvalidInputError(
                f"width of {name} must be a positive number, found {self.width!r}: it is the distance at which a bump "
                "falls to 0.61. Use width='median' for the median distance between rows."
            )

    def _place(
        self, choose: Callable[[AnySource, Engine, int, int], Array], source: AnySource, engine: Engine
    ) -> Array:
        """Return the given centres, checked, or the chosen number of them."""
        name, kind, given = self._argument, type(self).__name__, self._given
        if given is None or isinstance(given, Integral):
            count = CENTERS if given is None else int(given)
            self._check_limit(count, f"one for each {'centre' if name == 'centers' else 'landmark'}")
            centers = choose(source, engine, count, int(self.seed or 0))
            if given is not None and len(centers) < count:
                raise InvalidInputError(
                    f"{name}={count} of {kind} is more than there are different rows: {len(centers)} "
                    f"(n_samples={source.n_rows}). Use {name}={len(centers)} at most."
                )
            return centers
        with as_input_errors():
            rows = np.array(given, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != source.shape.M or not len(rows):
            raise InvalidInputError(
                f"{name} of {kind} must be a whole number, or an array with a row for each and {source.shape.M} "
                f"columns; found {given if rows.ndim == 0 else f'the shape {rows.shape}'}."
            )
        if not np.isfinite(rows).all():
            raise InvalidInputError(f"{name} of {kind} contains NaN or infinity.")
        return rows

    def _set(self, centers: Array, source: AnySource, engine: Engine) -> None:
        self._check_limit(len(centers), "one for each centre")
        seed, self.centers_ = int(self.seed or 0), centers
        self.width_ = median_distance(source, engine, seed) if self.width == "median" else float(self.width)

    def expand(self, rows: ArrayOrCSR) -> Array:
        return bumps(rows, self.centers_, self.width_)


@BASES.register("radial")
class RadialBasis(_Bumps):
    """Gaussian radial basis functions: ``φ_j(x) = exp(−‖x − c_j‖² / (2 width²))``, one for each of M centres.

    Parameters
    ----------
    centers : None, int or array, M × D
        The centres, or how many to choose; None is 25, or the number of distinct rows if that is smaller.
    width : "median" or positive number
        The distance at which the function falls to exp(−½) = 0.61. ``"median"`` is the median distance between two
        distinct rows (of a uniform sample of 1,000).
    method : "kmeans" or "sample"
        How centres are chosen: by k-means (on a uniform sample of at most 16,384 distinct rows, weighted by frequency),
        or as a uniform sample of distinct rows.
    seed : int or None
        Random seed of the sample and of k-means; None takes the model's seed.
    limit : int
        Maximum number of columns; more is an error that states the number.

    Attributes
    ----------
    centers_ : array, M × D
        The centres.
    width_ : float
        The width.

    Notes
    -----
    Distances depend on the units of the columns: put `Standardize` first if these differ. Cost: one or two passes to
    learn; one matrix product and one exponential per output to apply.

    References
    ----------
    C. M. Bishop, Pattern Recognition and Machine Learning, 2006, section 6.3. D. Garreau, W. Jitkrittum,
    M. Kanagawa, Large sample analysis of the median heuristic, 2017.

    >>> basis = RadialBasis([[0.0], [2.0]], width=1.0).fit([[0.0], [1.0]])
    >>> basis.transform([[0.0]]).round(4).tolist(), basis.get_feature_names_out().tolist()
    ([[1.0, 0.1353]], ['radial0', 'radial1'])
    """

    def __init__(
        self,
        centers: int | npt.ArrayLike | None = None,
        width: float | str = "median",
        *,
        method: str = "kmeans",
        seed: int | None = 0,
        limit: int = LIMIT,
    ) -> None:
        self.centers, self.width, self.method, self.seed, self.limit = centers, width, method, seed, limit

    def check_parameters(self) -> None:
        super().check_parameters()
        METHODS[self.method]

    def learn(self, source: AnySource, engine: Engine, names: Names) -> None:
        """Choose the centres by one fold of `Sample`, and the width by another."""
        self._set(self._place(METHODS[self.method], source, engine), source, engine)

    def column_names(self, names: Names) -> list[str]:
        return [f"radial{j}" for j in range(len(self.centers_))]


@BASES.register("kernel")
class GaussianKernel(_Bumps):
    """The Gaussian kernel ``k(x, c) = exp(−‖x − c‖² / (2 width²))`` at every training row, or at landmarks.

    With ``landmarks=None`` the outputs are ``φ_n(x) = k(x, x_n)``, one for each training row, and a model that is
    linear in them is kernel logistic regression: its prior ``½ alpha wᵀw`` is on the weights of the kernels. The prior
    in function space, ``½ alpha wᵀ K w`` with ``K = gram_``, is the squared norm of the reproducing kernel Hilbert
    space.

    With landmarks (Nyström's method) the outputs are ``k(x, c_j)`` themselves unless ``whiten`` is true: then they are
    ``k(x, C) R`` with ``R Rᵀ = K⁻¹``, so that ``φ(x)ᵀφ(x′)`` approximates ``k(x, x′)`` (exactly at the landmarks) and
    ``wᵀw`` is the prior in function space. Directions in which K is numerically singular are left out, so there may be
    fewer outputs than landmarks.

    Parameters
    ----------
    width : "median" or positive number
        The distance at which the kernel falls to exp(−½) = 0.61. ``"median"`` is the median distance between two
        distinct rows (of a uniform sample of 1,000).
    landmarks : None, int or array, M × D
        None is every training row, in order. A number draws a uniform sample of that many distinct rows.
    whiten : bool
        Whether to multiply the outputs by R. A model with ``GaussianPrior(space="function")`` does so automatically.
    seed : int or None
        Random seed of the sample; None takes the model's seed.
    limit : int
        Maximum number of columns; more is an error that states the number.

    Attributes
    ----------
    centers_ : array, M × D
        Training rows or landmarks.
    width_ : float
        The width.
    gram_ : array, M × M
        The kernel matrix of the centres, ``K_ij = k(c_i, c_j)``; the unit matrix of size r if ``whiten``.
    whitening_ : array, M × r, or None
        R, if ``whiten``.

    Notes
    -----
    Distances depend on the units of the columns: put `Standardize` first if these differ. Cost: one pass to learn, two
    for ``"median"``, and O(M³) for ``whiten``; one matrix product and one exponential per output to apply.

    References
    ----------
    C. Williams, M. Seeger, Using the Nyström method to speed up kernel machines, 2001.

    >>> basis = GaussianKernel(width=1.0).fit([[0.0], [2.0]])
    >>> basis.transform([[0.0], [1.0]]).round(4).tolist(), basis.get_feature_names_out().tolist()
    ([[1.0, 0.1353], [0.6065, 0.6065]], ['kernel0', 'kernel1'])
    """

    _argument = "landmarks"

    def __init__(
        self,
        width: float | str = "median",
        landmarks: int | npt.ArrayLike | None = None,
        *,
        whiten: bool = False,
        seed: int | None = 0,
        limit: int = LIMIT,
    ) -> None:
        self.width, self.landmarks, self.whiten = width, landmarks, whiten
        self.seed, self.limit = seed, limit

    def check_parameters(self) -> None:
        super().check_parameters()
        self._check_flag("whiten")

    def learn(self, source: AnySource, engine: Engine, names: Names) -> None:
        """Take the training rows, or landmarks by one fold of `Sample`."""
        if self.landmarks is None:
            self._check_limit(source.n_rows, "one for each training row; landmarks=300, say, takes a sample of them")
            centers = dense(engine.fold(AllRows, source, None).joined(source.shape.M))
        else:
            centers = self._place(sample_rows, source, engine)
        self._set(centers, source, engine)
        K = bumps(centers, centers, self.width_)
        self.whitening_ = inverse_root(K) if self.whiten else None
        self.gram_ = 0.5 * (K + K.T) if self.whitening_ is None else np.eye(self.whitening_.shape[1])

    def expand(self, rows: ArrayOrCSR) -> Array:
        Phi = super().expand(rows)
        return Phi if self.whitening_ is None else Phi @ self.whitening_

    def column_names(self, names: Names) -> list[str]:
        return [f"kernel{j}" for j in range(len(self.gram_))]


def median_distance(source: AnySource, engine: Engine, seed: int) -> float:
    """Return the median distance between two distinct rows of a uniform sample."""
    rows = engine.fold(Sample, source, SampleParams(MEDIAN_ROWS, seed)).found[0]
    if len(rows) < 2:
        raise InvalidInputError(
            f"width='median' needs two distinct rows, but all {source.n_rows} rows are the same: found 1 sample only "
            f"(n_samples={source.n_rows}). Give a number as width."
        )
    width = float(np.median(pdist(rows)))
    if not 0.0 < width < np.inf:
        raise InvalidInputError(f"The median distance between rows is {width}: rescale the columns, or give a width.")
    return width


def bumps(rows: ArrayOrCSR, centers: Array, width: float) -> Array:
    """Return ``exp(−‖x − c‖² / (2 width²))`` for every row and centre, N × M.

    In units of ``√2 width`` about the middle of the centres, ``−‖z − u‖² = 2 zᵀu − ‖z‖² − ‖u‖²`` is one product of the
    rows ``(2z, −‖z‖², −1)`` and ``(u, 1, ‖u‖²)``. Rows so far away that it would cancel use differences instead.
    """
    middle, unit = centers.mean(axis=0), np.sqrt(2.0) * width
    Phi = np.empty((rows.shape[0], len(centers)))
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        U = (centers - middle) / unit
        lengths = np.einsum("md,md->m", U, U)
        right = np.column_stack([U, np.ones(len(U)), lengths]).T.copy()
        for part, X in dense_tiles(rows, len(centers)):
            Z = (X - middle) / unit
            squares = np.einsum("nd,nd->n", Z, Z)
            out = Phi[part]
            np.matmul(np.column_stack([2.0 * Z, -squares, np.full(len(Z), -1.0)]), right, out=out)
            near = squares + lengths.max() <= FAR
            if not near.all():
                out[~near] = -((cdist(X[~near], centers) / unit) ** 2)
            # Rounding can leave a trace above zero where row and centre are equal.
            np.minimum(out, 0.0, out=out)
            np.exp(out, out=out)
    return Phi


def inverse_root(K: Array) -> Array:
    """Return R (M × r), a rotated ``K^{−½}``: ``R Rᵀ = K⁻¹`` on the r directions in which K is not singular.

    >>> inverse_root(np.diag([4.0, 1.0, 0.0])).tolist()
    [[0.0, 0.5], [1.0, 0.0], [0.0, 0.0]]
    """
    values, vectors = linalg.eigh(0.5 * (K + K.T))
    kept = values > len(K) * EPS * values[-1]
    root: Array = vectors[:, kept] / np.sqrt(values[kept])
    return root
