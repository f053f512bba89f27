"""Models as SQL, run in real databases: the numbers of predict_proba, and names that are names whatever they hold."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import MaxAbsScaler
from tests.export.databases import KEY, TRANSLATED, Database, missing_server, open_database
from tests.persistence import zoo
from tests.persistence.tables import as_polars, exported, penguins

from oddsmith import (
    REJECT,
    Design,
    GaussianClassifier,
    GaussianKernel,
    LogisticRegression,
    NaiveBayes,
    OneVsOne,
    OneVsRest,
    PerceptronClassifier,
    Polynomial,
    ProbitRegression,
    Spline,
    Standardize,
    load,
)
from oddsmith.errors import FormatWarning, InvalidInputError, InvalidTypeError, OddsmithError, UnknownNameError
from oddsmith.export.sql_dialects import DIALECTS
from oddsmith.links import LINKS
from oddsmith.models import MODELS

NAMES = [
    *('a"b', "select", "x; DROP TABLE m; --", "'; DROP TABLE m; --", "🐧", " ", "t", "c0", "k0", "step0", "*"),
    *("%s", "%(x)s", "{0}", "?", ":x", "$1", "back\\slash", "new\nline", "/* c", "p", "\u202e", "ŝ", "rowid"),
]

FORMULA = "~ . - year + poly(body_mass_g, 2) + spline(bill_length_mm):island + log(flipper_length_mm)"


@pytest.fixture(scope="module", params=[name for name in DIALECTS if name not in TRANSLATED])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    if how := missing_server(request.param):
        pytest.skip(f"{request.param} is not tested, since it is not installed: {how}.")
    with open_database(request.param) as opened:
        yield opened


def results(found: dict[str, list[Any]], prefix: str = "p_") -> Any:
    """The numbers of a query, NULL as NaN."""
    return np.array([found[name] for name in found if name.startswith(prefix)], dtype=np.float64).T


def expected(model: Any, X: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of unknown categories, say
        if hasattr(model, "predict_proba"):
            return model.predict_proba(X)
        values = model.decision_function(X)
        return values.reshape(len(values), -1)


def decided(P: Any) -> Any:
    """Rows in which one class is ahead: an isotonic map has steps at 1/2, where rounding decides."""
    first = np.sort(P, axis=1)[:, -2:] if P.shape[1] > 1 else np.column_stack([np.zeros(len(P)), P])
    return np.abs(first[:, 1] - first[:, 0]) > 1e-9


def unit_model(link: str = "logit", coef: Any = ((1.0,),)) -> Any:
    """A model whose activation is its one column (or a multiple of it for each class)."""
    K = max(2, len(coef))
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # weights are set by hand afterwards
        model = LogisticRegression(prior=1.0).fit(rng.normal(size=(30, 1)), np.arange(30) % K)
    model.coef_, model.intercept_ = np.array(coef), np.zeros(len(coef))
    model.link_ = link
    return model


random_model = cache(lambda kind, seed: zoo.random_model(kind, np.random.default_rng([7, seed])))  # for all databases


@pytest.mark.parametrize("kind", list(MODELS))
def test_random_models_of_every_kind_say_the_same_in_sql(database: Database, kind: str) -> None:
    compared = 0
    for seed in range(3):
        said, model, X, _ = random_model(kind, seed)
        try:
            model.to_sql("m")
        except OddsmithError as error:
            assert "not exported" in str(error), said
            continue
        database.store("m", as_polars(X))
        found = database.predict(model, "m")
        P, prefix = expected(model, X), "p_" if hasattr(model, "predict_proba") else "value_"
        assert np.abs(results(found, prefix) - P).max() <= 1e-9 * max(1.0, np.abs(P).max()), said
        # SQLite has no truth values: they are 0 and 1, which equal them here.
        labels = zip(found["predicted"], exported(model.predict(X)), decided(P), strict=True)
        assert all(one == other for one, other, clear in labels if clear), said
        compared += 1
    assert compared


@pytest.mark.parametrize("formula", [None, FORMULA], ids=["columns", "formula"])
def test_missing_values_and_unseen_levels_follow_the_policies(database: Database, formula: str | None) -> None:
    X, y = penguins()
    strange = X.head(5).with_columns(island=pl.Series(["Atlantis", "Torgersen", "", None, "biscoe"]))
    nan = X.head(1).with_columns(bill_length_mm=pl.lit(np.nan))
    later = pl.concat([X, strange[:3], strange[4:], nan])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression(prior=1.0, design=Design(formula, missing="indicator", unseen="reference")).fit(X, y)
    database.store("penguins", later)
    assert np.abs(results(database.predict(model, "penguins")) - model.predict_proba(later)).max() < 1e-9
    # Without policies the same rows have no result, and only those.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        strict = LogisticRegression(prior=1.0, design=Design(formula, missing="drop")).fit(X, y)
    database.store("penguins", pl.concat([X, strange]))
    found = database.predict(strict, "penguins")
    complete = X.select(pl.all_horizontal(pl.all().is_not_null())).to_series().to_numpy()
    good = np.append(complete, [False, complete[1], False, False, False])
    got = results(found)
    assert np.isnan(got[~good]).all()
    assert [label is None for label in found["predicted"]] == (~good).tolist()
    assert np.abs(got[good] - strict.predict_proba(pl.concat([X, strange]).filter(good))).max() < 1e-9


def test_names_that_are_attacks_come_through_as_names(database: Database) -> None:
    rng = np.random.default_rng(1)
    levels = np.array(["it's", 'say "no"', "a\\' OR 1=1 --", "🐧", "", "%s"])
    unknown = {"postgres": (), "mysql": ("🐧", " ")}.get(database.dialect, ("rowid",))
    names = [name for name in NAMES if name not in unknown]
    table = pl.DataFrame(
        {**{name: rng.normal(size=60) for name in names[1:]}, names[0]: levels[rng.integers(0, 6, 60)]}
    )
    labels = np.array(["'); DROP TABLE m; --", 'x" AS y FROM m; --', "ok"])
    y = labels[np.arange(60) % 3]
    model = LogisticRegression(prior=1.0).fit(table, y)
    for name in ("m", "Robert'); DROP TABLE m; --", 'q"uote', "step0", "t", "STEP1"):
        database.store(name, table)
        found = database.predict(model, name)
        assert list(found) == [KEY, *(f"p_{label}" for label in model.classes_), "predicted"]
        assert np.abs(results(found) - model.predict_proba(table)).max() < 1e-9
        assert found["predicted"] == model.predict(table).tolist()
    whole = database.run(model.to_sql("m", database.dialect))
    assert len(whole) == 60 and len(whole[0]) == len(names) + 4


@given(st.text(min_size=1, max_size=15), st.text(max_size=15))
def test_any_name_and_any_word_are_quoted_or_refused(database: Database, name: str, word: str) -> None:
    dialect = DIALECTS[database.dialect]
    try:
        query = f"SELECT {dialect.literal(word)} AS {dialect.identifier(name)}"
    except InvalidInputError:
        odd = database.dialect == "mysql" and (name.endswith(" ") or max(map(ord, name)) > 0xFFFF)
        assert odd or "\x00" in name + word or len(name.encode()) > 63
        return
    cursor = database.connection.cursor()
    cursor.execute(query.encode() if database.dialect == "postgres" else query)
    assert cursor.description[0][0] == name
    assert list(cursor.fetchall()) == [(word,)]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_constants_are_float64_to_the_last_bit(database: Database, value: float) -> None:
    if database.dialect == "sqlite":  # which reads some decimals an ulp off
        assert database.run(f"SELECT {DIALECTS['sqlite'].number(value)}")[0][0] == pytest.approx(value, rel=1e-15)
    elif abs(value) > 1e-307 or value == 0:
        assert database.run(f"SELECT {DIALECTS[database.dialect].number(value)}") == [(value,)]


@pytest.mark.parametrize("link", list(LINKS))
def test_links_equal_those_of_the_library_everywhere(database: Database, link: str) -> None:
    model = unit_model(link)
    grid = np.concatenate([np.linspace(-45, 45, 901), np.linspace(-0.7, 0.7, 201), [-1e3, 1e3, -1e200, 1e200, 0.0]])
    table = pl.DataFrame({"x0": grid})
    database.store("m", table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the log and identity links say that they end
        P = np.exp(model.predict_log_proba(table.to_numpy()))
    assert np.abs(results(database.predict(model, "m")) - P).max() < 1e-14


@pytest.mark.parametrize("coef", [[[1.0]], [[1.0], [-1.0], [0.5]]])
def test_huge_activations_neither_overflow_nor_underflow(database: Database, coef: Any) -> None:
    model = unit_model(coef=coef)
    x = np.array([-1e300, -1e6, -1000.0, -745.2, -700.0, 0.0, 700.0, 1000.0, 1e6, 1e300])[:, None]
    database.store("m", as_polars(x))
    assert np.abs(results(database.predict(model, "m")) - model.predict_proba(x)).max() < 1e-15


def test_rows_without_finite_numbers_have_no_result(database: Database) -> None:
    model = unit_model(coef=[[1.0], [2.0], [0.0]])
    database.store("m", pl.DataFrame({"x0": [1.0, None, np.inf, -np.inf, np.nan, 2.0]}))
    found = database.predict(model, "m", reject=0.1)
    empty = [value is None for value in found["p_0"]]
    assert empty == [False, True, True, True, True, False]
    for name in list(found)[1:]:
        if name != "decision":
            assert [value is None for value in found[name]] == empty, name


@pytest.mark.parametrize("kind", list(MODELS))
def test_infinite_and_missing_values_harm_no_other_row(database: Database, kind: str) -> None:
    rng = np.random.default_rng(8)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    later = np.vstack([X[:3], [[np.inf, 0.0], [0.0, -np.inf], [np.nan, 1.0], [1e300, -1e300]]])
    basis: dict[str, list[Any]] = {"logistic": [Spline(4), GaussianKernel(landmarks=9), [Standardize(), Polynomial(2)]]}
    for chosen in [None, *basis.get(kind, [])]:
        model = MODELS[kind]()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some find the classes hard to tell apart
            model = model.set_params(basis=chosen) if chosen is not None else model
            model.fit(X + y[:, None], y)
        database.store("m", as_polars(later))
        got = results(database.predict(model, "m"), "p_" if hasattr(model, "predict_proba") else "value_")
        # MySQL stores no infinities: they are missing there, which naive Bayes takes.
        assert np.isnan(got[3:5]).all() or (database.dialect == "mysql" and kind == "naive-bayes")
        assert np.abs(got[:3] - expected(model, later[:3])).max() < 1e-9
        try:
            far = expected(model, later[6:])
        except InvalidInputError:
            assert np.isnan(got[6]).all()
        else:
            assert np.isnan(got[6]).all() or np.abs(got[6] - far).max() <= 1e-9 * max(1.0, np.abs(far).max())


def test_decisions_are_those_of_decide(database: Database) -> None:
    X, y = penguins()
    X = X.select("bill_length_mm", "body_mass_g").drop_nulls()
    y = penguins()[1][: len(X)]
    model = LogisticRegression(prior=1.0).fit(X, np.roll(y, 40))
    go = {k: {"go": i, "stay": 1.1} for i, k in enumerate(model.classes_)}
    losses: list[Any] = [None, [[0, 1, 4], [2, 0, 1], [1, 3, 0]], go]
    database.store("m", X)
    for loss in losses:
        for reject in (None, 0.3, [0.1, 0.5, 0.9]):
            found = database.predict(model, "m", loss=loss, reject=reject) if loss or reject else None
            if found is None:
                continue
            wanted = model.decide(X, loss, reject).tolist()
            assert found["decision"] == [None if action is REJECT else action for action in wanted]
            if reject is not None:
                assert list(map(bool, found["rejected"])) == [action is REJECT for action in wanted]
    # Actions that cost the same to the last digit: the first is taken, as decide does.
    flat = {k: {"a": 1 / 3, "b": 1 / 3} for k in model.classes_}
    assert set(database.predict(model, "m", loss=flat)["decision"]) == {"a"}


@pytest.mark.parametrize("make", [LogisticRegression, ProbitRegression])
def test_predictive_intervals_are_those_of_predictive(database: Database, make: Any) -> None:
    X, y = penguins()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        design = Design("~ bill_length_mm * island + flipper_length_mm", missing="indicator")
        model = make(prior=2.0, design=design).fit(X, y == "Adelie")
    database.store("m", X)
    found = database.predict(model, "m", predictive=True, level=0.8)
    wanted = model.predictive(X, method="probit", level=0.8)
    for name, array in (("mean", wanted.mean), ("lower", wanted.lower), ("upper", wanted.upper)):
        assert np.abs(results(found, f"{name}_") - array).max() < 1e-9


def test_naive_bayes_leaves_out_what_is_missing_or_unknown(database: Database) -> None:
    model, table, _ = zoo.mixed_naive_bayes()
    rows = pl.from_pandas(table).with_columns(pl.col("word").cast(pl.String))
    rows = pl.concat([rows, *(rows[:6].with_columns(pl.lit(None).cast(rows[c].dtype).alias(c)) for c in rows.columns)])
    rows = pl.concat([rows, rows[:3].with_columns(word=pl.lit("larch"))])
    database.store("m", rows)
    assert np.abs(results(database.predict(model, "m")) - expected(model, rows)).max() < 1e-9
    for bad in (-1.0, 1.5):  # no counts: refused by the model, without result in SQL
        broken = rows.head(1).with_columns(pl.lit(bad).alias("count"))
        with pytest.raises(InvalidInputError):
            model.predict_proba(broken)
        database.store("m", broken)
        assert np.isnan(results(database.predict(model, "m"))).all()


def test_multinomial_counts_may_be_missing(database: Database) -> None:
    rng = np.random.default_rng(2)
    X = rng.poisson([1.0, 3.0, 5.0], size=(40, 3)).astype(float)
    model = NaiveBayes("multinomial").fit(X, np.arange(40) % 2)
    X[0, 0], X[1, :2], X[2] = np.nan, np.nan, np.nan
    database.store("m", as_polars(X).fill_nan(None))
    assert np.abs(results(database.predict(model, "m")) - model.predict_proba(X)).max() < 1e-9


@pytest.mark.parametrize("covariance", ["diagonal", "spherical"])
def test_gaussian_columns_that_are_independent_may_be_missing(database: Database, covariance: str) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 3)) + np.arange(40)[:, None] % 2
    model = GaussianClassifier(covariance).fit(X, np.arange(40) % 2)
    X[0, 0], X[1, :2], X[2] = np.nan, np.nan, np.nan
    database.store("m", as_polars(X).fill_nan(None))
    assert np.abs(results(database.predict(model, "m")) - model.predict_proba(X)).max() < 1e-9


@pytest.mark.parametrize("K", [3, 8])
def test_pairs_of_classes_are_coupled(database: Database, K: int) -> None:
    rng = np.random.default_rng(6)
    y = np.arange(160) % K
    X = rng.normal(size=(160, 2)) + 1.5 * np.column_stack([y % 3, y // 3])
    model = OneVsOne().fit(X, y)
    X[0] = 50.0  # where pairs are certain
    database.store("m", as_polars(X))
    found = database.predict(model, "m")
    assert np.abs(results(found) - model.predict_proba(X)).max() < 1e-9
    assert found["predicted"] == model.predict(X).tolist()


@pytest.mark.filterwarnings("ignore::oddsmith.errors.LevelsWarning")
def test_many_columns_and_many_levels(database: Database) -> None:
    rng = np.random.default_rng(4)
    table = pl.DataFrame(
        {"city": [f"c{i}" for i in rng.integers(0, 300, 500)], **{f"n{j}": rng.normal(size=500) for j in range(80)}}
    )
    model = LogisticRegression(prior=1.0).fit(table, np.arange(500) % 2)
    database.store("m", table)
    assert np.abs(results(database.predict(model, "m")) - model.predict_proba(table)).max() < 1e-9


LEVELS = ["it's", 'a "b"', "back\\slash", "two\nlines", "ŝ🐧", "a", "NULL", *(f"level {k}" for k in range(400))]


@pytest.mark.filterwarnings("ignore::oddsmith.errors.LevelsWarning")
@pytest.mark.parametrize("unseen", ["error", "reference"])
@pytest.mark.parametrize("K", [2, 3])
def test_many_levels_are_joined_and_say_what_a_case_says(
    database: Database, monkeypatch: pytest.MonkeyPatch, unseen: str, K: int
) -> None:
    rng = np.random.default_rng(K)
    place = np.concatenate([np.arange(len(LEVELS)), rng.integers(0, len(LEVELS), 500)])
    table = pl.DataFrame(
        {"site": [LEVELS[k] for k in place], "code": 7.0 * (place % 90), "x": rng.normal(size=len(place))}
    )
    design = Design("~ site + C(code) + x", missing="indicator", unseen=unseen)
    model = LogisticRegression(prior=1.0, design=design).fit(table, rng.integers(0, K, len(place)))
    strange = pl.DataFrame({"site": ["never seen", None, "a"], "code": [0.0, 7.0, None], "x": [1.0, 1.0, 1.0]})
    database.store("levels0", pl.concat([table, strange]))
    joined = model.to_sql("levels0", database.dialect)
    found = database.predict(model, "levels0")
    monkeypatch.setattr("oddsmith.export.sql.MANY_LEVELS", 10**6)
    written_out = database.predict(model, "levels0")
    assert joined.count("LEFT JOIN") == 2 and "LEFT JOIN" not in model.to_sql("levels0", database.dialect)
    assert len(found["predicted"]) == len(table) + 3  # no row is there twice, and none is lost
    assert found == written_out
    P = results(found)
    assert np.abs(P[: len(table)] - model.predict_proba(table)).max() < 1e-9
    assert np.isnan(P[len(table) :].astype(float)).any(axis=1).tolist() == [unseen == "error", True, True]


def test_the_query_is_a_view_and_a_column_that_is_not_there_is_an_error(database: Database) -> None:
    model = unit_model()
    database.store("m", pl.DataFrame({"x0": [1.0, 2.0]}))
    database.run(f"CREATE VIEW seen AS {model.to_sql('m', database.dialect)}")
    assert len(database.run("SELECT * FROM seen WHERE p_1 > 0.8")) == 1
    database.run("DROP VIEW seen")
    database.store("m", pl.DataFrame({"x1": [1.0, 2.0]}))
    with pytest.raises(Exception, match="x0"):
        database.predict(model, "m")


def test_dates_with_times_and_zones_are_the_days_of_the_library(database: Database) -> None:
    when = pl.datetime_range(pl.datetime(1960, 1, 1), pl.datetime(2030, 1, 1), "97d5h7m13s", eager=True)
    table = pl.DataFrame({"when": when})
    model = LogisticRegression(prior=1e-3).fit(table, np.arange(len(table)) % 2)
    model.coef_ = np.array([[1e-3]])
    database.store("m", table)
    assert np.abs(results(database.predict(model, "m")) - model.predict_proba(table)).max() < 1e-9


@pytest.mark.parametrize("kind", ["date", "timestamptz"])
def test_types_of_dates_and_enumerations_are_read_for_what_they_are(database: Database, kind: str) -> None:
    days = pl.date_range(date(1965, 1, 1), date(2030, 1, 1), "300d", eager=True)
    words = np.array(["a", "it's"])[np.arange(len(days)) % 2]
    table = pl.DataFrame({"day": days, "word": words})
    model = LogisticRegression(prior=1.0).fit(table, np.arange(len(days)) % 3 > 0)
    model.coef_ = np.array([[1e-3, 0.5]])
    database.run("DROP TABLE IF EXISTS dated")
    types = f"day {kind}, word words"
    if database.dialect == "sqlite":  # which has neither: both are text
        types = "day TEXT, word TEXT"
    elif database.dialect == "mysql":
        types = f"day {'DATE' if kind == 'date' else 'DATETIME'}, word ENUM('a', 'it''s', 'other')"
    else:
        database.run("SET TimeZone = 'America/New_York'")
        database.run("DROP TYPE IF EXISTS words")
        database.run("CREATE TYPE words AS ENUM ('a', 'it''s', 'other')")
    database.run(f"CREATE TABLE dated ({database.quote(KEY)} INTEGER, {types})")
    time = "" if kind == "date" else " 00:00:00" if database.dialect == "mysql" else " 00:00:00+00:00"
    quoted = [word.replace("'", "''") for word in words]
    rows = [f"({i}, '{day}{time}', '{w}')" for i, (day, w) in enumerate(zip(days, quoted, strict=True))]
    database.run(f"INSERT INTO dated VALUES {', '.join(rows)}")
    assert np.abs(results(database.predict(model, "dated")) - model.predict_proba(table)).max() < 1e-9


@pytest.mark.parametrize("dialect", TRANSLATED)
def test_warehouses_read_the_query_and_find_the_numbers_of_the_library(dialect: str) -> None:
    """A parser of their dialects reads it, and what it makes of it for DuckDB gives the same numbers."""
    X, y = penguins()
    rng = np.random.default_rng(0)
    X = X.with_columns(
        seen=pl.Series(rng.integers(0, 20_000, len(X))).cast(pl.Date),
        tame=pl.Series(rng.random(len(X)) < 0.5),
        word=pl.Series(np.array(["it's", 'a "b"', "back\\slash", "two\nlines", "ŝ🐧"])[np.arange(len(X)) % 5]),
    )
    X = X.with_columns(bill_length_mm=pl.when(pl.int_range(len(X)) == 7).then(np.nan).otherwise("bill_length_mm"))
    design = Design(missing="indicator", unseen="reference")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression(prior=1.0, basis=[Standardize(), Polynomial(2)], design=design).fit(X, y)
        two = ProbitRegression(prior=1.0, design=design).fit(X, y == "Gentoo")
    with open_database(dialect) as database:
        database.store("m", X)
        found = database.predict(model, "m", loss=[[0, 1, 4], [2, 0, 1], [1, 3, 0]], reject=0.3)
        assert np.abs(results(found) - model.predict_proba(X)).max() < 1e-9
        wanted = model.decide(X, [[0, 1, 4], [2, 0, 1], [1, 3, 0]], 0.3).tolist()
        assert found["decision"] == [None if action is REJECT else action for action in wanted]
        found = database.predict(two, "m", predictive=True)
        assert np.abs(results(found) - two.predict_proba(X)).max() < 1e-9
        assert np.abs(results(found, "mean_") - two.predictive(X, method="probit", level=0.9).mean).max() < 1e-9


@pytest.mark.filterwarnings("ignore::oddsmith.errors.LevelsWarning")
@pytest.mark.parametrize("dialect", TRANSLATED)
def test_warehouses_join_many_levels(dialect: str) -> None:
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"site": (LEVELS * 2), "x": rng.normal(size=2 * len(LEVELS))})
    model = LogisticRegression(prior=1.0).fit(table, rng.integers(0, 2, len(table)))
    with open_database(dialect) as database:
        database.store("m", table)
        assert "LEFT JOIN" in model.to_sql("m", dialect)
        assert np.abs(results(database.predict(model, "m")) - model.predict_proba(table)).max() < 1e-9


@pytest.mark.parametrize("kind", list(MODELS))
def test_an_independent_parser_reads_every_query_of_every_dialect(kind: str) -> None:
    sqlglot = pytest.importorskip("sqlglot")
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MODELS[kind]().fit(X, y)
    for dialect in DIALECTS:
        (query,) = sqlglot.parse(model.to_sql(("s", "m"), dialect, keep=["id"]), read=dialect)
        assert query.named_selects[0] == "id" and query.named_selects[-1] == "predicted", dialect
        named = [(table.db, table.name) for table in query.find_all(sqlglot.exp.Table) if table.db]
        assert named == [("s", "m")], dialect


def test_words_are_read_as_they_were_by_a_parser_of_the_dialect() -> None:
    sqlglot = pytest.importorskip("sqlglot")
    for dialect in TRANSLATED:
        for word in ("it's", 'say "no"', "back\\slash", "end\\", "\\'; DROP TABLE m; --", "two\nlines", "🐧", ""):
            (found,) = sqlglot.parse(f"SELECT {DIALECTS[dialect].literal(word)}", read=dialect)
            assert found.expressions[0].this == word, (dialect, word)


def test_names_that_a_warehouse_does_not_take_are_refused() -> None:
    for dialect, name, words in (
        ("mysql", "n" * 65, "64 characters"),
        ("mysql", "end ", "no space at the end"),
        ("mysql", "🐧", "U\\+FFFF"),
        ("snowflake", "n" * 256, "255 characters"),
        ("bigquery", "n" * 301, "300 characters"),
        ("bigquery", "a.b", "'\\.' is not allowed"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            DIALECTS[dialect].identifier(name)
    assert DIALECTS["mysql"].identifier("a`b") == "`a``b`" and DIALECTS["snowflake"].identifier('a"b') == '"a""b"'
    alike = LogisticRegression(prior=1.0).fit(pl.DataFrame({"Ärger": [1.0, 2.0], "arger": [2.0, 2.0]}), [0, 1])
    with pytest.raises(InvalidInputError, match="have the same name in mysql"):
        alike.to_sql("m", "mysql")


def test_a_model_from_a_file_is_exported_alike(tmp_path: Path) -> None:
    X, y = penguins()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression(prior=1.0, design=Design(FORMULA, missing="indicator")).fit(X, y == "Adelie")
    model.save(tmp_path / "m.odds")
    again = load(tmp_path / "m.odds")
    assert again.to_sql("m", predictive=True) == model.to_sql("m", predictive=True)
    assert again.to_onnx() == model.to_onnx()


def test_sqlite_reads_no_words_as_numbers_and_no_case_as_another() -> None:
    with open_database("sqlite") as database:
        database.run('CREATE TABLE m ("the key" INTEGER, x0, word TEXT COLLATE NOCASE)')
        database.run("INSERT INTO m VALUES (1, 'two', 'a'), (2, 2, 'A'), (3, 2, 'a')")
        assert [value is None for value in database.predict(unit_model(), "m")["p_1"]] == [True, False, False]
        words = LogisticRegression(prior=1.0).fit(pl.DataFrame({"word": ["a", "b", "a", "b"]}), [0, 1, 1, 0])
        assert [value is None for value in database.predict(words, "m")["p_1"]] == [False, True, False]


def test_what_cannot_be_exported_is_a_sentence() -> None:
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(90, 2)), np.arange(90) % 3
    many = np.repeat(X, 6, axis=0) + rng.normal(size=(540, 2))
    wide = rng.normal(size=(90, 60))
    alike, nameless = pl.DataFrame({"Age": X[:, 0], "age": X[:, 1]}), pl.DataFrame({"": X[:, 0]})

    def fit(rows: Any = X, labels: Any = y, **options: Any) -> Any:
        return LogisticRegression(prior=1.0, **options).fit(rows, labels)

    three = fit()
    apart = PerceptronClassifier().fit(X + 9.0 * (y > 0)[:, None], y > 0)
    certain = NaiveBayes("bernoulli", smoothing=0.0).fit([[0.0], [0.0], [1.0]], [0, 0, 1])
    cases: list[tuple[Any, type[Exception], str]] = [
        (lambda: OneVsOne().fit(X, np.arange(90) % 9).to_sql("m"), InvalidInputError, "linear system"),
        (lambda: three.to_sql("m", "oracle"), UnknownNameError, "duckdb"),
        (lambda: three.to_sql(""), InvalidInputError, "empty name"),
        (lambda: three.to_sql("a\x00b"), InvalidInputError, "NUL"),
        (lambda: three.to_sql("a\ud800"), InvalidInputError, "surrogate"),
        (lambda: three.to_sql(7), InvalidTypeError, "name"),
        (lambda: three.to_sql([]), InvalidTypeError, "name"),
        (lambda: three.to_sql("m" * 64, "postgres"), InvalidInputError, "63 bytes"),
        (lambda: three.to_sql("m", keep="id"), InvalidTypeError, "list of names"),
        (lambda: three.to_sql("m", keep=["p_1"]), InvalidInputError, "two columns called 'p_1'"),
        (lambda: three.to_sql("m", keep=["PREDICTED"]), InvalidInputError, "two columns"),
        (lambda: three.to_sql("m", predictive=True), InvalidInputError, "mean over draws"),
        (lambda: GaussianClassifier().fit(X, y).to_sql("m", predictive=True), InvalidInputError, "no posterior"),
        (lambda: apart.to_sql("m", reject=0.1), InvalidTypeError, "no probabilities"),
        (lambda: fit(basis=MaxAbsScaler()).to_sql("m"), InvalidInputError, "MaxAbsScaler"),
        (lambda: fit(many, np.repeat(y, 6), basis=GaussianKernel()).to_sql("m"), InvalidInputError, "540 centres"),
        (lambda: OneVsRest(GaussianNB()).fit(X, y).to_sql("m"), InvalidTypeError, "GaussianNB cannot be exported"),
        (lambda: NaiveBayes().fit(rng.normal(size=(90, 900)), y).to_sql("m"), InvalidInputError, "at most 1600"),
        (lambda: certain.to_sql("m"), InvalidInputError, "smoothing"),
        (lambda: fit(wide, y > 0).to_sql("m", predictive=True), InvalidInputError, "60 weights"),
        (lambda: fit(X, y > 0, link="cloglog").to_sql("m", predictive=True), InvalidInputError, "integral"),
        (lambda: fit(nameless).to_sql("m"), InvalidInputError, "empty name"),
        (lambda: fit(alike).to_sql("m"), InvalidInputError, "ignores case"),
        (lambda: LogisticRegression().to_sql("m"), OddsmithError, "not fitted"),
    ]
    for ask, kind, words in cases:
        with pytest.raises(kind, match=words):
            ask()
    assert 'AS "mean_True"' in fit(X, y > 0).to_sql("m", predictive=True)
    assert fit(alike).to_sql(("public", "m"), "postgres").count('"public"."m"') == 1


@pytest.mark.parametrize("kind", [LogisticRegression, NaiveBayes])
def test_levels_that_only_the_model_brings_into_one_spelling_are_named(kind: Any) -> None:
    """``"a "`` is ``"a"`` to the model, and an unseen level to a query."""
    table = pl.DataFrame({"x": ["a", "a ", "b", "b"] * 10, "n": np.arange(40.0)})
    with pytest.warns(FormatWarning, match="'x' as levels"):
        model = kind().fit(table, np.arange(40) % 3 > 0)
    for export in (lambda: model.to_sql("m"), model.to_onnx):
        with pytest.warns(FormatWarning, match=r"reads 'x' as levels in one spelling \(no spaces around them\)"):
            export()
    plain = kind().fit(table.with_columns(pl.col("x").str.strip_chars()), np.arange(40) % 3 > 0)
    plain.to_sql("m")  # no warning
