"""The hook nodes of `create_react_agent`, the routing, and the layer around model calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.prompt_values import PromptValue
from langgraph.errors import ErrorCode, create_error_message
from langgraph.prebuilt.tool_node import ToolCallWithContext
from langgraph.types import Send
from pydantic import BaseModel

from agent_factory.errors import BadReturn, describe
from agent_factory.hooks.base import AgentMiddleware
from agent_factory.hooks.flows import CanInvoke, Flow, Invoke, arun, identity, run
from agent_factory.hooks.introspection import Bound
from agent_factory.models import configured
from agent_factory.prebuilt.react_errors import ReactHistoryError
from agent_factory.prebuilt.react_models import ChosenModel, chat_model_of, choose_model
from agent_factory.prebuilt.react_state import MODEL_INPUT, STEPS, View
from agent_factory.runtime.composition import call_with_streaming
from agent_factory.runtime.routing import Rules, State
from agent_factory.state.history import answers_of
from agent_factory.topology.model import REACT_HOOKS, TOOLS, Hook
from agent_factory.types import ModelRequest, ModelResponse

NEED_MORE_STEPS = "Sorry, need more steps to process this request."
"""The last message of a run that has too few steps left for the tool calls its model asked for."""


@dataclass(frozen=True, slots=True)
class UserHook:
    """A `pre_model_hook` or `post_model_hook`, called with the state in the user's schema."""

    function: CanInvoke
    view: View

    def flow(self, state: Mapping[str, object], runtime: object) -> Flow[Any]:
        """Call the hook and return its update, without the managed `remaining_steps`."""
        result = yield Invoke(self.function, self.view(state))
        if isinstance(result, BaseModel):
            # Only the set fields: the defaults of the rest would overwrite the state.
            result = {key: getattr(result, key) for key in result.model_fields_set}
        if isinstance(result, Mapping):
            # A hook may return the whole state. LangGraph counts the steps itself.
            return {key: value for key, value in result.items() if key != STEPS}
        return result


@dataclass(frozen=True, slots=True)
class Extraction:
    """The call that asks for the structured response, once, after the loop."""

    model: CanInvoke | ChosenModel
    response_format: object  # a schema, or a pair of system prompt and schema
    view: View

    def __post_init__(self) -> None:
        if not isinstance(self.model, ChosenModel):
            chat_model_of(self.model)  # raises now rather than at the end of the first run

    def flow(self, state: Mapping[str, Any], runtime: object) -> Flow[Any]:
        """Ask the model."""
        model = self.model
        if isinstance(model, ChosenModel):
            model = yield from choose_model(model, self.view(state), runtime)
        messages, schema = state["messages"], self.response_format
        if isinstance(schema, tuple):
            prompt, schema = schema
            messages = [SystemMessage(prompt), *messages]
        chat_model = configured(chat_model_of(model))
        answer = yield Invoke(chat_model.with_structured_output(schema), messages)
        return {"structured_response": answer}


def bound(name: str, user_hook: UserHook | Extraction) -> Bound[Hook]:
    """The hook of a node of this name, sync and async."""

    def call(
        driver: Callable[[Flow[Any]], object], state: Mapping[str, object], runtime: object
    ) -> object:
        # Hook nodes disable token streaming; for the user's own nodes it stays on.
        return call_with_streaming(
            lambda state_now: driver(user_hook.flow(state_now, runtime)), state
        )

    hook = Hook(name, REACT_HOOKS[name], at=name)
    return Bound(hook, AgentMiddleware(name=name), partial(call, run), partial(call, arun))


@dataclass(eq=False, kw_only=True)
class ReactRules(Rules):
    """The routing rules of `create_react_agent`."""

    view: Callable[[Any], object] = identity  # converts the state for tools
    together: bool = False  # one run of the tools node takes all calls of a turn (version v1)
    hooked: bool = False  # a `pre_model_hook` runs before each call of the model
    reviewed: bool = False  # a `post_model_hook` sees calls before they run, and may answer them
    structured: bool = False  # a node at the end asks for the structured response

    def sends(
        self, message: AIMessage, tail: Sequence[AnyMessage], state: State
    ) -> str | list[Send]:
        """The tools node with all calls, or a task for each call without an answer."""
        # A post_model_hook may write an answer anywhere in the history.
        answered_ids = answers_of(state["messages"] if self.reviewed else tail)
        calls = [call for call in message.tool_calls if call["id"] not in answered_ids]
        if not calls:
            return []
        # One run of the node takes all calls of the message, answered ones included.
        if self.together and len(calls) == len(message.tool_calls):
            return TOOLS
        visible_state = self.view(state)
        # The task carries the whole state: a task cannot read remaining_steps, say, from a channel.
        return [
            Send(
                TOOLS,
                ToolCallWithContext(
                    __type="tool_call_with_context", tool_call=call, state=visible_state
                ),
            )
            for call in calls
        ]

    def answered(self, state: State) -> bool:
        """Return whether the structured response is there: never, it is made after the loop."""
        return False

    def leaves(self, state: State, tail: Sequence[AnyMessage]) -> bool:
        """Return True if a turn whose calls are answered is the last: no result is left to read."""
        return not (tail and isinstance(tail[-1], ToolMessage))

    def returns(self, message: AIMessage, tail: Sequence[AnyMessage]) -> bool:
        """Return True for a return_direct tool among the tools of this turn."""
        for answer in reversed(tail):
            if not isinstance(answer, ToolMessage):
                return False
            if answer.name in self.direct:
                return True
        # A task sees only one result, so the calls decide, alike for all tasks of a turn.
        return self._calls_direct(message)

    def _calls_direct(self, message: AIMessage) -> bool:
        return any(call["name"] in self.direct for call in message.tool_calls)

    def steps_needed(self, message: AIMessage) -> int:
        """Count the super-steps for the calls of a message and the end of the run."""
        to_return = 2 + self.reviewed  # the model of the message, its hook, the tools
        if self._calls_direct(message):
            return to_return
        # A further turn with the answer: the hooks, the model, and the structured response.
        return to_return + self.hooked + 1 + self.reviewed + self.structured


class ModelCalls(AgentMiddleware[Any, Any]):
    """The layer around model calls: the model, the messages, the prompt, and the steps left."""

    def __init__(
        self, model: object, prompt: CanInvoke | None, view: View, rules: ReactRules
    ) -> None:
        super().__init__(name="model")
        self._model = model
        self._prompt = prompt
        self._view = view
        self._rules = rules

    def around_model(self, request: ModelRequest[Any]) -> Flow[ModelResponse | AIMessage]:
        """Ask the model, and replace tool calls without enough steps left."""
        state = self._view(request.state)  # a pydantic state is validated here
        if isinstance(self._model, ChosenModel):  # it has its tools bound
            model = yield from choose_model(self._model, state, request.runtime)
            request = request.override(model=model, tools=[])
        messages = self._messages(request.state, state)
        own_state: Any = {**request.state, "messages": messages}
        request = request.override(messages=messages, state=own_state)
        if self._prompt is not None:
            prompt = yield Invoke(self._prompt, self._view(request.state))
            # A prompt may be a message or a text.
            several = isinstance(prompt, PromptValue | Sequence) and not isinstance(prompt, str)
            try:
                messages = convert_to_messages(prompt if several else [prompt])
            except (NotImplementedError, TypeError, ValueError) as error:
                raise BadReturn(
                    "prompt",
                    f"must return messages, got {describe(prompt)}: {error}.",
                    "Return a list of messages.",
                ) from error
            request = request.override(messages=messages)
        response: ModelResponse = yield request
        message = response.result[0]
        left: Any = request.state.get(STEPS)
        if left is None or not isinstance(message, AIMessage) or not message.tool_calls:
            return response
        # Without tools for the agent to run there is no loop, which could run out of steps.
        if not self._rules.known or left >= self._rules.steps_needed(message):
            return response
        # The same id, so that this message replaces the message with the calls.
        return AIMessage(NEED_MORE_STEPS, id=message.id, name=message.name)

    def _messages(self, values: Mapping[str, object], state: object) -> Sequence[BaseMessage]:
        """The messages of the state, or `llm_input_messages` where a hook wrote them."""
        has_hook = self._rules.hooked
        model_input = values.get(MODEL_INPUT) if has_hook else None
        messages: Any = model_input or values.get("messages")
        if messages is None:
            keys = f"'{MODEL_INPUT}' or 'messages'" if has_hook else "'messages'"
            raise ReactHistoryError(
                "messages",
                f"Expected input to call_model to have {keys} key, but got {state}",
                "Pass messages in the input.",
            )
        if model_input:  # no reducer has converted what a hook wrote
            messages = convert_to_messages(messages)
        # Providers refuse a history with an unanswered tool call.
        answered_ids = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
        calls = (call for m in messages if isinstance(m, AIMessage) for call in m.tool_calls)
        if open_calls := [call for call in calls if call["id"] not in answered_ids]:
            text = (
                "Found AIMessages with tool_calls that do not have a corresponding ToolMessage. "
                f"Here are the first few of those tool calls: {open_calls[:3]}.\n\n"
                "Every tool call (LLM requesting to call a tool) in the message history MUST have "
                "a corresponding ToolMessage (result of a tool invocation to return to the LLM) - "
                "this is required by most LLM providers."
            )
            raise ReactHistoryError(
                "messages",
                create_error_message(message=text, error_code=ErrorCode.INVALID_CHAT_HISTORY),
                "Add a ToolMessage for each call, or remove the message with the calls.",
            )
        return messages  # type: ignore[no-any-return]
