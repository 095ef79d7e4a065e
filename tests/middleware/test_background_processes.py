"""Processes that work in the background, and are killed: each result is read once, or is lost."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from agent_factory import background, create_agent, run
from agent_factory.middleware import BackgroundMiddleware
from agent_factory.middleware._shared.mailbox import Mailbox
from agent_factory.testing import ScriptedChatModel, assert_valid_history

sqlite = pytest.importorskip("langgraph.checkpoint.sqlite", reason="the extra sqlite")

pytestmark = [
    pytest.mark.law,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="fork and SIGKILL are POSIX's"),
]

KILLS = 6 if settings.get_current_profile_name() == "test" else 125
"""How often a process of each manner is killed."""

KILLS_OF_A_THREAD = 8

PROGRAM = """
import asyncio, json, os, random, signal, sqlite3, sys, threading, time
from pathlib import Path

import aiosqlite
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from agent_factory import background, create_agent
from agent_factory.middleware import BackgroundMiddleware
from agent_factory.testing import ScriptedChatModel

mode, durability, kills, per_thread = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
CONFIG = {"recursion_limit": 1_000_000}


def die(share):
    "Die now, with some probability."
    if chance.random() < share:
        os.kill(os.getpid(), signal.SIGKILL)


class Kills:
    "Kills the process around what is stored of jobs: their handles, their results, what was read."

    def put_writes(self, config, writes, *task):
        is_of_job = any(channel in ("background", "background_jobs") for channel, _ in writes)
        die(0.03 * is_of_job * mortal)
        super().put_writes(config, writes, *task)
        die(0.03 * is_of_job * mortal)

    async def aput_writes(self, config, writes, *task):
        is_of_job = any(channel in ("background", "background_jobs") for channel, _ in writes)
        die(0.03 * is_of_job * mortal)
        await super().aput_writes(config, writes, *task)
        die(0.03 * is_of_job * mortal)


class Saver(Kills, SqliteSaver):
    pass


class AsyncSaver(Kills, AsyncSqliteSaver):
    pass


def end(number):
    line = f"{number} {random.random()}"
    with open("journal", "a") as journal:
        journal.write(line + "\\n")
    if mortal:
        after = chance.random() * 0.2
        threading.Timer(after, os.kill, (os.getpid(), signal.SIGKILL)).start()
    return line


def work(number: int) -> str:
    "Work."
    time.sleep(random.random() * 0.03)  # waits: kills come at any moment of the work
    return end(number)


async def awork(number: int) -> str:
    "Work."
    await asyncio.sleep(random.random() * 0.03)  # waits: as above
    return end(number)


awork.__name__ = "work"


last_call = [{"name": "work", "args": {"number": 0}}]


def answer(messages):
    if not mortal:  # however slow this machine is, the last process of a thread ends one job
        return [last_call.pop()] if last_call else "done"
    return [
        {"name": "work", "args": {"number": random.randrange(10**9)}}
        for _ in range(random.randrange(4))
    ] or "done"


def agent(saver):
    return create_agent(
        ScriptedChatModel([answer] * 100_000),
        [background(work if mode == "sync" else awork)],
        middleware=[BackgroundMiddleware(wait=not mortal or random.random() < 0.5)],
        checkpointer=saver,
    )


def runs(thread):
    "Run the thread again and again, until this process is killed."
    config = {**CONFIG, "configurable": {"thread_id": thread}}
    with sqlite3.connect(f"{thread}.db", check_same_thread=False, timeout=60) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        built = agent(Saver(connection))
        while True:
            begun = built.get_state(config).next
            built.invoke(None if begun else {"messages": "Go"}, config, durability=durability)
            if not mortal:
                return


async def aruns(thread):
    config = {**CONFIG, "configurable": {"thread_id": thread}}
    async with aiosqlite.connect(f"{thread}.db", timeout=60) as connection:
        await connection.execute("PRAGMA synchronous=OFF")
        built = agent(AsyncSaver(connection))
        while True:
            begun = (await built.aget_state(config)).next
            start = None if begun else {"messages": "Go"}
            await built.ainvoke(start, config, durability=durability)
            if not mortal:
                return


def child(thread):
    "Run the thread in a new process; return how that ended."
    global chance
    pid = os.fork()
    if pid == 0:
        chance = random.Random()
        random.seed()
        try:
            runs(thread) if mode == "sync" else asyncio.run(aruns(thread))
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


Path("journal").touch()
threads = []
while kills > 0:
    threads.append(f"thread-{len(threads)}")
    mortal = True
    for _ in range(min(kills, per_thread)):
        status = child(threads[-1])
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
    kills -= per_thread
    mortal = False
    assert child(threads[-1]) == 0
print(json.dumps(threads))
"""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("mode", "durability"),
    [
        ("sync", "sync"),
        pytest.param("sync", "async", marks=pytest.mark.long),
        pytest.param("async", "sync", marks=pytest.mark.long),
        ("async", "async"),
    ],
)
def test_each_result_is_read_once_or_reported_lost_whatever_is_killed(
    tmp_path: Path, mode: str, durability: str
) -> None:
    pytest.importorskip("aiosqlite", reason="the extra sqlite")
    arguments = [mode, durability, str(KILLS), str(KILLS_OF_A_THREAD)]
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, *arguments]
    ended = subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True)
    journal = {*(tmp_path / "journal").read_text().splitlines()}
    endings: Counter[str] = Counter()
    for thread in json.loads(ended.stdout):
        state, stored = state_of(tmp_path, thread)
        assert not state.get("background_jobs")
        messages = state["messages"]
        assert_valid_history(messages)
        handles = [m for m in messages if m.text.startswith("Started in the background")]
        numbers = {call["id"]: call["args"]["number"] for m in messages for call in calls_of(m)}
        jobs = {m.text.split()[5].rstrip("."): numbers[m.tool_call_id] for m in handles}
        assert len(jobs) == len(handles)
        reported = [m for m in messages if m.name == "background"]
        assert Counter(m.id for m in reported) == Counter({*jobs})
        for message in reported:
            about = message.additional_kwargs["background"]
            endings[about["ending"]] += 1
            # By name: which job, which tool, which arguments.
            name = f'{message.id}, work({{"number": {jobs[message.id]}}}), '
            assert message.text.startswith(f"[Background job {name}")
            # What was stored before the process was killed is not lost.
            assert about["ending"] == "done" or message.id not in stored
            if about["ending"] == "done":
                line = message.text.splitlines()[-1]
                assert line in journal
                assert line.startswith(f"{jobs[message.id]} ")
    print(f"{mode}, {durability}: {KILLS} kills, {dict(endings)}")
    assert endings.keys() <= {"done", "lost"}
    assert endings["done"] > 0
    # A few kills may leave no job under way.
    assert endings["lost"] > 0 or KILLS < 100


def calls_of(message: Any) -> Any:
    return getattr(message, "tool_calls", ())


def state_of(folder: Path, thread: str) -> tuple[Any, set[str]]:
    """Return the state of a thread, and the ids of the jobs whose results were stored."""

    def work(number: int) -> str:
        """Work."""
        return str(number)

    with closing(sqlite3.connect(folder / f"{thread}.db")) as connection:
        saver = sqlite.SqliteSaver(connection)
        agent: Any = create_agent(
            ScriptedChatModel([]),
            [background(work)],
            middleware=[BackgroundMiddleware()],
            checkpointer=saver,
        )
        stored = run(Mailbox(saver, thread).entries()) or ()
        values = agent.get_state({"configurable": {"thread_id": thread}}).values
        return values, {entry.id for entry in stored}
