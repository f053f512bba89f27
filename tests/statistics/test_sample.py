"""The sample of different rows: uniform, the same on any shards, with the weight of every row that it stands for."""

from functools import reduce

import numpy as np
import pytest
from scipy import sparse, stats

from oddsmith.block import Block
from oddsmith.statistics import Sample, SampleParams
from oddsmith.statistics.sample import _mixed


def block(rows: np.ndarray, s: np.ndarray | None = None) -> Block:
    return Block(rows, np.zeros(rows.shape[0], dtype=np.int32), s)


def found(sample: Sample) -> dict[tuple[float, ...], float]:
    rows, weight = sample.found
    return {tuple(row): w for row, w in zip(rows.tolist(), weight, strict=True)}


def test_every_row_is_as_likely_as_any_other() -> None:
    """How often each of 500 rows is among 50, over 400 seeds: no more uneven than chance, nor more even."""
    rows = np.column_stack([np.arange(500.0), np.ones(500)])
    counts = np.zeros(500)
    for seed in range(400):
        chosen = Sample.of(block(rows), SampleParams(50, seed)).found[0]
        assert len(chosen) == 50
        counts[chosen[:, 0].astype(int)] += 1
    # The sum of (count − 40)² / 36, nearly χ² with 499 degrees of freedom.
    assert 1e-4 < stats.chi2.sf(((counts - 40.0) ** 2 / 36.0).sum(), 499) < 1 - 1e-4


def test_neighbours_are_chosen_independently() -> None:
    rows = np.arange(200_000.0)[:, None] * 1e-9
    chosen = np.sort(Sample.of(block(rows), SampleParams(2000)).found[0].ravel())
    assert stats.kstest(chosen / rows[-1, 0], "uniform").pvalue > 1e-3


def test_the_order_of_columns_matters() -> None:
    rows = np.array([[1.0, 2.0], [2.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    assert len(Sample.of(block(rows), SampleParams(9)).found[0]) == 4


@pytest.mark.parametrize("size", [1, 10, 100])
def test_shards_in_any_order_merge_to_the_same_bits(size: int) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 6, size=(300, 2)).astype(np.float64)
    whole = Sample.of(block(rows), SampleParams(size))
    for _ in range(5):
        order = rng.permutation(300)
        shards = np.split(rows[order], np.sort(rng.integers(0, 301, 4)))
        merged = reduce(Sample.merge, [Sample.of(block(shard), SampleParams(size)) for shard in shards])
        for name in ("keys", "rows", "weight"):
            np.testing.assert_array_equal(getattr(merged, name), getattr(whole, name))


def test_weights_are_those_of_all_equal_rows() -> None:
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 4, size=(200, 2)).astype(np.float64)
    s = rng.integers(0, 3, 200).astype(np.float64)
    expected: dict[tuple[float, ...], float] = {}
    for row, weight in zip(rows.tolist(), s, strict=True):
        if weight:
            expected[tuple(row)] = expected.get(tuple(row), 0.0) + weight
    sample = Sample.of(block(rows, s), SampleParams(50))
    assert found(sample) == expected
    part = Sample.of(block(rows, s), SampleParams(5))
    assert len(found(part)) == 5 and found(part).items() <= expected.items()


def test_sparse_rows_have_the_keys_of_dense_ones() -> None:
    rng = np.random.default_rng(2)
    dense = np.where(rng.random((100, 5)) < 0.7, 0.0, rng.normal(size=(100, 5)))
    dense[:3] = 0.0
    dense[1] = -0.0
    a, b = (Sample.of(block(rows), SampleParams(30, seed=4)) for rows in (dense, sparse.csr_array(dense)))
    np.testing.assert_array_equal(a.keys, b.keys)
    np.testing.assert_array_equal(a.rows, b.rows)
    np.testing.assert_array_equal(a.weight, b.weight)
    everything = Sample.of(block(dense), SampleParams(200))
    assert found(everything)[(0.0,) * 5] == 3.0 + (dense[3:] == 0).all(axis=1).sum()


def test_many_equal_rows_do_not_crowd_out_the_others() -> None:
    rows = np.concatenate([np.zeros(10_000), np.arange(30.0)])[:, None]
    for seed in range(5):
        sample = Sample.of(block(rows), SampleParams(20, seed))
        assert len(sample.found[0]) == 20


def test_keys_are_mixed_as_by_splitmix64() -> None:
    """The first numbers of the generator's published implementation from the seed 0."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    states = np.arange(1, 5, dtype=np.uint64) * golden
    assert _mixed(states).tolist() == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
        0xF88BB8A8724C81EC,
    ]
