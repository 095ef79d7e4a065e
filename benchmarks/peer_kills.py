"""Processes that are killed while tools run, and what another process makes of the thread.

A process runs an agent whose tool writes a line into a file: its effect. It is killed right after
an effect, before the result of that call is there. A second process resumes the thread, in the way
that the library documents. Then the effects and the messages are counted.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, ToolMessage

from agent_factory import review
from benchmarks.contenders import BY_HAND, OURS, PEER, Factory, by_hand, ours, peer
from benchmarks.efforts import Effort
from benchmarks.harness import Absent, Pair, Tally
from benchmarks.others import MODULES, PLUGIN, libraries
from benchmarks.runs import QUESTION
from benchmarks.savers import CONFIG
from benchmarks.scripted import FreeModel

CALLS = 3
"""How many calls of its tool a run makes."""

ONCE, REPEATED, LOST, ANSWERED = (
    "kills of 100: valid history, each effect once",
    "effects repeated a kill",
    "effects lost a kill",
    "kills of 100: the thread has an answer",
)

UNITS = (ONCE, REPEATED, LOST, ANSWERED)

_GRACE, _PATIENCE = 0.5, 120.0
"""Seconds: for the results of earlier calls to be stored before a kill, and for a process."""


class Scene(NamedTuple):
    """A run that is killed.

    Args:
        name: What it is called in the figures.
        turns: How many turns it takes.
        calls: How many calls a turn makes.
        recorded: A library that can do so records effects, and asks a person where nobody knows.
            The person looks, and answers.
    """

    name: str
    turns: int
    calls: int
    recorded: bool = False


_WATCHED = "three calls at once, effects recorded, a person asked"

SCENES = (
    Scene("killed in three calls at once", 1, CALLS),
    Scene("killed in three calls in a row", CALLS, 1),
    Scene(
        "killed in three calls at once, effects recorded, a person asked", 1, CALLS, recorded=True
    ),
)

NO_RECORD = "has no record of effects"


def kills(effort: Effort, everyone: Mapping[str, Factory | Absent]) -> Iterator[Tally]:
    """What kills leave of a run, for each library."""
    for scene in SCENES:
        items = {name: _killed(scene, each, effort.kills) for name, each in everyone.items()}
        pairs = [Pair(name, None, unit=unit) for unit in UNITS for name in everyone]
        yield Tally("peers", f"{scene.name}, {effort.kills} kills", items, pairs)


def _killed(
    scene: Scene, entrant: Factory | Absent, number: int
) -> Callable[[], Mapping[str, float]] | Absent:
    if isinstance(entrant, Absent):
        return entrant
    if "kill" in entrant.lacks:
        return Absent(entrant.lacks["kill"])
    if scene.recorded and entrant.name != OURS:
        return Absent(NO_RECORD)
    return partial(outcomes, scene, entrant.name, number)


def outcomes(scene: Scene, name: str, number: int) -> dict[str, float]:
    """Kill a run so often, each time after another effect, and count what becomes of it."""
    ends = [_end(scene, name, 1 + index % CALLS) for index in range(number)]
    return {
        ONCE: 100
        * sum(end.is_valid and not end.repeated and not end.lost for end in ends)
        / number,
        REPEATED: sum(end.repeated for end in ends) / number,
        LOST: sum(end.lost for end in ends) / number,
        ANSWERED: 100 * sum(end.is_answered for end in ends) / number,
    }


class End(NamedTuple):
    """What became of a run.

    Args:
        is_answered: Its last message is an answer.
        is_valid: And each call of its messages has one result.
        repeated: Effects that happened more than once.
        lost: Effects that never happened.
    """

    is_answered: bool
    is_valid: bool
    repeated: int
    lost: int


def _end(scene: Scene, name: str, after: int) -> End:
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        effects = Path(folder, "effects")
        # Both start at once: imports take most of the time.
        with (
            _process(scene, name, folder, after) as first,
            _process(scene, name, folder, None) as process,
        ):
            try:
                _wait_for_effects(effects, after, first)
                time.sleep(_GRACE)
                first.kill()
                first.wait()
                output, _ = process.communicate("go on\n", timeout=_PATIENCE)
            except subprocess.TimeoutExpired:
                output = ""
            finally:  # neither ends by itself if something else breaks, and the block waits
                first.kill()
                process.kill()
        lines = Counter(effects.read_text().splitlines())
    messages = json.loads(output.splitlines()[-1]) if output and not process.returncode else []
    return end_of(messages, lines)


def end_of(messages: list[list[str]], effects: Mapping[str, int]) -> End:
    """Judge a thread: its parts in order, each a kind and a call id, and the effects by their call.

    >>> end_of([["call", "1"], ["result", "1"], ["answer", ""]], {"0 0": 2, "0 1": 1, "0 2": 1})
    End(is_answered=True, is_valid=True, repeated=1, lost=0)
    """
    called = Counter(call for kind, call in messages if kind == "call")
    results = Counter(call for kind, call in messages if kind == "result")
    is_answered = bool(messages) and messages[-1][0] == "answer"
    return End(
        is_answered,
        is_answered and called == results and set(called.values()) <= {1},
        sum(number - 1 for number in effects.values()),
        CALLS - len(effects),
    )


def _process(scene: Scene, name: str, folder: str, stop: int | None) -> subprocess.Popen[str]:
    """A process that runs until the effect with this number; or without one, resumes on a line."""
    command = [sys.executable, "-m", "benchmarks.peer_kills", name, folder]
    command += [str(stop or 0), str(scene.turns), str(scene.calls), str(int(scene.recorded))]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=Path(__file__).resolve().parent.parent,
    )


def _wait_for_effects(effects: Path, number: int, process: subprocess.Popen[str]) -> None:
    begun = time.monotonic()
    while not effects.exists() or effects.read_text().count("\n") < number:
        if process.poll() is not None or time.monotonic() > begun + _PATIENCE:
            raise RuntimeError(f"A process that was to be killed had no {number} effects.")
        time.sleep(0.005)


# In the processes


def main(name: str, folder: str, stop: str, turns: str, calls: str, recorded: str) -> None:
    """Run the agent of a library, or resume it, and print the parts of its thread."""
    effects, threads = Path(folder, "effects"), str(Path(folder, "threads.db"))
    script, last = FreeModel(turns=int(turns), calls=int(calls)), int(stop)

    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        number = 1 + a + b
        if last and number > last:
            await asyncio.Event().wait()
        with effects.open("a") as file:
            file.write(f"{a} {b}\n")
            file.flush()
            os.fsync(file.fileno())
        if number == last:
            await asyncio.Event().wait()
        return a + b

    is_new = last > 0
    if not is_new:
        sys.stdin.readline()
    if name in (OURS, PEER, BY_HAND):
        log = str(Path(folder, "effects.db")) if int(recorded) else None
        parts = asyncio.run(_graph(name, script, add, threads, is_new, log))
    elif name == PLUGIN:
        worker: Any = import_module("benchmarks.temporal_agent")
        question = QUESTION[1] if is_new else None
        messages = asyncio.run(worker.run(script, add, folder, question))
        parts = [part for message in messages for part in _parts(message)]
    else:
        (library,) = (each for each in libraries() if each.name == name)
        assert find_spec(MODULES[name])
        create: Any = library.create_agent
        agent = create(script, [add], checkpointer=create.store(threads))
        parts = asyncio.run(_RESUMED[name](agent, is_new))
    print(json.dumps(parts))


async def _graph(
    name: str, script: Any, tool: Any, threads: str, is_new: bool, log: str | None
) -> list[list[str]]:
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    from agent_factory.middleware import OnceMiddleware, SqliteEffects

    factory = {OURS: ours, PEER: peer, BY_HAND: by_hand}[name]()
    members = [OnceMiddleware({"add": "ask"}, store=SqliteEffects(log))] if log else []
    async with AsyncSqliteSaver.from_conn_string(threads) as saver:
        agent = factory.create_agent(script, [tool], middleware=members, checkpointer=saver)
        is_begun = not is_new and (await agent.aget_state(CONFIG)).tasks
        asked = None if is_begun else {"messages": [QUESTION]}
        await agent.ainvoke(asked, CONFIG, durability="sync")
        if log:
            await _look_and_answer(agent, Path(threads).with_name("effects"))
        messages = (await agent.aget_state(CONFIG)).values["messages"]
    return [part for message in messages for part in _parts(message)]


async def _look_and_answer(agent: Any, effects: Path) -> None:
    """What a person does whom OnceMiddleware asks: look whether it was done."""
    while calls := (await review.apending(agent, CONFIG)).calls:
        call = calls[0]
        if f"{call.args['a']} {call.args['b']}" in effects.read_text().splitlines():
            await review.arespond(agent, CONFIG, "It is done.", call_id=call.id, durability="sync")
        else:
            await review.aapprove(agent, CONFIG, call.id, durability="sync")


def _parts(message: Any) -> list[list[str]]:
    if isinstance(message, ToolMessage):
        return [["result", message.tool_call_id]]
    if isinstance(message, AIMessage):
        return [["call", str(call["id"])] for call in message.tool_calls] or [["answer", ""]]
    return [["question", ""]]


async def _openai_agents(agent: Any, is_new: bool) -> list[list[str]]:
    # Its documentation has no other way for a run that died than to ask again in the session.
    await agent.ainvoke({"messages": [QUESTION]})
    kinds = {"function_call": "call", "function_call_output": "result"}
    parts = [
        [kinds[item["type"]], item["call_id"]]
        if item.get("type") in kinds
        else ["answer" if item.get("role") == "assistant" else "question", ""]
        for item in await agent.items()
    ]
    return parts


async def _agno(agent: Any, is_new: bool) -> list[list[str]]:
    run = "run"
    if is_new:
        await agent.ainvoke({"messages": [QUESTION]}, run_id=run)
    else:
        try:
            await agent.continued(run)
        except Exception:
            # It died before its first batch of calls had ended, so the store has no such run.
            await agent.ainvoke({"messages": [QUESTION]}, run_id=run)
    parts: list[list[str]] = []
    for message in await agent.messages():
        if message.role == "tool":
            parts.append(["result", message.tool_call_id])
        elif message.role == "assistant":
            calls = [["call", call["id"]] for call in message.tool_calls or []]
            parts += calls or [["answer", ""]]
    return parts


_RESUMED = {"openai-agents": _openai_agents, "agno": _agno}


if __name__ == "__main__":
    main(*sys.argv[1:])
