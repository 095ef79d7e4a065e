"""Threads of one agent that another one resumes: what the plans say is what happens."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from random_stacks import PHASES, Helper

from agent_factory import AgentMiddleware, create_agent, review, topology_of
from agent_factory.errors import MissingNode
from agent_factory.topology import Verdict
from samples import Killed

THREAD: Any = {"configurable": {"thread_id": "one"}, "recursion_limit": 60}
Stop = Literal["ask", "fail", "kill", "before", "after"]


@dataclass(frozen=True)
class Part:
    """A middleware: its name, its hooks, and whether it has a layer around tools."""

    name: str
    phases: frozenset[str]
    wraps: bool = False


@dataclass(frozen=True)
class Change:
    """The stack as it is after a deployment, and the former names that it declares."""

    parts: tuple[Part, ...]
    moved: Mapping[str, str]
    tools: tuple[str, ...]


class Clerk(Helper):
    """Calls `pay` for each question, and then answers."""

    trace: Any = None
    trouble: Any = None

    def _answer(self, messages: list[BaseMessage]) -> AIMessage:
        _meet("model", self.trace, self.trouble)
        return super()._answer(messages)


def _meet(place: str, trace: list[str], trouble: dict[str, Any]) -> None:
    """Note that a place is reached, and stop there if the trial says so."""
    kind = trouble.get(place)
    if kind == "ask":
        interrupt(f"{place}?")
    elif kind in ("fail", "kill"):
        del trouble[place]
        raise Killed if kind == "kill" else ValueError(place)
    trace.append(place)


def build(change: Change, trace: list[str], trouble: dict[str, Any], saver: Any, **how: Any) -> Any:
    def hook(node: str) -> Any:
        return lambda self, state, runtime: _meet(node, trace, trouble)

    def around_tool(self: Any, request: Any) -> Any:
        return (yield request)

    def tool(name: str) -> Any:
        def pay(query: str) -> str:
            """Pay."""
            _meet("tools", trace, trouble)
            return "paid"

        pay.__name__ = name
        return pay

    stack = []
    for part in change.parts:
        methods: dict[str, Any] = {
            phase: hook(f"{part.name}.{phase}") for phase in sorted(part.phases)
        }
        if part.wraps:
            methods["around_tool"] = around_tool
        kind: Any = type("Hooks", (AgentMiddleware,), methods)
        stack.append(kind(name=part.name))
    model = Clerk(calls="pay", trace=trace, trouble=trouble)
    tools = [tool(name) for name in change.tools]
    moved = change.moved or None
    return create_agent(
        model, tools, middleware=stack, checkpointer=saver, moved=moved, ignore=["AF212"], **how
    )


NAMES = ("A", "B", "C")
PARTS = st.lists(
    st.builds(
        Part,
        st.sampled_from(NAMES),
        st.frozensets(st.sampled_from(PHASES), min_size=1),
        st.booleans(),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda part: part.name,
).map(tuple)


@st.composite
def changes(draw: Any, parts: tuple[Part, ...]) -> Change:
    """A stack that some were renamed in, removed from, added to, or had other hooks before."""
    kept: list[Part] = []
    moved: dict[str, str] = {}
    for part in parts:
        fate = draw(st.sampled_from(["stays", "stays", "renamed", "moved", "removed", "other"]))
        if fate in ("renamed", "moved"):
            kept.append(replace(part, name=f"New{part.name}"))
        elif fate == "other":
            kept.append(replace(part, phases=draw(st.frozensets(st.sampled_from(PHASES)))))
        elif fate == "stays":
            kept.append(part)
        if fate == "moved":
            moved[part.name] = f"New{part.name}"
            if draw(st.booleans()):
                moved["Older"] = part.name
    if draw(st.booleans()):
        kept.append(
            Part("Added", draw(st.frozensets(st.sampled_from(PHASES))), draw(st.booleans()))
        )
    tools = draw(st.sampled_from([("pay",), ("pay",), ("pay",), ("refund",), ()]))
    return Change(tuple(draw(st.permutations(kept))), moved, tools)


@st.composite
def trials(draw: Any) -> Any:
    parts = draw(PARTS)
    nodes = [f"{part.name}.{phase}" for part in parts for phase in sorted(part.phases)]
    place = draw(st.sampled_from([*nodes, "model", "tools"]))
    kinds: list[Stop] = ["ask", "fail", "kill", "before", "after"]
    if place == "model":
        kinds.remove("ask")
    return parts, place, draw(st.sampled_from(kinds)), draw(changes(parts))


def call(agent: Any, input: Any, mode: str) -> Any:
    if mode == "async":
        return asyncio.run(agent.ainvoke(input, THREAD, durability="sync"))
    return agent.invoke(input, THREAD, durability="sync")


def resume(agent: Any, mode: str) -> None:
    """Resume a thread until it has ended; a hook that asks gets an answer each time."""
    for _ in range(20):
        waiting = [one for task in agent.get_state(THREAD).tasks for one in task.interrupts]
        call(agent, Command(resume={i.id: "yes" for i in waiting}) if waiting else None, mode)
        if not agent.get_state(THREAD).tasks:
            return
    raise AssertionError("The run does not end.")


FUSED = st.sampled_from([True, "turn", False])
CHECKPOINTS = st.sampled_from(["full", "delta"])
MODES = st.sampled_from(["sync", "sync", "async"])


@pytest.mark.long
@settings(settings.get_profile("costly"))
@given(trials(), FUSED, FUSED, CHECKPOINTS, MODES)
def test_what_plans_say_of_stored_threads_is_what_happens(
    trial: Any, fused: Any, fused_then: Any, checkpoints: Any, mode: str
) -> None:
    parts, place, stop, change = trial
    saver, trouble, trace = InMemorySaver(), {place: stop}, list[str]()
    pauses = {f"interrupt_{stop}": [place]} if stop in ("before", "after") else {}
    if stop == "kill":
        mode = "sync"
    options = {"checkpoints": checkpoints}
    agent = build(
        Change(parts, {}, ("pay",)), trace, trouble, saver, fused=fused, **options, **pauses
    )
    with suppress(ValueError, Killed):
        call(agent, {"messages": [("user", "Pay.")]}, mode)
    waiting = _waiting(agent)
    if not waiting:  # it paused after the last node
        return
    new_trace: list[str] = []
    new = build(change, new_trace, trouble, saver, fused=fused_then, **options)
    points = {p.name: p for p in topology_of(agent).stopping_points(topology_of(new))}
    verdicts = {points[node].verdict for node in waiting if node != "__start__"}
    found = list(review.stranded(new))
    assert [thread.thread_id for thread in found] == ["one"] * (Verdict.BREAKS in verdicts)
    event(f"{stop}: {', '.join(sorted(verdicts)) or 'start'}")
    if Verdict.BREAKS in verdicts:
        _check_raises(agent, new, saver, mode)
        return
    resume(new, mode)
    _check_ended(new, new_trace, points, waiting)


def _waiting(agent: Any) -> list[str]:
    """The nodes that a thread waits at, as its own agent tells them."""
    state = agent.get_state(THREAD)
    unfinished = [task.name for task in state.tasks if task.result is None]
    stored = agent.checkpointer.get_tuple(THREAD)
    # Of a step whose tasks have ended, LangGraph's state does not say what comes next.
    ended = [channel for _, channel, _ in stored.pending_writes if channel.startswith("branch:to:")]
    finished = [task.name for task in state.tasks if task.result is not None]
    return [*unfinished, *finished, *(channel.removeprefix("branch:to:") for channel in ended)]


def _check_raises(old: Any, new: Any, saver: Any, mode: str) -> None:
    before = saver.get_tuple(THREAD)
    waiting = [one for task in old.get_state(THREAD).tasks for one in task.interrupts]
    answer: Any = Command(resume={i.id: "yes" for i in waiting} or "yes")
    for input in (None, answer):
        with pytest.raises(MissingNode):
            call(new, input, mode)
    assert saver.get_tuple(THREAD) == before
    out = review.add_input(new, THREAD, "Hello?")
    asked = [m for m in out["messages"] if isinstance(m, AIMessage) and m.tool_calls]
    answered = [m.tool_call_id for m in out["messages"] if isinstance(m, ToolMessage)]
    if "tools" in topology_of(new).nodes:
        assert out["messages"][-1].type == "ai"
        assert answered == [call["id"] for message in asked for call in message.tool_calls]


def _check_ended(agent: Any, trace: list[str], points: Any, waiting: list[str]) -> None:
    messages = agent.get_state(THREAD).values["messages"]
    answers = {m.tool_call_id: m for m in messages if isinstance(m, ToolMessage)}
    plan = topology_of(agent)
    if "tools" not in plan.nodes:  # the call of the tool ends the run, as always in such an agent
        assert points["pay"].verdict is Verdict.BREAKS
        return
    assert messages[-1].type == "ai"
    assert not messages[-1].tool_calls
    (asked,) = [m for m in messages if isinstance(m, AIMessage) and m.tool_calls]
    assert list(answers) == [call["id"] for call in asked.tool_calls]
    paid = points["pay"].verdict is Verdict.STANDS
    (result,) = answers.values()
    assert (result.text == "paid") or not paid
    if len(waiting) > 1 or waiting[0] not in points:
        return
    point = points[waiting[0]]
    # From the place to the next call of the model, or to the end.
    start = int(point.now == "model")
    turn = trace[: trace.index("model", start) if "model" in trace[start:] else None]
    if point.now != "tools" or paid:
        assert turn[0] == point.now
    assert not set(point.skipped) & set(turn) - _loop_head(plan)
    assert set(trace) >= set(point.repeated)


def _loop_head(plan: Any) -> set[str]:
    """The hooks before the model, which run when the tools lead back to it."""
    nodes = list(plan.nodes)
    head = nodes[nodes.index(plan.loop_entry) : nodes.index("model") + 1]
    return {*head, *(hook.node for hook in plan.hooks if hook.phase == "after_agent")}
