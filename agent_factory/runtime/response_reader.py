"""Read a model's answer: its structured answer, and calls that no node could answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from agent_factory.errors import BadReturn, OutputError, describe
from agent_factory.runtime.spec import AgentSpec
from agent_factory.state.history import answers_of, call_ids, last_turn
from agent_factory.state.schema import RETRIES
from agent_factory.structured_output.strategies import (
    EXPLANATION_KWARGS,
    ProviderStrategy,
    Strategy,
    StructuredOutputError,
    ToolStrategy,
    strategy_for,
)
from agent_factory.types import ModelResponse


def retry_count(state: Mapping[str, Any]) -> int:
    """How often, in this run, the model was told what was wrong with its structured answer."""
    return int(state.get(RETRIES) or 0)


class ResponseReader:
    """Reads what a model answers in one agent.

    Args:
        spec: The agent.
    """

    def __init__(self, spec: AgentSpec) -> None:
        self._name = spec.name
        # Calls that are answered elsewhere: by the tools node, or by whoever the agent is part of.
        self._has_tools = spec.has_tools or not spec.repairs_history
        self._format = spec.response_format
        self._model = spec.model

    def read(self, strategy: Strategy, answer: Any, failures: int) -> ModelResponse[Any]:
        """A model's answer as a response.

        Args:
            strategy: How a structured answer was asked for.
            answer: What the model gave.
            failures: How often it was already asked again in this run.

        Raises:
            BadReturn: It gave no AIMessage.
            OutputError: It gave no usable structured answer, and may not be asked again.
        """
        if not isinstance(answer, AIMessage):
            raise BadReturn("the model", f"answered {describe(answer)}.", "Use a chat model.")
        message = _identified(answer)
        if self._name is not None:
            # A copy: the model may give the same object again, to another agent too.
            message = message.model_copy(update={"name": self._name})
        replies, value = self._replies(strategy, message, failures)
        return ModelResponse(result=[message, *replies], structured_response=value)

    def finish(self, response: ModelResponse[Any], failures: int) -> ModelResponse[Any]:
        """A response that came through all layers, with what they left unanswered.

        A layer may give an answer of its own, or hand on the message without the replies to it.

        Raises:
            BadReturn: There is no answer in it.
        """
        message, tail = last_turn(response.result)  # type: ignore[arg-type]  # messages, all
        if message is None:
            raise BadReturn(
                "a wrap_model_call layer",
                "returned a response without an AIMessage.",
                "Return what the handler gave, or an AIMessage of your own.",
            )
        strategy = strategy_for(self._format, self._model)
        left = set(call_ids(message)) - answers_of(tail).keys()
        if not left:
            return _with_provided(strategy, response, message)
        if self._has_tools and not _names(message, left) & _output_tools(strategy):
            return response
        replies, value = self._replies(strategy, message, failures)
        missing = [r for r in replies if isinstance(r, ToolMessage) and r.tool_call_id in left]
        return replace(
            response,
            result=[*response.result, *missing],
            structured_response=value
            if response.structured_response is None
            else response.structured_response,
        )

    def _replies(
        self, strategy: Strategy, message: AIMessage, failures: int
    ) -> tuple[list[BaseMessage], Any]:
        replies, value = ([], None) if strategy is None else self._read(strategy, message, failures)
        if self._has_tools:
            return replies, value
        return [*replies, *_unknown_tool_replies(strategy, message, replies, failures)], value

    def _read(
        self,
        strategy: ToolStrategy[Any] | ProviderStrategy[Any],
        message: AIMessage,
        failures: int,
    ) -> tuple[list[BaseMessage], Any]:
        replies, value = strategy.read(message, failures)
        if value is None and replies and self._format is None and not self._has_tools:
            raise OutputError(
                "a wrap_model_call layer",
                f"asked for a structured answer and got none: {replies[0].text}",
                "Give create_agent a response_format, so that there is a way back to the model.",
                ai_message=message,
            )
        return replies, value


def _with_provided(
    strategy: Strategy, response: ModelResponse[Any], message: AIMessage
) -> ModelResponse[Any]:
    """The response with the answer a provider wrote, where a layer left it out."""
    if not isinstance(strategy, ProviderStrategy) or response.structured_response is not None:
        return response
    try:
        value: Any = strategy.binding.parse(message)
    except StructuredOutputError:  # a layer's own words, which need not be an answer
        return response
    return replace(response, structured_response=value)


def _names(message: AIMessage, ids: set[str]) -> set[str | None]:
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    return {call["name"] for call in calls if call["id"] in ids}


def _output_tools(strategy: Strategy) -> set[str]:
    return set(strategy.bindings) if isinstance(strategy, ToolStrategy) else set()


def _identified(message: AIMessage) -> AIMessage:
    """The message with an id for each call: without one it could not be answered."""
    if all(call["id"] for call in (*message.tool_calls, *message.invalid_tool_calls)):
        return message
    changes = {
        field: [{**call, "id": call["id"] or f"call_{uuid4().hex}"} for call in calls]
        for field, calls in (
            ("tool_calls", message.tool_calls),
            ("invalid_tool_calls", message.invalid_tool_calls),
        )
    }
    return message.model_copy(update=changes)


def _unknown_tool_replies(
    strategy: Strategy,
    message: AIMessage,
    replies: Sequence[BaseMessage],
    failures: int,
) -> list[BaseMessage]:
    """Answers to calls of tools that do not exist, where there is no node to answer them."""
    answered = {reply.tool_call_id for reply in replies if isinstance(reply, ToolMessage)}
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    strays = [call for call in calls if call["id"] not in answered]
    if strays and not replies and strategy is not None:
        _refuse_endless(strategy.max_retries, message, failures)
    mark = {} if strategy is None else EXPLANATION_KWARGS
    names = ", ".join(sorted(_output_tools(strategy)))
    return [
        ToolMessage(
            f"Error: {call['name']} is not a valid tool, try one of [{names}].",
            tool_call_id=str(call["id"]),
            name=call["name"],
            status="error",
            additional_kwargs=mark,
        )
        for call in strays
    ]


def _refuse_endless(max_retries: int, message: AIMessage, failures: int) -> None:
    if failures >= max_retries:
        raise OutputError(
            "the model",
            f"asked for tools that do not exist (retries: {failures}).",
            "Tell it in the system prompt that it has none.",
            ai_message=message,
            retries=failures,
        )
