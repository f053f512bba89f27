"""Losses of several weights at once, against the formula written out."""

import numpy as np
import pytest
from scipy import sparse

from oddsmith.block import Block
from oddsmith.rows import as_rows
from oddsmith.statistics.curvature import Losses, LossesParams


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_losses_equal_their_formula(form) -> None:
    rng = np.random.default_rng(0)
    X, t, s = rng.normal(size=(50, 3)), rng.integers(0, 2, 50).astype(np.int32), rng.uniform(0.5, 2.0, 50)
    W, b, center, offset = rng.normal(size=(4, 3)), rng.normal(size=4), rng.normal(size=3), rng.normal(size=(50, 1))
    found = Losses.of(Block(as_rows(form(X)), t, s, offset), LossesParams(W, b, center)).value
    for k in range(4):
        a = (X - center) @ W[k] + b[k] + offset[:, 0]
        assert found[k] == pytest.approx(s @ (np.logaddexp(0.0, a) - t * a), rel=1e-12)
