"""Offer the model tools of the client of a run, and let the client run their calls."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from functools import lru_cache
from typing import Any, Final

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.types import Command

from agent_factory import (
    AgentState,
    ClientTool,
    Flow,
    ModelRequest,
    ModelResponse,
    Ordering,
    ToolCallRequest,
    client_tool,
)
from agent_factory.errors import ArgumentError, describe
from agent_factory.middleware._shared.payload_free import PayloadFree
from agent_factory.middleware._shared.validation import check_count
from agent_factory.structured_output import AutoStrategy

from .requests import CLIENT_RESPONSE_FORMAT, CLIENT_TOOL_CHOICE, CLIENT_TOOLS, settings_of

MOST_CHARACTERS: Final = 65_536
"""The longest schema of an answer, as JSON; `client_tool` limits the schema of a tool."""

_PARTS: Final = frozenset({"name", "description", "parameters"})


class ClientToolsMiddleware(PayloadFree[AgentState]):
    """Offers the model tools of the client of a run, and lets the client run their calls.

    For front ends that send tools with each request, such as AG-UI and OpenAI's API. A call pauses
    the run until the client has sent its result, like a call of a `client_tool`. In Python, a run
    has client tools in its config:

        config = {"configurable": {"client_tools": [{"name": "page_title"}]}}

    The tools of the agent come first: a client cannot replace a tool, nor add a second tool of the
    same name. Names, descriptions and schemas come from the client, and the model reads them, so
    give this middleware only to agents whose clients may talk to the model.

    With "required" or a name as `client_tool_choice`, the first request to the model offers only
    the tools of the client, or the named tool. Later requests are free.

    With a JSON schema as `client_response_format`, the run has a structured answer of this schema,
    in place of the agent's own `response_format`.

    Args:
        max_tools: The most tools that a client may bring.
        name: The name of this instance, if a stack has several.

    Raises:
        ValueError: `max_tools` is not a positive number.

    >>> ClientToolsMiddleware().tools_from([{"name": "page_title", "description": "Its title."}])
    {'page_title': ClientTool(name='page_title', description='Its title.', \
args_schema={'type': 'object', 'properties': {}})}
    """

    # A review further in would find a tool that its hook did not know, and ask again.
    ordering = Ordering(after=("HumanInTheLoopMiddleware",), extends=("tools",))
    needs_checkpointer = True
    guard_settings = ("max_tools",)

    def __init__(self, *, max_tools: int = 64, name: str | None = None) -> None:
        super().__init__(name=name)
        check_count("max_tools", max_tools, 1, required=True)
        self.max_tools = max_tools

    def around_model(self, request: ModelRequest[Any]) -> Flow[ModelResponse]:
        """Offer the tools of the client."""
        settings, is_first = settings_of(request.messages)
        tools = self.tools_from(settings.get(CLIENT_TOOLS))
        choice = settings.get(CLIENT_TOOL_CHOICE) if is_first and tools else None
        if tools:
            for tool in request.tools:
                _refuse_collision(tool, tools)
            if choice in (None, "auto"):
                request = request.override(tools=[*request.tools, *tools.values()])
            # The client has requested a call, and cannot see calls of other tools.
            elif choice == "required":
                # "any" is the common word of LangChain's models.
                request = request.override(tools=[*tools.values()], tool_choice="any")
            elif choice in tools:
                request = request.override(tools=[tools[choice]], tool_choice=choice)
            else:
                hint = f"Its tools are {', '.join(tools)}."
                reason = f"must be 'auto', 'required' or a client's tool, got {describe(choice)}."
                raise ArgumentError(CLIENT_TOOL_CHOICE, reason, hint)
        if choice in (None, "auto"):  # else a call comes first
            names = [getattr(tool, "name", None) for tool in request.tools]
            answer = self.format_from(settings.get(CLIENT_RESPONSE_FORMAT), names)
            request = request.override(response_format=answer) if answer else request
        response: ModelResponse = yield request
        return response

    def around_tool(self, request: ToolCallRequest) -> Flow[ToolMessage | Command[Any]]:
        """Let the client run the call of a client tool."""
        messages = request.state["messages"]
        at = max((i for i, m in enumerate(messages) if isinstance(m, AIMessage)), default=0)
        # The tools of the request to the model: results of this turn may bring others.
        settings, _ = settings_of(messages[:at])
        tools = self.tools_from(settings.get(CLIENT_TOOLS))
        # Again: a layer may hide a tool of the agent, which a client must not offer again.
        _refuse_collision(request.tool, tools)
        if request.tool is None and request.tool_call["name"] in tools:
            request = request.override(tool=tools[request.tool_call["name"]])
        result: ToolMessage | Command[Any] = yield request
        return result

    def tools_from(self, definitions: object) -> dict[str, ClientTool]:
        """Return the tools that a client describes, by name.

        Args:
            definitions: A list of dicts with `name`, `description` and `parameters`; None for none.

        Raises:
            ArgumentError: `definitions` has another form, too many tools, or two of one name; or a
                name, a description or a schema cannot be used.
        """
        if definitions is None:
            return {}
        if not isinstance(definitions, list | tuple):
            reason = f"must be a list of tools, got {describe(definitions)}."
            raise ArgumentError(CLIENT_TOOLS, reason, 'Pass [{"name": "page_title"}].')
        if len(definitions) > self.max_tools:
            reason = f"has {len(definitions)} tools, and at most {self.max_tools} are allowed."
            hint = f"Send fewer, or set max_tools= of {self.name}."
            raise ArgumentError(CLIENT_TOOLS, reason, hint)
        tools = {}
        for definition in definitions:
            if not isinstance(definition, Mapping) or not {"name"} <= definition.keys() <= _PARTS:
                reason = f"a tool has name, description and parameters, got {describe(definition)}."
                raise ArgumentError(CLIENT_TOOLS, reason)
            tool = _tool(json.dumps(definition, sort_keys=True))
            if tool.name in tools:
                raise ArgumentError(CLIENT_TOOLS, f"two tools have the name {tool.name!r}.")
            tools[tool.name] = tool
        return tools

    def format_from(self, schema: object, names: Container[Any] = ()) -> AutoStrategy[Any] | None:
        """Return the strategy for the client's form of the answer; None for none.

        Args:
            schema: A JSON schema, perhaps in the envelope of OpenAI's API.
            names: The names of the tools of the model.

        Raises:
            ArgumentError: `schema` is not a JSON schema, is too long, or has the name of a tool.
        """
        if schema is None:
            return None
        if not isinstance(schema, Mapping):
            reason = f"must be a JSON schema, got {describe(schema)}."
            raise ArgumentError(CLIENT_RESPONSE_FORMAT, reason)
        text = json.dumps(schema)
        if len(text) > MOST_CHARACTERS:
            reason = f"has {len(text):,} characters, at most {MOST_CHARACTERS:,} are allowed."
            raise ArgumentError(CLIENT_RESPONSE_FORMAT, reason, "Shorten it.")
        strategy = _format(text)
        if (name := strategy.by_tool.schema_specs[0].name) in names:
            reason = f"has the name of a tool, {name!r}."
            raise ArgumentError(CLIENT_RESPONSE_FORMAT, reason, "Give the schema another one.")
        return strategy


@lru_cache(maxsize=256)
def _format(text: str) -> AutoStrategy[Any]:
    """Return the strategy for a schema: the same object each time, as `_tool` does."""
    strategy: AutoStrategy[Any] = AutoStrategy(json.loads(text))
    # Read for its error: the schema is refused before a model is asked.
    _ = strategy.by_provider
    return strategy


@lru_cache(maxsize=256)
def _tool(text: str) -> ClientTool:
    """Return the tool of a definition: the same object each time, for the bound models."""
    parts = json.loads(text)
    return client_tool(parts["name"], parts.get("description") or "", parts.get("parameters"))


def _refuse_collision(tool: object, tools: Mapping[str, ClientTool]) -> None:
    name = str(getattr(tool, "name", ""))
    if name in tools and tool is not tools[name]:
        reason = f"{name!r} is the name of a tool of the agent."
        raise ArgumentError(CLIENT_TOOLS, reason, "Rename the tool of the client.")
