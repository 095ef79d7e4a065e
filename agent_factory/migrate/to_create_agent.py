"""Whether a call of `create_react_agent` can become one of `create_agent`, and why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import libcst as cst

from agent_factory.migrate.bindings import CallSite, keyword_changes
from agent_factory.migrate.moves import TO_AGENT
from agent_factory.migrate.source import Source, dotted
from agent_factory.migrate.values import Finding

Problem = tuple[str, str]
"""Why an argument cannot be given to `create_agent`, and what to write instead."""

Rule = Callable[[Source, cst.BaseExpression], Problem | None]


def problems_of(site: CallSite) -> Iterator[Finding]:
    """The arguments that keep a call from becoming one of `create_agent`."""
    for position, arg in enumerate(site.call.args):
        name = arg.star or (arg.keyword.value if arg.keyword else "")
        if not name and position < len(_POSITIONS):
            name = _POSITIONS[position]
        rule = _RULES.get(name, _UNKNOWN)
        problem = rule(site.source, arg.value) if callable(rule) else rule
        if problem:
            shown = f"{arg.star}..." if arg.star else f"{name or '...'}=..."
            yield site.finding(arg, shown, *problem)
    yield from (f for f in keyword_changes(site, TO_AGENT) if isinstance(f, Finding))


def _model(source: Source, value: cst.BaseExpression) -> Problem | None:
    given = source.value_of(value)
    if isinstance(given, cst.Lambda | cst.FunctionDef):
        return (
            "create_agent takes a model, and this is a function that chooses one",
            "the default model, and a @wrap_model_call that calls the handler with "
            "request.override(model=...)",
        )
    method = given.func if isinstance(given, cst.Call) else None
    if isinstance(method, cst.Attribute) and method.attr.value in ("bind", "bind_tools"):
        return (
            "create_agent binds the tools itself",
            "the model without bound arguments, and a @wrap_model_call that calls the handler with "
            "request.override(model_settings=...)",
        )
    if isinstance(given, cst.BinaryOperation):
        return (
            "create_agent takes a model, and this is a chain",
            "the model alone, and a middleware for the other steps",
        )
    return None


def _tools(source: Source, value: cst.BaseExpression) -> Problem | None:
    given = source.value_of(value)
    if isinstance(given, cst.Call) and dotted(given.func).rpartition(".")[2] == "ToolNode":
        return (
            "create_agent builds its own ToolNode",
            "the list of tools, and handle_tool_errors=... if the node had it",
        )
    return None


def _prompt(source: Source, value: cst.BaseExpression) -> Problem | None:
    given = source.value_of(value)
    if isinstance(given, cst.Lambda | cst.FunctionDef):
        return (
            "system_prompt is a string, and this is a function",
            "middleware=[...] with a @dynamic_prompt; for a function that returns messages, a "
            "@wrap_model_call with request.override(messages=...)",
        )
    if _is_text(source, value):
        return None
    return (
        "this file does not show whether it is a string or a SystemMessage",
        "create_agent(..., system_prompt=...) if it is one",
    )


_TEXT_METHODS = ("format", "join", "lstrip", "replace", "rstrip", "strip")
_TEXT_FUNCTIONS = ("SystemMessage", "cleandoc", "dedent", "str")


def _is_text(source: Source, value: cst.BaseExpression) -> bool:
    given = source.value_of(value)
    if isinstance(given, cst.BaseString) or _is_none(given):
        return True
    if isinstance(given, cst.BinaryOperation):
        left, right = source.value_of(given.left), source.value_of(given.right)
        return isinstance(left, cst.BaseString) or isinstance(right, cst.BaseString)
    if not isinstance(given, cst.Call):
        return False
    if dotted(given.func).rpartition(".")[2] in _TEXT_FUNCTIONS:
        return True
    method = given.func if isinstance(given.func, cst.Attribute) else None
    return bool(method and method.attr.value in _TEXT_METHODS and _is_text(source, method.value))


def _is_none(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


def _response_format(source: Source, value: cst.BaseExpression) -> Problem | None:
    if isinstance(source.value_of(value), cst.Tuple):
        return (
            "create_agent asks for the response in its loop, without a separate prompt",
            "response_format=<the schema>, and the prompt as a part of system_prompt",
        )
    return None


def _state_schema(source: Source, value: cst.BaseExpression) -> Problem | None:
    if _is_none(value):
        return None
    return (
        "create_agent takes a TypedDict that extends agent_factory.AgentState, "
        "without remaining_steps",
        "such a class here",
    )


def _interrupts(source: Source, value: cst.BaseExpression) -> Problem | None:
    given = source.value_of(value)
    if _is_none(given):
        return None
    nodes = given.elements if isinstance(given, cst.List | cst.Tuple) else None
    if nodes is not None and all(
        isinstance(node.value, cst.SimpleString) and node.value.raw_value == "tools"
        for node in nodes
    ):
        return None
    return (
        "nodes have other names in create_agent",
        "'model' for 'agent'; the nodes of hooks are Class.before_model and Class.after_model",
    )


_POSITIONS = ("model", "tools")

_UNKNOWN = ("create_agent has no such parameter", "nothing, or its counterpart in create_agent")

_STARRED = (
    "it hides which parameters are passed",
    "create_agent with the names of its parameters: system_prompt for prompt, "
    "context_schema for config_schema, middleware for hooks",
)

_HOOK = "create_agent has middleware instead of hooks"

_RULES: Mapping[str, Rule | Problem | None] = {
    "*": _STARRED,
    "**": _STARRED,
    "model": _model,
    "tools": _tools,
    "prompt": _prompt,
    "state_modifier": _prompt,
    "response_format": _response_format,
    "pre_model_hook": (_HOOK, "middleware=[...] with a @before_model; docs/migration.md shows how"),
    "post_model_hook": (
        _HOOK,
        "middleware=[...] with an @after_model; docs/migration.md shows how",
    ),
    "state_schema": _state_schema,
    "context_schema": None,
    "config_schema": None,
    "checkpointer": None,
    "store": None,
    "interrupt_before": _interrupts,
    "interrupt_after": _interrupts,
    "debug": None,
    "version": ("create_agent has one version, which sends calls as v2 does", "nothing"),
    "name": None,
}
"""For each parameter: a rule, a problem in any case, or None where it means the same."""
