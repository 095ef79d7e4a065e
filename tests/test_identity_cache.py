"""A bounded cache keyed by the identity of objects."""

from __future__ import annotations

import gc
import weakref

from agent_factory.state.identity_cache import IdentityCache


class Thing:
    """Something that can be referred to weakly."""


def test_a_value_is_found_by_the_identity_of_its_object_not_by_equality() -> None:
    cache, key = IdentityCache[str](4), [1]
    cache.put("value", key)
    assert cache.get(key) == "value"
    assert cache.get([1]) is None


def test_several_objects_and_an_extra_value_are_one_key() -> None:
    cache, model, tool = IdentityCache[str](4), object(), object()
    cache.put("bound", model, tool, extra="auto")
    assert cache.get(model, tool, extra="auto") == "bound"
    assert cache.get(tool, model, extra="auto") is None
    assert cache.get(model, extra="auto") is None
    assert cache.get(model, tool, extra="any") is None


def test_the_oldest_entry_goes_when_the_cache_is_full() -> None:
    cache, keys = IdentityCache[int](2), [object() for _ in range(3)]
    for number, key in enumerate(keys):
        cache.put(number, key)
    assert [cache.get(key) for key in keys] == [None, 1, 2]


def test_an_entry_that_is_stored_again_is_the_newest() -> None:
    cache, keys = IdentityCache[int](2), [object() for _ in range(3)]
    for number in (0, 1, 0, 2):
        cache.put(number, keys[number])
    assert [cache.get(key) for key in keys] == [0, None, 2]


def test_an_object_is_held_as_long_as_its_entry_so_that_its_id_is_not_reused() -> None:
    cache, key = IdentityCache[int](2), Thing()
    alive = weakref.ref(key)
    cache.put(1, key)
    del key
    gc.collect()
    thing = alive()
    assert thing is not None
    assert cache.pop(thing) == 1
    del thing
    gc.collect()
    assert alive() is None


def test_an_entry_is_popped_once() -> None:
    cache, key = IdentityCache[int](2), object()
    cache.put(1, key)
    assert cache.pop(key) == 1
    assert cache.pop(key) is None
