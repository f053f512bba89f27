"""The work of paths of sparse weights, and what they find at each scale.

`tests.likelihood.sparse_work` says how the table was written; other tests hold the optima against other programs.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.likelihood.sparse_work import PATHS, PLACE, path, work
from tests.traces import rows

EXPECTED = json.loads(PLACE.read_text(encoding="utf-8"))


def test_every_path_is_known() -> None:
    assert list(PATHS) == list(EXPECTED)


def assert_same_work(name: str) -> None:
    """Hold the work of a path against what was written down."""
    found, expected = work(name), {**EXPECTED[name], "work": {**EXPECTED[name]["work"]}}
    columns = [part["work"].pop("columns in steps", 0) for part in (found, expected)]
    assert abs(columns[0] - columns[1]) <= 2  # of two columns that are alike either may come first
    # Rounding decides whether a gap of a few roundings is corrected once more: the instruction set does.
    last = [part["work"].pop("passes for CurvatureProduct", 0) for part in (found, expected)]
    assert abs(last[0] - last[1]) <= 2
    assert found["work"] == expected["work"]
    assert found["passes"] - last[0] == expected["passes"] - last[1]
    assert found["not zero"][1:] == expected["not zero"][1:]
    np.testing.assert_allclose(found["scales"], expected["scales"], rtol=1e-5)
    np.testing.assert_allclose(found["objective"], expected["objective"], rtol=1e-6)
    factor = 2.5 if "three classes" in name else 1.25
    gaps = [np.log(np.array(part["gap"]) + 1e-11) for part in (found, expected)]
    np.testing.assert_allclose(*gaps, atol=np.log(factor))


@pytest.mark.parametrize("name", PATHS)
def test_work_of_a_path(name: str) -> None:
    assert_same_work(name)


def test_intercepts_of_a_path_of_several_classes_sum_to_zero() -> None:
    found = path(rows(150, 6, 3, along=0.5))
    assert np.abs(found.weights[:, :, 0]).max() > 0.1
    np.testing.assert_allclose(found.weights[:, :, 0].sum(axis=1), 0.0, atol=1e-9)
