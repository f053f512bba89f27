"""Sums, and what they are asked for by, come out of a message to the bit; anything else is refused in a sentence."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, is_dataclass
from datetime import date
from typing import Any

import numpy as np
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.persistence.mutate import HOSTILE, damaged
from tests.persistence.mutate import seal as seal_by_hand

from oddsmith.block import Block
from oddsmith.design.data_summary import DataSummary, DataSummaryParams, Roles
from oddsmith.design.table import Design
from oddsmith.engines.partitioned import Piece, as_it_is
from oddsmith.errors import InvalidInputError, InvalidTypeError, MessageError
from oddsmith.links import LINKS
from oddsmith.persistence import decode, encode
from oddsmith.persistence.codec import name_of, register_value
from oddsmith.persistence.model_file import register_types
from oddsmith.persistence.sealed_bytes import digest, seal, unseal
from oddsmith.statistic import STATISTICS, Shape
from oddsmith.testing.folds import hostile_blocks

register_types()


def same(a: Any, b: Any) -> bool:
    """Whether two values are of one type and have the same bits, in the same order in memory."""
    if type(a) is not type(b):
        return False
    if is_dataclass(a):
        return all(same(getattr(a, field.name), getattr(b, field.name)) for field in fields(a))
    if isinstance(a, np.ndarray):
        layout = a.flags.c_contiguous == b.flags.c_contiguous or a.size < 2
        return layout and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, float):
        return np.float64(a).tobytes() == np.float64(b).tobytes()
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def travelled(value: Any) -> Any:
    return unseal("test", seal("test", {}, value))[1]


@pytest.mark.parametrize("name", list(STATISTICS))
def test_statistic_and_params_travel_to_the_bit(name: str) -> None:
    statistic, rng = STATISTICS[name], np.random.default_rng(0)
    for block, shape in hostile_blocks():
        for params in statistic.example_params(shape, rng):
            for value in (params, statistic.of(block, params), statistic.zero(shape, params)):
                found = travelled(value)
                assert same(found, value), f"{found} is not {value}"
                assert digest(found) == digest(value)


@given(name=st.sampled_from(list(STATISTICS)), seed=st.integers(0, 2**32), K=st.integers(2, 4), data=st.data())
def test_any_statistic_travels_to_the_bit(name: str, seed: int, K: int, data: st.DataObject) -> None:
    rng, numbers = np.random.default_rng(seed), st.floats(-1e300, 1e300)
    n, M = data.draw(st.integers(0, 5)), data.draw(st.integers(1, 3))
    X = np.array(data.draw(st.lists(numbers, min_size=n * M, max_size=n * M))).reshape(n, M)
    for params in STATISTICS[name].example_params(Shape(M, K), rng):
        with np.errstate(all="ignore"):
            value = STATISTICS[name].of(Block(X, rng.integers(0, K, n).astype(np.int32)), params)
        assert same(travelled(value), value) and same(travelled(params), params)


def test_summary_travels_with_the_rows_it_has_drawn() -> None:
    table = polars.DataFrame(
        {
            "size": [0.1, None, float("inf"), -0.0],
            "kind": ["oak", None, "é", ""],
            "when": [date(2024, 2, 29), None, date(1970, 1, 1), date(1, 1, 1)],
            "many": [2**62, 1, None, -1],
            "y": ["a", "b", "a", "b"],
        }
    )
    for rows, labels in ((table.to_arrow(), None), (table, None), (np.eye(4), np.array(list("abab"), dtype=object))):
        roles = Roles("y" if labels is None else None)
        params = DataSummaryParams(roles=roles, design=Design() if labels is None else None, share=1.0, most=8)
        summary = DataSummary.of(Piece(rows, labels, number=3), params)
        assert len(summary.drawn[0].keys) > 0
        found = travelled((summary, params))
        assert digest(found) == digest((summary, params))
        drawn, again = summary.drawn[0].rows.rows, found[0].drawn[0].rows.rows
        assert drawn.equals(again) if labels is None else np.array_equal(drawn, again)


def test_links_functions_ranges_and_long_bytes_travel() -> None:
    for name in LINKS:
        assert travelled(LINKS[name]) is LINKS[name]
    assert travelled(as_it_is) is as_it_is
    for value in (range(3, 11, 2), range(0), b"", b"x" * 5000, (bytes(range(256)) * 8, b"y")):
        assert travelled(value) == value
    node, tensors = encode({"rows": b"x" * 5000})
    assert len(json.dumps(node)) < 200 and tensors["[0]"].nbytes == 5000


def test_digest_tells_values_apart_but_not_what_they_share() -> None:
    x = np.arange(4.0)
    alike = [(x, x), (x, x.copy())]
    assert len({digest(value) for value in alike}) == 1
    others = [
        (x, -x),
        (x,),
        [x, x],
        (x.astype(np.float32), x),
        (x.reshape(2, 2), x),
        (x, x, None),
        (0.0,),
        (-0.0,),
        (0,),
    ]
    assert len({digest(value) for value in (alike[0], *others)}) == len(others) + 1


def test_what_is_not_registered_is_refused() -> None:
    @dataclass
    class Strange:
        x: int = 0

    with pytest.raises(InvalidTypeError, match="Strange"):
        seal("test", {}, Strange())
    with pytest.raises(InvalidTypeError, match=r"Strange of .* is not registered"):
        name_of(Strange)
    with pytest.raises(TypeError, match="function"):
        seal("test", {}, travelled)
    with pytest.raises(InvalidInputError, match="Two values would be 'as it is'"):
        register_value(travelled, "as it is")


def test_other_message_is_refused_by_its_kind() -> None:
    with pytest.raises(MessageError, match="Expected a message called 'request', found one called 'answer'"):
        unseal("request", seal("answer", {}, 1))


def test_other_version_is_refused() -> None:
    data = seal("test", {}, 1)
    length = int.from_bytes(data[:8], "little")
    document = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["oddsmith"])
    del document["checksum"]
    newer = seal_by_hand({}, {**document, "schema": 99}, b"")
    with pytest.raises(MessageError, match="another version of oddsmith"):
        unseal("test", newer)
    assert unseal("test", seal_by_hand({}, document, b"")) == ({}, 1)


@pytest.mark.parametrize("seed", range(8))
def test_damaged_message_is_refused(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = seal("test", {"site": "north"}, (np.arange(40.0), "words"))
    for _ in range(250):
        changed = damaged(data, rng)
        if changed != data:
            with pytest.raises(MessageError, match="not an oddsmith test, or it was damaged"):
                unseal("test", changed)


@pytest.mark.parametrize(
    "value",
    [
        {"range": [1, 2, 0]},
        {"range": 3},
        {"range": ["a"]},
        {"value": "nowhere"},
        {"value": []},
        {"long bytes": "nowhere"},
        {"long bytes": 1},
        *HOSTILE,
    ],
    ids=str,
)
def test_hostile_value_with_the_right_checksum_is_refused_or_read(value: Any) -> None:
    message = seal_by_hand({}, {"schema": 1, "kind": "test", "header": {}, "value": value}, b"")
    try:
        unseal("test", message)
    except MessageError as error:
        assert "not an oddsmith test" in str(error)


def test_shared_arrays_are_written_once() -> None:
    x = np.arange(1000.0)
    node, tensors = encode([x, x])
    assert len(tensors) == 1
    a, b = decode(node, tensors)
    assert a is b
