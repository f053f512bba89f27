"""Models fitted to Spark DataFrames are those fitted to the same rows in memory; their predictions are lazy columns."""

import doctest
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils import get_tags
from tests.engines.test_sparse_weights import assert_one_path, correlated
from tests.pieces import assert_same_model, table
from tests.spark import lay_out_spark, marks_of_spark, spark_session

from oddsmith import LaplacePrior, LogisticRegression, scan
from oddsmith.engines.spark import is_spark
from oddsmith.errors import FormatWarning, InvalidInputError
from oddsmith.testing import all_models

pytestmark = marks_of_spark()

ON_THE_WHOLE = {"PerceptronClassifier", "RecalibratedClassifier"}
"""Models whose fit is no fold."""
STREAMING = [model for model in all_models() if type(model).__name__ not in ON_THE_WHOLE]
CASES = [
    pytest.param(
        model, 3 if get_tags(model).classifier_tags.multi_class else 2, rows, id=f"{type(model).__name__}-{rows}"
    )
    for model in STREAMING
    for rows in ((7,) if hasattr(model, "model") else (1, 7, 1200))  # models of models fit in the same way, many times
]


@pytest.fixture(scope="module")
def session() -> Any:
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    return spark_session()


@pytest.fixture
def batches(session: Any) -> Iterator[Any]:
    """A function that sets how many rows a batch has, for the length of a test."""
    setting = "spark.sql.execution.arrow.maxRecordsPerBatch"
    yield lambda rows: session.conf.set(setting, rows)
    session.conf.unset(setting)


@pytest.mark.parametrize(("model", "K", "rows"), CASES)
def test_a_model_of_a_spark_frame_is_that_of_the_table_in_memory(model: Any, K: int, rows: int, batches: Any) -> None:
    n = {1: 40, 7: 90}.get(rows, 1200)
    data = table(n, K).drop(columns=["site", "weight"] if rows == 7 else ["weight"])
    batches(rows)
    found = clone(model).fit(lay_out_spark(data, n // 2 + 10 if rows == 7 else n), y="kind")
    X = data.drop(columns="kind")
    assert_same_model(found, clone(model).fit(X, data["kind"]), X)


def test_weights_and_offsets_are_columns(session: Any) -> None:
    data = table(90, 2).drop(columns="site").assign(shift=np.linspace(-1, 1, 90))
    X = data[["mass", "height", "width"]]
    found = LogisticRegression(1.0).fit(lay_out_spark(data, 50), y="kind", sample_weight="weight", offset="shift")
    weight, shift = data["weight"].to_numpy(), data["shift"].to_numpy()
    expected = LogisticRegression(1.0).fit(X, data["kind"], sample_weight=weight, offset=shift)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-10)


@pytest.mark.parametrize("K", [2, 3])
def test_weights_under_a_laplace_prior_are_those_of_the_table_in_memory(K: int, session: Any) -> None:
    data = table(200, K).drop(columns="weight")
    prior = LaplacePrior(0.05, groups="factor")
    X = data.drop(columns="kind")
    expected = LogisticRegression(prior).fit(X, data["kind"])
    found = LogisticRegression(prior).fit(lay_out_spark(data, 110), y="kind")
    assert found.selected_ == expected.selected_ and found.certificate_.converged
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-8, atol=1e-8 * np.abs(expected.coef_).max())


@pytest.mark.parametrize("K", [2, 4])
def test_paths_are_those_of_the_table_in_memory(K: int, session: Any) -> None:
    assert_one_path(
        [lambda given, _: lay_out_spark(given, 500)], correlated(900, 8, K, K), Path(), 6, LaplacePrior(1.0)
    )


def test_a_bad_value_is_named_by_its_partition(session: Any) -> None:
    data = table(60, 2)
    data.loc[45, "height"] = np.inf
    with pytest.raises(InvalidInputError, match=r"^partition 1, rows 0 to 19: .*'height'"):
        LogisticRegression().fit(lay_out_spark(data, 40), y="kind")


def dying(batches: Iterable[Any]) -> Iterator[Any]:
    """Give rows on, and kill the process at the first two attempts."""
    from pyspark import TaskContext

    for batch in batches:
        yield batch
        if TaskContext.get().attemptNumber() < 2:
            os.kill(os.getpid(), signal.SIGKILL)


def test_tasks_that_fail_twice_give_the_same_weights(session: Any) -> None:
    frame = lay_out_spark(table(200, 3), 200)
    expected = LogisticRegression(1.0).fit(frame, y="kind")
    found = LogisticRegression(1.0).fit(frame.mapInArrow(dying, frame.schema), y="kind")
    assert np.array_equal(found.coef_, expected.coef_) and np.array_equal(found.intercept_, expected.intercept_)
    assert found.certificate_ == expected.certificate_


def test_rows_handed_over_in_each_pass_give_the_same_model(session: Any) -> None:
    data = table(90, 3)
    kept, handed = (
        LogisticRegression(1.0).fit(scan(lay_out_spark(data, 50), cache=c), y="kind") for c in (None, False)
    )
    assert_same_model(handed, kept, data.drop(columns="kind"))


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function", "decide"])
def test_predictions_are_lazy_columns_with_the_values_of_memory(session: Any, method: str) -> None:
    data = table(60, 3)
    X = data[["mass", "height", "site"]]
    model = LogisticRegression(1.0).fit(X, data["kind"])
    frame = lay_out_spark(data, 40)
    expected = getattr(model, method)(X)
    found = getattr(model, method)(frame)
    assert is_spark(found) and found.columns[: len(data.columns)] == list(data.columns)
    values = np.array([tuple(row)[len(data.columns) :] for row in found.collect()]).reshape(expected.shape)
    np.testing.assert_array_equal(values, expected)


def test_a_row_without_a_decision_is_null(session: Any) -> None:
    data = table(60, 2)
    X = data[["mass", "height", "width"]]
    model = LogisticRegression(1.0).fit(X, data["kind"])
    decided = [row.decision for row in model.decide(lay_out_spark(X, 40), reject=0.35).collect()]
    expected = model.decide(X, reject=0.35)
    assert decided == [one if isinstance(one, str) else None for one in expected]
    assert None in decided and set(decided) - {None}


@pytest.mark.filterwarnings("ignore::oddsmith.errors.OddsmithWarning")
def test_the_examples_of_the_page_on_spark_run(session: Any) -> None:
    page = Path(__file__).parents[2] / "docs" / "spark.md"
    blocks = [part.partition("```")[0] for part in page.read_text(encoding="utf-8").split("```pyspark\n")[1:]]
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page.name, str(page), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert len(blocks) == 2 and runner.run(test).failed == 0


def test_text_and_class_weights_on_spark_are_those_in_memory(session: Any) -> None:
    rows = table(300, 2).drop(columns=["weight", "site"])
    rows["mass"] = [f"${1000 * abs(x):,.2f}" for x in rows["mass"]]
    frame = session.createDataFrame(rows).repartition(3)
    for class_weight in ("balanced", {"ash": 3.0}):
        with pytest.warns(FormatWarning, match="Recognised 'mass' as money"):
            expected = LogisticRegression(class_weight=class_weight).fit(rows, "kind")
        with pytest.warns(FormatWarning, match="Recognised 'mass' as money"):
            found = LogisticRegression(class_weight=class_weight).fit(frame, "kind")
        assert_same_model(found, expected, rows.drop(columns="kind"))
        np.testing.assert_allclose(found.class_weight_, expected.class_weight_)
        each = dict(zip(expected.classes_.tolist(), expected.class_weight_.tolist(), strict=True))
        weights = rows["kind"].map(each).to_numpy()
        with pytest.warns(FormatWarning):
            explicit = LogisticRegression().fit(rows, "kind", sample_weight=weights)
        np.testing.assert_allclose(found.coef_, explicit.coef_, rtol=1e-7)
