"""Serializer of a service: messages in LangGraph's format, written and read without pydantic.

LangGraph does not document the format; `tests/service/test_message_serializer.py` compares this
serializer with LangGraph's.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import ormsgpack
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde import jsonplus

_PACKED = (
    ormsgpack.OPT_NON_STR_KEYS
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_UUID
    | ormsgpack.OPT_REPLACE_SURROGATES
)
"""The options LangGraph writes with."""

# Stored, since pydantic takes as long to return the fields of a class as the rest of a write.
_FIELDS: Mapping[type, frozenset[str]] = {
    message_type: frozenset(message_type.model_fields)
    for message_type in (AIMessage, HumanMessage, SystemMessage, ToolMessage)
}
_MESSAGE_TYPES = {f"{each.__module__}.{each.__name__}": each for each in _FIELDS}

_set = object.__setattr__


class MessageSerializer(jsonplus.JsonPlusSerializer):
    """LangGraph's serializer, which reads and writes messages in less than half of the time.

    langgraph-checkpoint 4.3, `serde/jsonplus.py`: a message is stored as an extension of msgpack
    with the names of its module and class, and all its fields. LangGraph copies the fields to write
    a message, and validates the fields to read a message. Fields of plain values need no copy, and
    fields from a valid message are valid, so messages of langchain-core's classes need neither.
    LangGraph writes and reads all other values, and messages with other fields.
    """

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Write a value."""
        if obj is None or isinstance(obj, bytes | bytearray):
            return super().dumps_typed(obj)
        return "msgpack", ormsgpack.packb(obj, default=self._stored, option=_PACKED)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Read a value."""
        return self._unpacked(data[1]) if data[0] == "msgpack" else super().loads_typed(data)

    def _stored(self, value: Any) -> Any:
        """The stored form of a value that msgpack does not know."""
        message_type = type(value)
        known = _FIELDS.get(message_type)
        if known and known == value.__dict__.keys() and not value.__pydantic_extra__:
            names = (message_type.__module__, message_type.__name__)
            parts = (*names, value.__dict__, "model_validate_json")
            with suppress(ormsgpack.MsgpackEncodeError):  # a value that pydantic would copy
                return ormsgpack.Ext(
                    jsonplus.EXT_PYDANTIC_V2, ormsgpack.packb(parts, option=_PACKED)
                )
        _, content = super().dumps_typed(value)
        return ormsgpack.unpackb(content, ext_hook=ormsgpack.Ext)

    def _unpacked(self, content: bytes) -> Any:
        option = ormsgpack.OPT_NON_STR_KEYS
        return ormsgpack.unpackb(content, ext_hook=self._value, option=option)

    def _value(self, code: int, content: bytes) -> Any:
        if code == jsonplus.EXT_PYDANTIC_V2:
            parts = self._unpacked(content)
            # Not `match`, which takes as long as the rest of the function.
            if type(parts) is list and len(parts) == 4 and type(parts[2]) is dict:
                message_type = _MESSAGE_TYPES.get(f"{parts[0]}.{parts[1]}")
                if message_type is not None and parts[2].keys() == _FIELDS[message_type]:
                    return _message(message_type, parts[2])
        elif code == jsonplus.EXT_DELTA_SNAPSHOT:
            return self._extension(code, ormsgpack.packb(None))._replace(
                value=self._unpacked(content)
            )
        return self._extension(code, content)

    def _extension(self, code: int, content: bytes) -> Any:
        """The value of an extension, as LangGraph reads it."""
        return super().loads_typed(("msgpack", ormsgpack.packb(ormsgpack.Ext(code, content))))


def _message(message_type: type[BaseMessage], fields: dict[str, Any]) -> BaseMessage:
    """A message with these fields, without validation.

    pydantic 2: `BaseModel.model_construct` sets these four attributes, after a slow look at each
    field.
    """
    message = message_type.__new__(message_type)
    _set(message, "__dict__", fields)
    _set(message, "__pydantic_fields_set__", set(fields))
    _set(message, "__pydantic_extra__", {})
    _set(message, "__pydantic_private__", None)
    return message


_serializer = MessageSerializer()


def dump(value: object) -> bytes:
    """Serialize a value as LangGraph does, with its format in front."""
    kind, data = _serializer.dumps_typed(value)
    return kind.encode() + b" " + data


def load(data: bytes) -> Any:
    """Read a value that `dump` wrote."""
    kind, _, rest = bytes(data).partition(b" ")
    return _serializer.loads_typed((kind.decode(), rest))
