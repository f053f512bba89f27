"""Sites that send sums and no rows: the fit equals the pooled one, and what does not belong gets a sentence."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from scipy import sparse
from tests.persistence.mutate import damaged

from oddsmith import (
    Answer,
    Design,
    FisherDiscriminant,
    Fit,
    GaussianClassifier,
    GaussianKernel,
    GaussianPrior,
    JeffreysPrior,
    LeastSquaresClassifier,
    LogisticRegression,
    NaiveBayes,
    OneVsRest,
    Polynomial,
    ProbitRegression,
    RadialBasis,
    Request,
    Spline,
    Standardize,
)
from oddsmith.errors import ConvergenceWarning, InvalidInputError, InvalidTypeError, MessageError, OddsmithError
from oddsmith.statistics import Sample
from oddsmith.statistics.sample import SampleParams
from oddsmith.testing import all_models

Rows = tuple[Any, ...]
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def numbers(n: int = 1200, K: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Rows in the order of their classes, nearly: most of many sites lack some class."""
    rng = np.random.default_rng(K)
    t = np.arange(n) % K
    X = rng.normal(size=(n, 3)) * [1.0, 20.0, 0.1] + [5.0, 1e3, 0.0] + 0.6 * t[:, None] * [1.0, -15.0, 0.02]
    order = np.argsort(t + 0.8 * rng.random(n))
    return X[order], np.array(["ash", "birch", "cedar"])[t[order]]


def table(n: int = 900) -> polars.DataFrame:
    rng = np.random.default_rng(1)
    size, kind = rng.normal(size=n), rng.choice(["oak", "pine", "yew", "elm"], n, p=[0.5, 0.3, 0.15, 0.05])
    odds = 0.8 * size + np.where(kind == "pine", 1.0, 0.0) - 0.3
    return polars.DataFrame(
        {
            "size": size,
            "kind": kind,
            "age": rng.integers(1, 90, n),
            "ill": np.where(rng.random(n) < 1 / (1 + np.exp(-odds)), "yes", "no"),
            "times": rng.integers(0, 3, n).astype(float),
            "start": 0.1 * rng.normal(size=n),
        }
    ).sort("kind", maintain_order=True)


def cut(rows: Rows, sites: int, *, empty: bool = True) -> list[Rows]:
    """The rows in uneven parts, one of them empty."""
    n = len(rows[0])
    edges = [int(n * (i / sites) ** 1.3) for i in range(sites + 1)]
    parts = [tuple(part[i:j] for part in rows) for i, j in pairwise(edges)]
    return [*parts, tuple(part[:0] for part in rows)] if empty else parts


def federated(state: Fit, parts: Iterable[Rows], *, by_bytes: bool = False, **more: Any) -> Fit:
    """Run a fit to its end, every message turned into bytes on its way if ``by_bytes``."""
    sites = list(parts)
    for _ in range(200):
        if state.done:
            return state
        request = Request.from_bytes(state.request.to_bytes()) if by_bytes else state.request
        answers: list[Any] = [request.statistic(*rows, site=f"site {i:02}", **more) for i, rows in enumerate(sites)]
        state = Fit.step(state, [answer.to_bytes() for answer in answers] if by_bytes else answers)
        state = Fit.from_bytes(state.to_bytes()) if by_bytes else state
    raise AssertionError("A fit has no end.")


def same(found: Any, pooled: Any, X: Any) -> None:
    assert found.classes_.tolist() == pooled.classes_.tolist()
    for name in ("coef_", "intercept_", "means_", "log_evidence_", "aliased_"):
        expected = getattr(pooled, name, None)
        if isinstance(expected, np.ndarray | float):
            np.testing.assert_allclose(getattr(found, name), expected, **CLOSE)
    np.testing.assert_array_equal(found.predict(X), pooled.predict(X))
    for method in ("predict_proba", "decision_function"):
        if hasattr(pooled, method):
            np.testing.assert_allclose(getattr(found, method)(X), getattr(pooled, method)(X), rtol=1e-8, atol=1e-9)


ON_NUMBERS = [
    LogisticRegression(),
    LogisticRegression(prior=0.5),
    LogisticRegression(GaussianPrior(scale=2.0), basis=[Standardize(), Polynomial(2)], reference="birch"),
    LogisticRegression(fit_intercept=False, prior=1.0, basis=Standardize()),
    OneVsRest(LogisticRegression(prior=1.0)),
    LeastSquaresClassifier(),
    LeastSquaresClassifier(prior=1.0, basis=Standardize()),
    FisherDiscriminant(),
    GaussianClassifier(),
    GaussianClassifier("separate"),
    GaussianClassifier("diagonal"),
    GaussianClassifier("spherical"),
    GaussianClassifier({"ash": 0, "birch": 1, "cedar": 0}),
    NaiveBayes(),
]


@pytest.mark.parametrize("sites", [2, 50])
@pytest.mark.parametrize("model", ON_NUMBERS, ids=repr)
def test_sites_equal_the_pooled_fit(model: Any, sites: int) -> None:
    rows = numbers()
    parts = cut(rows, sites)
    assert any(0 < len(set(y)) < 3 for _, y in parts)
    state = federated(Fit.start(model), parts, by_bytes=sites == 2)
    same(state.model, model.fit(*rows), rows[0])
    assert state.sites is not None and len(state.sites) == sites + 1


@pytest.mark.parametrize("class_weight", ["balanced", {"birch": 3.0}], ids=str)
@pytest.mark.parametrize("kind", [LogisticRegression, GaussianClassifier, LeastSquaresClassifier, FisherDiscriminant])
def test_class_weights_over_sites_are_sample_weights(kind: Any, class_weight: Any) -> None:
    X, y = numbers(600)
    found = federated(Fit.start(kind(class_weight=class_weight)), cut((X, y), 4), by_bytes=True).model
    pooled = kind(class_weight=class_weight).fit(X, y)
    same(found, pooled, X)
    np.testing.assert_allclose(found.class_weight_, pooled.class_weight_)
    each = found.class_weight_[np.searchsorted(found.classes_, y)]
    same(found, kind().fit(X, y, sample_weight=each), X)


@pytest.mark.parametrize(
    "model",
    [
        *(LogisticRegression(link=link) for link in ("probit", "cloglog", "loglog", "cauchit")),
        ProbitRegression(prior=1.0),
        LogisticRegression(JeffreysPrior()),
        LeastSquaresClassifier("fisher"),
    ],
    ids=repr,
)
def test_links_and_priors_of_two_classes_equal_the_pooled_fit(model: Any) -> None:
    X, y = numbers(600, 2)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    same(federated(Fit.start(model), cut((X, y), 4), by_bytes=True).model, model.fit(X, y), X)


def test_width_by_evidence_equals_the_pooled_one() -> None:
    X, y = numbers(600, 2)
    model = LogisticRegression(GaussianPrior(scale="evidence"), basis=Standardize())
    found = federated(Fit.start(model), cut((X, y), 4), by_bytes=True).model
    pooled = model.fit(X, y)
    np.testing.assert_allclose(found.log_evidence_, pooled.log_evidence_, rtol=1e-12)
    np.testing.assert_allclose(found.coef_, pooled.coef_, rtol=1e-8)  # the width is found by a search


def test_every_model_is_fitted_or_says_why_not() -> None:
    X, y = numbers(300, 2)
    fitted, refused = [], []
    for model in all_models():
        try:
            state = federated(Fit.start(model), cut((X, y), 3))
        except OddsmithError as error:
            assert len(str(error)) > 40, f"{model!r}: {error}"
            refused.append(type(model).__name__)
        else:
            same(state.model, model.fit(X, y), X)
            fitted.append(type(model).__name__)
    assert sorted(refused) == ["PerceptronClassifier", "RecalibratedClassifier"]
    assert len(fitted) >= 8


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(),
        LogisticRegression(prior=1.0, design=Design("ill ~ size * kind")),
        LeastSquaresClassifier(),
        GaussianClassifier(design=Design("ill ~ size + age")),
        NaiveBayes(),
    ],
    ids=repr,
)
def test_tables_whose_sites_have_different_levels(model: Any) -> None:
    columns = ["size", "kind", "age"]
    data = table()[[*columns, "ill"]]
    parts = [(part,) for (part,) in cut((data,), 5)]
    assert len({tuple(part["kind"].unique().sort()) for (part,) in parts}) > 3
    state = federated(Fit.start(model, columns, y="ill"), parts, by_bytes=True)
    same(state.model, model.fit(data, "ill"), data.drop("ill"))
    assert state.model.feature_names_in_.tolist() == model.feature_names_in_.tolist()


def test_labels_beside_a_table() -> None:
    data = table()[["size", "age", "ill"]]
    X, y = data.drop("ill"), data["ill"].to_numpy()
    state = federated(Fit.start(LogisticRegression(), ["size", "age"]), cut((X, y), 3))
    same(state.model, LogisticRegression().fit(X, y), X)


@pytest.mark.parametrize("model", [LogisticRegression(), LogisticRegression(prior=1.0)], ids=repr)
def test_weights_and_offsets(model: Any) -> None:
    data = table()[["size", "age", "ill", "times", "start"]]
    X = data[["size", "age"]]
    roles = {"y": "ill", "sample_weight": "times", "offset": "start"}
    pooled = model.fit(X, data["ill"], sample_weight=data["times"], offset=data["start"])
    state = federated(Fit.start(model, ["size", "age"], **roles), cut((data,), 4))
    np.testing.assert_allclose(state.model.coef_, pooled.coef_, **CLOSE)
    beside = [
        tuple(map(np.asarray, (p[["size", "age"]], p["ill"], p["times"], p["start"]))) for (p,) in cut((data,), 4)
    ]
    np.testing.assert_allclose(federated(Fit.start(model), beside).model.coef_, pooled.coef_, **CLOSE)


@pytest.mark.parametrize("model", [GaussianClassifier(), LeastSquaresClassifier(), NaiveBayes()], ids=repr)
def test_weights_of_closed_forms(model: Any) -> None:
    X, y = numbers(600)
    s = np.random.default_rng(0).integers(0, 3, 600).astype(float)
    same(federated(Fit.start(model), cut((X, y, s), 4)).model, model.fit(X, y, s), X)


def test_names_of_columns_are_given_once() -> None:
    state = Fit.start(LogisticRegression(), ["size", "kind"], y="ill")
    with pytest.raises(InvalidTypeError, match=r"the text 'ill'. A column of the data is named once"):
        state.request.statistic(table(3), "ill", site="a")


def test_files_at_a_site(tmp_path: Path) -> None:
    data = table()[["size", "kind", "ill"]]
    paths = []
    for i, (part,) in enumerate(cut((data,), 3, empty=False)):
        part.write_parquet(tmp_path / f"{i}.parquet")
        paths.append((tmp_path / f"{i}.parquet",))
    state = federated(Fit.start(LogisticRegression(), ["size", "kind"], y="ill"), paths, memory="100MB")
    same(state.model, LogisticRegression().fit(data, "ill"), data.drop("ill"))


def test_model_that_was_fitted_by_sites_can_do_what_others_can(tmp_path: Path) -> None:
    X, y = numbers(600, 2)
    state = federated(Fit.start(LogisticRegression(prior=1.0)), cut((X, y), 3))
    pooled = LogisticRegression(prior=1.0).fit(X, y)
    np.testing.assert_allclose(state.model.posterior_.covariance, pooled.posterior_.covariance, rtol=1e-8)
    np.testing.assert_allclose(state.model.log_evidence_, pooled.log_evidence_, rtol=1e-10)
    state.model.save(tmp_path / "m.odds")
    flat = federated(Fit.start(LogisticRegression()), cut((X, y), 3)).model.summary()
    np.testing.assert_allclose(flat.std_error, LogisticRegression().fit(X, y).summary().std_error, rtol=1e-8)


# ------------------------------------------------------------------------------------------------ no row leaves a site


def values_in(message: bytes) -> set[bytes]:
    """Every run of eight bytes, at whatever place it begins, and every number in the text."""
    words = re.findall(rb"[0-9][0-9.e+-]*|[0-9a-f]{16}", message)
    return {message[i : i + 8] for i in range(len(message) - 7)} | set(words)


def forms(X: np.ndarray) -> set[bytes]:
    """How the values of rows could stand in a message: as they are, shortened, or written out."""
    whole = {x.tobytes() for x in X.ravel()} | {f"{abs(x)!r}".encode() for x in X.ravel().tolist()}
    return whole | {x.tobytes().hex().encode() for x in X.ravel()}


@pytest.mark.parametrize("model", [*ON_NUMBERS, LogisticRegression(JeffreysPrior())], ids=repr)
def test_no_value_of_a_row_is_in_a_message(model: Any) -> None:
    X, y = numbers(300, 2 if "Jeffreys" in repr(model) else 3)
    state, rounds = Fit.start(model), 0
    while not state.done:
        answers = [state.request.statistic(X[i::2], y[i::2], site=f"site {i}") for i in range(2)]
        for answer in answers:
            assert not values_in(answer.to_bytes()) & forms(X), f"a value in {state.request!r}"
        state, rounds = Fit.step(state, answers), rounds + 1
        asked = b"" if state.done else state.request.to_bytes()
        assert not values_in(asked) & forms(X)
    assert rounds >= (1 if isinstance(model, NaiveBayes) else 2)


def test_no_number_of_a_table_is_in_a_message() -> None:
    data = table()[["size", "kind", "ill", "start"]].sample(fraction=1.0, shuffle=True, seed=0)
    state = Fit.start(LogisticRegression(), ["size", "kind", "start"], y="ill")
    values = forms(data[["size", "start"]].to_numpy())
    while not state.done:
        answers = [state.request.statistic(data[i::3], site=f"site {i}") for i in range(3)]
        assert not any(values_in(answer.to_bytes()) & values for answer in answers)
        state = state.step(answers)


def test_the_search_for_values_finds_one() -> None:
    X, y = numbers(30)
    alone = Fit.start(GaussianClassifier())
    alone = Fit.step(alone, [alone.request.statistic(X, y, site="all")])
    one = np.flatnonzero(y == "ash")[:1]
    sums = alone.request.statistic(X[one], y[one], site="one row").to_bytes()
    assert len(values_in(sums) & forms(X[one])) == 3  # the mean of one row is the row: hence least_rows


@pytest.mark.parametrize("basis", [RadialBasis(5), GaussianKernel(1.0), Spline(4)], ids=repr)
def test_basis_that_needs_rows_is_refused(basis: Any) -> None:
    X, y = numbers(300, 2)
    with pytest.raises(InvalidInputError, match="learned from rows or a sample of them, but no row may leave its site"):
        federated(Fit.start(LogisticRegression(prior=1.0, basis=basis)), cut((X, y), 3))


def test_basis_with_given_centres_needs_no_rows() -> None:
    X, y = numbers(300, 2)
    model = LogisticRegression(prior=1.0, basis=RadialBasis(X[:4], width=30.0))
    same(federated(Fit.start(model), cut((X, y), 3), by_bytes=True).model, model.fit(X, y), X)


def test_site_refuses_to_send_a_sample() -> None:
    request = Fit.start(LogisticRegression()).request
    asked = request.asked
    drawing = replace(asked, params=replace(asked.params, share=1.0, most=10))
    sample = replace(asked, statistic="Sample", params=SampleParams(10), transform=None, columns=None)
    strange = replace(asked, encode=Sample)
    for bad in (drawing, sample, strange):
        with pytest.raises((OddsmithError, TypeError)):
            Request.from_bytes(replace(request, asked=bad).to_bytes())


def test_few_rows_stay_at_home() -> None:
    X, y = numbers(300, 2)
    state = Fit.start(LogisticRegression(), least_rows=20)
    for _ in range(2):
        with pytest.raises(InvalidInputError, match="Site 'small' has 5 rows, but this fit requires at least 20"):
            state.request.statistic(X[:5], y[:5], site="small")
        answers = [state.request.statistic(X[:n], y[:n], site=f"{n} rows") for n in (0, 20, 300)]
        state = state.step(answers)
    with pytest.raises(InvalidInputError, match="least_rows must be a whole number"):
        Fit.start(LogisticRegression(), least_rows=-1)


def test_separated_classes_ask_for_a_prior() -> None:
    X = np.linspace(-1.0, 1.0, 40)[:, None]
    with pytest.raises(
        InvalidInputError, match="perhaps because the classes are separated, which cannot be checked without rows"
    ):
        federated(Fit.start(LogisticRegression()), cut((X, X[:, 0] > 0), 2))


# ------------------------------------------------------------------------------------------------- what does not belong


@pytest.fixture
def data() -> Rows:
    return numbers(300, 2)


def answers_of(state: Fit, parts: list[Rows]) -> list[Answer]:
    return [state.request.statistic(*rows, site=f"site {i}") for i, rows in enumerate(parts)]


def test_site_that_answers_twice_is_counted_once(data: Rows) -> None:
    parts = cut(data, 3)
    state = Fit.start(LogisticRegression())
    while not state.done:
        answers = answers_of(state, parts)
        state = state.step([answers[2], *answers, Answer.from_bytes(answers[1].to_bytes())])
    once = federated(Fit.start(LogisticRegression()), parts).model
    assert state.model.coef_.tobytes() == once.coef_.tobytes()


def test_order_of_answers_does_not_matter_to_the_bit(data: Rows) -> None:
    parts = cut(data, 7)
    state = Fit.start(LogisticRegression())
    while not state.done:
        state = state.step(answers_of(state, parts)[::-1])
    assert state.model.coef_.tobytes() == federated(Fit.start(LogisticRegression()), parts).model.coef_.tobytes()


def test_two_sites_of_one_name_are_refused(data: Rows) -> None:
    state = Fit.start(LogisticRegression())
    answers = [replace(answer, site="same") for answer in answers_of(state, cut(data, 2, empty=False))]
    with pytest.raises(MessageError, match="Site 'same' has answered twice, with different sums"):
        state.step(answers)


def test_missing_new_and_no_sites_are_named(data: Rows) -> None:
    start = Fit.start(LogisticRegression(), sites=["site 1", "site 0"])
    parts = cut(data, 3, empty=False)
    with pytest.raises(MessageError, match="No answer from 'site 1'"):
        start.step(answers_of(start, parts[:1]))
    with pytest.raises(MessageError, match="answer from 'site 2', which is not a site of this fit: 'site 0', 'site 1'"):
        start.step(answers_of(start, parts))
    with pytest.raises(MessageError, match="There are no answers"):
        start.step([])
    first = Fit.start(LogisticRegression())
    second = first.step(answers_of(first, parts))
    with pytest.raises(MessageError, match="No answer from 'site 2'"):
        second.step(answers_of(second, parts[:2]))


def test_answers_to_other_requests_are_refused(data: Rows) -> None:
    parts = cut(data, 2)
    first = Fit.start(LogisticRegression())
    old = answers_of(first, parts)
    second = first.step(old)
    with pytest.raises(MessageError, match="Site 'site 0' has answered request 0, but the current request is 1"):
        second.step(old)
    other = Fit.start(LogisticRegression())
    with pytest.raises(MessageError, match="answer of site 'site 0' belongs to another fit"):
        other.step(old)


def test_answer_of_other_sizes_is_refused(data: Rows) -> None:
    X, y = data
    state = Fit.start(LogisticRegression())
    state = state.step(answers_of(state, cut(data, 2)))
    good = answers_of(state, cut(data, 2))
    moments = good[0].statistic
    short = replace(moments, mean=moments.mean[:, :1])
    for wrong in (short, replace(moments, weight=float(moments.weight[0])), SampleParams(3)):
        with pytest.raises(MessageError, match="answer of site 'site 0' does not fit the request: expected the sums"):
            state.step([replace(good[0], statistic=wrong), *good[1:]])
    wide = Fit.start(LogisticRegression())
    with pytest.raises(InvalidInputError, match=r"Site 'site 1' does not match the sites before it: .*3 columns"):
        wide.step(answers_of(wide, [(X, y), (X[:, :2], y)]))


@pytest.mark.parametrize(
    ("model", "rounds"),
    [
        *((LogisticRegression(), rounds) for rounds in (1, 2, 3)),
        *((model, 1) for model in (GaussianClassifier(), LeastSquaresClassifier(), FisherDiscriminant())),
    ],
    ids=str,
)
def test_rows_that_change_between_rounds_are_noticed(model: Any, rounds: int, data: Rows) -> None:
    X, y = data
    state = Fit.start(model)
    for _ in range(rounds):
        state = state.step(answers_of(state, [data, data]))
    with pytest.raises(
        InvalidInputError, match=r"Site 'site 1' has 299 rows .* had 300 in the first round: they have cha"
    ):
        state.step(answers_of(state, [data, (X[1:], y[1:])]))


def test_damaged_messages_are_refused(data: Rows) -> None:
    state = Fit.start(LogisticRegression())
    rng = np.random.default_rng(0)
    answer = answers_of(state, [data])[0]
    for kind, whole in ((Request, state.request.to_bytes()), (Answer, answer.to_bytes()), (Fit, state.to_bytes())):
        for _ in range(60):
            if (bad := damaged(whole, rng)) != whole:
                with pytest.raises(MessageError, match="or it was damaged in transit"):
                    kind.from_bytes(bad)  # type: ignore[attr-defined]
    with pytest.raises(MessageError, match="called 'request', found one called 'answer'"):
        Request.from_bytes(answer.to_bytes())
    with pytest.raises(MessageError, match="damaged in transit"):
        state.step([answer.to_bytes()[:-3]])


def test_other_version_is_refused(data: Rows, monkeypatch: Any) -> None:
    state = Fit.start(LogisticRegression())
    request, answer = state.request.to_bytes(), answers_of(state, [data])[0].to_bytes()
    monkeypatch.setattr("oddsmith.__version__", "99.0")
    for kind, message in ((Request, request), (Answer, answer)):
        with pytest.raises(
            MessageError, match=r"was written by oddsmith \S+, but this is oddsmith 99\.0\. Use the same"
        ):
            kind.from_bytes(message)  # type: ignore[attr-defined]


def test_hostile_surveys_are_refused(data: Rows) -> None:
    state = Fit.start(LogisticRegression())
    good, other = answers_of(state, cut(data, 2, empty=False))
    for change in ({"classes": None}, {"weight": np.zeros(7)}, {"n_rows": "many"}, {"classes": 1.0}):
        bad = replace(other, statistic=replace(other.statistic, **change))
        with pytest.raises(OddsmithError, match=r"[Ss]ite 'site 1'"):
            state.step([good, bad])


def test_other_labels_are_refused_by_site(data: Rows) -> None:
    X, y = data
    state = Fit.start(LogisticRegression(), classes=["ash", "birch"])
    with pytest.raises(InvalidInputError, match="Site 'site 1' has the label 'brich', which is not among classes="):
        state.step(answers_of(state, [(X, y), (X[:2], np.array(["brich", "ash"]))]))
    assert not state.step(answers_of(state, [(X, y)])).done


def test_one_class_in_all_sites_is_refused(data: Rows) -> None:
    X, y = data
    state = Fit.start(LogisticRegression())
    with pytest.raises(InvalidInputError, match="one class only"):
        state.step(answers_of(state, [(X[y == "ash"], y[y == "ash"])]))


def test_arguments_of_another_type_get_a_sentence(data: Rows) -> None:
    state = Fit.start(LogisticRegression())
    with pytest.raises(InvalidTypeError, match="An answer is what"):
        state.step([42])  # type: ignore[list-item]
    with pytest.raises(InvalidTypeError, match="site must be the name of this site"):
        state.request.statistic(*data, site="")
    done = federated(state, [data])
    with pytest.raises(InvalidInputError, match="This fit is done"):
        _ = done.request


@pytest.mark.parametrize("number", [0, 1, 2])
def test_rows_of_every_form_give_the_same_sums(number: int, data: Rows) -> None:
    X, y = data
    state = Fit.start(LogisticRegression())
    for _ in range(number):
        state = state.step(answers_of(state, [data]))
    expected = state.request.statistic(X, y, site="a").statistic
    forms = [(X.tolist(), y.tolist()), (np.asfortranarray(X), polars.Series(y)), (sparse.csr_array(X), y)]
    for rows, labels in forms:
        found = state.request.statistic(rows, labels, site="a").statistic
        assert type(found) is type(expected)
        for field in fields(expected):
            value = getattr(expected, field.name)
            if isinstance(value, np.ndarray) and value.dtype.kind == "f":
                np.testing.assert_allclose(getattr(found, field.name), value, rtol=1e-9, atol=1e-9)
    for wrong in (X[:, 0], 3.0, [[1.0], [2.0, 3.0]], polars.Series(X[:, 0])):
        with pytest.raises((InvalidInputError, InvalidTypeError)):
            state.request.statistic(wrong, y, site="a")


def test_files_of_messages(data: Rows, tmp_path: Path) -> None:
    state = Fit.start(LogisticRegression())
    while not state.done:
        state.save(tmp_path / "state")
        state.request.save(tmp_path / "request")
        for i, rows in enumerate(cut(data, 2)):
            Request.load(tmp_path / "request").statistic(*rows, site=f"site {i}").save(tmp_path / f"answer {i}")
        state = Fit.load(tmp_path / "state").step(sorted(tmp_path.glob("answer *")))
    same(state.model, LogisticRegression().fit(*data), data[0])
    with pytest.raises(MessageError, match="request': Expected a message called 'answer'"):
        Answer.load(tmp_path / "request")
    with pytest.raises(MessageError, match=r"nowhere' cannot be read \(No such file"):
        Request.load(tmp_path / "nowhere")


def test_a_warning_of_the_fit_comes_once_at_its_end(data: Rows) -> None:
    model = LogisticRegression(prior=1.0, max_iter=1)
    state = Fit.start(model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        federated(state, cut(data, 2))
    assert [warning.category for warning in caught] == [ConvergenceWarning]


def test_file_that_cannot_be_read_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(MessageError, match=r"nowhere' cannot be read \(No such file"):
        Answer.load(tmp_path / "nowhere")
