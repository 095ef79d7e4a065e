"""What a `create_react_agent` puts around each call of its model, as ordinary middleware.

Outermost first: is there time for the calls that are asked for, which model, which messages, and
the prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
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
"""How a run ends whose steps do not suffice for what its model asked for."""

Answer = ModelResponse[Any] | AIMessage
View = Callable[[Mapping[str, Any]], Any]


class StepsLeft(AgentMiddleware[Any, Any]):
    """Ends a run with words where the steps that are left would not suffice.

    Args:
        rules: Which calls end the run.
        steps: How many steps it takes.
    """

    def __init__(self, rules: ReactRules, steps: Steps) -> None:
        super().__init__(name="remaining_steps")
        self._rules = rules
        self._steps = steps

    def around_model(self, request: ModelRequest[Any]) -> Flow[Answer]:
        """Ask the model, and look at what it asks for."""
        response: ModelResponse[Any] = yield request
        message = response.result[0]
        left: Any = request.state.get(STEPS)
        if left is None or not isinstance(message, AIMessage) or left >= self._needed(message):
            return response
        # The same id: the message takes the place of the one with calls that will not be run.
        return AIMessage(NEED_MORE_STEPS, id=message.id, name=message.name)

    def _needed(self, message: AIMessage) -> int:
        if not message.tool_calls:
            return 0  # there is no shorter way out than this one
        steps = self._steps
        return steps.to_return() if self._rules.ends_with(message) else steps.to_go_on()


class Choice(AgentMiddleware[Any, Any]):
    """Has a function choose the model of each call, which has its tools bound.

    Args:
        models: The function.
        view: What it sees of the state.
    """

    def __init__(self, models: ChosenModel, view: View) -> None:
        super().__init__(name="model")
        self._models = models
        self._view = view

    def around_model(self, request: ModelRequest[Any]) -> Flow[Answer]:
        """Ask the model that the function chooses."""
        state = self._view(request.state)
        model = yield Invoke(self._models, (state, request.runtime))
        return (yield request.override(model=model, tools=[]))  # type: ignore[no-any-return]


class Conversation(AgentMiddleware[Any, Any]):
    """Shows the model the messages of the state, or those that a hook has chosen.

    Args:
        view: How the state is shown.
        hooked: A hook may choose.
    """

    def __init__(self, view: View, *, hooked: bool) -> None:
        super().__init__(name="messages")
        self._view = view
        self._hooked = hooked

    def around_model(self, request: ModelRequest[Any]) -> Flow[Answer]:
        """Ask the model about the messages it may see."""
        # A model of the state refuses what does not fit, where no code of its author's sees it too.
        self._view(request.state)
        messages = self._chosen(request.state)
        refuse_unanswered(messages)
        state = {**request.state, "messages": messages}
        return (yield request.override(messages=messages, state=state))  # type: ignore[no-any-return]

    def _chosen(self, state: Mapping[str, Any]) -> list[AnyMessage]:
        chosen = state.get(MODEL_INPUT) if self._hooked else None
        messages = chosen or state.get("messages")
        if messages is None:
            keys = f"'{MODEL_INPUT}' or 'messages'" if self._hooked else "'messages'"
            raise ReactHistoryError(
                "messages",
                f"Expected input to call_model to have {keys} key, but got {self._view(state)}",
                "Pass messages in.",
            )
        # What a hook has chosen was folded by no reducer: it may be in any form.
        return convert_to_messages(messages) if chosen else messages  # type: ignore[return-value]


def refuse_unanswered(messages: Sequence[BaseMessage]) -> None:
    """Refuse a history that providers would refuse, and name the call that breaks it.

    Raises:
        ReactHistoryError: A tool call has no answer.
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
            "Answer each call, or take the message with the calls out.",
        )


class Prompt(AgentMiddleware[Any, Any]):
    """Has a function or a runnable make what the model is told out of the state.

    Args:
        prompt: It; what it gives is all that the model sees.
        view: What it sees of the state.
    """

    def __init__(self, prompt: CanInvoke, view: View) -> None:
        super().__init__(name="Prompt")
        self._prompt = prompt
        self._view = view

    def around_model(self, request: ModelRequest[Any]) -> Flow[Answer]:
        """Ask the model with what the prompt made."""
        prompted = yield Invoke(self._prompt, self._view(request.state))
        return (yield request.override(messages=_messages_of(prompted)))  # type: ignore[no-any-return]


def _messages_of(prompted: Any) -> list[Any]:
    if isinstance(prompted, PromptValue):
        return prompted.to_messages()
    several = isinstance(prompted, Sequence) and not isinstance(prompted, str)
    try:
        return convert_to_messages(prompted if several else [prompted])
    except (NotImplementedError, TypeError, ValueError) as error:
        raise BadReturn(
            "prompt", f"gave {describe(prompted)}: {error}.", "Return a list of messages."
        ) from error
