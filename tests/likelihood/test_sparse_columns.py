"""Paths over sparse columns: steps in the kernel, extrapolation along a path."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from oddsmith import LaplacePrior, LogisticRegression, regularization_path
from oddsmith.kernels import native
from oddsmith.kernels.columns import MatrixColumns
from oddsmith.likelihood import two_class_descent
from oddsmith.likelihood.gram_model import GramModel
from oddsmith.likelihood.known_products import KnownProducts
from oddsmith.likelihood.product_columns import ROW_PARTS, SparseProductColumns, row_starts
from oddsmith.likelihood.sparse_path import solve_path
from oddsmith.likelihood.sparse_problem import SparseProblem
from oddsmith.rows.sparse import LateRows
from oddsmith.solvers import policy


@pytest.fixture(autouse=True)
def many_columns(monkeypatch):
    """Make any table one of many columns."""
    monkeypatch.setattr(policy, "POLICY", replace(policy.POLICY, sparse_hessian=0))


def sparse_table(rows=300, columns=80, alike=0.0, seed=1):
    """Return a sparse table and labels; columns are alike where the third is not zero."""
    rng = np.random.default_rng(seed)
    there = rng.random((rows, columns)) < 0.3
    X = (rng.normal(size=(rows, columns)) + alike * rng.normal(size=(rows, 1))) * there
    t = (X[:, 0] - X[:, 3] + 0.5 * X[:, 7] + rng.logistic(size=rows) > 0).astype(int)
    return sparse.csc_array(X), t


def descent_of(X, t, gaussian=None, **given):
    """Return a problem with its descent at the null model."""
    prior = LaplacePrior(1.0, gaussian=gaussian)
    problem = LogisticRegression(prior)._problem(X, t, given.get("s"), given.get("offset"), {}, reset=True)[1]
    stated = SparseProblem.of(problem)
    stated.start_columns(stated.null_point().w)
    return stated, stated.column_descent()


@pytest.mark.parametrize("level", [level for level in native.available() if level != "reference"])
@pytest.mark.parametrize("case", ["plain", "weights", "offset", "ridge", "no intercept", "drifted"])
@pytest.mark.parametrize("stored", ["sparse", "C", "F"])
def test_a_step_in_the_kernel_is_the_step_in_numpy(case, stored, level):
    """Both end at points of the same value and gap; the dual point has these products, and its gap bounds the truth."""
    X, t = sparse_table()
    X = X if stored == "sparse" else np.asarray(X.toarray(), order=stored)
    rng = np.random.default_rng(2)
    given = {"s": rng.uniform(0.5, 2.0, 300)} if case == "weights" else {}
    given |= {"offset": rng.normal(size=300)} if case == "offset" else {}
    with native.using(level):
        stated, descent = descent_of(X, t, 2.0 if case == "ridge" else None, **given)
        descent.intercept = case != "no intercept"
        scale, before = 0.1, 0.07
        at = stated.step_columns(before, tol=1e-3, max_iter=50, before=0.05)
        penalty = descent.strength / scale
        descent.choose(np.arange(80))
        descent.gram.h = None
        if case == "drifted":  # the products are formed anew within the step
            descent.gram.move_to(np.linspace(1e-3, 0.2, 300))
        start = replace(at, steps=0)
        ours = descent._step_in_kernel(descent.gram, start, penalty, 1e-9)
        theirs = descent._step_on_products(descent.gram, start, penalty, 1e-9)
        weight = descent.penalty(ours.x, penalty)
        best = stated.step_columns(scale, tol=1e-12, max_iter=50, before=before)
    assert ours.value == pytest.approx(theirs.value, rel=1e-5)
    assert ours.gap >= ours.value - best.value - 1e-12 * best.value
    np.testing.assert_allclose(X[:, ours.columns].T @ ours.theta, ours.products, atol=1e-11)
    np.testing.assert_allclose(ours.a, X[:, ours.columns] @ ours.x + ours.b + descent.offset, atol=1e-11)
    assert ours.loss + weight == pytest.approx(ours.value, rel=1e-13)


def test_a_step_in_the_kernel_says_what_it_cannot_do(monkeypatch):
    """Curvatures that are far from those of the products are returned; columns that are alike are left to a factor."""
    if native.kernels() is None:
        pytest.skip("without kernels there is no step in them")
    X, t = sparse_table(alike=30.0)
    stated, descent = descent_of(X, t)
    descent.choose(np.arange(80))
    penalty, moved = descent.strength / 0.05, []
    move = GramModel.move_to
    monkeypatch.setattr(GramModel, "move_to", lambda gram, h: (moved.append(h), move(gram, h))[1])
    descent.gram.move_to(np.linspace(1e-3, 0.2, 300))
    assert descent._step_in_kernel(descent.gram, replace(stated.point, steps=0), penalty, 1e-12) is None
    assert len(moved) == 2 and not descent.gram.quick


@pytest.mark.parametrize("away", [0.0, 2e-16, 1e-12])
def test_scales_that_rounding_sets_apart_are_not_extrapolated(away):
    """Between two scales that hardly differ lies nothing that the next could be extrapolated from."""
    X, t = sparse_table()
    model = LogisticRegression(LaplacePrior(1.0))
    stated = SparseProblem.of(model._problem(X, t, None, None, {}, reset=True)[1])
    smallest = stated.smallest_scale(stated.null_point())
    scales = smallest * (1.0 + away) * np.geomspace(1.0, 30.0, 12)
    found = regularization_path(X, t, scales=np.concatenate([[smallest], scales]), tol=1e-9)
    assert found.gap.max() <= 1e-9


@pytest.mark.parametrize("how", ["plain", "weights", "offset", "ridge", "float32"])
def test_a_path_over_sparse_columns_is_that_of_the_reference_on_any_number_of_threads(how):
    X, t = sparse_table()
    rng = np.random.default_rng(2)
    X = X.astype(np.float32) if how == "float32" else X
    given = {"sample_weight": rng.uniform(0.0, 2.0, 300)} if how == "weights" else {}
    given |= {"offset": rng.normal(size=300)} if how == "offset" else {}
    prior = LaplacePrior(1.0, gaussian=1.0) if how == "ridge" else LaplacePrior(1.0)
    scales = np.geomspace(0.02, 2.0, 25)
    best, found = native.available()[-1], []
    for level, threads in (("reference", 2), (best, 1), (best, 2), (best, 3)):
        with native.using(level):
            path = regularization_path(X, t, scales=scales, prior=prior, tol=1e-9, threads=threads, **given)
            assert path.gap.max() <= 1e-9
            found.append(path)
    for path in found[1:]:
        np.testing.assert_allclose(path.objective, found[0].objective, rtol=2e-9)
    assert list(found[0].names) == [f"x{j}" for j in range(80)]


@pytest.mark.parametrize(("threads", "parts"), [(1, 0), (2, 1), (3, 2)])
def test_a_path_has_as_many_stretches_as_threads(threads, parts):
    _, descent = descent_of(*sparse_table())
    assert len(descent.shares(threads)) == parts
    assert descent.shares(2) == two_class_descent.TWO_SHARES


def test_columns_that_nearly_matter_begin_in_the_working_set(monkeypatch):
    """The gradient that is extrapolated decides: a smaller share of the penalty takes more columns in."""
    X, t = sparse_table(columns=200)
    problem = LogisticRegression(LaplacePrior(1.0), threads=1)._problem(X, t, None, None, {}, reset=True)[1]
    sizes, choose = [], two_class_descent.TwoClassDescent.choose
    for share in (0.95, 0.2):
        monkeypatch.setattr("oddsmith.likelihood.column_descent.SPARSE_AHEAD_SHARE", share)
        chosen = []
        with monkeypatch.context() as patch:
            patch.setattr(
                two_class_descent.TwoClassDescent,
                "choose",
                lambda self, columns, chosen=chosen: (chosen.append(len(columns)), choose(self, columns))[1],
            )
            assert solve_path(problem, np.geomspace(0.05, 0.3, 8)).gap.max() <= 1e-7
        sizes.append(sum(chosen))
    assert sizes[1] > sizes[0]


def test_parts_of_the_rows_begin_where_they_do_in_each_column():
    X = sparse.random(37, 9, 0.3, format="csc", random_state=0)
    every = MatrixColumns.of(X)
    store = SparseProductColumns(X=every, starts=row_starts(every))
    for some in ([4, 1, 7], [8, 0]):
        store.add(np.array(some))
    assert (store.columns.matrix().toarray() == X.toarray()[:, [4, 1, 7, 8, 0]]).all()
    ends = 37 * np.arange(ROW_PARTS + 1) // ROW_PARTS
    for k, splits in enumerate(store.splits):
        first, end = store.indptr[k : k + 2]
        assert splits.tolist() == (first + np.searchsorted(store.indices[first:end], ends)).tolist()


def test_products_known_to_a_copy_are_its_own():
    columns = MatrixColumns.of(np.eye(9))
    known = KnownProducts.of(columns, 9)
    none = np.zeros(0, dtype=np.intp)
    for u in np.eye(9)[:6]:
        assert known.sizes(u, np.zeros(9), none, np.zeros(0)).tolist() == u.tolist()
    copied, theta = known.copy(), known.theta.copy()
    copied.sizes(np.ones(9), np.zeros(9), none, np.zeros(0))
    assert (known.theta == theta).all()
    assert (copied.theta == 1.0).all(axis=1).any()


def test_rows_far_from_all_others_do_not_make_paths_slow(monkeypatch):
    """Their curvatures change much where those of all rows together hardly do."""
    rng, steps = np.random.default_rng(0), []
    X = sparse.random(2_000, 1_000, 0.02, format="csr", random_state=1, data_rvs=lambda k: rng.pareto(2.0, k) + 0.1)
    y = rng.random(2_000) < 1.0 / (1.0 + np.exp(-(X @ rng.normal(size=1_000)) / 3.0))
    solve = two_class_descent.TwoClassDescent.solve
    monkeypatch.setattr(
        two_class_descent.TwoClassDescent, "solve", lambda *a, **k: (steps.append((at := solve(*a, **k)).steps), at)[1]
    )
    path = regularization_path(X, y, n=30)
    assert path.gap.max() <= 1e-7
    assert sum(steps) <= 64  # 57; 71 where products serve curvatures further away


def test_a_path_by_columns_arranges_no_rows(monkeypatch):
    monkeypatch.setattr(policy, "POLICY", replace(policy.POLICY, large_elements=0.0, largest_hessian=0))
    X, t = sparse_table(rows=60, columns=900)

    def solved(X):
        problem = LogisticRegression(LaplacePrior(1.0))._problem(X, t, None, None, {}, reset=True)[1]
        return problem.source.X, solve_path(problem, n=3).weights

    (late, found), (_, expected) = solved(X), solved(X.tocsr())
    assert isinstance(late, LateRows) and "data" not in vars(late)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(late)).toarray(), X.toarray())
