"""Several bases in a row against the pipeline of the same steps, and what is no basis."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)

from oddsmith import GaussianKernel, Polynomial, RadialBasis, Spline, Standardize
from oddsmith.design.basis import Expansion, learn_expansion
from oddsmith.engines import MemoryEngine, MemorySource
from oddsmith.errors import InvalidInputError, InvalidTypeError

CENTERS = np.array([[0.0, 0.5, 1.0], [-1.0, 0.0, 1.0], [1.0, -0.5, 0.0]])
X = np.random.default_rng(0).normal(size=(700, 3)) * [1.0, 10.0, 0.1] + [5.0, 0.0, 1.0]
NAMES = ["a", "b", "c"]


def source(rows: Any = X, **options: Any) -> MemorySource:
    return MemorySource(rows, np.zeros(rows.shape[0], dtype=np.int32), 1, **options)


def learn(basis: Any, rows: Any = X, seed: int | None = None, **options: Any) -> Expansion:
    return learn_expansion(basis, source(rows, **options), NAMES, engine=MemoryEngine(), seed=seed)


def test_steps_equal_the_pipeline_of_scikit_learn() -> None:
    expansion = learn([Standardize(), Polynomial(2)])
    pipeline = make_pipeline(StandardScaler(), PolynomialFeatures(2, include_bias=False)).fit(X)
    np.testing.assert_allclose(expansion(X), pipeline.transform(X), rtol=1e-10, atol=1e-12)
    assert expansion.names.tolist() == pipeline.get_feature_names_out(NAMES).tolist()
    assert (expansion.n_inputs, expansion.n_outputs, expansion.gram) == (3, 9, None)


@pytest.mark.parametrize(
    "bases",
    [
        # Centres are given: those that are drawn depend on the rows that a model is given, before the first step.
        [Standardize(), RadialBasis(CENTERS)],
        [Standardize(), Spline(4), Standardize()],
        [Polynomial(2), Standardize(), GaussianKernel(1.0, landmarks=np.tile(CENTERS, 3))],
        [Standardize(), StandardScaler(), GaussianKernel()],
    ],
    ids=str,
)
def test_steps_equal_the_pipeline_of_our_own_transformers(bases: list[Any]) -> None:
    expansion, pipeline = learn(bases), make_pipeline(*bases).fit(X)
    np.testing.assert_allclose(expansion(X), pipeline.transform(X), atol=1e-9)
    if isinstance(bases[-1], GaussianKernel):
        np.testing.assert_allclose(expansion.gram, pipeline[-1].gram_, atol=1e-9)
    # The blocks that a fold sees are those of the whole.
    seen = expansion.over(source(slice_rows=100))
    assert seen.shape.M == expansion.n_outputs
    blocks = np.vstack([seen.block(*part).X for part in seen.slices()])
    np.testing.assert_allclose(blocks, expansion(X), atol=1e-12)


def test_the_users_objects_are_not_changed() -> None:
    mine = [Standardize(), StandardScaler(), RadialBasis(3, seed=None)]
    learn(mine, seed=5)
    for basis in mine:
        assert not [name for name in vars(basis) if name.endswith("_")]
    assert mine[2].seed is None


def test_the_seed_of_the_model_is_for_bases_without_one() -> None:
    def centers(basis: GaussianKernel, seed: int | None) -> list[list[float]]:
        return learn(basis, seed=seed).steps[0].centers_.tolist()

    for seed in (None, 7):
        assert centers(GaussianKernel(landmarks=5), seed) == centers(GaussianKernel(landmarks=5, seed=0), None)
    assert centers(GaussianKernel(landmarks=5, seed=None), 7) == centers(GaussianKernel(landmarks=5, seed=7), None)
    assert centers(GaussianKernel(landmarks=5, seed=None), None) == centers(GaussianKernel(landmarks=5), None)


@pytest.mark.parametrize(
    "transformer",
    [
        StandardScaler(),
        SplineTransformer(),
        PCA(2),
        FunctionTransformer(np.tanh),
        make_pipeline(StandardScaler(), PCA(2)),
    ],
    ids=lambda transformer: type(transformer).__name__,
)
def test_transformers_of_scikit_learn_are_fitted_to_all_rows(transformer: Any) -> None:
    expansion = learn(transformer, slice_rows=100)
    np.testing.assert_allclose(expansion(X), transformer.fit_transform(X), atol=1e-12)
    assert expansion.n_outputs == len(set(expansion.names)) == expansion(X).shape[1]


def test_transformers_of_scikit_learn_take_sparse_rows() -> None:
    rows = sparse.csr_array(np.round(np.random.default_rng(0).normal(size=(60, 3))))
    expansion = learn(StandardScaler(with_mean=False), rows, slice_rows=10)
    assert sparse.issparse(expansion(rows))
    expected = StandardScaler(with_mean=False).fit_transform(rows.toarray())
    np.testing.assert_allclose(expansion(rows).toarray(), expected, rtol=1e-12)
    indicators = learn([Standardize(), OneHotEncoder()], rows.toarray(), slice_rows=10)
    assert indicators(rows.toarray()).sum() == rows.shape[0] * 3
    with pytest.raises(InvalidTypeError, match="dense data is required"):
        learn(OneHotEncoder(), rows)


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (TargetEncoder(), "needs labels"),
        (FunctionTransformer(lambda rows: rows - rows.mean(axis=0)), "each row independently"),
    ],
    ids=["labels", "rows together"],
)
def test_transformers_that_are_no_basis_are_refused(transformer: Any, message: str) -> None:
    with pytest.raises((InvalidTypeError, InvalidInputError), match=message):
        learn(transformer)


def test_weights_reach_a_transformer_or_are_refused() -> None:
    s = np.random.default_rng(0).integers(0, 3, len(X)).astype(np.float64)
    weighted = learn(StandardScaler(), s=s)
    np.testing.assert_allclose(weighted(X), StandardScaler().fit(X, sample_weight=s).transform(X), rtol=1e-10)
    with pytest.raises(InvalidInputError, match="PCA does not accept"):
        learn(PCA(2), s=s)
    # Rows of weight 0 are not there, and equal weights are no weights.
    some = np.where(s > 0, 2.0, 0.0)
    np.testing.assert_allclose(np.abs(learn(PCA(2), s=some)(X)), np.abs(PCA(2).fit(X[s > 0]).transform(X)), atol=1e-9)


@pytest.mark.parametrize("basis", ["polynomial", 3, Polynomial, {"degree": 2}, [Standardize(), None]], ids=str)
def test_what_is_no_basis_is_refused_with_the_known_ones(basis: Any) -> None:
    with pytest.raises(InvalidTypeError, match=r"GaussianKernel\(\), Polynomial\(\), RadialBasis\(\)"):
        learn(basis)


def test_bad_arguments_of_a_later_step_are_found_first() -> None:
    with pytest.raises(InvalidInputError, match="degree"):
        learn([Standardize(center=True), Polynomial(0)], sparse.csr_array(X))


def test_sparse_rows_stay_sparse_where_all_steps_keep_them() -> None:
    rows = sparse.csr_array(X)
    kept = learn(Standardize(center=False), rows)
    assert kept.keeps_sparse and sparse.issparse(kept(rows))
    dense = learn([Standardize(center=False), Polynomial(2)], rows)
    assert not dense.keeps_sparse
    np.testing.assert_allclose(dense(rows), learn([Standardize(center=False), Polynomial(2)])(X), rtol=1e-12)
