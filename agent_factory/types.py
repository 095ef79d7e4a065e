"""The values of one turn: the state, the request to a model and what comes back."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, NotRequired, Required

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    MessageLikeRepresentation,
    SystemMessage,
)
from langgraph.channels.ephemeral_value import EphemeralValue
from langgraph.graph.message import add_messages
from langgraph.typing import ContextT as ContextT
from typing_extensions import TypedDict, TypeVar

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.tools import BaseTool
    from langgraph.runtime import Runtime
    from langgraph.types import Command

    from agent_factory.structured_output.strategies import ResponseFormat

JumpTo = Literal["tools", "model", "end"]
"""Where a hook may send the run: to the pending tool calls, back to the model, or out."""

Checkpoints = Literal["full", "delta"]
"""What a checkpoint holds of the messages: all of them, or those written since the one before."""


@dataclass(frozen=True, slots=True)
class OmitFromSchema:
    """Marks a state key that callers should not pass in, or should not get back.

    Args:
        input: Leave the key out of the agent's input.
        output: Leave the key out of the agent's output.
    """

    input: bool = True
    output: bool = True


OmitFromInput = OmitFromSchema(input=True, output=False)
"""For `Annotated`: the key is written by the run, never by its caller."""

OmitFromOutput = OmitFromSchema(input=False, output=True)
"""For `Annotated`: the key may be passed in and is not handed back."""

PrivateStateAttr = OmitFromSchema(input=True, output=True)
"""For `Annotated`: the key belongs to the middleware alone."""

ResponseT = TypeVar("ResponseT", default=Any)


class AgentState(TypedDict, Generic[ResponseT]):
    """What every agent's state holds; extend it for keys of your own.

    >>> class Counting(AgentState):
    ...     calls: NotRequired[int]
    """

    messages: Required[Annotated[list[AnyMessage], add_messages]]
    # Without the guard two tools of one turn that both stop the run would be an error.
    jump_to: NotRequired[
        Annotated[JumpTo | None, EphemeralValue(object, guard=False), PrivateStateAttr]
    ]
    structured_response: NotRequired[Annotated[ResponseT, OmitFromInput]]


StateT = TypeVar("StateT", bound=AgentState[Any], default=AgentState[Any])


class InputAgentState(TypedDict):
    """What a caller passes in: messages, as objects or in any form LangChain converts."""

    messages: Required[Annotated[Sequence[MessageLikeRepresentation], add_messages]]


class OutputAgentState(TypedDict, Generic[ResponseT]):
    """What a caller gets back."""

    messages: Required[Annotated[list[AnyMessage], add_messages]]
    structured_response: NotRequired[ResponseT]


_REQUEST_FIELDS = (
    "model",
    "messages",
    "system_message",
    "tool_choice",
    "tools",
    "response_format",
    "state",
    "runtime",
    "model_settings",
)


class ModelRequest(Generic[ContextT]):
    """One call of the model, before it is made. Treat it as frozen: `override` gives a copy.

    Args:
        model: The chat model to ask.
        messages: The conversation, without the system message.
        system_message: What the model is told first.
        system_prompt: The same as text; give one of the two.
        tool_choice: Passed to the model's `bind_tools` where it is not None.
        tools: Client tools, and provider tools as dicts.
        response_format: The structured output strategy, or None.
        state: The agent's state. Read it; write by returning updates.
        runtime: Context, store and stream writer of this run.
        model_settings: Keyword arguments for this call, such as `temperature`.

    Raises:
        ValueError: Both `system_message` and `system_prompt` are given.
    """

    model: BaseChatModel
    messages: list[AnyMessage]
    system_message: SystemMessage | None
    tool_choice: Any
    tools: list[BaseTool | dict[str, Any]]
    response_format: ResponseFormat[Any] | None
    state: AgentState[Any]
    runtime: Runtime[ContextT]
    model_settings: dict[str, Any]

    def __init__(
        self,
        *,
        model: BaseChatModel,
        messages: list[AnyMessage],
        system_message: SystemMessage | None = None,
        system_prompt: str | None = None,
        tool_choice: Any = None,
        tools: list[BaseTool | dict[str, Any]] | None = None,
        response_format: ResponseFormat[Any] | None = None,
        state: AgentState[Any] | None = None,
        runtime: Runtime[ContextT] | None = None,
        model_settings: dict[str, Any] | None = None,
    ) -> None:
        if system_message is not None and system_prompt is not None:
            raise ValueError("Give a ModelRequest system_message or system_prompt, not both.")
        if system_prompt is not None:
            system_message = SystemMessage(system_prompt)
        self.__dict__.update(
            model=model,
            messages=messages,
            system_message=system_message,
            tool_choice=tool_choice,
            tools=[] if tools is None else tools,
            response_format=response_format,
            state={"messages": messages} if state is None else state,
            runtime=runtime,
            model_settings={} if model_settings is None else model_settings,
        )

    @property
    def system_prompt(self) -> str | None:
        """The text of `system_message`, or None."""
        return None if self.system_message is None else self.system_message.text

    def override(self, **changes: Any) -> ModelRequest[ContextT]:
        """A copy with some fields changed; this request stays as it is.

        Args:
            **changes: Any field of the request, or `system_prompt` for its text.

        Raises:
            TypeError: A name that is no field.
            ValueError: Both `system_message` and `system_prompt` are given.

        >>> from langchain_core.language_models import FakeListChatModel
        >>> request = ModelRequest(model=FakeListChatModel(responses=["hi"]), messages=[])
        >>> request.override(system_prompt="Be brief.").system_prompt
        'Be brief.'
        """
        if "system_prompt" in changes:
            if "system_message" in changes:
                raise ValueError("Override system_message or system_prompt, not both.")
            text = changes.pop("system_prompt")
            changes["system_message"] = None if text is None else SystemMessage(text)
        if unknown := changes.keys() - set(_REQUEST_FIELDS):
            raise TypeError(
                f"ModelRequest has no field {', '.join(map(repr, sorted(unknown)))}; "
                f"its fields are {', '.join(_REQUEST_FIELDS)}, and system_prompt."
            )
        # As copy() does it, without a look at how it could be done otherwise: layers do this a lot.
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, **changes)
        return other

    def __setattr__(self, name: str, value: Any) -> None:
        warnings.warn(
            f"Setting ModelRequest.{name} is deprecated: other layers may hold this request. "
            f"Use request.override({name}=...), which returns a changed copy.",
            DeprecationWarning,
            stacklevel=2,
        )
        if name == "system_prompt":
            name, value = "system_message", None if value is None else SystemMessage(value)
        self.__dict__[name] = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModelRequest) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]  # holds lists, and compares by value

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={self.__dict__[name]!r}" for name in _REQUEST_FIELDS)
        return f"ModelRequest({fields})"


@dataclass
class ModelResponse(Generic[ResponseT]):
    """What one call of the model gave.

    Args:
        result: The new messages: the model's answer, and answers to structured output calls.
        structured_response: The parsed structured answer, where there is one.
    """

    result: list[BaseMessage]
    structured_response: ResponseT | None = None


@dataclass
class ExtendedModelResponse(Generic[ResponseT]):
    """A response together with a state update from a `wrap_model_call` layer.

    Args:
        model_response: What the layer hands outward.
        command: A Command with `update`, applied after those of the layers further in.
            `goto`, `resume` and `graph` are refused with NotImplementedError.
    """

    model_response: ModelResponse[ResponseT]
    command: Command[Any] | None = None


ModelCallResult = ModelResponse[ResponseT] | AIMessage | ExtendedModelResponse[ResponseT]
"""What a `wrap_model_call` layer may return."""

ModelHandler = Callable[[ModelRequest[Any]], Any]
"""The call inward: a response, or an awaitable of one in an asynchronous run."""
