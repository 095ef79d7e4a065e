"""An agent that is killed: `python -m kills.worker ATTEMPT` takes a thread up where it lies.

It says "ready" when it is at work. The journal of the thread tells the rest.
"""

from __future__ import annotations

import asyncio
import json
import operator
import os
import random
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

import aiosqlite
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command, StateSnapshot, interrupt

from agent_factory import AgentMiddleware, AgentState, ToolRuntime, create_agent
from agent_factory.testing import ScriptedChatModel, assert_valid_history

USER = [HumanMessage("Pay the bills", id="user-1"), HumanMessage("Pay again", id="user-2")]
TURN: list[list[tuple[str, int]]] = [[("pay", 1), ("note", 2)], [("pay", 3)], []]
"""What the model calls for in a turn: two calls at once, one, and then it says a word."""

Transition = Literal["steps", "fused", "turn"]
QUICK = "PRAGMA synchronous=OFF"
"""What a process has written is safe from its death. From a power cut it is not: not tried here."""

FUSED: dict[str, Any] = {"steps": False, "fused": True, "turn": "turn"}


@dataclass(frozen=True)
class Attempt:
    """What a process is to do, and when it is killed.

    Its thread, its journal and the effects of its tools lie in the folder. It kills itself at a
    point, counted from 1.
    """

    folder: str
    path: Transition = "steps"
    mode: Literal["sync", "async"] = "sync"
    checkpoints: Literal["full", "delta"] = "full"
    durability: Literal["sync", "async", "exit"] = "sync"
    at: int | None = None


class World:
    """What outlives a process, and the points at which it may die."""

    def __init__(self, attempt: Attempt) -> None:
        self._folder = Path(attempt.folder)
        self._at = attempt.at
        self._chance = random.Random(os.getpid())
        self.points = 0

    def tell(self, kind: str, **what: Any) -> None:
        """Add a line to the journal. A process that is killed loses nothing it has written."""
        line = "\n" + json.dumps({"kind": kind, **what})  # a line cut short spoils no other
        file = os.open(self._folder / "journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, line.encode())
        os.close(file)

    def do_once(self, key: str) -> bool:
        """Have an effect; False if another process, or this one, had it before."""
        try:
            os.close(os.open(self._folder / f"effect-{key}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def pause(self) -> None:
        """A point at which the process may be killed, by itself or from outside."""
        self.point()
        time.sleep(self._chance.random() / 1000)  # waits: work, in which it may be killed

    def point(self, *_: Any) -> None:
        """A point at which it may kill itself."""
        self.points += 1
        if self.points == self._at:
            os.kill(os.getpid(), signal.SIGKILL)


class Story(AgentState[Any]):
    """What hooks and tools write besides messages."""

    log: NotRequired[Annotated[list[str], operator.add]]
    paid: NotRequired[Annotated[list[int | str], operator.add]]
    forgotten: NotRequired[Annotated[list[str], operator.add]]
    last: NotRequired[str]


class Hooks(AgentMiddleware[Any, Any]):
    """Writes in every hook; with `edits`, edits the history in later turns, and asks a person."""

    def __init__(self, who: str, world: World, edits: bool = False) -> None:
        super().__init__()
        self.name = who
        self._world, self._edits = world, edits

    def _write(self, hook: str, state: Any) -> dict[str, Any]:
        self._world.pause()
        said = f"{self.name}.{hook}@{where(state['messages'])}"
        return {"log": [said], "last": f"{said} after {state.get('last')}"}

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        """Once a turn."""
        update = self._write("before_agent", state)
        turns = [message for message in state["messages"] if isinstance(message, HumanMessage)]
        if not (self._edits and len(turns) > 1):
            return update
        words = last_words(state["messages"])
        edited = HumanMessage(f"{turns[0].text}, in short", id=turns[0].id)
        return {**update, "messages": [edited, RemoveMessage(id=words)], "forgotten": [words]}

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        """Once a call of the model."""
        return self._write("before_model", state)

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        """Once an answer of the model; it asks a person, twice in one turn."""
        update = self._write("after_model", state)
        if self._edits and where(state["messages"]) == "user-2/1":
            return {**update, "paid": [interrupt("May I pay?"), interrupt("Really?")]}
        return update

    def after_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        """Once a turn."""
        return self._write("after_agent", state)


def last_words(messages: Sequence[BaseMessage]) -> str:
    """The id of the last answer that called for nothing."""
    words = [m.id for m in messages if isinstance(m, AIMessage) and not m.tool_calls]
    return str(words[-1])


def where(messages: Sequence[BaseMessage]) -> str:
    """The user's last message, and how many answers follow it: a place in the conversation."""
    user = max(at for at, message in enumerate(messages) if isinstance(message, HumanMessage))
    answers = sum(isinstance(message, AIMessage) for message in messages[user:])
    return f"{messages[user].id}/{answers}"


def answered(messages: Sequence[BaseMessage]) -> Iterator[tuple[str, str]]:
    """Where each answer of the model was given, and its id."""
    for at, message in enumerate(messages):
        if isinstance(message, AIMessage):
            yield where(messages[:at]), str(message.id)


def model_in(world: World) -> ScriptedChatModel:
    """A model that answers as the conversation stands, each time with other ids, as models do."""

    def answer(messages: list[BaseMessage]) -> AIMessage:
        world.pause()
        place, name = where(messages), os.urandom(6).hex()
        calls = TURN[int(place.partition("/")[2])]
        world.tell("ask", where=place, answer=name)
        world.pause()
        made: Any = [
            {"name": tool, "args": {"amount": amount}, "id": f"{name}-{at}"}
            for at, (tool, amount) in enumerate(calls)
        ]
        return AIMessage("" if calls else f"Done with {place}", id=name, tool_calls=made)

    return ScriptedChatModel([answer] * 50)


def tools_in(world: World) -> list[Callable[..., Any]]:
    """A tool that answers with a command, and one that answers in words."""

    def act(runtime: ToolRuntime) -> None:
        world.pause()
        key = str(runtime.tool_call_id)
        world.tell("tool", call=key, first=world.do_once(key))
        world.pause()

    def pay(amount: int, runtime: ToolRuntime) -> Command[Any]:
        """Pay a bill."""
        act(runtime)
        paid = ToolMessage(f"Paid {amount}", tool_call_id=str(runtime.tool_call_id))
        return Command(update={"messages": [paid], "paid": [amount]})

    def note(amount: int, runtime: ToolRuntime) -> str:
        """Note a bill."""
        act(runtime)
        return f"Noted {amount}"

    return [pay, note]


def agent_of(attempt: Attempt, world: World, saver: Any) -> Any:
    """The agent that is killed."""
    return create_agent(
        model_in(world),
        tools_in(world),
        middleware=[Hooks("first", world), Hooks("editor", world, edits=True)],
        state_schema=Story,
        checkpointer=saver,
        checkpoints=attempt.checkpoints,
        fused=FUSED[attempt.path],
    )


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """A state without what differs from run to run."""
    messages = [(m.type, m.text, args_of(m)) for m in values["messages"]]
    return {**values, "messages": messages, "forgotten": len(values["forgotten"])}


def args_of(message: BaseMessage) -> list[Any]:
    """What tools are called with."""
    return [call["args"] for call in message.tool_calls] if isinstance(message, AIMessage) else []


@dataclass(frozen=True)
class Thread:
    """A thread as one process has it, sync or async."""

    state: Callable[[], StateSnapshot]
    run: Callable[[Any], Any]

    def carry_on(self) -> dict[str, Any]:
        """Let the agent answer all that the user has to say, wherever the thread stands."""
        for message in USER:
            self.settle()
            if message.id not in ids_in(self.state().values):
                self.run({"messages": [message]})
        self.settle()
        return self.state().values

    def settle(self) -> None:
        """Bring to its end what was begun."""
        while (state := self.state()).tasks:  # `next` lacks what is done and not checkpointed
            asked = [interrupt.value for interrupt in state.interrupts]
            self.run(Command(resume=f"{asked[0]} Yes.") if asked else None)

    def found(self) -> dict[str, Any]:
        """What of it is stored: where it goes on, and its messages, with those of done tasks."""
        state = self.state()
        messages = state.values.get("messages", [])
        return {
            "tasks": [task.name for task in state.tasks],
            "ids": [message.id for message in messages],
            "answers": dict(answered(messages)),
            "results": [m.tool_call_id for m in messages if isinstance(m, ToolMessage)],
        }


def ids_in(values: dict[str, Any]) -> list[str]:
    """The ids of the messages."""
    return [message.id for message in values.get("messages", [])]


@contextmanager
def opened(attempt: Attempt, world: World) -> Iterator[Thread]:
    """The thread, with a connection of this process."""
    config: Any = {"configurable": {"thread_id": "bills"}}
    options: Any = {"durability": attempt.durability}
    database = Path(attempt.folder) / "thread.db"
    if attempt.mode == "sync":
        with closing(sqlite3.connect(database, check_same_thread=False)) as connection:
            connection.set_trace_callback(world.point)
            connection.execute(QUICK)
            agent = agent_of(attempt, world, SqliteSaver(connection))
            yield Thread(
                lambda: agent.get_state(config),
                lambda given: agent.invoke(given, config, **options),
            )
        return
    with asyncio.Runner() as runner:
        wait: Callable[[Any], Any] = runner.run
        asaver = wait(connected(database, world))
        agent = agent_of(attempt, world, asaver)
        yield Thread(
            lambda: wait(agent.aget_state(config)),
            lambda given: wait(agent.ainvoke(given, config, **options)),
        )
        wait(asaver.conn.close())


async def connected(database: Path, world: World) -> AsyncSqliteSaver:
    """A saver for asynchronous runs."""
    connection = await aiosqlite.connect(database)
    await connection.set_trace_callback(world.point)
    await connection.execute(QUICK)
    return AsyncSqliteSaver(connection)


def live(attempt: Attempt) -> None:
    """The life of a process, unless it is killed."""
    world = World(attempt)
    with opened(attempt, world) as thread:
        world.tell("found", **thread.found())
        print("ready", flush=True)
        values = thread.carry_on()
        assert_valid_history(values["messages"])
        calls = [c["id"] for m in values["messages"] for c in getattr(m, "tool_calls", ())]
        ids = [*ids_in(values), *values["forgotten"]]
        world.tell("end", values=plain(values), calls=calls, ids=ids, points=world.points)


if __name__ == "__main__":
    live(Attempt(**json.loads(sys.argv[1])))
