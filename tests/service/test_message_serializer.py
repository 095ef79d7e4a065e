"""MessageSerializer: it reads and writes the same values as LangGraph's serializer."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.serde.jsonplus import EXT_PYDANTIC_V2, JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Interrupt, Overwrite

from agent_factory.service.message_serializer import MessageSerializer
from tables import each

theirs, ours = JsonPlusSerializer(), MessageSerializer()


@dataclass
class Note:
    text: str


class Color(Enum):
    RED = "red"


texts = st.text(max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts,
    lambda values: st.lists(values, max_size=2) | st.dictionaries(texts, values, max_size=2),
    max_leaves=4,
)
objects = st.dictionaries(texts, json_values, max_size=2)
contents = texts | st.lists(
    texts | st.fixed_dictionaries({"type": st.just("text"), "text": texts}), max_size=2
)
shared: dict[str, Any] = {
    "content": contents,
    "id": st.none() | texts,
    "name": st.none() | texts,
    "additional_kwargs": objects,
    "response_metadata": objects,
}
calls = st.fixed_dictionaries({"name": texts, "args": objects, "id": st.none() | texts})
counts = st.integers(0, 1000)
others = st.one_of(
    texts.map(HumanMessage),
    texts.map(Note),
    st.tuples(texts),
    st.frozensets(texts, max_size=2),
    st.sampled_from([Color.RED, UUID(int=1), datetime(2026, 1, 1), Decimal("1.5"), b"1", 1.5]),
    texts.map(lambda text: OrderedDict(text=text)),
    texts.map(lambda text: [{"note": Note(text)}]),
)
"""What msgpack does not know, or what pydantic would copy."""
usage = st.fixed_dictionaries(
    {"input_tokens": counts, "output_tokens": counts, "total_tokens": counts}
)
messages = st.one_of(
    st.builds(HumanMessage, **shared),
    st.builds(HumanMessage, **shared, more=json_values | others),
    st.builds(SystemMessage, **shared),
    st.builds(
        AIMessage,
        **shared,
        tool_calls=st.lists(calls, max_size=2),
        usage_metadata=st.none() | usage,
    ),
    st.builds(
        ToolMessage,
        **shared,
        tool_call_id=texts,
        artifact=json_values | others,
        status=st.sampled_from(["success", "error"]),
    ),
    st.just(AIMessageChunk(content="a")),
    texts.map(lambda id: RemoveMessage(id=id)),
)
values = st.recursive(
    messages | json_values.map(lambda value: Interrupt(value, id="1")) | json_values,
    lambda parts: st.lists(parts, max_size=4) | parts.map(Overwrite),
    max_leaves=6,
)


def parts_of(value: object) -> object:
    """A value and what a message in it consists of, which `==` does not compare."""
    if isinstance(value, BaseMessage):
        extra, private = value.__pydantic_extra__, value.__pydantic_private__
        return type(value), value.__dict__, value.model_fields_set, extra, private
    return value


@pytest.mark.long
@pytest.mark.law
@given(values | st.lists(messages, max_size=4).map(_DeltaSnapshot))
def test_it_reads_and_writes_what_langgraph_does(value: object) -> None:
    stored = theirs.dumps_typed(value)
    assert ours.dumps_typed(value) == stored
    read, expected = ours.loads_typed(stored), theirs.loads_typed(stored)
    assert (type(read), read) == (type(expected), expected)
    if isinstance(expected, BaseMessage | list):
        whole, wanted = (part if isinstance(part, list) else [part] for part in (read, expected))
        assert [*map(parts_of, whole)] == [*map(parts_of, wanted)]


@each("change", [{"more": 1}, {"name": ...}])
def test_fields_of_another_release_are_read_by_langgraph(change: dict[str, Any]) -> None:
    """A field that this release does not know, and one that an earlier one did not have."""
    fields: dict[str, Any] = {**HumanMessage("Hi").model_dump(), **change}
    fields = {key: value for key, value in fields.items() if value is not ...}
    parts = (HumanMessage.__module__, "HumanMessage", fields, "model_validate_json")
    stored = ormsgpack.packb(ormsgpack.Ext(EXT_PYDANTIC_V2, ormsgpack.packb(parts)))
    read = ours.loads_typed(("msgpack", stored))
    assert parts_of(read) == parts_of(theirs.loads_typed(("msgpack", stored)))
    assert (read.text, read.name) == ("Hi", None)


@each("parts", [["module", "name", {}], [[], "name", {}, ""], "text"])
def test_an_extension_in_another_form_is_read_by_langgraph(parts: object) -> None:
    stored = ormsgpack.packb(ormsgpack.Ext(EXT_PYDANTIC_V2, ormsgpack.packb(parts)))
    assert ours.loads_typed(("msgpack", stored)) == theirs.loads_typed(("msgpack", stored))
