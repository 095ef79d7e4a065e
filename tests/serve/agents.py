"""Agents for the clients of chats, and a service that runs them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import Annotated, Any
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config, get_stream_writer
from langgraph.types import Command, interrupt
from stack_agents import kept_agent

from agent_factory import AgentState, OmitFromSchema, ToolRuntime, client_tool, create_agent
from agent_factory.errors import ReviewError
from agent_factory.middleware import ClientToolsMiddleware, HumanInTheLoopMiddleware, PIIMiddleware
from agent_factory.service import Service
from agent_factory.testing import Reply, ScriptedChatModel
from waiting import until

GATE = Event()
GATE.set()
"""What a model waits for if the user says "held": see the fixture `gate`."""


def hold(text: str) -> None:
    """Wait as a user says: "held" until a test opens the gate, "slow" for a time."""
    if "held" in text:
        assert GATE.wait(60)
    if "slow" in text:
        time.sleep(5 if "very" in text else 0.5)  # waits: no client for JavaScript opens the gate


def echo(messages: list[BaseMessage]) -> Reply:
    """Answers with what was said; "fail" fails, and `hold` knows other words."""
    text = messages[-1].text
    hold(text)
    if "fail" in text:
        return Reply(chunks=["Half "], error=ValueError("the model is out of order"))
    if "unknown order" in text:
        raise ReviewError("order 7", "is unknown.", "Ask again.")
    return Reply(f"You said: {text}", usage=(12, 5))


def caller(name: str, **args: Any) -> ScriptedChatModel:
    """A model that calls a tool once for each message, and then says that it is done."""

    def answer(messages: list[BaseMessage]) -> AIMessage:
        if isinstance(messages[-1], ToolMessage):
            return AIMessage(f"Done: {messages[-1].text}")
        call = {"name": name, "args": args, "id": uuid4().hex}
        return AIMessage("Let me see.", tool_calls=[call])

    return ScriptedChatModel([answer] * 1000)


def pay(euros: int) -> str:
    """Pay a bill."""
    get_stream_writer()({"name": "paying", "value": euros})
    return f"Paid {euros}."


def refund(euros: int = 5) -> str:
    """Pay money back."""
    return f"Refunded {euros}."


def ask(about: str) -> str:
    """Ask a person."""
    return f"They said {interrupt({'about': about})}."


class Notes(AgentState[Any], total=False):
    """State with what is shown to users, and what is not."""

    note: str
    secret: Annotated[str, OmitFromSchema(input=True, output=True)]


def write(text: str, runtime: ToolRuntime) -> Command[Any]:
    """Write a note."""
    done = ToolMessage("Written.", tool_call_id=runtime.tool_call_id)
    return Command(update={"note": text, "secret": "hidden", "messages": [done]})


def think(messages: list[BaseMessage]) -> AIMessage:
    """Says what it thinks, and then what it means."""
    blocks: Any = [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "Well."}]
    return AIMessage(content_blocks=blocks)


def context_of(messages: list[BaseMessage]) -> AIMessage:
    """Says what the application has said about itself."""
    return AIMessage(str(get_config()["configurable"].get("ag_ui_context")))


@dataclass
class Shop:
    """The shop that the application is about."""

    shop: str


def shop(runtime: ToolRuntime[Shop, Any]) -> str:
    """The shop that the application is about."""
    return runtime.context.shop


def page(messages: list[BaseMessage]) -> AIMessage:
    """Calls the tools that the user names; says what they have returned."""
    results: list[str] = []
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            break
        results.insert(0, f"{message.name}={message.text}")
    if results:
        return AIMessage(f"Done: {', '.join(results)}")
    names = [name for name in messages[-1].text.split() if name.islower()]
    args = {"pay": {"euros": 5}, "scroll": {"to": 7}}
    calls = [{"name": name, "args": args.get(name, {}), "id": uuid4().hex} for name in names]
    return AIMessage("" if calls else f"You said: {messages[-1].text}", tool_calls=calls)


def helper(question: str, runtime: ToolRuntime) -> str:
    """Ask an agent inside."""
    inner = create_agent(ScriptedChatModel(["Inner words."]), name="inner")
    answer = inner.invoke({"messages": [HumanMessage(question)]}, runtime.config)
    return str(answer["messages"][-1].text)


def add_agents(service: Service) -> None:
    """Add all agents that the tests speak to."""
    review = HumanInTheLoopMiddleware(interrupt_on={"pay": True})

    def every(step: Callable[[list[BaseMessage]], Any]) -> ScriptedChatModel:
        return ScriptedChatModel([step] * 1000)

    service.add("echo", create_agent(every(echo)))
    service.add("payer", create_agent(caller("pay", euros=5), [pay]))
    desk = kept_agent(caller("pay", euros=5), review, tools=[pay])
    service.add("recorded", create_agent(caller("pay", euros=5), [pay]), decisions=True)
    service.add("desk", desk)
    service.add("desk now", desk, waiting="interrupt")
    service.add("desk later", desk, waiting="reject")
    service.add("asker", create_agent(caller("ask", about="tea"), [ask]))
    notes = create_agent(caller("write", text="Tea at five."), [write], state_schema=Notes)
    service.add("notes", notes)
    service.add("thinker", create_agent(every(think)))
    service.add("contextual", create_agent(every(context_of)))
    service.add("shop", create_agent(caller("shop"), [shop], context_schema=Shop))
    service.add("boss", create_agent(caller("helper", question="Why?"), [helper]))
    saver, own = InMemorySaver(), client_tool("clock", "The time of the user.")
    layers = [HumanInTheLoopMiddleware({"refund": True}), ClientToolsMiddleware()]
    tools: list[Any] = [pay, refund, own]
    service.add("page", create_agent(every(page), tools, middleware=layers, checkpointer=saver))
    service.add("own", create_agent(every(page), [own], checkpointer=saver))
    service.add("guarded", create_agent(every(echo), middleware=[PIIMiddleware("email")]))


@contextmanager
def chat_service(url: str) -> Iterator[Service]:
    """A service with these agents and a worker."""
    with Service(url) as service:
        add_agents(service)
        yield service


def wait_for_threads(service: Service, number: int) -> None:
    """Wait until there are so many threads: one of a stream is deleted with its last piece."""
    until(lambda: service.threads.count() == number)
