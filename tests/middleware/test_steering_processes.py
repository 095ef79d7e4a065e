"""Processes that send to a run, and are killed: each message is read once, and in order."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_factory import create_agent
from agent_factory.middleware import SteeringMiddleware
from agent_factory.testing import ScriptedChatModel, assert_valid_history

sqlite = pytest.importorskip("langgraph.checkpoint.sqlite", reason="the extra sqlite")

pytestmark = [
    pytest.mark.law,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="SIGKILL is POSIX's"),
]

PROGRAM = """
import os, random, signal, sqlite3, sys, time
from pathlib import Path
from langgraph.checkpoint.sqlite import SqliteSaver
from agent_factory import ToolRuntime, create_agent
from agent_factory.middleware import SteeringMiddleware, follow_up, steer, unread
from agent_factory.testing import ScriptedChatModel

role, durability, *arguments = sys.argv[1:]
ONE = {"configurable": {"thread_id": "1"}, "recursion_limit": 1_000_000}
due = set()

def sent():
    lines = [line for file in Path().glob("sent-*") for line in file.read_text().splitlines()]
    return {line for line in lines if line.startswith("steer")}

def work(runtime: ToolRuntime) -> str:
    "Work until something is sent."
    for _ in range(200):
        if Path("stop").exists() or len(unread(runtime).messages) >= 3:
            break
        time.sleep(0.002)
    due.update(sent())
    return "worked"

def answer(messages):
    if late := due - {message.text for message in messages}:
        Path("late").write_text(str(late))
    Path("ready").touch()
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
    Path(f"up-{number}").touch()
    while not Path("go").exists():
        time.sleep(0.001)
    with open(f"sent-{number}", "a") as journal:
        for position in range(first, last):
            kind = "follow_up" if position % 10 == 9 else "steer"
            text = f"{kind} {number} {position}"
            Path(f"sending-{number}").write_text(text)
            {"steer": steer, "follow_up": follow_up}[kind](agent, ONE, text)
            journal.write(text + "\\n")
            journal.flush()
            time.sleep(random.random() * float(arguments[3]))
"""


class Processes:
    """The processes on one thread: one that runs, and others that send.

    Args:
        folder: Where they work.
        durability: When the run stores its checkpoints.
        count: How many messages each of the others sends.
        pause: The longest pause between two of them, in seconds.
    """

    def __init__(self, folder: Path, durability: str, count: int, pause: float) -> None:
        self.folder, self.count, self.pause = folder, count, pause
        self._command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
        self._durability = durability

    def start(self, role: str, *arguments: object) -> subprocess.Popen[bytes]:
        command = [*self._command, role, self._durability, *map(str, arguments)]
        return subprocess.Popen(command, cwd=self.folder)

    def run(self, role: str = "run") -> subprocess.Popen[bytes]:
        """Start the run, and wait for its first call of the model."""
        ready = self.folder / "ready"
        ready.unlink(missing_ok=True)
        process = self.start(role)
        while not ready.exists():
            assert process.poll() is None
            time.sleep(0.002)
        return process

    def send(self, number: int, first: int = 0) -> subprocess.Popen[bytes]:
        """Start a process that sends, and wait until it is ready for that."""
        up = self.folder / f"up-{number}"
        up.unlink(missing_ok=True)
        process = self.start("send", number, first, self.count, self.pause)
        while not up.exists():
            assert process.poll() is None
            time.sleep(0.002)
        return process

    def journal(self, number: int) -> list[str]:
        """What a process has sent for sure."""
        return (self.folder / f"sent-{number}").read_text().splitlines()

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
    tmp_path: Path, durability: str, count: int, pause: float, kills: int
) -> None:
    chance = random.Random(f"{durability} {count}")
    processes = Processes(tmp_path, durability, count, pause)
    run = processes.run()
    senders = {number: processes.send(number) for number in (1, 2)}
    (tmp_path / "go").touch()
    unknown: set[str] = set()
    for kill in range(kills):
        time.sleep(chance.random() * 0.5)
        run.kill()
        run.wait()
        if kill == kills // 2:
            # A sender, too: nobody knows whether its last message has arrived.
            senders[1].kill()
            if senders[1].wait() != 0:
                last = (tmp_path / "sending-1").read_text()
                unknown.add(last)
                senders[1] = processes.send(1, int(last.split()[2]) + 1)
        if kill % 2 == 0:
            # One that dies between reading a message and storing it.
            dying = processes.start("die")
            while dying.poll() is None and any(s.poll() is None for s in senders.values()):
                time.sleep(0.002)
            dying.kill()
            dying.wait()
        run = processes.run()
    for sender in senders.values():
        assert sender.wait() == 0
    (tmp_path / "stop").touch()
    assert run.wait() == 0
    assert not (tmp_path / "late").exists(), (tmp_path / "late").read_text()

    messages = processes.messages()
    assert_valid_history(messages)
    texts = [message.text for message in messages if message.type == "human"][1:]
    sent = {line for number in senders for line in processes.journal(number)}
    assert len(texts) == len({*texts})
    assert {*texts} - unknown == sent - unknown
    assert len(sent | unknown) == 2 * count
    for number in senders:
        for kind in ("steer", "follow_up"):
            positions = [int(t.split()[2]) for t in texts if t.startswith(f"{kind} {number} ")]
            assert positions == sorted(positions)
