"""Checkpoints of a fit to data in pieces: a journal is opened with the data and finished with the fit."""

from __future__ import annotations

import os
from contextvars import ContextVar
from typing import TYPE_CHECKING

from sklearn.base import BaseEstimator

from oddsmith.engines import Parts
from oddsmith.errors import InvalidInputError

if TYPE_CHECKING:
    from oddsmith.design.data_summary import Roles
    from oddsmith.persistence.journal import Journal

_CURRENT: ContextVar[tuple[BaseEstimator, list[Journal]] | None] = ContextVar("running_fit", default=None)
"""The model of a fit in progress, and the journals that were opened for it."""


class checkpointed:  # noqa: N801
    """The context of a fit: its journals are marked as finished when it succeeds, and closed in any case."""

    def __init__(self, model: BaseEstimator) -> None:
        self.model, self.journals = model, list[Journal]() if TYPE_CHECKING else []

    def __enter__(self) -> None:
        self.token = _CURRENT.set((self.model, self.journals))

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        try:
            for journal in self.journals if kind is None else ():
                journal.finish()
        finally:
            _CURRENT.reset(self.token)
            for journal in self.journals:
                journal.close()


def with_journal(parts: Parts, resume: str | os.PathLike[str] | None, roles: Roles) -> Parts:
    """Return the parts with their engine wrapped by a journal in the file ``resume``; unchanged if None.

    Parts with a ``fingerprint`` are recognised by it when a fit is resumed; others are summarised again, and compared.
    """
    if resume is None:
        return parts
    from oddsmith.engines.scan import Wrapped
    from oddsmith.persistence.journal import Journal
    from oddsmith.persistence.model_file import register_types  # it imports every model
    from oddsmith.persistence.sealed_bytes import digest

    current = _CURRENT.get()
    if current is None:
        raise InvalidInputError("resume= works only in fit. Leave it out here.")
    model, journals = current
    register_types()
    fingerprint = getattr(parts, "fingerprint", None)
    about = {
        "model": f"{model!r} ({digest(model.get_params(deep=False))[:16]})",
        "data": f"{fingerprint or (parts.columns, parts.expected_rows)}",
        "columns": str(roles),
    }
    journal = Journal(resume, parts.engine, about, trusted=fingerprint is not None)
    journals.append(journal)
    return Wrapped(parts, journal)
