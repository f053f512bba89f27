"""Small functions of evaluation on numbers that can be checked by hand."""

import numpy as np
import pytest

from oddsmith import GaussianClassifier
from oddsmith.evaluation import bootstrap
from oddsmith.evaluation.comparison import make_folds
from oddsmith.evaluation.model_output import class_codes, read_output
from oddsmith.evaluation.sums import bin_of, placements
from oddsmith.evaluation.value_counts import ValueCounts, keys_of

SIDES = np.array([False, False, True, True])


def test_many_rows_are_put_into_random_groups_of_equal_size() -> None:
    group, count = bootstrap.assign_groups(10_000, np.random.default_rng(0))
    assert (count, sorted(set(np.bincount(group).tolist()))) == (4096, [2, 3])


def test_the_interval_of_a_mean_is_that_of_its_standard_error() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    draws = rng.choice(x, (2000, 400)).mean(axis=1)
    low, high = bootstrap.bca_interval(x.mean(), draws, (x.sum() - x) / 399, 0.95)
    assert round(float((high - low) / (2 * 1.96 * x.std() / 20)), 1) == 1.0


def test_intervals_without_the_bias_of_the_replicates() -> None:
    found = bootstrap.reflected_interval(0.1, np.linspace(0.1, 0.2, 101), 0.9)
    np.testing.assert_allclose(found, (0.005, 0.095), rtol=1e-12)
    found = bootstrap.centred_interval(1.0, np.array([1.0, 1.2]), 0.95)
    np.testing.assert_allclose(found, (0.704, 1.096), atol=1e-4)


def test_gaps_that_noise_explains_have_zero_in_their_interval() -> None:
    gap = np.array([0.5, -0.5, 0.5, 0.5])
    drawn = gap + 0.4 * np.random.default_rng(0).normal(size=(2000, 4))
    low, high = bootstrap.inverted_interval(np.full(4, 0.25), gap, drawn, 1, 0.95)
    assert low == 0.0
    assert 0.5 < high < 1.0


def test_the_interval_of_a_share_stays_below_one() -> None:
    assert [round(edge, 4) for edge in bootstrap.wilson_interval(1.0, 50, 0.95)] == [0.9287, 1.0]


def test_folds_share_out_the_rows() -> None:
    folds = make_folds(2, np.array([0, 0, 1, 1], dtype=np.int32), np.array(["a", "b"]), 0)
    assert [len(test) for _, test in folds] == [2, 2]


def test_predictions_and_labels_become_codes() -> None:
    model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["a", "a", "b", "b"])
    assert read_output(model, [[0.0], [1.0]], ["a", "b"]).predicted.tolist() == [0, 0]
    assert class_codes(["b", "a"], np.array(["a", "b"])).tolist() == [1, 0]


def test_ties_count_one_half_and_stay_in_one_bin() -> None:
    assert placements(np.array([0.1, 0.4, 0.4, 0.9]), SIDES).tolist() == [1.0, 0.75, 0.75, 1.0]
    assert bin_of(np.array([0.1, 0.2, 0.2, 0.2, 0.8, 0.9]), 2).tolist() == [0, 1, 1, 1, 1, 1]


def test_counts_of_values_keep_their_order_and_merge() -> None:
    assert np.argsort(keys_of(np.array([0.5, -2.0, 0.0, 3.0]))).tolist() == [1, 2, 0, 3]
    one, two = (ValueCounts.of(np.array(v), np.array([True, False]), 2) for v in ([0.3, 0.7], [0.3, 0.9]))
    both = one.merge(two)
    assert both.drop > 0
    assert both.counts.tolist() == [[0, 2], [2, 0]]
    assert ValueCounts.of(np.array([0.1, 0.4, 0.4, 0.9]), SIDES, 9).area() == (0.875, 0.0)


def test_the_upper_edge_of_a_small_value_allows_for_how_small_it_is() -> None:
    """At the upper edge, a score this small is 0.025 times as probable as with no gaps at all."""
    rng = np.random.default_rng(0)
    weight, gap = np.full(8, 1 / 8), np.full(8, 0.05)
    noise = 0.08 * rng.normal(size=(4000, 8))
    low, high = bootstrap.inverted_interval(weight, gap, gap + noise, 1, 0.95)

    def share(c: float) -> float:
        return float((np.abs(c * gap + noise).mean(axis=1) < 0.05).mean())

    assert low == 0.0 and 0.05 < share(0.0) < 0.5, "smaller than chance alone makes it, mostly"
    assert share(high / 0.05) == pytest.approx(0.025 * share(0.0), abs=1e-3) and high > 0.05
