"""A process may be killed at any moment: the thread resumes from its checkpoint, complete.

What the processes did is in the journal of the thread.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import create_agent
from agent_factory.testing import ScriptedChatModel
from processes import owned

pytest.importorskip("langgraph.checkpoint.sqlite.aio", reason="the extra sqlite is not installed")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="fork and SIGKILL are POSIX's"),
]

KILLED = -9
IN_TESTS = settings.get_current_profile_name() == "test"
KILLS = 2 if IN_TESTS else 100
"""How often a test kills by chance."""
STRIDE = 200 if IN_TESTS else 5
"""How far apart the points are at which a process kills itself."""

PATHS = {
    "hook by hook": ["steps"],
    "fused": ["fused"],
    "whole turns": ["turn"],
    "mixed": ["steps", "fused", "turn"],
}
MANNERS = [
    {"mode": mode, "checkpoints": checkpoints, "durability": durability}
    for durability in ("sync", "async")
    for mode in ("sync", "async")
    for checkpoints in ("full", "delta")
]
SAFE = [manner for manner in MANNERS if manner["durability"] == "sync"]

Start = Callable[..., float | None]


@pytest.fixture(scope="module")
def start() -> Iterator[Start]:
    """Start a process on a thread, and kill it after some seconds; the seconds that it took.

    `start(folder, path="fused", after=0.1)`. None where it was killed.
    """
    with owned() as processes:

        def run(folder: Path, *, after: float | None = None, **attempt: Any) -> float | None:
            words = json.dumps({"folder": str(folder), **attempt})
            process = processes.fork(["kills.worker", words])
            process.stdout.readline()  # it is at work, or dead
            begun = time.monotonic()
            process.wait(after)
            processes.end()
            assert process.returncode in (0, KILLED), "a process has failed: see stderr"
            return None if process.returncode else time.monotonic() - begun

        yield run


@dataclass(frozen=True)
class Journal:
    """What the processes on a thread did, one after the other."""

    lines: list[dict[str, Any]]

    @classmethod
    def of(cls, folder: Path) -> Journal:
        return cls(list(_whole_lines((folder / "journal").read_text())))

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["kind"] == kind]

    @property
    def end(self) -> dict[str, Any]:
        return self.of_kind("end")[-1]

    def again(self) -> list[dict[str, Any]]:
        """Requests for answers, and runs of tools for results, that a process had found stored."""
        stored: set[str] = set()
        again = []
        for line in self.lines:
            if line["kind"] == "found":
                stored.update(line["answers"], line["results"])
            elif stored.intersection((line.get("where"), line.get("call"))):
                again.append(line)
        return again

    def first_times(self) -> list[str]:
        """The calls whose effects tools say to have had."""
        return [line["call"] for line in self.of_kind("tool") if line["first"]]

    def lost(self) -> list[str]:
        """Messages that a process had found stored, and the thread has not."""
        kept = set(self.end["ids"])
        found = [name for line in self.of_kind("found") for name in line["ids"]]
        return [name for name in found if name not in kept]


def _whole_lines(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:  # a process was killed as it wrote
            continue


def effects(folder: Path) -> set[str]:
    return {path.name.removeprefix("effect-") for path in folder.glob("effect-*")}


@dataclass
class Trial:
    """Threads whose processes are killed, each on one of some paths by chance."""

    start: Start
    folder: Path
    transitions: list[str]
    chance: random.Random

    def __post_init__(self) -> None:
        """Run once without a kill, to compare with, and to know how long that takes."""
        self._threads = itertools.count()
        folder = self.thread()
        self.seconds = self.run(folder, SAFE[0]) or 0.0
        journal = Journal.of(folder)
        end = journal.end
        self.requests = len(journal.of_kind("ask"))
        self.points: int = end["points"]
        self.values: dict[str, Any] = end["values"]
        self.landed: Counter[str] = Counter()
        self.needless: Counter[str] = Counter()

    def thread(self) -> Path:
        folder = self.folder / str(next(self._threads))
        folder.mkdir()
        return folder

    def run(self, folder: Path, manner: dict[str, str], **death: float) -> float | None:
        attempt = {"path": self.chance.choice(self.transitions), **manner, **death}
        ended = self.start(folder, **attempt)
        print(folder.name, attempt, ended)  # shown where a test fails
        return ended

    def killed_by_chance(self, manner: dict[str, str]) -> int:
        """Kill process after process on a new thread until one is done; the kills."""
        folder = self.thread()
        after = partial(self.chance.uniform, 0, self.seconds)
        kills = 0
        while self.run(folder, manner, after=after()) is None:
            kills += 1
        self.check(folder, manner)
        return kills

    def killed_at(self, point: int, manner: dict[str, str]) -> None:
        """Let a process kill itself at a point, and another go on."""
        folder = self.thread()
        self.run(folder, manner, at=point)
        self.run(folder, manner)
        self.check(folder, manner)

    def check(self, folder: Path, manner: dict[str, str]) -> None:
        """The laws that hold for a thread at its end, wherever its processes were killed."""
        journal = Journal.of(folder)
        end = journal.end
        assert end["values"] == self.values
        assert len(set(end["ids"])) == len(end["ids"])
        assert len(set(end["calls"])) == len(end["calls"])
        assert not journal.lost()
        assert not journal.again()
        calls, had = set(end["calls"]), effects(folder)
        assert calls <= had
        assert max(Counter(journal.first_times()).values()) == 1
        if manner["durability"] == "sync":  # an answer is stored before its tools run
            assert had == calls
        self.landed.update(" ".join(line["tasks"]) for line in journal.of_kind("found")[1:])
        self.needless["effects"] += len(had - calls)
        self.needless["requests"] += len(journal.of_kind("ask")) - self.requests


@pytest.fixture(scope="module", params=list(PATHS.values()), ids=list(PATHS))
def trial(
    request: pytest.FixtureRequest, start: Start, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Trial]:
    trial = Trial(start, tmp_path_factory.mktemp("threads"), request.param, random.Random())
    yield trial
    print(f"needless: {dict(trial.needless)}; next was {dict(trial.landed)}")


def test_a_run_killed_at_random_continues_with_the_same_result(trial: Trial) -> None:
    """Whatever the path, sync or async, the checkpoints and the durability.

    In whole turns the model is asked again if the step was killed in which it had answered:
    nothing of that was stored. No path asks again for an answer that was.
    """
    kills = 0
    for manner in itertools.cycle(trial.chance.sample(MANNERS, len(MANNERS))):
        kills += trial.killed_by_chance(manner)
        if kills >= KILLS:
            break


def test_a_run_killed_at_any_point_continues_with_the_same_result(trial: Trial) -> None:
    """A point is any statement that reaches the database, and any moment in a hook or a tool."""
    points = range(trial.chance.randrange(STRIDE) + 1, trial.points, STRIDE)
    for point, manner in zip(points, itertools.cycle(SAFE), strict=False):
        trial.killed_at(point, manner)


def test_a_run_stored_only_at_its_exit_starts_again_from_the_user_message(
    start: Start, tmp_path: Path
) -> None:
    """With durability="exit" an answer is lost, though its tools have run: they run for two."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    start(whole, durability="exit")
    start(killed, durability="exit", at=Journal.of(whole).end["points"] // 3)
    start(killed, durability="exit")
    journal = Journal.of(killed)
    first, second = journal.of_kind("found")
    assert second == first
    assert journal.end["values"] == Journal.of(whole).end["values"]
    assert effects(killed) > set(journal.end["calls"])


class Full(Exception):
    """No room is left for a checkpoint."""


class FullDisk(InMemorySaver):
    """A saver that takes what tasks write, and so many checkpoints."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def put(self, *args: Any, **kwargs: Any) -> Any:
        if not self.room:
            raise Full
        self.room -= 1
        return super().put(*args, **kwargs)


@pytest.mark.parametrize("fused", [False, True, "turn"])
def test_a_run_may_be_unfinished_even_if_no_node_is_next(fused: Any) -> None:
    """Between a step's writes and its checkpoint: the step is done, and `tasks` still has it."""
    model = ScriptedChatModel(["Hello!"])
    saver = FullDisk(room=2)  # the input, and what starts the model
    agent = create_agent(model, checkpointer=saver, fused=fused)
    thread: Any = {"configurable": {"thread_id": "1"}}
    with pytest.raises(Full):
        agent.invoke({"messages": "Hi"}, thread, durability="sync")
    state = agent.get_state(thread)
    assert state.next == ()
    assert [task.name for task in state.tasks] == ["model"]
    saver.room = 2
    result = agent.invoke(None, thread, durability="sync")
    assert [message.text for message in result["messages"]] == ["Hi", "Hello!"]
    assert agent.get_state(thread).tasks == ()
    model.assert_done()
