"""Values for objects by their identity: tools, for example, need not be hashable."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import ref

V = TypeVar("V")


class IdentityCache(Generic[V]):
    """Values made for objects; each value ends with its object.

    A tool that is made for a request may close over the request. A value with a reference to
    its object would keep the object. Of more values than `SIZE`, the oldest is dropped.
    """

    SIZE = 1024

    def __init__(self, make: Callable[[Any], V]) -> None:
        self._make = make
        self._entries: OrderedDict[int, tuple[Callable[[], object], V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def of(self, key: object) -> V:
        """The value for an object."""
        # An id passes to another object after the first object is gone, so the object itself is
        # compared.
        entry = self._entries.get(id(key))
        if entry is not None and entry[0]() is key:
            return entry[1]
        value = self._make(key)
        try:
            # The reference calls `pop(id, reference)` when the object is gone.
            self._entries[id(key)] = ref(key, partial(self._entries.pop, id(key))), value
        except TypeError:
            # A dict takes no weak reference, and is kept until newer objects push it out.
            self._entries[id(key)] = (lambda: key), value
        if len(self._entries) > self.SIZE:
            self._entries.popitem(last=False)
        return value
