"""Levels of one class: which columns are aliased then, and what else is named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas
import pyarrow as pa
import pytest
from tests.policies import set_policy

from oddsmith import Design, LogisticRegression
from oddsmith.design import table as design_table
from oddsmith.engines import MemorySource
from oddsmith.errors import CollinearityWarning, SeparationWarning, UnavailableError
from oddsmith.likelihood.one_class_levels import find_one_class_levels
from oddsmith.rows import CodeRows, SplitRows
from oddsmith.solvers import policy


def by_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep factors as codes, and eliminate the largest, however small the table."""
    monkeypatch.setattr(design_table, "SPLIT_ELEMENTS", 0)
    set_policy(monkeypatch, eliminated_columns=1, eliminated_levels=1)


def test_columns_that_only_rows_left_out_tell_apart_are_not_aliased(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a level of one class say nothing about other weights, but they do tell columns apart."""
    rng = np.random.default_rng(0)
    table = pandas.DataFrame({"f": [f"f{i % 4}" for i in range(200)], "x": rng.normal(size=200)})
    y = np.where(table["f"] == "f2", 1, rng.integers(0, 2, 200))
    others = table["f"] != "f2"
    found = {}
    for codes in (False, True):
        if codes:
            by_code(monkeypatch)
        model = LogisticRegression(design=Design("f * x"))
        with pytest.warns(SeparationWarning, match="f2"):
            model.fit(table, y)
        assert model.aliased_ == [] and model.n_parameters_ == 8
        found[codes] = dict(zip(model.design_.get_feature_names_out(), model.coef_[0], strict=True))
    alone = LogisticRegression(design=Design("f * x")).fit(table[others], y[others])
    for name, weight in zip(alone.design_.get_feature_names_out(), alone.coef_[0], strict=True):
        assert found[True][name] == pytest.approx(weight, rel=1e-8)


def test_nested_levels_of_one_class_alias_the_columns_that_r_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last county of a state is aliased, also if all its labels are alike: then the state runs away."""
    rng = np.random.default_rng(1)
    county = rng.integers(0, 6, 300)
    table = pandas.DataFrame({"state": [f"s{c // 2}" for c in county], "county": [f"c{c}" for c in county]})
    y = np.where(county == 3, 1, rng.integers(0, 2, 300))
    by_code(monkeypatch)
    model = LogisticRegression()
    with pytest.warns(SeparationWarning, match="'state"), pytest.warns(CollinearityWarning):
        model.fit(table, y)
    assert model.aliased_ == ["county[c3]", "county[c5]"]
    # Activations are those of the limit: shares of each county, and certainty where labels are alike.
    P = model.predict_proba(table)[:, 1]
    for c in range(6):
        assert P[county == c].mean() == pytest.approx(y[county == c].mean(), abs=1e-8)


def test_what_separates_the_other_rows_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.linspace(-1.0, 1.0, 120)
    table = pandas.DataFrame({"f": [f"f{i % 3}" for i in range(120)], "x": x})
    by_code(monkeypatch)
    with pytest.warns(SeparationWarning, match="completely separated by.*'x'"):
        LogisticRegression().fit(table, np.where(table["f"] == "f2", 1, x > 0.0))


@pytest.mark.filterwarnings("ignore::oddsmith.errors.LevelsWarning")
def test_levels_that_lack_a_class_of_three_are_found_by_counting_and_need_no_linear_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    shop = np.concatenate([[0, 0, 0], np.arange(1300), rng.integers(0, 1300, 1700)])  # the reference has all classes
    label = np.array(["a", "b", "c"])[np.concatenate([[0, 1, 2], rng.integers(0, 3, len(shop) - 3)])]
    table = {"shop": [f"s{i}" for i in shop], "x": rng.normal(size=len(shop)), "y": label}
    monkeypatch.setattr("oddsmith.likelihood.separation_search.separation", None)  # the program
    with pytest.warns(SeparationWarning, match="quasi-completely separated by 'shop") as said:
        model = LogisticRegression(max_iter=5).fit(pa.table(table), "y")
    assert any("more" in str(warning.message) for warning in said)
    seen = set(zip(table["shop"], label.tolist(), strict=True))
    # Against "a": a level without "b" has "b" at −∞, one without "a" has both others at +∞, unless they are absent too.
    lowered = {(k, f"shop[{s}]"): (s, k) not in seen for s in set(table["shop"]) for k in "bc"}
    raised = {(k, f"shop[{s}]"): (s, "a") not in seen for s in set(table["shop"]) for k in "bc"}
    expected = {term: raised[term] - lowered[term] for term in lowered if raised[term] != lowered[term]}
    assert model._separation is not None and model._separation.infinite == expected
    assert not model.certificate_.optimum_exists
    assert model.log_likelihood_ > -0.7 * len(shop)  # some way along: the null model has −1.1 a row
    with pytest.raises(UnavailableError, match="Hessian of 2,6"):
        with monkeypatch.context() as few:
            few.setattr("oddsmith.models.inference_mixin.POLICY", replace(policy.POLICY, largest_summary=2_550))
            model.leave_one_out(pa.table(table).drop_columns("y"), table["y"])


def test_the_direction_of_later_rounds_undoes_nothing_of_earlier_ones() -> None:
    """Each row that levels of one class fit perfectly lies on the side of its class, in whichever round it left."""
    rng = np.random.default_rng(0)
    found_in_rounds = 0
    for _ in range(300):
        n, sizes = int(rng.integers(6, 14)), rng.integers(2, 5, 3)
        codes = [rng.integers(0, size, n).astype(np.int8) for size in sizes]
        factors = [CodeRows(code, int(size), dropped=0) for code, size in zip(codes, sizes, strict=True)]
        t = rng.integers(0, 2, n).astype(np.int32)
        found = find_one_class_levels(MemorySource(SplitRows(tuple(factors)), t, 2), intercept=True)
        if found is None:
            continue
        columns = [code[:, None] == np.arange(1, size) for code, size in zip(codes, sizes, strict=True)]
        activation = found.direction[0] + np.hstack(columns) @ found.direction[1:]
        assert (activation[~found.left] * (2 * t - 1)[~found.left] > 0.0).all()
        assert (activation[found.left] == 0.0).all()
        found_in_rounds += len(np.unique(np.abs(found.direction))) > 3
    assert found_in_rounds > 20


@pytest.mark.filterwarnings("ignore::oddsmith.errors.SeparationWarning", "ignore::oddsmith.errors.ConvergenceWarning")
def test_a_level_of_one_class_among_three_leaves_the_other_rows_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    table = pandas.DataFrame({"f": [f"f{i % 4}" for i in range(240)], "x": rng.normal(size=240)})
    y = np.where(table["f"] == "f2", 1, rng.integers(0, 3, 240))
    others = table["f"] != "f2"
    expected = LogisticRegression().fit(table[others], y[others]).predict_proba(table[others])
    by_code(monkeypatch)
    found = LogisticRegression().fit(table, y).predict_proba(table[others])
    np.testing.assert_allclose(found, expected, atol=1e-5)
