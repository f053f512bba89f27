"""Fits that can be interrupted: their journal is opened with the data, and ends with the fit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from oddsmith.engines import Parts
from oddsmith.engines.scan import Wrapped
from oddsmith.errors import InvalidInputError
from oddsmith.persistence.journal import Journal
from oddsmith.persistence.messages import digest


@dataclass
class Fitting:
    """A fit that is going on: its model, and the journals that were opened for it."""

    model: Any
    journals: list[Journal] = field(default_factory=list)


_NOW: ContextVar[Fitting | None] = ContextVar("fitting", default=None)


@contextmanager
def fitting(model: Any) -> Iterator[None]:
    """Surround a fit: its journals are marked when it has ended well, and closed in any case."""
    now = Fitting(model)
    token = _NOW.set(now)
    try:
        yield
        for journal in now.journals:
            journal.finish()
    finally:
        _NOW.reset(token)
        for journal in now.journals:
            journal.close()


def resumable(parts: Parts, resume: str | os.PathLike[str] | None, roles: Any) -> Parts:
    """Return the parts with a journal in the file ``resume`` around their engine; None: as they are.

    Parts that have a ``fingerprint`` are known by it when a fit is resumed; others are surveyed again, and compared.
    """
    if resume is None:
        return parts
    from oddsmith.models.saving import register_types  # it imports every model

    now = _NOW.get()
    if now is None:
        raise InvalidInputError("resume= is for fit. Leave it out here.")
    register_types()
    fingerprint = getattr(parts, "fingerprint", None)
    about = {
        "model": f"{now.model!r} ({digest(now.model.get_params(deep=False))[:16]})",
        "data": f"{fingerprint or (parts.columns, parts.expected_rows)}",
        "columns": str(roles),
    }
    journal = Journal(resume, parts.engine, about, trusted=fingerprint is not None)
    now.journals.append(journal)
    return Wrapped(parts, journal)
