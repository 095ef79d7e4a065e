"""Reasons why a call of `create_react_agent` cannot become one of `create_agent`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import libcst as cst

from agent_factory.migrate.bindings import CallSite, keyword_changes
from agent_factory.migrate.moves import TO_AGENT
from agent_factory.migrate.source import Source, dotted
from agent_factory.migrate.values import Finding

Problem = tuple[str, str]
"""Why an argument cannot be given to `create_agent`, and what to write instead."""

_POSITIONS = ("model", "tools")

_COUNTERPARTS = {
    "checkpointer", "config_schema", "context_schema", "debug", "interrupt_after",
    "interrupt_before", "model", "name", "prompt", "response_format", "state_modifier",
    "state_schema", "store", "tools",
}  # fmt: skip
"""Parameters with a counterpart, which some of them have for some values only."""

_UNKNOWN_PARAMETER = "create_agent has no such parameter", "nothing, or its counterpart there"

_STAR_ARGUMENT = (
    "it hides which parameters are passed",
    "create_agent with the names of its parameters: system_prompt for prompt, "
    "context_schema for config_schema, middleware for hooks",
)

_HOOK = "create_agent has middleware instead of hooks"

_NOT_TAKEN: Mapping[str, Problem] = {
    "*": _STAR_ARGUMENT,
    "**": _STAR_ARGUMENT,
    "pre_model_hook": (_HOOK, "middleware=[...] with a @before_model; docs/migration.md shows how"),
    "post_model_hook": (_HOOK, "middleware=[...] with @after_model; docs/migration.md shows how"),
    "retry_policy": (
        "create_agent takes the policies of nodes by their names",
        "node_policies={'model': NodePolicy(retry_policy=...)}, and the same for other nodes",
    ),
    "version": ("create_agent has one version, which sends calls as v2 does", "nothing"),
}
"""Parameters without a counterpart."""


def problems_of(site: CallSite) -> Iterator[Finding]:
    """The arguments that keep a call from becoming one of `create_agent`."""
    for position, arg in enumerate(site.call.args):
        name = arg.star or (arg.keyword.value if arg.keyword else "")
        if not name and position < len(_POSITIONS):
            name = _POSITIONS[position]
        problem: Problem | None = _NOT_TAKEN.get(name, _UNKNOWN_PARAMETER)
        if name in _COUNTERPARTS:
            problem = problem_of(name, arg.value, site.source)
        if problem:
            label = f"{arg.star}..." if arg.star else f"{name or '...'}=..."
            yield site.finding(arg, label, *problem)
    # The edits are made later, for calls without a problem.
    yield from (f for f in keyword_changes(site, TO_AGENT) if isinstance(f, Finding))


def problem_of(name: str, value: cst.BaseExpression, source: Source) -> Problem | None:
    """The problem with the value of a parameter, if there is one."""
    match name, source.value_of(value):
        case "model", cst.Lambda() | cst.FunctionDef():
            return (
                "create_agent takes a model, and this is a function that chooses one",
                "the default model, and a @wrap_model_call that calls the handler with "
                "request.override(model=...)",
            )
        case "model", cst.Call(func=cst.Attribute(attr=cst.Name(value="bind" | "bind_tools"))):
            return (
                "create_agent binds the tools itself",
                "the model without bound arguments, and a @wrap_model_call that calls the handler "
                "with request.override(model_settings=...)",
            )
        case "model", cst.BinaryOperation():
            return (
                "create_agent takes a model, and this is a chain",
                "the model alone, and a middleware for the other steps",
            )
        case "tools", cst.Call(func=called) if dotted(called).rpartition(".")[2] == "ToolNode":
            return (
                "create_agent builds its own ToolNode",
                "the list of tools, and handle_tool_errors=... if the node had it",
            )
        case "prompt" | "state_modifier", cst.Lambda() | cst.FunctionDef():
            return (
                "system_prompt is a string, and this is a function",
                "middleware=[...] with a @dynamic_prompt; for a function that returns messages, a "
                "@wrap_model_call with request.override(messages=...)",
            )
        # A variable may hold a function, so only what is a text for certain moves.
        case "prompt" | "state_modifier", _ if not _is_text(source, value):
            return (
                "this file does not show whether it is a string or a SystemMessage",
                "create_agent(..., system_prompt=...) if it is one",
            )
        case "response_format", cst.Tuple():
            return (
                "create_agent asks for the response in its loop, without a separate prompt",
                "response_format=<the schema>, and the prompt as a part of system_prompt",
            )
        # None is the default of both functions.
        case "state_schema", _ if dotted(value) != "None":
            return (
                "create_agent takes a TypedDict that extends agent_factory.AgentState, "
                "without remaining_steps",
                "such a class here",
            )
        case "interrupt_before" | "interrupt_after", given if not _is_only_tools(given):
            return (
                "nodes have other names in create_agent",
                "'model' for 'agent'; the nodes of hooks are Class.before_model and "
                "Class.after_model",
            )
    return None


_TEXT_METHODS = ("format", "join", "lstrip", "replace", "rstrip", "strip")
_TEXT_FUNCTIONS = ("SystemMessage", "cleandoc", "dedent", "str")


def _is_text(source: Source, value: cst.BaseExpression) -> bool:
    match source.value_of(value):
        case cst.BaseString() | cst.Name(value="None"):
            return True
        case cst.BinaryOperation(left=left, right=right):
            return any(isinstance(source.value_of(x), cst.BaseString) for x in (left, right))
        case cst.Call(func=called) if dotted(called).rpartition(".")[2] in _TEXT_FUNCTIONS:
            return True
        case cst.Call(func=cst.Attribute(value=text, attr=method)):
            return method.value in _TEXT_METHODS and _is_text(source, text)
    return False


def _is_only_tools(argument: cst.CSTNode) -> bool:
    """Return True if `interrupt_before` or `interrupt_after` is None, or only the tools."""
    match argument:
        case cst.Name(value="None"):
            return True
        case cst.List(elements=nodes) | cst.Tuple(elements=nodes):
            values = [node.value for node in nodes]
            return all(isinstance(v, cst.SimpleString) and v.raw_value == "tools" for v in values)
    return False
