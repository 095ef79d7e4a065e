"""Sort the tools of an agent: client tools, and tools of the provider."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from inspect import signature
from types import MappingProxyType
from typing import Any, get_type_hints

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.tools import tool as make_tool
from langgraph.prebuilt import ToolNode as LangGraphToolNode
from langgraph.pregel import Pregel

from agent_factory.errors import ArgumentError, SpecError, describe, example_of
from agent_factory.models import chat_models_of
from agent_factory.structured_output.json_schema import is_object
from agent_factory.structured_output.schema import SchemaSpec
from agent_factory.tools.injection import validate_tool
from agent_factory.tools.labels import labels_of
from agent_factory.tools.schemas import arguments_schema, as_object, plain_arguments
from agent_factory.tools.touches import Touches, check_touches, touches_of
from agent_factory.topology.conditions import types_of
from agent_factory.topology.declarations import JOBS, AccessKind
from agent_factory.topology.model import Tool, ToolKind, TopologyData
from agent_factory.topology.paths import PlanGraph
from agent_factory.types import FunctionTool, run_services
from agent_factory.upstream import model_params

BACKGROUND = "background"
"""Key of `BaseTool.extras` of a background tool, of which integrations send the keys they know."""

ToolLike = BaseTool | Callable[..., Any] | dict[str, Any]

_TOOL = "_agent_factory_tool"
"""Attribute of a function: its tool.

A tool refers to its function, so a cache of tools would keep both, and the values in the function's
closure. `functools.wraps` copies the attribute: the tool counts where it has the function itself.
"""


def get_tools() -> Mapping[str, BaseTool]:
    """Return the client tools of the agent, by name: within a node hook; empty outside of a run.

    >>> dict(get_tools())
    {}
    """
    return MappingProxyType(run_services.get().tools)


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of an agent, sorted."""

    client: dict[str, BaseTool]  # tools of the agent, by name
    provider: tuple[dict[str, object], ...]  # tools of the provider, in its format
    owners: dict[str, str]  # names of the middleware with tools, by name of the tool
    node: LangGraphToolNode | None = None  # if the author of the agent brought a node
    is_bound: bool = False  # whether the tools are bound to the model already

    @property
    def offered(self) -> list[BaseTool | dict[str, Any]]:
        """Tools that a request offers the model by default."""
        return [] if self.is_bound else [*self.client.values(), *self.provider]

    @property
    def touches(self) -> dict[str, Touches]:
        """Declared reads and writes of tools, by name."""
        touches = ((name, touches_of(tool)) for name, tool in self.client.items())
        return {name: names for name, names in touches if names is not None}

    @property
    def direct(self) -> frozenset[str]:
        """Names of the tools whose result ends the run."""
        return frozenset(name for name, tool in self.client.items() if tool.return_direct)

    def tool_definitions(self, outputs: Iterable[str] = ()) -> tuple[Tool, ...]:
        """Return the tools in the form of a plan."""
        tools, plans = [], self.plans_inside
        ends = {name for name, plan in plans.items() if not PlanGraph(plan).endless()}
        for name, tool in self.client.items():
            background = (tool.extras or {}).get(BACKGROUND) or {}
            definition = Tool(
                name,
                return_direct=tool.return_direct,
                owner=self.owners.get(name, ""),
                labels=labels_of(tool),
                # On other tools, the attribute may have another meaning, such as a limit of rate.
                max_requests=getattr(tool, "max_requests", 1) if is_agent(tool) else 1,
                background=background.get("timeout"),
                on_loss=background.get("on_loss", "report"),
                agent="ends" if name in ends else is_agent(tool),
                **(touches_of(tool) or Touches()).texts(),
            )
            tools.append(definition)
        tools += (Tool(_provider_name(tool), ToolKind.PROVIDER) for tool in self.provider)
        tools += (Tool(name, ToolKind.OUTPUT) for name in outputs)
        for name, plan in plans.items():
            for inner in plan.tools:
                kind = ToolKind.INNER if inner.kind is ToolKind.CLIENT else inner.kind
                # Only the agent inside needs the touches and the direct return of this tool.
                known = replace(inner, return_direct=False, owner="", reads=(), writes=())
                if kind is not ToolKind.OUTPUT:
                    tools.append(replace(known, name=f"{name}/{inner.name}", kind=kind))
        return tuple(tools)

    @property
    def specs_inside(self) -> dict[str, Any]:
        """The specs of the agents inside of tools, by the names of the tools."""
        tools: dict[str, Any] = {n: t for n, t in self.client.items() if plan_inside(t) is not None}
        return {name: tool.agent.builder.spec for name, tool in tools.items()}

    @property
    def plans_inside(self) -> dict[str, TopologyData]:
        """The plans of the agents inside of tools, by the names of the tools."""
        return {name: spec.topology for name, spec in self.specs_inside.items()}

    def declarations_inside(self) -> dict[str, list[Any]]:
        """Guards, limits and sanitizers of the agents inside of tools, by names of the tools."""
        inside: dict[str, list[Any]] = {"guards": [], "limits": [], "accesses": [], "ledgers": []}
        for name, plan in self.plans_inside.items():
            for guard in plan.guards:
                tool, owner = f"{name}/{guard.tool}", f"{name}/{guard.owner}"
                exclude = tuple(f"{name}/{pattern}" for pattern in guard.exclude)
                after = f"{name}/{guard.after}" if guard.after else ""
                new = replace(guard, tool=tool, owner=owner, exclude=exclude, after=after)
                inside["guards"].append(new)
            graph = PlanGraph(plan)
            for limit in plan.limits:
                # A path of the agent inside may bypass a limit; the limit of jobs has no path.
                if limit.unit == JOBS or "/" in limit.owner or not graph.path_beyond(limit):
                    inside["limits"].append(replace(limit, owner=f"{name}/{limit.owner}"))
            for access in plan.accesses:
                is_writer = access.kind is AccessKind.WRITES and "tool_calls" in access.aspects
                if access.kind is AccessKind.SANITIZES or is_writer:
                    inside["accesses"].append(replace(access, owner=f"{name}/{access.owner}"))
            inside["ledgers"] += ((f"{name}/{owner}", id) for owner, id in plan.ledgers)
        return inside


def is_agent(tool: BaseTool) -> bool:
    """Return True if a tool calls a compiled agent, of any library, as a tool of `agent_tool`."""
    return isinstance(getattr(tool, "agent", None), Pregel)


def plan_inside(tool: BaseTool) -> TopologyData | None:
    """Return the plan of the agent that a tool of `agent_tool` calls; None without a known plan."""
    # By attributes: the class of these tools is in a package above this package.
    builder = getattr(getattr(tool, "agent", None), "builder", None)
    plan = getattr(getattr(builder, "spec", None), "topology", None)
    return plan if isinstance(plan, TopologyData) else None


def _provider_name(tool: dict[str, object]) -> str:
    """Return the name of a provider's tool: its name, the name of its function, or its type."""
    function = tool.get("function")
    inner = function.get("name") if isinstance(function, dict) else None
    return str(tool.get("name") or inner or tool.get("type") or "unnamed")


def offered_names(tools: Iterable[object]) -> Iterator[str]:
    """Yield the names of tools in a request; several for a dict of several tools.

    Providers put the name in different places of a dict: `name`, `function.name`, `toolSpec.name`.
    """
    for tool in tools:
        if isinstance(tool, BaseTool):
            yield tool.name
        elif isinstance(tool, Mapping):
            # A JSON schema as a tool has its name as the title.
            yield from (str(tool[key]) for key in ("name", "title") if tool.get(key))
            for part in tool.values():
                yield from offered_names(part if isinstance(part, list) else [part])
        elif callable(tool):
            yield getattr(tool, "__name__", "")


def sort_tools(
    tools: Iterable[tuple[str | None, ToolLike]], reserved: Iterable[str] = ()
) -> tuple[Toolbox, list[SpecError]]:
    """Sort tools, each with its middleware; return the problems, too."""
    mistakes: list[SpecError] = []
    client: dict[str, BaseTool] = {}
    entries: dict[str, ToolLike] = {}
    provider: list[dict[str, object]] = []
    origins = dict.fromkeys(reserved, "response_format")
    owners: dict[str, str] = {}
    for owner, entry in tools:
        origin = owner or "tools"
        if isinstance(entry, dict):
            provider.append(entry)
            continue
        try:
            tool = as_tool(entry, origin)
            labels_of(tool)
            check_touches(tool)
        except ArgumentError as error:
            mistakes.append(error)
            continue
        name = tool.name
        # A bound method is another object each time, and becomes another tool.
        if client.get(name) is tool or (tool is not entry and entries.get(name) == entry):
            continue
        if name in origins:
            reason = (
                f"names two tools, from {origins[name]} and from {origin}; the model could reach "
                "only one of them."
            )
            hint = "Rename one, or pass the same tool object in both places."
            mistakes.append(SpecError(name, reason, hint, code="AF113"))
        mistakes.extend(validate_tool(tool, origin))
        if name not in client and owner:
            owners[name] = owner
        client.setdefault(name, tool)
        entries.setdefault(name, entry)
        origins.setdefault(name, origin)
    return Toolbox(client, tuple(provider), owners), mistakes


def as_tool(entry: object, origin: str) -> BaseTool:
    """Return a tool unchanged, and a function as a tool; a function is converted only once."""
    if isinstance(entry, BaseTool):
        return entry
    if not callable(entry) or isinstance(entry, type):
        reason = f"a tool must be a function, a BaseTool or a dict, got {describe(entry)}."
        hint = "Pass a function with a docstring, a BaseTool, or a tool of the provider as a dict."
        if isinstance(entry, type) and issubclass(entry, BaseTool):
            hint = f"Pass {example_of(entry)}."
        raise ArgumentError(origin, reason, hint, code="AF112")
    previous = getattr(entry, _TOOL, None)
    if isinstance(previous, StructuredTool) and (
        previous.func is entry or previous.coroutine is entry
    ):
        return previous
    try:
        tool: BaseTool = make_tool(entry)
        # Only a plain StructuredTool calls its function as a FunctionTool does.
        if type(tool) is StructuredTool and not _takes_context(entry):
            tool = FunctionTool(**{name: getattr(tool, name) for name in tool.model_fields_set})
    except Exception as error:
        name = getattr(entry, "__name__", describe(entry))
        raise ArgumentError(
            f"{origin}: {name}",
            f"cannot become a tool: {error}",
            "Write a docstring that says when to use it, and annotate its parameters.",
            code="AF112",
        ) from error
    # Kept at the function, so that each agent has the same tool, also at two places.
    with suppress(AttributeError, TypeError, ValueError):  # of a bound method, for example
        setattr(entry, _TOOL, tool)
    return tool


def _takes_context(function: Callable[..., object]) -> bool:
    """Return True if a function has a parameter for the config or for callbacks."""
    try:
        return "callbacks" in signature(function).parameters or any(
            hint is RunnableConfig for hint in get_type_hints(function).values()
        )
    except Exception:  # annotations that cannot be evaluated
        return True


class ToolSchemas(Mapping[str, Mapping[str, Any]]):
    """JSON schemas of the arguments of tools, by name, each made on demand.

    "unchecked": the tool checks nothing. "changed" names the arguments that the tool changes,
    and "sure" the arguments that are texts in each call that runs.
    """

    def __init__(self, tools: Mapping[str, BaseTool]) -> None:
        self._tools, self._schemas = tools, dict[str, Mapping[str, Any]]()

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        if name not in self._schemas:
            tool = self._tools[name]
            source, is_free = arguments_schema(tool), isinstance(tool.tool_call_schema, dict)
            plain = set[str]() if is_free else plain_arguments(tool)
            # An argument that is changed, or not checked, may have any value of the type.
            arguments = {
                key: argument
                if key in plain
                else {"type": [n.replace("integer", "number") for n in types_of(argument, source)]}
                for key, argument in source.get("properties", {}).items()
            }
            texts = [
                k for k in plain & arguments.keys() if types_of(arguments[k], source) == {"string"}
            ]
            marks: Any = {
                "unchecked": is_free,
                "changed": [] if is_free else arguments.keys() - plain,
            }
            marks["sure"] = [key for key in texts if key in source.get("required", ())]
            self._schemas[name] = {**source, "properties": arguments, **marks}
        return self._schemas[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)


_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Names of arguments that Anthropic accepts, on Bedrock as well.

"Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'": at the top of a schema alone.
"""

_TAKE_ANY_KEY = {"openai", "azure", "azure_openai"}
"""Providers without such a rule, as LangSmith and `init_chat_model` name them."""


def refused_schemas(
    tools: Iterable[BaseTool], outputs: Iterable[SchemaSpec], model: object
) -> Iterator[SpecError]:
    """Find schemas of tools and structured answers that the provider of a model refuses."""
    schemas: dict[str, Any] = {tool.name: tool.args_schema for tool in tools}
    for name, schema in (schemas | {spec.name: spec.json_schema for spec in outputs}).items():
        if not isinstance(schema, dict):  # a call has the aliases
            fields = getattr(schema, "model_fields", {}).items()
            schema = {"properties": {field.alias or key: field for key, field in fields}}
        elif not is_object(schema) and (schema := as_object(schema)) is None:
            reason = "has a schema that accepts no object, which OpenAI and Anthropic refuse."
            hint = 'Write {"type": "object", "properties": {"items": ...}}.'
            yield SpecError(f"tool {name!r}", reason, hint, code="AF125")
            continue
        bad_keys = [key for key in schema.get("properties") or () if not _KEY.fullmatch(key)]
        provider = model.partition(":")[0] if isinstance(model, str) else None
        if bad_keys and not provider:
            providers = {model_params(m).get("ls_provider") for m in chat_models_of(model)}
            provider = providers.pop() if len(providers) == 1 else None
        for key in bad_keys if provider not in _TAKE_ANY_KEY else ():
            new_key = re.sub("[^a-zA-Z0-9_.-]+", "_", key).strip("_")[:64] or "value"
            reason = f"has an argument {key!r}, and Anthropic accepts {_KEY.pattern}."
            hint = f"Name it {new_key!r}. If your provider accepts it, pass ignore=['AF125']."
            yield SpecError(f"tool {name!r}", reason, hint, code="AF125")
