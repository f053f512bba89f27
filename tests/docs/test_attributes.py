"""The page of the classifiers says which of them have which attributes, and it is so."""

import re
import warnings

import numpy as np
import pytest
from tests.docs.reading import ROOT

from oddsmith.testing import all_models

PAGE = ROOT / "docs" / "reference" / "classifiers" / "index.md"


@pytest.mark.parametrize("attribute", ["n_parameters_", "boundary_", "trace_", "certificate_"])
def test_models_that_are_said_to_have_an_attribute_are_those_that_have_it(attribute: str) -> None:
    (row,) = re.findall(rf"^\| `{attribute}`.*?\| (.+) \|$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + rng.logistic(size=60) > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the perceptron does not converge
        having = {type(model).__name__ for model in all_models() if hasattr(model.fit(X, y), attribute)}
    assert set(re.findall(r"`([A-Z]\w+)`", row)) == having
