"""A save is whole or has not happened: at every moment the name stands for the old model or for the new one."""

import errno
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith
from oddsmith import LogisticRegression
from oddsmith.errors import InvalidTypeError, ModelFileError

KILL = Path(__file__).parents[1] / "persistence" / "kill.py"


def model(scale: float) -> LogisticRegression:
    return LogisticRegression(prior=scale).fit([[0.0], [1.0], [2.0], [3.0]], ["a", "b", "a", "b"])


class FullDisk:
    """A file on a disk that is full after so many bytes."""

    def __init__(self, file: Any, room: int) -> None:
        self.file, self.room = file, room

    def __enter__(self) -> "FullDisk":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def write(self, data: bytes) -> None:
        self.file.write(data[: self.room])
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()], ids=["disk", "user"])
def test_system_call_that_fails_leaves_the_old_file_and_nothing_else(
    call: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.odds"
    model(1.0).save(path)
    before = path.read_bytes()

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(ModelFileError if isinstance(error, OSError) else KeyboardInterrupt):
        model(2.0).save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.odds"]


@pytest.mark.parametrize("room", [0, 1, 1000])
def test_full_disk_leaves_the_old_file_and_says_so(room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.odds"
    model(1.0).save(path)
    before = path.read_bytes()
    monkeypatch.setattr(
        "oddsmith.persistence.file.open", lambda fd, mode: FullDisk(os.fdopen(fd, mode), room), raising=False
    )
    with pytest.raises(
        ModelFileError, match=r"could not be written \(No space left on device\); the previous file is unchanged"
    ):
        model(2.0).save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.odds"]


def test_model_that_cannot_be_saved_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "m.odds"
    model(1.0).save(path)
    before = path.read_bytes()
    other = model(2.0)
    other.note_ = lambda: None
    with pytest.raises(InvalidTypeError, match="note_ is a function"):
        other.save(path)
    assert path.read_bytes() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_save_killed_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(KILL), str(tmp_path / "m.odds"), "80"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert sum(found["seen"]) == 80
    # Saves were cut off between their first and their last step, and the file changed hands in between.
    assert found["left_behind"] >= 5 and min(found["seen"]) >= 5


def test_file_keeps_its_permissions_and_links_go_on_pointing_to_it(tmp_path: Path) -> None:
    path, link = tmp_path / "m.odds", tmp_path / "link.odds"
    model(1.0).save(path)
    link.symlink_to(path)
    for mode in (0o600, 0o666):
        os.chmod(path, mode)
        model(2.0).save(link)
        assert link.is_symlink() and stat.S_IMODE(path.stat().st_mode) == mode
    assert oddsmith.load(path).prior == 2.0


def test_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"nowhere/m\.odds' could not be written"):
        model(1.0).save(tmp_path / "nowhere" / "m.odds")


def test_loaded_arrays_are_not_tied_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.odds"
    model(1.0).save(path)
    loaded = oddsmith.load(path)
    weights = loaded.coef_.copy()
    model(2.0).save(path)
    loaded.coef_[:] += 0.0  # writable
    assert np.array_equal(loaded.coef_, weights)
