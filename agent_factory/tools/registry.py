"""Sort the tools of an agent: those it runs, those the provider runs, those that are an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from langchain_core.tools import BaseTool
from langchain_core.tools import tool as make_tool
from langgraph.prebuilt import ToolNode as LangGraphToolNode

from agent_factory.errors import ArgumentError, SpecError, describe
from agent_factory.tools.injection import validate_tool
from agent_factory.topology.model import Tool, ToolKind

ToolLike = BaseTool | Callable[..., Any] | dict[str, Any]

_made: WeakKeyDictionary[Callable[..., Any], BaseTool] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of an agent, sorted.

    Args:
        client: Tools the agent runs, by name.
        provider: Tools the provider runs, as it wants them described.
        owners: The middleware that bring tools, by the tools' names.
        node: The node that runs them, where its author brought one.
        told: The model knows of them already.
    """

    client: dict[str, BaseTool]
    provider: tuple[dict[str, Any], ...]
    owners: dict[str, str]
    node: LangGraphToolNode | None = None
    told: bool = False

    @property
    def offered(self) -> list[BaseTool | dict[str, Any]]:
        """What a request offers the model by default."""
        return [] if self.told else [*self.client.values(), *self.provider]

    @property
    def direct(self) -> frozenset[str]:
        """The names whose result ends the run."""
        return frozenset(name for name, tool in self.client.items() if tool.return_direct)

    def tool_definitions(self, outputs: Iterable[str] = ()) -> tuple[Tool, ...]:
        """The tools as a plan knows them.

        Args:
            outputs: The names of tools that stand for a structured answer.
        """
        return (
            *(
                Tool(name, return_direct=tool.return_direct, owner=self.owners.get(name, ""))
                for name, tool in self.client.items()
            ),
            *(Tool(_provider_name(tool), ToolKind.PROVIDER) for tool in self.provider),
            *(Tool(name, ToolKind.OUTPUT) for name in outputs),
        )


def _provider_name(tool: dict[str, Any]) -> str:
    """What a provider's tool is called: its name, a function's name, or its type."""
    function = tool.get("function")
    inner = function.get("name") if isinstance(function, dict) else None
    return str(tool.get("name") or inner or tool.get("type") or "unnamed")


def sort_tools(
    tools: Iterable[tuple[str | None, ToolLike]], reserved: Iterable[str] = ()
) -> tuple[Toolbox, list[SpecError]]:
    """Sort tools, and say what is wrong with them.

    Args:
        tools: Each tool with the middleware that brings it, or None.
        reserved: Names of output tools.
    """
    mistakes: list[SpecError] = []
    client: dict[str, BaseTool] = {}
    provider: list[dict[str, Any]] = []
    taken = dict.fromkeys(reserved, "response_format")
    owners: dict[str, str] = {}
    for owner, entry in tools:
        origin = owner or "tools"
        if isinstance(entry, dict):
            provider.append(entry)
            continue
        try:
            tool = as_tool(entry, origin)
        except ArgumentError as error:
            mistakes.append(error)
            continue
        mistakes.extend(_clash(tool, origin, client, taken))
        mistakes.extend(validate_tool(tool, origin) if client.get(tool.name) is not tool else ())
        if tool.name not in client and owner:
            owners[tool.name] = owner
        client.setdefault(tool.name, tool)
        taken.setdefault(tool.name, origin)
    return Toolbox(client, tuple(provider), owners), mistakes


def _clash(
    tool: BaseTool, origin: str, client: dict[str, BaseTool], taken: dict[str, str]
) -> Iterator[SpecError]:
    if tool.name in taken and client.get(tool.name) is not tool:
        yield SpecError(
            tool.name,
            f"names two tools, given by {taken[tool.name]} and by {origin}; the model could reach "
            "only one of them.",
            "Rename one, or give the same tool object in both places.",
            code="AF113",
        )


def as_tool(entry: Any, origin: str) -> BaseTool:
    """A tool as it is, a function as a tool; a function is read only once in a process.

    Raises:
        ArgumentError: It is neither, or the function does not say what it is for.
    """
    if isinstance(entry, BaseTool):
        return entry
    if not callable(entry) or isinstance(entry, type):
        raise ArgumentError(
            origin,
            f"{describe(entry)} is no tool.",
            "Give a function with a docstring, a BaseTool, or a provider's tool as a dict.",
            code="AF112",
        )
    try:
        return _made[entry]
    except (KeyError, TypeError):  # not made yet, or a callable that cannot be remembered
        return _make(entry, origin)


def _make(function: Callable[..., Any], origin: str) -> BaseTool:
    name = getattr(function, "__name__", describe(function))
    try:
        tool: BaseTool = make_tool(function)
    except Exception as error:
        raise ArgumentError(
            f"{origin}: {name}",
            f"cannot become a tool: {error}",
            "Write a docstring that tells the model when to use it, and annotate its parameters.",
            code="AF112",
        ) from error
    try:
        _made[function] = tool
    except TypeError:  # bound methods and the like: made anew each time
        return tool
    return tool
