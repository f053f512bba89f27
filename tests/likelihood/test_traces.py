"""The passes of fits of every kind of likelihood, and the numbers that they find.

`tests.likelihood.traces` says how they were written down; other tests hold such numbers against other programs.
"""

from __future__ import annotations

import json

import pytest
from tests.likelihood.traces import FITS, PLACE
from tests.solvers import traces as solvers
from tests.traces import assert_same, trace

EXPECTED = json.loads(PLACE.read_text(encoding="utf-8"))


def test_every_fit_is_known() -> None:
    assert list(FITS) == list(EXPECTED)


@pytest.mark.parametrize("name", FITS)
def test_passes_of_a_fit(name: str) -> None:
    assert_same(trace(FITS[name]), EXPECTED[name])


LARGE = [name for name in solvers.FITS if name.startswith(("subsample", "two subsamples", "batches", "levels"))]


@pytest.mark.parametrize("name", LARGE)
def test_passes_of_a_fit_that_begins_on_a_sample(name: str) -> None:
    expected = json.loads(solvers.PLACE.read_text(encoding="utf-8"))[name]
    assert_same(trace(solvers.FITS[name]), expected)
