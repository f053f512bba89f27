"""Many levels of text, counted in Arrow: the design, the rows and the errors of few levels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oddsmith import Design, Fit, LogisticRegression
from oddsmith.design import frame
from oddsmith.design.frame import TextLevels, code
from oddsmith.errors import InvalidInputError
from oddsmith.persistence.codec import decode, encode

pytestmark = pytest.mark.filterwarnings("ignore::oddsmith.errors.LevelsWarning")
N, LEVELS = 6000, 1500


def rows() -> pa.Table:
    rng = np.random.default_rng(0)
    group = rng.integers(0, LEVELS, N)
    texts = [None if k % 97 == 0 else f"ĝ {k}" for k in group.tolist()]
    return pa.table({"group": texts, "x": rng.normal(size=N), "y": rng.random(N) < 0.4})


def forms(table: pa.Table) -> dict[str, pa.Table]:
    coded = table.set_column(0, "group", table["group"].dictionary_encode())
    large = table.set_column(0, "group", table["group"].cast(pa.large_string()))
    return {"text": table, "large text": large, "dictionary": coded}


@pytest.mark.parametrize("form", ["text", "large text", "dictionary"])
@pytest.mark.parametrize("how", [{"missing": "indicator"}, {"missing": "drop", "reference": "most frequent"}])
def test_pieces_of_many_levels_make_the_design_of_few(
    form: str, how: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, s = forms(rows())[form].select(["group", "x"]), np.arange(N) % 3 + 1.0
    design = Design(**how)
    parts = [design.look(table[a : a + 2000], s[a : a + 2000], check=False) for a in range(0, N, 2000)]
    assert parts[0].seen["group", True].texts is not None
    design.settle(parts[0].merge(parts[1]).merge(parts[2]))
    once = Design(**how).fit(table, sample_weight=s)
    monkeypatch.setattr(frame, "MANY_TEXTS", 10**9)
    few = Design(**how).fit(table, sample_weight=s)
    assert design.is_like(few) and once.is_like(few)
    kept = slice(None) if how["missing"] == "indicator" else np.flatnonzero(table["group"].is_valid())
    used = table.take(np.arange(N)[kept])
    expected = few.transform(used)
    monkeypatch.setattr(frame, "MANY_TEXTS", 1000)
    np.testing.assert_array_equal(design.transform(used).toarray(), expected.toarray())


def test_a_summary_of_many_levels_goes_through_a_file() -> None:
    schema = Design().look(rows().drop_null().select(["group"]))
    again = decode(*encode(schema))
    merged = again.merge(schema).seen["group", True].settled()
    one = schema.seen["group", True].settled()
    assert merged.levels == one.levels and (merged.weight == 2 * one.weight).all()


def test_a_dictionary_that_has_a_level_twice_is_read_once() -> None:
    texts = pa.array([*(f"g{k}" for k in range(LEVELS)), "g0"])
    found = code(pa.DictionaryArray.from_arrays(pa.array([0, LEVELS, 1], pa.int32()), texts))
    assert not isinstance(found.levels, TextLevels) and found.codes.tolist() == [0, 0, 1]


def test_a_site_tells_no_level_that_its_rows_do_not_have() -> None:
    texts = pa.array([f"g{k}" for k in range(LEVELS)])
    group = pa.DictionaryArray.from_arrays(pa.array([0, 5, 0, 5], pa.int32()), texts)
    request = Fit.start(LogisticRegression(1.0), ["group"], y="y").request
    answer = request.statistic(pa.table({"group": group, "y": [0, 1, 1, 0]}), site="a")
    (summary,) = answer.statistic.schema.seen.values()
    assert summary.texts["level"].to_pylist() == ["g0", "g5"] and b"g7" not in answer.to_bytes()


def test_an_unseen_level_among_many_is_named() -> None:
    table = rows().drop_null().select(["group"])
    design = Design().fit(table)
    new = pa.table({"group": [*table["group"].to_pylist()[:3000], "never seen"]})
    with pytest.raises(InvalidInputError, match="'never seen', the first in row 3000"):
        design.transform(new)


def test_sites_and_journals_carry_many_levels(tmp_path: Path) -> None:
    table = rows().drop_null()
    expected = LogisticRegression(1.0, tol=1e-12).fit(table, "y")
    state = Fit.start(LogisticRegression(1.0, tol=1e-12), ["group", "x"], y="y")
    while not state.done:
        state = Fit.step(state, [state.request.statistic(table[k::2], site=f"site {k}") for k in range(2)])
    path = str(tmp_path / "rows.parquet")
    pq.write_table(table, path, row_group_size=2000)
    resumed = LogisticRegression(1.0, tol=1e-12).fit(path, "y", resume=tmp_path / "journal")
    for model in (state.model, resumed):
        np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-7)
