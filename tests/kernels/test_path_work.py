"""The sweeps and steps of paths of sparse weights by columns, with the kernels of every instruction set."""

from __future__ import annotations

import pytest
from tests.kernels.kernel_cases import LEVELS
from tests.likelihood.sparse_work import PATHS
from tests.likelihood.test_sparse_work import assert_same_work

from oddsmith.kernels import native


@pytest.mark.parametrize("name", [name for name in PATHS if not name.startswith("working sets")])
@pytest.mark.parametrize("level", LEVELS)
def test_work_of_a_path(level: str, name: str) -> None:
    with native.using(level):
        assert_same_work(name)
