"""create_react_agent: langgraph's deprecated factory, on the parts of `create_agent`."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_core.messages import SystemMessage
from langchain_core.runnables import Runnable
from langgraph.prebuilt import ToolNode
from langgraph.warnings import LangGraphDeprecatedSinceV10

from agent_factory.errors import AgentFactoryWarning, raise_all, unknown_argument
from agent_factory.factory.agent import CONFIG, check_services, node_names
from agent_factory.factory.arguments import refused_names, unknown_nodes, wrong_types
from agent_factory.factory.wiring import wire
from agent_factory.hooks.introspection import Bound, layers_of
from agent_factory.prebuilt.react_errors import ReactArgumentError
from agent_factory.prebuilt.react_middleware import (
    Extraction,
    ModelCalls,
    ReactRules,
    UserHook,
    bound,
)
from agent_factory.prebuilt.react_models import invocable, read_model, takes_tools
from agent_factory.prebuilt.react_state import View, chosen_schema, model_schema, schemas_of
from agent_factory.runtime.spec import AgentSpec
from agent_factory.tools.registry import Toolbox, ToolLike, sort_tools
from agent_factory.topology.model import AgentStyle, Hook, Shape
from agent_factory.topology.topology import plan
from agent_factory.types import Graph, NodePolicy

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage
    from langchain_core.tools import BaseTool
    from langgraph.runtime import Runtime
    from langgraph.store.base import BaseStore
    from langgraph.types import Checkpointer, RetryPolicy

    Model = BaseChatModel | Runnable[Any, BaseMessage]
    ModelChoice = (
        Callable[[Any, Runtime[Any]], Model] | Callable[[Any, Runtime[Any]], Awaitable[Model]]
    )
    SystemPrompt = SystemMessage | str | Callable[..., Any] | Runnable[Any, Any]
    HookFunction = Callable[..., Any] | Runnable[Any, Any]


def react_spec(
    *,
    model: object,
    tools: Sequence[ToolLike] | ToolNode,
    prompt: Any,
    response_format: object,
    hooks: Mapping[str, object],
    state_schema: object,
    together: bool,
    name: str | None,
    nodes: Mapping[str, Any],
    policy: NodePolicy,
) -> AgentSpec:
    """Decide how an agent of these arguments works."""
    structured, has_hook = response_format is not None, hooks["pre_model_hook"] is not None
    schema = chosen_schema(state_schema, structured=structured)
    if isinstance(tools, ToolNode):
        toolbox = Toolbox(dict(tools.tools_by_name), (), {}, node=tools)
    else:
        toolbox, mistakes = sort_tools((None, tool) for tool in tools)
        raise_all(mistakes)
    model = read_model(model)
    if isinstance(model, Runnable):
        takes = takes_tools(model, list(toolbox.client.values()), len(toolbox.provider))
        toolbox = replace(toolbox, is_bound=not takes)
    view, has_tools = View(schema), bool(toolbox.client)
    rules = ReactRules(
        toolbox.client.keys(),
        toolbox.direct,
        view=view,
        together=together,
        hooked=has_hook,
        reviewed=hooks["post_model_hook"] is not None,
        structured=structured,
    )
    hook_nodes: list[Bound[Hook]] = [
        bound(argument, UserHook(invocable(hook, argument, argument), view))
        for argument, hook in hooks.items()
        if hook is not None
    ]
    if structured:
        end = Extraction(model, response_format, view)
        hook_nodes.append(bound("generate_structured_response", end))
    message = SystemMessage(prompt) if isinstance(prompt, str) else prompt
    is_fixed = message is None or isinstance(message, SystemMessage)
    prompts = None if is_fixed else invocable(message, "prompt", "Prompt")
    layer = ModelCalls(model, prompts, View(model_schema(schema, hooked=has_hook)), rules)
    topology = plan(
        Shape(
            hooks=tuple(node.definition for node in hook_nodes),
            has_tools=has_tools,
            tools=toolbox.tool_definitions(),
            style=AgentStyle.REACT_V1 if has_tools and together else AgentStyle.REACT,
        )
    )
    policies = dict.fromkeys(topology.nodes, policy) | (nodes["node_policies"] or {})
    return AgentSpec(
        model=model if isinstance(model, Runnable) else None,
        system_message=message if is_fixed else None,
        hooks=tuple(hook_nodes),
        model_layers=tuple(layers_of(layer)),
        tool_layers=(),
        toolbox=toolbox,
        response_format=None,
        schemas=schemas_of(schema, has_tools=has_tools, hooked=has_hook),
        topology=topology,
        handle_tool_errors=None,
        name=name,
        middleware=(),
        rules=rules,
        repairs_history=False,
        tool_state_view=view,
        nodes={**nodes, "node_policies": policies},
    )


_CONFIG_SCHEMA_TEXT = (
    "`config_schema` is deprecated and will be removed. Please use `context_schema` instead."
)
"""The text of langgraph."""


def create_react_agent(
    model: str | Model | ModelChoice,
    tools: Sequence[BaseTool | Callable[..., object] | dict[str, Any]] | ToolNode,
    *,
    prompt: SystemPrompt | None = None,
    response_format: object = None,
    pre_model_hook: HookFunction | None = None,
    post_model_hook: HookFunction | None = None,
    state_schema: type[object] | None = None,
    context_schema: type[object] | None = None,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
    interrupt_before: Sequence[str] | Literal["*"] | None = None,
    interrupt_after: Sequence[str] | Literal["*"] | None = None,
    debug: bool = False,
    version: Literal["v1", "v2"] = "v2",
    name: str | None = None,
    node_policies: Mapping[str, NodePolicy] | None = None,
    retry_policy: RetryPolicy | Mapping[str, Any] | Sequence[RetryPolicy] | None = None,
    **deprecated_kwargs: Any,
) -> Graph:
    """Build an agent as langgraph's `create_react_agent` does: a model in a loop with tools.

    For code with langgraph's factory. New code should use `create_agent`, where middleware
    takes the place of hooks and prompts: docs/react_agent.md compares the two.

    Args:
        model: A chat model, also with bound tools, a chain with a chat model at its end,
            "provider:name" with langchain installed, or a function (state, runtime) with the
            model of each call as result, with bound tools from `tools`.
        tools: Functions with a docstring, BaseTools, provider tools as dicts, or a ToolNode.
            Without a tool for the agent to run there is no loop: the model is called once.
        prompt: A string or a system message before all other messages, or a function or runnable
            of the state that returns all the messages for the model.
        response_format: A schema, or (system prompt, schema): after the loop the model is called
            once more, for `structured_response`.
        pre_model_hook: Runs before each call of the model, as a node. Writes `messages`, or
            `llm_input_messages`, which replace them for this call.
        post_model_hook: Runs after each call of the model, as a node, before tool calls.
            Version "v2" only.
        state_schema: A TypedDict or pydantic model with `messages`, `remaining_steps`, and
            `structured_response` if there is a `response_format`.
        context_schema: The type of `context`, the data of a run (a user's id, say).
        checkpointer: Keeps threads.
        store: Keeps data across threads.
        interrupt_before: Nodes before which a run pauses, or "*" for all.
        interrupt_after: Nodes after which a run pauses, or "*" for all.
        debug: Print every step.
        version: "v2" runs each tool call as a separate task, "v1" all calls of a turn together.
        name: The agent's name, also in its messages.
        node_policies: Retries, timeouts and caches of nodes, by the names of the nodes.
        retry_policy: Which errors start a node again, and when, for each node outside of
            `node_policies`: a RetryPolicy, or a dict of its fields.
        **deprecated_kwargs: `config_schema`, the old name of `context_schema`.

    Returns:
        A compiled LangGraph graph: invoke, stream and inspect it like any other. A run whose
        `recursion_limit` leaves too few steps for the tool calls ends with a message instead of a
        GraphRecursionError.

    Raises:
        SpecError: Something cannot be built.
        ImportError: The model is a string, and langchain is not installed.

    Warns:
        LangGraphDeprecatedSinceV10: `config_schema` is given.
        AgentFactoryWarning: Providers refuse the name of the agent or of a tool.

    >>> from agent_factory.testing import ScriptedChatModel
    >>> def add(a: int, b: int) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> model = ScriptedChatModel([[{"name": "add", "args": {"a": 2, "b": 3}}], "It is 5."])
    >>> agent = create_react_agent(model, [add], prompt="You can count.")
    >>> agent.invoke({"messages": [("user", "2 + 3?")]})["messages"][-1].text
    'It is 5.'
    """
    if others := {k: v for k, v in deprecated_kwargs.items() if k != "config_schema"}:
        reason = f"create_react_agent() got unexpected keyword arguments: {others}"
        error = ReactArgumentError("create_react_agent", reason)
        *names, _ = signature(create_react_agent).parameters
        for name in others:  # a note, because the text is langgraph's
            error.add_note(f"{name}: {unknown_argument(name, '', names).hint}")
        raise error
    if "config_schema" in deprecated_kwargs:
        warnings.warn(_CONFIG_SCHEMA_TEXT, LangGraphDeprecatedSinceV10, stacklevel=2)
        context_schema = context_schema or deprecated_kwargs["config_schema"]
    services = {"checkpointer": checkpointer, "store": store, "cache": None, "transformers": None}
    check_services(model, services, context_schema)
    if version not in ("v1", "v2"):
        raise ReactArgumentError(
            "version", f"Invalid version {version}. Supported versions are 'v1' and 'v2'."
        )
    if version == "v1" and post_model_hook is not None:
        raise ReactArgumentError(
            "post_model_hook",
            "post_model_hook needs version 'v2': with 'v1' the calls of a turn run together, so a "
            "hook cannot decide about each of them.",
            "Leave out version.",
        )
    if tools is None:
        raise ReactArgumentError("tools", "`tools` must be a list, got None", "Pass a list, or [].")
    nodes = {
        "interrupt_before": interrupt_before,
        "interrupt_after": interrupt_after,
        "node_policies": node_policies,
    }
    # A ToolNode is not a list, and has checked its tools.
    tool_list = [] if isinstance(tools, ToolNode) else tools
    raise_all([*wrong_types(tool_list, None, nodes, name)])
    spec = react_spec(
        model=model,
        tools=tools,
        prompt=prompt,
        response_format=response_format,
        hooks={"pre_model_hook": pre_model_hook, "post_model_hook": post_model_hook},
        state_schema=state_schema,
        together=version == "v1",
        name=name,
        nodes=nodes,
        policy=NodePolicy(cast("RetryPolicy | None", retry_policy)),  # a dict becomes a policy
    )
    raise_all([*unknown_nodes(nodes, spec.topology)])
    if refused := tuple(refused_names(spec.topology.tools, name)):  # langgraph takes any name
        warnings.warn(AgentFactoryWarning(refused), stacklevel=2)
    agent = wire(spec, context_schema).compile(
        checkpointer=checkpointer,
        store=store,
        interrupt_before=node_names(interrupt_before),
        interrupt_after=node_names(interrupt_after),
        debug=debug,
        name=name,
    )
    # Without the metadata of `create_agent`: LangGraph's has none, and checkpoints would hold it.
    return agent.with_config(recursion_limit=CONFIG["recursion_limit"])
