"""An agent that works in the background, and steps of tests with it in a service."""

from __future__ import annotations

from threading import Event
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from sqlalchemy import select

from agent_factory import background, create_agent
from agent_factory.middleware import BackgroundMiddleware
from agent_factory.service import Service
from agent_factory.service.tables import background_jobs
from agent_factory.testing import ScriptedChatModel, assert_valid_history
from service.stored import Tables

WAIT = 60.0


class Studio:
    """An agent that renders pages in the background, as soon as the test lets it."""

    def __init__(self) -> None:
        self.begun, self.goes_on, self.asked = Event(), Event(), Event()
        self.answers, self.rendered = Event(), list[int]()
        self.answers.set()

    def render(self, page: int) -> str:
        """Render a page."""
        self.begun.set()
        assert self.goes_on.wait(WAIT)
        self.rendered.append(page)
        return f"Page {page} is rendered."

    def answer(self, messages: list[BaseMessage]) -> AIMessage:
        last = messages[-1]
        if last.type == "human" and last.text.startswith("Render"):
            calls: Any = [
                {"name": "render", "args": {"page": int(page)}, "id": f"{len(messages)}-{page}"}
                for page in last.text.split()[1:]
            ]
            return AIMessage("", tool_calls=calls)
        if last.type == "human" and last.text.startswith("Cancel"):
            id = next(m.text for m in messages if m.type == "tool").split(" as ")[1].split(".")[0]
            call: Any = {"name": "cancel_background", "args": {"id": id}, "id": "cancel"}
            return AIMessage("", tool_calls=[call])
        self.asked.set()
        assert self.answers.wait(WAIT)
        return AIMessage(f"Read: {last.text.splitlines()[-1]}")

    def agent(self, *middleware: Any, **options: Any) -> Any:
        return agent_of(self.answer, background(self.render), *middleware, **options)


def agent_of(answer: Any, tool: Any, *middleware: Any, **options: Any) -> Any:
    """An agent with a background tool, whose model always answers by one function."""
    names = ("context_schema", "handle_tool_errors")
    settings = {key: options.pop(key) for key in names if key in options}
    return create_agent(
        ScriptedChatModel([answer] * 1000),
        [tool],
        middleware=[*middleware, BackgroundMiddleware(**options)],
        checkpointer=InMemorySaver(),
        **settings,
    )


def start(service: Service, agent: Any, asynchronous: bool = False) -> None:
    service.add("studio", agent, asynchronous=asynchronous)
    service.start()


def say(service: Service, text: str, **options: Any) -> Any:
    return service.submit("studio", thread="t", message=text, **options)


def texts(service: Service) -> list[str]:
    """The last lines of the messages of people and of jobs."""
    messages = service.threads.state("t").values["messages"]
    assert_valid_history(messages)
    return [m.text.splitlines()[-1] for m in messages if isinstance(m, HumanMessage)]


def rows(tables: Tables) -> list[Any]:
    """The jobs that are under way."""
    return tables.rows(select(background_jobs))
