"""Whatever bytes a file holds and whatever words an option holds: a table or a value, or an error of ours."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import csv, parquet

from oddsmith.cli import files
from oddsmith.cli.model_spec import ModelSpec, read_basis, read_loss, read_prior, read_reject, split_list
from oddsmith.cli.output import visible
from oddsmith.data import load_dataset
from oddsmith.data_access.table_writer import plain
from oddsmith.errors import OddsmithError

SAME_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

lines = st.text(st.sampled_from('ab1.,;\t|"\n\r{}[]:ntrue \x00é'), max_size=80).map(str.encode)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "arrow"])
@SAME_FOLDER
@given(
    content=st.one_of(lines, st.binary(max_size=60), st.binary(max_size=20).map(lambda tail: b"PAR1" + tail + b"PAR1"))
)
def test_any_bytes_are_a_table_or_an_error(kind: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(content)
    for file in (str(path), content):
        for types in (None, {"a": pa.float64(), "b": None}):
            with suppress(OddsmithError):
                assert isinstance(files.read_table(file, kind, "data", types), pa.Table)
            with suppress(OddsmithError):
                assert all(isinstance(batch, pa.Table) for batch in files.batches(file, kind, "data", types))


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow"])
@SAME_FOLDER
@given(data=st.data())
def test_a_damaged_table_is_a_table_or_an_error(kind: str, data: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    table = load_dataset("iris").slice(0, 20)
    if kind == "csv":
        csv.write_csv(table, path)
    elif kind == "parquet":
        parquet.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    content = bytearray(Path(path).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    Path(path).write_bytes(bytes(content[: data.draw(st.integers(1, len(content)))]))
    with suppress(OddsmithError):
        assert isinstance(files.read_table(path, kind, "data"), pa.Table)


words = st.one_of(st.text(max_size=40), st.text(st.sampled_from("fgaussianpolymc(),='\"[]{}1.-* "), max_size=40))


@pytest.mark.parametrize(
    "read",
    [
        read_basis,
        read_prior,
        lambda text: ModelSpec(model=text).build(),
        lambda text: read_loss(text, ["a", "b"]),
        lambda text: read_reject(text, ["a", "b"]),
    ],
    ids=["basis", "prior", "model", "loss", "reject"],
)
@given(text=words)
def test_any_words_are_a_value_or_an_error(read: Any, text: str) -> None:
    with suppress(OddsmithError):
        read(text)


@given(words)
def test_a_list_holds_what_it_was_split_from(text: str) -> None:
    assert "".join(",".join(split_list(text)).split()) == "".join(text.split())


@given(st.text())
def test_what_is_shown_moves_no_cursor(text: str) -> None:
    assert visible(text).isprintable()


@given(
    st.recursive(st.none() | st.floats() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.tuples(inner))
)
def test_any_result_is_json(value: Any) -> None:
    import json

    json.dumps(plain({"result": value}), allow_nan=False)
