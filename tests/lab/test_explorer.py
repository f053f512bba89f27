"""The page of a fitted model: its answers held against the model, its form in a browser, its command."""

import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from oddsmith import (
    GaussianClassifier,
    LeastSquaresClassifier,
    LogisticRegression,
    NaiveBayes,
    OneVsRest,
    Standardize,
)
from oddsmith.data import load_dataset
from oddsmith.errors import InvalidInputError
from oddsmith.lab.explorer import Explorer
from oddsmith.lab.fields import BadRequestError, Fields, plain
from oddsmith.models.base import Classifier

NO_COSTS: dict[str, Any] = {"loss": None, "reject": None}
PENGUINS = load_dataset("penguins").drop_null()
NUMERIC = PENGUINS.select(["species", "bill_length_mm", "bill_depth_mm"])


@cache
def models() -> dict[str, Classifier]:
    X, y = np.column_stack([NUMERIC[c].to_numpy() for c in NUMERIC.column_names[1:]]), [1, 2, 3] * 111
    return {
        "logistic": LogisticRegression(1.0).fit(PENGUINS, "species"),
        "standardised": LogisticRegression(1.0, basis=Standardize()).fit(NUMERIC, "species"),
        "gaussian": GaussianClassifier("separate").fit(NUMERIC, "species"),
        "naive": NaiveBayes().fit(PENGUINS, "species"),
        "least squares": LeastSquaresClassifier().fit(PENGUINS, "species"),
        "one versus rest": OneVsRest().fit(PENGUINS, "species"),
        "unnamed": LogisticRegression(1.0).fit(X, y),
    }


@pytest.mark.parametrize("name", models())
@pytest.mark.parametrize("with_data", [True, False])
def test_answers_equal_the_model(name: str, with_data: bool) -> None:
    model = models()[name]
    data = NUMERIC.drop_columns(["species"]) if name == "unnamed" else PENGUINS
    explorer = Explorer.of(model, name, data if with_data else None, NO_COSTS)
    form = plain(explorer.answer_form(Fields({})))
    values = {c["name"]: c["default"] for c in form["columns"]}
    if with_data:
        values = explorer.answer_data(Fields({"index": 150}))["values"]
    answer = plain(explorer.answer_row(Fields({"values": values})))
    rows = pa.table({k: [v] for k, v in values.items()})
    rows = np.array([list(values.values())]) if name == "unnamed" else rows
    assert answer["decision"] == str(model.predict(rows)[0])
    if answer["probabilities"] is not None:
        P = [part["probability"] for part in answer["probabilities"]]
        assert model.predict_proba(rows)[0].tolist() == pytest.approx(P, abs=1e-12)
        assert all(part.get("lower", 0) <= part.get("upper", 1) for part in answer["probabilities"])
    for change in answer["changes"]:
        turned = explorer.answer_row(Fields({"values": values | {change["column"]: change["to"]}}))
        assert turned["decision"] == change["decision"] != answer["decision"]


@pytest.mark.parametrize(
    "type_", [pa.date32(), pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.timestamp("us", "Europe/Berlin")], ids=str
)
def test_dates_are_days(type_: pa.DataType) -> None:
    hours = np.arange(80) * 24 * 40 + (0 if type_ == pa.date32() else 7)
    since = pa.array(hours.astype("datetime64[h]").astype("datetime64[us]")).cast(type_)
    table = pa.table({"since": since, "y": np.where(np.arange(80) % 7 < 1 + np.arange(80) // 20, "no", "yes")})
    model = LogisticRegression(1.0, basis=Standardize()).fit(table, "y")
    explorer = Explorer.of(model, "dates", table, NO_COSTS)
    values = explorer.answer_data(Fields({"index": 30}))["values"]
    assert values == {"since": hours[30] / 24}
    answer = plain(explorer.answer_row(Fields({"values": values})))
    found = [part["probability"] for part in answer["probabilities"]]
    assert model.predict_proba(table.slice(30, 1))[0].tolist() == pytest.approx(found, abs=1e-12)


def test_contributions_are_those_of_the_weights() -> None:
    cancer = load_dataset("breast_cancer")
    few = cancer.select(["diagnosis", "mean_radius", "mean_texture"])
    model = LogisticRegression(1.0).fit(few, "diagnosis")
    explorer = Explorer.of(model, "cancer", few, NO_COSTS)
    answer = explorer.answer_row(Fields({"values": {"mean_radius": 20.0, "mean_texture": 30.0}}))
    usual = [float(np.median(few[c].to_numpy())) for c in few.column_names[1:]]
    expected = model.coef_[0] * (np.array([20.0, 30.0]) - usual)
    assert [c["effect"] for c in answer["contributions"]] == pytest.approx(expected.tolist(), abs=1e-9)


def test_decisions_are_under_the_loss() -> None:
    model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["well", "well", "sick", "sick"])
    costs = {"loss": [[0.0, 9.0], [1.0, 0.0]], "reject": 0.4}
    explorer = Explorer.of(model, "tiny", None, costs)
    for x in (-2.0, 0.5, 1.5, 4.0):
        answer = explorer.answer_row(Fields({"values": {"x0": x}}))
        cheapest = min(answer["costs"], key=lambda part: part["cost"])["action"]
        assert answer["decision"] == cheapest
    with pytest.raises(InvalidInputError, match="no probabilities"):
        Explorer.of(LeastSquaresClassifier().fit([[0.0], [1.0]], [0, 1]), "", None, costs)


@pytest.mark.parametrize(
    "values",
    [{"bill_length_mm": "long"}, {"bill_length_mm": 1e300}, {"island": "Atlantis"}, {"island": 3}, {"wing": 1}, 3, [1]],
)
def test_wrong_values_get_a_sentence(values: object) -> None:
    explorer = Explorer.of(models()["logistic"], "penguins", PENGUINS, NO_COSTS)
    with pytest.raises(BadRequestError, match=r"must be|Unknown"):
        explorer.answer_row(Fields({"values": values}))
    with pytest.raises(BadRequestError, match="from 0 to 332"):
        explorer.answer_data(Fields({"index": 333}))


@pytest.mark.parametrize("look", ["light", "dark"])
def test_form_answers_in_a_browser(browser: Any, serve_app: Callable[..., str], look: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    explorer = Explorer.of(models()["logistic"], "penguins.odds", PENGUINS, NO_COSTS)
    address = serve_app(explorer.actions(), "explore.html")
    width = {"light": 1280, "dark": 390}[look]
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=look)
    try:
        page, heard = context.new_page(), []
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))

        def settle() -> None:
            page.wait_for_timeout(40)
            page.wait_for_selector("body[data-idle=true]")

        page.goto(address)
        settle()
        assert page.text_content("#decision") == "Adelie" and "species: Adelie" in page.text_content("#other")
        page.fill("input[aria-label='bill_length_mm, as a number']", "58")
        page.keyboard.press("Tab")
        settle()
        assert page.text_content("#decision") != "Adelie"
        page.locator("#changes button").first.click()
        settle()
        page.wait_for_timeout(200)
        there, said = page.evaluate("location.href"), page.text_content("#decision")
        page.goto("about:blank")
        page.goto(there)
        settle()
        assert page.text_content("#decision") == said
        page.click("#next")
        settle()
        assert page.input_value("#index") == "2"
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert not axe.run(page, options={"resultTypes": ["violations"]}).response["violations"] and not heard
    finally:
        context.close()


def test_commands_print_an_address_that_answers(tmp_path: Path) -> None:
    path = tmp_path / "penguins.odds"
    models()["gaussian"].save(path)
    program = [sys.executable, "-m", "oddsmith.cli"]
    commands = (["lab", "--no-open"], ["explore", str(path), "penguins", "--no-open"])
    started = [subprocess.Popen([*program, *command], stdout=subprocess.PIPE, text=True) for command in commands]
    try:
        for running in started:
            assert running.stdout is not None
            address = running.stdout.readline().strip()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", address)
            with urllib.request.urlopen(address, timeout=20) as answer:
                assert b"oddsmith" in answer.read()
    finally:
        for running in started:
            running.terminate()
            running.communicate(timeout=20)
