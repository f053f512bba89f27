"""Tables, p-values and covariances against exact numbers and by hand."""

import html
from dataclasses import replace
from html.parser import HTMLParser

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oddsmith import LogisticRegression
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.inference.covariance import read_covariance, sandwich
from oddsmith.inference.summary import Summary, chi_square_p, normal_p, normal_quantile, wald_columns
from oddsmith.inference.tables import escape_latex, format_column
from oddsmith.numerics import factor_spd
from oddsmith.records import Certificate


def certified(converged: bool, gap: float, norm: float, **more: bool) -> Certificate:
    return Certificate(converged=converged, gap=gap, gradient_norm=norm, condition=1.0, passes=3, **more)


def example(terms: list[str], **options: object) -> Summary:
    n = len(terms)
    columns = {"term": terms, **wald_columns(np.linspace(-1.0, 1.0, n), np.full(n, 0.5), 0.9)}
    certificate = options.pop("certificate", certified(True, 1e-12, 0.0))
    return Summary(
        columns=columns,
        heading="A model",
        log_likelihood=-6.0,
        null_log_likelihood=-8.0,
        n_rows=20,
        n_parameters=n,
        n_classes=2,
        certificate=certificate,
        remarks=("a remark",),
        level=0.9,
    )


@pytest.mark.parametrize("z", [0.0, 0.3, -1.96, 5.0, 20.0, 37.0])
def test_normal_p_is_exact_far_out(z: float) -> None:
    with mpmath.workdps(40):
        expected = float(mpmath.erfc(abs(mpmath.mpf(z)) / mpmath.sqrt(2)))
    assert normal_p(np.array([z]))[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("df", [1, 2, 7])
@pytest.mark.parametrize("x", [0.0, 1.0, 30.0, 1000.0])
def test_chi_square_p_is_exact_far_out(x: float, df: int) -> None:
    with mpmath.workdps(40):
        expected = float(mpmath.gammainc(mpmath.mpf(df) / 2, mpmath.mpf(x) / 2, mpmath.inf, regularized=True))
    assert chi_square_p(x, df) == pytest.approx(expected, rel=1e-11)


@given(level=st.floats(1e-6, 1.0 - 1e-12))
def test_normal_quantile_is_the_inverse_of_the_p_value(level: float) -> None:
    assert normal_p(np.array([normal_quantile(level)]))[0] == pytest.approx(1.0 - level, rel=1e-6)


def test_print_names_the_level_and_ends_with_the_certificate() -> None:
    lines = str(example(["(intercept)", "age"])).split("\n")
    assert lines[0] == "A model" and {"5%", "95%"} <= set(lines[2].split())
    assert lines[4].startswith("(intercept)  ") and lines[-1] == "certificate: at most 1.0e-12 from the optimum"
    assert len({len(line) for line in lines[1:7:5]}) == 1
    apart = example(["a"], certificate=certified(False, np.inf, 1.0, optimum_exists=False))
    assert str(apart).endswith("no optimum exists: the classes are separated")


class Cells(HTMLParser):
    """Collects the text of a table and fails on tags that do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(html.unescape(data))


@given(name=st.text(min_size=1, max_size=12).filter(lambda s: s.isprintable()))
def test_any_column_name_survives_every_rendering(name: str) -> None:
    table = example([name, "b"])
    cells = Cells()
    cells.feed(table._repr_html_())
    assert not cells.open and name in "".join(cells.text)
    markdown = table.to_markdown().split("\n")
    bars = [line.replace("\\|", "").count("|") for line in markdown[:4]]
    assert len(set(bars)) == 1
    latex = table.to_latex()
    assert latex.count(r"\\") == 3 + name.count("\\") * 0 and latex.count(r"\begin{tabular}") == 1
    assert table.to_pandas().term.tolist() == [name, "b"] == table.to_polars()["term"].to_list()


@pytest.mark.parametrize("text", list("&%$#_{}~^\\<>|"))
def test_latex_has_no_bare_special_character(text: str) -> None:
    assert escape_latex(text) != text and escape_latex(f"a{text}b").startswith("a\\")


def test_columns_of_missing_and_infinite_numbers() -> None:
    assert format_column("estimate", [np.nan, np.inf, -np.inf, 0.5]) == ["", "∞", "-∞", "0.50000"]
    assert format_column("lower", [1e-12, 1.0]) == ["1e-12", "1"]


def test_attributes_are_columns_and_say_what_there_is() -> None:
    table = example(["a"])
    assert table.upper.tolist() == table.to_dict()["upper"]
    with pytest.raises(AttributeError, match="its columns are term, estimate"):
        table.median  # noqa: B018


def test_sandwich_of_the_information_itself_is_its_inverse() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    H = root @ root.T + np.eye(4)
    kinds = {"HC0": 1.0, "HC1": 10 / 6, "CR0": 1.0, "CR1": 5 / 4, "CR1S": 5 / 4 * 9 / 6}
    for name, factor in kinds.items():
        form = ("sandwich", name) if name.startswith("H") else ("cluster", [1, 2], name)
        V = sandwich(factor_spd(H), H, read_covariance(form), n=10, k=4, clusters=5)
        np.testing.assert_allclose(V, factor * np.linalg.inv(H), rtol=1e-10)


@pytest.mark.parametrize(
    ("covariance", "error", "words"),
    [
        ("robust", UnknownNameError, "Unknown covariance 'robust'"),
        (("sandwich", "HC9"), UnknownNameError, "Unknown sandwich 'HC9'"),
        (("cluster",), InvalidTypeError, "ids holding"),
        (("cluster", [1, 1, 1]), InvalidInputError, "All rows are in one cluster"),
        (("cluster", [1.0, np.nan]), InvalidInputError, "missing values"),
        (("cluster", ["a", None]), InvalidInputError, "missing values"),
        (("cluster", [[1, 2]]), InvalidInputError, "one identifier per row"),
        (("cluster", [1, 2], "CR9"), UnknownNameError, "factor for clusters"),
        (3, UnknownNameError, "Unknown covariance"),
    ],
)
def test_unknown_covariances_are_refused(covariance: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        read_covariance(covariance)


def test_factors_that_need_more_rows_are_refused() -> None:
    factor = factor_spd(np.eye(3))
    with pytest.raises(InvalidInputError, match="more rows than weights"):
        sandwich(factor, np.eye(3), read_covariance(("sandwich", "HC1")), n=3, k=3)
    with pytest.raises(InvalidInputError, match="at least two"):
        sandwich(factor, np.eye(3), read_covariance(("cluster", [1, 2])), n=9, k=3, clusters=1)


@pytest.mark.parametrize(
    ("covariance", "options", "expected"),
    [
        ("information", {}, "maximum likelihood; standard errors from the expected information; 95% Wald intervals"),
        ("sandwich", {"level": 0.9}, "maximum likelihood; robust standard errors (HC0 sandwich); 90% Wald intervals"),
        (("sandwich", "HC1"), {}, "maximum likelihood; robust standard errors (HC1 sandwich); 95% Wald intervals"),
        ("cluster", {}, "maximum likelihood; cluster-robust standard errors of 7 clusters (CR1); 95% Wald intervals"),
    ],
)
def test_footer_says_how_errors_and_intervals_were_made(covariance: object, options: dict, expected: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + rng.logistic(size=60) > 0
    given = ("cluster", np.arange(60) % 7) if covariance == "cluster" else covariance
    robust = {} if covariance == "information" else {"X": X, "y": y}
    found = LogisticRegression().fit(X, y).summary(covariance=given, **options, **robust)
    assert found.remarks[0] == expected and expected in str(found)


def test_a_long_plan_is_wrapped_at_120_characters() -> None:
    plan = "plan: Newton on " + ", then ".join(f"{1000 * k:,} rows" for k in range(1, 30))
    shown = str(replace(example(["x"]), remarks=(plan, "another remark"))).splitlines()
    lines = shown[
        shown.index(next(line for line in shown if line.startswith("plan: "))) : shown.index("another remark")
    ]
    assert " ".join(line.strip() for line in lines) == plan
    assert 110 < max(map(len, lines)) <= 120 and all(line.startswith("  ") for line in lines[1:])


def test_the_rules_of_a_table_are_as_long_as_its_rows() -> None:
    rule, header, second, *rows = str(example(["x", "a longer name"])).splitlines()[1:6]
    assert rule == second == "─" * len(header) and {len(row) for row in rows} == {len(header)}
