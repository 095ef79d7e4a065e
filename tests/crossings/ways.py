"""Ways to run an agent with the features of a crossing."""

from __future__ import annotations

import asyncio
import os
import time
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.types import Command
from starlette.testclient import TestClient

from agent_factory import AgentFactoryWarning, agent_tool, create_agent, topology_of
from agent_factory.errors import PathNotSupported, SpecError
from agent_factory.middleware import BackgroundMiddleware
from agent_factory.serve import create_app
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel
from crossings.features import FEATURES, PROTOCOLS, STREAMS, Feature, saver_of
from crossings.oracle import Fault, Record, Streamed, completed, kept, same, valid, word
from crossings.world import Turn, World

MODES = ("sync", "async")
_LOOKS = 500
ALL_TOOLS = ("fetch", "refund", "fail")


@dataclass(frozen=True)
class Crossing:
    """Features and a way to run them.

    Args:
        features: Their names, the outermost first.
        way: The name of the way.
        turns: What the model does.
        talk: The kinds of the user's messages.
        saver: The name of the saver, if the way takes any.
    """

    features: tuple[str, ...]
    way: str = "invoke"
    turns: tuple[Turn, ...] = ()
    talk: tuple[str, ...] = ("plain", "plain")
    saver: str = "memory"


class Refused(Exception):
    """The library refuses the crossing when it is built, or in this mode."""


@dataclass
class Scene:
    """One run of a crossing, sync or async."""

    crossing: Crossing
    mode: str
    table: Mapping[str, Feature]
    record: Record = field(init=False)
    world: World = field(init=False)
    saver: Any = None

    def __post_init__(self) -> None:
        rows = [self.table[name] for name in self.crossing.features]
        late = {name for row in rows for name in row.late}
        late |= {*ALL_TOOLS} if self.crossing.way == "background" else set()
        self.world = World(self.crossing.turns, sorted(late))
        changes = frozenset(change for row in rows for change in row.changes)
        self.record = Record(self.world.journal, changes=changes)

    @property
    def config(self) -> Any:
        configurable = {"thread_id": "1"}
        if "client_tools" in self.crossing.features:
            configurable |= {"client_tools": [{"name": "page", "description": "Its title."}]}
        return {"configurable": configurable, "recursion_limit": 200}

    def agent(self, **options: Any) -> Any:
        """The agent with the features."""
        names = self.crossing.features
        rows = [self.table[name] for name in names]
        wraps = next((row.wraps for row in rows if row.wraps), lambda kind: kind)
        members = [row.make(self.world, wraps) for row in rows if row.kind]
        is_late = any(isinstance(member, BackgroundMiddleware) for member in members)
        if self.world.late and not is_late:
            members.insert(0, BackgroundMiddleware())
        inside = any(row.inside for row in rows)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                agent = create_agent(
                    self.world.model(),
                    self.world.tools(inside),
                    middleware=members,
                    handle_tool_errors=not {"once", "tool_error", "tool_retry"}.intersection(names),
                    checkpointer=self.saver,
                    ignore=["AF211", "AF212", "AF219"],
                    **options,
                )
            except SpecError as error:
                raise Refused(str(error)) from error
        found = [str(w.message) for w in caught if issubclass(w.category, AgentFactoryWarning)]
        self.record.warnings = tuple(found)
        self.record.plan = topology_of(agent)
        return agent

    # Sync and async

    async def invoke(self, agent: Any, value: Any, config: Any) -> Any:
        if self.mode == "async":
            return await agent.ainvoke(value, config)
        return agent.invoke(value, config)

    async def stream(self, agent: Any, value: Any, config: Any, mode: str) -> list[Any]:
        if self.mode == "async":
            return [c async for c in agent.astream(value, config, stream_mode=mode)]
        return list(agent.stream(value, config, stream_mode=mode))

    async def state(self, agent: Any, config: Any) -> Any:
        return await agent.aget_state(config) if self.mode == "async" else agent.get_state(config)

    async def history(self, agent: Any, config: Any) -> list[Any]:
        if self.mode == "async":
            return [state async for state in agent.aget_state_history(config)]
        return list(agent.get_state_history(config))

    # Conversations

    def message(self, kind: str, number: int) -> HumanMessage:
        """A new message of the user."""
        self.world.journal.write("sent", text=word(kind, number), number=number)
        return HumanMessage(word(kind, number), id=f"message-{number}")

    async def converse(
        self, agent: Any, run: Callable[[Any], Awaitable[Any]] | None = None, **options: Any
    ) -> None:
        """Send all messages."""
        for number, kind in enumerate(self.crossing.talk, 2000):
            value = {"messages": [self.message(kind, number)]}
            await self.finish(agent, value, run, **options)
        await self.keep(agent)

    async def finish(
        self,
        agent: Any,
        value: Any,
        run: Callable[[Any], Awaitable[Any]] | None = None,
        config: Any = None,
        answers: bool = True,
    ) -> None:
        """Run until nothing waits for an answer."""
        self.record.loose = False
        for _ in range(20):
            try:
                await (run or partial(self.invoke, agent, config=config or self.config))(value)
            except PathNotSupported as error:
                raise Refused(str(error)) from error
            except Exception as error:
                self.world.journal.write("failed", type(error).__name__, str(error))
                self.record.loose = True
                return
            config = None
            state = await self.state(agent, self.config)
            if state.interrupts:
                if not answers:
                    return
                questions = {i.id: self.world.answer(i.value) for i in state.interrupts}
                value = Command(resume=questions)
            elif state.next:
                value = None
            else:
                return
        raise AssertionError("the run does not end")

    async def keep(self, agent: Any) -> None:
        state = await self.state(agent, self.config)
        self.record.kept = state.values.get("messages", [])
        self.record.loose |= bool(state.next)


# Ways


async def invoked(scene: Scene) -> None:
    await scene.converse(scene.agent())


async def paused(scene: Scene) -> None:
    """Each turn waits before its tools."""
    await scene.converse(scene.agent(interrupt_before=["tools"]))


async def restarted(scene: Scene) -> None:
    """Another agent goes on after each pause, as in another process."""
    await scene.converse(scene.agent(), lambda v: scene.invoke(scene.agent(), v, scene.config))


async def interrupted(scene: Scene) -> None:
    """A new message comes in place of an answer."""
    await scene.converse(scene.agent(), answers=False)


async def inside(scene: Scene) -> None:
    """The agent is a tool of another one."""
    desk = agent_tool(scene.agent(), name="desk", description="Helps.")

    def boss(messages: list[Any]) -> Any:
        request = messages[-1].text
        if messages[-1].type != "human":
            return "Done."
        return [{"name": "desk", "args": {"request": request}, "id": f"ask {request}"}]

    outer = create_agent(
        ScriptedChatModel([boss] * 50), [desk], checkpointer=scene.saver, ignore=["AF219"]
    )
    scene.record.separate = True
    await scene.converse(outer)
    scene.record.kept = None


async def forked(scene: Scene) -> None:
    """The second message continues an early checkpoint."""
    agent = scene.agent()
    first, *talk = scene.crossing.talk
    await scene.finish(agent, {"messages": [scene.message(first, 2000)]})
    states = await scene.history(agent, scene.config)
    place = states[len(states) // 2].config
    config = {
        **scene.config,
        "configurable": {**scene.config["configurable"], **place["configurable"]},
    }
    scene.record.since = len(scene.record.events)
    message = scene.message((*talk, "plain")[0], 2001)
    await scene.finish(agent, {"messages": [message]}, config=config)
    await scene.keep(agent)


async def replayed(scene: Scene) -> None:
    """A run is made again from an early checkpoint."""
    agent = scene.agent()
    await scene.finish(agent, {"messages": [scene.message(scene.crossing.talk[0], 2000)]})
    states = await scene.history(agent, scene.config)
    place = states[len(states) // 2].config
    config = {
        **scene.config,
        "configurable": {**scene.config["configurable"], **place["configurable"]},
    }
    scene.world.journal.write("forked")
    scene.record.since = len(scene.record.events)
    await scene.finish(agent, None, config=config)
    await scene.keep(agent)


async def streamed(scene: Scene, mode: str) -> None:
    agent = scene.agent()

    async def messages() -> list[Any]:
        return list((await scene.state(agent, scene.config)).values.get("messages", []))

    async def run(value: Any) -> None:
        streams, place = scene.record.streams, len(scene.record.events)
        if isinstance(value, dict):  # and no answer to a question
            last = Streamed(mode, [], await messages(), value["messages"])
            streams.append(last._replace(changes=scene.record.changes))
        last = streams.pop()  # that of a run that fails is left out
        chunks = [*last.chunks, *await scene.stream(agent, value, scene.config, mode)]
        starts = [e for e in scene.record.events[place:] if (e.kind, e.by) == ("started", "fetch")]
        fetched = [*last.fetched, *(e.number for e in starts if not e.late)]
        streams.append(last._replace(chunks=chunks, after=await messages(), fetched=fetched))

    await scene.converse(agent, run)


async def served(scene: Scene, protocol: str = "") -> None:
    """A service on SQLite, in Python or by a protocol."""
    with ExitStack() as stack:
        root = os.environ.get("PYTEST_DEBUG_TEMPROOT")
        folder = stack.enter_context(TemporaryDirectory(dir=root, ignore_cleanup_errors=True))
        service = stack.enter_context(Service(f"sqlite:///{folder}/desk.db"))
        service.add(
            "desk",
            scene.agent(),
            asynchronous=scene.mode == "async",
            configurable=["client_tools"],
            waiting="interrupt",
        )
        scene.record.loose = False
        client = TestClient(create_app(service), "http://127.0.0.1", client=("127.0.0.1", 5000))
        for number, kind in enumerate(scene.crossing.talk, 2000):
            message = scene.message(kind, number)
            if protocol:
                answer = PROTOCOLS[protocol](client, "1", str(message.id), message.text)
                if service.threads.get("1").status == "idle" and not scene.world.late:
                    last = service.threads.state("1").values["messages"][-1].text
                    scene.record.answers.append((str(answer), last))
            else:
                config = {
                    "configurable": {
                        k: v for k, v in scene.config["configurable"].items() if k != "thread_id"
                    }
                }
                service.submit("desk", thread="1", message=message, config=config)
            settle(scene, service)
        scene.record.kept = service.threads.state("1").values["messages"]


def settle(scene: Scene, service: Service) -> None:
    """Answer all questions, and wait until no run and no background work is under way."""
    world = scene.world
    for _ in range(_LOOKS):
        status = service.threads.get("1").status
        for wait in service.inbox().waits(thread="1") if status == "waiting" else ():
            if "approve" in wait.allowed:
                decision = "approve" if world.approves(wait.args["number"]) else "reject"
                service.decide(wait.id, decision, by="ann")
            else:
                service.decide(wait.id, "respond", by="ann", message=world.client_result(wait.args))
        if status in ("idle", "failed"):
            scene.record.loose = status == "failed"
            thread = service.threads.state("1").values.get("messages", [])
            results = sum(message.name == "background" for message in thread)
            if results == sum(e.late for _, e in scene.record.of("started")):
                return
        time.sleep(0.02)  # waits: for a worker
    # What is missing then is a fault of the thread.


WAYS: dict[str, Callable[[Scene], Coroutine[Any, Any, None]]] = {
    "background": invoked,
    "fork": forked,
    "inside": inside,
    "invoke": invoked,
    "new message": interrupted,
    "pause": paused,
    "replay": replayed,
    "restart": restarted,
    **{f"stream {mode}": partial(streamed, mode=mode) for mode in STREAMS},
}
"""Ways in this process."""

SERVED: dict[str, Callable[[Scene], Coroutine[Any, Any, None]]] = {
    "service": served,
    **{f"service by {name}": partial(served, protocol=name) for name in PROTOCOLS},
}
"""Ways in a service."""


def run(crossing: Crossing, mode: str, table: Mapping[str, Feature] = FEATURES) -> Record:
    """Run a crossing in one mode."""
    scene = Scene(crossing, mode, table)
    way = {**WAYS, **SERVED}[crossing.way]
    try:
        if mode == "async":
            asyncio.run(_stage(scene, way))
        else:
            _finish(_stage(scene, way))
    except Refused as error:
        scene.record.refused = str(error)
    return scene.record


async def _stage(scene: Scene, way: Callable[[Scene], Awaitable[None]]) -> None:
    context = saver_of(scene.crossing.saver, scene.mode)
    if scene.mode == "async":
        async with context as scene.saver:
            await way(scene)
        return
    with context as scene.saver:
        await way(scene)


def _finish(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("a sync run waits")


def faults(crossing: Crossing, table: Mapping[str, Feature] = FEATURES) -> list[Fault]:
    """Run a crossing both ways, and return the broken promises."""
    records = [run(crossing, mode, table) for mode in MODES]
    return [
        *dict.fromkeys(
            [
                *faults_of(crossing, records[0], table),
                *faults_of(crossing, records[1], table),
                *same(*records),
            ]
        )
    ]


def faults_of(
    crossing: Crossing, record: Record, table: Mapping[str, Feature] = FEATURES
) -> list[Fault]:
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
