"""Separation against its definition: by theorems of the alternative, by intervals on a line, and by hand."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, sparse

from oddsmith import LaplacePrior, LogisticRegression, detect_separation
from oddsmith.errors import InvalidInputError, SeparationWarning
from oddsmith.likelihood import separation as module
from oddsmith.likelihood.messages import separation_message
from oddsmith.likelihood.objective import FoldObjective
from oddsmith.likelihood.separation_search import _unseen


def margin_rows(X: np.ndarray, t: np.ndarray, K: int, *, intercept: bool = True) -> np.ndarray:
    """Return the matrix whose product with a direction (class after class) holds every margin of every row."""
    Z = np.column_stack([np.ones(len(X)), X]) if intercept else X
    rows = []
    for z, k in zip(Z, t, strict=True):
        for other in range(K):
            if other != k:
                row = np.zeros((K, Z.shape[1]))
                row[k], row[other] = z, -z
                rows.append(row[1:].ravel())
    return np.array(rows)


def kind_by_alternatives(A: np.ndarray) -> str:
    """Stiemke: A d ≥ 0, A d ≠ 0 has no solution exactly if Aᵀu = 0 has one, u > 0. Gordan: A d > 0, if u ≥ 0, u ≠ 0."""
    m, p = A.shape
    low = np.append(np.zeros(m), -1.0)  # maximise ε with ε ≤ u ≤ 1
    above = np.column_stack([-np.eye(m), np.ones(m)])
    balance = np.column_stack([A.T, np.zeros(p)])
    bounds = [(0, 1)] * (m + 1)
    smallest = optimize.linprog(low, A_ub=above, b_ub=np.zeros(m), A_eq=balance, b_eq=np.zeros(p), bounds=bounds)
    if -smallest.fun > 1e-9:
        return "none"
    largest = optimize.linprog(-np.ones(m), A_eq=A.T, b_eq=np.zeros(p), bounds=[(0, 1)] * m)
    return "quasi" if -largest.fun > 1e-9 else "complete"


def can_run_away(A: np.ndarray, j: int, sign: int) -> bool:
    """Whether some direction that orders every row moves weight ``j`` towards ``sign``."""
    p = A.shape[1]
    cost = np.zeros(p)
    cost[j] = -sign
    answer = optimize.linprog(cost, A_ub=-A, b_ub=np.zeros(len(A)), bounds=[(-1, 1)] * p)
    return -answer.fun > 1e-9


@st.composite
def designs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    """Small whole numbers, so that ties, repeated rows and collinear columns are common."""
    K, D = draw(st.integers(2, 3)), draw(st.integers(1, 3))
    n = draw(st.integers(K, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.integers(-draw(st.integers(1, 4)), 4, size=(n, D)).astype(float)
    if D > 1 and draw(st.booleans()):
        X[:, -1] = 2.0 * X[:, 0] - draw(st.sampled_from([0.0, 1.0]))
    if draw(st.booleans()):  # classes that mostly follow the first column
        t = np.argsort(np.argsort(X[:, 0], kind="stable"), kind="stable") * K // n
    else:
        t = rng.integers(0, K, n)
    t[:K] = np.arange(K) if draw(st.booleans()) else t[:K]
    return (X, t, K) if len(set(t)) == K else (X, np.arange(n) % K, K)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("working_rows", [3, 2000])
@given(design=designs())
def test_kind_equals_the_theorems_of_the_alternative(
    design: tuple[np.ndarray, np.ndarray, int], working_rows: int, intercept: bool
) -> None:
    X, t, K = design
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "WORKING_ROWS", working_rows)
        found = detect_separation(X, t, fit_intercept=intercept)
    A = margin_rows(X, t, K, intercept=intercept)
    assert found.kind == kind_by_alternatives(A)
    assert (found.kind == "none") == (not found.infinite)
    names = [*(["(intercept)"] if intercept else []), *(f"x{j}" for j in range(X.shape[1]))]
    for key, sign in found.infinite.items():
        label, term = (1, key) if K == 2 else key
        assert can_run_away(A, (label - 1) * len(names) + names.index(term), sign)


@given(
    low=st.lists(st.integers(-5, 5), min_size=1, max_size=8), high=st.lists(st.integers(-5, 5), min_size=1, max_size=8)
)
def test_kind_on_a_line_follows_from_the_intervals(low: list[int], high: list[int]) -> None:
    X, t = np.array([*low, *high], dtype=float)[:, None], np.repeat([0, 1], [len(low), len(high)])
    if max(low) < min(high) or max(high) < min(low):
        expected = "complete"
    elif (max(low) == min(high) or max(high) == min(low)) and len({*low, *high}) > 1:
        expected = "quasi"
    else:
        expected = "none"
    found = detect_separation(X, t)
    assert found.kind == expected
    if expected != "none":
        assert found.infinite["x0"] == (1 if max(low) <= min(high) else -1)


def test_a_dummy_without_one_class_is_named_alone() -> None:
    """Of the rows with the dummy all are of class 'yes': its weight runs to +∞, and no other."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    y = np.where(x + rng.normal(size=60) > 0, "yes", "no")
    dummy = (np.arange(60) < 7).astype(float)
    y[:7] = "yes"
    found = detect_separation(np.column_stack([x, dummy]), y)
    assert found.kind == "quasi"
    assert found.infinite == {"x1": 1}
    assert "'x1' → +∞" in str(found)
    mirrored = detect_separation(np.column_stack([x, -dummy]), y)
    assert mirrored.infinite == {"x1": -1}


def test_one_of_three_classes_can_be_separated_alone() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=90)
    y = np.array(["a", "b", "c"])[np.arange(90) % 3]
    far = np.where(y == "c", 1.0, 0.0)
    found = detect_separation(np.column_stack([x, far]), y)
    assert found.kind == "quasi"
    assert found.infinite[("c", "x1")] == 1
    assert not any(term == "x0" for _, term in found.infinite)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("shift", [0.0, 1e3, 1e6])
@pytest.mark.parametrize("kind", ["none", "quasi", "complete"])
def test_kind_does_not_depend_on_units(kind: str, shift: float, scale: float) -> None:
    rng = np.random.default_rng(2)
    X = rng.integers(-8, 9, size=(50, 2)).astype(float)
    a = X[:, 0] - X[:, 1]
    t = (a > 0).astype(int)
    if kind == "complete":
        X, t = X[a != 0], t[a != 0]
    elif kind == "quasi":
        t[np.flatnonzero(a == 0)[0]] = 1
        assert {0, 1} == set(t[a == 0])
    else:
        t[np.argmax(a)] = 0
    assert detect_separation((X + shift) * scale, t).kind == kind


@pytest.mark.parametrize("kind", ["none", "quasi", "complete"])
def test_large_data_needs_few_rows_in_the_program(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60_000, 4))
    a = X @ [1.0, -2.0, 0.5, 0.0]
    t = (a > 0).astype(int)
    if kind == "none":
        t[np.argsort(np.abs(a))[:40]] ^= 1
    elif kind == "quasi":
        X[:2], t[:2] = X[0], [0, 1]
        X[:2, 0] -= a[0]  # both on the boundary
    programs = []

    def counted(Z: np.ndarray, *rest: object, solve=module._linear_program) -> object:
        programs.append(len(Z))
        return solve(Z, *rest)

    monkeypatch.setattr(module, "_linear_program", counted)
    assert detect_separation(X, t).kind == kind
    assert max(programs) < 20_000


def test_rows_of_weight_zero_do_not_count() -> None:
    X, y = [[1.0], [2.0], [3.0], [4.0], [0.0]], [0, 0, 1, 1, 1]
    assert detect_separation(X, y).kind == "none"
    assert detect_separation(X, y, sample_weight=[1, 1, 1, 1, 0]).kind == "complete"


@pytest.mark.parametrize("form", ["CSR", "float32", "polars", "pandas"])
def test_any_form_of_rows_is_read(form: str) -> None:
    import pandas
    import polars

    X, y = np.array([[1.0, 0.0], [2.0, 1.0], [2.0, 0.0], [4.0, 1.0]]), ["u", "u", "v", "v"]
    rows = {
        "CSR": sparse.csr_array(X),
        "float32": X.astype(np.float32),
        "polars": polars.DataFrame(X, schema=["dose", "sex"]),
        "pandas": pandas.DataFrame(X, columns=["dose", "sex"]),
    }[form]
    found = detect_separation(rows, y)
    assert found.kind == detect_separation(X, y).kind != "none"
    named = form in ("polars", "pandas")
    assert set(found.infinite) <= {"(intercept)", *(("dose", "sex") if named else ("x0", "x1"))}


def test_target_can_be_a_column_of_the_table() -> None:
    import polars

    table = polars.DataFrame({"dose": [1.0, 2.0, 3.0, 4.0], "cured": ["no", "no", "yes", "yes"]})
    found = detect_separation(table, "cured")
    assert (found.kind, found.infinite["dose"]) == ("complete", 1)
    assert found.to_pandas().term.tolist() == list(found.infinite)


def test_overlapping_classes_say_so() -> None:
    found = detect_separation([[1.0], [3.0], [2.0], [4.0]], [0, 0, 1, 1])
    assert "maximum likelihood estimate exists" in str(found)
    assert found.to_dict() == {"term": [], "sign": []}


def test_bad_rows_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="column 0 has 1 missing"):
        detect_separation([[np.nan], [1.0]], [0, 1])
    with pytest.raises(InvalidInputError, match="one class only"):
        detect_separation([[0.0], [1.0]], [1, 1])


def extreme_rays(A: np.ndarray) -> np.ndarray:
    """Every extreme ray of the cone {d: A d ≥ 0} of a whole-number matrix of full column rank, in whole numbers.

    A ray is where all but one dimension of constraints are tight: the minors of p − 1 rows. Entries are so small that
    floating point gives each minor to within a half, and rounding makes it exact.
    """
    m, p = A.shape
    if p == 1:
        rays = np.array([[1.0], [-1.0]])
    else:
        subsets = A[np.array(list(combinations(range(m), p - 1)))]
        columns = [np.delete(np.arange(p), j) for j in range(p)]
        minors = np.stack([(-1.0) ** j * np.linalg.det(subsets[:, :, c]) for j, c in enumerate(columns)], axis=1)
        minors = np.rint(minors)
        minors = np.unique(minors[np.any(minors != 0.0, axis=1)], axis=0)
        rays = np.concatenate([minors, -minors])
    return rays[np.all(rays @ A.T >= 0.0, axis=1)]


def integer_design(seed: int) -> tuple[np.ndarray, np.ndarray, int, int]:
    """A small whole-number design: rows, classes, K, and how many columns are independent."""
    rng = np.random.default_rng(seed)
    K = 2 + seed % 2
    D = int(rng.integers(1, 4 if K == 2 else 3))
    n = int(rng.integers(5, 13)) if (K - 1) * (D + 1) < 6 else 7
    X = rng.integers(-3, 4, size=(n, D)).astype(float)
    if seed % 4 < 2:  # classes that mostly follow a direction, ties and all
        a = X @ rng.integers(-2, 3, size=D)
        t = np.argsort(np.argsort(a, kind="stable"), kind="stable") * K // n
        t[rng.integers(0, n)] = rng.integers(0, K)
    else:
        t = rng.integers(0, K, n)
    t[:K] = np.arange(K) if len(set(t.tolist())) < K else t[:K]
    while np.linalg.matrix_rank(np.column_stack([np.ones(n), X])) < D + 1:
        X = rng.integers(-3, 4, size=(n, D)).astype(float)
    more = np.column_stack([X, X[:, 0] - 2.0 * X[:, -1] + 1.0]) if seed % 3 == 0 else X
    return more, t, K, D


def test_four_hundred_designs_equal_the_enumeration_of_their_cones() -> None:
    """Separated if the cone of ordering directions has a ray; completely, if the sum of its rays orders every row."""
    kinds: dict[tuple[str, int], int] = {}
    for seed in range(400):
        X, t, K, D = integer_design(seed)
        A = margin_rows(X[:, :D], t, K)
        rays = extreme_rays(A)
        inner = rays.sum(axis=0) @ A.T  # in the interior: every margin that can be positive is
        expected = "none" if not len(rays) else "complete" if np.all(inner > 0.0) else "quasi"
        found = detect_separation(X, t)
        assert found.kind == expected, seed
        kinds[found.kind, K] = kinds.get((found.kind, K), 0) + 1
        names = ["(intercept)", *(f"x{j}" for j in range(D))]
        for key, sign in found.infinite.items():
            label, term = (1, key) if K == 2 else key
            place = (label - 1) * (D + 1) + names.index(term)  # never the column that depends on the others
            assert np.any(sign * rays[:, place] > 0.0), (seed, key)
        assert bool(found.infinite) == bool(len(rays))
    assert set(kinds) == {(kind, K) for kind in ("none", "quasi", "complete") for K in (2, 3)}
    assert min(kinds.values()) >= 10, kinds


def test_offset_is_read_and_changes_nothing() -> None:
    X, y = [[1.0], [2.0], [3.0], [4.0]], [0, 0, 1, 1]
    assert detect_separation(X, y, offset=[1e6, 0.0, 0.0, -1e6]).kind == "complete"
    with pytest.raises(InvalidInputError, match="offset has shape"):
        detect_separation(X, y, offset=[1.0])


def test_print_says_what_to_do() -> None:
    printed = str(detect_separation([[1.0], [2.0], [3.0], [4.0]], [0, 0, 1, 1]))
    assert "prior=JeffreysPrior()" in printed and "'x0' → +∞" in printed


@pytest.mark.parametrize(("side", "expected"), [(1.0, True), (-1.0, False)])
def test_runs_away_asks_about_one_direction(side: float, expected: bool) -> None:
    Z = np.column_stack([np.ones(5), [-1.0, 0.0, 0.0, 0.0, 1.0], [1.0, -1.0, 1.0, 0.0, 0.5]])
    t = np.array([0, 0, 1, 0, 1])
    assert module.runs_away(Z, t, 2, np.array([[0.0, side, 0.0]])) == expected
    free = np.array([True, False, True])
    assert not module.runs_away(Z, t, 2, np.array([[0.0, side, 0.0]]), free)


def test_the_message_says_in_which_direction_the_weight_of_each_class_runs() -> None:
    """The larger x, the later the class: the last has the largest weight, and the first the smallest."""
    x, y = np.arange(12.0)[:, None], np.repeat(["a", "b", "c"], 4)
    found = separation_message(detect_separation(x, y), np.unique(y))
    assert "'x0' (class 'c', +∞)" in found and "'x0' (class 'c', −∞)" not in found
    assert "'x0' (class 'a', +∞)" not in found


def test_what_no_row_shows_are_constants_and_combinations_of_other_columns() -> None:
    x = np.array([1.0, 2.0, 4.0, 9.0])
    rows = np.column_stack([x, np.full(4, 5.0), 3.0 - 2.0 * x])
    hidden = _unseen(rows)
    assert hidden.shape == (2, 3)
    assert np.abs((rows - rows[0]) @ hidden.T).max() < 1e-12
    assert np.linalg.matrix_rank(hidden) == 2
    assert _unseen(rows[:, :1]).shape == (0, 1)


def softmax_problem(n: int, columns: int, K: int, *, ambiguous: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of well separated classes; ``ambiguous``: two equal rows are of different classes."""
    rng, t = np.random.default_rng(0), np.arange(n) % K
    X = rng.normal(size=(n, columns)) + rng.normal(size=(K, columns))[t]
    if ambiguous:
        X[1] = X[0]
    return X, t


def test_many_separated_classes_take_one_hessian_more(monkeypatch):
    # 13 classes of 200 columns took 22 Hessians of 2,412 weights.
    hessians = []
    evaluate = FoldObjective.evaluate

    def counting(self, w, order=1, **how):
        hessians.append(order == 2)
        return evaluate(self, w, order=order, **how)

    monkeypatch.setattr(FoldObjective, "evaluate", counting)
    X, t = softmax_problem(600, 60, 13, ambiguous=False)
    with pytest.warns(SeparationWarning, match="completely separated"):
        model = LogisticRegression().fit(X, t)
    assert sum(hessians) <= 9
    assert model.predict_proba(X)[np.arange(len(t)), t].min() > 1.0 - 2e-6
    assert not model.certificate_.optimum_exists
    assert model.summary().std_error.min() > 100.0


def test_many_quasi_separated_classes_need_no_program_of_all_classes(monkeypatch):
    # 13 classes of 50 columns took 46 seconds, of 200 columns minutes.
    solved = []
    program = module._linear_program
    monkeypatch.setattr(module, "_linear_program", lambda Z, t, K: (solved.append(K), program(Z, t, K))[1])
    X, t = softmax_problem(600, 60, 13, ambiguous=True)
    with pytest.warns(SeparationWarning, match="quasi-completely separated"):
        model = LogisticRegression().fit(X, t)
    assert set(solved) == {2}
    assert np.allclose(model.predict_proba(X[:1])[0, :2], 0.5, atol=1e-3)


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("how", ["complete", "quasi"])
@pytest.mark.parametrize("offset", [False, True])
def test_columns_that_a_laplace_prior_leaves_free_can_separate(K: int, how: str, offset: bool) -> None:
    """No penalty keeps their weights finite: the gap closes, yet there is no optimum."""
    rng = np.random.default_rng(3)
    X, t = rng.normal(size=(60, 4)), np.arange(60) % K
    if how == "complete":
        X[:, 1] = t + 0.5 * rng.random(60)
    else:
        X[:, 1] = (t == 0) & (rng.random(60) < 0.3)
    shift = None if not offset else rng.normal(size=60 if K == 2 else (60, K))
    prior = LaplacePrior(0.1, factors=[1, 0, 1, 1])
    with pytest.warns(SeparationWarning, match="separated by 'x1'" if how == "quasi" else "'x1'"):
        model = LogisticRegression(prior).fit(X, t, offset=shift)
    assert not (model.certificate_.converged or model.certificate_.optimum_exists)
    for kept in (LaplacePrior(0.1), LaplacePrior(0.1, gaussian=5.0, factors=[1, 0, 1, 1])):
        assert LogisticRegression(kept).fit(X, t, offset=shift).certificate_.converged
    free = LogisticRegression(LaplacePrior(0.1, factors=[1, 1, 0, 1])).fit(X, t, offset=shift)
    assert free.certificate_.converged and free.certificate_.optimum_exists


def test_a_table_whose_levels_no_program_can_hold_is_refused_in_a_sentence() -> None:
    level = np.arange(60_000) % 20_000
    rows = sparse.csr_array((np.ones(60_000), (np.arange(60_000), level)), shape=(60_000, 20_000))
    with pytest.raises(InvalidInputError, match="60,000 rows × 20,000 columns does not fit"):
        detect_separation(rows, np.arange(60_000) % 2)


@pytest.mark.parametrize("case", ["none", "levels", "levels and a number", "complete"])
def test_columns_that_order_rows_alone_are_found_before_a_program(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of sixty levels, as without them: the direction is checked against all rows, and says whether it is complete."""
    rng = np.random.default_rng(3)
    level, x = rng.integers(0, 61, 1500), rng.normal(size=1500)
    t = rng.integers(0, 2, 1500).astype(np.int32)
    if case != "none":
        t[level == 7], t[level == 9] = 1, 0
    if case == "levels and a number":
        t[level != 7] = np.where(np.abs(x) > 0.5, x > 0, t)[level != 7]
        x = np.where(np.abs(x) > 0.5, x, 0.0)
    if case == "complete":
        t = (level % 2).astype(np.int32)
    X = np.column_stack([level[:, None] == np.arange(1, 61), x]).astype(np.float64)
    names, sizes, solve = np.array(["no", "yes"]), [], module._linear_program
    monkeypatch.setattr(module, "_linear_program", lambda Z, t, K: (sizes.append(Z.shape[1]), solve(Z, t, K))[1])
    found = module.separating_direction(X, t, 2, fit_intercept=True)
    assert all(size <= 62 - 2 * (case != "none") for size in sizes) and (case != "complete" or not sizes)
    verdict = module.verdict_of(found, names, [f"l{k}" for k in range(1, 61)] + ["x"])
    assert verdict.kind == {"none": "none", "complete": "complete"}.get(case, "quasi")
    if found is not None:
        margin = module.margins(np.column_stack([np.ones(1500), X]) @ found[0].T, t)
        assert margin.min() > (0.0 if case == "complete" else -1e-9)
        assert (margin[np.isin(level, [7, 9])] > 0.0).all() and verdict.infinite["l7"] == 1
    if case == "levels and a number":
        assert verdict.infinite["x"] == 1 and (margin[x != 0.0] > 0.0).all()
