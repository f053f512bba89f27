"""Registries of links, statistics, engines, solvers and models by name.

Tests iterate over these registries, so that nothing registered can skip its checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Generic, SupportsIndex, TypeVar

from oddsmith.errors import InvalidInputError, UnknownNameError

T = TypeVar("T")


def column_number(column: object, known: Mapping[str, int], of: str) -> int:
    """Return the number of a column given by name or number; ``of`` says in the error where the column was listed.

    >>> column_number("b", {"a": 0, "b": 1}, "a group"), column_number(0, {"a": 0, "b": 1}, "a group")
    (1, 0)
    """
    if isinstance(column, str):
        if column not in known:
            raise UnknownNameError("column", column, list(known))
        return known[column]
    if isinstance(column, bool) or not isinstance(column, SupportsIndex) or not 0 <= int(column) < len(known):
        raise InvalidInputError(
            f"A column of {of} must be a name or a number from 0 to {len(known) - 1}, found {column!r}."
        )
    return int(column)


class Registry(Generic[T]):
    """A mapping from names to objects of one kind, filled by a decorator.

    >>> shapes: Registry[type] = Registry("shape")
    >>> @shapes.register("square")
    ... class Square: ...
    >>> shapes["square"] is Square, list(shapes)
    (True, ['square'])
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._things: dict[str, T] = {}
        self._later: dict[str, str] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that files its argument under ``name``."""

        def file_under_name(thing: T) -> T:
            self._things[name] = thing
            return thing

        return file_under_name

    def later(self, name: str, module: str) -> None:
        """Register ``name`` lazily: ``module`` is imported when the name is first looked up."""
        self._later[name] = module

    def __getitem__(self, name: str) -> T:
        try:
            if name in self._later and name not in self._things:
                import_module(self._later[name])
            return self._things[name]
        except (KeyError, TypeError):
            raise UnknownNameError(self.kind, name, list(self)) from None

    def __contains__(self, name: object) -> bool:
        return name in self._things or name in self._later

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._things, *self._later}))

    def items(self) -> list[tuple[str, T]]:
        """Return the pairs of name and thing, by name."""
        return [(name, self[name]) for name in self]
