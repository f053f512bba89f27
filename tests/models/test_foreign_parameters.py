"""Parameters of other libraries are refused with what they are called here."""

import inspect
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression as SklearnLogisticRegression
from sklearn.model_selection import GridSearchCV

import oddsmith
from oddsmith import LaplacePrior, LogisticRegression
from oddsmith.errors import InvalidInputError, InvalidTypeError, OddsmithError
from oddsmith.models import MODELS
from oddsmith.models.foreign_parameters import EVERYWHERE, PENALISED

WORDS = {
    "C": (4, r"C=4 is prior=2\.0 \(σ = √C\).*sum over rows.*intercept"),
    "alpha": (4, r"alpha=4 on the sum of losses is prior=0\.5.*mean.*intercept"),
    "penalty": ("l2", r"A penalty is a prior here: prior=1\.0"),
    "l1_ratio": (0.25, r"is prior=LaplacePrior\(C / 0\.25, gaussian=1\.1547"),
    "n_jobs": (-1, r"Use threads="),
    "random_state": (0, r"Use seed="),
    "verbose": (1, "Nothing is printed"),
    "prio": (1.0, r"It has: .*prior.*Did you mean 'prior'\?"),
}


@pytest.mark.parametrize("name", WORDS)
def test_constructor_and_set_params_translate(name: str) -> None:
    value, text = WORDS[name]
    for kind in (LogisticRegression, oddsmith.ProbitRegression):
        with pytest.raises(InvalidTypeError, match=f"{kind.__name__} has no parameter {name}. .*"):
            kind(**{name: value})
    with pytest.raises(InvalidTypeError, match=text):
        LogisticRegression(**{name: value})
    with pytest.raises(InvalidInputError, match=text):
        LogisticRegression().set_params(**{name: value})


def test_translated_penalty_is_the_same_optimum() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = X[:, 0] + rng.normal(size=80) > 0
    with pytest.raises(InvalidTypeError) as caught:
        LogisticRegression(C=0.3)
    said = float(re.search(r"prior=([\d.]+)", str(caught.value)).group(1))  # type: ignore[union-attr]
    theirs = SklearnLogisticRegression(C=0.3, tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(LogisticRegression(prior=said).fit(X, y).coef_, theirs.coef_, atol=1e-6)


@pytest.mark.parametrize("ratio", [1.0, 0.25])
def test_translated_lasso_and_elastic_net_are_the_same_optimum(ratio: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    y = X[:, 0] + rng.normal(size=80) > 0
    with pytest.raises(InvalidTypeError, match=r"C=0\.3 is .*With penalty='l1' it is prior=LaplacePrior\(0\.3\)"):
        LogisticRegression(C=0.3)
    with pytest.raises(InvalidTypeError, match="penalty='l1' is a LaplacePrior here") as caught:
        LogisticRegression(penalty="l1")
    assert "C=c is prior=LaplacePrior(c)" in str(caught.value)
    prior = LaplacePrior(0.3)
    if ratio < 1.0:
        with pytest.raises(InvalidTypeError) as caught:
            LogisticRegression(l1_ratio=ratio)
        said = re.search(r"prior=(LaplacePrior\(.*?\*\*0\.5\))", str(caught.value)).group(1)  # type: ignore[union-attr]
        prior = eval(said, {"LaplacePrior": LaplacePrior, "C": 0.3})
    options: dict[str, Any] = {"solver": "saga", "tol": 1e-12, "max_iter": 100_000, "l1_ratio": ratio}
    if "penalty" in SklearnLogisticRegression().get_params() and sklearn_version() < (1, 8):
        options["penalty"] = "elasticnet"
    theirs = SklearnLogisticRegression(C=0.3, **options).fit(X, y)
    ours = LogisticRegression(prior, tol=1e-12).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    assert (ours.coef_ == 0.0).tolist() == (theirs.coef_ == 0.0).tolist()


def sklearn_version() -> tuple[int, ...]:
    """Major and minor version of scikit-learn."""
    return tuple(map(int, sklearn.__version__.split(".")[:2]))


@pytest.mark.parametrize("kind", [kind for _, kind in MODELS.items()], ids=lambda kind: kind.__name__)
def test_every_foreign_name_is_a_sentence_and_the_signature_stays(kind: Any) -> None:
    known = inspect.signature(kind).parameters
    assert "class_weight" in known and not any(p.kind == p.VAR_KEYWORD for p in known.values())
    for name in {*EVERYWHERE, *PENALISED} - set(known):
        for value in (None, 1.0, "l2"):
            with pytest.raises(OddsmithError, match=f"^{kind.__name__} has no parameter {name}[.] .+[.?]$"):
                kind(**{name: value})
    with pytest.raises(OddsmithError, match="It has: "):
        kind(nonsense=1)


def test_names_in_a_translation_exist() -> None:
    parameters = {name for _, kind in MODELS.items() for name in inspect.signature(kind).parameters}
    for text in EVERYWHERE.values():
        for name in re.findall(r"It is (\w+)=", str(text)):
            assert name in parameters, text


def test_search_over_a_foreign_parameter_says_what_it_is() -> None:
    search = GridSearchCV(LogisticRegression(), {"C": [1.0, 2.0]}, cv=2, error_score="raise")
    with pytest.raises(ValueError, match=r"C=1\.0 is prior=1\.0"):
        search.fit(np.arange(8.0)[:, None], [0, 1] * 4)


@pytest.mark.parametrize(
    ("theirs", "ours"), [("newton-cholesky", "newton"), ("newton-cg", "truncated-newton"), ("saga", "auto")]
)
def test_a_solver_of_scikit_learn_is_translated(theirs: str, ours: str) -> None:
    with pytest.raises(InvalidInputError, match=f"'{theirs}' is scikit-learn's; here it is solver='{ours}'"):
        LogisticRegression(solver=theirs).fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])


def test_a_name_of_another_type_or_case_is_suggested() -> None:
    model = LogisticRegression(1.0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])
    with pytest.raises(InvalidInputError, match="Did you mean 0, of type int"):
        model.decide([[0.0]], {"0": {"go": 1, "stay": 0}, "1": {"go": 0, "stay": 9}})
    with pytest.raises(InvalidInputError, match=r"There is no column 'Y'\. Did you mean 'y'"):
        LogisticRegression().fit(pa.table({"x": [0.0, 1.0], "y": [0, 1]}), "Y")
