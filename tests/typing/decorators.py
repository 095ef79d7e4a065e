"""Type-checked, never run: what decorators and stacks accept.

Each `type: ignore` is an error that a type checker must report: mypy reports one that is unused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, assert_type

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command
from pydantic import BaseModel

from agent_factory import (
    AgentMiddleware,
    AgentState,
    Flow,
    ModelRequest,
    ModelResponse,
    Runtime,
    Sleep,
    ToolCallRequest,
    before_model,
    create_agent,
    plan_agent,
    wrap_model_call,
    wrap_tool_call,
)
from agent_factory.middleware import ModelCallLimitMiddleware


class Context(BaseModel):
    """Who asks."""

    user: str


class Other(BaseModel):
    """Another context."""

    tenant: str


State = AgentState[Any]
Update = dict[str, Any] | None


@before_model
def hook(state: State, runtime: Runtime[Context]) -> Update:
    """The usual form."""
    return None


@before_model
async def async_hook(state: State, runtime: Runtime[Context]) -> Update:
    """A coroutine function."""
    return None


@before_model
def short_hook(state: State) -> Update:
    """The state alone."""
    return None


@before_model(can_jump_to=["end"])
def hook_with_config(
    state: State, runtime: Runtime[Context], config: RunnableConfig
) -> Command[Any] | None:
    """A hook with options and with the config."""
    return None


@before_model
def flow_hook(state: State, runtime: Runtime[Context]) -> Flow[Update]:
    """A flow."""
    yield Sleep(0)
    return None


class FlowHook(AgentMiddleware[State, Context]):
    """A hook of a class as a flow."""

    def after_model(self, state: State, runtime: Runtime[Context]) -> Flow[Update]:
        yield Sleep(0)
        return None


@before_model  # type: ignore[arg-type]
def returns_text(state: State, runtime: Runtime[Context]) -> str:
    """A hook returns an update."""
    return ""


@before_model  # type: ignore[arg-type]
def takes_too_much(state: State, runtime: Runtime[Context], user: int, tenant: int) -> Update:
    """Nothing passes these arguments."""
    return None


@before_model(can_jump_to=["end"])  # type: ignore[arg-type]
def returns_text_too(state: State, runtime: Runtime[Context]) -> str:
    """A hook returns an update, with options as well."""
    return ""


@before_model(can_jump_to=["begin"])  # type: ignore[list-item]
def jumps_to_nowhere(state: State, runtime: Runtime[Context]) -> Update:
    """There is no such jump."""
    return None


Handler = Callable[[ModelRequest[Context]], ModelResponse[Any]]
AsyncHandler = Callable[[ModelRequest[Context]], Awaitable[ModelResponse[Any]]]


@wrap_model_call
def layer(request: ModelRequest[Context], handler: Handler) -> ModelResponse[Any]:
    """The sync form."""
    return handler(request)


@wrap_model_call
async def async_layer(request: ModelRequest[Context], handler: AsyncHandler) -> ModelResponse[Any]:
    """The async form."""
    return await handler(request)


@wrap_model_call
def flow(request: ModelRequest[Context]) -> Flow[ModelResponse[Any]]:
    """A flow."""
    response: ModelResponse[Any] = yield request
    return response


@wrap_model_call  # type: ignore[arg-type]
def layer_of_text(request: ModelRequest[Context], handler: Handler) -> str:
    """A layer returns a response."""
    return ""


@wrap_tool_call
def tool_layer(
    request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
) -> ToolMessage | Command[Any]:
    """A layer around tools."""
    return handler(request)


@wrap_tool_call  # type: ignore[arg-type]
def wrong_tool_layer(request: ModelRequest[Context], handler: Handler) -> ModelResponse[Any]:
    """A layer around tools takes a tool call."""
    return handler(request)


class ForContext(AgentMiddleware[State, Context]):
    """A middleware for one context."""


class ForOther(AgentMiddleware[State, Other]):
    """A middleware for another context."""


class ForAny(AgentMiddleware):
    """A middleware that declares no context."""


class Answering(AgentMiddleware[AgentState[str], Context, str]):
    """A middleware that knows the structured response."""


def stacks(model: BaseChatModel) -> None:
    """The contexts of a stack are those of the agent."""
    assert_type(hook, AgentMiddleware[State, Context])
    assert_type(layer, AgentMiddleware[Any, Context, Any])
    create_agent(
        model,
        middleware=[ForContext(), ForAny(), Answering(), hook, layer, ModelCallLimitMiddleware()],
        context_schema=Context,
    )
    create_agent(model, middleware=[ForContext()])
    create_agent(model, middleware=[ForOther()], context_schema=Context)  # type: ignore
    create_agent(model, middleware=[ForOther(), ForContext()])  # type: ignore
    create_agent(model, prompt="Be brief.")  # type: ignore
    plan_agent(model, promt="Be brief.")  # type: ignore[arg-type]


def overrides(request: ModelRequest[Context], call: ToolCallRequest) -> None:
    """A copy of a request has the fields of a request."""
    assert_type(request.override(system_prompt="Be brief."), ModelRequest[Context])
    request.override(model=request.model.bind(stop=["."]), tools=[print, {"type": "search"}])
    request.override(messages=[*request.messages], tools=[*request.tools[:1]], tool_choice="any")
    request.override(system_message=None, model_settings={"temperature": 0})
    request.override(systemprompt="Be brief.")  # type: ignore[call-arg]
    request.override(system_prompt=3)  # type: ignore[arg-type]
    request.override(tools="add")  # type: ignore[arg-type]
    call.override(tool_call=call.tool_call, state={})
    call.override(toolcall=call.tool_call)  # type: ignore[call-arg]
