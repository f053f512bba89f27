"""Softmax over tables: the Hessian with the largest factor eliminated equals the whole one, and few passes are left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.likelihoods import problem

from oddsmith.bordered import ClassBorder
from oddsmith.engines import MemorySource
from oddsmith.engines.memory import in_slices
from oddsmith.kernels import native
from oddsmith.likelihood import class_blocks, curvature_bounds
from oddsmith.likelihood.class_blocks import level_preconditioner
from oddsmith.likelihood.fit import fit_likelihood, make_objective
from oddsmith.priors import GaussianPrior
from oddsmith.rows import CodeRows, ColumnRows, SplitRows
from oddsmith.solvers import policy
from oddsmith.solvers.facts import Facts, Machine
from oddsmith.solvers.plan import plan
from oddsmith.solvers.preconditioner import InterceptPreconditioner, KroneckerPreconditioner

pytestmark = pytest.mark.skipif(len(native.available()) == 1, reason="No kernels are compiled.")


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for the sums of all pairs of any number of classes."""
    monkeypatch.setattr(policy, "POLICY", replace(policy.POLICY, exact_classes=9))
    monkeypatch.setattr(class_blocks, "table_room", lambda _: 1e9)


def table(K: int, levels: int, *, weighted: bool = False, offset: bool = False, n: int = 4000) -> MemorySource:
    rng = np.random.default_rng(K + levels)
    share = np.cumsum((1.0 + np.arange(levels)) ** -0.8)
    codes = np.searchsorted(share, rng.random(n) * share[-1])
    few, x = rng.integers(-1, 3, n), rng.normal(size=(2, n)) + np.array([[0.0], [5.0]])
    A = rng.normal(size=(levels, K))[codes] + rng.normal(size=(4, K))[few] + np.outer(x[0], rng.normal(size=K))
    t = np.argmax(A + rng.gumbel(size=A.shape), axis=1).astype(np.int32)
    parts = (
        CodeRows(few.astype(np.int8), 3, dropped=1),
        CodeRows(codes.astype(np.int16), levels, dropped=0),
        ColumnRows(tuple(x), n),
    )
    s = rng.integers(0, 3, n).astype(np.float64) if weighted else None
    return MemorySource(SplitRows(parts), t, K, s, offset=rng.normal(size=(n, K - 1)) if offset else None)


def problem_of(source: MemorySource, scale: float | None = 1.0, reference: int | None = 0) -> Any:
    weight = np.bincount(source.t, weights=source.s, minlength=source.K).astype(np.float64)
    return problem(source, None if scale is None else GaussianPrior(scale), weight, reference=reference)


@pytest.mark.parametrize("reference", [None, 0])
@pytest.mark.parametrize(
    "K, options", [(3, {}), (3, {"weighted": True}), (4, {"offset": True}), (5, {"weighted": True, "offset": True})]
)
@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.usefixtures("exact")
def test_solutions_equal_those_of_the_whole_hessian(
    K: int, options: Any, reference: int | None, rounded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The block between is rounded to float32 at last: without that, solutions have all digits."""
    if not rounded:
        monkeypatch.setattr(ClassBorder, "round", lambda self: None)
    objective = make_objective(problem_of(table(K, 130, **options), reference=reference))[0]
    rng = np.random.default_rng(K)
    w, b = 0.1 * rng.normal(size=(2, objective.size))
    found, H = level_preconditioner(objective, w), objective.evaluate(w, order=2).hessian
    assert found is not None and isinstance(H, np.ndarray)
    x = np.linalg.solve(H, b)
    rtol, atol = (0.0, 4e-6) if rounded else (1e-6, 1e-8)
    np.testing.assert_allclose(found.solve(b), x, rtol=rtol, atol=atol * np.abs(x).max())
    assert found.norm(b) == pytest.approx(np.sqrt(b @ x), rel=1e-6)


@pytest.mark.usefixtures("exact")
def test_fixed_coordinates_stay_apart() -> None:
    objective = make_objective(problem_of(table(3, 130)))[0]
    free = objective.free.copy()
    free[:, [0, 5, 40]] = False
    part = objective.restricted(free)
    w, b = np.zeros(part.size), np.where(free, 1.0, 0.0).ravel()
    found, H = level_preconditioner(part, w), part.evaluate(w, order=2).hessian
    assert found is not None and isinstance(H, np.ndarray)
    np.testing.assert_allclose(found.solve(b), np.linalg.solve(H, b), rtol=1e-6, atol=1e-10)


@pytest.mark.usefixtures("exact")
def test_no_prior_is_definite_all_the_same() -> None:
    objective = make_objective(problem_of(table(3, 130), None))[0]
    found = level_preconditioner(objective, np.zeros(objective.size))
    assert found is not None
    for b in np.random.default_rng(0).normal(size=(20, objective.size)):
        assert b @ found.solve(b) > 0.0


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_give_the_same_bits(threads: int) -> None:
    objective = make_objective(problem_of(table(3, 130)))[0]
    engine = replace(objective.engine, threads=threads)  # type: ignore[type-var]
    b = np.linspace(-1.0, 1.0, objective.size)
    one, two = (level_preconditioner(replace(objective, engine=some), 0.1 * b) for some in (objective.engine, engine))
    assert one is not None and two is not None and one.solve(b).tolist() == two.solve(b).tolist()


@pytest.mark.parametrize(("share", "slices"), [(1.9, 1), (2.0, 2)])
def test_rows_have_two_slices_if_there_is_room_for_their_sums(
    share: float, slices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = make_objective(problem_of(table(3, 130)))[0]
    columns = class_blocks._columns(objective)
    assert columns is not None
    parts = class_blocks.class_hessians(
        objective.memory_source.block(0, 4000), objective._at(np.zeros(objective.size)), columns, common=False
    )
    assert parts is not None
    held = sum(part.A.nbytes + part.B.nbytes for part in parts[1] if isinstance(part.B, np.ndarray))
    sums = class_blocks._bytes(objective, columns, None)
    assert sums == pytest.approx(held, rel=0.01)
    seen: list[int] = []
    monkeypatch.setattr(class_blocks, "_bytes", lambda *_: sums)
    monkeypatch.setattr(class_blocks, "table_room", lambda _: share * sums)
    monkeypatch.setattr(class_blocks, "in_slices", lambda source, n: (seen.append(n), in_slices(source, n))[1])
    assert level_preconditioner(objective, np.zeros(objective.size)) is not None and seen == [slices]


@pytest.mark.parametrize("reference", [None, 0])
@pytest.mark.parametrize(
    "K, options", [(3, {}), (4, {"weighted": True}), (5, {"offset": True}), (6, {"weighted": True, "offset": True})]
)
def test_classes_that_mix_alike_have_the_whole_hessian(K: int, options: Any, reference: int | None) -> None:
    """At weights of zero without an offset they do, and if the classes are symmetric, they share one factor."""
    objective = make_objective(problem_of(table(K, 130, **options), reference=reference))[0]
    w, b = np.zeros(objective.size), np.random.default_rng(K).normal(size=objective.size)
    found, H = level_preconditioner(objective, w), objective.evaluate(w, order=2).hessian
    assert isinstance(found, KroneckerPreconditioner) and isinstance(H, np.ndarray)
    x = np.linalg.solve(H, b)
    distance = np.sqrt((found.solve(b) - x) @ H @ (found.solve(b) - x) / (x @ b))
    assert distance < (1e-4 if "offset" not in options and reference is None else 0.4)
    assert found.norm(b) == pytest.approx(np.sqrt(b @ found.solve(b)), rel=1e-12)


def test_a_common_hessian_keeps_fixed_coordinates_apart() -> None:
    """Where they are the same of all classes; else the diagonal serves."""
    objective = make_objective(problem_of(table(4, 130), reference=None))[0]
    free = objective.free.copy()
    free[:, [0, 5, 40]] = False
    part, w = objective.restricted(free), np.zeros(objective.size)
    b = np.where(free, 1.0, 0.0).ravel()
    found, H = level_preconditioner(part, w), part.evaluate(w, order=2).hessian
    assert isinstance(found, KroneckerPreconditioner) and isinstance(H, np.ndarray)
    np.testing.assert_allclose(found.solve(b), np.linalg.solve(H, b), rtol=1e-4, atol=1e-7)
    free[0, 7] = False
    assert level_preconditioner(objective.restricted(free), w) is None


def test_classes_of_any_size_have_positive_definite_solutions() -> None:
    """Without a prior, and with classes that are rare: eigenvalues far apart."""
    source = table(5, 130)
    source.t[:] = np.where(np.arange(4000) % 50 < source.t * 2, source.t, 0)
    objective = make_objective(problem_of(source, None))[0]
    found = level_preconditioner(objective, 0.1 * np.ones(objective.size))
    assert isinstance(found, KroneckerPreconditioner) and len(set(map(id, found.factors))) > 1
    for b in np.random.default_rng(0).normal(size=(20, objective.size)):
        assert b @ found.solve(b) > 0.0


@pytest.mark.usefixtures("exact")
def test_a_fit_of_many_levels_takes_few_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    given = replace(problem_of(table(4, 1300, n=20_000)), tol=1e-13)
    found = fit_likelihood(given)
    assert found.certificate.converged and found.certificate.rigorous
    assert "truncated Newton" in found.certificate.method and found.certificate.passes < 80
    monkeypatch.setattr("oddsmith.likelihood.class_blocks.level_preconditioner", lambda *_: None)
    other = fit_likelihood(given)
    assert other.certificate.converged and other.certificate.passes > 2 * found.certificate.passes
    np.testing.assert_allclose(found.coef, other.coef, atol=1e-5)


def test_a_small_factor_is_not_eliminated() -> None:
    objective = make_objective(problem_of(table(3, 90)))[0]
    assert level_preconditioner(objective, np.zeros(objective.size)) is None
    assert isinstance(objective.preconditioner(np.zeros(objective.size)), InterceptPreconditioner)


def test_the_plan_expects_losses_of_several_classes_over_a_table_to_be_slow() -> None:
    facts = Facts(n_rows=100_000, n_columns=4000, n_classes=3, storage="table", elements=800_000.0)
    two = replace(facts, n_columns=8000, n_classes=2)
    assert plan(facts, Machine()).seconds > 3.0 * plan(two, Machine()).seconds


@pytest.mark.parametrize("reference", [None, 0])
def test_columns_of_intercepts_are_the_same_by_products_and_by_pairs(
    reference: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = make_objective(problem_of(table(4, 130, weighted=True), reference=reference))[0]
    e = objective.evaluate(0.1 * np.random.default_rng(0).normal(size=objective.size))
    pairs = objective.inverse_bound(e)
    monkeypatch.setattr(curvature_bounds, "PRODUCTS", 0)
    products = objective.inverse_bound(e)
    assert pairs is not None and products is not None
    for one, two in ((pairs.B, products.B), (pairs.cross, products.cross), (pairs.rho, products.rho)):
        np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-10)
