"""The checks of ``oddsmith.testing`` find what is broken: a check that cannot fail checks nothing."""

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from oddsmith import LogisticRegression
from oddsmith.block import Block
from oddsmith.engines import MemoryEngine, MemorySource
from oddsmith.links import LINKS, Logit
from oddsmith.numerics import sigmoid
from oddsmith.statistic import Shape
from oddsmith.testing import check_engine, check_link, check_model, check_statistic, hostile_blocks

# --- statistics


@dataclass(frozen=True)
class Sums:
    """A right statistic, which the broken ones below differ from in one thing: Σ s and Σ s φ by class."""

    weight: Any
    total: Any

    @classmethod
    def zero(cls, shape: Shape, params: Shape) -> "Sums":
        return cls(np.zeros(shape.K), np.zeros((shape.K, shape.M)))

    @classmethod
    def of(cls, block: Block, params: Shape) -> "Sums":
        T = np.eye(params.K)[block.t] * block.weights()[:, None]
        return cls(T.sum(axis=0), T.T @ (block.X.toarray() if block.is_sparse else block.X.astype(np.float64)))

    def merge(self, other: "Sums") -> "Sums":
        return type(self)(self.weight + other.weight, self.total + other.total)

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
        return [shape]


class Forgetful(Sums):
    """Does not look at the weights."""

    @classmethod
    def of(cls, block: Block, params: Shape) -> Sums:
        return super().of(replace(block, s=None), params)


class Averaging(Sums):
    """Merges as if both parts were of one size."""

    def merge(self, other: Sums) -> Sums:
        return type(self)(self.weight + other.weight, (self.total + other.total) / 2.0)


class Overwriting(Sums):
    """Keeps what came last: associative, and blind to order."""

    def merge(self, other: Sums) -> Sums:
        return other


class Narrow(Sums):
    """Sums in float32."""

    @classmethod
    def of(cls, block: Block, params: Shape) -> Sums:
        sums = super().of(block, params)
        return cls(sums.weight, sums.total.astype(np.float32))


class Lacking(Sums):
    """Has only the classes that it has seen."""

    @classmethod
    def of(cls, block: Block, params: Shape) -> Sums:
        seen = int(block.t.max(initial=-1)) + 1
        sums = super().of(block, params)
        return cls(sums.weight[:seen], sums.total[:seen])


class Writing(Sums):
    """Centres the user's rows in place."""

    @classmethod
    def of(cls, block: Block, params: Shape) -> Sums:
        if block.n_rows and not block.is_sparse:
            block.X[:] -= block.X[0]
        return super().of(block, params)


class OneMore(Sums):
    """Counts a row that is not there."""

    @classmethod
    def of(cls, block: Block, params: Shape) -> Sums:
        sums = super().of(block, params)
        return cls(sums.weight + 1.0, sums.total)


class FirstRows(Sums):
    """Looks at no more than ten rows."""

    @classmethod
    def of(cls, block: Block, params: Shape) -> Sums:
        return super().of(Block(block.X[:10], block.t[:10], None if block.s is None else block.s[:10]), params)


@dataclass(frozen=True)
class Scatter:
    """Weight, mean and centred scatter of each column, merged by Chan's rule: right where ``of`` is."""

    weight: float
    mean: Any
    scatter: Any

    @classmethod
    def zero(cls, shape: Shape, params: Shape) -> "Scatter":
        return cls(0.0, np.zeros(shape.M), np.zeros(shape.M))

    @classmethod
    def of(cls, block: Block, params: Shape) -> "Scatter":
        X = block.X.toarray() if block.is_sparse else block.X.astype(np.float64)
        s = block.weights()
        if not s.any():
            return cls.zero(params, params)
        base = X[np.argmax(s > 0)]
        mean = s @ (X - base) / s.sum()
        return cls(float(s.sum()), base + mean, cls.squares(X, s, base + mean))

    @staticmethod
    def squares(X: Any, s: Any, mean: Any) -> Any:
        return s @ (X - mean) ** 2

    def merge(self, other: "Scatter") -> "Scatter":
        weight = self.weight + other.weight
        if not (self.weight and other.weight):
            return self if self.weight else other
        delta, share = other.mean - self.mean, other.weight / weight
        scatter = self.scatter + other.scatter + self.weight * share * delta**2
        return type(self)(weight, self.mean + share * delta, scatter)

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
        return [shape]


class RawSquares(Scatter):
    """Scatter as Σ x² − N mean², which has no digits left on columns of mean 1e8."""

    @staticmethod
    def squares(X: Any, s: Any, mean: Any) -> Any:
        return np.maximum(s @ X**2 - s.sum() * mean**2, 0.0)


@pytest.mark.parametrize("statistic", [Sums, Scatter])
def test_a_right_statistic_passes(statistic: type[Any]) -> None:
    check_statistic(statistic)


@pytest.mark.parametrize(
    ("statistic", "message"),
    [
        (Forgetful, "law 5"),
        (Averaging, "law 1, identity"),
        (Overwriting, "law 1, identity"),
        (Narrow, "kept in float32, expected float64"),
        (Lacking, "law|operands|broadcast"),
        (OneMore, "law 6, emptiness"),
        (FirstRows, "law 4, splitting|law 3"),
        (RawSquares, r"law [34], .*: RawSquares of 30 × 3 float64 rows.* scatter is off by"),
    ],
)
def test_a_broken_statistic_is_found_out(statistic: type[Any], message: str) -> None:
    with pytest.raises((AssertionError, ValueError), match=f"(?s){message}"):
        check_statistic(statistic)


def test_a_statistic_that_writes_to_the_rows_is_found_out() -> None:
    with pytest.raises(ValueError, match="read-only"):
        check_statistic(Writing)


def test_a_statistic_that_can_be_changed_is_found_out() -> None:
    changeable = dataclass(type("Changeable", (), {"__annotations__": {"weight": float}}))
    for statistic in (changeable, int):
        with pytest.raises(AssertionError, match="not a frozen dataclass"):
            check_statistic(statistic)


def test_a_statistic_without_parameters_to_test_is_found_out() -> None:
    class Shy(Sums):
        @classmethod
        def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
            return []

    with pytest.raises(AssertionError, match="nothing to check with"):
        check_statistic(Shy)


def test_hostile_blocks_are_hostile() -> None:
    blocks = [block for block, _ in hostile_blocks()]
    assert any(block.n_rows == 0 for block in blocks)
    assert any(block.is_sparse for block in blocks)
    assert any(not block.is_sparse and block.X.dtype == np.float32 for block in blocks)
    assert any(block.s is not None and block.n_rows and not block.s.any() for block in blocks)
    assert any(not block.is_sparse and block.n_rows and block.X.mean() > 1e7 for block in blocks)
    assert any(len(set(block.t)) < shape.K for block, shape in hostile_blocks() if block.n_rows > 10)


# --- links


class WrongDerivative(Logit):
    name = "wrong derivative"

    def derivative(self, a: Any) -> Any:
        return sigmoid(a) * sigmoid(-a) * 1.0001


class WrongSecond(Logit):
    name = "wrong second derivative"

    def second_derivative(self, a: Any) -> Any:
        return -super().second_derivative(a)


class NaiveLog(Logit):
    name = "naive logarithm"

    def log_probability(self, a: Any) -> Any:
        with np.errstate(divide="ignore"):
            return np.log(sigmoid(a)), np.log(1.0 - sigmoid(a))


class Lopsided(Logit):
    name = "lopsided"

    def log_probability(self, a: Any) -> Any:
        left, right = super().log_probability(a)
        return left, right * (1.0 + 4e-16)


class Overflowing(Logit):
    name = "overflowing"

    def inverse(self, a: Any) -> Any:
        return 1.0 / (1.0 + np.exp(-a))


class WrongLink(Logit):
    name = "wrong link"

    def link(self, y: Any) -> Any:
        return super().link(y) * (1.0 + 1e-9)


def test_a_right_link_passes() -> None:
    check_link(LINKS["logit"])


@pytest.mark.parametrize("link", [WrongDerivative(), WrongSecond(), NaiveLog(), Lopsided(), Overflowing(), WrongLink()])
def test_a_broken_link_is_found_out(link: Logit) -> None:
    with pytest.raises((AssertionError, FloatingPointError)):
        check_link(link)


# --- engines


@dataclass(frozen=True)
class LosesTheLast(MemoryEngine):
    name: str = "loses the last block"

    def fold(self, statistic: Any, source: Any, params: Any, *, progress: Any = None) -> Any:
        n = source.n_rows - source.n_rows // 100
        return super().fold(statistic, source.take(np.arange(n)), params, progress=progress)


class Restless(MemoryEngine):
    """Merges in another order each time."""

    def fold(self, statistic: Any, source: Any, params: Any, *, progress: Any = None) -> Any:
        order = np.random.default_rng().permutation(source.n_rows)
        return super().fold(statistic, source.take(order), params, progress=progress)


class Boastful(MemoryEngine):
    """Says that it is done before it is."""

    def fold(self, statistic: Any, source: Any, params: Any, *, progress: Any = None) -> Any:
        if progress is not None:
            progress(1, 3)
        return super().fold(statistic, source, params)


def test_a_right_engine_passes() -> None:
    check_engine(MemoryEngine(threads=1))
    check_engine(MemoryEngine(threads=3), lambda *arrays: MemorySource(*arrays, slice_rows=64))


@pytest.mark.parametrize(
    ("engine", "message"),
    [(LosesTheLast(), "against memory"), (Restless(), "run again|against"), (Boastful(), "progress")],
)
def test_a_broken_engine_is_found_out(engine: MemoryEngine, message: str) -> None:
    with pytest.raises(AssertionError, match=f"(?s){message}"):
        check_engine(engine)


# --- models


class KeepsTheRows(LogisticRegression):
    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Any:
        super().fit(X, y, sample_weight, offset)
        self.rows_ = np.asarray(X.toarray() if hasattr(X, "toarray") else X).copy()
        return self


class HalfFitted(LogisticRegression):
    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Any:
        self.started_ = True
        return super().fit(X, y, sample_weight, offset)


class Uncertain(LogisticRegression):
    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Any:
        super().fit(X, y, sample_weight, offset)
        del self.certificate_
        return self


class Unrepeatable(LogisticRegression):
    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Any:
        super().fit(X, y, sample_weight, offset)
        self.coef_ = self.coef_ * (1.0 + 1e-15 * np.random.default_rng().integers(1, 1000))
        return self


class Overconfident(LogisticRegression):
    def predict_proba(self, X: Any, offset: Any = None) -> Any:
        return super().predict_proba(X, offset) ** 2


class ForeignError(LogisticRegression):
    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Any:
        try:
            return super().fit(X, y, sample_weight, offset)
        except ValueError as error:
            raise ValueError(str(error)) from None


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (KeepsTheRows(1.0), "grows with its rows"),
        (HalfFitted(1.0), re.escape("left with ['started_']")),
        (Uncertain(1.0), "no certificate_"),
        (Unrepeatable(1.0), "fails scikit-learn's checks|differs when fitted again"),
        (Overconfident(1.0), "fails scikit-learn's checks|do not sum to one"),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else "",
)
def test_a_broken_model_is_found_out(model: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=f"(?s){message}"):
        check_model(model)


def test_a_model_with_errors_of_its_own_is_found_out() -> None:
    with pytest.raises(ValueError, match=r"infinite|NaN"):
        check_model(ForeignError(1.0))
