"""The chat models of providers against the fakes of their providers."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import create_agent
from agent_factory.testing.providers import ProviderReply, reply
from foreign.provider_models import BROKEN, KINDS, rule_names


def find(query: str) -> str:
    """Find something."""
    return f"{query}: tea"


def turn(number: int) -> list[ProviderReply]:
    """A turn with a thought, a text and two calls, and its answer."""
    calls = [
        {"name": "find", "args": {"query": f"{place} {number}"}} for place in ("here", "there")
    ]
    thought = f"Think {number}."
    return [
        reply(f"Say {number}.", thinking=thought, calls=calls),
        reply(f"Answer {number}.", thinking="So.", usage=(70, 7)),
    ]


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("kind", KINDS)
def test_three_turns_with_thoughts_and_calls(kind: str, streaming: bool) -> None:
    script = [step for number in range(3) for step in turn(number)]
    thread: Any = {"configurable": {"thread_id": "1"}}
    with KINDS[kind].server(script, strict=False) as server:
        model = KINDS[kind].model(server, streaming)
        agent = create_agent(model, [find], system_prompt="Be brief.", checkpointer=InMemorySaver())
        for number in range(3):
            list(agent.stream({"messages": "Well?"}, thread, stream_mode="messages"))
            messages = agent.get_state(thread).values["messages"]
            assert messages[-1].text == f"Answer {number}."
            assert messages[-2].text == f"there {number}: tea"
        assert rule_names(server) == BROKEN.get(kind, [])
        assert len(server.requests) == 6
        # langchain-ollama asks for a stream always.
        assert server.streams(server.requests[-1]) == (streaming or kind == "ollama")
    assert isinstance(messages[-1], AIMessage)
    usage: Any = messages[-1].usage_metadata
    assert (usage["input_tokens"], usage["output_tokens"]) == (70, 7)
