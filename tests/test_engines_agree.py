"""However the rows are cut into blocks, and on however many threads: the same model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import get_tags
from tests.policies import set_policy

from oddsmith import LogisticRegression, PerceptronClassifier
from oddsmith.engines import ENGINES, MemoryEngine, MemorySource
from oddsmith.errors import NeedsMemoryError
from oddsmith.models.recalibrated import RecalibratedClassifier
from oddsmith.solvers import SGD
from oddsmith.statistic import STATISTICS, Shape
from oddsmith.testing import all_models, check_engine, dask_source, files_source, lay_out_files

N = 1200
BLOCKS = [1, 7, 1000, N]
SIZES = {1: 40, 7: 105, 1000: N, N: N}  # rows in blocks of each size: small blocks of many rows take long, and add none

# How an engine's source is made from arrays. A new engine has a line here, or its tests fail.
SOURCES: dict[str, Callable[..., Any]] = {
    "memory": MemorySource,
    "files": files_source,
    "dask": dask_source,
}
ELSEWHERE = {"spark"}  # whose tests share a session: tests/engines


def rows(K: int) -> tuple[np.ndarray, np.ndarray]:
    """Return columns of different units, and classes that overlap."""
    rng = np.random.default_rng(K)
    t = rng.integers(0, K, N)
    X = rng.normal(size=(N, 4)) + 0.8 * np.eye(4)[t] + 0.3 * rng.normal(size=(N, 1))
    return X * [1.0, 100.0, 0.01, 3.0] + [0.0, 1e3, 0.0, -5.0], t


def cut(monkeypatch: pytest.MonkeyPatch, block_rows: int) -> None:
    """Let every source that a model makes have blocks of so many rows."""

    def slices(self: MemorySource) -> list[tuple[int, int]]:
        starts = range(0, self.n_rows, block_rows)
        return [(start, min(start + block_rows, self.n_rows)) for start in starts]

    monkeypatch.setattr(MemorySource, "slices", slices)


def outcome(model: Any, X: Any) -> dict[str, np.ndarray]:
    """Return what a fitted model holds and says, as arrays."""
    names = ("coef_", "intercept_", "log_likelihood_", "means_", "covariance_", "priors_")
    found = {name: np.asarray(getattr(model, name)) for name in names if hasattr(model, name)}
    return found | {"decision_function": model.decision_function(X)}


def assert_close(found: dict[str, np.ndarray], expected: dict[str, np.ndarray], rtol: float) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=rtol, atol=rtol * np.abs(value).max(), err_msg=name)


def assert_same_bits(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert np.array_equal(found[name], value), name


def models() -> list[Any]:
    """Return every model; one that goes through the rows again and again until none is wrong does so ten times."""
    many = [model for model in all_models() if "max_epochs" not in model.get_params()]
    return many + [model.set_params(max_epochs=10) for model in all_models() if "max_epochs" in model.get_params()]


MODELS_AND_CLASSES = [
    pytest.param(model, K, id=f"{type(model).__name__}-{K}")
    for model in models()
    for K in ([2, 3] if get_tags(model).classifier_tags.multi_class else [2])
]


def on_threads(model: Any, threads: int) -> Any:
    """Return a copy that uses so many threads, its inner models too."""
    names = [name for name in model.get_params() if name.split("__")[-1] == "threads"]
    return clone(model).set_params(**dict.fromkeys(names, threads))


@pytest.mark.parametrize("name", [name for name in ENGINES if name not in ELSEWHERE])
def test_engine_agrees_with_the_memory_engine(name: str) -> None:
    assert name in SOURCES, f"Say in SOURCES how rows are put where the engine {name!r} finds them."
    check_engine(ENGINES[name](), SOURCES[name])


@pytest.mark.parametrize("block_rows", BLOCKS)
@pytest.mark.parametrize("name", list(STATISTICS))
def test_statistic_is_the_same_in_blocks_of_any_size(name: str, block_rows: int) -> None:
    n = SIZES[block_rows]
    X, t = (part[:n] for part in rows(3))
    rng = np.random.default_rng(0)
    s = rng.uniform(0.5, 2.0, n)
    statistic = STATISTICS[name]
    whole = MemorySource(X, t.astype(np.int32), 3, s)
    parts = MemorySource(X, t.astype(np.int32), 3, s, slice_rows=block_rows)
    assert len(parts.slices()) == -(-n // block_rows)
    for params in statistic.example_params(Shape(4, 3), rng):
        found = MemoryEngine().fold(statistic, parts, params)
        expected = MemoryEngine().fold(statistic, whole, params)
        for field in found.__dataclass_fields__:
            a, b = getattr(found, field), getattr(expected, field)
            if b is not None and np.asarray(b).dtype.kind in "fiu":
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10 * np.max(np.abs(b), initial=0.0))


@pytest.mark.filterwarnings("ignore::oddsmith.errors.ConvergenceWarning")
@pytest.mark.parametrize("block_rows", BLOCKS)
@pytest.mark.parametrize(("model", "K"), MODELS_AND_CLASSES)
def test_model_is_the_same_in_blocks_of_any_size(
    model: Any, K: int, block_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, t = (part[: SIZES[block_rows]] for part in rows(K))
    expected = outcome(clone(model).fit(X, t), X)
    cut(monkeypatch, block_rows)
    assert_close(outcome(clone(model).fit(X, t), X), expected, 1e-10)


@pytest.mark.parametrize("piece_rows", BLOCKS)
@pytest.mark.parametrize(("model", "K"), MODELS_AND_CLASSES)
def test_model_of_files_is_that_of_memory_in_pieces_of_any_size(
    model: Any, K: int, piece_rows: int, tmp_path: Path
) -> None:
    """Of Dask's and Spark's data too: tests/engines, where their clusters are."""
    X, t = (part[: SIZES[piece_rows]] for part in rows(K))
    table = pa.table({f"x{j}": X[:, j] for j in range(4)} | {"y": t})
    folder = lay_out_files(table, piece_rows, tmp_path)
    if isinstance(model, PerceptronClassifier | RecalibratedClassifier):
        with pytest.raises(NeedsMemoryError, match="memory"):
            clone(model).fit(folder, "y")
        return
    found = clone(model).fit(folder, "y", piece_rows=piece_rows)
    whole = table.drop(["y"])
    assert_close(outcome(found, whole), outcome(clone(model).fit(whole, t), whole), 1e-10)


@pytest.mark.filterwarnings("ignore::oddsmith.errors.ConvergenceWarning")
@pytest.mark.parametrize(("model", "K"), MODELS_AND_CLASSES)
def test_model_has_the_same_bits_on_any_number_of_threads_and_again(
    model: Any, K: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, t = rows(K)
    cut(monkeypatch, 97)
    one = outcome(on_threads(model, 1).fit(X, t), X)
    for threads in (1, 2, 5):
        assert_same_bits(outcome(on_threads(model, threads).fit(X, t), X), one)


@pytest.mark.parametrize("solver", ["newton", "truncated-newton", "gradient", SGD(epochs=3, seed=0)], ids=str)
@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, sparse.csr_array], ids=["C", "F", "CSR"])
@pytest.mark.filterwarnings("ignore::oddsmith.errors.ConvergenceWarning")
def test_solver_has_the_same_bits_on_any_number_of_threads_and_again(
    solver: Any, form: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    X, t = rows(2)
    cut(monkeypatch, 97)
    fits = [LogisticRegression(solver=solver, threads=n).fit(form(X), t) for n in (1, 2, 3, 1)]
    for other in fits[1:]:
        assert np.array_equal(other.coef_, fits[0].coef_)
        assert np.array_equal(other.intercept_, fits[0].intercept_)
        assert other.certificate_ == fits[0].certificate_


@pytest.mark.parametrize("prior", [None, 1.0])
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_large_fits_agree_with_small_ones_and_have_the_same_bits_on_any_number_of_threads(
    form: Callable[[Any], Any], K: int, prior: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way of large data (compiled kernels, a start on a sample), taken by a table that is small enough to test."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 3))
    t = (X @ rng.normal(size=(3, K)) + rng.gumbel(size=(20_000, K))).argmax(axis=1)
    small = LogisticRegression(prior, tol=1e-10).fit(X, t)
    set_policy(monkeypatch, large_elements=1000)
    cut(monkeypatch, 1999)
    fits = [LogisticRegression(prior, tol=1e-10, threads=n).fit(form(X), t) for n in (1, 2, 3, 1)]
    for fit in fits:
        assert np.array_equal(fit.coef_, fits[0].coef_)
        assert np.array_equal(fit.intercept_, fits[0].intercept_)
    size = np.abs(small.coef_).max()
    # With a prior a large fit stops when the objective, not the weights, has all its digits.
    rtol = 1e-9 if prior is None else 1e-4
    np.testing.assert_allclose(fits[0].coef_, small.coef_, rtol=rtol, atol=rtol * size)
    assert fits[0].certificate_.converged
    assert fits[0].log_likelihood_ == pytest.approx(small.log_likelihood_, rel=1e-9)
