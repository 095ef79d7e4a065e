"""`around_agent` when a run goes on in another process: after a pause, and after a crash."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

PROGRAM = """
import os, sys
from pathlib import Path
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command, interrupt
from agent_factory import AgentMiddleware, RunPaused, Task, create_agent
from agent_factory.testing import ScriptedChatModel

log, thread = Path("log.txt"), {"configurable": {"thread_id": "1"}}

def note(line):
    with log.open("a") as file:
        file.write(line + "\\n")

class Desk(AgentMiddleware):
    def around_agent(self, state, resumed):
        ticket = yield Task("ticket", self.ticket)
        note(f"opened {ticket} {'again' if resumed else 'first'}")
        try:
            result = yield state
            note("ended")
            return result
        except RunPaused:
            note("paused")
            raise
        finally:
            note("closed")

    def ticket(self):
        note("took a ticket")
        return "T1"

def ask() -> str:
    "Ask."
    return interrupt("ok?")

def crash() -> str:
    "End the process at once, if it is the first."
    if sys.argv[1] == "start":
        os._exit(9)
    return "survived"

calls = [{"name": name, "args": {}, "id": name} for name in sys.argv[2:]]
with SqliteSaver.from_conn_string("threads.db") as saver:
    script = [calls, "Done."] if sys.argv[1] == "start" else ["Done."]
    agent = create_agent(
        ScriptedChatModel(script), [ask, crash], middleware=[Desk()], checkpointer=saver
    )
    if sys.argv[1] == "start":
        agent.invoke({"messages": "Go."}, thread, durability="sync")
    else:
        answer = Command(resume="yes") if agent.get_state(thread).interrupts else None
        print(agent.invoke(answer, thread)["messages"][-1].text)
"""


def process(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("end", "code", "closing"), [("ask", 0, ["paused", "closed"]), ("crash", 9, [])]
)
def test_another_process_goes_on_after_a_pause_and_after_a_crash(
    tmp_path: Path, end: str, code: int, closing: list[str]
) -> None:
    """Nothing is closed in a process that crashes; what was done once is not done again."""
    first = process(tmp_path, "start", end)
    assert first.returncode == code, first.stderr
    second = process(tmp_path, "resume", end)
    assert second.stdout == "Done.\n", second.stderr
    assert (tmp_path / "log.txt").read_text().splitlines() == [
        *("took a ticket", "opened T1 first", *closing),
        *("opened T1 again", "ended", "closed"),
    ]
