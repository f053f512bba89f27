"""Folds of a cross-validation that share their passes: their losses and certificates are those of folds alone."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import KFold, ShuffleSplit

from oddsmith import LaplacePrior, LogisticRegression, regularization_path
from oddsmith.engines import MemorySource
from oddsmith.likelihood import fold_batch
from oddsmith.likelihood.fold_batch import MOST_FOLDS, FoldBatch, FoldPoint, FoldRows
from oddsmith.likelihood.sparse_path import solve_path
from oddsmith.prior_selection.sparse_scale import cross_validated_loss, over_rows
from oddsmith.solvers import policy

ROWS, COLUMNS = 3_000, 12
SCALES = np.geomspace(0.002, 0.2, 9)


def table(seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(ROWS, COLUMNS)) @ (np.eye(COLUMNS) + 0.3)
    t = (Z[:, 0] - Z[:, 3] + 0.3 * Z[:, 7] + rng.logistic(size=ROWS) > 0.5).astype(int)
    return Z * np.geomspace(0.3, 3.0, COLUMNS) + np.arange(COLUMNS), t


def make_problem(X, t, s=None, offset=None, prior=None, **how):
    model = LogisticRegression(LaplacePrior(1.0, **(prior or {})), **how)
    return model._problem(X, t, s, offset, {}, reset=True)[1]


@pytest.fixture
def together(monkeypatch):
    """Let folds of few rows share passes; return a function that changes more of the policy."""

    def change(**more):
        monkeypatch.setattr(policy, "POLICY", replace(policy.POLICY, sparse_products=0.0, fold_range_rows=5, **more))

    change()
    return change


RNG = np.random.default_rng(3)
PROBLEMS = {
    "two classes": {},
    "weights": {"s": RNG.integers(0, 3, ROWS).astype(float)},
    "offsets": {"offset": RNG.normal(size=ROWS)},
    "elastic net": {"prior": {"gaussian": 0.1}},
    "groups": {"prior": {"groups": [[0, 1, 2], [3, 4], [7, 8, 9]]}},
    "free column": {"prior": {"factors": [0.0] + [1.0] * (COLUMNS - 1)}},
    "no intercept": {"fit_intercept": False},
}


def losses_alone(problem, splits, tol=1e-11):
    """The losses of folds by paths on copies of their rows, scale by scale."""
    guide = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("oddsmith.prior_selection.sparse_scale.advance_together", lambda stated: False)
        patch.setattr(policy, "POLICY", replace(policy.POLICY, sparse_products=np.inf))
        return cross_validated_loss(problem, splits, SCALES, tol, guide)


@pytest.mark.parametrize("name", PROBLEMS)
def test_losses_are_those_of_folds_alone(name, together):
    X, t = table()
    problem = make_problem(X, t, **PROBLEMS[name])
    splits = list(KFold(3, shuffle=True, random_state=0).split(X))
    loss, error = cross_validated_loss(problem, splits, SCALES, 1e-11)
    expected, its_error = losses_alone(problem, splits)
    np.testing.assert_allclose(loss, expected, rtol=1e-7)
    np.testing.assert_allclose(error, its_error, rtol=1e-4)


STORED = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "sparse": lambda X: sparse.csr_array(np.where(np.abs(X - X.mean(axis=0)) > X.std(axis=0), X, 0.0)),
}


@pytest.mark.parametrize("name", STORED)
def test_rows_are_stored_in_any_way(name, together):
    X, t = table()
    problem = make_problem(STORED[name](X), t)
    splits = list(KFold(4, shuffle=True, random_state=0).split(np.zeros((ROWS, 1))))
    loss, _ = cross_validated_loss(problem, splits, SCALES, 1e-11)
    np.testing.assert_allclose(loss, losses_alone(problem, splits)[0], rtol=1e-7)


WAYS = {
    "little memory": {"sparse_batch_bytes": 1e3},
    "no Hessians of folds": {"fold_hessian_rounds": 0.0},
    "one group": {"fold_group": 1e9},
    "one by one at last": {"sparse_batch_rounds": 1},
}


@pytest.mark.parametrize("how", WAYS)
def test_all_ways_lead_to_one_loss(how, together):
    X, t = table()
    problem, splits = make_problem(X, t), list(KFold(3).split(X))
    together(**WAYS[how])
    np.testing.assert_allclose(
        cross_validated_loss(problem, splits, SCALES, 1e-11)[0], losses_alone(problem, splits)[0], rtol=1e-7
    )


@pytest.mark.parametrize("missed", ["coordinates", "steps"])
def test_points_whose_group_does_not_serve_go_on_over_all_coordinates(missed, together, monkeypatch):
    X, t = table()
    problem, splits, widened = make_problem(X, t), list(KFold(3).split(X)), []
    if missed == "coordinates":
        monkeypatch.setattr(FoldBatch, "_members", lambda self, group: np.union1d([0], np.flatnonzero(group.w)))
    else:
        monkeypatch.setattr(fold_batch, "FEW_STEPS", 1)
        together(fold_group=2.0)
    original = FoldBatch._widened
    monkeypatch.setattr(FoldBatch, "_widened", lambda *given: (widened.append(1), original(*given))[1])
    loss, _ = cross_validated_loss(problem, splits, SCALES, 1e-11)
    assert widened
    np.testing.assert_allclose(loss, losses_alone(problem, splits)[0], rtol=1e-7)


@pytest.mark.parametrize("name", PROBLEMS)
def test_gaps_of_folds_are_never_below_the_truth(name, together, monkeypatch):
    """Also where a gap comes from a part of the coordinates, at a tolerance that leaves one."""
    X, t = table()
    problem, splits, ends = make_problem(X, t, **PROBLEMS[name]), list(KFold(3).split(X)), []
    moved = FoldPoint._moved_gap

    def kept(self, H, e, inner, target):
        gap = moved(self, H, e, inner, target)
        ends.append((self, self.value, gap))
        return gap

    monkeypatch.setattr(FoldPoint, "_moved_gap", kept)
    points = FoldBatch._points
    placed = {}

    def numbered(self, groups, tol):
        found = points(self, groups, tol)
        placed.update({id(point): (at, point) for at, point in found.items()})
        return found

    monkeypatch.setattr(FoldBatch, "_points", numbered)
    cross_validated_loss(problem, splits, SCALES, 1e-4)
    truth = [
        solve_path(over_rows(problem, problem.memory_source.take(train)), SCALES, tol=1e-12) for train, _ in splits
    ]
    parts = 0
    for point, value, gap in ends:
        k, i = placed[id(point)][0]
        best = truth[k].objective[i] - truth[k].gap[i] * max(1.0, abs(truth[k].objective[i]))
        assert gap >= value - truth[k].objective[i] - 1e-12 * value, (k, i, gap, value - best)
        parts += len(point.group.members) < COLUMNS + 1
    assert len(ends) >= 10 and parts > 0


def test_folds_that_overlap_share_their_passes(together):
    X, t = table()
    problem, splits = make_problem(X, t), list(ShuffleSplit(3, random_state=0).split(X))
    rows = FoldRows.of(problem.memory_source, splits)
    assert rows is not None and len(rows.ranges) > 3
    loss, _ = cross_validated_loss(problem, splits, SCALES, 1e-11)
    np.testing.assert_allclose(loss, losses_alone(problem, splits)[0], rtol=1e-7)


def test_folds_with_rows_twice_or_too_many_folds_go_alone(together):
    n = 400
    source = MemorySource(np.zeros((n, 1)), np.zeros(n, dtype=np.int32), K=1)
    twice = np.repeat(np.arange(n // 2), 2)
    assert FoldRows.of(source, [(twice, np.arange(n // 2, n))]) is None
    assert FoldRows.of(source, list(KFold(MOST_FOLDS).split(source.X))) is not None
    assert FoldRows.of(source, list(KFold(MOST_FOLDS + 1).split(source.X))) is None


def test_losses_do_not_depend_on_threads_and_rows_of_no_weight(together):
    X, t = table()
    s = (np.arange(ROWS) % 7 > 0).astype(float)
    one, two = (regularization_path(X, t, scales=SCALES, cv=4, sample_weight=s, threads=k) for k in (1, 2))
    np.testing.assert_array_equal(one.cv_loss, two.cv_loss)
    some = s > 0
    alone = regularization_path(X[some], t[some], scales=SCALES, cv=4)
    np.testing.assert_allclose(one.cv_loss, alone.cv_loss, rtol=1e-2)  # other folds
