"""Every registered classifier keeps the contract of scikit-learn and of this library."""

import warnings
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import oddsmith
from oddsmith.errors import OddsmithError, OddsmithWarning
from oddsmith.models import MODELS
from oddsmith.testing import all_models, check_model


@pytest.mark.parametrize("model", list(all_models()), ids=lambda model: type(model).__name__)
def test_model_keeps_the_contract(model: Any) -> None:
    check_model(model)


def test_every_registered_model_is_yielded_and_public() -> None:
    kinds = {type(model) for model in all_models()}
    assert kinds == {model for _, model in MODELS.items()}
    for kind in kinds:
        assert getattr(oddsmith, kind.__name__) is kind


@pytest.mark.parametrize("model", list(all_models()), ids=lambda model: type(model).__name__)
def test_warnings_point_at_the_line_that_called_fit(model: Any) -> None:
    rng = np.random.default_rng(0)
    t = np.arange(60) % 2
    overlapping = rng.normal(size=(60, 2))
    separated = overlapping + 9.0 * t[:, None]
    found = []
    for X in (overlapping, separated, np.column_stack([overlapping, overlapping[:, 0]])):
        with warnings.catch_warnings(record=True) as raised, suppress(OddsmithError):  # some refuse such columns
            warnings.simplefilter("always")
            clone(model).fit(X, t)
        found += [warning for warning in raised if issubclass(warning.category, OddsmithWarning)]
    if isinstance(model, oddsmith.LogisticRegression):
        assert len(found) == 2, "one for the separated classes, one for the dependent columns"
    assert {warning.filename for warning in found} <= {__file__}
