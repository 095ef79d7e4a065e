"""The layers of `create_react_agent` around each model call.

Outermost first: the steps that are left, the model, the messages and the prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.prompt_values import PromptValue
from langgraph.errors import ErrorCode, create_error_message

from agent_factory.errors import BadReturn, describe
from agent_factory.hooks.base import AgentMiddleware
from agent_factory.hooks.flows import CanInvoke, Flow, Invoke
from agent_factory.prebuilt.react_errors import ReactHistoryError
from agent_factory.prebuilt.react_models import ChosenModel
from agent_factory.prebuilt.react_routing import ReactRules, Steps
from agent_factory.prebuilt.react_state import MODEL_INPUT, STEPS
from agent_factory.types import ModelRequest, ModelResponse

NEED_MORE_STEPS = "Sorry, need more steps to process this request."
"""The last message of a run that has too few steps left for the tool calls its model asked for."""

Answer = ModelResponse[Any] | AIMessage
View = Callable[[Mapping[str, Any]], Any]


class StepsLeft(AgentMiddleware[Any, Any]):
    """Ends a run with a message where too few steps are left for its tool calls.

    Args:
        rules: Which calls end the run.
        steps: How many steps each way out takes.
    """

    def __init__(self, rules: ReactRules, steps: Steps) -> None:
        super().__init__(name="remaining_steps")
        self._rules = rules
        self._steps = steps

    def around_model(self, request: ModelRequest[Any]) -> Flow[Answer]:
        """Ask the model, and replace tool calls that there are no steps for."""
        response: ModelResponse[Any] = yield request
        message = response.result[0]
        left: Any = request.state.get(STEPS)
        if left is None or not isinstance(message, AIMessage) or not message.tool_calls:
            return response
        steps = self._steps
        needed = steps.to_return() if self._rules.ends_with(message) else steps.to_go_on()
        if left >= needed:
            return response
        # The same id, so that this message replaces the one whose calls will not run.
        return AIMessage(NEED_MORE_STEPS, id=message.id, name=message.name)


class Choice(AgentMiddleware[Any, Any]):
    """Lets a function choose the model of each call; that model has its tools bound.

    Args:
        models: The function.
        view: Converts the state to its schema.
    """

    def __init__(self, models: ChosenModel, view: View) -> None:
        super().__init__(name="model")
        self._models = models
        self._view = view

    def around_model(self, request: ModelRequest[Any]) -> Flow[Answer]:
        """Ask the model that the function returns."""
        state = self._view(request.state)
        model = yield Invoke(self._models, (state, request.runtime))
        return (yield request.override(model=model, tools=[]))  # type: ignore[no-any-return]


class Conversation(AgentMiddleware[Any, Any]):
    """Sends the messages of the state, or `llm_input_messages` where a hook wrote them.

    Args:
        view: Converts the state to the user's schema.
        hooked: There is a `pre_model_hook`.
    """

    def __init__(self, view: View, *, hooked: bool) -> None:
        super().__init__(name="messages")
        self._view = view
        self._hooked = hooked

    def around_model(self, request: ModelRequest[Any]) -> Flow[Answer]:
        """Ask the model with these messages.

        Raises:
            ReactHistoryError: There are none, or a tool call in them has no result.
        """
        state = self._view(request.state)  # a pydantic state validates itself here
        chosen = request.state.get(MODEL_INPUT) if self._hooked else None
        messages: Any = chosen or request.state.get("messages")
        if messages is None:
            keys = f"'{MODEL_INPUT}' or 'messages'" if self._hooked else "'messages'"
            raise ReactHistoryError(
                "messages",
                f"Expected input to call_model to have {keys} key, but got {state}",
                "Pass messages in the input.",
            )
        if chosen:  # no reducer has converted what a hook wrote
            messages = convert_to_messages(messages)
        refuse_unanswered(messages)
        state = {**request.state, "messages": messages}
        return (yield request.override(messages=messages, state=state))  # type: ignore[no-any-return]


def refuse_unanswered(messages: Sequence[BaseMessage]) -> None:
    """Refuse a history with an unanswered tool call, which providers refuse, and name the call.

    Raises:
        ReactHistoryError: A tool call has no result.
    """
    answered = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
    asked = (call for m in messages if isinstance(m, AIMessage) for call in m.tool_calls)
    if unanswered := [call for call in asked if call["id"] not in answered]:
        text = (
            "Found AIMessages with tool_calls that do not have a corresponding ToolMessage. "
            f"Here are the first few of those tool calls: {unanswered[:3]}.\n\n"
            "Every tool call (LLM requesting to call a tool) in the message history MUST have a "
            "corresponding ToolMessage (result of a tool invocation to return to the LLM) - this "
            "is required by most LLM providers."
        )
        raise ReactHistoryError(
            "messages",
            create_error_message(message=text, error_code=ErrorCode.INVALID_CHAT_HISTORY),
            "Add a ToolMessage for each call, or remove the message with the calls.",
        )


class Prompt(AgentMiddleware[Any, Any]):
    """Lets a function or a runnable write the messages of each model call.

    Args:
        prompt: Gets the state, and returns all the messages that the model sees.
        view: Converts the state to its schema.
    """

    def __init__(self, prompt: CanInvoke, view: View) -> None:
        super().__init__(name="Prompt")
        self._prompt = prompt
        self._view = view

    def around_model(self, request: ModelRequest[Any]) -> Flow[Answer]:
        """Ask the model with the messages that the prompt returns.

        Raises:
            BadReturn: The prompt returns something else.
        """
        prompted = yield Invoke(self._prompt, self._view(request.state))
        if isinstance(prompted, PromptValue):
            messages: list[Any] = prompted.to_messages()
        else:
            several = isinstance(prompted, Sequence) and not isinstance(prompted, str)
            try:
                messages = convert_to_messages(prompted if several else [prompted])
            except (NotImplementedError, TypeError, ValueError) as error:
                raise BadReturn(
                    "prompt",
                    f"must return messages, got {describe(prompted)}: {error}.",
                    "Return a list of messages.",
                ) from error
        return (yield request.override(messages=messages))  # type: ignore[no-any-return]
