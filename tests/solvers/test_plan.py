"""The plan of a fit: one table of shapes with the plan that each gets, and what must hold of every plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oddsmith import LogisticRegression
from oddsmith.errors import ConvergenceWarning, InvalidInputError
from oddsmith.likelihood import fit as likelihood
from oddsmith.solvers import SGD
from oddsmith.solvers.base import SOLVERS
from oddsmith.solvers.facts import Facts, Machine
from oddsmith.solvers.plan import plan, plan_for

# Rows, columns, classes, what else is known, and the stages: each a solver and the rows that it reads.
TABLE: list[tuple[int, int, int, dict[str, Any], str]] = [
    (150, 4, 3, {}, "Newton 150"),
    (569, 30, 2, {}, "Newton 569"),
    (300, 3, 2, {}, "Newton 300"),
    (300, 3, 2, {"has_prior": False}, "Newton 300"),
    (400, 40, 2, {}, "Newton 400"),
    (400, 6, 5, {}, "Newton 400"),
    (1000, 100, 2, {}, "L-BFGS 1,000"),
    (4000, 40, 2, {}, "L-BFGS 4,000"),
    (4000, 40, 2, {"has_prior": False}, "Newton 4,000"),
    (4000, 160, 2, {}, "L-BFGS 4,000"),
    (4000, 40, 5, {}, "L-BFGS 4,000"),
    (400, 400, 2, {}, "L-BFGS 400"),
    (3000, 100, 2, {}, "L-BFGS 3,000"),
    (400, 400, 2, {"has_prior": False}, "Newton 400"),
    (3000, 400, 2, {}, "L-BFGS 3,000"),
    (10_000, 20, 2, {}, "L-BFGS 10,000"),
    (1000, 30, 2, {}, "Newton 1,000"),
    (300, 1000, 2, {}, "L-BFGS 300"),
    (1000, 1000, 5, {}, "L-BFGS 1,000"),
    (10_000, 10, 10, {}, "L-BFGS 10,000"),
    (10_000, 20, 2, {"has_prior": False}, "Newton 10,000"),
    (10_000, 20, 3, {}, "Newton 1,250 → L-BFGS 10,000 → Newton 10,000"),
    (10_000, 20, 3, {"weighted": True}, "Newton 1,250 → L-BFGS 10,000 → Newton 10,000"),
    (10_000, 20, 2, {"has_offset": True}, "L-BFGS 10,000"),
    (10_000, 20, 2, {"link": "probit"}, "Newton 10,000"),
    (10_000, 20, 3, {"sample_shows_columns": False}, "Newton 625 → Newton 10,000"),
    (10_000, 150, 2, {}, "L-BFGS 10,000"),
    (10_000, 400, 2, {}, "L-BFGS 1,604 → mixed-precision refinement 10,000"),
    (20_000, 50, 2, {}, "L-BFGS 20,000"),
    (30_000, 30, 2, {}, "L-BFGS 30,000"),
    (70_000, 20, 3, {}, "Newton 1,000 → L-BFGS 8,750 → L-BFGS 70,000 → Newton 70,000"),
    (74_000, 20, 2, {}, "Newton 1,000 → L-BFGS 9,250 → L-BFGS 74,000 → Newton 74,000"),
    (100_000, 10, 2, {}, "Newton 1,000 → L-BFGS 12,500 → L-BFGS 100,000 → Newton 100,000"),
    (100_000, 20, 2, {}, "Newton 4,000 → progressive batches 15,625 → L-BFGS 100,000"),
    (
        100_000,
        20,
        2,
        {"has_prior": False},
        "Newton 4,000 → progressive batches 15,625 → L-BFGS 100,000 → Newton 100,000",
    ),
    (100_000, 20, 5, {}, "Newton 1,000 → L-BFGS 12,500 → L-BFGS 100,000"),
    (100_000, 100, 2, {}, "Newton 4,000 → progressive batches 15,625 → L-BFGS 100,000"),
    (100_000, 500, 2, {}, "L-BFGS 2,002 → L-BFGS 6,250 → mixed-precision refinement 100,000"),
    (100_000, 500, 2, {"itemsize": 4}, "L-BFGS 2,002 → L-BFGS 5,854 → L-BFGS 100,000"),
    (100_000, 500, 2, {"weighted": True}, "L-BFGS 2,002 → L-BFGS 5,854 → L-BFGS 100,000"),
    (100_000, 500, 2, {"intercept": False}, "L-BFGS 2,002 → L-BFGS 5,854 → L-BFGS 100,000"),
    (12_000, 800, 2, {}, "L-BFGS 2,602 → mixed-precision refinement 12,000"),
    (50_000, 1000, 2, {}, "L-BFGS 3,002 → mixed-precision refinement 50,000"),
    (50_000, 300, 2, {}, "L-BFGS 1,204 → L-BFGS 3,125 → mixed-precision refinement 50,000"),
    (50_000, 300, 2, {"has_prior": False}, "Newton 1,204 → L-BFGS 4,872 → L-BFGS 50,000 → Newton 50,000"),
    (20_000, 2400, 2, {}, "L-BFGS 5,802 → mixed-precision refinement 20,000"),
    (20_000, 3000, 2, {}, "truncated Newton 20,000"),
    (1_000_000, 20, 2, {}, "Newton 4,000 → progressive batches 59,523 → L-BFGS 1,000,000"),
    (
        1_000_000,
        20,
        2,
        {"has_prior": False},
        "Newton 4,000 → progressive batches 59,523 → L-BFGS 1,000,000 → Newton 1,000,000",
    ),
    (1_000_000, 20, 2, {"itemsize": 4}, "Newton 4,000 → progressive batches 59,523 → L-BFGS 1,000,000"),
    (1_000_000, 20, 2, {"storage": "dense by columns"}, "Newton 1,000 → L-BFGS 47,619 → L-BFGS 1,000,000"),
    (1_000_000, 20, 2, {"weighted": True}, "Newton 1,000 → L-BFGS 47,619 → L-BFGS 1,000,000"),
    (1_000_000, 20, 2, {"has_offset": True}, "Newton 1,000,000"),
    (1_000_000, 20, 2, {"link": "cloglog"}, "Newton 1,000,000"),
    (1_000_000, 20, 2, {"sample_shows_columns": False}, "Newton 62,500 → Newton 1,000,000"),
    (1_000_000, 60, 2, {"sample_shows_columns": False}, "Newton 62,500 → L-BFGS 1,000,000"),
    (1_000_000, 20, 2, {"sample_shows_columns": False, "has_prior": False}, "Newton 62,500 → Newton 1,000,000"),
    (500_000, 100, 2, {}, "Newton 4,000 → progressive batches 50,500 → L-BFGS 500,000"),
    (10_000_000, 20, 2, {}, "Newton 4,000 → progressive batches 10,000,000 → L-BFGS 10,000,000"),
    (4_000_000, 8, 2, {}, "Newton 4,000 → progressive batches 4,000,000 → L-BFGS 4,000,000"),
    (200_000, 50, 10, {}, "L-BFGS 1,836 → mixed-precision refinement 200,000"),
    (200_000, 20, 50, {}, "L-BFGS 3,058 → mixed-precision refinement 200,000"),
    (50_000, 100, 100, {}, "truncated Newton 50,000"),
    (300_000, 100_000, 2, {"storage": "sparse", "elements": 96000000.0}, "truncated Newton 300,000"),
    (5000, 2000, 2, {"storage": "sparse", "elements": 400000.0}, "truncated Newton 5,000"),
    (5000, 2000, 2, {"storage": "sparse", "elements": 400000.0, "has_prior": False}, "Newton 5,000"),
    (
        327_346,
        120,
        2,
        {"storage": "sparse", "elements": 10000000.0, "sample_shows_columns": False},
        "Newton 20,459 → Newton 327,346",
    ),
    (20_000, 200, 2, {"storage": "sparse", "elements": 400000.0}, "L-BFGS 20,000"),
    (200_000, 300, 2, {"storage": "lazy"}, "L-BFGS 1,204 → L-BFGS 12,500 → L-BFGS 200,000"),
    (2000, 30, 2, {"storage": "lazy"}, "Newton 2,000"),
    (
        20_000_000,
        40,
        2,
        {"in_memory": False, "drawn_rows": 100000},
        "Newton 1,000 → L-BFGS 100,000 → L-BFGS 20,000,000 → Newton 20,000,000",
    ),
    (
        20_000_000,
        40,
        2,
        {"in_memory": False, "drawn_rows": 100000, "has_prior": False},
        "Newton 1,000 → L-BFGS 100,000 → L-BFGS 20,000,000 → Newton 20,000,000",
    ),
    (
        20_000_000,
        40,
        2,
        {"in_memory": False, "drawn_rows": 100000, "sample_shows_columns": False},
        "Newton 100,000 → Newton 20,000,000",
    ),
    (5000, 40, 2, {"in_memory": False}, "Newton 5,000"),
    (1_000_000, 1200, 2, {"in_memory": False, "drawn_rows": 10000}, "L-BFGS 10,000 → Newton 1,000,000"),
]


@pytest.mark.parametrize(("n", "D", "K", "more", "expected"), TABLE)
def test_shapes_get_their_plans(n: int, D: int, K: int, more: dict[str, Any], expected: str) -> None:
    chosen = plan(Facts(n_rows=n, n_columns=D, n_classes=K, **more), Machine())
    assert " → ".join(f"{stage.solver} {stage.rows:,}" for stage in chosen.stages) == expected


facts = st.builds(
    Facts,
    n_rows=st.integers(1, 10**8),
    n_columns=st.integers(1, 10**5),
    n_classes=st.integers(2, 1000),
    storage=st.sampled_from(["dense", "dense by columns", "sparse", "lazy"]),
    itemsize=st.sampled_from([4, 8]),
    in_memory=st.booleans(),
    drawn_rows=st.none() | st.integers(1, 10**6),
    sample_shows_columns=st.booleans(),
    weighted=st.booleans(),
    has_offset=st.booleans(),
    has_prior=st.booleans(),
    intercept=st.booleans(),
    link=st.sampled_from(["logit", "probit"]),
    whitened=st.booleans(),
)


@given(facts)
def test_a_plan_is_pure_fits_into_memory_and_prints_as_a_sentence(given_facts: Facts) -> None:
    machine = Machine(memory=4e9)
    try:
        one, two = plan(given_facts, machine), plan(given_facts, machine)
    except InvalidInputError as error:
        assert "MB of memory are available" in str(error)
        return
    assert one == two and one.memory <= machine.memory
    assert one.passes > 0 and one.seconds > 0
    assert str(one).endswith(" above the data.") and ", since " in str(one)
    assert all(0 < stage.rows for stage in one.stages)
    assert one.to_dict()["expected"]["passes"] == one.passes


def test_a_hessian_that_does_not_fit_is_not_formed() -> None:
    about = Facts(n_rows=1_000_000, n_columns=2000)
    roomy, narrow = (plan(about, Machine(memory=memory)) for memory in (1e11, 1e8))
    assert roomy.memory > 1e8 >= narrow.memory
    assert [stage.solver for stage in narrow.stages] == ["truncated Newton"] and "memory" in str(narrow)
    with pytest.raises(InvalidInputError, match=r"needs about 96.0 MB besides the data, but only 1.0 MB"):
        plan(replace(about, n_columns=10**6), Machine(memory=1e6))


@pytest.mark.filterwarnings("ignore::oddsmith.errors.LevelsWarning")
def test_a_refusal_names_the_columns_that_cost_most(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    monkeypatch.setattr(likelihood, "machine_of", lambda problem: Machine(memory=1e4))
    rng = np.random.default_rng(0)
    levels = rng.integers(0, 300, 2000)
    table = pandas.DataFrame({"x": rng.normal(size=2000), "tailnum": [f"N{k}" for k in levels], "y": levels % 2})
    model = LogisticRegression(1.0)
    with pytest.raises(InvalidInputError, match="'tailnum' \\(298\\)"):
        model.fit(table, y="y")
    assert not hasattr(model, "classes_")


SHAPES = [(300, 4, 2, 1.0), (4000, 60, 2, 1.0), (10_000, 20, 2, None), (160_000, 20, 2, 1.0), (20_000, 200, 2, 1.0)]


@pytest.mark.parametrize(("n", "D", "K", "prior"), SHAPES)
def test_the_plan_of_a_model_is_what_its_trace_says(n: int, D: int, K: int, prior: float | None) -> None:
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, D))
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-X @ rng.normal(size=D) / np.sqrt(D)))
    model = LogisticRegression(prior).fit(X, y)
    planned = [stage.solver for stage in model.plan_.stages]
    done = list(dict.fromkeys(stage.partition(" on ")[0].partition(" of ")[0] for stage in model.trace_.stage))
    assert done == list(dict.fromkeys(planned))
    assert model.certificate_.method == ", then ".join(dict.fromkeys(model.trace_.stage.tolist()))
    assert model.certificate_.passes <= 3 * model.plan_.passes


def test_iterations_of_two_solvers_in_turn_are_the_records_of_the_trace_after_the_start() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 100))
    model = LogisticRegression(1.0, solver="lbfgs").fit(X, X[:, 0] + rng.logistic(size=1000) > 0)
    assert list(dict.fromkeys(model.trace_.stage.tolist())) == ["L-BFGS", "Newton"]
    assert model.n_iter_ == len(model.trace_) - 1


def test_a_solver_that_was_asked_for_is_the_plan() -> None:
    X, y = np.arange(20.0)[:, None], np.arange(20) % 3 > 0
    model = LogisticRegression(1.0, solver="truncated-newton").fit(X, y)
    assert str(model.plan_).startswith("truncated Newton on 20 rows, as asked for; expected: ")
    assert set(model.trace_.stage) == {"truncated Newton"}


def test_stochastic_gradients_are_planned_for_their_epochs() -> None:
    X, y = np.arange(20.0)[:, None], np.arange(20) % 3 > 0
    with pytest.warns(ConvergenceWarning):
        model = LogisticRegression(1.0, solver="sgd").fit(X, y)
    assert model.plan_.passes == SGD().epochs


def test_expected_time_and_passes_are_those_of_measured_fits() -> None:
    """Of a server with two cores, in milliseconds: within a factor of two, and passes within one in three."""
    measured = [
        (Facts(n_rows=4000, n_columns=40), 1.5, 9),
        (Facts(n_rows=300, n_columns=300), 3.2, 25),
        (Facts(n_rows=1000, n_columns=1000), 18.0, 30),
        (Facts(n_rows=10_000, n_columns=100, n_classes=5), 16.5, 28),
        (Facts(n_rows=4000, n_columns=40, n_classes=5), 5.2, 26),
        (Facts(n_rows=30_000, n_columns=30, has_prior=False), 10.9, 7),
        (Facts(n_rows=1_000_000, n_columns=20), 27.0, 3),
        (Facts(n_rows=50_000, n_columns=300), 52.0, 2),
        (Facts(n_rows=100_000, n_columns=30, n_classes=10), 56.0, 2),
        (Facts(n_rows=20_000, n_columns=10, link="probit", has_prior=False), 41.0, 8),
    ]
    for about, milliseconds, passes in measured:
        chosen = plan(about, Machine())
        assert 0.5 < 1e3 * chosen.seconds / milliseconds < 2.0, about
        assert abs(chosen.passes - passes) <= passes / 3, about


def test_the_memory_of_a_plan_is_that_of_its_matrices_and_copies() -> None:
    """A Hessian, its factor and two matrices to work in; vectors where none is formed; copies of rows."""
    newton = plan(Facts(n_rows=400, n_columns=40, has_prior=False), Machine()).stages[0]
    assert newton.memory == 4 * np.zeros((41, 41)).nbytes
    kernel = plan(Facts(n_rows=4000, n_columns=40), Machine()).stages[0]  # with sums and their factor in float32
    assert kernel.memory == 5.5 * np.zeros((41, 41)).nbytes + np.zeros((4000, 40)).nbytes
    sampled = plan(Facts(n_rows=100_000, n_columns=20), Machine()).stages[0]
    assert sampled.rows == 4000
    assert sampled.memory == np.zeros((4000, 20)).nbytes + 4 * np.zeros((21, 21)).nbytes
    wide = plan(Facts(n_rows=327_346, n_columns=9000, storage="table", elements=8.0 * 327_346), Machine()).stages[-1]
    assert wide.solver == "truncated Newton" and wide.memory == 12 * np.zeros(9001).nbytes


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        (
            {"eliminated": 4036},
            "Newton on 27,278 rows, then Newton on 327,346 rows, since the 4,036 levels of the largest factor are",
        ),
        (
            {"eliminated": 4036, "has_prior": False},
            "Newton on 327,346 rows, since the 4,036 levels of the largest factor are eliminated",
        ),
        (
            {"n_columns": 125},
            "Newton on 27,278 rows, then Newton on 327,346 rows, since a Hessian of 126 weights by codes costs little",
        ),
        ({"n_columns": 125, "has_offset": True}, "Newton on 327,346 rows, since a Hessian of 126 weights by codes"),
        ({"n_columns": 125, "link": "probit"}, "Newton on 327,346 rows, since a Hessian of 126 weights by codes"),
        ({"n_columns": 9000}, "truncated Newton on 327,346 rows, since a Hessian of 9,001 weights is not formed"),
        ({"n_columns": 125, "n_classes": 3}, "L-BFGS on"),
    ],
)
def test_tables_with_factors(facts: dict[str, Any], sentence: str) -> None:
    flights = {"n_rows": 327_346, "n_columns": 4160, "storage": "table", "elements": 8.0 * 327_346}
    found = str(plan(Facts(**{**flights, **facts}), Machine()))
    assert found.startswith(sentence), found


@pytest.mark.parametrize(
    ("solver", "refused"), [("lbfgs", True), ("newton", True), ("truncated-newton", False), ("sgd", False)]
)
def test_a_solver_asked_for_is_refused_where_its_hessian_does_not_fit_into_memory(solver: str, refused: bool) -> None:
    facts = Facts(n_rows=10_000, n_columns=4_569, n_classes=6)
    asked = SOLVERS[solver]()
    if not refused:
        assert plan_for(asked, facts, Machine(memory=8e9)).memory < 8e9
        return
    with pytest.raises(InvalidInputError, match=r"forms a Hessian of 22,850 weights.*solver='auto'"):
        plan_for(asked, facts, Machine(memory=8e9))
    assert plan_for(asked, facts, Machine(memory=1e12)).memory > 1e10


@pytest.mark.parametrize(
    ("facts", "solver", "rows"),
    [
        ({"n_rows": 20_000_000, "n_columns": 100}, "device", [50_500, 502_493, 5_000_000, 20_000_000]),
        ({"n_rows": 1_000_000, "n_columns": 768, "n_classes": 1000}, "device-softmax", [62_500, 1_000_000]),
        ({"n_rows": 500, "n_columns": 3}, "newton", [500]),
        ({"n_rows": 1_000_000, "n_columns": 3, "link": "probit"}, "newton", [1_000_000]),
        ({"n_rows": 1_000_000, "n_columns": 4_000}, "truncated-newton", [1_000_000]),
        ({"n_rows": 50_000, "n_columns": 4, "n_classes": 3, "has_prior": False}, "newton", [50_000]),
    ],
)
def test_rows_on_a_device(facts: dict[str, Any], solver: str, rows: list[int]) -> None:
    found = plan(Facts(storage="device", **facts), Machine(memory=1e11))
    assert found.solver.name == solver
    assert [stage.rows for stage in found.stages] == rows


def test_newton_as_asked_for_needs_no_whole_hessian_where_a_factor_is_eliminated() -> None:
    facts = Facts(n_rows=1_000_000, n_columns=50_003, storage="table", eliminated=49_999, elements=5e6)
    found = plan_for(SOLVERS["newton"](), facts, Machine(memory=2e9))
    assert found.memory < 1e8
    assert str(found).startswith("Newton on 1,000,000 rows, as asked for")
