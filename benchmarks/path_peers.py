"""Paths of the lasso in other libraries: ``fit(data, tol, repeats)`` returns a `Path`, conversions not timed.

Each is given the scales of `benchmarks.sparse_weights.Data`; most of them divide the sum of losses by the number of
rows N, so that their penalty is ``1 / (scale N)``. Gaps that no tolerance closes mean that a penalty is scaled wrongly.
"""

from __future__ import annotations

import gc
import importlib.util
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path as File
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

if TYPE_CHECKING:
    from .sparse_weights import Data

Floats = NDArray[np.float64]
Fit = Callable[["Data", float, int], "Path"]
cpu_seconds: list[float] = []
"""Of the last library timed: on a machine that others use, they say more than the clock."""


@dataclass(frozen=True)
class Path:
    """For each point the weights, (columns, G) sparse, G = 1 for two classes; intercepts (points, G); seconds.

    ``gaps`` are ours, by our own certificate; ``fold`` is the fold left out, where only such paths can be had.
    """

    weights: list[Any]
    intercepts: Floats
    seconds: list[float]
    gaps: Floats | None = None
    fold: int | None = None


def timed(fit: Callable[[], Any], repeats: int) -> tuple[Any, list[float]]:
    """Call so often, and return the last answer and the seconds of all; `cpu_seconds` has those of the processor."""
    answer, seconds = None, []
    cpu_seconds.clear()
    for _ in range(repeats):
        answer = None
        gc.collect()
        start, cpu = time.perf_counter(), time.process_time()
        answer = fit()
        seconds.append(time.perf_counter() - start)
        cpu_seconds.append(time.process_time() - cpu)
    return answer, seconds


def two_classes(coef: Any, intercepts: Any, seconds: list[float]) -> Path:
    """Pack weights (points, columns)."""
    rows = sparse.csr_matrix(coef)
    return Path([rows[i].T.tocsc() for i in range(rows.shape[0])], np.asarray(intercepts).reshape(-1, 1), seconds)


def ours(data: Data, tol: float, repeats: int) -> Path:
    from oddsmith import LaplacePrior, regularization_path

    options: dict[str, Any] = {"scales": data.scales, "prior": LaplacePrior(1.0)}
    if data.fold is not None:
        options["cv"] = [(np.flatnonzero(data.fold != k), np.flatnonzero(data.fold == k)) for k in range(data.folds)]
    found, seconds = timed(lambda: regularization_path(data.X, data.y, **options), repeats)
    W = np.asarray(found.weights)
    W = W[:, :, None] if W.ndim == 2 else W
    return Path([sparse.csc_matrix(w[1:]) for w in W], W[:, 0], seconds, gaps=np.asarray(found.gap))


def glmnet(data: Data, tol: float, repeats: int) -> Path:
    """Its objective is the mean of losses + λ ‖w‖₁."""
    with tempfile.TemporaryDirectory() as name:
        folder, G = File(name), 1 if data.classes == 2 else data.classes
        whole = sparse.issparse(data.X)
        arrays = {"x": data.X.data, "i": data.X.indices, "p": data.X.indptr} if whole else {"x": data.X}
        shape = [*data.X.shape, data.X.nnz if whole else 0, data.classes, data.fold is not None]
        arrays |= {"shape": np.array(shape, dtype=np.int32), "y": data.y.astype(np.int32)}
        arrays |= {"lambda": 1.0 / (data.scales * len(data.y))}
        if data.fold is not None:
            arrays["fold"] = data.fold.astype(np.int32)
        for key, array in arrays.items():
            with open(folder / key, "wb") as file:
                array.T.tofile(file)  # column by column
        script = File(__file__).parent / "glmnet_path.R"
        command = ["Rscript", "--vanilla", str(script), name, repr(tol), str(repeats)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(" ".join(done.stderr.split())[-300:])
        seconds, cpu, b, x = (np.fromfile(folder / key) for key in ("seconds", "cpu", "b", "W_x"))
        cpu_seconds[:] = cpu.tolist()
        i, p = (np.fromfile(folder / key, dtype=np.int32) for key in ("W_i", "W_p"))
    points, columns = len(data.scales), data.X.shape[1]
    W = sparse.csc_matrix((x, i, p), shape=(columns, G * points))
    weights = [W[:, np.arange(G) * points + k] for k in range(points)]
    return Path(weights, b.reshape(points, G), seconds.tolist())


def adelie(threads: int, data: Data, tol: float, repeats: int) -> Path:
    """Its objective is that of glmnet; classes beyond two are a group for each column, so they are left out here."""
    import adelie as ad

    X = data.X
    if sparse.issparse(X):
        X = ad.matrix.sparse(X.astype(np.float64), method="naive", n_threads=threads)
    glm = ad.glm.binomial(data.y.astype(np.float64), dtype=np.float64)
    options: dict[str, Any] = {"lmda_path": 1.0 / (data.scales * len(data.y)), "early_exit": False, "adev_tol": 1.0}
    options |= {"tol": tol, "irls_tol": tol, "n_threads": threads, "progress_bar": False}
    state, seconds = timed(lambda: ad.grpnet(X, glm, **options), repeats)
    return two_classes(state.betas, state.intercepts, seconds)


def pybiglasso(backend: str, data: Data, tol: float, repeats: int) -> Path:
    """Standardises all columns, which those of the dense cases are already."""
    from pybiglasso import biglasso

    options: dict[str, Any] = {"lambdas": 1.0 / (data.scales * len(data.y)), "eps": tol, "max_iter": 1_000_000}
    options |= {"stop_on_saturation": False, "backend": backend}
    path, seconds = timed(lambda: biglasso(data.X, data.y.astype(np.float64), **options), repeats)
    return two_classes(path.coef.T, path.intercept, seconds)


def skglm(data: Data, tol: float, repeats: int) -> Path:
    from skglm import SparseLogisticRegression

    def fit() -> tuple[list[Any], list[float]]:
        model = SparseLogisticRegression(tol=tol, max_iter=1_000, max_epochs=50_000, warm_start=True)
        coef, intercepts = [], []
        for scale in data.scales:
            model.set_params(alpha=1.0 / (scale * len(data.y))).fit(data.X, data.y)
            coef.append(sparse.csr_matrix(model.coef_.reshape(1, -1)))
            intercepts.append(float(np.ravel(model.intercept_)[0]))
        return coef, intercepts

    (coef, intercepts), seconds = timed(fit, repeats)
    return two_classes(sparse.vstack(coef), intercepts, seconds)


def glum(data: Data, tol: float, repeats: int) -> Path:
    from glum import GeneralizedLinearRegressor

    options: dict[str, Any] = {"family": "binomial", "l1_ratio": 1.0, "alpha_search": True, "gradient_tol": tol}
    options |= {"alpha": list(1.0 / (data.scales * len(data.y))), "max_iter": 10_000}
    model, seconds = timed(lambda: GeneralizedLinearRegressor(**options).fit(data.X, data.y), repeats)
    return two_classes(model.coef_path_, model.intercept_path_, seconds)


def saga(data: Data, tol: float, repeats: int) -> Path:
    """Its objective is C Σ loss + ‖w‖₁, so C = scale."""
    from sklearn.linear_model import LogisticRegression

    X = data.X.tocsr() if sparse.issparse(data.X) else np.ascontiguousarray(data.X)
    options: dict[str, Any] = {"l1_ratio": 1.0, "solver": "saga", "tol": tol, "max_iter": 1_000_000}

    def fit() -> tuple[list[Any], list[Any]]:
        model = LogisticRegression(warm_start=True, random_state=0, **options)
        coef, intercepts = [], []
        for scale in data.scales:
            model.set_params(C=scale).fit(X, data.y)
            coef.append(sparse.csc_matrix(model.coef_.T))
            intercepts.append(model.intercept_.copy())
        return coef, intercepts

    (coef, intercepts), seconds = timed(fit, repeats)
    return Path(coef, np.array(intercepts), seconds)


def saga_cv(data: Data, tol: float, repeats: int) -> Path:
    """LogisticRegressionCV keeps the paths of its folds, and not that of all rows."""
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.model_selection import PredefinedSplit

    X = np.ascontiguousarray(data.X)
    options: dict[str, Any] = {"Cs": data.scales, "l1_ratios": [1.0], "solver": "saga", "tol": tol, "random_state": 0}
    options |= {"cv": PredefinedSplit(data.fold), "max_iter": 1_000_000, "scoring": "neg_log_loss", "n_jobs": 2}
    options |= {"use_legacy_attributes": True}
    model, seconds = timed(lambda: LogisticRegressionCV(**options).fit(X, data.y), repeats)
    paths = np.asarray(next(iter(model.coefs_paths_.values())))  # folds × scales (× ratios) × (columns + 1)
    path = paths[0].reshape(len(data.scales), -1)
    found = two_classes(path[:, :-1], path[:, -1], seconds)
    return Path(found.weights, found.intercepts, seconds, fold=0)


@dataclass(frozen=True)
class Peer:
    """A library's way to fit a path, the loosest tolerance to try, and the cases it can do."""

    fit: Fit
    first: float
    module: str
    cases: tuple[str, ...]

    @property
    def installed(self) -> bool:
        if self.module == "Rscript":
            return shutil.which("Rscript") is not None
        return importlib.util.find_spec(self.module) is not None


ALL = ("wide", "tall", "sparse", "softmax", "cv")
TWO = ("wide", "tall", "sparse")
PEERS = {
    "oddsmith": Peer(ours, 1e-7, "oddsmith", ALL),
    "glmnet": Peer(glmnet, 1e-5, "Rscript", ALL),
    "adelie": Peer(partial(adelie, 1), 1e-5, "adelie", TWO),
    "adelie, 2 threads": Peer(partial(adelie, 2), 1e-5, "adelie", TWO),
    "pybiglasso numba": Peer(partial(pybiglasso, "numba"), 1e-4, "pybiglasso", ("wide", "tall")),
    "pybiglasso rust": Peer(partial(pybiglasso, "rust"), 1e-4, "pybiglasso", ("wide", "tall")),
    "skglm": Peer(skglm, 1e-3, "skglm", TWO),
    "glum": Peer(glum, 1e-3, "glum", TWO),
    "scikit-learn saga": Peer(saga, 1e-2, "sklearn", ("wide", "tall", "sparse", "softmax")),
    "LogisticRegressionCV saga": Peer(saga_cv, 1e-2, "sklearn", ("cv",)),
}
