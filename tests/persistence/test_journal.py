"""A fit that is stopped anywhere and run again has the same bits; a journal of something else is refused."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pieces import ListEngine, ListParts, as_block, cut, source_of

from oddsmith.engines.scan import Wrapped
from oddsmith.errors import MessageError
from oddsmith.persistence.codec import register_value
from oddsmith.persistence.journal import Journal
from oddsmith.persistence.model_file import register_types
from oddsmith.statistics import Curvature, CurvatureParams, Moments, MomentsParams

register_types()
register_value(as_block, "tests: as block")

PASSES = 6
ABOUT = {"model": "a Newton by hand", "data": "some rows"}


def rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 2)) + 3.0
    return X, (rng.random(60) < 1 / (1 + np.exp(3.0 - X[:, 0]))).astype(np.int32)


def parts(engine: ListEngine | None = None, *, seed: int = 0, fingerprint: str | None = "f") -> ListParts:
    return ListParts(cut(*rows(seed), [11, 30]), engine or ListEngine(), fingerprint=fingerprint)


def newton(parts: Any) -> np.ndarray:
    """Logistic regression by hand: moments, then a fold of the curvature in each of five steps."""
    source = source_of(parts, 2, 2)
    center = parts.engine.fold(Moments, source, MomentsParams(1, "diagonal")).mean[0]
    x = np.zeros(3)
    for _ in range(PASSES - 1):
        sums = parts.engine.fold(Curvature, source, CurvatureParams(W=x[None, 1:], b=x[:1], center=center))
        assert sums.hessian is not None
        x = x - np.linalg.solve(sums.hessian, sums.gradient[0])
    return x


class Killed(BaseException):
    """Nothing of the library catches this."""


def killer(at: int, error: type[BaseException] = Killed) -> Any:
    def before(fold: int) -> None:
        if fold == at:
            raise error

    return before


@contextmanager
def journaled(parts: ListParts, path: Path, model: str) -> Iterator[Any]:
    about = {"model": model, "data": parts.fingerprint or "some rows"}
    journal = Journal(path, parts.engine, about, trusted=parts.fingerprint is not None)
    try:
        yield Wrapped(parts, journal)
        journal.finish()
    finally:
        journal.close()


def resumed(
    path: Path, engine: ListEngine, seed: int = 0, fingerprint: str | None = "f", model: str = "by hand"
) -> Any:
    with journaled(parts(engine, seed=seed, fingerprint=fingerprint), path, model) as given:
        return newton(given)


@pytest.mark.parametrize("error", [Killed, KeyboardInterrupt])
@pytest.mark.parametrize("at", range(PASSES))
def test_fit_stopped_at_any_pass_goes_on_from_there_with_the_same_bits(tmp_path: Path, at: int, error: Any) -> None:
    expected = newton(parts())
    path = tmp_path / "fit.journal"
    with pytest.raises(error):
        resumed(path, ListEngine(killer(at, error)))
    again = ListEngine()
    assert resumed(path, again).tobytes() == expected.tobytes()
    assert len(again.folds) == PASSES - at


def test_fit_stopped_at_every_pass_in_turn_folds_each_once(tmp_path: Path) -> None:
    path = tmp_path / "fit.journal"
    engines = []
    for _ in range(PASSES - 1):
        engines.append(ListEngine(killer(1)))
        with pytest.raises(Killed):
            resumed(path, engines[-1])
    engines.append(ListEngine())
    assert resumed(path, engines[-1]).tobytes() == newton(parts()).tobytes()
    assert [len(engine.folds) for engine in engines] == [1] * PASSES
    assert [engine.folds[0] for engine in engines] == ["Moments"] + ["Curvature"] * (PASSES - 1)


def test_fit_that_has_ended_is_there_at_once_and_gives_way_to_another(tmp_path: Path) -> None:
    path = tmp_path / "fit.journal"
    first = resumed(path, ListEngine())
    assert path.stat().st_size < 20_000
    again = ListEngine()
    assert resumed(path, again).tobytes() == first.tobytes() and not again.folds
    other = ListEngine()
    assert resumed(path, other, seed=1, fingerprint="g").tobytes() == newton(parts(seed=1)).tobytes()
    assert len(other.folds) == PASSES


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The journal of a fit that was killed in its last pass."""
    path = tmp_path_factory.mktemp("journal") / "fit.journal"
    with pytest.raises(Killed):
        resumed(path, ListEngine(killer(PASSES - 1)))
    return path.read_bytes()


def test_torn_tail_of_any_length_is_dropped(stopped: bytes, tmp_path: Path) -> None:
    expected = newton(parts()).tobytes()
    header = 8 + int.from_bytes(stopped[:8], "little")
    for length in range(header, len(stopped) + 1, 97):
        path = tmp_path / f"{length}.journal"
        path.write_bytes(stopped[:length])
        assert resumed(path, ListEngine()).tobytes() == expected
        assert resumed(path, ListEngine(killer(0))).tobytes() == expected  # and what was torn is whole again


@given(data=st.data())
def test_damaged_journal_never_gives_other_numbers(stopped: bytes, data: st.DataObject, tmp_path_factory: Any) -> None:
    path = tmp_path_factory.mktemp("damaged") / "fit.journal"
    i = data.draw(st.integers(0, len(stopped)))
    j = data.draw(st.integers(i, min(len(stopped), i + 300)))
    noise = data.draw(st.binary(max_size=20))
    path.write_bytes(stopped[:i] + noise + stopped[j:])
    try:
        found = resumed(path, ListEngine())
    except MessageError as error:
        assert "not the journal of a fit" in str(error)
    else:
        assert found.tobytes() == newton(parts()).tobytes()


@pytest.mark.parametrize("content", [b"age,low\n23,1\n", b"PAR1" + bytes(100), bytes(8), b"\xff" * 40], ids=str)
def test_file_that_is_no_journal_is_refused_and_not_touched(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    with pytest.raises(MessageError, match=r"data\.csv' is not the journal of a fit, and was left unchanged"):
        resumed(path, ListEngine())
    assert path.read_bytes() == content


def test_model_file_is_no_journal(tmp_path: Path) -> None:
    from oddsmith import GaussianClassifier

    GaussianClassifier().fit(*rows()).save(tmp_path / "m.odds")
    with pytest.raises(MessageError, match="not the journal"):
        resumed(tmp_path / "m.odds", ListEngine())


def test_journal_of_another_fit_is_refused_by_name(stopped: bytes, tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "fit.journal"
    path.write_bytes(stopped)
    with pytest.raises(
        MessageError, match="to another fit that has not finished: its model is by hand, and now it is by"
    ):
        resumed(path, ListEngine(), model="by machine")
    with pytest.raises(MessageError, match="its data is f, and now it is g"):
        resumed(path, ListEngine(), fingerprint="g")
    monkeypatch.setattr("oddsmith.__version__", "99.0")
    with pytest.raises(MessageError, match=r"its software is oddsmith \S+, and now it is oddsmith 99.0"):
        resumed(path, ListEngine())
    assert path.read_bytes() == stopped


def test_data_without_a_fingerprint_are_known_by_one_pass(tmp_path: Path) -> None:
    path = tmp_path / "fit.journal"
    with pytest.raises(Killed):
        resumed(path, ListEngine(killer(3)), fingerprint=None)
    with pytest.raises(MessageError, match="its data is other rows"):
        resumed(path, ListEngine(), seed=1, fingerprint=None)
    again = ListEngine()
    assert resumed(path, again, fingerprint=None).tobytes() == newton(parts()).tobytes()
    assert len(again.folds) == PASSES - 3 + 1


def test_fit_to_data_without_a_fingerprint_that_has_ended_gives_way_to_other_rows(tmp_path: Path) -> None:
    path = tmp_path / "fit.journal"
    resumed(path, ListEngine(), fingerprint=None)
    for seed in (1, 1, 0):
        assert resumed(path, ListEngine(), seed=seed, fingerprint=None).tobytes() == newton(parts(seed=seed)).tobytes()


def test_journal_is_for_one_fit_at_a_time(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    journal = Journal(tmp_path / "fit.journal", ListEngine(), ABOUT)
    with pytest.raises(MessageError, match="in use by another fit"):
        Journal(tmp_path / "fit.journal", ListEngine(), ABOUT)
    journal.close()
    Journal(tmp_path / "fit.journal", ListEngine(), ABOUT).close()


def test_full_disk_and_folder_get_a_sentence(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "fit.journal"
    with pytest.raises(MessageError, match="cannot be opened"):
        resumed(tmp_path, ListEngine())
    with pytest.raises(Killed):
        resumed(path, ListEngine(killer(2)))

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(MessageError, match=r"fit\.journal' cannot be written \(No space left on device\)"):
            resumed(path, ListEngine())
    assert resumed(path, ListEngine()).tobytes() == newton(parts()).tobytes()


def test_folder_that_is_not_there_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="could not be written"):
        resumed(tmp_path / "nowhere" / "fit.journal", ListEngine())
    assert os.listdir(tmp_path) == []
