"""Every registered classifier keeps the contract of scikit-learn and of this library."""

from typing import Any

import pytest

import oddsmith
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
