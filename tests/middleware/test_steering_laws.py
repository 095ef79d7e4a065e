"""Threads and processes that send to an agent, and are killed: messages are read once, in order."""

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
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
from processes import Processes, exit_code
from waiting import until

sqlite = pytest.importorskip("langgraph.checkpoint.sqlite", reason="the extra sqlite")

pytestmark = [
    pytest.mark.law,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="SIGKILL is POSIX's"),
]

ONE: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 100_000}
SEND = {"steer": steer, "follow_up": follow_up}
KINDS = st.lists(st.sampled_from(["steer", "steer", "follow_up"]), min_size=1, max_size=6)


class Talk:
    """A run that works until all its senders have ended."""

    def __init__(self, saver: Any, senders: list[list[str]], *, ends_early: bool) -> None:
        self.sent: list[str] = []  # whose sender has returned
        self.due: list[str] = []  # for the next call of the model
        self.late: list[set[str]] = []  # what it did not read
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


PROGRAM = """
import os, random, signal, sqlite3, sys, time
from pathlib import Path
from langgraph.checkpoint.sqlite import SqliteSaver
from agent_factory import ToolRuntime, create_agent
from agent_factory.middleware import SteeringMiddleware, follow_up, steer, unread
from agent_factory.testing import ScriptedChatModel

role, durability, *arguments = sys.argv[1:]
ONE = {"configurable": {"thread_id": "1"}, "recursion_limit": 1_000_000}
due, asked = set(), []

def sent():
    lines = [line for file in Path().glob("sent-*") for line in file.read_text().splitlines()]
    return {line for line in lines if line.startswith("steer")}

def work(runtime: ToolRuntime) -> str:
    "Work until something is sent."
    for _ in range(200):
        if Path("stop").exists() or len(unread(runtime).messages) >= 3:
            break
        time.sleep(0.002)  # waits: for messages that may come
    due.update(sent())
    return "worked"

def answer(messages):
    if late := due - {message.text for message in messages}:
        Path("late").write_text(str(late))
    if not asked:
        asked.append(True)
        print("ready", flush=True)
    return "done" if Path("stop").exists() else [{"name": "work", "args": {}}]

class Saver(SqliteSaver):
    def put_writes(self, config, writes, *task):
        # What was read is stored nowhere yet.
        if role == "die" and any(channel == "steering_read" for channel, _ in writes):
            os.kill(os.getpid(), signal.SIGKILL)
        super().put_writes(config, writes, *task)

connection = sqlite3.connect("threads.db", check_same_thread=False, timeout=60)
agent = create_agent(
    ScriptedChatModel([answer] * 100_000),
    [work],
    middleware=[SteeringMiddleware()],
    checkpointer=Saver(connection),
)
if role != "send":
    begun = agent.get_state(ONE).created_at
    agent.invoke(None if begun else {"messages": "Go"}, ONE, durability=durability)
else:
    number, first, last = arguments[0], *map(int, arguments[1:3])
    print("ready", flush=True)
    sys.stdin.readline()
    with open(f"sent-{number}", "a") as journal:
        for position in range(first, last):
            kind = "follow_up" if position % 10 == 9 else "steer"
            text = f"{kind} {number} {position}"
            Path(f"sending-{number}").write_text(text)
            {"steer": steer, "follow_up": follow_up}[kind](agent, ONE, text)
            journal.write(text + "\\n")
            journal.flush()
            time.sleep(random.random() * float(arguments[3]))  # waits: chance decides when it sends
"""


class Office:
    """The processes on one thread: one that runs, and others that send `count` messages each."""

    def __init__(
        self, processes: Processes, folder: Path, durability: str, count: int, pause: float
    ) -> None:
        self.folder, self.count, self.pause = folder, count, pause
        self._processes, self._durability = processes, durability

    def start(self, role: str, *arguments: object, ready: str | None = "ready") -> Any:
        """Start a process, and wait until it calls the model, or can send at a word."""
        command = [sys.executable, "-W", "ignore", "-c", PROGRAM, role, self._durability]
        return self._processes.start(
            [*command, *arguments], ready=ready, cwd=self.folder, stdin=subprocess.PIPE
        )

    def send(self, number: int, first: int = 0) -> Any:
        """Start a process that is ready to send."""
        return self.start("send", number, first, self.count, self.pause)

    def journal(self, number: int) -> list[str]:
        """The messages that a process has sent for sure."""
        path = self.folder / f"sent-{number}"
        return path.read_text().splitlines() if path.exists() else []

    def messages(self) -> list[Any]:
        """Return the messages of the thread."""
        with closing(sqlite3.connect(self.folder / "threads.db")) as connection:
            agent: Any = create_agent(
                ScriptedChatModel([]),
                middleware=[SteeringMiddleware()],
                checkpointer=sqlite.SqliteSaver(connection),
            )
            thread: Any = {"configurable": {"thread_id": "1"}}
            messages: list[Any] = agent.get_state(thread).values["messages"]
            return messages


LONG = (pytest.mark.long, pytest.mark.timeout(600))


def go(sender: Any) -> None:
    """Let a process send."""
    assert sender.stdin is not None
    sender.stdin.write("go\n")
    sender.stdin.flush()


@pytest.mark.long
@pytest.mark.parametrize(
    ("durability", "count", "pause", "kills"),
    [
        ("sync", 20, 0.2, 1),
        pytest.param("sync", 500, 0.05, 12, marks=LONG),
        pytest.param("async", 500, 0.05, 12, marks=LONG),
    ],
)
def test_messages_of_processes_are_read_once_in_order_whatever_is_killed(
    processes: Processes, tmp_path: Path, durability: str, count: int, pause: float, kills: int
) -> None:
    chance = random.Random(f"{durability} {count}")
    office = Office(processes, tmp_path, durability, count, pause)
    run = office.start("run")
    senders = {number: office.send(number) for number in (1, 2)}
    for sender in senders.values():
        go(sender)

    def sending() -> bool:
        return any(sender.poll() is None for sender in senders.values())

    def sent() -> int:
        return sum(len(office.journal(number)) for number in senders)

    unknown: set[str] = set()
    for kill in range(kills):
        enough = sent() + chance.random() * count / kills
        until(lambda enough=enough: sent() >= enough or not sending())  # type: ignore[misc]
        run.kill()
        exit_code(run)
        if kill == kills // 2:
            # A sender, too: nobody knows whether its last message has arrived.
            senders[1].kill()
            if exit_code(senders[1]) != 0:
                last = (tmp_path / "sending-1").read_text()
                unknown.add(last)
                senders[1] = office.send(1, int(last.split()[2]) + 1)
                go(senders[1])
        if kill % 2 == 0:
            # One that dies between reading a message and storing it.
            dying = office.start("die", ready=None)
            until(lambda dying=dying: dying.poll() is not None or not sending())  # type: ignore[misc]
            dying.kill()
            exit_code(dying)
        run = office.start("run")
    assert [exit_code(sender) for sender in senders.values()] == [0, 0]
    (tmp_path / "stop").touch()
    assert exit_code(run) == 0
    assert not (tmp_path / "late").exists(), (tmp_path / "late").read_text()

    messages = office.messages()
    assert_valid_history(messages)
    texts = [message.text for message in messages if message.type == "human"][1:]
    journals = {line for number in senders for line in office.journal(number)}
    assert len(texts) == len({*texts})
    assert {*texts} - unknown == journals - unknown
    assert len(journals | unknown) == 2 * count
    for number in senders:
        for kind in ("steer", "follow_up"):
            positions = [int(t.split()[2]) for t in texts if t.startswith(f"{kind} {number} ")]
            assert positions == sorted(positions)
