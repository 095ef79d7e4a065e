"""An agent for the tests of the chat: it counts its answers, calls tools, and can be held."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config

from agent_factory import AgentState, create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware, Rule, ToolPolicy
from agent_factory.service import Service
from agent_factory.testing import Reply, ScriptedChatModel

MARKDOWN = """## Three lamps

They are **in stock**: see [the catalogue](https://example.com/lamps), or write to
<mailto:ann@example.com>. These lead nowhere: [a](javascript:alert(1)), [b](/inbox),
[c](//evil.example).
![a picture](https://evil.example/beacon.png) <b onclick="alert(1)">no HTML</b>

| lamp | watts | price | colors | delivered | stock | supplier | warranty |
|---|--:|--:|---|---|:-:|---|---|
| Aurora | 12 | 120.50 euros | white, black | within three days | 14 | Northlight | 5 years |
| Beam | 9 | 80.00 euros | white | within a week | 3 | Northlight | 2 years |

```python
def total(prices):
    # without taxes
    return sum(price for price in prices if price > 0)
```

1. Choose a lamp.
2. Say where it goes.

> Returns are free for 30 days.
"""

SITE = {"url": "https://example.com/lamps", "title": "The catalogue of lamps, " + "long " * 30}
SEARCH: Any = [
    {"type": "server_tool_call", "id": "s1", "name": "web_search", "args": {"query": "lamp " * 30}},
    {"type": "server_tool_result", "tool_call_id": "s1", "status": "success", "output": [SITE]},
    {"type": "text", "text": "Half", "annotations": [{"type": "citation", **SITE}]},
]
"""An answer with a search of the provider and a source."""

HELD = "HELD"
"""A text that makes the model wait, after its first word, until `go_on` is set."""

go_on = Event()

bookings: list[str] = []
"""What the tool has booked: its effects."""


INPUTS: Any = {"image_inputs": True, "pdf_inputs": True}
"""The profile of a model that takes images and PDF."""


class Slowly(list[str]):
    """Chunks of which only the first comes before `go_on` is set."""

    def __iter__(self) -> Iterator[str]:
        first, *rest = super().__iter__()
        yield first
        assert go_on.wait(60)
        yield from rest


class Notes(AgentState[Any], total=False):
    """A state with more than messages."""

    note: str
    scores: list[int]


def book(lamp: str) -> str:
    """Book a lamp."""
    if lamp == HELD:
        assert go_on.wait(60)
    bookings.append(lamp)
    return f"Booked {lamp}."


def refund(euros: float) -> str:
    """Pay money back."""
    return f"Refunded {euros:g} euros."


def answer(messages: list[BaseMessage]) -> AIMessage | Reply:
    """Do what the user names; count the answers of the thread, over all its branches."""
    last, said = messages[-1], next(m for m in reversed(messages) if isinstance(m, HumanMessage))
    thread = get_config()["configurable"]["thread_id"]
    number = counts[thread] = counts.get(thread, 0) + 1
    text = str(said.text)
    if isinstance(last, ToolMessage):
        return AIMessage(f"Answer {number}: {last.text}")
    for tool, args in (("book", {"lamp": text.rpartition(" ")[2]}), ("refund", {"euros": 40})):
        if tool in text:
            return AIMessage("", tool_calls=[{"name": tool, "args": args, "id": uuid4().hex}])
    if "search" in text:
        return AIMessage(content_blocks=SEARCH, response_metadata={"finish_reason": "length"})
    if "lamps" in text:
        return AIMessage(MARKDOWN)
    if HELD in text:
        whole = f"Slowly, **answer {number}**"
        return Reply(whole, chunks=Slowly([whole[:8], whole[8:]]))
    files = sorted(block["type"] for block in said.content_blocks)
    return AIMessage(f"Answer {number} to {text!r} with {', '.join(files)}")


counts: dict[str, int] = {}


def add_chat(service: Service) -> None:
    """Add the agent, and one whose model has no profile."""
    rules = ToolPolicy(Rule("book", "allow"), Rule("refund", "ask"))
    for name, profile in {"chat": INPUTS, "plain": None}.items():
        agent = create_agent(
            ScriptedChatModel([answer] * 100_000, profile=profile),
            [book, refund],
            name=name,
            state_schema=Notes,
            middleware=[HumanInTheLoopMiddleware(rules)],
            checkpointer=InMemorySaver(),
        )
        service.add(name, agent, decisions=True)
