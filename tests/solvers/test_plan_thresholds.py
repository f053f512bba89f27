"""Where a plan changes: the last shape before each threshold and the first beyond it, and what plans are expected to
cost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oddsmith.solvers.batch_schedule import BatchSchedule
from oddsmith.solvers.device import device_sizes
from oddsmith.solvers.facts import Facts, Machine
from oddsmith.solvers.plan import Plan, plan, plan_for, plan_sparse
from oddsmith.solvers.policy import POLICY
from oddsmith.solvers.subsampled import start_alone_rows, start_sizes, subsample_sizes

MACHINE = Machine(memory=1e11)
Row = tuple[dict[str, Any], str, float, float, str, str]
# What is given, what changes from the first number to the second, and the plan of each.
EDGES: list[Row] = [
    # A large table begins on batches.
    (
        *({"n_columns": 10}, "n_rows", 149_999, 150_000),
        "Newton 1,000 → L-BFGS 18,749 → L-BFGS 149,999 → Newton 149,999",
        "Newton 4,000 → progressive batches 23,437 → L-BFGS 150,000",
    ),
    # A Hessian of 2,500 weights is formed.
    ({"n_rows": 15_000, "has_offset": True}, "n_columns", 2499, 2500, "L-BFGS 15,000", "truncated Newton 15,000"),
    (
        *({"n_rows": 5000, "storage": "sparse", "elements": 4e5}, "n_columns", 400, 401),
        *("L-BFGS 5,000", "truncated Newton 5,000"),
    ),
    ({"n_rows": 5000, "storage": "table", "elements": 4e4}, "n_columns", 399, 400, "Newton 5,000", "L-BFGS 5,000"),
    # A kernel runs L-BFGS on dense rows: from 21 weights on, and 2 million products, up to 10 million numbers.
    ({"n_rows": 8000}, "n_columns", 19, 20, "Newton 8,000", "L-BFGS 8,000"),
    ({"n_columns": 39}, "n_rows", 1250, 1251, "Newton 1,250", "L-BFGS 1,251"),
    ({"n_columns": 3000}, "n_rows", 3333, 3334, "L-BFGS 3,333", "truncated Newton 3,334"),
    ({"n_columns": 350}, "n_rows", 10_000, 10_001, "L-BFGS 10,000", "L-BFGS 1,404 → mixed-precision refinement 10,001"),
    # Few rows of many columns are combined: up to 400, with four columns for each row, and 10 million products.
    ({"n_columns": 30_000}, "n_rows", 400, 401, "Newton in the row space 400", "truncated Newton 401"),
    (
        {"n_rows": 200, "n_classes": 3, "elements": 2e7},
        "n_columns",
        799,
        800,
        "L-BFGS 200",
        "Newton in the row space 200",
    ),
    ({"n_rows": 50, "elements": 2e7}, "n_columns", 446, 447, "Newton 50", "Newton in the row space 50"),
    # A Hessian costs several gradients: from 41 weights on, and 10 million products.
    ({"n_rows": 8000, "storage": "lazy"}, "n_columns", 39, 40, "Newton 8,000", "L-BFGS 8,000 → Newton 8,000"),
    ({"n_columns": 49, "storage": "lazy"}, "n_rows", 4000, 4001, "Newton 4,000", "L-BFGS 4,001 → Newton 4,001"),
    # … or more than the fit: from 20 million products on gradients end it.
    ({"n_columns": 99, "storage": "lazy"}, "n_rows", 1999, 2000, "L-BFGS 1,999 → Newton 1,999", "L-BFGS 2,000"),
    # … and from 200 million on the Hessian is left out.
    ({"n_columns": 99, "has_offset": True}, "n_rows", 19_999, 20_000, "L-BFGS 19,999", "L-BFGS 20,000"),
    # Without a prior, four rows for each weight.
    ({"n_columns": 199, "has_prior": False}, "n_rows", 799, 800, "Newton 799", "L-BFGS 800 → Newton 800"),
    # Rows for each weight of a large table from which a subsample is the start: 60, or 8 with a prior.
    (
        *({"n_columns": 199, "has_prior": False}, "n_rows", 11_999, 12_000),
        *("L-BFGS 11,999 → Newton 11,999", "Newton 2,000 → L-BFGS 12,000 → Newton 12,000"),
    ),
    ({"n_columns": 999}, "n_rows", 7999, 8000, "L-BFGS 7,999", "L-BFGS 3,000 → mixed-precision refinement 8,000"),
    # … and of a small one: 60,000 rows, of more classes 5,000, and 100 for each weight.
    (
        *({"n_columns": 10}, "n_rows", 59_999, 60_000),
        *("Newton 59,999", "Newton 1,000 → L-BFGS 7,500 → L-BFGS 60,000 → Newton 60,000"),
    ),
    (
        *({"n_columns": 10, "n_classes": 3}, "n_rows", 4999, 5000),
        *("L-BFGS 4,999", "Newton 625 → L-BFGS 5,000 → Newton 5,000"),
    ),
    (
        *({"n_columns": 39, "n_classes": 3}, "n_rows", 11_999, 12_000),
        *("L-BFGS 11,999", "Newton 1,500 → L-BFGS 12,000 → Newton 12,000"),
    ),
    # Ten drawn rows for each weight.
    (
        *({"n_rows": 1_000_000, "n_columns": 9, "in_memory": False}, "drawn_rows", 99, 100),
        *("Newton 99 → Newton 1,000,000", "Newton 100 → L-BFGS 1,000,000 → Newton 1,000,000"),
    ),
    # More than 150 weights are searched by gradients.
    (
        *({"n_rows": 200_000}, "n_columns", 149, 150),
        "Newton 4,000 → progressive batches 31,250 → L-BFGS 200,000",
        "L-BFGS 1,000 → L-BFGS 12,500 → mixed-precision refinement 200,000",
    ),
    (
        *({"n_rows": 200_000, "storage": "dense by columns"}, "n_columns", 149, 150),
        *("Newton 1,000 → L-BFGS 25,000 → L-BFGS 200,000", "L-BFGS 1,000 → L-BFGS 25,000 → L-BFGS 200,000"),
    ),
    # One Hessian of all rows must do from 51 weights on.
    (
        *({"n_rows": 1_000_000, "sample_shows_columns": False}, "n_columns", 49, 50),
        *("Newton 62,500 → Newton 1,000,000", "Newton 62,500 → L-BFGS 1,000,000"),
    ),
    (
        *({"n_rows": 100_000, "n_columns": 100, "storage": "table"}, "elements", 1e6, 1.01e6),
        *("Newton 100,000", "Newton 8,333 → Newton 100,000"),
    ),
    # A copy in half precision takes 256 MB at most, and 16 columns of several classes at least.
    (
        *({"n_rows": 500_000}, "n_columns", 268, 269),
        "L-BFGS 1,076 → mixed-precision refinement 500,000",
        "L-BFGS 1,080 → L-BFGS 54,320 → L-BFGS 500,000",
    ),
    (
        *({"n_rows": 200_000, "n_classes": 12}, "n_columns", 15, 16),
        "L-BFGS 1,000 → L-BFGS 25,000 → L-BFGS 200,000",
        "L-BFGS 1,000 → mixed-precision refinement 200,000",
    ),
    # Batches pay where the larger subsample is more than twice the one that they begin with.
    (
        *({"n_columns": 100}, "n_rows", 64_000, 64_016),
        "Newton 1,000 → L-BFGS 8,000 → L-BFGS 64,000",
        "Newton 4,000 → progressive batches 10,002 → L-BFGS 64,016",
    ),
    (
        *({"n_columns": 4, "storage": "device"}, "n_rows", 19_999, 20_000),
        *("Newton 19,999", "Newton 500 → Newton 1,581 → Newton 5,000 → L-BFGS 20,000"),
    ),
    (
        *({"n_columns": 2499, "storage": "device", "has_prior": False}, "n_rows", 19_999, 20_000),
        *("Newton 19,999", "Newton 20,000 → L-BFGS 20,000"),
    ),
    (
        *({"n_columns": 2399, "storage": "device", "n_rows": 40_000}, "n_classes", 2, 3),
        *("Newton 19,200 → L-BFGS 40,000", "L-BFGS 2,500 → mixed-precision refinement 40,000"),
    ),
]


@pytest.mark.parametrize(("facts", "name", "below", "above", "first", "second"), EDGES)
def test_plans_change_at_their_thresholds(
    facts: dict[str, Any], name: str, below: float, above: float, first: str, second: str
) -> None:
    for value, expected in ((below, first), (above, second)):
        found = plan(Facts(**{**facts, name: value}), MACHINE)
        assert " → ".join(f"{stage.solver} {stage.rows:,}" for stage in found.stages) == expected


# Facts, passes, iterations of the stages, milliseconds, megabytes above the data.
FLIGHTS = {"n_rows": 327_346, "n_columns": 4160, "storage": "table", "elements": 8.0 * 327_346, "eliminated": 4036}
COSTS: list[tuple[dict[str, Any], float, list[float], float, float]] = [
    ({"n_rows": 569, "n_columns": 30}, 7, [7], 2.313, 0.03075),
    ({"n_rows": 4000, "n_columns": 99, "has_prior": False}, 20, [18, 2], 15.2, 0.32),
    ({"n_rows": 4000, "n_columns": 99}, 11, [10], 3.705, 3.608),
    ({"n_rows": 4000, "n_columns": 99, "n_classes": 4}, 24, [24], 3.971, 0.0288),
    ({"n_rows": 3000, "n_columns": 400}, 13, [13], 6.523, 6.768),
    ({"n_rows": 4000, "n_columns": 99, "storage": "lazy"}, 26, [25], 10.75, 0.32),
    ({"n_rows": 100, "n_columns": 2000}, 85, [85], 3.125, 0.1921),
    ({"n_rows": 100, "n_columns": 2000, "elements": 2e7}, 4, [3], 22.12, 0.512),
    ({"n_rows": 20_000, "n_columns": 10, "link": "probit", "has_prior": False}, 7, [7], 38.35, 0.003872),
    ({"n_rows": 100_000, "n_columns": 10}, 6, [6, 5, 3, 1], 9.37, 1.004),
    ({"n_rows": 1_000_000, "n_columns": 20}, 3, [6, 1, 3], 36.0, 9.538),
    ({"n_rows": 1_000_000, "n_columns": 20, "has_prior": False}, 4, [6, 1, 3, 1], 57.75, 9.538),
    ({"n_rows": 10_000_000, "n_columns": 20}, 2, [6, 1, 3], 442.2, 0.6541),
    ({"n_rows": 100_000, "n_columns": 500}, 2, [12, 12, 6], 120.3, 100.0),
    ({"n_rows": 200_000, "n_columns": 50, "n_classes": 10}, 2, [12, 12], 134.2, 20.04),
    ({"n_rows": 100_000, "n_columns": 500, "itemsize": 4}, 3, [10, 5, 3], 110.3, 31.45),
    ({"n_rows": 1_000_000, "n_columns": 60, "sample_shows_columns": False}, 9, [6, 8], 326.7, 30.12),
    ({"n_rows": 1_000_000, "n_columns": 20, "sample_shows_columns": False}, 4, [6, 4], 96.96, 10.01),
    ({"n_rows": 300_000, "n_columns": 100_000, "storage": "sparse", "elements": 9.6e7}, 40, [40], 1286.0, 9.6),
    (FLIGHTS, 4, [5, 4], 39.53, 17.04),
    ({**FLIGHTS, "has_prior": False}, 11, [11], 95.5, 17.04),
    ({"n_rows": 50_000, "n_columns": 125, "storage": "table", "elements": 4e5}, 7, [7], 28.96, 0.5201),
    ({"n_rows": 20_000_000, "n_columns": 100, "storage": "device"}, 4, [6, 1, 1, 4], 4586.6, 500.3),
    ({"n_rows": 1_000_000, "n_columns": 768, "n_classes": 1000, "storage": "device"}, 45, [20, 40], 181_900.0, 457.8),
    ({"n_rows": 20_000_000, "n_columns": 40, "in_memory": False, "drawn_rows": 100_000}, 4, [6, 5, 3, 1], 2214, 32.05),
]


def costs(found: Plan) -> Any:
    return pytest.approx((found.passes, 1e3 * found.seconds, found.memory / 1e6), rel=2e-3)


@pytest.mark.parametrize(("facts", "passes", "iterations", "milliseconds", "megabytes"), COSTS)
def test_expected_cost_of_plans(
    facts: dict[str, Any], passes: float, iterations: list[float], milliseconds: float, megabytes: float
) -> None:
    """A pass reads 25 GB and evaluates 120 million activations a second and core; a core takes 20 billion products."""
    found = plan(Facts(**facts), MACHINE)
    assert [stage.iterations for stage in found.stages] == iterations
    assert (passes, milliseconds, megabytes) == costs(found)


@pytest.mark.parametrize(
    ("solver", "stage", "passes", "milliseconds", "megabytes"),
    [
        ("gradient", "gradient descent", 20, 14.2, 0.1191),
        ("lbfgs", "L-BFGS and Newton", 20, 14.2, 0.1191),
        ("newton", "Newton", 7, 10.46, 0.1191),
        ("sgd", "SGD", 30, 9.63, 0.005856),
        ("subsampled", "subsampled quasi-Newton", 10, 11.32, 0.1191),
        ("truncated-newton", "truncated Newton", 40, 19.95, 0.1191),
        ("firth", "Fisher scoring", 20, 14.2, 0.1191),
        ("proximal-newton", "proximal Newton", 8, 10.74, 0.1191),
        ("someone's own", "someone's own", 20, 14.2, 0.1191),
    ],
)
def test_expected_cost_of_solvers_asked_for(
    solver: str, stage: str, passes: float, milliseconds: float, megabytes: float
) -> None:
    found = plan_for(SimpleNamespace(name=solver), Facts(n_rows=5000, n_columns=60), Machine())  # type: ignore[arg-type]
    assert found.stages[0].solver == stage and (passes, milliseconds, megabytes) == costs(found)


@pytest.mark.parametrize(
    ("columns", "sample", "stages", "passes", "milliseconds", "megabytes"),
    [
        (799, None, ["proximal Newton 50,000"], 8, 6506.0, 20.48),
        (800, None, ["proximal Newton on working sets of columns 50,000"], 30, 395.8, 0.0769),
        (799, 1000, ["proximal Newton 1,000", "proximal Newton 50,000"], 6, 211.1, 26.87),
    ],
)
def test_plans_under_a_laplace_prior(
    columns: int, sample: int | None, stages: list[str], passes: float, milliseconds: float, megabytes: float
) -> None:
    found = plan_sparse(Facts(n_rows=50_000, n_columns=columns), Machine(), sample)
    assert [f"{stage.solver} {stage.rows:,}" for stage in found.stages] == stages
    assert (passes, milliseconds, megabytes) == costs(found)


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.5, "501 ms"), (1.5, "1.5 s"), (119.0, "119.0 s"), (130.0, "2 min"), (170.0, "3 min")]
)
def test_durations_are_shown_in_their_unit(seconds: float, shown: str) -> None:
    found = plan(Facts(n_rows=569, n_columns=30), Machine(pass_seconds=seconds / 7.0))
    assert f", {shown}, " in str(found)


# Rows, shape, whether a basis computes them: rows of the two subsamples; of those that gradients search; of a start.
SIZES: list[tuple[int, tuple[int, int], bool, tuple[int, int], list[int], int]] = [
    (1_000_000, (1, 21), False, (1000, 47619), [1000, 62500], 62500),  # a million numbers
    (40_000, (2, 150), False, (1200, 3911), [1200], 2500),  # a Hessian worth two gradients
    (200_000, (1, 400), False, (1600, 14666), [1600], 12500),
    (20_000, (2, 150), False, (1200, 3000), [1200], 1250),  # ten rows for each weight
    (100_000, (49, 21), False, (3058, 8400), [3058], 6250),  # no more than 400 for each column
    (16_000, (1, 11), False, (1000, 2000), [1000], 1000),  # an eighth of the rows
    (400_000, (1, 101), False, (1000, 40400), [1000, 25000], 25000),  # 400 rows for each weight
    (100_000, (1, 501), False, (2002, 5854), [2002, 6250], 6250),
    (3000, (1, 501), False, (2002, 5010), [2002], 2004),
    (30_000, (1, 301), False, (1204, 3010), [1204], 1875),
    (40_000, (1, 301), False, (1204, 3898), [1204, 2500], 2500),
    (1_000_000, (1, 200), True, (1000, 20000), [1000], 62500),
    (100_000, (1, 200), True, (1000, 6250), [1000, 6250], 6250),
]


@pytest.mark.parametrize(("n", "shape", "lazy", "sizes", "starts", "alone"), SIZES)
def test_sizes_of_subsamples(
    n: int, shape: tuple[int, int], lazy: bool, sizes: tuple[int, int], starts: list[int], alone: int
) -> None:
    assert subsample_sizes(n, shape, POLICY, lazy=lazy) == sizes
    assert start_sizes(n, shape, POLICY) == starts
    assert start_alone_rows(n, shape[0] * shape[1], POLICY) == alone


@pytest.mark.parametrize(
    ("n", "P", "sizes"),
    [
        (20_000_000, 101, (50_500, 502_493, 5_000_000)),  # a quarter of the rows
        (2_000_000, 1001, (40_040, 120_082, 360_137)),  # of many weights a smaller share
        (5_000_000, 151, (6040, 86_047, 1_225_861)),
        (5_000_000, 150, (75_000, 303_279, 1_226_382)),
        (100_000, 101, (5050, 11_236, 25_000)),
        (10**9, 1001, (40_040, 1_415_627, 50_050_000)),  # 50,000 rows for each weight
        (5_000_000, 2000, (80_000, 234_297, 686_190)),
        (30_000, 2000, (16_000,)),  # 8 rows for each weight
    ],
)
def test_sizes_of_subsamples_on_a_device(n: int, P: int, sizes: tuple[int, ...]) -> None:
    assert device_sizes(n, P, POLICY) == sizes
    assert device_sizes(n, P, POLICY, sizes[-1] - 1)[-1] == sizes[-1] - 1


@pytest.mark.parametrize(
    ("n", "size", "fraction", "ends", "formed"),
    [
        (1_670_000, 21, 0.01, None, 0),
        (1_700_000, 21, 0.01, (0.01, 0.03, 0.07, 0.15, 0.495882, 1.0), 4),  # 35% of the rows at most
        (2_000_000, 21, 0.01, (0.01, 0.03, 0.07, 0.364, 1.0), 3),  # 28,000 for each weight
        (20_000_000, 21, 0.01, (0.01, 0.03, 0.07, 0.22, 0.45, 1.0), 3),  # 15% of the rows
        (20_000_000, 60, 0.01, (0.01, 0.03, 0.114, 0.238, 0.486, 1.0), 2),
        (20_000_000, 85, 0.01, (0.01, 0.03, 0.149, 0.308, 1.0), 2),
        (20_000_000, 100, 0.01, None, 0),  # nine tenths of a pass
        (10**8, 40, 0.001, (0.001, 0.003, 0.007, 0.015, 0.031, 0.12475, 0.2505, 1.0), 5),  # a quarter of a pass
    ],
)
def test_schedules_of_whole_passes(
    n: int, size: int, fraction: float, ends: tuple[float, ...] | None, formed: int
) -> None:
    found = BatchSchedule.whole_pass(n, size, fraction, POLICY)
    assert (None if found is None else found.ends) == ends and (found is None or found.formed == formed)


@pytest.mark.parametrize(
    ("sample", "share", "whole", "ends", "formed"),
    [
        (0.02, 0.2, True, (0.02, 0.06, 0.26, 1.0), 2),
        (0.02, 0.2, False, (0.02, 0.06, 0.26), 2),
        (0.01, 0.02, True, (0.02, 0.05, 0.11, 0.23, 0.47, 1.0), 0),
        (0.1, 0.5, True, (0.1, 0.6, 1.0), 1),
        (0.03, 0.6, False, (0.03, 0.09, 0.21, 0.81), 3),
        (0.2, 0.3, False, (0.3,), 0),
        (0.01, 0.05, True, (0.01, 0.06, 0.13, 0.27, 1.0), 1),
    ],
)
def test_batches_double_until_half_of_the_rows(
    sample: float, share: float, whole: bool, ends: tuple[float, ...], formed: int
) -> None:
    assert BatchSchedule.growing(sample, share, whole=whole) == BatchSchedule(ends, formed)
