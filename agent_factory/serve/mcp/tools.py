"""Agents as tools of MCP: their names, their input, their progress."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain, count
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from pydantic import Field

from agent_factory.serve.body import StrictBody
from agent_factory.service import Service


class ToolInput(StrictBody):
    """Arguments of a tool that is an agent."""

    message: str = Field(
        default="",
        description="What to say to the agent. Leave it out, with a thread that waited for a "
        "person, to read the answer.",
    )
    thread: str = Field(
        default="",
        description="The thread of an earlier result, to continue that conversation. Leave it "
        "out to begin a new one.",
    )


OUTPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "thread": {"type": "string", "description": "Pass it to continue the conversation."},
        "status": {
            "enum": ["done", "waiting", "failed"],
            "description": "'waiting': the agent goes on once a person has decided.",
        },
        "answer": {"type": "string"},
        "ending": {"type": "string", "description": "Why the answer is cut, refused or paused."},
        "structured_response": {"description": "The structured output of the agent, if it has one"},
        "waits": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["thread", "status"],
}
"""Structured content of a result."""


def agents_by_tool(service: Service) -> dict[str, str]:
    """The names of the agents, by the names of their tools.

    MCP takes letters, digits, "_", "-" and "." only, and 128 of them.
    """
    tools: dict[str, str] = {}
    for agent in service.agents:
        # With room for a number within the 128.
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", agent)[:120]
        # Two names may differ only in characters that MCP does not take.
        names = chain([name], (f"{name}_{number}" for number in count(2)))
        tools[next(unique for unique in names if unique not in tools)] = agent
    return tools


def progress_of(part: Mapping[str, Any]) -> Iterator[str]:
    """Reports of progress for a part of a run's stream."""
    if part["type"] == "waiting_for":
        yield part["data"]["text"]
    # Agents inside the agent are silent.
    elif part["type"] == "messages" and not part["ns"]:
        message = part["data"][0]
        if isinstance(message, ToolMessage):
            yield f"{message.name} has a result."
        elif isinstance(message, AIMessage):
            # The first piece of a call has the name.
            pieces = message.tool_call_chunks if isinstance(message, AIMessageChunk) else ()
            for call in pieces or message.tool_calls:
                if call["name"]:
                    yield f"{call['name']} is called."
