"""One module per library; each lists its adapters in ``ADAPTERS``, and here they are found."""

from __future__ import annotations

import importlib
import pkgutil

from .base import Peer

SUBJECT = "oddsmith"


def _found() -> dict[str, Peer]:
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name != "base")
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    adapters = [adapter for module in modules for adapter in module.ADAPTERS]
    adapters.sort(key=lambda adapter: (adapter.name != SUBJECT, adapter.name))
    return {adapter.name: adapter for adapter in adapters}


PEERS: dict[str, Peer] = _found()
