"""Records print, render and become frames; the registry and the errors help."""

import numpy as np
import pytest

from oddsmith.block import Block
from oddsmith.errors import InvalidInputError, InvalidTypeError, OddsmithError, UnknownNameError, as_input_errors
from oddsmith.records import TRACE_COLUMNS, Boundary, Certificate, Table, Trace, format_value
from oddsmith.registry import Registry

TRACE = Trace(((0, 2.0, -2.0, 1.0, 0.0, 1, 0.1, "Newton"), (1, 1.5, -1.5, 0.1, 1.0, 2, 0.2, "Newton")))


def test_a_trace_is_a_table_with_its_columns_as_attributes() -> None:
    assert TRACE.columns == TRACE_COLUMNS
    assert TRACE.objective.tolist() == [2.0, 1.5]
    assert TRACE.passes.tolist() == [1, 2]
    with pytest.raises(AttributeError, match="loss"):
        TRACE.loss  # noqa: B018
    table = TRACE.to_pandas()
    assert table.gradient_norm.tolist() == [1.0, 0.1]
    assert TRACE.to_polars().shape == (2, 8)
    lines = str(TRACE).splitlines()
    assert len(lines) == 3 and len({len(line) for line in lines}) == 1
    assert lines[0].split() == list(TRACE_COLUMNS)


def test_an_empty_trace_is_a_table_too() -> None:
    assert len(Trace()) == 0
    assert str(Trace()).split() == list(TRACE_COLUMNS)
    assert len(Trace().to_pandas()) == 0


def test_records_are_frozen() -> None:
    certificate = Certificate(converged=True, gap=0.0, gradient_norm=0.0, condition=1.0, passes=3)
    for record, name in ((certificate, "gap"), (TRACE, "records")):
        with pytest.raises(AttributeError):
            setattr(record, name, None)


def test_a_certificate_prints_a_line_for_each_thing_that_it_says() -> None:
    certificate = Certificate(
        converged=False, gap=np.inf, gradient_norm=0.5, condition=10.0, passes=3, optimum_exists=False, method="Newton"
    )
    lines = str(certificate).splitlines()
    assert len(lines) == len(certificate.to_dict())
    assert [line.split()[-1] for line in lines] == ["False", "inf", "0.5", "10", "3", "True", "False", "Newton"]


def test_html_is_escaped() -> None:
    boundary = Boundary([("<a>", "b&c")], np.array([1.0, 0.0]), 0.5, -0.5)
    html = boundary._repr_html_()
    assert "&lt;a&gt; | b&amp;c" in html and "<a>" not in html
    assert boundary.to_pandas().columns.tolist() == ["classes", "normal_0", "normal_1", "offset", "origin_distance"]


def test_numbers_are_right_aligned_in_a_notebook() -> None:
    html = Boundary([("a", "b")], np.array([1.0, 0.0]), 0.5, -0.5)._repr_html_()
    assert '<th style="text-align:left">classes</th>' in html and '<td style="text-align:left">a | b</td>' in html
    assert '<th style="text-align:right">offset</th>' in html and '<td style="text-align:right">0.5</td>' in html


def test_values_have_six_digits() -> None:
    assert [format_value(v) for v in (1 / 3, 1e-20, np.float32(0.5), 3, "x", None)] == [
        "0.333333",
        "1e-20",
        "0.5",
        "3",
        "x",
        "None",
    ]


def test_a_table_without_columns_says_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"Table must define to_dict\(\)"):
        Table().to_dict()


def test_a_registry_finds_by_name_and_suggests_what_is_near() -> None:
    fruit: Registry[str] = Registry("fruit")
    fruit.register("pear")("a pear")
    fruit.register("apple")("an apple")
    assert list(fruit) == ["apple", "pear"]
    assert fruit["pear"] == "a pear" and "pear" in fruit and "plum" not in fruit
    assert fruit.items() == [("apple", "an apple"), ("pear", "a pear")]
    with pytest.raises(UnknownNameError, match=r"Unknown fruit 'aple'. Known: 'apple', 'pear'. Did you mean 'apple'\?"):
        fruit["aple"]
    with pytest.raises(UnknownNameError, match=r"Unknown fruit \[\]"):
        fruit[[]]  # type: ignore[index]


@pytest.mark.parametrize(
    ("raised", "seen"),
    [
        (ValueError("v"), InvalidInputError),
        (TypeError("t"), InvalidTypeError),
        (InvalidInputError("i"), InvalidInputError),
    ],
)
def test_errors_of_others_get_their_place_in_the_tree(raised: Exception, seen: type[Exception]) -> None:
    with pytest.raises(seen, match=str(raised)) as caught, as_input_errors():
        raise raised
    assert isinstance(caught.value, OddsmithError)
    with pytest.raises(KeyError), as_input_errors():
        raise KeyError("not ours")


def test_a_block_is_checked_when_it_is_made() -> None:
    t = np.zeros(2, dtype=np.int32)
    block = Block(np.eye(2), t)
    assert block.weights().tolist() == [1.0, 1.0] and not block.is_sparse
    with pytest.raises(InvalidInputError, match="2 rows came with 3 entries in 's'"):
        Block(np.eye(2), t, np.ones(3))
    with pytest.raises(AttributeError):
        block.t = t  # type: ignore[misc]
