"""The passes of fits: what each reads, in which order, how its gradient falls and what it certifies.

A fit that reads more than it did, or ends elsewhere, is slower or less exact for somebody: its row says where.
"""

from __future__ import annotations

import json

import pytest
from tests.likelihood import traces as likelihood
from tests.solvers.traces import FITS, PLACE
from tests.traces import assert_same, trace

from oddsmith.kernels import native

EXPECTED = json.loads(PLACE.read_text(encoding="utf-8"))


def test_every_fit_is_known() -> None:
    assert list(FITS) == list(EXPECTED)


@pytest.mark.parametrize("name", FITS)
def test_passes_of_a_fit(name: str) -> None:
    with native.using(native.available()[-1]) as kernels:
        if name.startswith("half precision") and not (kernels and kernels.has_half):
            pytest.skip("this processor has no half precision")
        found = trace(FITS[name])
    assert_same(found, EXPECTED[name], 0.05 if name.startswith("half precision") else 0.01)


SPARSE = [name for name in likelihood.FITS if name.startswith(("lasso", "elastic net", "identity", "Jeffreys"))]


@pytest.mark.parametrize("name", SPARSE)
def test_passes_of_a_fit_by_another_method(name: str) -> None:
    expected = json.loads(likelihood.PLACE.read_text(encoding="utf-8"))[name]
    assert_same(trace(likelihood.FITS[name]), expected)
