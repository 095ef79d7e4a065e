"""Bounded cache keyed by the identity of objects."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class IdentityCache(Generic[V]):
    """Bounded cache keyed by the identity of one or more objects.

    The cache holds the objects of an entry, so their ids are not reused while it is remembered.
    An entry that is stored again counts as new; when the cache is full, the oldest entry goes.

    >>> cache = IdentityCache[str](size=16)
    >>> tools = ["add"]
    >>> cache.put("bound model", tools)
    >>> cache.get(tools), cache.get(["add"])
    ('bound model', None)
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[Hashable, tuple[tuple[Any, ...], V]] = OrderedDict()

    def get(self, *objects: Any, extra: Hashable = None) -> V | None:
        """Return the value stored for these objects, or None."""
        entry = self._entries.get((extra, *map(id, objects)))
        return None if entry is None else entry[1]

    def put(self, value: V, *objects: Any, extra: Hashable = None) -> None:
        """Store a value for these objects as the newest entry."""
        key = (extra, *map(id, objects))
        self._entries.pop(key, None)
        self._entries[key] = (objects, value)
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)

    def pop(self, *objects: Any, extra: Hashable = None) -> V | None:
        """Remove the entry of these objects and return its value, or None."""
        entry = self._entries.pop((extra, *map(id, objects)), None)
        return None if entry is None else entry[1]
