"""Agents that clients speak to, for `agent-factory serve` and for `langgraph dev`.

The user's message is the script of the model: see `answer`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from agent_factory import AgentState, ToolRuntime, create_agent
from agent_factory.middleware import ClientToolsMiddleware, HumanInTheLoopMiddleware
from agent_factory.service import Service
from agent_factory.testing import Reply, ScriptedChatModel
from agent_factory.testing.fake_model import FakeResponse, fake_response

# The servers have the checkpointer. A service runs agents fused, `langgraph dev` watches each step:
# with single steps, both have the same states.
OPTIONS: Any = {"ignore": ["AF211"], "fused": False}
THOUGHT: Any = [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "Well."}]


def answer(messages: list[BaseMessage]) -> Any:
    """Obey lines `call NAME {...}`, or `say TEXT`, `think`, `fail`, `wait`; else echo."""
    last = messages[-1]
    text = last.text
    if isinstance(last, ToolMessage):
        return f"Done: {text}"
    if text == "fail":
        return Reply(chunks=["Half "], error=ValueError("the model is out of order"))
    if text.startswith("say "):
        return text.removeprefix("say ")
    if text == "think":
        return AIMessage(content_blocks=THOUGHT)
    calls = [line.split(" ", 2)[1:] for line in text.splitlines() if line.startswith("call ")]
    tool_calls = [
        {"name": name, "args": json.loads(arguments), "id": uuid4().hex}
        for name, arguments in calls
    ]
    if tool_calls:
        return AIMessage("", tool_calls=tool_calls)
    return Reply(f"You said: {text}", usage=(12, 5), delay=30 if text == "wait" else 0)


class ResponseWithId(FakeResponse):
    """Response whose chunks bring their own id, and do not say which is the last."""

    def stream(self) -> Iterator[ChatGenerationChunk]:
        """The chunks."""
        update = {"id": f"own-{uuid4()}", "chunk_position": None}
        for chunk in super().stream():
            fields = chunk.message.model_dump(exclude={"type"}) | update
            yield ChatGenerationChunk(message=AIMessageChunk(**fields))


class ModelWithIds(ScriptedChatModel):
    """Model whose messages have ids of the provider."""

    def _respond(self, messages: Any, stop: Any, kwargs: Any) -> FakeResponse:
        response = fake_response(answer, messages, (), 1)
        return ResponseWithId(response.message, response.reply)


class Notes(AgentState[Any], total=False):
    """State with a note for the page."""

    note: str


def look(order: str) -> str:
    """Look an order up."""
    get_stream_writer()({"name": "looking", "value": order})
    return f"Order {order} is on its way."


def pay(euros: int) -> str:
    """Pay a bill."""
    return f"Paid {euros}."


def ask(about: str) -> str:
    """Ask a person."""
    return f"They said {interrupt({'about': about})}."


def write(text: str, runtime: ToolRuntime) -> Command[Any]:
    """Write a note."""
    result = ToolMessage("Written.", tool_call_id=runtime.tool_call_id)
    return Command(update={"note": text, "messages": [result]})


def lend(euros: int) -> str:
    """Lend money."""
    raise ValueError(f"no money to lend {euros}")


def model(kind: type[ScriptedChatModel] = ScriptedChatModel) -> ScriptedChatModel:
    """A model without an end of its script."""
    return kind([answer] * 10_000)


def new_desk(chat_model: ScriptedChatModel) -> Any:
    """An agent whose payments are reviewed."""
    review = HumanInTheLoopMiddleware({"pay": True})
    options = {"name": "desk", "middleware": [review], "state_schema": Notes, **OPTIONS}
    return create_agent(chat_model, [look, pay, ask, write, lend], **options)


desk = new_desk(model())
ids = new_desk(model(ModelWithIds))
page = create_agent(model(), [look], middleware=[ClientToolsMiddleware()], **OPTIONS)
graph: Any = StateGraph(MessagesState)
graph.add_node("inner", desk)
graph.add_edge(START, "inner")
outer = graph.compile()

AGENTS = {"desk": desk, "ids": ids, "page": page, "outer": outer}


def service() -> Service:
    """The service with the agents; `AGENTS_DATABASE` names its database."""
    made = Service(os.environ["AGENTS_DATABASE"])
    for name, agent in AGENTS.items():
        made.add(name, agent)
    return made


protocols = ExitStack()


def protocol() -> Service:
    """The service of tests of LangGraph's protocol, for clients with a page."""
    from serve.agents import GATE
    from serve.protocol_desk import protocol_service

    GATE.clear()  # a run whose message says "held" works until it is cancelled
    made = protocols.enter_context(protocol_service(os.environ["AGENTS_DATABASE"]))
    made.stop()  # the server starts it
    return made
