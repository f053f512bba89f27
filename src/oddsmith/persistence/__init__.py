"""The model file: one safetensors file of numbers and JSON, written atomically, which runs no code.

``codec`` turns values into JSON nodes and tensors, ``arrays`` holds the rules for arrays, ``file`` writes and reads,
and ``schema`` knows the versions. None of them knows a model: types are looked up in a registry that
`oddsmith.persistence.model_file` fills. The format is described in ``docs/model_file.md``.
"""

from oddsmith.persistence.codec import decode, encode, register
from oddsmith.persistence.schema import SCHEMA, describe, read_model, write_model

__all__ = ["SCHEMA", "decode", "describe", "encode", "read_model", "register", "write_model"]
