"""Values for objects by their identity: tools, for example, need not be hashable."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import Generic, TypeVar
from weakref import ref

V = TypeVar("V")


class IdentityMap(Generic[V]):
    """Values for objects; each value ends with its object.

    A tool that is made for a request may close over the request. A value with a reference to
    its object would keep the object. Of more values than `size`, the oldest is dropped.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[int, tuple[ref[object] | None, object, V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: object) -> V | None:
        """Return the value of an object, or None."""
        # An id passes to another object after the first object is gone, so the object itself is
        # compared.
        reference, strong_key, value = self._entries.get(id(key), (None, None, None))
        return value if (strong_key if reference is None else reference()) is key else None

    def add(self, key: object, value: V) -> V:
        """Set the value of an object, and return it."""
        try:
            # The reference calls `pop(id, reference)` when the object is gone.
            reference = ref(key, partial(self._entries.pop, id(key)))
            self._entries[id(key)] = reference, None, value
        except TypeError:
            # A dict takes no weak reference, and is kept until newer objects push it out.
            self._entries[id(key)] = None, key, value
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)
        return value
