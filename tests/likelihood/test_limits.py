"""Limits of a fit: what is read at once, what counts as rounding, sizes from which work is done otherwise."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas
import pytest
from scipy import sparse
from tests.likelihood.traces import table
from tests.likelihoods import problem
from tests.policies import set_policy

from oddsmith import GaussianPrior, LaplacePrior, LogisticRegression
from oddsmith.engines import MemorySource
from oddsmith.errors import ConvergenceWarning, InvalidInputError, SeparationWarning
from oddsmith.likelihood import coordinates, fit, laplace_fit, messages, one_class_levels, separation
from oddsmith.likelihood.fitted_state import FittedState
from oddsmith.likelihood.null_model import null_log_likelihood
from oddsmith.likelihood.one_class_levels import FAR
from oddsmith.likelihood.problem import log_odds
from oddsmith.likelihood.separation_search import (
    HIDDEN,
    _one_class_direction,
    _only_class,
    _separates_all,
    _unseen,
)
from oddsmith.likelihood.two_class_descent import TwoClassDescent
from oddsmith.links import LINKS
from oddsmith.rows import CodeRows, SplitRows
from oddsmith.solvers import TruncatedNewton


@pytest.mark.parametrize(("n", "sampled"), [(16_000, False), (16_001, True)])
def test_a_sample_gives_the_scale_of_more_than_sixteen_thousand_rows(n: int, sampled: bool) -> None:
    X = np.random.default_rng(0).normal(size=(n, 94)).astype(np.float32)
    source = MemorySource(X, np.zeros(n, dtype=np.int32), 2)
    found = coordinates._coordinate_sample(source)
    assert (found is not None) == sampled and (found is None or found.n_rows == 4000)
    assert coordinates._is_shown(source) == (not sampled)  # a sample of all rows shows the columns of fewer


@pytest.mark.parametrize(
    ("K", "n", "shown"), [(3, 4999, False), (3, 5000, True), (2, 59_999, False), (2, 60_000, True)]
)
def test_a_small_table_shows_its_columns_where_a_sample_has_a_part_in_its_fit(K: int, n: int, shown: bool) -> None:
    X = np.random.default_rng(0).normal(size=(n, 3))
    assert coordinates._is_shown(MemorySource(X, np.zeros(n, dtype=np.int32), K)) == shown


@pytest.mark.parametrize(("rows", "programs"), [(1249, True), (1251, False)])
def test_many_separated_rows_need_no_program(rows: int, programs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three classes and eight columns: 20,000 numbers; weights that order every row settle it."""
    asked: list[int] = []
    solve = separation.optimize.linprog
    monkeypatch.setattr(separation.optimize, "linprog", lambda *a, **k: (asked.append(1), solve(*a, **k))[1])
    X = np.random.default_rng(0).normal(size=(rows, 8))
    W = np.zeros((2, 8))
    W[0, 0], W[1, 1] = 5.0, 5.0
    t = np.column_stack([np.zeros(rows), X @ W.T]).argmax(axis=1).astype(np.int32)
    found = separation.separating_direction(X, t, 3, fit_intercept=True, weights=(W, np.zeros(2)))
    assert found is not None and found[1] and bool(asked) == programs


@pytest.mark.parametrize(("scale", "refused"), [(0.8e100, False), (1.2e100, True), (0.8e-100, True), (1.2e-100, False)])
def test_columns_whose_squares_are_no_numbers_are_refused(scale: float, refused: bool) -> None:
    about: Any = SimpleNamespace(explain=None, names=lambda: ["age", "debt"])
    if refused:
        with pytest.raises(InvalidInputError, match="'debt' has a spread of"):
            fit._check_scale(np.array([1.0, scale]), about)
    else:
        fit._check_scale(np.array([1.0, scale]), about)


def test_the_null_model_of_a_class_without_rows() -> None:
    source = MemorySource(np.zeros((10, 1)), np.zeros(10, dtype=np.int32), 3)
    stated = problem(source, None, np.array([6.0, 0.0, 4.0]), reference=0)
    assert null_log_likelihood(stated) == pytest.approx(6.0 * np.log(0.6) + 4.0 * np.log(0.4))


@pytest.mark.parametrize("sampled", [False, True])
def test_products_with_a_hessian_are_those_of_its_matrix(sampled: bool) -> None:
    rng = np.random.default_rng(0)
    source = MemorySource(rng.normal(size=(400, 3)), rng.integers(0, 3, 400).astype(np.int32), 3)
    f = fit.make_objective(problem(source, None, np.full(3, 400 / 3), reference=0))[0]
    part = f.subsample(100, 0) if sampled else f
    w, v = rng.normal(size=(2, f.size))
    H = part.evaluate(w, order=2).dense_hessian
    np.testing.assert_allclose(part.hessian_product(w, v), H @ v, rtol=1e-9)
    diagonal = part.preconditioner(w)
    d = np.diag(H).reshape(f.shape)
    cross = np.array([H[0, 1:4], H[4, 5:8]])
    np.testing.assert_allclose(diagonal.rest[:, 1:], d[:, 1:] - cross**2 / d[:, :1], rtol=1e-9)
    assert part.sampling_fraction == (0.25 if sampled else 1.0)


def test_column_curvature_counts_a_row_more_that_all_classes_share() -> None:
    t = np.repeat([0, 1], [45, 15]).astype(np.int32)
    f = fit.make_objective(problem(MemorySource(np.arange(60.0)[:, None], t, 2), None, np.array([45.0, 15.0])))[0]
    p = 15.5 / 61.0
    assert f.column_curvature()[0] == pytest.approx(np.array([[60.0 * p * (1.0 - p)]]))


@pytest.mark.parametrize(
    ("away", "near", "decrement", "refused"),
    [(0.9, 1.0, 0.0, False), (1.2, 1.0, 0.0, True), (0.0, 1.0, 2.0, True), (0.0, 3.0, 2.0, False)],
)
def test_rows_are_those_of_the_fit_to_six_digits(away: float, near: float, decrement: float, refused: bool) -> None:
    """A log likelihood of −1 may differ by 2e-6: a millionth, and a millionth of it."""
    state: Any = SimpleNamespace(log_likelihood=-1.0, n_rows=5)
    given = (-1.0 - 2e-6 * away, decrement, near)
    if refused:
        with pytest.raises(InvalidInputError):
            FittedState.require_same_rows(state, *given)
    else:
        FittedState.require_same_rows(state, *given)


@pytest.mark.filterwarnings("ignore::oddsmith.errors.LevelsWarning")
def test_levels_of_one_class_have_log_odds_of_twenty() -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    level = np.repeat(np.arange(220), 4)
    y = rng.integers(0, 2, 880)
    y[level == 3] = 1
    y[np.isin(level, range(4, 220))] = np.tile([0, 1], 432)
    table = pandas.DataFrame({"who": [f"k{k:03}" for k in level]})
    with pytest.warns(Warning, match="separated"):
        model = LogisticRegression().fit(table, y)
    a = model.predict_log_proba(table)
    odds = (a[:, 1] - a[:, 0])[level == 3]
    assert (FAR <= odds).all() and (odds <= FAR + 5.0).all() and FAR == 20.0


def test_directions_in_which_no_row_moves() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 2))
    found = _unseen(np.column_stack([x, x[:, 0] + x[:, 1], np.full(50, 3.0)]))
    assert len(found) == 2
    moved = np.column_stack([x, x[:, 0] + x[:, 1] + 4.0 * HIDDEN * rng.normal(size=50), np.full(50, 3.0)])
    assert len(_unseen(moved)) == 1


def test_a_level_has_rows_of_one_class_only() -> None:
    weight = np.array([[2.0, 0.0], [0.0, 3.0], [1.0, 1.0], [0.0, 0.0]])
    assert _only_class(weight).tolist() == [-1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_column_separates_all_rows_if_no_margin_is_wrong(sign: float) -> None:
    rows = sign * np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 6.0], [0.0, 9.0]])
    t = np.array([0, 0, 1, 1], dtype=np.int32)
    asked: list[Any] = []

    def nearest(coef: Any, intercept: Any) -> Any:
        asked.append((coef.tolist(), intercept.tolist()))
        return (np.array([0.5]),)

    assert _separates_all(1, rows, t, nearest)
    assert asked == [([[0.0, sign]], [-4.0])]  # the middle is between 2 and 6


@pytest.mark.parametrize(("center", "moved"), [(1.9e4, False), (2.2e4, True)])
def test_a_sparse_column_ten_thousand_deviations_from_zero_is_moved(center: float, moved: bool) -> None:
    x = np.tile([-2.0, 2.0], 50) + center
    source = MemorySource(sparse.csr_array(x[:, None]), (np.arange(100) % 2).astype(np.int32), 2)
    f = fit.make_objective(problem(source, None, np.array([50.0, 50.0]), reference=0))[0]
    assert (f.center[0] == 0.0) == moved


def test_rounding_adds_to_a_duality_gap() -> None:
    found: Any = SimpleNamespace(e=SimpleNamespace(w=np.zeros(2), gradient=np.array([3.0, 4.0])), gap=0.25, value=10.0)
    objective = SimpleNamespace(weight=7.0, longest_row=None, passes=3)
    asked: list[Any] = []
    frame = SimpleNamespace(rounding_gap=lambda *given: (asked.append(given[1:]), 0.5)[1])
    stated: Any = SimpleNamespace(coordinates=frame, objective=objective)
    for tol, converged in ((0.074, False), (0.076, True)):
        certificate = laplace_fit.certificate_of(found, SimpleNamespace(tol=tol), stated)  # type: ignore[arg-type]
        assert certificate.gap == 0.75 and certificate.converged == converged and certificate.gradient_norm == 5.0
    assert asked == [(7.0, 0.0)] * 2


def test_names_of_columns_that_separate_the_classes() -> None:
    def question(*names: str) -> str:
        return separation.Separation("complete", {}, names).question

    assert question("a", "b", "c") == "'a', 'b' and 'c' each separate the classes: do they hold the answer?"
    assert question("a", "b", "c", "d", "e").startswith("'a', 'b', 'c' and 2 more each separate")


def test_a_constant_column_of_sparse_rows_is_set_aside() -> None:
    """Its squares cancel to their rounding, far above that of one."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=300) * (rng.random(300) < 0.4), np.full(300, 12345.678)])
    y = (X[:, 0] + rng.logistic(size=300) > 0).astype(int)
    with pytest.warns(Warning, match="depend|constant"):
        model = LogisticRegression().fit(sparse.csr_array(X), y)
    alone = LogisticRegression().fit(X[:, :1], y)
    assert model.coef_[0] == pytest.approx([alone.coef_[0, 0], 0.0], rel=1e-6, abs=1e-12)


def test_messages_name_eight_columns_and_count_the_others() -> None:
    letters = list("abcdefghij")
    assert messages.column_list(letters[:8]).endswith("'g', 'h'")
    assert messages.column_list(letters).endswith("'h' and 2 more") and messages.column_list(["a"]) == "Column 'a'"
    classes: Any = np.array([0, 1, 2])
    infinite = {(1, name): -1 if name == "b" else 1 for name in letters}
    text = messages.separation_message(separation.Separation("quasi", infinite), classes)
    assert "'a' (class 1, +∞), 'b' (class 1, −∞)" in text and "'h' (class 1, +∞) and 2 more: the likelihood" in text
    two = separation.Separation("complete", {"(intercept)": 1, "x": -1, "z": 1})
    assert "completely separated by 'x' (towards 'no'), 'z' (towards 'yes')" in messages.separation_message(
        two, np.array(["no", "yes"])
    )


@pytest.mark.parametrize(("n_iter", "words"), [(99, "More iterations would not help"), (100, "Raise max_iter=100")])
def test_a_fit_that_stops_early_says_what_to_try(n_iter: int, words: str) -> None:
    assert messages.remedy("newton", 100, n_iter).startswith(words)


def test_a_fit_that_stops_early_is_not_told_to_use_the_solver_that_it_has_or_cannot_have() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 5)), rng.integers(0, 2, 200)
    for model in (LogisticRegression(LaplacePrior(0.5), max_iter=1), LogisticRegression(solver="newton", max_iter=1)):
        with pytest.warns(ConvergenceWarning, match=r"Raise max_iter=1 or tol\.$"):
            model.fit(X * 10.0 ** np.arange(5) + y[:, None], y)
    assert messages.remedy("lbfgs", 100, 100).endswith("or use solver='newton'.")


@pytest.mark.parametrize("K", [2, 3])
def test_columns_that_rounding_makes_dependent_are_named(K: int) -> None:
    rng = np.random.default_rng(0)
    x, other = rng.normal(size=(2, 300))
    y = (x + rng.normal(size=300) > 0).astype(int) + (K - 2) * (rng.normal(size=300) > 0.5)
    X = np.column_stack([other, 1e10 * x, 1e10 * x])
    with pytest.warns(ConvergenceWarning, match=r"Columns 'x1', 'x2' are linear combinations of each other"):
        LogisticRegression(1.0).fit(X, y)
    assert LogisticRegression(1.0).fit(X[:, :2], y).certificate_.converged


@pytest.mark.parametrize("K", [2, 3])
def test_the_state_of_a_fit_gives_back_its_weights(K: int) -> None:
    """Under a prior whose mean is not zero, which all classes share in part."""
    rng = np.random.default_rng(K)
    X, y = rng.normal(size=(60, 2)) + 1.0, rng.integers(0, K, 60)
    mean = np.array([0.5, -1.0]) if K == 2 else np.array([[0.5, -1.0], [2.0, 0.0], [1.0, 1.0]])
    model = LogisticRegression(GaussianPrior(scale=0.7, mean=mean)).fit(X, y)
    assert model._learned is not None
    np.testing.assert_allclose(model._learned.weights(), np.column_stack([model.intercept_, model.coef_]), rtol=1e-9)
    if K == 3:
        np.testing.assert_allclose(model.coef_.mean(axis=0), mean.mean(axis=0), rtol=1e-8, atol=1e-12)


@pytest.mark.filterwarnings("ignore::oddsmith.errors.LevelsWarning")
@pytest.mark.parametrize(("most", "counted"), [(522, False), (521, True)])
def test_levels_that_lack_a_class_are_counted_where_weights_are_many(
    most: int, counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three classes, and 261 weights of each against the first."""
    pytest.importorskip("pandas")
    stated = LogisticRegression()._problem(*table(3000, 260, 3, 3), None, None, {}, reset=True)[1]
    monkeypatch.setattr(one_class_levels, "_fit_towards_infinity", lambda given: "a fit")
    set_policy(monkeypatch, largest_hessian=most)
    found = one_class_levels.fit_levels_of_one_class(stated, np.arange(3))
    assert (found is not None and found[0] == "a fit") == counted


def test_a_level_without_a_column_that_lacks_a_class_moves_the_intercept() -> None:
    rows = SplitRows((CodeRows(np.array([0, 0, 0, 1, 1, 1], dtype=np.int8), 2, dropped=0),))
    source = MemorySource(rows, np.array([0, 1, 1, 0, 1, 2], dtype=np.int32), 3)
    assert one_class_levels.find_absent_classes(source, intercept=True).tolist() == [[0.0, 0.0], [-1.0, 1.0]]
    assert one_class_levels.find_absent_classes(source, intercept=False).tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.filterwarnings("ignore::oddsmith.errors.LevelsWarning")
@pytest.mark.parametrize(("pure", "how"), [(260, "completely"), (5, "quasi-completely")])
def test_levels_all_of_one_class_separate_completely(pure: int, how: str) -> None:
    pytest.importorskip("pandas")
    with pytest.warns(SeparationWarning, match=f"are {how} separated"):
        LogisticRegression().fit(*table(3000, 260, pure))


def test_levels_of_one_class_are_counted_by_a_fold() -> None:
    """Of three levels and one without a column: 3 rows of the first class, and of the second no more than rounding."""
    sums = SimpleNamespace(weight=np.array([[2.0, 0.0], [1.0, 3.0], [0.0, 4.0]]), total=np.array([6.0, 7.0 + 6e-6]))
    form = SimpleNamespace(M=3, factors=[(0, 3)], products=[])
    source = SimpleNamespace(form=form, shape=None)
    engine = SimpleNamespace(fold=lambda statistic, given, shape: sums)
    for intercept, expected in ((True, [-1.0, 0.0, 1.0, 2.0]), (False, [0.0, -1.0, 0.0, 1.0])):
        stated: Any = SimpleNamespace(source=source, K=2, engine=engine, intercept=intercept)
        found = _one_class_direction(stated)
        assert found is not None and found[0].tolist() == expected
    sums.total[1] = 7.0 + 8e-6
    assert _one_class_direction(stated)[0].tolist() == [0.0, -1.0, 0.0, 1.0]  # type: ignore[index]
    stated.intercept = True
    assert _one_class_direction(stated)[0].tolist() == [0.0, -1.0, 0.0, 1.0]  # type: ignore[index]


def test_a_level_without_a_column_is_no_weight_of_a_model_without_an_intercept() -> None:
    rows = SplitRows((CodeRows(np.array([0, 0, 1, 1, 2, 2], dtype=np.int8), 3, dropped=0),))
    source = MemorySource(rows, np.array([1, 1, 0, 0, 0, 1], dtype=np.int32), 2)
    without = one_class_levels.find_one_class_levels(source, intercept=False)
    assert without is not None
    assert without.left.tolist() == [True, True, False, False, True, True]
    assert without.direction.tolist() == [0.0, -1.0, 0.0]
    beside = one_class_levels.find_one_class_levels(source, intercept=True)
    assert beside is not None and beside.left.tolist() == [False, False, False, False, True, True]
    assert np.sign(beside.direction).tolist() == [1.0, -1.0, -1.0]


def test_rows_of_weight_zero_make_no_level_of_two_classes() -> None:
    rows = SplitRows((CodeRows(np.array([0, 0, 1, 1, 2, 2], dtype=np.int8), 3, dropped=0),))
    s = np.array([1.0, 1.0, 1.0, 0.0, 1.0, 1.0])
    source = MemorySource(rows, np.array([0, 1, 0, 1, 0, 1], dtype=np.int32), 2, s)
    found = one_class_levels.find_one_class_levels(source, intercept=True)
    assert found is not None and found.left.tolist() == [True, True, False, False, True, True]


def test_a_class_without_rows_counts_as_half_a_row_at_the_start() -> None:
    assert log_odds(np.array([6.0, 0.0, 3.0]), None) == pytest.approx(np.log([0.5 / 6.0, 0.5]))
    assert log_odds(np.array([6.0, 0.0]), LINKS["probit"]) == pytest.approx(LINKS["probit"].link(np.array([0.5 / 6.5])))


@pytest.mark.parametrize(("columns", "formed"), [(3000, True), (3001, False)])
def test_products_of_three_thousand_columns_are_formed(columns: int, formed: bool) -> None:
    X, none = np.zeros((2, 3001)), np.zeros(3001)
    descent = TwoClassDescent(
        X=X,
        t=np.array([0, 1], dtype=np.int32),
        s=np.ones(2),
        offset=np.zeros(2),
        strength=none,
        ridge=none,
        intercept=True,
    )
    descent.choose(np.arange(columns))
    assert (descent.gram is not None) == formed
    assert descent.columns is not None and descent.columns.count == columns


def test_a_fit_without_a_hessian_goes_on_without_one() -> None:
    """More columns than a Hessian is formed of, and few rows: the classes are separated, and the fit goes on."""
    X = np.random.default_rng(0).normal(size=(60, 2600))
    with pytest.warns(SeparationWarning, match="completely separated"):
        model = LogisticRegression().fit(X, np.arange(60) % 2)
    assert isinstance(model.plan_.solver, TruncatedNewton) and model.score(X, np.arange(60) % 2) == 1.0


def test_two_large_factors_without_a_prior_form_no_hessian() -> None:
    rng = np.random.default_rng(0)
    levels = {name: rng.integers(0, 4000, 12_000).astype(str) for name in ("a", "b")}
    frame, y = pandas.DataFrame({**levels, "x": rng.normal(size=12_000)}), rng.integers(0, 2, 12_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression().fit(frame, y)
    assert isinstance(model.plan_.solver, TruncatedNewton) and not model.certificate_.optimum_exists
