"""The parts of a report on columns, subgroups and origin, held against numbers that are made here by hand."""

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from sklearn.metrics import accuracy_score, log_loss
from tests.report.reading import HOSTILE, Page, check_harmless

from oddsmith import Design, GaussianClassifier, LogisticRegression, Polynomial, Standardize
from oddsmith.data import load_dataset
from oddsmith.design.levels import LevelNames
from oddsmith.errors import CollinearityWarning, InvalidInputError, InvalidTypeError
from oddsmith.report import make_report
from oddsmith.report.terms import indicator_texts


def visitors(n: int = 400, seed: int = 3) -> tuple[pd.DataFrame, Any]:
    """Rows with a number that matters, a category of three levels, a number that does not, and labels."""
    rng = np.random.default_rng(seed)
    age, noise = rng.normal(40.0, 10.0, n), rng.normal(size=n)
    city = rng.choice(["Bern", "Oslo", "Rome"], n)
    a = 0.12 * (age - 40.0) + 1.2 * (city == "Oslo")
    return pd.DataFrame({"age": age, "city": city, "noise": noise}), rng.random(n) < 1.0 / (1.0 + np.exp(-a))


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", "") or "nan")


def joint(page: Page) -> dict[str, dict[str, str]]:
    return {row["column"]: row for row in page.table("Importance and joint test")}


def test_a_column_has_one_line_with_a_joint_test_of_all_its_levels() -> None:
    table, y = visitors()
    model = LogisticRegression().fit(table, y)
    lines = joint(check_harmless(make_report(model, table, y)))
    assert set(lines) == {"age", "city", "noise"} and list(lines)[2] == "noise"  # the most important first
    # Wald's statistic from the information matrix, XᵀVX.
    X = np.column_stack(
        [np.ones(len(y)), table["age"], table["city"] == "Oslo", table["city"] == "Rome", table["noise"]]
    )
    w = np.concatenate([model.intercept_, model.coef_[0]])
    p = 1.0 / (1.0 + np.exp(-X @ w))
    S = np.linalg.inv((X * (p * (1.0 - p))[:, None]).T @ X)
    for name, places in {"age": [1], "city": [2, 3], "noise": [4]}.items():
        statistic = w[places] @ np.linalg.solve(S[np.ix_(places, places)], w[places])
        row = lines[name]
        assert number(row["Wald χ²"]) == pytest.approx(statistic, rel=2e-3)
        assert (number(row["df"]), number(row["terms"])) == (len(places), len(places))
        assert number(row["p"]) == pytest.approx(stats.chi2.sf(statistic, len(places)), rel=0.05)


def test_powers_products_and_missing_values_belong_to_their_column() -> None:
    table, y = visitors()
    table.loc[::9, "age"] = np.nan
    model = LogisticRegression(1.0, design=Design(missing="indicator"), basis=[Standardize(), Polynomial(2)])
    lines = joint(Page(make_report(model.fit(table, y), table, y)))
    names = model._names().tolist()
    assert number(lines["age"]["terms"]) == sum("age" in name for name in names)
    assert number(lines["city"]["terms"]) == sum("city" in name for name in names)
    assert "posterior tail" in lines["age"] and number(lines["age"]["posterior tail"]) < 0.01


@pytest.mark.parametrize("kind", ["table", "array", "sparse"])
def test_importance_is_what_shuffling_a_column_costs(kind: str) -> None:
    table, y = visitors()
    table = table[["age", "noise"]]
    X: Any = {"table": table, "array": table.to_numpy(), "sparse": sparse.csr_array(table.to_numpy())}[kind]
    model = LogisticRegression(1.0).fit(X, y)
    rise = {name: number(row["rise of the log loss"]) for name, row in joint(Page(make_report(model, X, y))).items()}
    age, noise = ("age", "noise") if kind == "table" else ("x0", "x1")
    # Shuffled values are independent of the row: the mean over all other rows, by hand.
    W, values = model.coef_[0], table.to_numpy()
    a = model.intercept_[0] + values[:, 1] * W[1] + np.multiply.outer(values[:, 0], np.ones(len(y))) * W[0]
    expected = np.logaddexp(0.0, np.where(y, -a, a)).mean() - log_loss(y, model.predict_proba(X))
    assert rise[age] == pytest.approx(expected, rel=0.15) and abs(rise[noise]) < 0.02 < rise[age]


def test_every_model_has_an_importance_and_only_likelihoods_a_test() -> None:
    table, y = visitors()
    lines = joint(Page(make_report(GaussianClassifier().fit(table[["age", "noise"]], y), table[["age", "noise"]], y)))
    assert set(lines["age"]) == {"column", "rise of the log loss"}
    assert number(lines["age"]["rise of the log loss"]) > number(lines["noise"]["rise of the log loss"])


@pytest.mark.parametrize("basis", [None, Standardize()], ids=["plain", "standardised"])
def test_effects_are_in_original_units_beside_standard_deviations(basis: Any) -> None:
    table, y = visitors()
    model = LogisticRegression(basis=basis).fit(table, y)
    rows = {row["term"]: row for row in Page(make_report(model, table, y)).table("Effects in original units")}
    plain = LogisticRegression().fit(table, y)
    weight = dict(zip(plain._names().tolist(), plain.coef_[0], strict=True))
    sd = float(table["age"].std(ddof=0))
    assert number(rows["age"]["odds ratio"]) == pytest.approx(np.exp(weight["age"]), rel=1e-3)
    assert number(rows["age"]["odds ratio per sd"]) == pytest.approx(np.exp(weight["age"] * sd), rel=1e-3)
    assert number(rows["age"]["sd"]) == pytest.approx(sd, rel=1e-3) and rows["age"]["change"] == "1 unit more"
    city = rows["city[Oslo]"]
    assert city["change"] == "Oslo instead of Bern" and city["odds ratio per sd"] == city["sd"] == ""
    assert number(city["odds ratio"]) == pytest.approx(np.exp(weight["city[Oslo]"]), rel=1e-3)


def test_columns_that_carry_the_same_information_are_named() -> None:
    table, y = visitors()
    table["months"] = 12.0 * table["age"] + 0.01 * table["noise"]
    table["zip"] = table["city"].map({"Bern": 3000, "Oslo": 150, "Rome": 118})
    page = Page(make_report(LogisticRegression(1.0).fit(table, y), table, y))
    pairs = {(row["column"], row["near-duplicate"]): row["how alike"] for row in page.table("Pairs of columns")}
    assert pairs == {("age", "months"): "correlation 1", ("city", "zip"): "each tells the other in 100% of rows"}
    assert "age and months" in page.section("glance").text
    table, y = visitors()
    assert "Near-duplicate" not in make_report(LogisticRegression(1.0).fit(table, y), table, y)


def test_subgroups_have_the_scores_of_their_rows() -> None:
    table, y = visitors()
    model, labels = GaussianClassifier().fit(table[["age", "noise"]], y), y
    table.loc[:4, "city"] = None
    page = check_harmless(make_report(model, table, labels, by=["city", "noise"]))
    P, city = model.predict_proba(table[["age", "noise"]]), table["city"].to_numpy(dtype=object)
    rows = {row["city"]: row for row in page.table("Results by city")}
    assert list(rows) == ["Bern", "Oslo", "Rome", "missing"]
    for name in ("Bern", "Oslo", "Rome"):
        own = np.array([value == name for value in city])
        assert number(rows[name]["rows"]) == own.sum()
        found = {key: number(rows[name][key].split(" ")[0]) for key in ("log loss", "accuracy")}
        assert found["log loss"] == pytest.approx(log_loss(y[own], P[own], labels=[False, True]), rel=5e-3)
        assert found["accuracy"] == pytest.approx(accuracy_score(y[own], P[own, 1] > 0.5), rel=5e-3)
        assert number(rows[name]["mean probability of True"].split(" ")[0]) == pytest.approx(P[own, 1].mean(), rel=5e-3)
    # The model does not know the city: it is too low in Oslo, and the page says so.
    assert (
        "too low" in rows["Oslo"]["mean probability of True"]
        and "too low" not in rows["Bern"]["mean probability of True"]
    )
    assert "Where city is Oslo" in page.section("glance").text
    quarters = page.table("Results by noise")
    assert [number(row["rows"]) for row in quarters] == [100.0] * 4 and quarters[0]["noise"].startswith("below ")


def test_subgroups_follow_dropped_rows_and_weights() -> None:
    table, y = visitors(60)
    table.loc[:5, "age"] = np.nan
    weights = np.where(table["city"] == "Oslo", 2, 1)
    model = LogisticRegression(1.0, design=Design(missing="drop")).fit(table, y, sample_weight=weights)
    page = Page(make_report(model, table, y, sample_weight=weights, by={"place": table["city"].to_numpy(dtype=str)}))
    rows = {row["place"]: number(row["rows"]) for row in page.table("Results by place")}
    kept = table["age"].notna()
    assert rows == {name: float(weights[kept & (table["city"] == name)].sum()) for name in ("Bern", "Oslo", "Rome")}


def test_subgroups_that_do_not_exist_are_refused() -> None:
    table, y = visitors(40)
    model = LogisticRegression(1.0).fit(table, y)
    with pytest.raises(InvalidInputError, match="Column 'town' is missing from the table"):
        make_report(model, table, y, by="town")
    with pytest.raises(InvalidTypeError, match="by must be the name of a column"):
        make_report(model, table, y, by=3)
    with pytest.raises(InvalidInputError, match="3 values for 40 rows"):
        make_report(model, table, y, by={"town": ["a", "b", "c"]})
    X = table[["age", "noise"]].to_numpy()
    with pytest.raises(InvalidInputError, match="array without column names"):
        make_report(LogisticRegression(1.0).fit(X, y), X, y, by="age")


def test_the_page_names_its_files_author_purpose_and_period(tmp_path: Path) -> None:
    table, y = visitors(60)
    model, data = LogisticRegression(1.0).fit(table, y), tmp_path / "visitors.csv"
    table.to_csv(data)
    texts = {"author": HOSTILE[0], "purpose": "Who comes back?", "period": "May 2025"}
    page = check_harmless(make_report(model, table, y, data_path=data, **texts))
    facts = page.facts("provenance")
    assert (
        facts["data file"] == "visitors.csv" and facts["its SHA-256"] == hashlib.sha256(data.read_bytes()).hexdigest()
    )
    assert (facts["author"], facts["purpose"], facts["period of the data"]) == tuple(texts.values())
    assert "Period: May 2025. Purpose: Who comes back?" in page.all("header")[0].text
    blank = Page(make_report(model, table, y)).section("signature").text
    assert "Period of the data" in blank and "Period of the data" not in page.section("signature").text
    with pytest.raises(InvalidTypeError, match="purpose must be a text"):
        make_report(model, table, y, purpose=3)
    with pytest.raises(InvalidTypeError, match="data_path must be the path of a file"):
        make_report(model, table, y, data_path=3)


def test_the_command_line_has_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from oddsmith.cli.app import app

    monkeypatch.chdir(tmp_path)
    pd.DataFrame(load_dataset("penguins").to_pandas()).to_csv("p.csv", index=False)
    commands = (
        "fit p.csv -t species --missing indicator --ignore year --ignore sex --prior 1 -o p.odds --report fit.html",
        "report p.odds p.csv -t species --by sex --by year --author Gorman --purpose guide --period 2007 -o r.html",
    )
    for command in commands:
        with pytest.raises(SystemExit) as end:
            app(command.split())
        assert end.value.code == 0
    digest = hashlib.sha256(Path("p.csv").read_bytes()).hexdigest()
    for name in ("fit.html", "r.html"):
        assert digest in Page(Path(name).read_text(encoding="utf-8")).section("provenance").text
    page = Page(Path("r.html").read_text(encoding="utf-8"))
    assert [row["sex"] for row in page.table("Results by sex")] == ["female", "male", "missing"]
    assert [row["year"] for row in page.table("Results by year")] == ["2007", "2008", "2009"]
    assert page.facts("provenance")["author"] == "Gorman"


def test_odds_ratios_near_one_keep_their_digits_and_columns_set_aside_have_no_bar() -> None:
    rng = np.random.default_rng(0)
    charges = rng.uniform(0.0, 9000.0, 600)
    table = pd.DataFrame({"charges": charges, "double": 2 * charges, "RENT_PAID": rng.normal(size=600)})
    y = rng.random(600) < 1.0 / (1.0 + np.exp(-0.0004 * (charges - 4500.0)))
    with pytest.warns(CollinearityWarning, match="'double' is a linear"):
        model = LogisticRegression().fit(table, y)
    text = make_report(model, table, y)
    row = next(r for r in Page(text).table("Effects in original units") if r["term"] == "charges")
    low, high = map(float, re.findall(r">(1\.\d+) to (1\.\d+)<", text)[0])
    assert 1.0 < low < number(row["odds ratio"]) < high < 1.001
    assert "Left out, because they depend on other columns: <bdi>double</bdi>." in text
    forest = text[text.index("Forest plot") :]
    names = re.findall(r'class="tick end">([^<]*)<', forest[: forest.index("</svg>")])
    assert names == ["charges", "RENT_PAID"]
    shown = next(line for line in str(model.summary()).splitlines() if line.startswith("charges"))
    assert 1.0 < float(shown.split()[-2]) < float(shown.split()[-3]) < float(shown.split()[-1]) < 1.001


@pytest.mark.filterwarnings("ignore::oddsmith.errors.LevelsWarning")
def test_a_table_of_many_levels_is_described_in_time_that_grows_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    group = rng.permutation(30_000) % 3000
    model = LogisticRegression(1.0).fit(pd.DataFrame({"g": group.astype(str)}), rng.integers(0, 2, 30_000))
    calls, read = [0], LevelNames.__getitem__

    def counted(names: LevelNames, i: object) -> Any:
        calls[0] += 1
        return read(names, i)

    monkeypatch.setattr(LevelNames, "__getitem__", counted)
    texts = indicator_texts(model)
    assert len(texts) == model.coef_.size == 2999 and texts["g[7]"] == "7 instead of 0"
    assert calls[0] <= 2 * 2999
