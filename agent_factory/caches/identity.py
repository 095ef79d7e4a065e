"""Identity caches: results for objects that need not be hashable, such as models and tools."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from operator import is_
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class ByIdentity(tuple[Any, ...]):
    """Objects as a key that compares them by identity, and keeps them, so no id is used again."""

    def __hash__(self) -> int:
        return hash(tuple(map(id, self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and len(self) == len(other) and all(map(is_, self, other))


class IdentityCache(Generic[V]):
    """Function of objects that remembers its last results by the identity of the objects.

    Args:
        read: The function.
        size: How many results are kept.

    >>> names = IdentityCache(lambda tool: tool["name"], size=16)
    >>> names({"name": "search"})
    'search'
    """

    def __init__(self, read: Callable[..., V], size: int) -> None:
        self._read = lru_cache(size)(lambda objects: read(*objects))

    def __call__(self, *objects: Any) -> V:
        return self._read(ByIdentity(objects))
