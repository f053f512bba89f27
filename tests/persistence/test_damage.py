"""Whatever a file holds, loading it ends in a model or in a `ModelFileError`: no crash, no code, no memory taken."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.persistence.mutate import seal

import oddsmith
from oddsmith import LogisticRegression, Polynomial
from oddsmith.errors import ModelFileError, OddsmithError
from oddsmith.persistence.codec import decode

MUTATE = Path(__file__).with_name("mutate.py")
ON_LINUX = sys.platform == "linux"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.array(["a", "b"])[np.arange(60) % 2]
    LogisticRegression(prior=1.0, basis=Polynomial(2)).fit(X, y).save(tmp_path / "m.odds")
    return tmp_path / "m.odds"


def outcomes(path: Path, *arguments: str) -> dict[str, int]:
    command = [sys.executable, str(MUTATE), str(path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


@pytest.mark.skipif(not ON_LINUX, reason="the memory of a process is limited in the way of Linux")
def test_five_thousand_damaged_files_are_refused_within_100_megabytes(path: Path) -> None:
    counts = outcomes(path, "5000")
    assert sum(counts.values()) == 5000
    # A part that is turned round by nothing, or a byte replaced by itself: the file is no different then.
    assert counts.pop("loaded", 0) < 50
    assert any("damaged" in said for said in counts) and any("It has … bytes" in said for said in counts)


@pytest.mark.skipif(not ON_LINUX, reason="the memory of a process is limited in the way of Linux")
def test_crafted_files_with_the_right_checksum_are_refused_or_loaded_within_100_megabytes(path: Path) -> None:
    counts = outcomes(path, "1500", "sealed")
    assert len(counts) > 20  # the many ways in which JSON can be wrong were found
    assert 0 < counts["loaded"] < 1000  # another number is another model


def parts(path: Path) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    document = json.loads(header.pop("__metadata__")["oddsmith"])
    del document["checksum"]
    return header, document, data[8 + length :]


def test_file_sealed_by_hand_is_loaded(path: Path) -> None:
    """So that the tests below fail for the reason they name, not for the way in which they write files."""
    path.write_bytes(seal(*parts(path)))
    assert oddsmith.load(path).predict([[0.0, 0.0]]).tolist() in (["a"], ["b"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not an oddsmith model file"),
        (b"{}", "not an oddsmith model file"),
        (b"age,income,low\n23,1000,1\n" * 50, "not an oddsmith model file"),
        (b"PAR1" + bytes(100), "not an oddsmith model file"),
        (pickle.dumps(list(range(100))), "not an oddsmith model file"),
        (bytes(1000), "not an oddsmith model file"),
        (b"\xff" * 1000, "not an oddsmith model file"),
        ((100).to_bytes(8, "little") + b"{" * 50, "truncated"),
        ((50).to_bytes(8, "little") + b"{" * 50, "no checksum"),
    ],
    ids=["empty", "tiny", "csv", "parquet", "pickle", "zeros", "ones", "short", "braces"],
)
def test_file_that_is_no_model_is_refused_in_a_sentence(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "m.odds").write_bytes(content)
    with pytest.raises(ModelFileError, match=rf"m\.odds' cannot be loaded\. .*{said}"):
        oddsmith.load(tmp_path / "m.odds")


def test_every_truncation_is_refused(path: Path) -> None:
    data = path.read_bytes()
    short = path.with_name("short.odds")
    for length in range(0, len(data), 17):
        short.write_bytes(data[:length])
        with pytest.raises(ModelFileError):
            oddsmith.load(short)
        short.unlink()


def test_no_file_folder_and_pipe_are_refused_without_waiting(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"nowhere\.odds' cannot be read \(No such file"):
        oddsmith.load(tmp_path / "nowhere.odds")
    with pytest.raises(ModelFileError, match="folder"):
        oddsmith.load(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ModelFileError, match="not a file"):
            oddsmith.load(tmp_path / "pipe")


def test_other_safetensors_file_is_refused(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"w": np.zeros(3)}, tmp_path / "m.odds")
    with pytest.raises(ModelFileError, match="not an oddsmith model file"):
        oddsmith.load(tmp_path / "m.odds")


@pytest.mark.parametrize(
    "name", ["os.system", "subprocess.Popen", "builtins.eval", "oddsmith.persistence.model_file.save", "Path"]
)
def test_type_named_in_a_file_is_looked_up_and_never_imported(name: str, path: Path) -> None:
    header, document, body = parts(path)
    document["model"] = {"type": name, "fields": {"args": ["touch x"]}}
    path.write_bytes(seal(header, document, body))
    with pytest.raises(ModelFileError, match="does not know"):
        oddsmith.load(path)


def test_file_that_holds_something_else_than_a_model_is_refused(path: Path) -> None:
    header, document, body = parts(path)
    document["model"] = document["model"]["fields"]["basis"]
    path.write_bytes(seal(header, document, body))
    with pytest.raises(ModelFileError, match="a Polynomial, which is not a model"):
        oddsmith.load(path)


@pytest.mark.parametrize("name", ["predict", "save", "__class__", "__dict__", "posterior_", "a.b"])
def test_attribute_that_would_cover_a_method_is_refused(name: str, path: Path) -> None:
    header, document, body = parts(path)
    document["model"]["fields"][name] = 1
    path.write_bytes(seal(header, document, body))
    with pytest.raises(ModelFileError, match=f"LogisticRegression in it has '{name}'"):
        oddsmith.load(path)


def test_json_nested_without_end_is_refused(path: Path) -> None:
    header, document, body = parts(path)
    document["model"]["fields"]["seed"] = "@"
    text = json.dumps(document).replace('"@"', "[" * 100_000 + "]" * 100_000)
    path.write_bytes(seal(header, text, body))
    with pytest.raises(ModelFileError, match="RecursionError"):
        oddsmith.load(path)


@pytest.mark.parametrize(
    "node",
    [
        {"array": "w", "dtype": "|O8", "shape": [1], "order": "C"},
        {"array": "w", "dtype": "f8,f8", "shape": [1], "order": "C"},
        {"array": "w", "dtype": "<f8", "shape": [2], "order": "C"},
        {"array": "w", "dtype": "<f8", "shape": [-1], "order": "C"},
        {"array": "w", "dtype": "<U2", "shape": [1], "order": "C"},
        {"array": "w", "dtype": "|b1", "shape": [8], "order": "C"},
        {"scalar": "ffffffff", "dtype": "<U1"},
        {"objects": [1], "shape": [2]},
        {"generator": {"dict": [["bit_generator", "MT19937"], ["state", None]]}},
    ],
    ids=str,
)
def test_arrays_that_numpy_would_believe_are_refused(node: Any) -> None:
    tensors = {"w": np.frombuffer(b"\xff" * 8, dtype=np.uint8)}
    with pytest.raises(ModelFileError):
        decode(node, tensors)


def test_model_file_error_is_an_error_of_ours() -> None:
    assert issubclass(ModelFileError, OddsmithError) and issubclass(ModelFileError, ValueError)
