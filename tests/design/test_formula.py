"""Formulas are data: what they may say, R's rule for contrasts by rank, and that nothing else gets through."""

import ast
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oddsmith import Design, Polynomial, Spline
from oddsmith.design.formula import Expression, evaluate, read_expression, read_formula
from oddsmith.design.functions import Poly, Scale
from oddsmith.errors import InvalidInputError, OddsmithError

TABLE = polars.DataFrame(
    {
        "y": [0, 1] * 6,
        "x": np.linspace(0.5, 6.0, 12),
        "z": np.arange(12)[::-1] ** 2 + 1,
        "f": ["a", "b", "c"] * 4,
        "g": ["u", "u", "v"] * 2 + ["v", "v", "u"] * 2,
        "odd name": np.arange(12),
    }
)


def columns(formula: str, **options: Any) -> dict[str, list[float]]:
    design = Design(formula, **options).fit(TABLE)
    rows = design.transform(TABLE)
    return dict(zip(design.get_feature_names_out().tolist(), rows.T.tolist(), strict=True))


def test_operators_and_functions_by_hand() -> None:
    x, z, odd = (np.array(TABLE[name], dtype=float) for name in ("x", "z", "odd name"))
    expected = {
        "log(x)": np.log(x),
        "exp(-x)": np.exp(-x),
        "sqrt(z)": np.sqrt(z),
        "I(x ** 2 + 3 * z / 2)": x**2 + 3 * z / 2,
        "I(x > 2)": (x > 2).astype(float),
        "log(`odd name` + 1)": np.log(odd + 1),
        "center(x)": x - x.mean(),
        "scale(log(z))": (np.log(z) - np.log(z).mean()) / np.log(z).std(ddof=1),
    }
    for text, values in expected.items():
        found = columns(text)
        assert list(found) == [text]
        np.testing.assert_allclose(found[text], values, rtol=1e-14, atol=1e-14)
    assert list(columns("`odd name` + {x - z}")) == ["odd name", "x - z"]


def test_all_other_columns() -> None:
    assert list(columns("y ~ .")) == ["x", "z", "f[b]", "f[c]", "g[v]", "odd name"]
    assert list(columns("y ~ . - z - f + x:g")) == ["x", "g[v]", "odd name", "x:g[v]"]


def test_a_column_beside_its_categories_stays_a_number() -> None:
    """As in R: ``k + factor(k):x`` is a slope of k and slopes of x within its values."""
    k, x = np.arange(12) % 3, np.arange(12.0)
    table = polars.DataFrame({"k": k, "x": x})
    for formula in ("k + C(k):x", "C(k):x + k"):
        design = Design(formula).fit(table)
        assert design.get_feature_names_out().tolist() == ["k", "k[0]:x", "k[1]:x", "k[2]:x"]
        np.testing.assert_array_equal(design.transform(table), np.column_stack([k, *((k == i) * x for i in range(3))]))
    assert Design("C(k) + k").fit(table).get_feature_names_out().tolist() == ["k[1]", "k[2]", "k"]


def test_spline_is_our_spline() -> None:
    X = np.array(TABLE["x"])[:, None]
    for call, basis in {
        "spline(x)": Spline(),
        "spline(x, 4)": Spline(4),
        "spline(x, knots=[0.5, 2, 6])": Spline([0.5, 2.0, 6.0]),
        "spline(x, 4, 2, natural=False)": Spline(4, 2, natural=False),
        "ns(x, 3)": Spline(4),
        "bs(x, df=5)": Spline(4, natural=False),
    }.items():
        found = np.array(list(columns(call).values())).T
        assert np.array_equal(found, basis.fit(X).transform(X))


@given(st.lists(st.floats(-100, 100), min_size=6, max_size=30, unique=True), st.integers(1, 3))
def test_polynomials_are_orthonormal_and_span_the_powers(values: list[float], degree: int) -> None:
    x = np.array(values)
    if np.min(np.diff(np.sort(x))) < 1e-2:
        return
    P = Poly.learn(x, np.ones(len(x)), degree)(x)
    one = np.ones(len(x)) / np.sqrt(len(x))
    np.testing.assert_allclose(np.column_stack([one, P]).T @ np.column_stack([one, P]), np.eye(degree + 1), atol=1e-8)
    powers = Polynomial(degree).fit(x[:, None]).transform(x[:, None]) / np.abs(x).max() ** np.arange(1, degree + 1)
    Q = np.column_stack([one, P])
    np.testing.assert_allclose(Q @ (Q.T @ powers), powers, atol=1e-7)


def test_a_row_of_weight_two_is_the_row_twice() -> None:
    x, s = np.array([1.0, 2.0, 4.0, 7.0]), np.array([2.0, 1.0, 3.0, 1.0])
    twice = np.repeat(x, s.astype(int))
    assert Scale.learn(x, s).sd == pytest.approx(twice.std(ddof=1), rel=1e-14)
    one, two = Poly.learn(x, s, 2)(x), Poly.learn(twice, np.ones(7), 2)(x)
    np.testing.assert_allclose(one, two, rtol=1e-12)


def test_what_functions_learn_is_kept() -> None:
    design = Design("scale(x) + poly(z, 2) + spline(x, 4) + center(log(z))").fit(TABLE)
    whole = design.transform(TABLE)
    for i in range(len(TABLE)):
        np.testing.assert_array_equal(design.transform(TABLE[i : i + 1]), whole[i : i + 1])


# ------------------------------------------------------------------------------------------- contrasts

R = json.loads((Path(__file__).parents[1] / "reference" / "contrasts.json").read_text(encoding="utf-8"))


def test_levels_that_get_a_column_are_those_of_r() -> None:
    """For all sets of up to four terms of a number and two factors, and for random expressions of five columns."""
    table = polars.DataFrame(R["table"])
    assert len(R["formulas"]) == 347
    for formula, names in zip(R["formulas"], R["names"], strict=True):
        found = Design(formula).fit(table).get_feature_names_out()
        assert [name.replace("[", "").replace("]", "") for name in found] == names, formula


# ---------------------------------------------------------------------------------------------- safety

HOSTILE = [
    "__import__('os').system('true')",
    "I(__import__('os').system('true'))",
    "eval('1')",
    "exec(x)",
    "open('/etc/passwd')",
    "I(x.__class__)",
    "I(x.values)",
    "x.sum()",
    "I(().__class__.__bases__[0].__subclasses__())",
    "I([a for a in x])",
    "I((lambda: 1)())",
    "I(x if 1 else z)",
    "I(x and z)",
    "I(f'{x}')",
    "I(x[0])",
    "I((x := 3))",
    "I(*x)",
    "log(*x)",
    "log(x, out=z)",
    "spline(x, knots=z)",
    "spline(x, limit=3)",
    "spline(x, knots=open)",
    "C(x, reference=z)",
    "C(I(x))",
    "log(C(f))",
    "log(spline(x))",
    "bs(x, df=10**9)",
    "poly(x, degree=1000000)",
    "poly(x, 2.5)",
    "I('a' * x)",
    "I(x @ z)",
    "I(x << 3)",
    "I(x is z)",
    "I(1 < x < 2)",
    "{x; z}",
    "{import os}",
    "np.log(x)",
    "log.__call__(x)",
    "I(__builtins__)",
    "I(x" + " + x" * 300 + ")",
    "I(" * 200 + "x" + ")" * 200,
    "I(9" + "9" * 5000 + " * x)",
    "I(1e999 * x)",
    "*".join(f"x{i}" for i in range(30)),
    "(" + "+".join(f"x{i}" for i in range(60)) + ")**9",
    "x | z",
    "x %in% f",
    "2:x",
    "x + 1.5",
    "'x'",
    "x +",
    "",
    "~",
    "1",
    "y ~ 1",
    "log(y) ~ x",
    "y + x ~ z",
    "y ~ y",
    "y ~ x ~ z",
    "x\x00",
    "I(2)",
    "scale(3)",
    "I(x + scale(3))",
    "+".join(["x"] * 20_000),
]


@pytest.mark.parametrize("formula", HOSTILE, ids=lambda text: text[:40].replace("\x00", "NUL"))
def test_what_is_no_formula_is_refused_in_a_sentence(formula: str) -> None:
    with pytest.raises(OddsmithError) as caught:
        Design(formula).fit(TABLE)
    assert len(str(caught.value)) > 30


@settings(max_examples=300)
@given(st.text("xzfy +-*:/^~()`{}[].,='\"01#\\_%|I", max_size=25))
def test_any_text_is_a_formula_or_refused(text: str) -> None:
    try:
        formula = read_formula(text, TABLE.columns)
    except OddsmithError:
        return
    for term in formula.terms:
        for factor in term:
            assert isinstance(factor, Expression) and factor.columns


ALLOWED = (ast.Name, ast.Constant, ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.operator, ast.unaryop, ast.cmpop)


@settings(max_examples=300)
@given(
    st.recursive(
        st.sampled_from(["x", "z", "1", "2.5", "'w'", "x.y", "x[0]", "[x]", "None", "True", "lambda: 0", "__doc__"]),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from([" + ", " ** ", " and ", " < ", " @ ", ", ", " if x else "]), inner).map(
                "".join
            ),
            st.tuples(
                st.sampled_from(["log", "I", "scale", "spline", "eval", "C", "x.log", "-", "not ", "~"]), inner
            ).map(lambda call: f"{call[0]}({call[1]})"),
        ),
        max_leaves=6,
    )
)
def test_only_known_nodes_get_through(text: str) -> None:
    try:
        expression = read_expression(text)
    except OddsmithError:
        return
    nodes = list(ast.walk(ast.parse(text, mode="eval").body))
    called = {node.func.id for node in nodes if isinstance(node, ast.Call)}  # type: ignore[attr-defined]
    assert called <= {"log", "I", "scale", "spline", "C"}
    constants = (ast.keyword, ast.expr_context, ast.List, ast.Tuple)  # options
    assert all(isinstance(node, (*ALLOWED, *constants)) for node in nodes)
    assert set(expression.columns) <= {"x", "z"}


def test_an_expression_that_comes_from_a_file_is_checked_again() -> None:
    for text in ("__import__('os').getcwd()", "x.sum()", "eval(x)"):
        with pytest.raises(InvalidInputError, match="is not allowed"):
            evaluate(Expression(text=text, columns=("x",)), lambda name: np.ones(3), {})


def test_long_formulas_are_read_in_time_or_refused() -> None:
    many = [f"x{i}" for i in range(2000)]
    assert len(read_formula(" + ".join(many), []).terms) == 2000
    assert len(read_formula(" + ".join(f"{name}:z" for name in many), []).terms) == 2000
    assert len(read_formula("(" * 2000 + "x" + ")" * 2000, []).terms) == 1
    assert len(read_formula("((a + b + c + d)^3 + e)^3", []).terms) == 31
    for large in (" * ".join(many[:17]), f"({' + '.join(many[:50])})^4", "(a + b)^999999999999", "((a + b)^9 + c)^9"):
        with pytest.raises(InvalidInputError, match="more terms than can be handled"):
            read_formula(large, [])


def test_names_that_look_like_code_are_names() -> None:
    name = "__import__('os').system('true')"
    table = TABLE.rename({"x": name})
    design = Design(f"`{name}` + log(`{name}`)").fit(table)
    assert design.get_feature_names_out().tolist() == [name, f"log(`{name}`)"]
    np.testing.assert_allclose(design.transform(table)[:, 1], np.log(np.array(table[name])))


@pytest.mark.parametrize(
    ("formula", "match"),
    [
        ("x + w", "Column 'w' is missing from the table. Its columns are: 'y', 'x'"),
        ("log(f)", "Column 'f' holds categories, such as 'a', where numbers are expected"),
        ("log(x - 3)", r"log\(x - 3\) is not a finite number in row 0"),
        ("scale(log(x - 3))", r"scale\(log\(x - 3\)\) is not a finite number in row 0"),
        ("spline(x, 1)", r"spline\(x, 1\) in the formula cannot be learned: knots of Spline must be"),
        ("poly(C, 3)", "Column 'C' is missing"),
        ("poly(y, 3)", r"poly\(y, 3\) in the formula cannot be learned: degree 3 needs more than 3 different values"),
        ("scale(x - x)", "does not vary"),
        ("ns(x, 0)", "df must be at least 1"),
        ("bs(x, 2)", "df must be at least the degree"),
        ("C(f, reference='q')", "Unknown reference level of column 'f' 'q'"),
        ("center(x, 2)", "too many arguments"),
        ("spline(x, 4, knots=5)", "each once"),
        ("eval(x)", r"eval\(\) is not a formula function.*functions C, I, bs, center, exp, log"),
    ],
)
def test_what_cannot_be_made_is_said_by_name(formula: str, match: str) -> None:
    with pytest.raises(OddsmithError, match=match):
        Design(formula).fit(TABLE)


def test_a_formula_must_be_text() -> None:
    with pytest.raises(OddsmithError, match="formula must be a string"):
        Design(["x"]).fit(TABLE)  # type: ignore[arg-type]


def test_without_formulaic_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "formulaic.parser", None)
    with pytest.raises(InvalidInputError, match=r"formulaic, which is not installed: install oddsmith\[formula\]"):
        Design("y ~ x").fit(TABLE)
    assert Design().fit(TABLE).n_features_in_ == 6
