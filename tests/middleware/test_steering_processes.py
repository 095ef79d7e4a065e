"""Processes that send to a run, and are killed: each message is read once, and in order."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_factory.testing import assert_valid_history

sqlite = pytest.importorskip("langgraph.checkpoint.sqlite", reason="the extra sqlite")

pytestmark = [
    pytest.mark.law,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="SIGKILL is POSIX's"),
]

PROGRAM = """
import sqlite3, sys, time
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

connection = sqlite3.connect("threads.db", check_same_thread=False, timeout=60)
agent = create_agent(
    ScriptedChatModel([answer] * 100_000),
    [work],
    middleware=[SteeringMiddleware()],
    checkpointer=SqliteSaver(connection),
)
if role == "run":
    begun = agent.get_state(ONE).next
    agent.invoke(None if begun else {"messages": "Go"}, ONE, durability=durability)
else:
    number, first, last = arguments[0], *map(int, arguments[1:])
    with open(f"sent-{number}", "a") as journal:
        for position in range(first, last):
            kind = "follow_up" if position % 10 == 9 else "steer"
            text = f"{kind} {number} {position}"
            (Path(f"sending-{number}")).write_text(text)
            {"steer": steer, "follow_up": follow_up}[kind](agent, ONE, text)
            journal.write(text + "\\n")
            journal.flush()
"""


class Processes:
    """The processes on one thread: one that runs, and others that send."""

    def __init__(self, folder: Path, durability: str, chance: random.Random) -> None:
        self.folder, self.durability, self.chance = folder, durability, chance

    def start(self, role: str, *arguments: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-W", "ignore", "-c", PROGRAM, role, self.durability]
        return subprocess.Popen([*command, *map(str, arguments)], cwd=self.folder)

    def run_until(self, seconds: float) -> subprocess.Popen[bytes]:
        """Start the run, and leave it for so long after its first call of the model."""
        ready = self.folder / "ready"
        ready.unlink(missing_ok=True)
        process = self.start("run")
        while not ready.exists():
            assert process.poll() is None
            time.sleep(0.002)
        time.sleep(seconds)
        return process

    def messages(self) -> list[Any]:
        from agent_factory import create_agent
        from agent_factory.middleware import SteeringMiddleware
        from agent_factory.testing import ScriptedChatModel

        with closing(sqlite.sqlite3.connect(self.folder / "threads.db")) as connection:
            agent: Any = create_agent(
                ScriptedChatModel([]),
                middleware=[SteeringMiddleware()],
                checkpointer=sqlite.SqliteSaver(connection),
            )
            messages: list[Any] = agent.get_state({"configurable": {"thread_id": "1"}}).values[
                "messages"
            ]
            return messages


@pytest.mark.parametrize(
    ("durability", "count", "kills"),
    [
        ("sync", 20, 2),
        pytest.param("sync", 500, 12, marks=[pytest.mark.long, pytest.mark.timeout(600)]),
        pytest.param("async", 500, 12, marks=[pytest.mark.long, pytest.mark.timeout(600)]),
    ],
)
def test_messages_of_processes_are_read_once_in_order_whatever_is_killed(
    tmp_path: Path, durability: str, count: int, kills: int
) -> None:
    chance = random.Random(f"{durability} {count}")
    processes = Processes(tmp_path, durability, chance)
    run = processes.run_until(0.05)
    senders = {number: processes.start("send", number, 0, count) for number in (1, 2)}
    unknown: set[str] = set()
    for kill in range(kills):
        run.send_signal(signal.SIGKILL)
        run.wait()
        if kill == kills // 2:
            # A sender, too: nobody knows whether its last message has arrived.
            senders[1].send_signal(signal.SIGKILL)
            if senders[1].wait() != 0:
                last = (
                    (tmp_path / "sending-1").read_text().split()
                    if (tmp_path / "sending-1").exists()
                    else ["", "", "-1"]
                )
                unknown.add(" ".join(last))
                senders[1] = processes.start("send", 1, int(last[2]) + 1, count)
        run = processes.run_until(chance.random() * 0.5)
    for sender in senders.values():
        assert sender.wait() == 0
    (tmp_path / "stop").touch()
    assert run.wait() == 0
    assert not (tmp_path / "late").exists(), (tmp_path / "late").read_text()

    messages = processes.messages()
    assert_valid_history(messages)
    texts = [message.text for message in messages if message.type == "human"][1:]
    journals = [(tmp_path / f"sent-{number}").read_text().splitlines() for number in (1, 2)]
    assert len(texts) == len({*texts})
    assert {*texts} - unknown == {line for journal in journals for line in journal} - unknown
    assert len(texts) >= 2 * count - len(unknown)
    for number in (1, 2):
        for kind in ("steer", "follow_up"):
            positions = [int(t.split()[2]) for t in texts if t.startswith(f"{kind} {number} ")]
            assert positions == sorted(positions)
