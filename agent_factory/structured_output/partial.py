"""Structured answers while they arrive: objects that only grow."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from types import UnionType
from typing import Any, Generic

from langchain_core.messages import AIMessage
from pydantic_core import to_jsonable_python

from agent_factory.errors import ArgumentError, describe
from agent_factory.structured_output.partial_json import grows, partial_object
from agent_factory.structured_output.partial_message import PartialMessage
from agent_factory.structured_output.schema import VALUE
from agent_factory.structured_output.strategies import (
    AutoStrategy,
    ProviderStrategy,
    ResponseFormat,
    SchemaT,
    as_response_format,
)

Format = ResponseFormat[SchemaT] | type[SchemaT] | UnionType | dict[str, Any]
"""What an agent takes as `response_format`."""

# The node of `create_agent`, and the last node of `create_react_agent`. Models called by tools
# stream from the node of the tools.
_NODES = ("model", "generate_structured_response")
_HINT = 'Write agent.stream(input, stream_mode=["messages", "updates"], version="v2").'


class PartialAnswer(dict[str, Any], Generic[SchemaT]):
    """A structured answer so far: a dict of plain values, as in JSON.

    Attributes:
        schema: The name of the schema, which tells the members of a union apart; None for an answer
            from elsewhere than the model, and for JSON as text with a union.
        restarted: True if the object replaces the object before, and does not continue it.
        answer: The instance of the schema; None until the agent accepts the answer.
    """

    def __init__(
        self, value: dict[str, Any], schema: str | None, restarted: bool, answer: SchemaT | None
    ) -> None:
        super().__init__(value)
        self.schema, self.restarted, self.answer = schema, restarted, answer

    @property
    def is_complete(self) -> bool:
        """True if the agent has accepted the answer."""
        return self.answer is not None


class PartialAnswerReader(Generic[SchemaT]):
    """Reader of one stream, for code that needs the other parts of the stream, too.

    Args:
        response_format: The format of the agent: a schema, a union of schemas, or a strategy.

    >>> reader = PartialAnswerReader({"title": "point", "type": "object"})
    >>> from langchain_core.messages import AIMessageChunk
    >>> chunk = AIMessageChunk('{"x": 1, "y": 2', id="1")
    >>> reader.read(("messages", (chunk, {"langgraph_node": "model"})))
    {'x': 1}
    """

    def __init__(self, response_format: Format[SchemaT]) -> None:
        strategy: Any = as_response_format(response_format)
        strategy = strategy or AutoStrategy(response_format)  # type: ignore[arg-type]
        self._in_calls = not isinstance(strategy, ProviderStrategy)
        by_tool = getattr(strategy, "by_tool", strategy)
        specs = by_tool.schema_specs if self._in_calls else [strategy.schema_spec]
        self._specs = {spec.name: spec for spec in specs}
        self._in_text = len(specs) == 1
        # The namespace of the agent: the first part may have a longer one, of an agent inside.
        self._namespace: tuple[str, ...] | None = None
        self._message = PartialMessage()
        self._last: dict[str, Any] | None = None
        self._begins = self._has_updates = False

    def read(self, part: Any) -> PartialAnswer[SchemaT] | None:
        """Return the answer after a part of the stream, or None if the part does not change it.

        Raises:
            ArgumentError: The part is not from a stream with several modes.
        """
        match part:
            case {"type": str(mode), "ns": namespace, "data": data} | (namespace, str(mode), data):
                pass
            case (str(mode), data):
                namespace = ()
            case _:
                reason = f"must be of several modes, got {describe(part)}."
                raise ArgumentError("partial_answers parts", reason, _HINT)
        # Agents inside have longer namespaces. Inside a graph, this agent has a namespace, too.
        if self._namespace is None or len(namespace) < len(self._namespace):
            self._namespace = namespace
        if namespace != self._namespace or mode not in ("messages", "updates"):
            return None
        return self._read_message(*data) if mode == "messages" else self._read_updates(data)

    def close(self) -> None:
        """Check the mode "updates" at the end of the stream.

        Raises:
            ArgumentError: The stream had only messages, so no answer was complete.
        """
        if self._message.ids and not self._has_updates:
            reason = 'must be of two modes, got "messages" alone.'
            raise ArgumentError("partial_answers parts", reason, _HINT)

    def _read_message(self, message: object, metadata: Any) -> PartialAnswer[SchemaT] | None:
        if not isinstance(message, AIMessage) or metadata.get("langgraph_node") not in _NODES:
            return None
        if not self._message.continues_with(message):
            self._message, self._begins = PartialMessage(), True
        self._message.add(message)
        schema, text = self._source()
        value = None if schema is None else partial_object(text, self._specs[schema].json_schema)
        if value is not None and self._specs[str(schema)].is_wrapped and value.keys() <= {VALUE}:
            value = inner if isinstance(inner := value.get(VALUE), dict) else None
        if value is None or (value == self._last and not self._begins):
            return None
        return self._next(value, schema)

    def _source(self) -> tuple[str | None, str]:
        """The name of the schema of the message, and the text of the answer."""
        message = self._message
        if message.calls:
            names = self._specs if self._in_calls else ()
            return next((call for call in message.calls.values() if call[0] in names), (None, ""))
        return (next(iter(self._specs)), message.text) if self._in_text else (None, "")

    def _read_updates(self, updates: Mapping[str, Any]) -> PartialAnswer[SchemaT] | None:
        # Without this mode the loop would end, and no object would ever be complete.
        self._has_updates = True
        # A node with several updates has a list of them.
        nodes = [node if isinstance(node, list) else [node] for node in updates.values()]
        writes = [write for node in nodes for write in node if isinstance(write, Mapping)]
        answers = [w["structured_response"] for w in writes if "structured_response" in w]
        answer = answers[-1] if answers else None
        value = to_jsonable_python(answer, fallback=str)
        return self._next(value, self._source()[0], answer) if isinstance(value, dict) else None

    def _next(
        self, value: dict[str, Any], schema: str | None, answer: SchemaT | None = None
    ) -> PartialAnswer[SchemaT]:
        # A validator may change the answer of the model, so even the last object may not
        # continue the object before.
        last, begins, self._last, self._begins = self._last, self._begins, value, False
        restarted = last is not None and (begins or not grows(last, value))
        return PartialAnswer(value, schema, restarted, answer)


def partial_answers(
    parts: Iterable[Any], response_format: Format[SchemaT]
) -> Iterator[PartialAnswer[SchemaT]]:
    """Yield the structured answer of an agent while it arrives, each time it grows.

    An object only grows: a field stays, a string gets longer, a list gets more items. Numbers,
    booleans, nulls and strings of an enum appear when they are complete. Where the model begins
    again, after an invalid answer for example, the first object is marked as `restarted`. The last
    object has the `answer` that the state has as `structured_response`. Parts of agents inside are
    skipped, and answers that are not JSON objects.

    Args:
        parts: The stream of the agent, with `stream_mode=["messages", "updates"]` or more modes.
        response_format: The format of the agent: a schema, a union of schemas, or a strategy.

    Raises:
        ArgumentError: The stream has other modes, or `response_format` cannot be used.

    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> model, schema = ScriptedChatModel(['{"subject": "Broken lamp"}']), {"type": "object"}
    >>> agent = create_agent(model, response_format=ProviderStrategy(schema))
    >>> parts = agent.stream({"messages": "Hi"}, stream_mode=["messages", "updates"], version="v2")
    >>> for partial in partial_answers(parts, schema):
    ...     print(partial, partial.is_complete)
    {} False
    {'subject': 'Broken '} False
    {'subject': 'Broken lamp'} False
    {'subject': 'Broken lamp'} True
    """
    reader = PartialAnswerReader(response_format)
    for part in parts:
        if (partial := reader.read(part)) is not None:
            yield partial
    reader.close()


async def apartial_answers(
    parts: AsyncIterable[Any], response_format: Format[SchemaT]
) -> AsyncIterator[PartialAnswer[SchemaT]]:
    """Yield the structured answer while it arrives, from `astream`; see `partial_answers`."""
    reader = PartialAnswerReader(response_format)
    try:
        async for part in parts:
            if (partial := reader.read(part)) is not None:
                yield partial
    finally:
        if close := getattr(parts, "aclose", None):  # else a run goes on until it is garbage
            await close()
    reader.close()
