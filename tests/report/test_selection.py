"""The page about a model with a Laplace prior: what was selected, no errors, and what that means."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris

from oddsmith import LaplacePrior, LogisticRegression, Standardize
from oddsmith.report import make_report


def text_of(model, X, y):
    import html
    import re

    page = make_report(model, X, y)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", str(page))).split())


@pytest.mark.parametrize("load", [load_breast_cancer, load_iris])
def test_page_names_the_selection_and_its_caveat(load):
    data = load(as_frame=True)
    X, y = data.data, np.asarray(data.target_names)[data.target]
    model = LogisticRegression(LaplacePrior(0.03), basis=Standardize()).fit(X, y)
    text = text_of(model, X, y)
    selected, columns = len(model.selected_), X.shape[1]
    assert 0 < selected < columns
    assert f"it selected {selected} of {columns} columns" in text
    assert "Gaussian prior" not in text
    assert "its intervals are valid on rows that the selection has not seen" in text
    assert "norm of the gradient" not in text
    assert "from which the LaplacePrior selected columns" in text
    weights = text.partition("Nonzero weights, the largest first")[2].partition("Do not read")[0]
    assert all(name in weights for name in model.selected_)
    assert not [name for name in set(X.columns) - set(model.selected_) if f" {name} " in weights]


def test_page_of_a_model_without_columns():
    X, y = load_breast_cancer(return_X_y=True)
    text = text_of(LogisticRegression(LaplacePrior(1e-9)).fit(X[:, :3], y), X[:, :3], y)
    assert "No column was selected, so none has any importance." in text
