"""Values as bytes with a checksum, for messages between sites and for journals, in the form of a model file.

A message is a safetensors file in memory with a document of its own ``kind``: numbers and JSON, no code. Its checksum
is verified before anything in it is used.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from oddsmith.errors import MessageError, ModelFileError
from oddsmith.persistence.codec import Encoder, Node, decode, encode
from oddsmith.persistence.file import pack, unpack

SCHEMA = 1  # The version of messages that is written, and the only one that is read.

KINDS = ("answer", "end", "fit", "fold", "journal", "request")


def seal(kind: str, header: dict[str, Any], value: object) -> bytes:
    """Return a message: a header (plain JSON) and a value of registered types.

    >>> unseal("greeting", seal("greeting", {"to": "all"}, ("hello", 3)))
    ({'to': 'all'}, ('hello', 3))
    """
    node, tensors = encode(value)
    return pack({"schema": SCHEMA, "kind": kind, "header": header, "value": node}, tensors)


def unseal(kind: str, data: bytes, software: str | None = None) -> tuple[dict[str, Any], Any]:
    """Return header and value of a message of a kind; anything else is a `MessageError`.

    With ``software``, a message from another version, as its header says, is refused before its value is read.

    >>> unseal("greeting", b"anything")
    Traceback (most recent call last):
    ...
    oddsmith.errors.MessageError: This is not an oddsmith greeting, or it was damaged in transit: send it again.
    """
    try:
        document, tensors = unpack(data)
        schema, found, header = document.get("schema"), document.get("kind"), document.get("header")
        if found != kind or not isinstance(header, dict):
            what = f"one called {found!r}" if found in KINDS else "something else"
            raise MessageError(f"Expected a message called {kind!r}, found {what}. Pass the other one.")
        if schema != SCHEMA:
            raise MessageError(
                f"This {kind} was written by another version of oddsmith (schema {schema!r:.20}; this one has "
                f"{SCHEMA}). Use the same version everywhere."
            )
        if software is not None and header.get("software") != software:
            raise MessageError(
                f"This {kind} was written by {header.get('software')!s:.40}, but this is {software}. Use the same "
                "version everywhere."
            )
        return header, decode(document["value"], tensors)
    except (ModelFileError, LookupError) as error:
        raise MessageError(f"This is not an oddsmith {kind}, or it was damaged in transit: send it again.") from error


def digest(value: object) -> str:
    """Return 64 digits that identify a value: equal values have equal ones, whichever of their parts are shared.

    >>> one, two = [0.5], [0.5]
    >>> digest((one, one)) == digest((one, two)), digest((one, one)) == digest((one, [0.25]))
    (True, False)
    """
    encoder = _Unshared()
    total = hashlib.sha256(json.dumps(encoder.node(value, ""), separators=(",", ":")).encode())
    for name, tensor in encoder.tensors.items():
        total.update(f"{name}\0{tensor.nbytes}\0".encode())
        total.update(tensor.tobytes())
    return total.hexdigest()


class _Unshared(Encoder):
    """An encoder that writes a part as often as it is met."""

    def _remember(self, value: object, node: Node) -> Node:
        return node
