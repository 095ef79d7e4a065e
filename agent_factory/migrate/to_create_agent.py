"""Reasons against turning a call of `create_react_agent` into a call of `create_agent`."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from agent_factory.migrate.bindings import CallSite, keyword_changes
from agent_factory.migrate.moves import TO_AGENT
from agent_factory.migrate.source import Source, dotted
from agent_factory.migrate.values import Finding

_POSITIONS = ("model", "tools")

_COUNTERPARTS = {
    "checkpointer", "config_schema", "context_schema", "debug", "interrupt_after",
    "interrupt_before", "model", "name", "prompt", "response_format", "state_modifier",
    "state_schema", "store", "tools",
}  # fmt: skip
"""Parameters with a counterpart, which some of them have for some values only."""

_NOT_TAKEN = {
    **{name: name for name in ("pre_model_hook", "post_model_hook", "retry_policy", "version")},
    "*": "star",
    "**": "star",
}
"""Parameters without a counterpart, and the keys of advice on them."""


def problems_of(site: CallSite) -> Iterator[Finding]:
    """The arguments that keep a call from becoming a call of `create_agent`."""
    for position, arg in enumerate(site.call.args):
        name = arg.star or (arg.keyword.value if arg.keyword else "")
        if not name and position < len(_POSITIONS):
            name = _POSITIONS[position]
        advice: str | None = _NOT_TAKEN.get(name, "unknown")
        if name in _COUNTERPARTS:
            advice = advice_on_value(name, arg.value, site.source)
        if advice:
            label = f"{arg.star}..." if arg.star else f"{name or '...'}=..."
            yield site.finding(arg, label, advice)
    # The edits are made later, for calls without a problem.
    yield from (f for f in keyword_changes(site, TO_AGENT) if isinstance(f, Finding))


def advice_on_value(name: str, value: cst.BaseExpression, source: Source) -> str | None:
    """The key of the advice on the value of a parameter; None for a value of `create_agent`."""
    match name, source.value_of(value):
        case "model", cst.Lambda() | cst.FunctionDef():
            return "chosen model"
        case "model", cst.Call(func=cst.Attribute(attr=cst.Name(value="bind" | "bind_tools"))):
            return "bound model"
        case "model", cst.BinaryOperation():
            return "chain"
        case "tools", cst.Call(func=called) if dotted(called).rpartition(".")[2] == "ToolNode":
            return "tool node"
        case "prompt" | "state_modifier", cst.Lambda() | cst.FunctionDef():
            return "dynamic prompt"
        # A variable may hold a function, so only certain texts move.
        case "prompt" | "state_modifier", _ if not _is_text(source, value):
            return "unknown prompt"
        case "response_format", cst.Tuple():
            return "response prompt"
        # None is the default of both functions.
        case "state_schema", _ if dotted(value) != "None":
            return "react state"
        case "interrupt_before" | "interrupt_after", nodes if not _is_only_tools(nodes):
            return "nodes"
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
