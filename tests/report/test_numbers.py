"""What a report says, held against scikit-learn, closed forms and refits; and what it must not say."""

import hashlib
import shlex
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics
from tests.report.reading import Page

import oddsmith
from oddsmith import GaussianClassifier, LogisticRegression
from oddsmith.report import make_report
from oddsmith.report.context import fitted_with_offset
from oddsmith.report.html import number, percent


def rows(n: int = 90, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X, offset = rng.normal(size=(n, 2)), 2.0 * rng.normal(size=n)
    return X, np.where(X[:, 0] + offset + rng.logistic(size=n) > 0, "yes", "no"), offset


def value(text: str) -> float:
    """The number that a text begins with."""
    return float(text.split(" ")[0].replace("−", "-").replace(",", ""))


@pytest.fixture(scope="module")
def left_out() -> tuple[Any, Any, Any]:
    """A page, the labels, and the probabilities of each row from a fit of all others."""
    X, y, _ = rows(60)
    model = LogisticRegression(prior=1.0)
    P = np.array([model.fit(np.delete(X, i, 0), np.delete(y, i)).predict_proba(X[[i]])[0] for i in range(len(y))])
    return Page(make_report(model.fit(X, y), X, y, loss=[[0, 1], [4, 0]])), y == "yes", P


def test_scores_are_those_of_scikit_learn_on_refits(left_out: Any) -> None:
    page, t, P = left_out
    scores = page.facts("calibration") | page.facts("discrimination")
    assert value(scores["AUC"]) == pytest.approx(metrics.roc_auc_score(t, P[:, 1]), abs=2e-3)
    assert value(scores["log loss"]) == pytest.approx(metrics.log_loss(t, P), rel=2e-3)
    assert value(scores["Brier score"]) == pytest.approx(metrics.brier_score_loss(t, P[:, 1]), rel=2e-3)
    assert value(scores["accuracy"]) == pytest.approx(np.mean((P[:, 1] > 0.5) == t), abs=1e-4)
    assert value(scores["log loss of the class shares alone"]) == pytest.approx(
        metrics.log_loss(t, np.tile(np.mean(t), len(t))), rel=1e-3
    )
    assert scores["accuracy of the largest class alone"] == number(float(max(np.mean(t), 1 - np.mean(t))))


def test_calibration_slope_is_that_of_a_logistic_fit_to_the_log_odds(left_out: Any) -> None:
    page, t, P = left_out
    a = np.log(P[:, 1] / P[:, 0])
    again = LogisticRegression().fit(a[:, None], t)
    scores = page.facts("calibration")
    assert value(scores["calibration slope"]) == pytest.approx(again.coef_[0, 0], rel=1e-2)
    assert value(scores["calibration intercept"]) == pytest.approx(again.intercept_[0], abs=2e-2)


def test_losses_are_sums_over_the_rows(left_out: Any) -> None:
    page, t, P = left_out
    says = P[:, 1] > 0.2  # where 4 p > 1 − p
    found = page.facts("decision")
    assert value(found["realised loss per row"]) == pytest.approx(np.mean(np.where(t, 4.0 * ~says, says)), abs=1e-3)
    expected = np.mean(np.where(says, P[:, 0], 4.0 * P[:, 1]))
    assert value(found["expected loss per row"]) == pytest.approx(expected, rel=5e-3)
    assert page.table("Best action")[0]["to"] == "0.2"
    same = min(4.0 * np.mean(t), 1.0 - np.mean(t))
    assert value(found["the best constant action"]) == pytest.approx(same, abs=1e-4)


def test_average_precision_is_that_of_both_classes(left_out: Any) -> None:
    page, t, P = left_out
    for row in page.table("Each class against the rest"):
        own = t == (row["class"] == "yes")
        p = P[:, 1] if row["class"] == "yes" else P[:, 0]
        assert value(row["average precision"]) == pytest.approx(metrics.average_precision_score(own, p), abs=5e-3)


def test_scores_of_a_fit_with_an_offset_are_with_it() -> None:
    X, y, offset = rows(400)
    model = LogisticRegression().fit(X, y, offset=offset)
    page = Page(make_report(model, X, y, offset=offset))
    left_out = model.leave_one_out(X, y, offset=offset).proba[:, 1]
    assert value(page.facts("discrimination")["AUC"]) == pytest.approx(metrics.roc_auc_score(y, left_out), abs=1e-4)
    assert "leave-one-out" in page.section("discrimination").text and "offset" not in page.section("glance").text
    assert (
        "− offset = " in page.section("model").text
        and "predict_proba(table, offset=offset)" in page.section("use").text
    )
    fresh, labels, shift = rows(300, seed=1)
    other = Page(make_report(model, fresh, labels, offset=shift))
    auc = metrics.roc_auc_score(labels, model.predict_proba(fresh, offset=shift)[:, 1])
    assert value(other.facts("discrimination")["AUC"]) == pytest.approx(auc, abs=1e-4)


def test_an_offset_that_is_not_given_is_missed() -> None:
    X, y, offset = rows()
    model = LogisticRegression().fit(X, y, offset=offset)
    assert "fitted with an offset" in Page(make_report(model, X, y)).section("glance").text
    without = LogisticRegression().fit(X, y, sample_weight=np.abs(offset))
    assert not fitted_with_offset(without) and not fitted_with_offset(without.with_class_prior([0.2, 0.8]))
    assert fitted_with_offset(model.with_class_prior([0.2, 0.8]))
    plain = LogisticRegression(fit_intercept=False)
    assert [fitted_with_offset(plain.fit(X, y, offset=given)) for given in (None, offset)] == [False, True]


def test_offsets_that_do_not_fit_are_refused() -> None:
    X, y, offset = rows()
    with pytest.raises(oddsmith.errors.InvalidInputError, match="offset has shape"):
        make_report(LogisticRegression().fit(X, y), X, y, offset=offset[1:])
    with pytest.raises(oddsmith.errors.InvalidInputError, match="takes no offsets"):
        make_report(GaussianClassifier().fit(X, y), X, y, offset=offset)


def test_a_separated_fit_is_praised_for_nothing() -> None:
    X, y = np.arange(12.0)[:, None], np.repeat(["no", "yes"], 6)
    with pytest.warns(oddsmith.errors.SeparationWarning):
        model = LogisticRegression().fit(X, y)
    page = Page(make_report(model, X, y))
    assert "No single row" not in page.section("glance").text and "separated" in page.section("influence").text
    assert "at which the fit stopped" in page.section("model").text
    assert "the gap is" not in page.facts("certificate") and "∞" not in page.section("glance").text
    assert "the training rows" in page.section("calibration").text


def test_a_model_moved_to_another_class_prior_says_so() -> None:
    X, y, _ = rows(400)
    model = LogisticRegression().fit(X, y).with_class_prior({"no": 0.1, "yes": 0.9})
    page = Page(make_report(model, X, y))
    assert "no 10%, yes 90%" in page.section("model").text and "moved" in page.section("certificate").text
    assert "was moved to, 90%" in page.section("prior").text
    said, seen = float(model.predict_proba(X)[:, 1].mean()), float(np.mean(y == "yes"))
    sentence = f"Class yes is overestimated: its probability is {percent(said)} on average, and its share here"
    assert f"{sentence} {percent(seen)}." in page.section("glance").text
    right = Page(make_report(LogisticRegression().fit(X, y), X, y))
    assert "estimated: its probability" not in right.section("glance").text
    assert "agree with the class shares" in right.section("calibration").text


def test_a_class_of_few_rows_for_its_weights_is_named() -> None:
    rng = np.random.default_rng(0)
    X, t = rng.normal(size=(300, 4)), np.arange(300) % 15 == 0
    text = Page(make_report(LogisticRegression().fit(X, t), X, t)).section("glance").text
    assert "has 20 rows in the fit for 4 weights" in text
    for fine in (LogisticRegression(prior=1.0).fit(X, t), LogisticRegression().fit(X[:, :2], t)):
        used = X[:, : fine.n_features_in_]
        assert "rows in the fit for" not in Page(make_report(fine, used, t)).section("glance").text


def test_decisions_that_cost_more_than_one_action_for_all_are_named() -> None:
    rng = np.random.default_rng(1)
    X, t = rng.normal(size=(400, 2)), np.arange(400) % 20 == 0  # a rare class that has nothing to do with the columns
    model = LogisticRegression().fit(X, t)
    assert "saves nothing" in Page(make_report(model, X, t)).section("glance").text
    X[t] += 2.0
    assert "saves nothing" not in Page(make_report(LogisticRegression().fit(X, t), X, t)).section("glance").text


def test_three_rows_have_a_report() -> None:
    X, y = [[0.0], [1.0], [2.0]], ["a", "b", "a"]
    page = Page(make_report(LogisticRegression(prior=1.0).fit(X, y), X, y))
    assert "Class b has 1 row here" in page.section("glance").text
    assert "not significantly above one half" in page.section("glance").text


def test_names_that_begin_and_end_alike_are_told_apart_in_the_forest_plot() -> None:
    rng = np.random.default_rng(0)
    names = [f"mean_consumption_of_the_household_in_week_{i:03d}_of_the_whole_period" for i in range(30)]
    table = pd.DataFrame(rng.normal(size=(200, 30)), columns=names)
    page = Page(make_report(LogisticRegression(prior=1.0).fit(table, np.arange(200) % 2), table, np.arange(200) % 2))
    shown = [
        e.text for e in page.section("weights").inside if e.tag == "text" and "end" in e.attributes["class"].split()
    ]
    assert len(shown) == len(set(shown)) == 60  # a drawing for phones, one for wide screens
    assert all(f"{i % 30:03d}" in text for i, text in enumerate(shown))


def test_the_checksum_is_that_of_the_model_that_was_just_fitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from oddsmith.cli.app import app

    monkeypatch.chdir(tmp_path)
    Path("m.odds").write_text("an older model")
    with warnings.catch_warnings(), pytest.raises(SystemExit) as end:
        warnings.simplefilter("ignore")
        app(shlex.split("fit penguins -t species --prior 1 --missing drop -o m.odds --report r.html"))
    assert end.value.code == 0
    digest = hashlib.sha256(Path("m.odds").read_bytes()).hexdigest()
    assert Page(Path("r.html").read_text(encoding="utf-8")).facts("provenance")["its SHA-256"] == digest


def test_the_command_takes_a_column_of_offsets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from oddsmith.cli.app import app

    monkeypatch.chdir(tmp_path)
    X, y, offset = rows(200)
    table = pd.DataFrame(X, columns=["a", "b"])
    LogisticRegression().fit(table, y, offset=offset).save("m.odds")
    table.assign(y=y, log_exposure=offset).to_csv("rows.csv", index=False)
    for options, said in (("--offset log_exposure", "leave-one-out"), ("", "fitted with an offset")):
        with pytest.raises(SystemExit) as end:
            app(shlex.split(f"report m.odds rows.csv -t y {options} -o r.html"))
        assert end.value.code == 0
        assert said in Page(Path("r.html").read_text(encoding="utf-8")).section("glance").text


def test_dozens_of_classes_make_a_page_that_can_be_opened() -> None:
    rng = np.random.default_rng(0)
    t = np.arange(360) % 60
    X = rng.normal(size=(360, 4)) + 2.0 * rng.normal(size=(60, 4))[t]
    model = GaussianClassifier().fit(X, t)
    text = make_report(model, X, t)
    assert len(text.encode()) < 500_000
    found = Page(text).table("Decisions for rows of another class")
    said = model.predict(X)
    for row in found[:5]:
        pair = int(row["true class"]), int(row["decision"])
        assert int(row["rows"]) == np.sum((t == pair[0]) & (said == pair[1])) and pair[0] != pair[1]
    counts = [int(row["rows"]) for row in found]
    assert counts == sorted(counts, reverse=True) and counts[0] > 0


@pytest.mark.parametrize("K", [2, 6])
@pytest.mark.parametrize("calibrated", [True, False])
def test_an_interval_from_zero_is_explained_and_holds_its_value(K: int, calibrated: bool) -> None:
    rng = np.random.default_rng(0)
    t = np.arange(300) % K
    X = rng.normal(size=(300, 2)) + t[:, None] * np.array([0.5, -0.3])
    model = LogisticRegression(prior=1.0 if calibrated else 0.02).fit(X, t)
    page = Page(make_report(model, X, t))
    facts = [text.replace("−", "-") for text in page.facts("calibration").values() if " to " in text]
    ends = [(float(text.split("(")[1].split(" to ")[0]), float(text.split(" to ")[1].rstrip(")"))) for text in facts]
    assert all(low <= value(text) <= high for text, (low, high) in zip(facts, ends, strict=True))
    assert any(low == 0.0 for low, _ in ends) == calibrated
    assert calibrated == ("noise can explain the value" in page.section("calibration").text)
