"""Weights under a Laplace prior are the same wherever the rows are: memory, files, Dask (Spark has its own tests)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest
from tests.policies import set_policy
from tests.test_engines_agree import rows

from oddsmith import LaplacePrior, LogisticRegression, regularization_path
from oddsmith.engines import ENGINES
from oddsmith.errors import SeparationWarning
from oddsmith.likelihood.sparse_problem import SparseProblem
from oddsmith.testing import lay_out_dask, lay_out_files

PRIORS = {
    "lasso": LaplacePrior(0.02),
    "elastic net": LaplacePrior(0.02, gaussian=0.5),
    "groups": LaplacePrior(0.02, groups=[["x0", "x3"]]),
    "classes": LaplacePrior(0.02, groups="class"),
    "factors": LaplacePrior(0.02, factors=[0.0, 1.0, 1.0, 2.0]),
}


def files(table: pandas.DataFrame, folder: Path) -> Any:
    return lay_out_files(pa.Table.from_pandas(table), 200, folder)


def dask(table: pandas.DataFrame, folder: Path) -> Any:
    return lay_out_dask(table, 200)


def memory(table: pandas.DataFrame, folder: Path) -> Any:
    return table


LAYOUTS: dict[str, Callable[[pandas.DataFrame, Path], Any]] = {"memory": memory, "files": files, "dask": dask}
"""How a table is put where an engine finds it; a new engine has a line here."""


def test_every_engine_is_here() -> None:
    assert set(LAYOUTS) | {"spark"} == set(ENGINES)


def data(K: int) -> tuple[np.ndarray, np.ndarray, pandas.DataFrame]:
    X, t = rows(K)
    return X, t, pandas.DataFrame(X, columns=[f"x{j}" for j in range(4)]).assign(y=t)


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_weights_are_those_of_rows_in_memory(layout: str, prior: str, K: int, tmp_path: Path) -> None:
    _, t, table = data(K)
    expected = LogisticRegression(PRIORS[prior]).fit(table.drop(columns="y"), t)
    found = LogisticRegression(PRIORS[prior]).fit(LAYOUTS[layout](table, tmp_path), "y")
    assert found.certificate_.converged
    assert (found.coef_ == 0.0).any()
    np.testing.assert_array_equal(found.coef_ == 0.0, expected.coef_ == 0.0)
    for name in ("coef_", "intercept_"):
        value = getattr(expected, name)
        np.testing.assert_allclose(getattr(found, name), value, rtol=1e-8, atol=1e-8 * np.abs(value).max())
    assert found.selected_ == expected.selected_


@pytest.mark.parametrize("layout", LAYOUTS)
def test_paths_are_those_of_rows_in_memory(layout: str, tmp_path: Path) -> None:
    X, t, table = data(2)
    expected = regularization_path(X, t, n=5)
    found = regularization_path(LAYOUTS[layout](table, tmp_path), "y", n=5)
    np.testing.assert_allclose(found.scales, expected.scales, rtol=1e-10)
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-8, atol=1e-8 * np.abs(expected.weights).max())
    assert (found.gap <= 1e-7).all()


def csv(table: pandas.DataFrame, folder: Path) -> Any:
    table.to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


def correlated(N: int, D: int, K: int, seed: int) -> pandas.DataFrame:
    """Return columns of all sizes, weights s and classes y."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)) @ (np.eye(D) + 1.2 / np.sqrt(8 * D)) * 10 ** rng.uniform(-1, 1, D) + rng.normal(size=D)
    slopes = rng.normal(size=(D, K)) * (rng.random((D, 1)) < 4 / D)
    t = np.argmax((X - X.mean(axis=0)) / X.std(axis=0) @ slopes + rng.gumbel(size=(N, K)), axis=1)
    columns = {f"x{j}": X[:, j] for j in range(D)}
    return pandas.DataFrame(columns).assign(s=rng.uniform(0.5, 2.0, N), y=t)


KINDS: dict[str, dict[str, Any]] = {
    "lasso": {},
    "elastic net": {"gaussian": 1.0},
    "groups": {"groups": [["x0", "x3"], ["x1", "x2", "x4"]]},
    "classes": {"groups": "class"},
    "factors": {"factors": [0.0, 1.0, 2.0, 0.5, 1.0, 1.0, 1.0, 1.0]},
}


def assert_one_path(
    layouts: Sequence[Callable[..., Any]],
    table: pandas.DataFrame,
    folder: Path,
    n: int,
    prior: Any,
    tol: float = 1e-7,
) -> None:
    """The gap allows for weights that differ by its square root: last steps take them to where they are equal."""
    X = table.drop(columns=["y", "s"])
    expected = regularization_path(X, table["y"], n=n, prior=prior, sample_weight=table["s"], tol=tol)
    single = LogisticRegression(replace(prior, scale=float(expected.scales[n // 2])))
    for given in (layout(table, folder) for layout in layouts):
        found = regularization_path(given, "y", scales=expected.scales, prior=prior, sample_weight="s", tol=tol)
        np.testing.assert_array_equal(found.weights == 0.0, expected.weights == 0.0)
        for one, other in zip(found.weights[1:], expected.weights[1:], strict=True):
            np.testing.assert_allclose(one, other, rtol=0.0, atol=1e-8 * np.abs(other).max())
        model = single.fit(given, "y", sample_weight="s")
        weights = np.column_stack([model.intercept_, model.coef_])
        whole = expected.weights[n // 2].T.reshape(weights.shape)
        np.testing.assert_allclose(weights, whole, rtol=0.0, atol=1e-8 * np.abs(whole).max())


@pytest.mark.parametrize("prior", KINDS)
@pytest.mark.parametrize("K", [2, 3, 4])
def test_paths_of_columns_of_all_sizes_are_those_of_rows_in_memory(K: int, prior: str, tmp_path: Path) -> None:
    layouts = (files, dask, csv) if prior == "lasso" else (files, dask)  # text is read into the same blocks
    assert_one_path(layouts, correlated(900, 8, K, K), tmp_path, 8, LaplacePrior(1.0, **KINDS[prior]))


@pytest.mark.parametrize("K", [2, 4])
def test_paths_without_exact_hessians_are_those_of_rows_in_memory(
    K: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_policy(monkeypatch, sparse_products=0.0)
    assert_one_path((files, dask), correlated(3000, 8, K, 5), tmp_path, 8, LaplacePrior(1.0))


@pytest.mark.parametrize("prior", ["lasso", "elastic net", "classes"])
@pytest.mark.parametrize("K", [2, 4])
def test_paths_over_many_columns_are_those_of_rows_in_memory(
    K: int, prior: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By columns in memory, by working sets elsewhere."""
    set_policy(monkeypatch, sparse_hessian=60 if K == 2 else 240)  # of 61 and 244 weights
    assert_one_path((files, dask), correlated(200, 60, K, 6), tmp_path, 4, LaplacePrior(1.0, **KINDS[prior]))


@pytest.mark.parametrize("prior", ["lasso", "elastic net", "classes"])
def test_paths_of_classes_over_large_supports_are_those_of_rows_in_memory(
    prior: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More weights are not zero than a Hessian of all may have."""
    set_policy(monkeypatch, sparse_hessian=20)
    assert_one_path((files, dask), correlated(200, 60, 4, 6), tmp_path, 4, LaplacePrior(1.0, **KINDS[prior]))


@pytest.mark.parametrize("prior", ["lasso", "elastic net"])
@pytest.mark.parametrize("large", ["support", "table", "table beyond the polish"])
def test_paths_over_large_supports_and_tables_are_those_of_rows_in_memory(
    large: str, prior: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two classes: any support and up to 10⁷ numbers at the default tolerance, any table at ``tol=1e-8``."""
    set_policy(monkeypatch, sparse_hessian=20 if large == "support" else 60)
    limits = {"dual_always": 0.0} if large != "support" else {}
    limits |= {"sparse_polish": 0.0} if large == "table beyond the polish" else {}
    set_policy(monkeypatch, **limits)
    tol = 1e-8 if large == "table beyond the polish" else 1e-7
    assert_one_path((files, dask), correlated(200, 60, 2, 6), tmp_path, 4, LaplacePrior(1.0, **KINDS[prior]), tol)


@pytest.mark.parametrize("K", [2, 4])
def test_a_gap_within_the_tolerance_leaves_no_column_out(K: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that are missing from the first working set have their weights at the end."""
    set_policy(monkeypatch, sparse_hessian=20)
    monkeypatch.setattr(SparseProblem, "by_columns", False)
    table = correlated(200, 60, K, 7)
    model = LogisticRegression(LaplacePrior(1.0))
    stated = SparseProblem.of(model._problem(table.drop(columns=["s", "y"]), table["y"], None, None, {}, reset=True)[1])
    start = stated.null_point()
    expected = stated.user_weights(stated.solve(0.1, start, tol=1e-10, max_iter=100).e.w)
    stated.working = None
    few = [np.flatnonzero(np.any(expected[:, 1:], axis=0))[:-1]]
    above = stated._columns_above
    monkeypatch.setattr(stated, "_columns_above", lambda e, least: few.pop() if few else above(e, least))
    found = stated.user_weights(stated.solve(0.1, start, tol=0.5, max_iter=100).e.w)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("how", ["complete", "quasi"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_free_columns_that_separate_are_named(layout: str, how: str, K: int, tmp_path: Path) -> None:
    """No penalty keeps their weights finite, wherever the rows are."""
    rng = np.random.default_rng(3)
    X, t = rng.normal(size=(600, 4)), np.arange(600) % K
    X[:, 1] = t + 0.5 * rng.random(600) if how == "complete" else (t == 0) & (rng.random(600) < 0.3)
    given = LAYOUTS[layout](pandas.DataFrame(X, columns=[f"x{j}" for j in range(4)]).assign(y=t), tmp_path)
    y = t if layout == "memory" else "y"
    given = given.drop(columns="y") if layout == "memory" else given
    with pytest.warns(SeparationWarning, match="'x1'"):
        model = LogisticRegression(LaplacePrior(0.1, factors=[1, 0, 1, 1])).fit(given, y)
    assert not (model.certificate_.converged or model.certificate_.optimum_exists)
    free = LogisticRegression(LaplacePrior(0.1, factors=[1, 1, 0, 1])).fit(given, y)
    assert free.certificate_.converged and free.certificate_.optimum_exists
