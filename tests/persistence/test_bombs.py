"""Crafted files: what is loaded takes no more memory and time than the file explains."""

import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import oddsmith
from oddsmith.errors import ModelFileError
from oddsmith.persistence import codec
from oddsmith.persistence.arrow_tables import _stream, pack_table, unpack_table
from oddsmith.persistence.file import MOST_CONTAINERS, pack, unpack, write
from oddsmith.persistence.model_file import register_types
from oddsmith.persistence.sealed_bytes import unseal

register_types()


def refused(node: Any, tensors: dict[str, Any] | None = None, most: int = 1 << 26) -> str:
    """Decode a node, and return the sentence with which it is refused; neither memory nor time may be out of bounds."""
    began = time.perf_counter()
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError) as caught:
            codec.decode(node, tensors or {})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < most
    assert time.perf_counter() - began < 10.0
    return str(caught.value)


def shape(inside: Any, number: int) -> dict[str, Any]:
    """A registered, frozen, hashable record that holds something twice."""
    return {"type": "Shape", "fields": {"M": inside, "K": inside}, "number": number}


def test_parts_that_are_shared_again_and_again_end() -> None:
    # Each record holds the one before it twice: 2^60 paths, in 4 kB, to whoever hashes the last one.
    chain: list[Any] = [shape(0, 1)]
    chain += [shape({"same": k}, k + 1) for k in range(1, 60)]
    text = refused({"tuple": [*chain, {"set": [{"same": 60}]}]})
    assert "shared ones counted as often as they are met" in text


def test_a_long_chain_of_shared_parts_is_too_deep() -> None:
    chain: list[Any] = [{"type": "Shape", "fields": {"M": 0, "K": 0}, "number": 1}]
    chain += [{"type": "Shape", "fields": {"M": {"same": k}, "K": 0}, "number": k + 1} for k in range(1, 400)]
    assert "nested too deeply" in refused({"tuple": chain})


def test_parts_that_are_shared_a_few_times_load_as_before() -> None:
    chain = [shape(0, 1), *(shape({"same": k}, k + 1) for k in range(1, 10))]
    loaded = codec.decode({"tuple": chain}, {})
    assert loaded[9].M is loaded[9].K is loaded[8]


def test_long_bytes_named_many_times_are_in_memory_once() -> None:
    data = np.zeros(70_000, dtype=np.uint8)
    tracemalloc.start()
    loaded = codec.decode([{"long bytes": "b"}] * 30_000, {"b": data})  # 2.1 GB, if each were a copy
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(loaded) == 30_000 and loaded[0] is loaded[-1] and peak < 1 << 24


def test_tables_that_promise_much_more_than_their_bytes_are_refused() -> None:
    bomb = np.frombuffer(_stream(pa.table({"a": np.zeros(4_000_000)}), "zstd"), dtype=np.uint8)
    assert len(bomb) < 20_000
    before = pa.total_allocated_bytes()
    with pytest.raises(ModelFileError, match="would take more than"):
        unpack_table(bomb)
    assert pa.total_allocated_bytes() - before < 1 << 20
    words = pa.table({"w": pa.array(["a" * 900] * 40_000).dictionary_encode(), "v": ["b" * 900] * 40_000})
    with pytest.raises(ModelFileError, match="would take more than"):
        unpack_table(np.frombuffer(_stream(words, "zstd"), dtype=np.uint8))


@pytest.mark.parametrize("rows", [0, 10, 400_000])
def test_honest_tables_come_back_even_if_they_compress_well(rows: int) -> None:
    table = pa.table({"zero": np.zeros(rows), "word": ["x"] * rows, "n": pa.nulls(rows, pa.int32())})
    assert unpack_table(pack_table(table)).equals(table)


def test_headers_of_many_lists_are_refused_before_they_are_parsed(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="too many for a model file"):
        pack({"schema": 1, "model": [[]] * MOST_CONTAINERS}, {})
    header = json.dumps({"__metadata__": {"oddsmith": "[" * (MOST_CONTAINERS + 1)}}).encode()
    tracemalloc.start()
    with pytest.raises(ModelFileError, match="lists and objects"):
        unpack(len(header).to_bytes(8, "little") + header)
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


def test_crafted_model_file_is_refused_by_load(tmp_path: Path) -> None:
    chain = [shape(0, 1), *(shape({"same": k}, k + 1) for k in range(1, 60))]
    node = {"type": "LogisticRegression", "fields": {"prior": {"tuple": chain}, "seed": {"set": [{"same": 60}]}}}
    write(tmp_path / "m.odds", pack({"schema": 1, "provenance": {}, "model": node}, {}))
    assert (tmp_path / "m.odds").stat().st_size < 10_000
    with pytest.raises(ModelFileError, match="It has more than"):
        oddsmith.load(tmp_path / "m.odds")
    message = pack(
        {"schema": 1, "kind": "fold", "header": {}, "value": {"tuple": [*chain, {"set": [{"same": 60}]}]}}, {}
    )
    with pytest.raises(oddsmith.errors.MessageError):
        unseal("fold", message)
