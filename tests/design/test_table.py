"""`Design` turns tables into numbers: held against a row-by-row encoding, and the same from every library."""

import pickle
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

from oddsmith import Design, LogisticRegression
from oddsmith.design import terms
from oddsmith.design.frame import read_frame
from oddsmith.design.levels import summarise_column
from oddsmith.errors import (
    CollinearityWarning,
    FormatWarning,
    InvalidInputError,
    LevelsWarning,
    NotFittedError,
    OddsmithError,
)

LIBRARIES = ("pandas", "pandas of Arrow", "pandas nullable", "polars", "arrow")


def in_library(table: polars.DataFrame, library: str) -> Any:
    if library.startswith("pandas "):
        backend = "pyarrow" if library.endswith("Arrow") else "numpy_nullable"
        return table.to_pandas(use_pyarrow_extension_array=True).convert_dtypes(dtype_backend=backend)
    return {"pandas": table.to_pandas, "polars": table.clone, "arrow": table.to_arrow}[library]()


def dense(rows: Any) -> np.ndarray:
    return rows.toarray() if sparse.issparse(rows) else rows


def mixed(n: int = 60, seed: int = 0) -> polars.DataFrame:
    """Columns of every kind, none missing."""
    rng = np.random.default_rng(seed)
    days = rng.integers(-5000, 20000, n).tolist()
    return polars.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "weight": rng.normal(70.0, 10.0, n),
            "race": rng.choice(["white", "black", "other", "ü"], n),
            "smoke": rng.random(n) < 0.4,
            "born": [date(1970, 1, 1) + timedelta(days=d) for d in days],
            "seen": [datetime(2000, 1, 1) + timedelta(seconds=17 * d, microseconds=d) for d in days],
            "price": polars.Series([Decimal(d).scaleb(-3) for d in days], dtype=polars.Decimal(20, 3)),
            "size": polars.Series(
                rng.choice(["small", "large", "medium"], n), dtype=polars.Enum(["small", "medium", "large"])
            ),
        }
    )


# ------------------------------------------------------------------------------------- the same everywhere


def in_three(table: polars.DataFrame) -> dict[str, Any]:
    """The table in each library, categories and decimals in the types that a user of it has."""
    frame = table.to_pandas()
    frame["size"] = pandas.Categorical(table["size"].to_list(), categories=["small", "medium", "large"], ordered=True)
    frame["price"] = pandas.Series(table["price"].to_list(), dtype=object)
    frame["race"] = frame["race"].astype("category")
    frame["seen"] = frame["seen"].astype("datetime64[ns]")
    frame["born"] = pandas.Series(table["born"].to_list(), dtype=object)
    arrow = table.to_arrow()
    size = pyarrow.DictionaryArray.from_arrays(
        pyarrow.array([["small", "medium", "large"].index(v) for v in table["size"]]),
        ["small", "medium", "large"],
        ordered=True,
    )
    arrow = arrow.set_column(arrow.column_names.index("size"), "size", size)
    arrow = arrow.set_column(2, "race", pyarrow.array(table["race"].to_list()).dictionary_encode())
    return {"pandas": frame, "polars": table, "arrow": arrow}


@pytest.mark.parametrize(
    "formula", [None, "race * smoke + log(price + 1000) + spline(weight):size + scale(born) + seen"]
)
def test_every_library_gives_the_same_bits(formula: str | None) -> None:
    made = []
    for table in in_three(mixed()).values():
        design = Design(formula).fit(table)
        made.append((design.get_feature_names_out().tolist(), dense(design.transform(table))))
    for names, rows in made[1:]:
        assert names == made[0][0]
        assert np.array_equal(rows, made[0][1])


def test_one_csv_through_every_reader_gives_the_same_weights(tmp_path: Any) -> None:
    from pyarrow import csv

    file = tmp_path / "table.csv"
    chosen = mixed(200).select("race", "smoke", "age", polars.col("weight").round(2), "born")
    chosen.with_columns(low=np.arange(200) % 3 == 0).write_csv(file)
    tables = [polars.read_csv(file, try_parse_dates=True), csv.read_csv(file)]
    frame = pandas.read_csv(file, parse_dates=["born"])
    tables += [frame, frame.astype({"race": "category"})]
    models = [LogisticRegression().fit(table, "low") for table in tables]
    for model in models[1:]:
        assert np.array_equal(model.coef_, models[0].coef_) and model.intercept_ == models[0].intercept_
        assert model._names().tolist() == models[0]._names().tolist()


def test_kinds_and_names_of_the_columns() -> None:
    table = mixed()
    design = Design().fit(table)
    assert design.kinds_ == {
        **{"age": "number", "weight": "number", "race": "category", "smoke": "boolean", "born": "date", "seen": "date"},
        **{"price": "number", "size": "category"},
    }
    names = design.get_feature_names_out().tolist()
    assert names[2:5] == ["race[other]", "race[white]", "race[ü]"]
    assert names[-2:] == ["size[medium]", "size[large]"], "an enumeration has an order of its own"
    rows = design.transform(table)
    assert np.array_equal(rows[:, names.index("born")], [(d - date(1970, 1, 1)).days for d in table["born"]])
    seconds = [(t - datetime(1970, 1, 1)) / timedelta(days=1) for t in table["seen"]]
    np.testing.assert_allclose(rows[:, names.index("seen")], seconds, rtol=1e-15)
    assert np.array_equal(rows[:, names.index("price")], [float(p) for p in table["price"]])


def test_times_have_the_same_bits_in_every_unit_and_zone() -> None:
    text = ["2024-02-29 13:14:15", "1931-07-01 00:00:01", "1970-01-01 00:00:00"]
    found = []
    for unit in ("s", "ms", "us", "ns"):
        times = pandas.Series(pandas.to_datetime(text)).astype(f"datetime64[{unit}]")
        for column in (times, times.dt.tz_localize("UTC"), times.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")):
            found.append(read_frame(pandas.DataFrame({"t": column})).numbers("t").tolist())
    assert all(days == found[0] for days in found) and found[0][2] == 0.0


@given(st.lists(st.decimals(-(10**9), 10**9, places=4, allow_nan=False), min_size=1, max_size=20))
def test_decimals_become_the_nearest_floats(values: list[Decimal]) -> None:
    column = pyarrow.array(values, pyarrow.decimal128(20, 4))
    for table in (
        pyarrow.table({"x": column}),
        polars.DataFrame({"x": polars.Series(values, dtype=polars.Decimal(20, 4))}),
        pandas.DataFrame({"x": pandas.Series(values, dtype=object)}),
    ):
        assert read_frame(table).numbers("x").tolist() == [float(value) for value in values]


# ------------------------------------------------------------------------------- against a row-by-row encoding

CELLS = {
    "number": st.one_of(st.none(), st.integers(-3, 3)),
    "boolean": st.one_of(st.none(), st.booleans()),
    "category": st.one_of(st.none(), st.sampled_from(["a", "b", "c", "d"])),
}
DTYPES = {"number": polars.Int64, "boolean": polars.Boolean, "category": polars.String}


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[dict[str, Any]], dict[str, str]]:
    kinds = {name: draw(st.sampled_from(sorted(CELLS))) for name in ("u", "v", "w")[: draw(st.integers(1, 3))]}
    rows = draw(
        st.lists(st.fixed_dictionaries({name: CELLS[kind] for name, kind in kinds.items()}), min_size=1, max_size=12)
    )
    return rows, kinds


def encode_row_by_row(
    training: list[dict[str, Any]], rows: list[dict[str, Any]], kinds: dict[str, str], missing: str, reference: Any
) -> tuple[list[str], list[list[float]]] | None:
    """The design in plain Python, None where one must be refused."""
    if missing == "drop":
        training = [row for row in training if None not in row.values()]
        if any(None in row.values() for row in rows):
            return None
    names: list[str] = []
    columns: list[list[float]] = []
    for name, kind in kinds.items():
        known = [row[name] for row in training if row[name] is not None]
        gaps = any(row[name] is None for row in training)
        if not known or (gaps and missing == "error"):
            return None
        if any(row[name] is None for row in rows) and not (gaps and missing == "indicator"):
            return None
        if kind == "category":
            levels = sorted(set(known))
            base = max(levels, key=known.count) if reference == "most frequent" else levels[0]
            for level in [*(level for level in levels if level != base), *([None] if gaps else [])]:
                names.append(f"{name}[{'missing' if level is None else level}]")
                columns.append([float(row[name] == level) for row in rows])
            if not {row[name] for row in rows if row[name] is not None} <= set(levels):
                return None
        else:
            fill = sum(known) / len(known)
            names.append(name)
            columns.append([float(fill if row[name] is None else row[name]) for row in rows])
            if gaps and missing == "indicator":
                names.append(f"{name}[missing]")
                columns.append([float(row[name] is None) for row in rows])
    return (names, np.array(columns).T.tolist()) if names else None


@pytest.mark.filterwarnings("ignore::oddsmith.errors.CollinearityWarning")
@pytest.mark.parametrize("missing", ["error", "drop", "indicator"])
@given(data=st.data(), reference=st.sampled_from([None, "most frequent"]), library=st.sampled_from(LIBRARIES))
def test_columns_are_those_of_an_encoding_row_by_row(
    missing: str, data: st.DataObject, reference: Any, library: str
) -> None:
    training, kinds = data.draw(cases())
    rows = data.draw(st.lists(st.sampled_from(training), min_size=1, max_size=5))
    schema = {name: DTYPES[kind] for name, kind in kinds.items()}
    expected = encode_row_by_row(training, rows, kinds, missing, reference)
    design = Design(missing=missing, reference=reference)
    seen, later = (in_library(polars.DataFrame(part, schema=schema), library) for part in (training, rows))
    if expected is None:
        with pytest.raises(OddsmithError):
            design.fit(seen).transform(later)
        return
    found = design.fit(seen).transform(later)
    assert design.get_feature_names_out().tolist() == expected[0]
    np.testing.assert_allclose(dense(found), expected[1], rtol=1e-14, atol=1e-15)


@given(data=st.data())
def test_csr_and_array_hold_the_same_numbers(data: st.DataObject) -> None:
    table = mixed(30, seed=data.draw(st.integers(0, 99)))
    formula = data.draw(
        st.sampled_from([None, "race * size * smoke + spline(weight):race", "C(age) + poly(weight, 2) * race"])
    )
    design = Design(formula).fit(table)
    frame = read_frame(table, design.feature_names_in_)
    design.sparse_ = False
    plain = design._encode(frame)
    design.sparse_ = True
    csr = design._encode(frame)
    assert sparse.issparse(csr) and csr.has_sorted_indices and (csr.data != 0).all()
    assert np.array_equal(csr.toarray(), plain)


def test_blocks_of_rows_leave_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    table = mixed(100)
    for formula in (None, "C(age) + race * weight"):
        design = Design(formula).fit(table)
        whole = dense(design.transform(table))
        monkeypatch.setattr(terms, "BLOCK_ROWS", 7)
        assert np.array_equal(dense(design.transform(table)), whole)
        monkeypatch.undo()


def test_many_levels_are_never_made_dense() -> None:
    n = 20_000
    table = polars.DataFrame({"id": [f"user {i % 5000}" for i in range(n)], "x": np.ones(n)})
    design = Design()
    with pytest.warns(LevelsWarning, match="'id' has 5,000 levels"):
        rows, _ = design.learn(table)
    assert design.sparse_ and rows.shape == (n, 5000)
    assert rows.nnz == 2 * n - 4, "all but the reference, and the numbers"
    assert Design().fit(table.with_columns(id=polars.Series([f"{i % 20}" for i in range(n)]))).sparse_ is False
    assert Design().fit(table.with_columns(id=polars.Series([f"{i % 21}" for i in range(n)]))).sparse_ is True


# --------------------------------------------------------------------------------------------- learning


@given(data=st.data())
@pytest.mark.filterwarnings("ignore::oddsmith.errors.CollinearityWarning")
def test_what_is_seen_merges_like_a_statistic(data: st.DataObject) -> None:
    rows, kinds = data.draw(cases())
    schema = {name: DTYPES[kind] for name, kind in kinds.items()}
    s = np.array(data.draw(st.lists(st.sampled_from([0.0, 1.0, 2.0, 0.5]), min_size=len(rows), max_size=len(rows))))
    i, j = sorted(data.draw(st.lists(st.integers(0, len(rows)), min_size=2, max_size=2)))
    table = polars.DataFrame(rows, schema=schema)
    for name, kind in kinds.items():
        levels = kind == "category"
        whole = summarise_column(read_frame(table), name, s, levels=levels)
        a, b, c = (
            summarise_column(read_frame(table[r]), name, s[r], levels=levels)
            for r in (slice(0, i), slice(i, j), slice(j, None))
        )
        for merged in (a.merge(b).merge(c), a.merge(b.merge(c)), c.merge(a).merge(b)):
            assert (merged.kind, merged.levels) == (whole.kind, whole.levels)
            np.testing.assert_allclose(merged.weight, whole.weight)
            found, expected = ((m.observed, m.missing, m.mean) for m in (merged, whole))
            np.testing.assert_allclose(found, expected, atol=1e-12)
        twice = np.repeat(np.arange(len(rows)), 2)
        doubled, repeated = (
            summarise_column(read_frame(table), name, 2 * s, levels=levels),
            summarise_column(read_frame(table[twice]), name, s[twice], levels=levels),
        )
        assert doubled.levels == repeated.levels and np.array_equal(doubled.weight, repeated.weight)


@pytest.mark.parametrize("missing", ["error", "drop", "indicator"])
@pytest.mark.parametrize("formula", [None, "age * race + C(smoke) + born:size + log(weight)"])
def test_part_after_part_is_learned_as_all_at_once(missing: str, formula: str | None) -> None:
    table = mixed(90)
    if missing != "error":
        holes = np.arange(90) % 11 == 0
        table = table.with_columns(
            age=polars.when(holes).then(None).otherwise(table["age"]),
            race=polars.when(holes[::-1]).then(None).otherwise(table["race"]),
        )
    whole, parts = Design(formula, missing=missing).fit(table), Design(formula, missing=missing)
    for start in range(0, 90, 13):
        parts.partial_fit(table[start : start + 13])
    assert parts.get_feature_names_out().tolist() == whole.get_feature_names_out().tolist()
    complete = table.drop_nulls()
    np.testing.assert_allclose(dense(parts.transform(complete)), dense(whole.transform(complete)), rtol=1e-14)
    assert parts.fills_.keys() == whole.fills_.keys()


def test_a_part_without_values_has_any_kind() -> None:
    empty, words = polars.DataFrame({"x": [None, None], "z": [1, 2]}), polars.DataFrame({"x": ["a", "b"], "z": [3, 4]})
    for parts in ([empty, words], [words, empty]):
        design = Design(missing="indicator").partial_fit(parts[0]).partial_fit(parts[1])
        assert design.get_feature_names_out().tolist() == ["x[b]", "x[missing]", "z"]
    with pytest.raises(
        OddsmithError, match="Column 'x' holds categories in one part of the table and numbers in another"
    ):
        Design(missing="indicator").partial_fit(words).partial_fit(polars.DataFrame({"x": [1], "z": [1]}))
    with pytest.raises(InvalidInputError, match=r"scale\(z\) .* learned from all rows at once"):
        Design("scale(z)").partial_fit(words)


def test_levels_of_rows_without_weight_are_not_there() -> None:
    table = polars.DataFrame({"x": ["a", "b", "c", "b"]})
    design = Design(reference="most frequent")
    rows, _ = design.learn(table, [1.0, 1.0, 0.0, 0.5])
    assert design.get_feature_names_out().tolist() == ["x[a]"] and rows.tolist() == [[1.0], [0.0], [0.0], [0.0]]
    with pytest.raises(InvalidInputError, match="levels that did not occur in the fit: 'c', the first in row 2"):
        design.transform(table)


def test_clones_and_pickles_and_what_a_failed_fit_leaves() -> None:
    table = mixed()
    design = Design("race * spline(weight) + poly(age, 2) + center(born)", unseen="reference").fit(table)
    again = pickle.loads(pickle.dumps(design))
    assert np.array_equal(again.transform(table), design.transform(table)) and again.is_like(design)
    fresh = clone(design)
    assert fresh.get_params() == design.get_params()
    with pytest.raises(NotFittedError, match="Design instance is not fitted"):
        fresh.transform(table)
    names = design.get_feature_names_out().tolist()
    for broken in (table.drop("weight"), table[:0], table.with_columns(weight=polars.lit(None, polars.Float64))):
        with pytest.raises(OddsmithError):
            design.fit(broken)
        assert design.get_feature_names_out().tolist() == names
        with pytest.raises(OddsmithError):
            fresh.fit(broken)
        assert vars(fresh) == vars(clone(design))
    assert not design.is_like(Design("race * spline(weight) + poly(age, 2) + center(born)").fit(mixed(seed=1)))


# ------------------------------------------------------------------------------------------ later tables


def test_order_does_not_matter_and_other_columns_are_ignored() -> None:
    table = mixed()
    design = Design().fit(table)
    shuffled = table.select([*reversed(table.columns), polars.lit("?").alias("new")])
    assert np.array_equal(design.transform(shuffled), design.transform(table))


def test_a_missing_or_wrongly_typed_column_is_an_error_with_its_name() -> None:
    table = mixed()
    design = Design().fit(table)
    for name, kind in design.kinds_.items():
        with pytest.raises(InvalidInputError, match=f"Column '{name}' is missing from the table"):
            design.transform(table.drop(name))
        other = polars.lit(1) if kind != "number" else polars.lit("1")
        with pytest.raises(OddsmithError, match=f"Column '{name}' holds .*; in the fit it held"):
            design.transform(table.with_columns(other.alias(name)))
        with pytest.raises(InvalidInputError, match=f"Column '{name}' has 60 missing values"):
            design.transform(table.with_columns(polars.lit(None).alias(name)))


def test_unseen_levels_by_policy() -> None:
    known, new = (
        pandas.DataFrame({"x": pandas.Categorical(x, categories=list("abcz"))}) for x in (list("abc"), list("zb"))
    )
    with pytest.raises(
        InvalidInputError,
        match=r"Column 'x' has levels .*: 'z', the first in row 0\. The known levels are 'a', 'b', 'c'",
    ):
        Design().fit(known).transform(new)
    design = Design(unseen="reference", reference={"x": "b"}).fit(known)
    assert design.transform(new).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert design.transform(known).tolist() == [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]], (
        "a level that no row has is no level"
    )


# ------------------------------------------------------------------------------------------- odd columns


def ordered(values: list[Any], levels: list[Any]) -> pandas.DataFrame:
    return pandas.DataFrame({"x": pandas.Categorical(values, categories=levels, ordered=True)})


ODD: dict[str, tuple[Any, list[str]]] = {
    "unused levels": (pandas.DataFrame({"x": pandas.Categorical(["b", "a"], categories=["z", "b", "a"])}), ["x[b]"]),
    "ordered": (ordered(["b", "a"], ["z", "b", "a"]), ["x[a]"]),
    "enumeration": (polars.DataFrame({"x": polars.Series(["b", "a"], dtype=polars.Enum(["z", "b", "a"]))}), ["x[a]"]),
    "categorical": (polars.DataFrame({"x": polars.Series(["b", "a"], dtype=polars.Categorical)}), ["x[b]"]),
    "dictionary": (pyarrow.table({"x": pyarrow.array(["b", "a"]).dictionary_encode()}), ["x[b]"]),
    "whole numbers as levels": (pandas.DataFrame({"x": pandas.Categorical([10, 9])}), ["x[10]"]),
    "intervals": (pandas.DataFrame({"x": pandas.cut([1, 2, 9], [0, 5, 10])}), ["x[(5, 10]]"]),
    "categories of dates": (
        pandas.DataFrame({"x": pandas.Categorical(pandas.to_datetime(["2020-01-02", "2020-01-01"]))}),
        ["x[2020-01-02 00:00:00]"],
    ),
    "numbers in a sparse array": (pandas.DataFrame({"x": pandas.arrays.SparseArray([0.0, 1.0])}), ["x"]),
    "objects of words": (pandas.DataFrame({"x": pandas.Series(["b", "a"], dtype=object)}), ["x[b]"]),
    "objects of numbers": (pandas.DataFrame({"x": pandas.Series([1, 2.5], dtype=object)}), ["x"]),
    "objects of dates": (pandas.DataFrame({"x": pandas.Series([date(2000, 1, 1)] * 2, dtype=object)}), ["x"]),
    "names that are numbers": (pandas.DataFrame({7: ["b", "a"]}), ["7[b]"]),
    "names that are code": (
        polars.DataFrame({"'); DROP TABLE x;--": [1, 2], "{0}%s": ["$(rm)", "`"]}),
        ["'); DROP TABLE x;--", "{0}%s[`]"],
    ),
}


@pytest.mark.parametrize("what", ODD)
def test_odd_columns_give_sensible_names(what: str) -> None:
    table, names = ODD[what]
    assert Design().fit(table).get_feature_names_out().tolist() == names


def test_booleans_with_missing_values() -> None:
    values = [True, None, False, True]
    for table in (
        polars.DataFrame({"b": values}),
        pyarrow.table({"b": values}),
        pandas.DataFrame({"b": pandas.array(values, dtype="boolean")}),
        pandas.DataFrame({"b": pandas.Series(values, dtype=object)}),
    ):
        rows = Design(missing="indicator").fit(table).transform(table)
        np.testing.assert_allclose(rows, [[1.0, 0.0], [2 / 3, 1.0], [0.0, 0.0], [1.0, 0.0]])


def test_a_dictionary_may_hold_nulls_and_levels_twice() -> None:
    odd = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, 1, 2, 3, None]), pyarrow.array(["b", "a", "b", None]))
    design = Design(missing="indicator").fit(pyarrow.table({"x": odd}))
    assert design.get_feature_names_out().tolist() == ["x[b]", "x[missing]"]
    assert design.transform(pyarrow.table({"x": odd})).tolist() == [
        [1.0, 0.0],
        [0.0, 0.0],
        [1.0, 0.0],
        [0.0, 1.0],
        [0.0, 1.0],
    ]


REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "text and numbers": (
        pandas.DataFrame({"x": pandas.Series(["a", 1], dtype=object)}),
        {},
        "Column 'x' holds values of different types",
    ),
    "truth and numbers": (
        pandas.DataFrame({"x": pandas.Series([True, 2], dtype=object)}),
        {},
        "Column 'x' holds values of different types",
    ),
    "nothing": (
        polars.DataFrame({"x": [None, None], "z": [1, 2]}),
        {"missing": "indicator"},
        "Column 'x' is missing in every row",
    ),
    "no words": (
        polars.DataFrame({"x": [None, None]}, schema={"x": polars.String}),
        {"missing": "indicator"},
        "Column 'x' is missing in",
    ),
    "nothing, dropped": (
        polars.DataFrame({"x": [None, None], "z": [1, 2]}),
        {"missing": "drop"},
        "Column 'x' is missing in every row",
    ),
    "no complete row": (
        polars.DataFrame({"x": [None, 1], "z": [1, None]}),
        {"missing": "drop"},
        "Every row has a missing value",
    ),
    "lists": (polars.DataFrame({"x": [[1], [2]]}), {}, "Column 'x' is of type large_list"),
    "durations": (polars.DataFrame({"x": [timedelta(1)]}), {}, "Column 'x' is of type duration"),
    "complex numbers": (pandas.DataFrame({"x": [1j]}), {}, "Column 'x' is of type"),
    "bytes": (pyarrow.table({"x": [b"a"]}), {}, "Column 'x' is of type binary"),
    "infinity": (polars.DataFrame({"x": [1.0, np.inf]}), {}, "Column 'x' has infinite values .*, the first in row 1"),
    "no rows": (polars.DataFrame({"x": []}), {}, "0 rows"),
    "no columns": (polars.DataFrame(), {}, "no columns|0 rows"),
    "an array": (np.eye(2), {}, "reads tables with named columns"),
    "one level and nothing else": (
        polars.DataFrame({"x": ["a", "a"]}),
        {},
        "no columns: every category holds one level",
    ),
    "names that meet": (polars.DataFrame({"x": ["a", "b"], "x[b]": [1, 2]}), {}, r"Two columns .* called 'x\[b\]'"),
    "a level called missing": (
        polars.DataFrame({"x": ["missing", None]}),
        {"missing": "indicator"},
        "Column 'x' has the level 'missing'",
    ),
    "an unknown policy": (polars.DataFrame({"x": [1]}), {"missing": "omit"}, "Unknown missing 'omit'"),
    "an unknown policy for levels": (polars.DataFrame({"x": [1]}), {"unseen": "new"}, "Unknown unseen 'new'"),
    "an unknown reference": (
        polars.DataFrame({"x": ["a", "b"]}),
        {"reference": {"x": "z"}},
        "Unknown reference level of column 'x' 'z'",
    ),
    "a reference of numbers": (
        polars.DataFrame({"x": [1, 2]}),
        {"reference": {"x": 1}},
        "Unknown column of categories in reference 'x'",
    ),
    "a reference that is none": (polars.DataFrame({"x": ["a", "b"]}), {"reference": "a"}, "reference must be None"),
}


@pytest.mark.filterwarnings("ignore::oddsmith.errors.CollinearityWarning")
@pytest.mark.parametrize("what", REFUSED)
def test_bad_columns_are_refused_by_name(what: str) -> None:
    table, options, match = REFUSED[what]
    with pytest.raises(OddsmithError, match=match):
        Design(**options).fit(table).transform(table)


def test_a_column_of_one_level_is_named_in_a_warning_at_the_caller() -> None:
    table = polars.DataFrame({"x": ["a", "a"], "z": [1, 2]})
    with pytest.warns(CollinearityWarning, match="Column 'x' holds one level only, 'a'") as caught:
        design = Design().fit(table)
    assert caught[0].filename == __file__ and design.get_feature_names_out().tolist() == ["z"]
    with pytest.raises(InvalidInputError, match="did not occur in the fit: 'b'"):
        design.transform(polars.DataFrame({"x": ["b"], "z": [1]}))


def test_text_formats_are_recognised_beside_labels_in_an_array() -> None:
    from oddsmith.design.text_columns import recognise

    table = polars.DataFrame({"price": [f"${i}.50" for i in range(30)]})
    with pytest.warns(FormatWarning, match="'price' as money"):
        read, formats = recognise(table, np.arange(30) > 9)
    assert read["price"].to_list() == [i + 0.5 for i in range(30)] and list(formats) == ["price"]
