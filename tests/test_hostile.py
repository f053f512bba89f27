"""Some hundred hostile problems; ``python -m tests.hostile 20000`` runs many more."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests import hostile

import oddsmith
from oddsmith import GaussianClassifier, LogisticRegression, NaiveBayes, OneVsOne, RadialBasis
from oddsmith.design.table import Design
from oddsmith.errors import InvalidInputError, InvalidTypeError, OddsmithError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = (X[:, 0] + RNG.normal(size=60) > 0).astype(int)
TABLE = pd.DataFrame({"y": Y, "age": X[:, 0], "x": np.arange(60) % 4, "e": X[:, 1]})


def test_problems_end_in_finite_numbers_or_in_a_sentence() -> None:
    found = list(hostile.findings(400))
    assert not found, "\n".join(map(str, found))


def test_a_problem_is_made_from_its_number_alone() -> None:
    one, other = hostile.make_problem(11), hostile.make_problem(11)
    assert one.words == other.words
    assert any(hostile.make_problem(k).words != one.words for k in range(3))


@pytest.mark.parametrize("spoil", [lambda P: P * np.nan, lambda P: P + 1.0, lambda P: -P])
def test_silent_nonsense_would_be_found(spoil: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    good = GaussianClassifier.predict_proba
    monkeypatch.setattr(GaussianClassifier, "predict_proba", lambda self, rows: spoil(good(self, rows)))
    assert list(hostile.findings(60))


def test_foreign_exceptions_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: Any, **named: Any) -> None:
        raise KeyError("deep inside")

    monkeypatch.setattr(GaussianClassifier, "_solve", fail)
    assert any("KeyError" in found.what for found in hostile.findings(60))


HUGE = {
    "naive Bayes": NaiveBayes(),
    "diagonal": GaussianClassifier("diagonal"),
    "spherical": GaussianClassifier("spherical"),
    "shared": GaussianClassifier(),
    "perceptron": oddsmith.PerceptronClassifier(),
    "least squares": oddsmith.LeastSquaresClassifier(),
    "Fisher": oddsmith.FisherDiscriminant(),
    "logistic": LogisticRegression(prior=1.0),
    "multinomial": NaiveBayes("multinomial"),
    "separate, polynomial": GaussianClassifier("separate", basis=oddsmith.Polynomial(2)),
    "radial": LogisticRegression(prior=1.0, basis=RadialBasis(3, 1.0)),
}


@pytest.mark.parametrize("scale", [1e155, 1e200, 5e307])
@pytest.mark.parametrize("name", HUGE)
def test_columns_beyond_the_range_of_squares_are_refused(name: str, scale: float) -> None:
    rows = np.abs(X) * scale / 3.0
    try:
        model = HUGE[name].fit(rows, Y)
        assert np.isfinite(model.decision_function(rows)).all()
    except OddsmithError as error:
        assert any(words in str(error) for words in ("range of floating point", "float64 can hold", "out of range"))
    else:
        assert name == "multinomial", "counts have no squares"


def test_oas_at_any_scale_is_the_same_shrinkage() -> None:
    shares = [GaussianClassifier(shrinkage="oas").fit(X * scale, Y).shrinkage_ for scale in (1e-100, 1.0, 1e100)]
    np.testing.assert_allclose(shares[0], shares[1])
    np.testing.assert_allclose(shares[2], shares[1])


@pytest.mark.parametrize("family", ["gaussian", "bernoulli", "categorical", "poisson", "multinomial"])
def test_naive_bayes_with_a_basis_takes_every_family(family: str) -> None:
    rows = RNG.integers(0, 2, size=(60, 2)).astype(float)
    model = NaiveBayes(family, basis=oddsmith.Polynomial(2)).fit(rows, Y)
    made = oddsmith.Polynomial(2).fit_transform(rows)
    np.testing.assert_allclose(model.predict_proba(rows), NaiveBayes(family).fit(made, Y).predict_proba(made))


@pytest.mark.parametrize("kind", [GaussianClassifier, NaiveBayes, oddsmith.FisherDiscriminant])
def test_a_class_prior_that_changes_later_changes_no_model(kind: Any) -> None:
    prior = np.array([0.5, 0.5])
    models = [kind(class_prior=prior).fit(X, Y), kind().fit(X, Y).with_class_prior(prior)]
    models.append(LogisticRegression().fit(X, Y).with_class_prior(prior))
    before = [(model.predict_proba(X), model.class_prior_.copy()) for model in models]
    prior[:] = 0.9, 0.1
    for model, (proba, kept) in zip(models, before, strict=True):
        np.testing.assert_array_equal(model.predict_proba(X), proba)
        np.testing.assert_array_equal(model.class_prior_, kept)


@pytest.mark.parametrize("columns", [1, 3, 5])
@pytest.mark.parametrize("scale", [1e6, 1e8, 1e60])
def test_a_wide_prior_on_separated_rows_is_certified(columns: int, scale: float, recwarn: Any) -> None:
    rows = np.random.default_rng(columns).normal(size=(10, columns))
    model = LogisticRegression(prior=scale).fit(rows, rows[:, 0] > 0)
    assert model.certificate_.converged and model.certificate_.gap < 1e-8
    assert not recwarn.list
    objective = -model.log_likelihood_ + 0.5 * float((model.coef_**2).sum()) / scale**2
    assert objective <= 1e-8, "the objective is at least zero at its optimum, so this is the bound"


SENTENCES: dict[str, tuple[Any, str]] = {
    "matrix": (lambda: LogisticRegression().fit(hostile.as_matrix(RNG, X), Y), "np.asarray"),
    "complex": (lambda: LogisticRegression().fit(X + 1j, Y), "Complex data not supported: X holds complex numbers"),
    "dict": (lambda: LogisticRegression().fit({"a": X[:, 0]}, Y), "pandas.DataFrame"),
    "documents": (lambda: LogisticRegression().fit(["good film", "bad film"] * 30, Y), "TfidfVectorizer"),
    "lazy frame": (lambda: LogisticRegression().fit(pl.from_pandas(TABLE).lazy(), "y"), "X.collect"),
    "balanced": (lambda: LogisticRegression().fit(X, Y, sample_weight="balanced"), "class_weight='balanced'"),
    "name of weights": (lambda: LogisticRegression().fit(X, Y, sample_weight="w"), "the weights themselves"),
    "formula as X": (lambda: LogisticRegression().fit("y ~ age", TABLE), r"Design\(formula='y ~ age'\)"),
    "offset": (lambda: LogisticRegression(design=Design(formula="age + offset(e)")).fit(TABLE), r"offset=table\['e'\]"),
    "null model": (lambda: LogisticRegression(design=Design(formula="y ~ 1")).fit(TABLE), "null_log_likelihood"),
    "EM": (lambda: oddsmith.estimate_class_prior(GaussianClassifier().fit(X, Y), X, max_iter=0), "at least 1, found 0"),
    "weights": (
        lambda: LogisticRegression(link="log").fit(X, Y, sample_weight=np.full(60, 1e300)),
        "out of range. Give weights near one",
    ),
    "interval": (
        lambda: LogisticRegression().fit(pd.DataFrame({"a": pd.interval_range(0, 60)}), Y),
        "could not be read as numbers",
    ),
    "interval, naive Bayes": (
        lambda: NaiveBayes().fit(pd.DataFrame({"a": pd.interval_range(0, 60)}), Y),
        "Column 'a'",
    ),
    "far row": (lambda: LogisticRegression(prior=1.0).fit(X, Y).predict_proba([[1.7e308] * 3]), "Row 0 has values"),
    "far row, Gaussian": (lambda: GaussianClassifier("separate").fit(X, Y).predict([[1e200, 0, 0]]), "density zero"),
    "basis": (lambda: LogisticRegression(basis=oddsmith.Polynomial(40)).fit(X[:, :1] * 1e9, Y), "Put Standardize"),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_what_other_libraries_would_choke_on_gets_a_sentence(name: str) -> None:
    call, text = SENTENCES[name]
    with pytest.raises((InvalidInputError, InvalidTypeError), match=text):
        call()


def test_formulas_as_r_writes_them() -> None:
    def fitted(formula: str) -> Any:
        return LogisticRegression(design=Design(formula=formula)).fit(TABLE).coef_

    np.testing.assert_array_equal(fitted("y ~ I(age^2)"), fitted("y ~ I(age**2)"))
    np.testing.assert_array_equal(fitted("y ~ I(2 * age^2 + 1)"), fitted("y ~ I(2 * age**2 + 1)"))
    np.testing.assert_array_equal(fitted("y ~ factor(x)"), fitted("y ~ C(x)"))
    np.testing.assert_array_equal(fitted("y ~ e + as.factor(x)"), fitted("y ~ e + C(x)"))


def test_reductions_of_parts_with_columns_of_their_own_have_no_weights() -> None:
    three = np.digitize(X[:, 0], [-0.5, 0.5])
    model = OneVsOne(LogisticRegression(prior=1.0, basis=RadialBasis())).fit(X[:30], three[:30])
    assert len({part.coef_.shape for part in model.models_.values()}) > 1
    assert not hasattr(model, "coef_")
