"""State of an agent, model request and response, and identities of a run and a model."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import timedelta
from difflib import get_close_matches
from functools import reduce
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    NotRequired,
    Required,
    Self,
    TypeAlias,
    Unpack,
    cast,
)

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    MessageLikeRepresentation,
    SystemMessage,
)
from langchain_core.runnables.config import run_in_executor
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.channels.ephemeral_value import EphemeralValue
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import CachePolicy, RetryPolicy, TimeoutPolicy
from langgraph.typing import ContextT as ContextT
from typing_extensions import TypedDict, TypeVar

from agent_factory.errors import ArgumentError, describe

# For middleware with values in memory, by run or by task, or with a need for a model or the saver.
# LangGraph and langchain-core publish nothing for this, so the implementation may change.
from agent_factory.models import bound_tools as bound_tools
from agent_factory.models import chat_models_of as chat_models_of
from agent_factory.models import configured as configured
from agent_factory.models import model_name as model_name
from agent_factory.models import unbound as unbound
from agent_factory.upstream import ModelWrapper as ModelWrapper
from agent_factory.upstream import detached as detached
from agent_factory.upstream import graph_namespace as graph_namespace
from agent_factory.upstream import model_params as model_params
from agent_factory.upstream import needs_task as needs_task
from agent_factory.upstream import run_identity as run_identity
from agent_factory.upstream import run_of_node as run_of_node
from agent_factory.upstream import saver_of as saver_of
from agent_factory.upstream import stores_at_exit as stores_at_exit
from agent_factory.upstream import task_identity as task_identity

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import Runnable
    from langchain_core.tools import BaseTool
    from langgraph.runtime import Runtime
    from langgraph.types import Command

    from agent_factory.structured_output.strategies import ResponseFormat

    class RequestChanges(TypedDict, Generic[ContextT], total=False):
        """Arguments of `ModelRequest.override`."""

        model: Runnable[Any, Any]
        messages: Sequence[BaseMessage]
        system_message: SystemMessage | None
        system_prompt: str | None
        tool_choice: Any
        tools: Sequence[BaseTool | Callable[..., Any] | dict[str, Any]]
        response_format: ResponseFormat | None
        state: AgentState
        runtime: Runtime[ContextT]
        model_settings: dict[str, Any]


Graph: TypeAlias = CompiledStateGraph[Any, Any, Any, Any]
"""Compiled graph, such as an agent, with any state, context, input and output."""

JumpTo = Literal["tools", "model", "end"]
"""Where a hook may jump: to the pending tool calls, back to the model, or to the end."""

Checkpoints = Literal["auto", "full", "delta"]
"""Messages in a checkpoint: all of them ("full"), or the messages since the previous checkpoint
("delta"). "auto" is "delta" where the saver supports it."""


@dataclass(frozen=True, slots=True)
class OmitFromSchema:
    """Mark of a state key outside of the agent's input or output.

    Args:
        input: Whether to leave the key out of the input.
        output: Whether to leave the key out of the output.
    """

    input: bool = True
    output: bool = True


OmitFromInput = OmitFromSchema(input=True, output=False)
"""For `Annotated`: a key which the caller cannot pass."""

OmitFromOutput = OmitFromSchema(input=False, output=True)
"""For `Annotated`: a key which the caller can pass and does not get back."""

PrivateStateAttr = OmitFromSchema(input=True, output=True)
"""For `Annotated`: a key which the caller can neither pass nor get back."""


@dataclass(frozen=True, slots=True)
class NodePolicy:
    """The reaction of LangGraph to a node that fails, takes too long, or ran before on this input.

    The arguments are the arguments of LangGraph's `add_node`.

    Args:
        retry_policy: Which errors start the node again, and when; the first policy that matches.
        cache_policy: By which key a result comes from the agent's `cache`, and for how long. By
            default, the key is the whole input of the node, ids of messages included.
        timeout: The longest time of one attempt, in seconds or as a timedelta, or a TimeoutPolicy.
            Only async runs can have a timeout.

    Raises:
        ArgumentError: An argument has another type, or a timeout is not positive.

    >>> NodePolicy(retry_policy=RetryPolicy(max_attempts=5)).retry_policy.max_attempts
    5
    """

    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None
    cache_policy: CachePolicy[Any] | None = None
    timeout: float | timedelta | TimeoutPolicy | None = None

    def __post_init__(self) -> None:
        retries: Any = self.retry_policy
        if isinstance(retries, list | tuple) and not isinstance(retries, RetryPolicy):
            retries = [_retry_policy(policy) for policy in retries]
        else:
            retries = _retry_policy(retries)
        object.__setattr__(self, "retry_policy", retries)
        if not isinstance(self.cache_policy, CachePolicy | None):
            _refuse("cache_policy", "a CachePolicy", self.cache_policy)
        try:
            TimeoutPolicy.coerce(self.timeout)
        except (TypeError, ValueError):
            _refuse("timeout", "a positive number, a timedelta or a TimeoutPolicy", self.timeout)


def _retry_policy(value: Any) -> RetryPolicy | None:
    """Return a retry policy, also for a dict of its fields.

    LangGraph 1.2 compiles with any value, and fails when a node has raised.
    """
    if isinstance(value, Mapping):
        if unknown_keys := value.keys() - {*RetryPolicy._fields}:
            raise ArgumentError(
                "retry_policy",
                f"has no field {', '.join(map(repr, sorted(map(str, unknown_keys))))}.",
                f"Its fields are {', '.join(RetryPolicy._fields)}.",
            )
        value = RetryPolicy(**value)
    if not isinstance(value, RetryPolicy | None):
        _refuse("retry_policy", "a RetryPolicy, a dict of its fields, or a list of them", value)
    for name, number in zip(RetryPolicy._fields[:4], value or (), strict=False):
        if not isinstance(number, int | float):
            _refuse(f"retry_policy.{name}", "a number", number)
    return cast("RetryPolicy | None", value)


def _refuse(argument: str, expected: str, value: object) -> None:
    raise ArgumentError(argument, f"must be {expected}, got {describe(value)}.")


ResponseT = TypeVar("ResponseT", default=Any)


class AgentState(TypedDict, Generic[ResponseT]):
    """State of every agent. Extend the class to add keys.

    >>> class Counting(AgentState):
    ...     calls: NotRequired[int]
    """

    messages: Required[Annotated[list[AnyMessage], add_messages]]
    # Without guard=False, two tools of a turn which both end the run would be an error.
    jump_to: NotRequired[
        Annotated[JumpTo | None, EphemeralValue(object, guard=False), PrivateStateAttr]
    ]
    structured_response: NotRequired[Annotated[ResponseT, OmitFromInput]]


StateT = TypeVar("StateT", bound=AgentState, default=AgentState)


class InputAgentState(TypedDict):
    """Input of an agent: messages, as objects or in any form accepted by LangChain."""

    messages: Required[Annotated[Sequence[MessageLikeRepresentation], add_messages]]


class OutputAgentState(TypedDict, Generic[ResponseT]):
    """Output of an agent."""

    messages: Required[Annotated[list[AnyMessage], add_messages]]
    structured_response: NotRequired[ResponseT]


@dataclass(init=False, eq=False, repr=False)
class ModelRequest(Generic[ContextT]):
    """Request of a model call. Treat it as immutable; `override` returns a changed copy.

    Args:
        model: The chat model to call.
        messages: The conversation, without the system message.
        system_message: The system message, or None.
        system_prompt: Text of the system message; pass one of the two.
        tool_choice: Passed to the model's `bind_tools`, unless None.
        tools: Client tools, and provider tools as dicts.
        response_format: The structured output strategy, or None.
        state: State of the agent. To change the state, return an update.
        runtime: Context, store and stream writer of the run.
        model_settings: Keyword arguments for this call, such as `temperature`.

    Raises:
        ValueError: Both `system_message` and `system_prompt` are given.
    """

    model: BaseChatModel
    messages: list[AnyMessage]
    system_message: SystemMessage | None
    tool_choice: Any
    tools: list[BaseTool | dict[str, Any]]
    response_format: ResponseFormat | None
    state: AgentState
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
        response_format: ResponseFormat | None = None,
        state: AgentState | None = None,
        runtime: Runtime[ContextT] | None = None,
        model_settings: dict[str, Any] | None = None,
    ) -> None:
        if system_message is not None and system_prompt is not None:
            raise ValueError("Pass system_message or system_prompt to ModelRequest, not both.")
        if system_prompt is not None:
            system_message = SystemMessage(system_prompt)
        # Not through `__setattr__`, which warns. The __init__ of a dataclass sets one field at a
        # time: this takes 1.7 µs in place of 0.8, with `frozen=True` 1.6 (Python 3.11).
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
        """Text of `system_message`, or None."""
        return None if self.system_message is None else self.system_message.text

    def override(self, **changes: Unpack[RequestChanges[ContextT]]) -> ModelRequest[ContextT]:
        """Return a copy with some fields changed.

        Args:
            **changes: Any field of the request, or `system_prompt` for the text of its system
                message.

        Raises:
            TypeError: A name is not the name of a field; the model or a tool is given by its name.
            ValueError: Both `system_message` and `system_prompt` are given.

        >>> from langchain_core.language_models import FakeListChatModel
        >>> request = ModelRequest(model=FakeListChatModel(responses=["hi"]), messages=[])
        >>> request.override(system_prompt="Be brief.").system_prompt
        'Be brief.'
        """
        if "system_prompt" in changes:
            if "system_message" in changes:
                raise ValueError("Override either system_message or system_prompt, not both.")
            text = changes.pop("system_prompt")
            changes["system_message"] = None if text is None else SystemMessage(text)
        # A caller without a type checker, or with a dict.
        if not changes.keys() <= _REQUEST_FIELDS.keys():
            unknown = sorted(changes.keys() - _REQUEST_FIELDS.keys())
            raise TypeError(
                f"ModelRequest has no field {', '.join(map(repr, unknown))}; "
                f"its fields are {', '.join(_REQUEST_FIELDS)}, and system_prompt."
            )
        # Here, because the traceback names the layer. A request of another origin is checked at the
        # call of the model.
        if "model" in changes or "tools" in changes:
            check_request(changes.get("model"), changes.get("tools", ()), self.tools)
        request = self
        if "model" in changes and "wrapped_model" in self.__dict__:
            request = self._with_model(changes.pop("model"), self.__dict__["wrapped_model"][1])
        # As copy.copy(), but faster: layers call this often. `dataclasses.replace` calls __init__,
        # which takes four times as long.
        other = object.__new__(type(self))
        other.__dict__.update(request.__dict__, **changes)
        return other

    def wrapped(self, wrap: Callable[[Any], Any]) -> ModelRequest[ContextT]:
        """Return a copy whose model is wrapped, also if an inner layer chooses another model.

        Args:
            wrap: Function from a model to a model, such as a model with answers through a flow
                (`stream_through`). A layer further out wraps the model of a layer further in.

        >>> from langchain_core.language_models import FakeListChatModel
        >>> request = ModelRequest(model=FakeListChatModel(responses=["hi"]), messages=[])
        >>> request.wrapped(lambda model: model.bind(stop=["."])).model.kwargs
        {'stop': ['.']}
        """
        # Not a field: only `override` needs the wraps. A layer which reads the model, or passes the
        # model to a new request, gets the wrapped model.
        base, wraps = self.__dict__.get("wrapped_model", (self.model, ()))
        return self._with_model(base, (*wraps, wrap))

    def _with_model(self, base: Any, wraps: tuple[Callable[[Any], Any], ...]) -> Self:
        """Return a copy with a model, inside of the wraps of the layers."""
        # The last wrap is the innermost layer's, which sees the model's answer first.
        model = reduce(lambda inner, wrap: wrap(inner), reversed(wraps), base)
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, model=model, wrapped_model=(base, wraps))
        return other

    def __setattr__(self, name: str, value: Any) -> None:
        warnings.warn(
            f"Setting ModelRequest.{name} is deprecated: other layers may hold this request. "
            f"Use request.override({name}=...), which returns a changed copy.",
            DeprecationWarning,
            stacklevel=2,
        )
        # LangChain's requests can be set so, and the property has no setter.
        if name == "system_prompt":
            name, value = "system_message", None if value is None else SystemMessage(value)
        self.__dict__[name] = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModelRequest) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]  # mutable, and compares by value

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={self.__dict__[name]!r}" for name in _REQUEST_FIELDS)
        return f"ModelRequest({fields})"


def check_request(model: object, tools: Any, offered: Sequence[object] = ()) -> None:
    """Raise an ArgumentError for a model or a tool passed by name.

    Args:
        model: Model of a request.
        tools: Tools of a request.
        offered: Tools with possibly the intended name.
    """
    if isinstance(model, str):
        reason = f"must be a chat model, got {describe(model)}."
        raise ArgumentError("model of a request", reason, f"Pass init_model({model!r}).")
    # A tool is passed without its list, or a name without both. Other iterables are left alone.
    if isinstance(tools, str | dict) or hasattr(tools, "name"):
        reason = f"must be a list, got {describe(tools)}."
        raise ArgumentError("tools of a request", reason, "Pass tools=[*request.tools, tool].")
    for tool in tools if isinstance(tools, list | tuple) else ():
        if isinstance(tool, dict) or hasattr(tool, "name") or callable(tool):
            continue
        names = [str(name) for t in offered if (name := getattr(t, "name", None))]
        close = get_close_matches(str(tool), names, n=1)
        raise ArgumentError(
            "tools of a request",
            f"must be tools, or provider tools as dicts, got {describe(tool)}.",
            "Pass the tool, not its name: "
            f"[tool for tool in request.tools if tool.name == {close[0]!r}]."
            if close
            else f"The tools are: {', '.join(names) or 'none'}.",
        )


_REQUEST_FIELDS = dict.fromkeys(ModelRequest.__annotations__)


@dataclass
class ModelResponse(Generic[ResponseT]):
    """Result of a model call.

    Args:
        result: New messages: the answer of the model, and answers to calls of output tools.
        structured_response: The parsed structured answer, or None.
    """

    result: list[BaseMessage]
    structured_response: ResponseT | None = None


@dataclass
class ExtendedModelResponse(Generic[ResponseT]):
    """Response of a `wrap_model_call` layer with a state update.

    Args:
        model_response: The response.
        command: A Command with `update`, applied after the updates of inner layers. With `goto`,
            `resume` or `graph` it raises NotImplementedError.
    """

    model_response: ModelResponse[ResponseT]
    command: Command[Any] | None = None

    @property
    def result(self) -> list[BaseMessage]:
        """The messages of the response."""
        return self.model_response.result

    @property
    def structured_response(self) -> ResponseT | None:
        """The structured answer of the response, or None."""
        return self.model_response.structured_response


ModelCallResult = ModelResponse[ResponseT] | AIMessage | ExtendedModelResponse[ResponseT]
"""Return type of `wrap_model_call`."""


class FunctionTool(StructuredTool):
    """Tool of a function without a config and callbacks.

    A StructuredTool looks for these parameters in each call, which takes longer than most
    functions. The methods have no annotations, because langchain-core evaluates them each time.
    """

    def _run(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        func = self.func  # without a function, `super` raises
        return super()._run(*args, config={}, **kwargs) if func is None else func(*args, **kwargs)

    async def _arun(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        if self.coroutine is None:
            return await run_in_executor(None, self._run, *args, **kwargs)
        return await self.coroutine(*args, **kwargs)


ValueT = TypeVar("ValueT")


class setting(Generic[ValueT]):
    """Context manager with a value of a context variable for a block."""

    __slots__ = ("_before", "_value", "_variable")

    def __init__(self, variable: ContextVar[ValueT], value: ValueT) -> None:
        self._variable, self._value = variable, value

    def __enter__(self) -> None:
        self._before = self._variable.get()
        self._variable.set(self._value)

    def __exit__(self, *_: object) -> None:
        # Not by a token: a dropped coroutine may be closed in another context.
        self._variable.set(self._before)


@dataclass(frozen=True, slots=True)
class RunServices:
    """Services of the host of a run for its agents, also for agents inside of tools.

    Attributes:
        effects: Recording of the effects of tools, of `effects_of_run` or of a recorded call.
        approvals: Store of standing approvals, of `approvals_of_run`.
        mailbox: Messages from outside of the saver, of `mailbox_of_run`.
        jobs: Store of background jobs, of `jobs_of_run`.
        guards: Guards of the agent whose tools run.
        tools: Client tools of the agent whose hook runs, by name.
        seen: Labels in the threads of the agents around.
    """

    effects: Any = None
    approvals: Any = None
    mailbox: Any = None
    jobs: Any = None
    guards: Any = None
    tools: Mapping[str, BaseTool] = field(default_factory=dict)
    seen: Mapping[str, Any] = field(default_factory=dict)


# A context variable, because LangGraph copies the context into the threads and tasks it starts.
run_services: ContextVar[RunServices] = ContextVar("run_services", default=RunServices())  # noqa: B039
"""Services of the run in this context."""


def providing(**services: Any) -> setting[RunServices]:
    """Return a context manager with some services for the runs in the block."""
    return setting(run_services, replace(run_services.get(), **services))
