"""Models fitted to Dask data are those fitted to the same rows in memory, and survive the loss of a worker."""

import os
import signal
import time
import warnings
from collections.abc import Iterator
from typing import Any

import dask
import dask.array as da
import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.utils import get_tags
from tests.pieces import assert_same_model, table

from oddsmith import REJECT, GaussianClassifier, LogisticRegression
from oddsmith.engines import DaskEngine
from oddsmith.engines.dask_collections import is_dask
from oddsmith.errors import InvalidInputError
from oddsmith.testing import all_models, lay_out_dask

ON_THE_WHOLE = {"PerceptronClassifier", "RecalibratedClassifier"}
"""Models whose fit is no fold."""
STREAMING = [model for model in all_models() if type(model).__name__ not in ON_THE_WHOLE]
CASES = [(model, K) for model in STREAMING for K in ([2, 3] if get_tags(model).classifier_tags.multi_class else [2])]


def named(value: Any) -> str:
    return str(value) if value is None or isinstance(value, int) else type(value).__name__


# Each way to cut the rows once for each model, and once for each number of classes.
@pytest.mark.parametrize(
    ("model", "K", "rows"),
    [
        (model, K, rows)
        for model, K in CASES
        for rows in ((1, 7) if K == 2 and (model, 3) in CASES else (7, 1000, None) if K == 3 else (1, 7, 1000, None))
    ],
    ids=named,
)
def test_a_model_of_a_dask_frame_is_that_of_the_frame_in_memory(model: Any, K: int, rows: int | None) -> None:
    data = table(40 if rows == 1 else 60 if rows == 7 else 1200, K)
    X = data.drop(columns="kind") if rows != 7 else data.drop(columns=["kind", "site"])
    expected = clone(model).fit(X, data["kind"])
    lazy = lay_out_dask(X.assign(kind=data["kind"]), rows or len(data))
    with dask.config.set(scheduler="synchronous" if rows == 1 else "threads"):
        assert_same_model(clone(model).fit(lazy, y="kind"), expected, X)


@pytest.mark.parametrize(("model", "K"), CASES, ids=named)
def test_a_model_of_a_dask_array_is_that_of_the_array_in_memory(model: Any, K: int) -> None:
    data = table(90, K)
    X, t = data[["mass", "height", "width"]].to_numpy(), data["kind"].to_numpy().astype(str)
    lazy = da.from_array(X, chunks=(17, 2))
    some = lazy[:, 0] > -1.0
    labels = da.from_array(t, chunks=17)
    found = clone(model).fit(lazy[some], labels[some])  # of unknown size
    assert_same_model(found, clone(model).fit(X[X[:, 0] > -1.0], t[X[:, 0] > -1.0]), X)


@pytest.mark.parametrize("model", [LogisticRegression(1.0), GaussianClassifier()], ids=str)
def test_weights_are_a_column_or_lie_beside_the_rows(model: Any) -> None:
    data = table(90, 2)
    X = data[["mass", "height", "width"]]
    expected = clone(model).fit(X, data["kind"], sample_weight=data["weight"].to_numpy())
    lazy = lay_out_dask(data.drop(columns="site"), 20)
    assert_same_model(clone(model).fit(lazy, y="kind", sample_weight="weight"), expected, X)
    beside = clone(model).fit(lazy[list(X.columns)], lazy["kind"], sample_weight=lazy["weight"])
    assert_same_model(beside, expected, X)


def test_a_bad_value_is_named_by_its_partition() -> None:
    data = table(60, 2)
    data.loc[45, "height"] = np.inf
    with pytest.raises(InvalidInputError, match=r"^partition 4 of 6: Column 'height'"):
        LogisticRegression().fit(lay_out_dask(data, 10), y="kind")


def methods(model: Any) -> list[str]:
    found = [name for name in ("predict", "predict_proba", "decision_function") if hasattr(model, name)]
    return [*found, "decide"] if "predict_proba" in found else found


@pytest.mark.parametrize("model", list(all_models()), ids=named)
@pytest.mark.filterwarnings("ignore::oddsmith.errors.ConvergenceWarning")
def test_predictions_are_lazy_and_those_in_memory(model: Any) -> None:
    data = table(90, 2).set_index(np.arange(90) * 2)
    X, A = data[["mass", "height", "width"]], data[["mass", "height", "width"]].to_numpy()
    for rows, lazy in ((X, lay_out_dask(X, 20)), (A, da.from_array(A, chunks=(20, 2)))):
        fitted = clone(model).fit(rows, data["kind"])
        for name in methods(fitted):
            expected, found = getattr(fitted, name)(rows), getattr(fitted, name)(lazy)
            assert is_dask(found) and found.ndim == expected.ndim
            values = found.compute()
            if name in ("predict", "decide"):
                assert np.asarray(values).tolist() == expected.tolist()
            else:
                np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-12)
            if rows is X:
                np.testing.assert_array_equal(values.index, X.index)


@pytest.fixture
def client(dask_client: Any) -> Iterator[Any]:
    """Two worker processes, in use without being named."""
    dask_client.wait_for_workers(2, timeout=60)
    with dask_client.as_current():
        yield dask_client


def test_a_fit_on_workers_is_that_in_memory_and_leaves_nothing_there(client: Any) -> None:
    data = table(1200, 3)
    X = data.drop(columns="kind")
    model = LogisticRegression(1.0).fit(lay_out_dask(data, 100), y="kind")
    assert_same_model(model, LogisticRegression(1.0).fit(X, data["kind"]), X)
    until = time.monotonic() + 30.0  # workers hear later that results are no longer wanted
    while left := sum(client.run(lambda dask_worker: len(dask_worker.data)).values()):
        assert time.monotonic() < until, f"{left} results stay on the workers"
        time.sleep(0.1)


def test_rows_without_a_decision_bear_the_mark_of_this_process(client: Any) -> None:
    data = table(90, 2)
    X = data[["mass", "height", "width"]]
    model = LogisticRegression(1.0).fit(X, data["kind"])
    decided = model.decide(lay_out_dask(X, 30), reject=0.2).compute(scheduler=client)
    expected = model.decide(X, reject=0.2)
    assert [one is REJECT for one in decided] == [one is REJECT for one in expected]
    assert 0 < sum(one is REJECT for one in decided) < 90


def test_a_worker_killed_in_mid_fit_gives_the_same_bits(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    data = lay_out_dask(table(1200, 3), 100)
    expected = LogisticRegression(1.0).fit(data, y="kind")
    passes: list[int] = []
    fold = DaskEngine.fold

    def deadly(self: Any, *args: Any, progress: Any = None) -> Any:
        """Kill a worker in mid-survey, and one in the pass that makes the blocks."""
        passes.append(0)

        def kill(done: int, of: int) -> None:
            if done == 3 and len(passes) in (1, 2):
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

        return fold(self, *args, progress=kill)

    monkeypatch.setattr(DaskEngine, "fold", deadly)
    found = LogisticRegression(1.0).fit(data, y="kind")
    assert len(passes) > 2
    assert np.array_equal(found.coef_, expected.coef_) and np.array_equal(found.intercept_, expected.intercept_)
    assert found.certificate_ == expected.certificate_


def test_weights_of_truncated_newton_are_those_in_memory() -> None:
    """Preconditioners differ there, and gaps within the tolerance leave weights apart by 1e-3."""
    rng = np.random.default_rng(0)
    n, levels = 6_000, 1_500
    code, x = rng.integers(levels, size=n), rng.normal(size=n)
    y = np.argmax(rng.normal(size=(levels, 3))[code] + x[:, None] * [0.0, 1.0, -1.0] + rng.gumbel(size=(n, 3)), axis=1)
    table = pandas.DataFrame({"x": x, "shop": np.char.add("s", code.astype(str)), "y": y})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        here = LogisticRegression(prior=1.0).fit(table, "y")
        there = LogisticRegression(prior=1.0).fit(lay_out_dask(table, 2_000), y="y")
    assert "truncated Newton" in here.certificate_.method and "truncated Newton" in there.certificate_.method
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=0.0, atol=1e-9 * np.abs(here.coef_).max())
