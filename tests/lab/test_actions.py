"""What the actions answer, held against the library and against formulas written down again."""

import base64
import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from oddsmith import REJECT, JeffreysPrior, LogisticRegression, Polynomial
from oddsmith.lab.actions import STORIES
from oddsmith.lab.pane_model import BASES, COVARIANCES, INNER, KINDS
from oddsmith.lab.presets import PRESETS, draw_points
from oddsmith.lab.steps import Likelihood, iterate
from oddsmith.lectures import topics
from oddsmith.links import LINKS

Ask = Callable[..., dict[str, Any]]
VIEW = {"view": [-4.0, 4.0, -3.0, 3.0], "grid": [24, 18]}


def given(preset: str, n: int = 60, seed: int = 0) -> dict[str, Any]:
    X, t = draw_points(preset, n, 1.0, seed)
    return {"X": X.tolist(), "t": t.tolist()}


def numbers(text: str) -> Any:
    return np.frombuffer(base64.b64decode(text), "<f4")


@pytest.mark.parametrize("preset", sorted(set(PRESETS) - {"empty"}))
@pytest.mark.parametrize("kind", KINDS)
def test_every_model_answers_on_every_preset(ask: Ask, preset: str, kind: str) -> None:
    answer = ask("pane", **given(preset), **VIEW, model={"kind": kind, "epochs": 5})
    cells = int(np.prod(answer["map"]["grid"]))
    scores = numbers(answer["map"]["scores"])
    assert scores.size == cells * len(answer["classes"]) and np.isfinite(scores).all()
    assert answer["accuracy"]["train"]["of"] == 60


def all_variants() -> list[dict[str, Any]]:
    links = [{"kind": "logistic", "link": link} for link in LINKS if link not in ("log", "identity")]
    covariances = [{"kind": "gaussian", "covariance": c} for c in COVARIANCES]
    inner = [{"kind": kind, "inner": i, "epochs": 5} for kind in ("one_vs_rest", "one_vs_one") for i in INNER]
    bases = [{"kind": "logistic", "basis": {"kind": b}, "prior": {"kind": "gaussian", "scale": 2.0}} for b in BASES]
    return [*links, *covariances, *inner, *bases]


@pytest.mark.parametrize("model", all_variants(), ids=json.dumps)
def test_copied_script_reproduces_the_pane(ask: Ask, model: dict[str, Any]) -> None:
    points = given("overlapping")
    pane = ask("pane", **points, **VIEW, model=model, split={"share": 0.25, "seed": 3})
    script = ask("script", **points, model=model, split={"share": 0.25, "seed": 3})["script"]
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the pane shows them
        exec(compile(script, "script", "exec"), names)
    made = names["model"]
    assert len(names["X"]) == pane["accuracy"]["train"]["of"] == 60 - len(pane["test"])
    if pane["optimum"] is not None:
        W = np.column_stack([made.intercept_, made.coef_])
        assert np.abs(W - np.array(pane["optimum"])).max() <= 1e-9
    grid = np.stack(np.meshgrid(np.linspace(-4, 4, 24), np.linspace(-3, 3, 18)), -1).reshape(-1, 2)
    if pane["map"]["probabilistic"]:
        P = np.exp(numbers(pane["map"]["scores"]).reshape(2, -1)).T
        assert np.abs(made.predict_proba(grid) - P).max() < 1e-6  # the map has 32 bits


def test_weights_by_hand_have_the_loss_of_the_formula(ask: Ask) -> None:
    points, W = given("gaussians"), [[0.3, -1.0, 2.0]]
    model = {"kind": "logistic", "prior": {"kind": "gaussian", "scale": 2.0}}
    answer = ask("pane", **points, **VIEW, model=model, weights=W)
    a = np.array(points["X"]) @ W[0][1:] + W[0][0]
    t = np.array(points["t"])
    expected = np.logaddexp(0, np.where(t == 1, -a, a)).sum() + 0.5 * (1.0 + 4.0) / 4.0
    assert answer["loss"]["value"] == pytest.approx(expected, abs=1e-10)
    assert answer["loss"]["optimum"] < expected and answer["weights"] == W
    names: dict[str, Any] = {}
    exec(ask("script", **points, model=model, weights=W)["script"], names)
    assert names["model"].decision_function(points["X"]) == pytest.approx(a, abs=1e-12)


def test_held_out_points_stay_when_one_is_added(ask: Ask) -> None:
    points = given("gaussians")
    before = ask("pane", **points, **VIEW, model={"kind": "fisher"}, split={"share": 0.3, "seed": 1})["test"]
    more = {"X": [*points["X"], [0.0, 0.0]], "t": [*points["t"], 1]}
    after = ask("pane", **more, **VIEW, model={"kind": "fisher"}, split={"share": 0.3, "seed": 1})["test"]
    assert before == [i for i in after if i < 60] and 8 <= len(before) <= 28


@pytest.mark.parametrize("prior", [{"kind": "none"}, {"kind": "gaussian", "scale": 1.5}, {"kind": "jeffreys"}])
@pytest.mark.parametrize("basis", [{"kind": "none"}, {"kind": "polynomial", "degree": 2}])
def test_newton_ends_at_the_optimum_of_the_library(ask: Ask, prior: dict[str, Any], basis: dict[str, Any]) -> None:
    found = ask("walk", **given("overlapping", 100), method="newton", prior=prior, basis=basis, count=60)
    assert found["ending"] == "converged"
    assert found["path"][-1] == pytest.approx(found["optimum"], abs=1e-6)
    X, t = draw_points("overlapping", 100, 1.0, 0)
    how = {"none": None, "gaussian": 1.5, "jeffreys": JeffreysPrior()}[prior["kind"]]
    model = LogisticRegression(how, basis=Polynomial(2) if basis["kind"] == "polynomial" else None).fit(X, t)
    assert found["optimum"] == pytest.approx([model.intercept_[0], *model.coef_[0]], abs=1e-6)


def test_softmax_newton_ends_at_the_optimum_of_the_library(ask: Ask) -> None:
    found = ask("walk", **given("three", 120), method="newton", prior={"kind": "gaussian", "scale": 1.0}, count=60)
    assert found["shape"] == [3, 3] and found["path"][-1] == pytest.approx(found["optimum"], abs=1e-6)


def test_steps_equal_the_printed_formulas() -> None:
    X, t = draw_points("overlapping", 40, 1.0, 2)
    Phi, w = np.column_stack([np.ones(40), X]), np.array([0.1, -0.2, 0.3])
    problem = Likelihood(Phi=Phi, t=t, K=2)
    y = 1 / (1 + np.exp(-Phi @ w))
    H = sum(y[n] * (1 - y[n]) * np.outer(Phi[n], Phi[n]) for n in range(40))
    g = sum((y[n] - t[n]) * Phi[n] for n in range(40))
    expected = {"gradient": w - 0.05 * g, "newton": w - np.linalg.inv(H) @ g}
    for method, new in expected.items():
        path = iterate(problem, w[None, :], method, step_size=0.05, count=1, theta=0.0, seed=0)
        assert path.weights[1, 0] == pytest.approx(new, abs=1e-12)
    path = iterate(problem, w[None, :], "sgd", step_size=0.05, count=1, theta=0.0, seed=0)
    n = path.rows[0]
    assert path.weights[1, 0] == pytest.approx(w - 0.05 * (y[n] - t[n]) * Phi[n], abs=1e-12)
    path = iterate(problem, w[None, :], "perceptron", step_size=1.0, count=1, theta=0.0, seed=0)
    n = path.rows[0]
    assert (2 * t[n] - 1) * (Phi[n] @ w) <= 0
    assert path.weights[1, 0] == pytest.approx(w + (2 * t[n] - 1) * Phi[n], abs=1e-12)


@pytest.mark.parametrize("preset", ["overlapping", "three"])
def test_gap_bounds_the_distance_to_the_optimum(preset: str) -> None:
    X, t = draw_points(preset, 80, 1.6, 0)
    problem = Likelihood(Phi=np.column_stack([np.ones(80), X]), t=t, K=int(t.max()) + 1)
    path = iterate(problem, np.zeros(problem.shape), "gradient", step_size=0.02, count=800, theta=0.0, seed=0).weights
    best = problem.value(iterate(problem, path[-1], "newton", step_size=1, count=50, theta=1e-12, seed=0).weights[-1])
    bounds = np.array([problem.gap(W) for W in path])
    gaps = np.array([problem.value(W) for W in path]) - best
    assert np.isfinite(bounds[-1]) and (bounds >= gaps - 1e-9).all() and bounds[-1] < 10 * gaps[-1] + 1e-6


def test_separated_classes_diverge_and_a_prior_holds_them(ask: Ask) -> None:
    points = given("separable")
    free = ask("walk", **points, method="newton", count=60)
    assert free["separation"] == "complete" and free["optimum"] is None and free["ending"] == "diverged"
    pane = ask("pane", **points, **VIEW, model={"kind": "logistic"})
    assert any("separated" in text and "Firth" in text for text in pane["warnings"])
    for prior in ({"kind": "gaussian", "scale": 1.0}, {"kind": "jeffreys"}):
        held = ask("walk", **points, method="newton", prior=prior, count=60)
        assert held["ending"] == "converged" and np.abs(held["path"][-1]).max() < 10


def test_decisions_follow_the_loss(ask: Ask) -> None:
    points, model = given("overlapping", 200), {"kind": "logistic"}
    even = ask("decisions", **points, model=model, decision={})
    costly = ask("decisions", **points, model=model, decision={"loss": [[0, 1], [9, 0]]})
    assert even["threshold"] == 0.5 and costly["threshold"] == pytest.approx(0.1)
    assert costly["confusion"][1][0] < even["confusion"][1][0]  # fewer misses of what is costly to miss
    rejecting = ask("decisions", **points, model=model, decision={"reject": 0.2})
    assert rejecting["rejected"] > 0 and sum(map(sum, rejecting["confusion"])) == 200
    rare = ask("decisions", **points, model=model, decision={"class_prior": [0.95, 0.05]})
    assert sum(row[1] for row in rare["confusion"]) < sum(row[1] for row in even["confusion"])


def test_copied_script_decides_as_the_pane(ask: Ask) -> None:
    points = given("overlapping", 200)
    decision = {"loss": [[0, 1], [4, 0]], "reject": 0.5, "class_prior": [0.7, 0.3]}
    found = ask("decisions", **points, model={"kind": "logistic"}, decision=decision)
    names: dict[str, Any] = {}
    exec(ask("script", **points, model={"kind": "logistic"}, decision=decision)["script"], names)
    taken, t = names["decisions"], np.array(points["t"])
    counts = [[int(((taken == a) & (t == k)).sum()) for a in (0, 1, REJECT)] for k in (0, 1)]
    assert counts == found["confusion"] and found["rejected"] > 0


def test_widths_hold_their_own_optimum(ask: Ask) -> None:
    found = ask("widths", **given("overlapping", 80), model={"kind": "logistic"})
    curve = found["curve"]
    at = int(np.argmax(curve["log_evidence"]))
    assert curve["width"][max(at - 1, 0)] <= found["chosen"]["evidence"] <= curve["width"][min(at + 1, 24)]


def test_table_becomes_points(ask: Ask) -> None:
    text = "height,weight,sex,note\n1.7,60,f,a\n1.8,,m,b\n1.9,90,m,c\n1.6,55,f,d\n"
    columns = ask("columns", text=text)["columns"]
    assert [c["name"] for c in columns if c["numeric"]] == ["height", "weight"]
    found = ask("table", text=text, x="height", y="weight", label="sex")
    assert found["X"] == [[1.7, 60.0], [1.9, 90.0], [1.6, 55.0]] and found["t"] == [0, 1, 0]
    assert found["classes"] == ["f", "m"] and found["left_out"] == 1


def test_there_is_a_story_for_every_topic_and_its_state_can_be_asked_for(ask: Ask) -> None:
    assert [(s["topic"], s["title"]) for s in STORIES] == [(t.number, t.title) for t in topics()]
    for story in STORIES:
        state = story["state"]
        drawn = ask("points", **state["data"])
        assert 100 < len(story["text"]) < 400, story["title"]
        for pane in state["panes"]:
            kind, _, second = pane["model"].partition(":")
            which = {"logistic": "link", "gaussian": "covariance"}.get(kind, "inner")
            model = {"kind": kind, "basis": pane.get("basis"), **({which: second} if second else {})}
            if kind in ("logistic", "least_squares"):
                model["prior"] = pane.get("prior")
            layers = [name for name in pane.get("show", ()) if name in ("uncertainty", "density", "samples")]
            answer = ask("pane", X=drawn["X"], t=drawn["t"], **VIEW, model=model, layers=layers)
            assert not [text for text in answer["warnings"] if text.startswith(("Only", "There is no"))], story["title"]
