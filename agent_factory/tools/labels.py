"""Labels of tools: text that others wrote, private data, effects outside.

An agent that reads text of others, has private data, and can send something out can be made to send
that data to those who wrote the text: the lethal trifecta. `agent_factory.guarantees.trifectas`
finds it in a plan, and `FlowGuardMiddleware` guards it in a run.
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
"""Key of the labels among what is declared about a tool."""

_ATTRIBUTE = "_agent_factory_"
"""Beginning of the attributes of a function that hold what is declared about it."""

_HINTS = frozenset({"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"})
"""Keys of MCP's annotations."""


def tool_labels(*labels: Label | None) -> Callable[[ToolT], ToolT]:
    """Say what a tool brings and takes: a decorator for functions and tools.

    - "untrusted": its results hold text that others wrote: web pages, mails, tickets.
    - "private": its results hold private data: mails, files, records of customers.
    - "outside": it has an effect outside: it sends, posts or pays.

    A tool may have several: to fetch an address reads what others wrote, and tells them which
    address was asked for. The labels take the place of those that `labels_of` reads from MCP's
    annotations, and are added to those of another `tool_labels`; `tool_labels(None)` says that it
    has none.

    A function keeps its labels, and a BaseTool is copied with them.

    Args:
        labels: Some of "untrusted", "private" and "outside"; or None alone.

    Raises:
        ArgumentError: There is no label, a label is another one, or a thing is not a tool.

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

    Without `tool_labels`, the annotations count that an MCP server gives a tool, which
    langchain-mcp-adapters keeps in `tool.metadata`. `openWorldHint` makes it "untrusted", and
    "outside" too unless it has `readOnlyHint`. A hint that the annotations leave out has the
    default of MCP: an open world, and not read only. Annotations are what a server says of itself.

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
    """Return the labels that `tool_labels` gave a tool or its function; None without."""
    labels = declaration_of(tool, _KEY)
    return None if labels is None else _in_order(labels)  # which may be written by hand


def declare(tool: ToolT, key: str, value: object, example: str) -> ToolT:
    """Return a tool of which a decorator declares something; a function keeps it itself.

    Args:
        tool: A function, or a BaseTool, which is copied.
        key: A word for what is declared. It is a key of `BaseTool.extras`, of which integrations
            send the keys that they know, and an attribute of functions, which `functools.wraps`
            copies.
        value: What is declared.
        example: The decorator, for the error.

    Raises:
        ArgumentError: It is not a tool.
    """
    if isinstance(tool, BaseTool):
        return tool.model_copy(update={"extras": {**(tool.extras or {}), key: value}})
    if not callable(tool) or isinstance(tool, type):
        decorator = example.partition("(")[0].removeprefix("@")
        reason = f"must decorate a function or a BaseTool, got {describe(tool)}."
        hint = f"Write {example} above the tool, or {decorator}(...)(tool)."
        raise ArgumentError(decorator, reason, hint)
    # It stays callable in tests, and becomes a tool when the agent is built.
    setattr(tool, _ATTRIBUTE + key, value)
    return tool


def declaration_of(tool: object, key: str) -> Any:
    """Return what is declared about a tool or its function under a key; None without."""
    functions: tuple[object, ...] = (tool,)
    if isinstance(tool, BaseTool):
        if tool.extras and key in tool.extras:
            return tool.extras[key]
        fields = vars(tool)  # pydantic takes long to say that a tool has no such field
        functions = (fields.get("func"), fields.get("coroutine"))
    for function in functions:
        if (value := getattr(function, _ATTRIBUTE + key, None)) is not None:
            return value
    return None


def _in_order(labels: Any) -> tuple[Label, ...]:
    """Return labels in one order; raise an error for one that would guard nothing."""
    for label in [labels] if isinstance(labels, str) else labels:
        if label not in LABELS:
            choices = ", ".join(f'"{choice}"' for choice in LABELS)
            reason = f"must be some of {choices}, got {describe(label)}."
            raise ArgumentError("labels", reason, 'Write @tool_labels("untrusted") above the tool.')
    return tuple(label for label in LABELS if label in labels)
