"""Threads that send to an agent at once: each message is read once, in order, at the next call."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from threading import Event, Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import ToolRuntime, create_agent
from agent_factory.middleware import SteeringMiddleware, follow_up, steer, unread
from agent_factory.testing import ScriptedChatModel, assert_valid_history

sqlite = pytest.importorskip("langgraph.checkpoint.sqlite", reason="the extra sqlite")

ONE: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 100_000}
SEND = {"steer": steer, "follow_up": follow_up}
KINDS = st.lists(st.sampled_from(["steer", "steer", "follow_up"]), min_size=1, max_size=6)


class Talk:
    """A run that works until all its senders have ended.

    Attributes:
        sent: The texts of messages whose sender has returned.
        due: Those that the next call of the model has to read.
        late: Those that it did not read.
    """

    def __init__(self, saver: Any, senders: list[list[str]], *, ends_early: bool) -> None:
        self.sent: list[str] = []
        self.late: list[set[str]] = []
        self.due: list[str] = []
        self._begun, self._news, self._left = Event(), Event(), len(senders)
        self._threads = [
            Thread(target=self._send, args=(number, kinds)) for number, kinds in enumerate(senders)
        ]

        def work(runtime: ToolRuntime) -> str:
            """Work until something is sent."""
            self._begun.set()
            while self._left and not (ends_early and unread(runtime)):
                self._news.wait()
                self._news.clear()
            self.due = [text for text in self.sent if text.startswith("steer")]
            return "worked"

        self.agent: Any = create_agent(
            ScriptedChatModel([self._answer] * 200),
            [work],
            middleware=[SteeringMiddleware()],
            checkpointer=saver,
        )

    def _send(self, number: int, kinds: list[str]) -> None:
        self._begun.wait()
        for position, kind in enumerate(kinds):
            text = f"{kind} {number} {position}"
            SEND[kind](self.agent, ONE, text)
            self.sent.append(text)
            self._left -= position == len(kinds) - 1
            self._news.set()

    def _answer(self, messages: Any) -> Any:
        if late := {*self.due} - {message.text for message in messages}:
            self.late.append(late)
        return [{"name": "work", "args": {}}] if self._left else "done"

    def run(self, *, asynchronous: bool, durability: str) -> list[Any]:
        """Return the messages of the thread after the run."""
        for thread in self._threads:
            thread.start()
        input, options = {"messages": "Go"}, {"durability": durability}
        if asynchronous:
            result = asyncio.run(self.agent.ainvoke(input, ONE, **options))
        else:
            result = self.agent.invoke(input, ONE, **options)
        for thread in self._threads:
            thread.join()
        messages: list[Any] = result["messages"]
        return messages


def check(talk: Talk, messages: list[Any], senders: list[list[str]]) -> None:
    assert_valid_history(messages)
    texts = [message.text for message in messages if message.type == "human"][1:]
    assert sorted(texts) == sorted(talk.sent)
    for number, kinds in enumerate(senders):
        for kind in SEND:
            positions = [i for i, each in enumerate(kinds) if each == kind]
            expected = [f"{kind} {number} {position}" for position in positions]
            assert [text for text in texts if text in expected] == expected
    assert talk.late == []
    for before, message, after in zip(messages, messages[1:], messages[2:], strict=False):
        if message.text.startswith("follow_up"):
            assert isinstance(before, AIMessage)
            assert isinstance(after, AIMessage)


@pytest.mark.long
@pytest.mark.law
@pytest.mark.parametrize("stored", ["memory", "sqlite"])
@settings(deadline=None)
@given(
    senders=st.lists(KINDS, min_size=1, max_size=3),
    asynchronous=st.booleans(),
    ends_early=st.booleans(),
    durability=st.sampled_from(["sync", "async"]),
)
def test_messages_of_threads_are_read_once_in_order_at_the_next_call(
    stored: str, senders: list[list[str]], asynchronous: bool, ends_early: bool, durability: str
) -> None:
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
        saver = InMemorySaver() if stored == "memory" else sqlite.SqliteSaver(connection)
        talk = Talk(saver, senders, ends_early=ends_early)
        waits = asynchronous and stored == "memory"  # this saver of SQLite is sync
        check(talk, talk.run(asynchronous=waits, durability=durability), senders)
