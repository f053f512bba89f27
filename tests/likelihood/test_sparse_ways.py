"""Every way to sparse weights leads to one optimum: all columns, working sets, column by column, several scales."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import brentq
from scipy.special import expit
from tests.sparse_optimum import minimise
from tests.sparse_problems import random_problem

from oddsmith import LaplacePrior, LogisticRegression, regularization_path
from oddsmith.engines.memory import assisted
from oddsmith.errors import ConvergenceWarning
from oddsmith.kernels import native
from oddsmith.kernels.columns import ClassModel, MatrixColumns
from oddsmith.kernels.packed_columns import Team
from oddsmith.likelihood.fit import make_objective
from oddsmith.likelihood.gram_model import GramModel, LowPrecisionColumns
from oddsmith.likelihood.known_products import KnownProducts
from oddsmith.likelihood.product_columns import DenseProductColumns, SparseProductColumns, row_starts
from oddsmith.likelihood.sparse_batch import BatchPoint, PathBatch
from oddsmith.likelihood.sparse_path import solve_path
from oddsmith.likelihood.sparse_problem import SparseProblem
from oddsmith.solvers import policy


@pytest.fixture
def many_columns(monkeypatch):
    """Make any table one of many columns."""
    monkeypatch.setattr(policy, "POLICY", replace(policy.POLICY, sparse_hessian=0))


@pytest.mark.parametrize("way", ["by columns", "working sets"])
def test_many_columns_have_true_gaps_and_the_optimum(way, many_columns, monkeypatch):
    if way == "working sets":
        monkeypatch.setattr(SparseProblem, "by_columns", False)
    for number in range(0, 500, 3 if way == "by columns" else 17):
        problem = random_problem(number)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(LaplacePrior(**problem.prior), tol=1e-9)
            model.fit(problem.X, problem.t, **problem.rows)
        W, judged = np.vstack([model.intercept_, model.coef_.T]), problem.judged()
        optimum = minimise(judged, W)
        truth, certificate = float(judged.value(W) - optimum.value), model.certificate_
        assert certificate.converged, f"{way}, {problem}"
        assert certificate.gap >= truth - 1e-13 * float(optimum.value), f"{way}, {problem}"


def test_columns_that_are_missing_are_added_where_rounding_ends_the_descent():
    """A tolerance near rounding: the gap over the working set stalls, that over all columns is still large."""
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, 1500)) * (rng.random((60, 1500)) < 0.1)
        t = (X[:, :10].sum(axis=1) + rng.logistic(size=60) > 0.0).astype(int)
        found = regularization_path(sparse.csc_array(X), t, n=6, tol=1e-13)
        assert found.gap.max() <= 1e-13


def path(X, t, *, scales, guide=None, **prior):
    model = LogisticRegression(LaplacePrior(1.0, **prior))
    return solve_path(model._problem(X, t, None, None, {}, reset=True)[1], scales, tol=1e-9, guide=guide)


@pytest.mark.parametrize("stored", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("classes", [2, 3])
def test_paths_by_columns_and_by_hessians_are_one(stored, classes, monkeypatch):
    rng = np.random.default_rng(classes)
    X = rng.normal(size=(150, 20)) * (rng.random((150, 20)) < 0.6)
    t = np.argmax(X[:, :classes] + rng.gumbel(size=(150, classes)), axis=1)
    scales = np.geomspace(0.03, 3.0, 8)
    one = path(stored(X), t, scales=scales)
    monkeypatch.setattr(policy, "POLICY", replace(policy.POLICY, sparse_hessian=0))
    other = path(stored(X), t, scales=scales)
    np.testing.assert_allclose(other.objective, one.objective, rtol=2e-9)
    np.testing.assert_allclose(other.weights[:, :, 1:], one.weights[:, :, 1:], atol=2e-4)
    assert max(one.gap.max(), other.gap.max()) <= 1e-9


TOGETHER = {
    "one by one at first": {"sparse_rows_per_weight": 10**6},
    "from a sample": {"sparse_rows_per_weight": 1},
    "little memory": {"sparse_batch_bytes": 0.0},
    "slow points": {"sparse_batch_rounds": 1},
}


def logistic_table(rows=3_000, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(rows, 12)) @ (np.eye(12) + 0.4)
    t = (Z[:, 0] - Z[:, 3] + rng.logistic(size=rows) > 0).astype(int)
    return Z * np.geomspace(0.3, 3.0, 12) + np.arange(12), t


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("how", TOGETHER)
def test_scales_that_advance_together_are_those_of_fits_alone(how, order, monkeypatch):
    X, t = logistic_table()
    scales = np.geomspace(0.001, 0.1, 10)
    alone = path(X, t, scales=scales)
    assert alone.guide is None
    settings = {"sparse_products": 0.0, "sparse_stride": 4, **TOGETHER[how]}
    monkeypatch.setattr(policy, "POLICY", replace(policy.POLICY, **settings))
    together = path(np.asarray(X, order=order), t, scales=scales)
    np.testing.assert_allclose(together.objective, alone.objective, rtol=2e-9)
    assert together.gap.max() <= 1e-9
    if how == "from a sample":
        assert together.passes < 40  # ten scales by themselves would take so many at least


def test_a_guide_from_other_rows_is_a_start_and_nothing_more(monkeypatch):
    X, t = logistic_table()
    scales = np.geomspace(0.001, 0.1, 10)
    monkeypatch.setattr(policy, "POLICY", replace(policy.POLICY, sparse_products=0.0, sparse_rows_per_weight=10**6))
    other = path(3.0 * X[:2_000] + 1.0, t[:2_000], scales=scales)
    alone = path(X, t, scales=scales)
    guided = path(X, t, scales=scales, guide=other.guide)
    np.testing.assert_allclose(guided.objective, alone.objective, rtol=2e-9)
    assert guided.gap.max() <= 1e-9
    near = path(X[:-30], t[:-30], scales=scales, guide=alone.guide)
    assert near.passes < 0.7 * alone.passes
    elsewhere = path(X, t, scales=2.0 * scales, guide=alone.guide)  # of other scales: it is left alone
    assert elsewhere.gap.max() <= 1e-9


def test_a_path_beyond_the_classes_is_refused_with_a_sentence():
    from oddsmith.errors import InvalidInputError

    with pytest.raises(InvalidInputError, match="all weights are zero at any scale"):
        path(np.zeros((6, 2)), np.array([0, 1, 0, 1, 0, 1]), scales=None)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_step_that_fails_is_judged_at_its_own_scale(classes, many_columns):
    """No step lowers the objective: the point stays, and its value and gap are those of the new scale."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 6))
    t = np.argmax(X[:, :classes] + rng.gumbel(size=(60, classes)), axis=1)
    model = LogisticRegression(LaplacePrior(1.0))
    stated = SparseProblem.of(model._problem(X, t, None, None, {}, reset=True)[1])
    stated.null_point()
    at = stated.step_columns(0.1, tol=1e-9, max_iter=50, before=0.1)
    descent, penalty = stated.descent, stated.descent.strength / 5.0
    descent.choose(np.arange(6))
    away = 1e6 * np.ones_like(at.weights_of(descent.chosen))
    uphill = 1e9 * descent.losses(at.a)[1]
    stays = descent.stepped(at, away, 0.0 * at.b, uphill, at.theta, penalty)
    np.testing.assert_array_equal(stays.all_weights(6), at.all_weights(6))
    assert stays.value == pytest.approx(at.loss + descent.penalty(stays.x, penalty), rel=1e-12)
    best = stated.step_columns(5.0, tol=1e-9, max_iter=50, before=0.1)
    assert stays.gap >= stays.value - best.value > 0.0


def curved_columns(rows=80, columns=30):
    """Return a matrix whose columns are alike, curvatures of its rows, ridges, and its curvature less the means."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(rows, columns)) @ (np.eye(columns) + 0.5)
    h, ridge = rng.uniform(0.01, 0.25, rows), np.linspace(0.0, 1.0, columns)
    centred = X - X.T @ h / h.sum()
    return X, h, ridge, centred.T @ (h[:, None] * centred) + np.diag(ridge)


def products_of(X, stored="dense", team=None):
    """Return the columns of a matrix, none of them taken in yet."""
    if stored == "dense":
        return DenseProductColumns(X=X, team=team)
    columns = MatrixColumns.of(X)
    return SparseProductColumns(X=columns, starts=row_starts(columns))


@pytest.mark.parametrize("level", native.available())
@pytest.mark.parametrize("centred", [True, False])
def test_products_of_sparse_columns_are_those_of_dense_ones(level, centred):
    """Columns come in several parts, some of them without any entry, and rows may have none either."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 90)) * (rng.random((50, 90)) < 0.2)
    X[:, [3, 40]], X[7], h, ridge = 0.0, 0.0, rng.uniform(0.01, 0.25, 50), np.linspace(0.0, 1.0, 90)
    found = []
    with native.using(level):
        for store in (products_of(X), products_of(np.asfortranarray(X)), products_of(sparse.csc_array(X), "sparse")):
            model = GramModel(store=store, all_ridge=ridge, centred=centred)
            model.add(np.arange(5, 50))
            model.move_to(h)
            for some in (np.array([3, 60]), np.arange(60, 64), np.arange(90)):
                model.add(some)
            exact = model.columns.matrix() @ ridge
            exact = exact if isinstance(exact, np.ndarray) else exact.toarray()
            found.append(
                (model.G[:90, :90], model.mean, model.columns.dots(h), model.columns.activations(ridge), exact)
            )
    for ours, *others in zip(*found, strict=True):
        for theirs in others:
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
def test_products_of_columns_that_come_one_after_another(threads):
    """Columns may be added before and after the curvatures are known; the bits do not depend on threads."""
    X, h, ridge, exact = curved_columns(80, 90)
    found = []
    for number in (threads, 3):
        model = GramModel(store=products_of(X, team=(team := Team())), all_ridge=ridge, centred=True)

        def form(model=model, team=team):
            model.add(np.arange(5, 50))
            model.move_to(h)
            model.add(np.arange(90))
            team.end()

        assisted(form, team.help, number)
        found.append(model.G[:90, :90].copy())
    order = model.chosen
    assert order.tolist() == [*range(5, 50), *range(5), *range(50, 90)]
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0], exact[np.ix_(order, order)], atol=1e-5 * exact.max())


@pytest.mark.parametrize("level", native.available())
@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("spread", [0.0, 6.0])
def test_products_in_low_precision_are_within_their_error(spread, size, level):
    rng = np.random.default_rng(5)
    X = size * (rng.normal(size=(301, 50)) * 10.0 ** rng.uniform(-spread, spread, (301, 50)) + 100.0)
    u = rng.normal(size=301)
    with native.using(level):
        columns = LowPrecisionColumns.of(X, threads=2)
        found, error, some = columns.some_dots(u, np.arange(50)), columns.error(u), np.array([7, 3, 40])
        few = columns.some_dots(u, some)
    exact = X.T.astype(np.longdouble) @ u
    assert (np.abs(found - exact) <= error).all()
    assert (np.abs(few - exact[some]) <= error[some]).all()
    assert (error <= 1e-3 * np.linalg.norm(X, axis=0) * np.linalg.norm(u)).all()


def test_a_support_is_solved_by_a_factor_of_another():
    X, h, ridge, exact = curved_columns()
    model = GramModel(store=products_of(X), all_ridge=ridge, centred=True)
    model.add(np.arange(30))
    model.move_to(h)
    slope = np.random.default_rng(3).normal(size=30)
    for size, support in ((30, np.arange(30)), (31, np.arange(1, 30))):  # the second takes the factor of the first
        found = model._solve(support, slope[support])
        assert model.factor.size == size
        wanted = np.linalg.solve(exact[np.ix_(support, support)], slope[support])
        # one solve in single precision; corrections with residuals in double precision take it to all digits
        np.testing.assert_allclose(found, wanted, atol=3e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("away", [0.0, 0.2])
def test_a_support_is_solved_to_double_precision_by_corrections(away):
    """Whatever the curvatures of the products, residuals meet the conditions; under their own, so do the weights."""
    X, h, ridge, exact = curved_columns()
    model = GramModel(store=products_of(X), all_ridge=ridge, centred=True)
    model.add(np.arange(30))
    model.move_to(h)
    rng = np.random.default_rng(4)
    x, penalty = 50.0 * rng.choice([-1.0, 1.0], size=30), rng.uniform(0.1, 0.2, size=30)
    theta = rng.normal(size=80) + away * X @ rng.normal(size=30)
    theta -= h * theta.sum() / h.sum()
    missed = X.T @ theta + ridge * x + penalty * np.sign(x)
    found, residuals = model.corrected(x, theta, penalty, 1e-14)
    step = -np.linalg.solve(exact, missed)
    np.testing.assert_allclose(found - x, step, atol=1e-8 * np.abs(step).max())
    np.testing.assert_allclose(
        model.moved(step), (X - model.mean) @ step, atol=1e-6 * np.abs(X).max() * np.abs(step).sum()
    )
    rest = X.T @ residuals + ridge * found + penalty * np.sign(x)
    np.testing.assert_allclose(rest, 0.0, atol=1e-8 * np.abs(missed).max())


@pytest.mark.parametrize("level", native.available())
def test_products_are_known_without_reading_all_columns(level, monkeypatch):
    """Sizes above the limit are exact, and no size that is estimated is above it; the kernel reads the same columns."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(60, 400)) * (rng.random((60, 400)) < 0.2)
    X[:, :20] *= 10.0
    known = KnownProducts.of(MatrixColumns.of(sparse.csc_array(X)), 60)
    read, limit, chosen = [], np.full(400, 15.0), np.array([5, 2])
    dots = MatrixColumns.some_dots
    monkeypatch.setattr(MatrixColumns, "some_dots", lambda *given: (read.append(len(given[2])), dots(*given))[1])
    ends = rng.normal(size=60), rng.normal(size=60)
    other = replace(known)
    for share in np.linspace(0.0, 1.0, 12):
        u = (1.0 - share) * ends[0] + share * ends[1] + 0.05 * rng.normal(size=60)
        exact = X.T @ u
        with native.using("reference"):
            sizes = known.sizes(u, limit, chosen, exact[chosen])
        with native.using(level):
            np.testing.assert_allclose(other.sizes(u, limit, chosen, exact[chosen]), sizes, rtol=1e-9)
        above = np.abs(exact) > limit
        assert above.any()
        np.testing.assert_allclose(sizes[above], np.abs(exact)[above], rtol=1e-12)
        assert (sizes[~above] <= limit[~above]).all()
    assert read[0] == 398 and min(read) < 100 and len(known.theta) == len(other.theta)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_stretches_of_a_path_are_the_path(threads, many_columns, monkeypatch):
    """Stretches that are solved at the same time give each point that a path of one stretch does."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(200, 60))
    t = (X[:, 0] - X[:, 3] + rng.logistic(size=200) > 0).astype(int)
    scales = np.geomspace(0.02, 2.0, 25)
    model = LogisticRegression(LaplacePrior(1.0), threads=threads)
    problem = model._problem(X, t, None, None, {}, reset=True)[1]
    found = solve_path(problem, scales, tol=1e-9)
    monkeypatch.setattr("oddsmith.likelihood.sparse_path.SHORT_PATH", 26)
    whole = solve_path(problem, scales, tol=1e-9)
    np.testing.assert_allclose(found.objective, whole.objective, rtol=2e-9)
    np.testing.assert_allclose(found.weights, whole.weights, atol=1e-4)
    assert found.gap.max() <= 1e-9 and found.passes == whole.passes


def test_means_of_classes_bound_the_intercept(monkeypatch):
    X, t = logistic_table()
    X[0, 5], X[1, 7] = 1e4, -1e3  # rare and large: a sample would not know
    t = t * (np.arange(len(t)) % 5 == 0)
    model = LogisticRegression(LaplacePrior(1.0))
    monkeypatch.setattr(policy, "POLICY", replace(policy.POLICY, sparse_products=0.0))
    stated = SparseProblem.of(model._problem(X, t, None, None, {}, reset=True)[1])
    center, scale = stated.coordinates.center, stated.coordinates.scale
    means = np.array([((X - center) / scale)[t == k].mean(axis=0) for k in (0, 1)])
    scales = np.geomspace(0.001, 0.1, 6).tolist()
    batch = PathBatch.begun(stated, scales, stated.null_point(), None, 1e-9)
    optima = batch.solve(1e-9)
    assert batch.mean_bound == pytest.approx(np.abs(means * scale).max(), rel=1e-9)
    for k, optimum in enumerate(optima):
        assert abs(optimum.e.w[0]) <= batch.points[k].penalty.reach


@pytest.mark.parametrize("way", ["all columns", "many columns"])
def test_the_smallest_scale_with_offsets_is_that_of_the_best_intercept(way, monkeypatch):
    if way == "many columns":
        monkeypatch.setattr(policy, "POLICY", replace(policy.POLICY, sparse_hessian=0))
    X, t = logistic_table(300)
    s, offset = np.arange(300) % 3 + 0.5, np.linspace(-1.0, 1.0, 300)
    b = brentq(lambda b: s @ (expit(b + offset) - t), -9.0, 9.0, xtol=1e-15)
    model = LogisticRegression(LaplacePrior(1.0))
    stated = SparseProblem.of(model._problem(X, t, s, offset, {}, reset=True)[1])
    found = stated.smallest_scale(stated.null_point())
    assert found == pytest.approx(1.0 / np.abs(X.T @ (s * (expit(b + offset) - t))).max(), rel=1e-9)


@pytest.mark.parametrize("prior", [{"scale": 1.0, "groups": "class"}, {"scale": 3.0}])
def test_classes_that_are_separated_by_many_columns_converge(prior):
    """Intercepts of all classes may move alike: nothing of a step may go that way."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 900))
    t = np.argmax(X[:, :3] + rng.gumbel(size=(90, 3)), axis=1)
    model = LogisticRegression(LaplacePrior(**prior)).fit(X, t)
    assert model.certificate_.converged
    assert np.abs(model.decision_function(X)).max() < 50.0


def stated_problem(X, t, **prior):
    model = LogisticRegression(LaplacePrior(1.0, **prior))
    return SparseProblem.of(model._problem(X, t, None, None, {}, reset=True)[1])


@pytest.mark.parametrize("classes", [2, 3])
def test_a_step_that_is_too_long_is_halved(classes, many_columns):
    """A goal beyond the optimum: half the way is better than the start, and weights and activations go as far."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 6))
    t = np.argmax(X[:, :classes] + rng.gumbel(size=(60, classes)), axis=1)
    stated = stated_problem(X, t)
    stated.null_point()
    start = stated.step_columns(0.1, tol=1e-9, max_iter=50, before=0.1)
    best = stated.step_columns(5.0, tol=1e-9, max_iter=50, before=0.1)
    descent, penalty = stated.descent, stated.descent.strength / 5.0
    before, ahead = start.all_weights(6)[best.columns], best.x
    assert np.count_nonzero(before) > 0
    descent.chosen = best.columns

    def objective(far):
        x = before + far * (ahead - before)
        return descent.losses(start.a + far * (best.a - start.a))[0] + descent.penalty(x, penalty)

    far = next(far for far in np.arange(2.0, 200.0, 0.5) if objective(0.5 * far) < objective(0.0) < objective(far))
    goal, change, shift = before + far * (ahead - before), far * (best.a - start.a), far * (best.b - start.b)
    new = descent.stepped(start, goal, shift, change, start.theta, penalty)
    np.testing.assert_allclose(new.x, 0.5 * (before + goal), rtol=1e-12)
    rest = new.a - (X[:, best.columns] @ new.x + new.b)
    rest = rest if classes == 2 else rest - rest.mean(axis=1, keepdims=True)  # what all classes share means nothing
    np.testing.assert_allclose(rest, 0.0, atol=1e-9)
    assert best.value < new.value < start.loss + descent.penalty(before, penalty)


def test_the_support_of_a_softmax_model_is_solved_to_where_its_slopes_vanish(many_columns):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 4))
    t = np.argmax(X[:, :3] + rng.gumbel(size=(200, 3)), axis=1)
    stated = stated_problem(X, t, gaussian=3.0)
    stated.null_point()
    descent = stated.column_descent()
    descent.choose(np.arange(4))
    p = np.full((200, 3), 1.0 / 3.0)
    model = ClassModel.at(p, descent.own, descent.s, descent.ridge, intercept=True)
    x = np.where(np.eye(4, 3) > 0.0, 0.4, 0.0)
    z, b, penalty = X @ x, np.zeros(3), np.full(4, 0.01)
    descent._solve_support(model, z, b, x, penalty)
    slopes = X.T @ model.residuals(z) + descent.ridge[:, None] * x + penalty[:, None] * np.sign(x)
    assert np.count_nonzero(x) == 3
    np.testing.assert_allclose(slopes[x != 0.0], 0.0, atol=1e-8)
    np.testing.assert_allclose(model.residuals(z).sum(axis=0), 0.0, atol=1e-8)
    np.testing.assert_allclose(z, X @ x + b, atol=1e-10)


def test_a_guide_states_its_hessian_in_other_coordinates():
    X, t = logistic_table(400)
    one = stated_problem(X, t)
    frame = replace(
        one.coordinates, center=one.coordinates.center + 0.7, scale=one.coordinates.scale * np.arange(1, 13)
    )
    other = replace(one, coordinates=frame, objective=make_objective(one.problem, frame)[0])
    w = 0.1 * np.arange(13.0)
    e = one.objective.evaluate(w, 2)
    point = BatchPoint(penalty=one.unit, target=w, H=2.0 * e.dense_hessian, e=e)
    doubled = replace(one, objective=replace(one.objective, weight=2.0 * one.objective.weight))
    guide = PathBatch(stated=doubled, scales=[1.0], null=e, points={0: point})
    ((moved, H),) = guide.starts(other)
    np.testing.assert_allclose(other.user_weights(moved), one.user_weights(w), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(H, other.objective.evaluate(moved, 2).dense_hessian, rtol=1e-9, atol=1e-9)


def test_an_elastic_net_advances_together_as_alone(monkeypatch):
    X, t = logistic_table()
    scales = np.geomspace(0.001, 0.1, 6)
    alone = path(X, t, scales=scales, gaussian=0.05)
    monkeypatch.setattr(policy, "POLICY", replace(policy.POLICY, sparse_products=0.0))
    together = path(X, t, scales=scales, gaussian=0.05)
    np.testing.assert_allclose(together.objective, alone.objective, rtol=2e-9)
    np.testing.assert_allclose(together.weights, alone.weights, atol=1e-5)
    assert together.gap.max() <= 1e-9 and together.passes < 30, together.passes
