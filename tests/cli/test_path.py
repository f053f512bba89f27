"""Paths of a Laplace prior on the command line, and that prior in a fit."""

import json
from typing import Any

import numpy as np
import pandas
import pytest

import oddsmith
from oddsmith import LaplacePrior, Standardize, regularization_path
from oddsmith.cli.model_spec import read_prior
from oddsmith.data import load_dataset
from oddsmith.errors import InvalidInputError

PRIORS = {
    "laplace:0.1": LaplacePrior(0.1),
    "laplace:cv": LaplacePrior("cv"),
    "laplace:0.1,gaussian=1,groups=class": LaplacePrior(0.1, groups="class", gaussian=1),
    "laplace(0.1, groups='factor')": LaplacePrior(0.1, groups="factor"),
    "laplace(0.1, groups=[['a', 'b']])": LaplacePrior(0.1, groups=[["a", "b"]]),
    "laplace('cv', one_standard_error=True)": LaplacePrior("cv", one_standard_error=True),
}


@pytest.mark.parametrize("text", PRIORS)
def test_prior_is_read(text: str) -> None:
    assert repr(read_prior(text)) == repr(PRIORS[text])


@pytest.mark.parametrize("text", ["laplace", "laplace()", "laplace(gaussian=1)"])
def test_prior_without_a_scale_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="needs scale"):
        read_prior(text)


def test_path_gives_the_numbers_of_the_library(run: Any) -> None:
    table = load_dataset("breast_cancer")
    path = regularization_path(table, "diagnosis", n=8, basis=[Standardize()], cv=3, seed=0)
    arguments = ("path", "breast_cancer", "-t", "diagnosis", "--basis", "standardize", "--cv", 3, "-n", 8)
    found = json.loads(run(*arguments, "--json").out)
    assert found["choices"]["choice"] == ["min", "1se", "aic", "bic", "ebic"]
    assert found["choices"]["scale"] == pytest.approx([path.best(name) for name in found["choices"]["choice"]])
    assert found["choices"]["columns"][3] == path.selected("bic")
    np.testing.assert_allclose(found["path"]["cv_loss"], path.cv_loss)
    ended = run(*arguments, "-o", "p.csv", "--plot", "p.png")
    assert ended.code == 0
    assert "1se" in ended.out
    written = pandas.read_csv("p.csv")
    np.testing.assert_allclose(written["worst_radius"], path.weight_table()["worst_radius"])
    assert written.columns.tolist()[:4] == ["scale", "n_selected", "log_likelihood", "gap"]
    with open("p.png", "rb") as file:
        assert file.read(4) == b"\x89PNG"


def test_a_choice_at_the_end_of_the_path_is_warned_of(run: Any) -> None:
    """A column of a large spread has the smallest scales: others come after the end of the path."""
    rng = np.random.default_rng(0)
    table = pandas.DataFrame({"large": 1e6 * rng.normal(size=200), "small": rng.normal(size=200)})
    table["y"] = np.where(2.0 * table["small"] + 1e-6 * table["large"] + rng.logistic(size=200) > 0.0, "b", "a")
    table.to_csv("rows.csv", index=False)
    ended = run("path", "rows.csv", "-t", "y", "-n", 8)
    assert "The last scale is the choice of aic" in " ".join((ended.out + ended.err).split())
    assert "small" not in ended.out
    assert "large, small" in run("path", "rows.csv", "-t", "y", "-n", 8, "--basis", "standardize").out


def test_path_refuses_other_priors(run: Any) -> None:
    ended = run("path", "iris", "-t", "species", "--prior", "1.0")
    assert ended.code == 1
    assert "Use --prior laplace:1" in " ".join(ended.err.split())


def test_fit_says_what_was_selected(run: Any) -> None:
    ended = run("fit", "iris", "-t", "species", "--prior", "laplace:0.02", "-o", "m.odds", "--json")
    model = oddsmith.load("m.odds")
    assert json.loads(ended.out)["selected"] == model.selected_
    assert 0 < len(model.selected_) < 4
    shown = " ".join(run("summary", "m.odds").out.split())
    assert f"{len(model.selected_)} of 4 columns were selected" in shown
    sql = run("export", "sql", "m.odds", "--table", "t").out
    assert all((f'"{name}"' in sql) == (name in model.selected_) for name in model.feature_names_in_)
