"""create_react_agent: what langgraph has deprecated, built from the parts of `create_agent`."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from langgraph.graph.state import CompiledStateGraph
from langgraph.warnings import LangGraphDeprecatedSinceV10

from agent_factory.factory import CONFIG, check_services, node_names
from agent_factory.prebuilt.react_errors import ReactArgumentError
from agent_factory.prebuilt.react_spec import Arguments, react_spec
from agent_factory.wiring import wire

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage, SystemMessage
    from langchain_core.runnables import Runnable
    from langchain_core.tools import BaseTool
    from langgraph.prebuilt import ToolNode
    from langgraph.runtime import Runtime
    from langgraph.store.base import BaseStore
    from langgraph.types import Checkpointer

    Model = BaseChatModel | Runnable[Any, BaseMessage]
    ModelChoice = (
        Callable[[Any, Runtime[Any]], Model] | Callable[[Any, Runtime[Any]], Awaitable[Model]]
    )
    Prompt = SystemMessage | str | Callable[..., Any] | Runnable[Any, Any]
    Hook = Callable[..., Any] | Runnable[Any, Any]

CONFIG_SCHEMA = (
    "`config_schema` is deprecated and will be removed. Please use `context_schema` instead."
)


def create_react_agent(
    model: str | Model | ModelChoice,
    tools: Sequence[BaseTool | Callable[..., Any] | dict[str, Any]] | ToolNode,
    *,
    prompt: Prompt | None = None,
    response_format: Any = None,
    pre_model_hook: Hook | None = None,
    post_model_hook: Hook | None = None,
    state_schema: type[Any] | None = None,
    context_schema: type[Any] | None = None,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
    interrupt_before: Sequence[str] | Literal["*"] | None = None,
    interrupt_after: Sequence[str] | Literal["*"] | None = None,
    debug: bool = False,
    version: Literal["v1", "v2"] = "v2",
    name: str | None = None,
    **deprecated_kwargs: Any,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Build an agent as langgraph's `create_react_agent` does: a model in a loop with tools.

    For code that stands on it. New code is better off with `create_agent`, whose middleware say
    what hooks, prompts and formats say here: docs/react_agent.md compares the two.

    Args:
        model: A chat model, one with tools bound, a chain that ends in one, "provider:name" where
            langchain is installed, or a function (state, runtime) that chooses the model of each
            call and binds tools to it, which have to be among `tools`.
        tools: Functions with a docstring, BaseTools, provider tools as dicts, or a ToolNode.
            Without one that the agent runs there is no loop: the model is asked once.
        prompt: What the model is told first: a text or a message before all others, or a function
            or runnable that makes of the state all that the model sees.
        response_format: A schema, or (system prompt, schema): when the loop is over, the model is
            asked once more, for `structured_response`.
        pre_model_hook: Runs before each call of the model, as a node. It writes `messages`, or
            `llm_input_messages`, which the model sees once in their place.
        post_model_hook: Runs after each call of the model, as a node, before its tool calls. For
            version "v2" only.
        state_schema: A TypedDict or pydantic model with `messages`, `remaining_steps`, and
            `structured_response` where there is a `response_format`.
        context_schema: The type of `context`, the data of one run (a user's id, say).
        checkpointer: Keeps threads.
        store: Keeps data across threads.
        interrupt_before: Nodes before which a run pauses, or "*" for all.
        interrupt_after: Nodes after which a run pauses, or "*" for all.
        debug: Log every step.
        version: "v2" runs each tool call as a task of its own, "v1" all calls of a turn in one.
        name: The agent's name, written on what it says.
        **deprecated_kwargs: `config_schema`, the old name of `context_schema`.

    Returns:
        A compiled LangGraph graph: invoke, stream and inspect it like any other. A run whose
        `recursion_limit` leaves too few steps for what its model asks ends with words, and not
        with a GraphRecursionError.

    Raises:
        SpecError: Something cannot be built.
        ImportError: The model is a string, and langchain is not installed.

    Warns:
        LangGraphDeprecatedSinceV10: `config_schema` is given.

    >>> from agent_factory.testing import ScriptedChatModel
    >>> def add(a: int, b: int) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> model = ScriptedChatModel([[{"name": "add", "args": {"a": 2, "b": 3}}], "It is 5."])
    >>> agent = create_react_agent(model, [add], prompt="You can count.")
    >>> agent.invoke({"messages": [("user", "2 + 3?")]})["messages"][-1].text
    'It is 5.'
    """
    context_schema = _context_schema(context_schema, deprecated_kwargs)
    services = {"checkpointer": checkpointer, "store": store, "cache": None, "transformers": None}
    check_services(model, services)
    spec = react_spec(
        Arguments(
            model=model,
            tools=tools,
            prompt=prompt,
            response_format=response_format,
            pre_model_hook=pre_model_hook,
            post_model_hook=post_model_hook,
            state_schema=state_schema,
            version=version,
            name=name,
            interrupts={"interrupt_before": interrupt_before, "interrupt_after": interrupt_after},
        )
    )
    agent = wire(spec, context_schema).compile(
        checkpointer=checkpointer,
        store=store,
        interrupt_before=node_names(interrupt_before),
        interrupt_after=node_names(interrupt_after),
        debug=debug,
        name=name,
    )
    return agent.with_config(CONFIG)


def _context_schema(given: type[Any] | None, deprecated: dict[str, Any]) -> type[Any] | None:
    """The schema of the context, by its name of today or by the one it had."""
    others = {name: value for name, value in deprecated.items() if name != "config_schema"}
    if others:
        raise ReactArgumentError(
            "create_react_agent",
            f"create_react_agent() got unexpected keyword arguments: {others}",
        )
    if "config_schema" not in deprecated:
        return given
    # Past this function and the one that builds, to the line of the user.
    warnings.warn(CONFIG_SCHEMA, LangGraphDeprecatedSinceV10, stacklevel=3)
    return given if given is not None else deprecated["config_schema"]
