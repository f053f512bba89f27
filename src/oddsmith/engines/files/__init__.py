"""Tables in files, larger than memory: Parquet, CSV, Arrow.

The path of the data: `paths` (which files) → `columnar`, `text` (ranges of rows) → `parts` (tasks and pieces) →
`engine` (threads, order) with `block_cache` (data kept for later passes).
"""

from typing import TYPE_CHECKING

from oddsmith.engines.files.engine import FilesEngine

if TYPE_CHECKING:
    from oddsmith.engines.files.parts import FileParts

__all__ = ["FileParts", "FilesEngine"]


def __getattr__(name: str) -> object:
    # pyarrow is loaded when files are read, not with every model.
    if name != "FileParts":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from oddsmith.engines.files.parts import FileParts

    return FileParts
