"""Ways to run an agent with the features of a crossing."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.types import Command
from sqlalchemy import select
from starlette.testclient import TestClient

from agent_factory import AgentMiddleware, agent_tool, create_agent, topology_of
from agent_factory.errors import PathNotSupported, SpecError
from agent_factory.middleware import BackgroundMiddleware
from agent_factory.serve import create_app
from agent_factory.serve.ag_ui.messages import is_empty
from agent_factory.service import Service
from agent_factory.service.tables import background_jobs, threads
from agent_factory.testing import ScriptedChatModel
from crossings.features import FEATURES, PROTOCOLS, STREAMS, Feature, saver_of
from crossings.oracle import Fault, Limits, Record, Streamed, completed, kept, same, valid, word
from crossings.world import Turn, World
from service.stored import tables_of
from waiting import until

MODES = ("sync", "async")
RAISES = {"once", "tool_error", "tool_retry"}
"""Features that are about what tools raise."""


@dataclass(frozen=True)
class Crossing:
    """Features, the outermost first, and a way to run them.

    Args:
        features: Names of rows of the table.
        way: The name of a way.
        turns: What the model does.
        talk: The kinds of the user's messages.
        saver: The name of a saver, if the way takes any.
    """

    features: tuple[str, ...]
    way: str = "invoke"
    turns: tuple[Turn, ...] = ()
    talk: tuple[str, ...] = ("plain",)
    saver: str = "memory"


class Refused(Exception):
    """The library refuses a crossing when it is built, or in this mode."""


@dataclass
class Scene:
    """One run of a crossing, sync or async."""

    crossing: Crossing
    mode: str
    table: Mapping[str, Feature]
    engine: str = "embedded"
    saver: Any = None
    record: Record = field(init=False)
    world: World = field(init=False)

    def __post_init__(self) -> None:
        self.rows = [self.table[name] for name in self.crossing.features]
        late = {name for row in self.rows for name in row.late}
        late |= {"fetch", "refund", "fail"} if self.crossing.way == "background" else set()
        changes = {change for row in self.rows for change in row.changes}
        if any(isinstance(promise, Limits) for row in self.rows for promise in row.promises):
            changes.add("late results")  # the next run reads what comes after a limit
        self.record = Record(frozenset(changes))
        self.world = World(self.record, self.crossing.turns, sorted(late))
        self.keys: dict[str, Any] = {"thread_id": "1"}
        if "client_tools" in self.crossing.features:
            self.keys |= {"client_tools": [{"name": "page", "description": "Its title."}]}
        self.config: Any = {"configurable": self.keys, "recursion_limit": 200}

    def agent(self, **options: Any) -> Any:
        """The agent with the features."""
        wraps = next((row.wraps for row in self.rows if row.wraps), lambda kind: kind)
        members = [row.make(self.world, wraps) for row in self.rows if row.kind]
        if not members and any(row.wraps for row in self.rows):
            members = [wraps(AgentMiddleware)()]
        if self.world.late and not any(isinstance(m, BackgroundMiddleware) for m in members):
            members.insert(0, BackgroundMiddleware())
        with warnings.catch_warnings(record=True, action="always") as caught:
            try:
                agent = create_agent(
                    self.world.model(),
                    self.world.tools(any(row.inside for row in self.rows)),
                    middleware=members,
                    handle_tool_errors=not RAISES.intersection(self.crossing.features),
                    checkpointer=self.saver,
                    ignore=["AF211", "AF212", "AF219"],
                    **options,
                )
            except SpecError as error:
                raise Refused(str(error)) from error
        self.record.warnings = tuple(str(warning.message) for warning in caught)
        self.record.plan = topology_of(agent)
        return agent

    async def do(self, agent: Any, name: str, *args: Any, **options: Any) -> Any:
        """Call a method of an agent, or its async variant; a stream is a list."""
        if self.mode == "sync":
            result = getattr(agent, name)(*args, **options)
            return list(result) if isinstance(result, Iterator) else result
        result = getattr(agent, f"a{name}")(*args, **options)
        return [c async for c in result] if hasattr(result, "__aiter__") else await result

    def message(self, number: int) -> HumanMessage:
        """The next message of the user."""
        text = word(dict(enumerate(self.crossing.talk)).get(number, "plain"), 2000 + number)
        self.record.write("sent", text=text)
        return HumanMessage(text, id=f"message-{number}")

    async def converse(self, agent: Any, **options: Any) -> None:
        """Send all messages."""
        for number in range(len(self.crossing.talk)):
            await self.finish(agent, {"messages": [self.message(number)]}, **options)

    async def finish(
        self,
        agent: Any,
        value: Any,
        run: Callable[[Any], Awaitable[Any]] | None = None,
        config: Any = None,
        answers: bool = True,
    ) -> None:
        """Run until nothing waits for an answer."""
        self.record.loose = True
        for _ in range(20):
            call = run(value) if run else self.do(agent, "invoke", value, config or self.config)
            try:
                await call
            except PathNotSupported as error:
                raise Refused(str(error)) from error
            except Exception as error:
                self.record.write("failed", type(error).__name__, str(error))
            state = await self.do(agent, "get_state", self.config)
            self.record.kept = state.values.get("messages", [])
            self.record.loose, config, value = bool(state.next), None, None
            if not state.next or self.record.events[-1].kind == "failed":
                return
            if state.interrupts:
                if not answers:
                    return
                value = Command(resume={i.id: self.world.answer(i.value) for i in state.interrupts})
        raise AssertionError("the run does not end")


# Ways


async def invoked(scene: Scene, **options: Any) -> None:
    """In this process, maybe with a pause before each turn of tools."""
    await scene.converse(scene.agent(**options))


async def restarted(scene: Scene) -> None:
    """Another agent goes on after each pause, as in another process."""
    await scene.converse(
        scene.agent(), run=lambda value: scene.do(scene.agent(), "invoke", value, scene.config)
    )


async def interrupted(scene: Scene) -> None:
    """A new message comes in place of an answer."""
    await scene.converse(scene.agent(), answers=False)


async def inside(scene: Scene) -> None:
    """The agent is a tool of another one, which hides its thread."""

    def boss(messages: list[Any]) -> Any:
        if messages[-1].type != "human":
            return "Done."
        request = messages[-1].text
        return [{"name": "desk", "args": {"request": request}, "id": f"ask {request}"}]

    desk = agent_tool(scene.agent(), name="desk", description="Helps.")
    outer = create_agent(
        ScriptedChatModel([boss] * 50), [desk], checkpointer=scene.saver, ignore=["AF219"]
    )
    scene.record.separate = True
    await scene.converse(outer)
    scene.record.kept = None


async def forked(scene: Scene, replays: bool) -> None:
    """After the first message, go on from an early checkpoint: again, or with another message."""
    agent = scene.agent()
    await scene.finish(agent, {"messages": [scene.message(0)]})
    states = await scene.do(agent, "get_state_history", scene.config)
    state = states[len(states) // 2]
    scene.record.fork(state.values.get("messages", []))
    value = None if replays else {"messages": [scene.message(1)]}
    config = {**scene.config, "configurable": scene.keys | state.config["configurable"]}
    await scene.finish(agent, value, config=config)


async def streamed(scene: Scene, mode: str) -> None:
    """By `stream`, in a mode."""
    agent, streams = scene.agent(), scene.record.streams

    async def messages() -> list[Any]:
        state = await scene.do(agent, "get_state", scene.config)
        return list(state.values.get("messages", []))

    async def run(value: Any) -> None:
        place = len(scene.record.events)
        if isinstance(value, dict):  # and no answer to a question
            last = Streamed(mode, scene.record.changes, await messages(), value["messages"])
        else:
            last = streams.pop()
        chunks = await scene.do(agent, "stream", value, scene.config, stream_mode=mode)
        starts = [e for e in scene.record.events[place:] if (e.kind, e.by) == ("started", "fetch")]
        fetched = [*last.fetched, *(e.number for e in starts if not e.late)]
        chunks = [*last.chunks, *chunks]
        streams.append(last._replace(after=await messages(), chunks=chunks, fetched=fetched))

    await scene.converse(agent, run=run)


async def served(scene: Scene, protocol: str = "") -> None:
    """In a service on SQLite, by Python or by a protocol."""
    with ExitStack() as stack:
        root = os.environ.get("PYTEST_DEBUG_TEMPROOT")
        folder = stack.enter_context(TemporaryDirectory(dir=root, ignore_cleanup_errors=True))
        url = f"sqlite:///{folder}/desk.db"
        service = stack.enter_context(closing(Service(url, engine=scene.engine)))
        try:
            service.add("desk", scene.agent(), asynchronous=scene.mode == "async")
        except SpecError as error:
            raise Refused(str(error)) from error
        service.start()
        client = TestClient(create_app(service), "http://127.0.0.1", client=("127.0.0.1", 5000))
        for number in range(len(scene.crossing.talk)):
            message = scene.message(number)
            if protocol:
                answer = PROTOCOLS[protocol](client, "1", str(message.id), message.text)
                if service.threads.get("1").status == "idle" and not scene.world.late:
                    stored = service.threads.state("1").values["messages"]
                    # Snapshots of AG-UI leave empty answers out.
                    shown = [m for m in stored if protocol != "ag_ui" or not is_empty(m)]
                    scene.record.answers.append((answer or "", shown[-1].text))
            else:
                keys: Any = {k: v for k, v in scene.keys.items() if k != "thread_id"}
                config: Any = {"configurable": keys}
                service.submit("desk", thread="1", message=message, config=config)
            settle(scene, service)


def settle(scene: Scene, service: Service) -> None:
    """Answer all questions, and wait until no run and no background work is under way."""
    world, record = scene.world, scene.record
    # In one statement: a job that ends takes its row away, and its message begins a run.
    query = select(threads.c.status, select(background_jobs.c.id).exists())

    def end() -> Any:
        ((status, has_jobs),) = tables_of(service).rows(query)
        for wait in service.inbox().waits(thread="1") if status == "waiting" else ():
            if "approve" in wait.allowed:
                service.decide(wait.id, world.decision(wait.args), by="ann")
            else:
                service.decide(wait.id, "respond", by="ann", message=world.client_result(wait.args))
        return status if status in ("idle", "failed") and not has_jobs else None

    record.loose = until(end) == "failed"
    record.kept = service.threads.state("1").values.get("messages", [])
    if record.loose:  # else, what is missing is a fault of the thread
        error = str(service.threads.runs("1", limit=1)[0].info.error)
        record.write("failed", error.partition(":")[0], error)


WAYS: dict[str, Callable[[Scene], Coroutine[Any, Any, None]]] = {
    "background": invoked,
    "fork": partial(forked, replays=False),
    "inside": inside,
    "invoke": invoked,
    "new message": interrupted,
    "pause": partial(invoked, interrupt_before=["tools"]),
    "replay": partial(forked, replays=True),
    "restart": restarted,
    **{f"stream {mode}": partial(streamed, mode=mode) for mode in STREAMS},
}
"""Ways in this process."""

SERVED: dict[str, Callable[[Scene], Coroutine[Any, Any, None]]] = {
    "service": served,
    **{f"service by {name}": partial(served, protocol=name) for name in PROTOCOLS},
}
"""Ways in a service."""


def run(
    crossing: Crossing,
    mode: str,
    table: Mapping[str, Feature] = FEATURES,
    engine: str = "embedded",
) -> Record:
    """Run a crossing in one mode; a service has an engine."""
    scene, way = Scene(crossing, mode, table, engine), {**WAYS, **SERVED}[crossing.way]

    async def stage() -> None:
        context = saver_of("" if crossing.way in SERVED else crossing.saver, mode)
        if mode == "sync":
            with context as scene.saver:
                return await way(scene)
        async with context as scene.saver:
            await way(scene)

    try:
        if mode == "async":
            asyncio.run(stage())
        else:  # a coroutine that waits for nothing
            stage().send(None)
    except StopIteration:
        pass
    except Refused as error:
        scene.record.refused = str(error)
    return scene.record


def faults_of(
    crossing: Crossing, record: Record, table: Mapping[str, Feature] = FEATURES
) -> list[Fault]:
    """The promises that one run of a crossing breaks."""
    if record.refused:
        return []
    found = [*valid(record), *kept(record), *completed(record)]
    for stream in record.streams:
        found += [Fault("streamed", stream.mode, text) for text in STREAMS[stream.mode](stream)]
    found += [Fault("streamed", "answer", f"{a!r} of {b!r}") for a, b in record.answers if a != b]
    if not any("[AF204]" in text for text in record.warnings):  # the build asks for another order
        promises = [p for name in crossing.features for p in table[name].promises]
        found += [fault for promise in promises for fault in promise.faults(record)]
    return found


def faults(crossing: Crossing, table: Mapping[str, Feature] = FEATURES) -> list[Fault]:
    """The promises that a crossing breaks in a sync and an async run."""
    one, other = (run(crossing, mode, table) for mode in MODES)
    found = [*faults_of(crossing, one, table), *faults_of(crossing, other, table)]
    return [*dict.fromkeys([*found, *same(one, other)])]
