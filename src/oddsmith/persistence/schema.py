"""The versions of a model file's document: this one is written, older ones are brought up to it, newer ones refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from oddsmith.errors import ModelFileError
from oddsmith.persistence.codec import decode, encode
from oddsmith.persistence.file import named, pack, read, write

SCHEMA = 1  # The version that is written. It rises when a file can no longer be read as one of the version before.

Document = dict[str, Any]

MIGRATIONS: dict[int, Callable[[Document], Document]] = {}
"""For each older version, the function from its document to that of the next one."""


def write_model(path: str | os.PathLike[str], model: object, provenance: dict[str, Any]) -> None:
    """Write an object of registered types, and where it comes from (plain JSON).

    >>> import tempfile
    >>> from oddsmith.persistence import register
    >>> from oddsmith.records import Certificate
    >>> given = register(Certificate)(converged=True, gap=1e-20, gradient_norm=1e-9, condition=10.0, passes=6)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_model(f"{folder}/c.odds", given, {"from": "a test"})
    ...     read_model(f"{folder}/c.odds").gap
    1e-20
    """
    node, tensors = encode(model)
    write(path, pack({"schema": SCHEMA, "provenance": provenance, "model": node}, tensors))


def read_model(path: str | os.PathLike[str]) -> Any:
    """Return the object in a file."""
    with named(path):
        document, tensors = read(path)
        return decode(up_to_date(document)["model"], tensors)


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the type, version and provenance in a model file, without loading the model.

    >>> import tempfile
    >>> from oddsmith import LogisticRegression
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "b", "a", "b"]).save(f"{folder}/m.odds")
    ...     about = describe(f"{folder}/m.odds")
    >>> about["model"], about["schema"], about["provenance"]["rows"], about["provenance"]["columns"]
    ('LogisticRegression', 1, 4, 1)
    """
    with named(path):
        document = up_to_date(read(path)[0])
    return {"model": document["model"]["type"], "schema": document["schema"], "provenance": document["provenance"]}


def up_to_date(document: Document) -> Document:
    """Return a document of any older version as one of this version.

    >>> up_to_date({"schema": 99})
    Traceback (most recent call last):
    ...
    oddsmith.errors.ModelFileError: It was written by a newer version of oddsmith (schema 99; this one reads up to ...
    """
    version = document.get("schema")
    if type(version) is not int or version < 1:
        raise ModelFileError(f"It does not say which schema it has (found {version!r:.60}).")
    if version > SCHEMA:
        raise ModelFileError(
            f"It was written by a newer version of oddsmith (schema {version}; this one reads up to {SCHEMA}). Upgrade "
            "oddsmith, or save the model again with this version."
        )
    for earlier in range(version, SCHEMA):
        document = {**MIGRATIONS[earlier](document), "schema": earlier + 1}
    model, provenance = document.get("model"), document.get("provenance")
    if not (isinstance(model, dict) and isinstance(model.get("type"), str) and isinstance(provenance, dict)):
        raise ModelFileError("It holds no model.")
    return document
