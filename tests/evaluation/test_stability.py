"""Stability selection: complementary halves, frequencies, and the bound on false selections."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from oddsmith import LaplacePrior, LogisticRegression, stability
from oddsmith.errors import InvalidInputError, NeedsMemoryError
from oddsmith.evaluation.stability import _halves

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 20))
Y = X[:, 0] - X[:, 1] + RNG.logistic(size=240) > 0


def test_halves_are_complementary_and_have_half_of_each_class():
    _, problem = LogisticRegression(LaplacePrior(1.0))._problem(X, Y, np.r_[0.0, np.ones(239)], None, reset=True)
    halves = _halves(problem, 5, seed=0)
    assert len(halves) == 10
    for first, second in zip(halves[::2], halves[1::2], strict=True):
        assert sorted([*first, *second]) == list(range(1, 240))  # row 0 has no weight
        for rows in (first, second):
            assert abs(Y[rows].sum() - Y[1:].sum() / 2) <= 1


def test_frequencies_are_those_of_fits_to_the_halves():
    found = stability(X, Y, scale=0.06, n=8, seed=3)
    _, problem = LogisticRegression(LaplacePrior(1.0))._problem(X, Y, reset=True)
    chosen = [LogisticRegression(LaplacePrior(0.12)).fit(X[r], Y[r]).coef_[0] != 0 for r in _halves(problem, 4, seed=3)]
    np.testing.assert_allclose(found.frequency, np.mean(chosen, axis=0))
    assert found.mean_selected == np.sum(chosen) / 8
    assert found.false_selections == pytest.approx(found.mean_selected**2 / (0.5 * 20))


def test_strong_columns_are_selected_with_at_most_one_false_one_expected():
    found = stability(X, Y, n=30)
    assert found.selected == ["x0", "x1"]
    assert found.false_selections <= 1.0
    np.testing.assert_array_equal(found.path.max(axis=0) <= found.frequency + 1e-12, True)
    assert found.path.shape == (len(found.scales), 20)
    table = found.to_dict()
    assert table["column"][:2] == ["x0", "x1"] or table["column"][:2] == ["x1", "x0"]
    assert table["selected"] == [f >= 0.75 for f in table["frequency"]]
    assert "2 of 20 columns selected in at least 75% of 30 halves" in str(found)


def test_noise_is_hardly_ever_selected():
    rng, false = np.random.default_rng(1), 0
    for seed in range(6):
        noise = rng.normal(size=(120, 25))
        false += len(stability(noise, rng.random(120) < 0.5, n=20, threshold=0.8, seed=seed).selected)
    assert false <= 6  # at most one each is expected


def test_more_classes_groups_and_threads():
    rows, labels = load_iris(return_X_y=True)
    options = {"prior": LaplacePrior(1.0, groups="class"), "scales": [0.01, 0.03], "n": 6}
    found = stability(rows, labels, threads=1, **options)
    again = stability(rows, labels, threads=2, **options)
    np.testing.assert_array_equal(found.path, again.path)
    assert found.frequency[2] == 1.0


def test_refusals(tmp_path):
    with pytest.raises(InvalidInputError, match="even number of halves of at least 2, found 5"):
        stability(X, Y, n=5)
    with pytest.raises(InvalidInputError, match=r"above 0\.5 and at most 1, found 0\.4"):
        stability(X, Y, threshold=0.4)
    with pytest.raises(InvalidInputError, match="not both"):
        stability(X, Y, scale=1.0, scales=[1.0])
    with pytest.raises(InvalidInputError, match="single row"):
        stability(X[:5], [0, 0, 0, 0, 1])
    np.savetxt(tmp_path / "t.csv", np.column_stack([X[:50, :2], Y[:50]]), delimiter=",", header="a,b,y", comments="")
    with pytest.raises(NeedsMemoryError):
        stability(str(tmp_path / "t.csv"), "y")
