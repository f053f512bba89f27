"""A scale for each category (``groups="factor"``): lme4's random intercepts; the evidence with levels eliminated."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from tests.policies import set_policy
from tests.reference.common import rule_table

from oddsmith import Design, GaussianPrior, LogisticRegression, load
from oddsmith.block import Block
from oddsmith.bordered import BorderedDiagonal
from oddsmith.design import table as design_table
from oddsmith.errors import InvalidInputError
from oddsmith.rows import CodeRows, DenseRows, SplitRows
from oddsmith.statistics import LeverageParams, LeverageSlope
from oddsmith.statistics.rowwise import WeightPoint

RECORDS = [
    json.loads(path.read_text(encoding="utf-8"))
    for path in sorted((Path(__file__).parents[1] / "reference").glob("mixed_*.json"))
]
FACTOR = GaussianPrior(groups="factor")
by_record = pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["name"])


def weights_of(model: LogisticRegression) -> dict[str, float]:
    names = model.design_.get_feature_names_out().tolist()
    return {"(intercept)": float(model.intercept_[0]), **dict(zip(names, model.coef_[0].tolist(), strict=True))}


@by_record
def test_modes_at_the_scale_of_lme4_are_its_random_intercepts(record: dict[str, Any]) -> None:
    table = polars.DataFrame(rule_table(**record["rule"]))
    levels = table["g"].n_unique()
    design = Design("y ~ g + C(h, reference='p') + x", reference="mean")
    variances = np.r_[np.full(levels, record["sd"] ** 2), np.full(3, 1e10)]
    model = LogisticRegression(GaussianPrior(covariance=variances), design=design, tol=1e-13).fit(table)
    found = weights_of(model)
    for term, expected in record["fixed"].items():
        assert found[term] == pytest.approx(expected, rel=1e-6)
    intercepts = [found[f"g[{group}]"] for group in record["groups"]]
    np.testing.assert_allclose(intercepts, record["intercepts"], atol=1e-6)


@by_record
def test_the_scale_of_groups_is_near_that_of_lme4(record: dict[str, Any]) -> None:
    """lme4 integrates over the groups alone, the evidence over all weights: of 3,000 groups that is a fraction."""
    table = polars.DataFrame(rule_table(**record["rule"]))
    model = LogisticRegression(FACTOR).fit(table, "y")
    scale = dict(zip(("g", "h", "x"), model.selection_.width, strict=True))["g"]
    assert scale == pytest.approx(record["sd"], rel=0.01 if len(table) > 10_000 else 0.03)
    assert model.selection_.groups[0][0] == "g[g0000]"
    assert list(model.selection_.to_dict()) == ["iteration", "width[g]", "width[h]", "width[x]", "log_evidence"]


@pytest.mark.parametrize("variant", ["plain", "weights", "offset", "no intercept"])
def test_scales_with_levels_eliminated_are_those_of_the_whole_hessian(
    monkeypatch: pytest.MonkeyPatch, variant: str
) -> None:
    rng = np.random.default_rng(3)
    g, k, x = rng.integers(0, 150, 4000), rng.integers(0, 60, 4000), rng.normal(size=(4000, 2))
    a = 0.8 * rng.normal(size=150)[g] + 0.3 * rng.normal(size=60)[k] + x @ [0.7, -0.2]
    table = polars.DataFrame({"g": [f"g{i}" for i in g], "u": x[:, 0], "k": [f"k{i}" for i in k], "v": x[:, 1]})
    y = rng.random(4000) < 1.0 / (1.0 + np.exp(-a))
    given: dict[str, Any] = {"weights": {"sample_weight": rng.choice([0.0, 1.0, 2.5], 4000)}}.get(variant, {})
    given |= {"offset": {"offset": rng.normal(size=4000)}}.get(variant, {})
    monkeypatch.setattr(design_table, "SPLIT_ELEMENTS", 0)
    model = LogisticRegression(FACTOR, fit_intercept=variant != "no intercept")
    whole = model.fit(table, y, **given)
    expected = whole.selection_.width, whole.selection_.to_dict()["log_evidence"][-1], whole.coef_
    set_policy(monkeypatch, largest_hessian=100)
    model.fit(table, y, **given)
    np.testing.assert_allclose(model.selection_.width, expected[0], rtol=1e-5)
    assert model.selection_.to_dict()["log_evidence"][-1] == pytest.approx(expected[1], rel=1e-9)
    np.testing.assert_allclose(model.coef_, expected[2], atol=1e-5)
    assert model.certificate_.converged


def test_many_weights_without_a_factor_to_eliminate_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    set_policy(monkeypatch, largest_hessian=5)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 10)), np.arange(50) % 2
    for groups, advice in ((None, "scale='cv', or"), ("each", "scale='cv' without groups, or")):
        with pytest.raises(InvalidInputError, match=f"Hessian of all 11 weights, but the limit is 5. Use {advice}"):
            LogisticRegression(GaussianPrior("evidence", groups=groups)).fit(X, y)


def test_levels_shrink_towards_their_mean_whichever_comes_first() -> None:
    """A first level that is far from all others is no reference: the scale is that of the others' differences."""
    rng = np.random.default_rng(1)
    g = rng.integers(0, 30, 6000)
    effect = 0.2 * rng.normal(size=30)
    y = rng.random(6000) < 1.0 / (1.0 + np.exp(-np.where(g == 0, 2.0, effect[g])))
    names = np.array([f"g{i:02d}" for i in range(30)])
    widths = []
    for order in (np.arange(30), np.r_[np.arange(1, 30), 0]):  # the far level is called first, then last
        table = polars.DataFrame({"g": names[np.argsort(order)][g], "x": rng.normal(size=6000) * 0.0 + g % 7})
        widths.append(LogisticRegression(FACTOR).fit(table, y).selection_.width[0])
    assert widths[0] == pytest.approx(widths[1], rel=1e-6)
    assert widths[0] < 0.6


def test_unseen_levels_have_the_mean_in_predictions_files_and_sql(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    g = rng.integers(0, 70, 3000)  # more than are written into a query
    y = rng.random(3000) < 1.0 / (1.0 + np.exp(-rng.normal(size=70)[g]))
    table = polars.DataFrame({"g": [f"g{i:02d}" for i in g], "x": rng.normal(size=3000)})
    refused = LogisticRegression(FACTOR).fit(table, y)
    new = polars.DataFrame({"g": ["g05", "new", "g69"], "x": [0.5, 0.5, -1.0]})
    with pytest.raises(InvalidInputError, match="which counts them as the mean of all levels"):
        refused.predict_proba(new)
    model = LogisticRegression(FACTOR, design=Design(unseen="reference")).fit(table, y)
    w = weights_of(model)
    a = w["(intercept)"] + np.array([w["g[g05]"], 0.0, w["g[g69]"]]) + w["x"] * new["x"].to_numpy()
    expected = 1.0 / (1.0 + np.exp(-a))
    np.testing.assert_allclose(model.predict_proba(new)[:, 1], expected, rtol=1e-12)
    model.save(tmp_path / "m.odds")
    np.testing.assert_allclose(load(tmp_path / "m.odds").predict_proba(new)[:, 1], expected, rtol=1e-12)
    base = sqlite3.connect(":memory:")
    base.execute("create table rows (g text, x real)")
    base.executemany("insert into rows values (?, ?)", new.rows())
    found = base.execute(model.to_sql("rows", "sqlite"))
    place = [name for name, *_ in found.description].index("p_True")
    np.testing.assert_allclose([row[place] for row in found], expected, rtol=1e-9)


def test_slope_of_the_determinant_with_levels_eliminated_is_that_of_the_whole() -> None:
    rng = np.random.default_rng(4)
    codes = rng.integers(-1, 6, 200).astype(np.int8)
    rows = SplitRows((DenseRows(rng.normal(size=(200, 2))), CodeRows(codes, 6), DenseRows(rng.normal(size=(200, 1)))))
    center, scale = rng.normal(size=9), rng.uniform(0.5, 2.0, 9)
    center[2:8] = 0.0
    at = WeightPoint(x=rng.normal(size=(1, 10)), center=center, scale=scale, T=np.array([[1.5]]))
    A = rng.normal(size=(4, 4))
    H = BorderedDiagonal(A=A @ A.T + 8.0 * np.eye(4), B=rng.normal(size=(6, 4)), d=rng.uniform(3.0, 5.0, 6), start=3)
    block = Block(rows, rng.integers(0, 2, 200).astype(np.int32), rng.uniform(size=200), rng.normal(size=(200, 1)))
    whole = LeverageSlope.of(block, LeverageParams(at, np.linalg.inv(H.toarray())))
    # The variance is that of T x z: the covariance of a contrast, twice times T.
    apart = LeverageSlope.of(block, LeverageParams(at, H.factor()))
    np.testing.assert_allclose(apart.slope, whole.slope, rtol=1e-10)
