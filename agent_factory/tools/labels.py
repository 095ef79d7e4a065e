"""Labels of tools: text of other people, private data, effects outside.

An agent that reads text of other people, has private data, and can send something out can be made
to send the data to the authors of the text: the lethal trifecta.
`agent_factory.guarantees.trifectas` finds trifectas in a plan, and `FlowGuardMiddleware` guards
them in a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args

from langchain_core.tools import BaseTool

from agent_factory.errors import ArgumentError, describe
from agent_factory.topology.declarations import Label

ToolT = TypeVar("ToolT", bound=BaseTool | Callable[..., Any])

LABELS: tuple[Label, ...] = get_args(Label)
"""All labels, in the order in which a plan shows them."""

_KEY = "labels"
"""Key of the labels among the declarations of a tool."""

_ATTRIBUTE = "_agent_factory_"
"""Beginning of the attributes of a function with its declarations."""

_HINTS = frozenset({"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"})
"""Keys of MCP's annotations."""


def tool_labels(*labels: Label | None) -> Callable[[ToolT], ToolT]:
    """Declare the sources and effects of a tool: a decorator for functions and tools.

    - "untrusted": its results hold text of other people: web pages, mails, tickets.
    - "private": its results hold private data: mails, files, records of customers.
    - "outside": it has an effect outside: it sends, posts or pays.

    A tool may have several: fetching an address reads text of other people, and tells them which
    address was asked for. The labels replace the labels that `labels_of` reads from MCP's
    annotations, and add to the labels of another `tool_labels`; `tool_labels(None)` declares that
    there are none.

    A function keeps its labels, and a BaseTool is copied with them.

    Args:
        labels: Some of "untrusted", "private" and "outside"; or None alone.

    Raises:
        ArgumentError: There is no label, a label is unknown, or the decorated object is not a tool.

    >>> @tool_labels("untrusted", "private")
    ... def read_mail(id: str) -> str:
    ...     "Read a mail."
    ...     return "..."
    >>> labels_of(read_mail)
    ('untrusted', 'private')
    """
    if not labels:
        hint = 'Write @tool_labels("untrusted"), or @tool_labels(None) for a tool that has none.'
        raise ArgumentError("tool_labels", "needs at least one label.", hint)
    new = () if labels == (None,) else _in_order(labels)

    def decorate(tool: ToolT) -> ToolT:
        ordered = _in_order((*new, *(own_labels(tool) or ()))) if new else ()
        return declare(tool, _KEY, [*ordered], '@tool_labels("untrusted")')

    return decorate


def labels_of(tool: object) -> tuple[Label, ...]:
    """Return the labels of a tool.

    Without `tool_labels`, the annotations of an MCP server count, which langchain-mcp-adapters
    keeps in `tool.metadata`. `openWorldHint` makes a tool "untrusted", and "outside" too unless the
    tool has `readOnlyHint`. A missing hint has the default of MCP: an open world, and not read
    only. A server writes annotations about itself.

    >>> from langchain_core.tools import tool
    >>> @tool
    ... def search(query: str) -> str:
    ...     "Search."
    ...     return "..."
    >>> labels_of(search)
    ()
    >>> search.metadata = {"readOnlyHint": True, "openWorldHint": True}
    >>> labels_of(search)
    ('untrusted',)
    """
    labels = own_labels(tool)
    if labels is not None:
        return labels
    hints = getattr(tool, "metadata", None)
    if not isinstance(hints, Mapping) or not _HINTS & hints.keys():
        return ()
    if hints.get("openWorldHint") is False:
        return ()
    return ("untrusted",) if hints.get("readOnlyHint") is True else ("untrusted", "outside")


def own_labels(tool: object) -> tuple[Label, ...] | None:
    """Return the labels of a tool or its function from `tool_labels`; None without."""
    labels = declaration_of(tool, _KEY)
    return None if labels is None else _in_order(labels)  # which may be written by hand


def declare(tool: ToolT, key: str, value: object, example: str) -> ToolT:
    """Return a tool with the declaration of a decorator; a function itself keeps a declaration.

    `key` is a key of `BaseTool.extras`, of which integrations send the keys that they know, and an
    attribute of functions, which `functools.wraps` copies. `example` is for the error.

    Raises:
        ArgumentError: `tool` is not a tool.
    """
    if isinstance(tool, BaseTool):
        return tool.model_copy(update={"extras": {**(tool.extras or {}), key: value}})
    if not callable(tool) or isinstance(tool, type):
        decorator = example.partition("(")[0].removeprefix("@")
        reason = f"must decorate a function or a BaseTool, got {describe(tool)}."
        hint = f"Write {example} above the tool, or {decorator}(...)(tool)."
        raise ArgumentError(decorator, reason, hint)
    # The function stays callable in tests, and becomes a tool when the agent is built.
    setattr(tool, _ATTRIBUTE + key, value)
    return tool


def declaration_of(tool: object, key: str) -> Any:
    """Return the declaration of a tool or its function under a key; None without."""
    functions: tuple[object, ...] = (tool,)
    if isinstance(tool, BaseTool):
        if tool.extras and key in tool.extras:
            return tool.extras[key]
        fields = vars(tool)  # pydantic takes long to report a missing field
        functions = (fields.get("func"), fields.get("coroutine"))
    for function in functions:
        if (value := getattr(function, _ATTRIBUTE + key, None)) is not None:
            return value
    return None


def _in_order(labels: Any) -> tuple[Label, ...]:
    """Return labels in one order; raise an error for a label that would guard nothing."""
    for label in [labels] if isinstance(labels, str) else labels:
        if label not in LABELS:
            choices = ", ".join(f'"{choice}"' for choice in LABELS)
            reason = f"must be some of {choices}, got {describe(label)}."
            raise ArgumentError("labels", reason, 'Write @tool_labels("untrusted") above the tool.')
    return tuple(label for label in LABELS if label in labels)
