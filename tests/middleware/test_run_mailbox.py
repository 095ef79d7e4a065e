"""mailbox_of_run: an agent reads messages that somebody else keeps, as those of `steer`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import ToolRuntime, create_agent
from agent_factory.middleware import (
    STEERING_READ,
    SteeringMiddleware,
    cancel,
    mailbox_of_run,
    steer,
    unread,
)
from agent_factory.testing import ScriptedChatModel
from samples import texts
from tables import each

Call = Callable[..., Any]
ONE: Any = {"configurable": {"thread_id": "1"}}
TWO: Any = {"configurable": {"thread_id": "2"}}
HELLO: Any = {"messages": "Hello"}
WORK = [{"name": "work", "args": {}}]


class Letters:
    """A mailbox of which nothing is taken out."""

    thread = "1"

    def __init__(self, *texts: str) -> None:
        self.waiting = {f"id of {text}": HumanMessage(text, id=text) for text in texts}

    def messages(self) -> Mapping[str, HumanMessage]:
        return self.waiting

    def add(self, text: str) -> None:
        self.waiting[f"id of {text}"] = HumanMessage(text, id=text)


def agent_of(steps: list[Any], action: Callable[[ToolRuntime], object] = id) -> Any:
    """An agent in whose tool something happens."""

    def work(runtime: ToolRuntime) -> str:
        """Work."""
        action(runtime)
        return "worked"

    options: Any = {"middleware": [SteeringMiddleware()], "checkpointer": InMemorySaver()}
    return create_agent(ScriptedChatModel(steps), [work], **options)


def test_messages_are_read_once_in_order_also_with_the_last_answer_and_a_tool_sees_what_waits(
    call: Call,
) -> None:
    letters, looks = Letters("A", "B"), list[Any]()

    def look(runtime: ToolRuntime) -> None:
        letters.add("C")
        looks.append([message.text for message in unread(runtime).messages])

    def answer(_: Any) -> str:
        letters.add("D")
        return "one"

    agent = agent_of([WORK, answer, "done", "again"], look)
    with mailbox_of_run(letters):
        result = call(agent, HELLO, ONE)
        assert texts(result) == ["Hello", "A", "B", "", "worked", "C", "one", "D", "done"]
        assert texts(call(agent, HELLO, ONE))[-2:] == ["Hello", "again"]
    assert looks == [["C"]]
    assert agent.get_state(ONE).values[STEERING_READ] == [f"id of {letter}" for letter in "ABCD"]
    assert result["messages"][1].id == "A"


def test_the_mailbox_of_the_saver_is_not_read_in_the_block() -> None:
    agent = agent_of(["one", "two", "three"])
    agent.invoke(HELLO, ONE)
    steer(agent, ONE, "later")
    cancel(agent, ONE)
    with mailbox_of_run(Letters("A")):
        assert texts(agent.invoke(HELLO, ONE))[2:] == ["Hello", "A", "two"]
    assert texts(agent.invoke(HELLO, ONE))[5:] == ["Hello", "later", "three"]


@each("place", ["inside", "on another thread"])
def test_another_agent_in_the_block_does_not_read_it(call: Call, place: str) -> None:
    if place == "inside":
        inner = create_agent(
            ScriptedChatModel(["inner"]), middleware=[SteeringMiddleware()], ignore=["AF211"]
        )
        config = None
    else:
        inner, config = agent_of(["inner"]), TWO
    results: list[Any] = []
    letters = Letters()

    def ask(_: ToolRuntime) -> None:
        letters.add("A")
        results.append(inner.invoke(HELLO, config))

    with mailbox_of_run(letters):
        result = call(agent_of([WORK, "done"], ask), HELLO, ONE)
    assert texts(results[0]) == ["Hello", "inner"]
    assert texts(result)[-2:] == ["A", "done"]
