"""A fit that was killed at any pass goes on to the same bits; a journal of another fit gets a sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, dataset, parquet
from tests.pieces import ListEngine, ListParts

from oddsmith import GaussianClassifier, LogisticRegression, NaiveBayes, Polynomial, Spline, Standardize
from oddsmith.engines.partitioned import Piece
from oddsmith.engines.scan import Scanned, scan
from oddsmith.errors import InvalidInputError, MessageError

ROOT = Path(__file__).parents[2]
KILL = Path(__file__).with_name("kill_fit.py")


class Killed(BaseException):
    """Nothing of the library catches this."""


def rows(seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(400, 2))
    ill = np.where(x[:, 0] + rng.logistic(size=400) > 0, "yes", "no")
    return pa.table({"x": x[:, 0], "z": x[:, 1], "kind": rng.choice(["oak", "yew"], 400), "ill": ill, "sex": ill[::-1]})


def parts(at: int | None = None, *, seed: int = 0, fingerprint: str | None = "rows") -> ListParts:
    """Pieces whose engine dies in a pass."""

    def before(fold: int) -> None:
        if fold == at:
            raise Killed

    table = rows(seed)
    pieces = tuple(Piece(table[i : i + 150], number=i) for i in (0, 150, 300))
    return ListParts(pieces, ListEngine(before), tuple(table.column_names), fingerprint=fingerprint)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are killed in the way of Unix")
def test_fit_killed_at_every_pass_is_resumed_to_the_same_bits(tmp_path: Path) -> None:
    names = ["softmax", "gaussian", "naive"]
    command = [sys.executable, str(KILL), str(tmp_path), *names]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [found[name]["passes"] for name in names] == [5, 2, 1]
    for name in names:
        assert found[name]["died"] == 4 * found[name]["passes"] - 1
        assert found[name]["bytes"] < 50_000


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(link="cloglog", prior=1.0),
        LogisticRegression(basis=[Standardize(), Polynomial(2)], prior=1.0, design=None),
        LogisticRegression(basis=Spline(4), prior=1.0),
        GaussianClassifier("separate"),
    ],
    ids=repr,
)
def test_any_fit_is_resumed(model: Any, tmp_path: Path) -> None:
    whole = parts()
    expected = model.fit(whole, y="ill", resume=None).predict_proba(rows())
    for at in range(len(whole.engine.folds)):
        path = tmp_path / f"{at}.journal"
        with pytest.raises(Killed):
            model.fit(parts(at), y="ill", resume=path)
        again = parts()
        assert model.fit(again, y="ill", resume=path).predict_proba(rows()).tobytes() == expected.tobytes()
        assert len(again.engine.folds) == len(whole.engine.folds) - at


def test_scan_takes_the_file_too(tmp_path: Path) -> None:
    path = tmp_path / "fit.journal"
    for at in (1, 2):
        data = parts(at)
        with pytest.raises(Killed):
            LogisticRegression().fit(Scanned(data, data.engine, path), y="ill")
    again = parts()
    found = LogisticRegression().fit(Scanned(again, again.engine, path), y="ill")
    whole = parts()
    assert found.coef_.tobytes() == LogisticRegression().fit(whole, y="ill").coef_.tobytes()
    assert len(again.engine.folds) == len(whole.engine.folds) - 3


def test_passes_are_counted_as_if_nothing_had_happened(tmp_path: Path) -> None:
    expected = LogisticRegression(prior=1.0).fit(parts(), y="ill").certificate_
    with pytest.raises(Killed):
        LogisticRegression(prior=1.0).fit(parts(3), y="ill", resume=tmp_path / "j")
    assert LogisticRegression(prior=1.0).fit(parts(), y="ill", resume=tmp_path / "j").certificate_ == expected


@pytest.mark.parametrize(
    ("model", "data", "y", "said"),
    [
        (LogisticRegression(prior=2.0), {}, "ill", r"its model is LogisticRegression\(prior=1.0\) \S+ and now it is"),
        (GaussianClassifier(), {}, "ill", "its model is"),
        (
            LogisticRegression(prior=1.0),
            {"fingerprint": "others", "seed": 1},
            "ill",
            "its data is rows, and now it is others",
        ),
        (LogisticRegression(prior=1.0), {}, "sex", r"its columns is Roles\(y='ill'"),
    ],
    ids=["prior", "model", "data", "labels"],
)
def test_journal_of_another_fit_is_refused(model: Any, data: Any, y: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "fit.journal"
    with pytest.raises(Killed):
        LogisticRegression(prior=1.0).fit(parts(2), y="ill", resume=path)
    before = path.read_bytes()
    with pytest.raises(MessageError, match=f"to another fit that has not finished: {said}"):
        model.fit(parts(**data), y=y, resume=path)
    assert path.read_bytes() == before


def test_other_rows_without_a_fingerprint_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "fit.journal"
    with pytest.raises(Killed):
        LogisticRegression().fit(parts(2, fingerprint=None), y="ill", resume=path)
    with pytest.raises(MessageError, match="its data is other rows"):
        LogisticRegression().fit(parts(seed=1, fingerprint=None), y="ill", resume=path)
    LogisticRegression().fit(parts(fingerprint=None), y="ill", resume=path)


@pytest.mark.parametrize("model", [GaussianClassifier(), NaiveBayes(), LogisticRegression()], ids=repr)
def test_other_rows_without_a_fingerprint_are_noticed_though_their_survey_is_the_same(
    model: Any, tmp_path: Path
) -> None:
    """Numbers that have moved: labels, levels and the number of rows are as before."""
    path = tmp_path / "fit.journal"
    before = parts(fingerprint=None)
    moved = tuple(replace(piece, rows=shifted(piece.rows)) for piece in before.pieces)
    after = ListParts(moved, ListEngine(), before.columns)
    X = rows().drop_columns(["ill"])
    expected = model.fit(after, y="ill").predict_proba(X)
    assert model.fit(before, y="ill", resume=path).predict_proba(X).tobytes() != expected.tobytes()
    assert model.fit(after, y="ill", resume=path).predict_proba(X).tobytes() == expected.tobytes()


def shifted(table: pa.Table) -> pa.Table:
    return table.set_column(0, "x", pa.array(table["x"].to_numpy() + 1.0))


def test_journal_of_a_fit_that_has_ended_gives_way(tmp_path: Path) -> None:
    path = tmp_path / "fit.journal"
    NaiveBayes().fit(parts(), y="ill", resume=path)
    at_once = parts()
    NaiveBayes().fit(at_once, y="ill", resume=path)
    assert at_once.engine.folds == []
    found = LogisticRegression().fit(parts(seed=1, fingerprint="others"), y="ill", resume=path)
    assert found.coef_.tobytes() == LogisticRegression().fit(parts(seed=1), y="ill").coef_.tobytes()


def test_fit_that_fails_leaves_a_journal_to_resume_and_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "fit.journal"
    for _ in range(2):
        with pytest.raises(InvalidInputError, match="Unknown label type: continuous"):
            LogisticRegression().fit(parts(), y="x", resume=path)


def test_rows_in_memory_need_no_journal(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="resume= works with files and clusters only, but X is in memory"):
        LogisticRegression().fit(rows(), "ill", resume=tmp_path / "j")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_fit_to_files_is_resumed_and_other_files_are_noticed(kind: str, tmp_path: Path, monkeypatch: Any) -> None:
    from oddsmith.engines.files import FilesEngine

    write = {"parquet": parquet.write_table, "csv": csv.write_csv}[kind]
    folder, journal = tmp_path / "rows", tmp_path / "fit.journal"
    folder.mkdir()
    for i in range(3):
        write(rows(i), folder / f"{i}.{kind}")
    fold, left = FilesEngine.fold, [100]

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return fold(self, *args, **kwargs)

    monkeypatch.setattr(FilesEngine, "fold", counted)
    expected = LogisticRegression().fit(scan(folder, memory="20MB"), y="ill").coef_.tobytes()
    passes = 100 - left[0]
    for _ in range(passes - 1):
        left[0] = 1
        with pytest.raises(KeyboardInterrupt):
            LogisticRegression().fit(folder, y="ill", memory="20MB", resume=journal)
    left[0] = 1
    assert LogisticRegression().fit(scan(folder, memory="20MB", resume=journal), y="ill").coef_.tobytes() == expected
    left[0] = 1
    with pytest.raises(KeyboardInterrupt):
        LogisticRegression(prior=1.0).fit(folder, y="ill", resume=journal)
    write(rows(7), folder / f"3.{kind}")
    with pytest.raises(MessageError, match="to another fit that has not finished: its data is"):
        LogisticRegression(prior=1.0).fit(folder, y="ill", resume=journal)


@pytest.mark.parametrize("kept", ["resume", "cache"])
def test_another_filter_of_a_dataset_is_other_data(kept: str, tmp_path: Path) -> None:
    parquet.write_table(rows(0), tmp_path / "rows.parquet")
    whole, place = dataset.dataset(tmp_path / "rows.parquet"), tmp_path / "kept"
    name = next(name for name in whole.schema.names if name != "ill")
    for limit in (0.0, 0.5):
        some = whole.filter(dataset.field(name) > limit)
        found = LogisticRegression(prior=1.0).fit(some, y="ill", **{kept: place})
        assert found.coef_.tobytes() == LogisticRegression(prior=1.0).fit(some, y="ill").coef_.tobytes()


def test_other_types_of_text_are_other_data(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    csv.write_csv(pa.table({"zip": [1, 2, 3, 1, 2, 3] * 9, "ill": [0, 1, 0, 1, 0, 1] * 9}), path)
    prints = {scan(path, types=types).fingerprint for types in ({}, {"zip": pa.string()}, {})}
    assert len(prints) == 2
