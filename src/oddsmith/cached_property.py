"""Values that are computed once and kept on their object."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    cached_property = functools.cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801
        """`functools.cached_property` as it is from Python 3.12 on: without a lock for all objects of a class.

        A process that is forked while another thread computes a value would wait for such a lock for ever.

        >>> class Square:
        ...     @cached_property
        ...     def area(self):
        ...         return 4
        >>> Square().area
        4
        """

        def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
            if instance is None:
                return self
            kept = instance.__dict__
            if self.attrname not in kept:
                kept[self.attrname] = self.func(instance)
            return kept[self.attrname]
