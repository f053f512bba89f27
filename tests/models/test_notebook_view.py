"""What a notebook shows of a model."""

import re
import warnings
from typing import Any

import numpy as np
import pytest
import sklearn

from oddsmith import LaplacePrior, LogisticRegression
from oddsmith.errors import OddsmithWarning
from oddsmith.testing import all_models

RNG = np.random.default_rng(0)
X, T = RNG.normal(size=(60, 2)), np.array(["<no>", "yes"])[np.arange(60) % 2]


def cells(html: str) -> dict[str, tuple[str, str]]:
    """The facts below scikit-learn's box: name → side of the cell and its text."""
    (below,) = re.findall(r'<div class="oddsmith-fit".*', html, flags=re.DOTALL)
    found = re.findall(r'<t([hd]) style="text-align:(\w+)">(.*?)</t', below)
    names, values = [f[2] for f in found if f[0] == "h"], [f[1:] for f in found if f[0] == "d"]
    return dict(zip(names, values, strict=True))


@pytest.mark.parametrize("model", list(all_models()), ids=lambda model: type(model).__name__)
def test_every_fitted_model_shows_its_classes_and_rows(model: Any) -> None:
    assert "oddsmith-fit" not in model._repr_html_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OddsmithWarning)
        model.fit(X, T)
    bundle = model._repr_mimebundle_()
    assert bundle["text/html"].count("oddsmith-fit") == 1 and bundle["text/plain"] == repr(model)
    facts = cells(bundle["text/html"])
    assert facts["classes"] == ("left", "&lt;no&gt;, yes") and facts["columns"] == ("right", "2")
    assert facts.get("rows", ("right", "60")) == ("right", "60")


def test_a_likelihood_shows_prior_log_loss_certificate_and_plan() -> None:
    model = LogisticRegression(2.0).fit(X, T)
    html = model._repr_html_()
    facts = cells(html)
    loss = -np.mean(np.log(model.predict_proba(X)[np.arange(60), np.arange(60) % 2]))
    assert facts["prior"] == ("left", "2.0") and facts["rows"] == ("right", "60")
    assert facts["log loss"] == ("right", f"{loss:.4g}") and facts["null log loss"] == ("right", f"{np.log(2.0):.4g}")
    assert facts["certificate"][1].startswith("at the optimum, gap ≤ ") and str(model.plan_) in html
    with sklearn.config_context(display="text"):
        assert not hasattr(model, "_repr_html_") and "text/html" not in model._repr_mimebundle_()


@pytest.mark.filterwarnings("ignore::oddsmith.errors.OddsmithWarning")
def test_a_fit_without_optimum_says_so() -> None:
    assert "no optimum" in cells(LogisticRegression().fit([[0.0], [1.0]], [0, 1])._repr_html_())["certificate"][1]
    assert (
        "NOT at the optimum" in cells(LogisticRegression(9.0, max_iter=1).fit(X**3, T)._repr_html_())["certificate"][1]
    )


def test_view_counts_the_columns_that_were_selected() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 4))
    model = LogisticRegression(LaplacePrior(0.05)).fit(X, X[:, 0] + rng.logistic(size=100) > 0)
    assert f"{len(model.selected_)} of 4" in model._repr_html_()
