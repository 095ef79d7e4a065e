"""The arguments of `create_react_agent` become an `AgentSpec`: a second shape, the same parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import SystemMessage
from langchain_core.runnables import Runnable
from langgraph.prebuilt import ToolNode

from agent_factory.base import AgentMiddleware
from agent_factory.checks import unknown_interrupts, wrong_types
from agent_factory.errors import raise_all
from agent_factory.introspect import Bound, layers_of
from agent_factory.prebuilt.react_errors import ReactArgumentError
from agent_factory.prebuilt.react_hooks import Extraction, UserHook, bound
from agent_factory.prebuilt.react_layers import Choice, Conversation, Prompt, StepsLeft
from agent_factory.prebuilt.react_models import (
    ChosenModel,
    chat_model_of,
    read_model,
    takes_tools,
)
from agent_factory.prebuilt.react_parts import part
from agent_factory.prebuilt.react_rules import ReactRules, Steps
from agent_factory.prebuilt.react_state import View, chosen_schema, model_schema, schemas_of
from agent_factory.spec import AgentSpec
from agent_factory.toolbox import Toolbox, sort_tools
from agent_factory.topology import Dialect, Hook, Shape, Topology, plan

VERSIONS = ("v1", "v2")


@dataclass(frozen=True, slots=True)
class Arguments:
    """What `create_react_agent` was given of the agent itself."""

    model: Any
    tools: Any
    prompt: Any
    response_format: Any
    pre_model_hook: Any
    post_model_hook: Any
    state_schema: Any
    version: Any
    name: str | None
    interrupts: Mapping[str, Any]


def react_spec(given: Arguments) -> AgentSpec:
    """Check and normalise the arguments.

    Raises:
        SpecError: Something cannot be built.
        ImportError: The model is a string, and langchain is not installed.
    """
    _check(given)
    structured, hooked = given.response_format is not None, given.pre_model_hook is not None
    schema = chosen_schema(given.state_schema, structured=structured)
    toolbox = _toolbox(given.tools)
    model = read_model(given.model)
    if isinstance(model, Runnable):
        takes = takes_tools(model, list(toolbox.client.values()), len(toolbox.provider))
        toolbox = replace(toolbox, told=not takes)
    view, shown = View(schema), View(model_schema(schema, hooked=hooked))
    rules = ReactRules(
        toolbox.client,
        toolbox.direct,
        view,
        together=given.version == "v1",
        reviewed=given.post_model_hook is not None,
    )
    hooks = tuple(_hooks(given, model, view))
    topology = _topology(given, hooks, toolbox)
    raise_all([*unknown_interrupts(given.interrupts, topology)])
    return AgentSpec(
        model=model if isinstance(model, Runnable) else None,
        system_message=_system_message(given.prompt),
        hooks=hooks,
        layers=tuple(
            layer
            for member in _members(given, model, rules, bool(toolbox.client), shown)
            for layer in layers_of(member)
        ),
        toolbox=toolbox,
        response_format=None,
        schemas=schemas_of(schema, has_tools=bool(toolbox.client), hooked=hooked),
        topology=topology,
        handle_tool_errors=None,
        name=given.name,
        middleware=(),
        rules=rules,
        mends=False,
        view=view,
    )


def _check(given: Arguments) -> None:
    if given.version not in VERSIONS:
        raise ReactArgumentError(
            "version",
            f"Invalid version {given.version}. Supported versions are 'v1' and 'v2'.",
        )
    if given.version == "v1" and given.post_model_hook is not None:
        raise ReactArgumentError(
            "post_model_hook",
            "post_model_hook needs version 'v2': with 'v1' the calls of a turn are run together, "
            "before a hook could have a say on each.",
            "Leave version out.",
        )
    if given.tools is None:
        raise ReactArgumentError("tools", "None is no list of tools", "Give a list, even [].")
    tools = [] if isinstance(given.tools, ToolNode) else given.tools
    raise_all([*wrong_types(tools, None, given.interrupts, given.name)])
    for name in ("pre_model_hook", "post_model_hook"):
        hook = getattr(given, name)
        if hook is not None and not callable(hook) and not isinstance(hook, Runnable):
            raise ReactArgumentError(name, f"Got unexpected type for `{name}`: {type(hook)}")


def _toolbox(tools: Any) -> Toolbox:
    if isinstance(tools, ToolNode):
        return Toolbox(dict(tools.tools_by_name), (), {}, node=tools)
    toolbox, mistakes = sort_tools((None, tool) for tool in tools)
    raise_all(mistakes)
    return toolbox


def _system_message(prompt: Any) -> SystemMessage | None:
    """A prompt that never changes.

    Raises:
        ReactArgumentError: It is no prompt at all.
    """
    if prompt is None or isinstance(prompt, SystemMessage):
        return prompt
    if isinstance(prompt, str):
        return SystemMessage(prompt)
    if callable(prompt) or isinstance(prompt, Runnable):
        return None
    raise ReactArgumentError(
        "prompt",
        f"Got unexpected type for `prompt`: {type(prompt)}",
        "Give a text, a SystemMessage, a function of the state, or a runnable.",
    )


def _hooks(
    given: Arguments, model: Runnable[Any, Any] | ChosenModel, view: View
) -> Iterator[Bound[Hook]]:
    for name in ("pre_model_hook", "post_model_hook"):
        if (hook := getattr(given, name)) is not None:
            yield bound(name, UserHook(part(hook, name), view))
    if given.response_format is not None:
        if isinstance(model, Runnable):
            chat_model_of(model)  # refused now, and not at the end of the first run
        yield bound("generate_structured_response", Extraction(model, given.response_format, view))


def _members(
    given: Arguments,
    model: Runnable[Any, Any] | ChosenModel,
    rules: ReactRules,
    has_tools: bool,
    shown: View,
) -> Iterator[AgentMiddleware[Any, Any]]:
    """The middleware around the model's call, outermost first."""
    hooked = given.pre_model_hook is not None
    if has_tools:
        post, structured = given.post_model_hook is not None, given.response_format is not None
        yield StepsLeft(rules, Steps(hooked, post, structured))
    if isinstance(model, ChosenModel):
        yield Choice(model, shown)
    yield Conversation(shown, hooked=hooked)
    if given.prompt is not None and not isinstance(given.prompt, str | SystemMessage):
        yield Prompt(part(given.prompt, "Prompt"), shown)


def _topology(given: Arguments, hooks: tuple[Bound[Hook], ...], toolbox: Toolbox) -> Topology:
    together = given.version == "v1" and toolbox.client
    return plan(
        Shape(
            hooks=tuple(hook.fact for hook in hooks),
            has_tools=bool(toolbox.client),
            tools=toolbox.facts(),
            dialect=Dialect.REACT_TOGETHER if together else Dialect.REACT,
        )
    )
