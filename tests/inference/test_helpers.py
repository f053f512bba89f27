"""Small functions of inference on numbers that can be checked by hand."""

import numpy as np

from oddsmith.block import Block
from oddsmith.inference.covariance import read_covariance
from oddsmith.inference.hypotheses import read_hypotheses, wald_test
from oddsmith.inference.laplace import standard_normals
from oddsmith.inference.leave_one_out import LeaveOutLosses, LeaveOutLossesParams
from oddsmith.inference.profile import fmm_spline
from oddsmith.inference.quadrature import expected_entropy, expected_probability, probability_std
from oddsmith.inference.summary import check_level, chi_square_p, normal_p, normal_quantile, wald_columns
from oddsmith.inference.tables import choose_format, escape_latex, format_column
from oddsmith.links import LINKS
from oddsmith.statistics.rowwise import WeightPoint


def test_quantiles_and_tails_have_all_their_digits() -> None:
    assert check_level(0.9) == 0.9
    assert round(normal_quantile(0.95), 6) == 1.959964
    assert normal_p(np.array([0.0, 30.0])).tolist() == [1.0, 9.81342785429749e-198]
    assert round(chi_square_p(3.841458820694124, 1), 12) == 0.05
    assert f"{chi_square_p(900.0, 1):.4e}" == "9.8134e-198"


def test_wald_columns_are_estimate_error_test_and_interval() -> None:
    columns = wald_columns(np.ones(1), np.full(1, 0.5), 0.95)
    assert list(columns) == ["estimate", "std_error", "z", "p_value", "lower", "upper"]
    assert [value.round(4).tolist() for value in columns.values()] == [[1.0], [0.5], [2.0], [0.0455], [0.02], [1.98]]


def test_columns_have_common_decimals_and_latex_is_escaped() -> None:
    assert (choose_format([1.2, 0.0123]), choose_format([1e-9, 1e3])) == (".4f", ".4g")
    assert format_column("estimate", [1.23456, -0.0123456]) == ["1.2346", "-0.0123"]
    assert format_column("p_value", [0.03, 1e-12, float("nan")]) == ["0.0300", "1.0e-12", ""]
    assert format_column("term", ["age"]) == ["age"]
    assert escape_latex("50% of x_1") == r"50\% of x\_1"


def test_covariances_have_default_factors_and_count_their_clusters() -> None:
    assert read_covariance("sandwich").factor == "HC0"
    assert read_covariance(("cluster", ["a", "b", "a"], "CR1S")).n_clusters == 2


def test_hypotheses_that_follow_from_others_do_not_count() -> None:
    test = wald_test(np.array([2.0, 4.0]), np.array([[1.0], [2.0]]), np.eye(1))
    assert (test.statistic, test.df) == (4.0, 1)


def test_equations_become_rows() -> None:
    R, r, _ = read_hypotheses("age = lwt, 2*age = 1", None, ["(intercept)", "age", "lwt"])
    assert R.tolist() == [[0.0, 1.0, -1.0], [0.0, 2.0, 0.0]]
    assert r.tolist() == [0.0, 1.0]


def test_draws_are_vectors() -> None:
    assert standard_normals(3, 2, seed=0).shape == (3, 2)


def test_the_spline_of_a_cubic_is_that_cubic() -> None:
    x = np.array([0.0, 1.0, 3.0, 4.0, 6.0])
    np.testing.assert_allclose(fmm_spline(x, x**3 - x, np.array([0.5, 5.0])), [-0.375, 120.0], rtol=1e-9)


def test_integrals_over_an_activation() -> None:
    P = expected_probability(LINKS["logit"], np.array([0.0, -30.0]), np.array([1e3, 2.0]))
    np.testing.assert_allclose(P[0], 0.5, rtol=1e-14)
    assert round(float(np.log(P[1, 1])), 6) == -28.0
    link, mu, sigma = LINKS["identity"], np.array([0.5]), np.array([0.01])
    assert probability_std(link, mu, sigma, expected_probability(link, mu, sigma)).round(6).tolist() == [0.01]
    assert expected_entropy(LINKS["logit"], np.zeros(1), np.zeros(1)).round(6).tolist() == [0.693147]


def test_a_row_left_out_moves_its_own_activation() -> None:
    block = Block(np.array([[1.0], [-1.0]]), np.array([1, 0], dtype=np.int32))
    at = WeightPoint(x=np.zeros((1, 2)), center=np.zeros(1), scale=np.ones(1), T=np.ones((1, 1)))
    params = LeaveOutLossesParams(at, np.zeros((1, 1, 2)), np.eye(2), np.ones((1, 2)))
    # Each activation 0 moves by 2 · ½ / (1 − ½) = 2.
    np.testing.assert_allclose(LeaveOutLosses.of(block, params).loss, 2 * np.log1p(np.exp(2.0)), rtol=1e-12)
