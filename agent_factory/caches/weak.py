"""Weak caches: what was read of a class or a function, for as long as that exists."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

K = TypeVar("K")
V = TypeVar("V")


def weak_cache(read: Callable[[K], V]) -> Callable[[K], V]:
    """Decorator: cache of a function of one object, in which a result ends with its object.

    A class that is made for a request is not kept, nor what its methods close over. A result that
    refers to the object would keep it. What cannot be referred to weakly is read each time.

    >>> @weak_cache
    ... def methods_of(cls):
    ...     print("reads", cls.__name__)
    ...     return [name for name in vars(cls) if not name.startswith("_")]
    >>> class Tool:
    ...     def run(self): ...
    >>> methods_of(Tool), methods_of(Tool)
    reads Tool
    (['run'], ['run'])
    """
    results: WeakKeyDictionary[K, V] = WeakKeyDictionary()

    @wraps(read)
    def cached(value: K) -> V:
        try:
            return results[value]
        except KeyError:
            result = results[value] = read(value)
            return result
        except TypeError:
            return read(value)

    return cached
