"""Each promise can be broken: features that do what none may do are found."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import HumanMessage, ToolMessage

from agent_factory import AgentMiddleware, plan_agent
from agent_factory.middleware import ModelCallLimitMiddleware
from crossings.features import Feature
from crossings.oracle import (
    INNER,
    OUTER,
    Checks,
    Decides,
    Fault,
    Limits,
    Once,
    Promise,
    Record,
    Redacts,
    word,
)
from crossings.ways import Crossing, faults
from crossings.world import Turn, World
from tables import each

Member = AgentMiddleware[Any, Any]


class Idle(Member):
    """Does nothing of what it promises."""

    def after_agent(self, state: Any, runtime: Any) -> None:
        """Look."""


class Forgetful(Member):
    """Loses the results of tools."""

    def around_tool(self, request: Any) -> Any:
        result = yield request
        return result.model_copy(update={"content": "Nothing."})


class Careless(Member):
    """Writes a result of a call that nobody made."""

    def after_agent(self, state: Any, runtime: Any) -> Any:
        return {"messages": [ToolMessage("So.", tool_call_id="nobody")]}


class Repeating(Member):
    """Runs each call twice."""

    def around_tool(self, request: Any) -> Any:
        yield request
        return (yield request)


class Rewriting(Member):
    """Writes another text in place of an answer that was streamed."""

    def after_model(self, state: Any, runtime: Any) -> Any:
        return {"messages": [state["messages"][-1].model_copy(update={"content": "So."})]}


class TwoFaced(Member):
    """Writes a message in async runs alone."""

    def before_agent(self, state: Any, runtime: Any) -> Any:
        return None

    async def abefore_agent(self, state: Any, runtime: Any) -> Any:
        return {"messages": [HumanMessage("async")]}


class Broken(Member):
    """Raises what no script asks for."""

    def before_model(self, state: Any, runtime: Any) -> Any:
        raise KeyError("broken")


class Deaf(Member):
    """Checks results, and lets the model read what it objects to."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._check = world.check("broken")

    def around_tool(self, request: Any) -> Any:
        result = yield request
        self._check(result)
        return result


@each(
    "promise, kind, promises, turns, way",
    [
        ("valid", Careless, (), (), "invoke"),
        ("kept", Forgetful, (), (("fetch",),), "invoke"),
        ("streamed", Rewriting, (), ("plain",), "stream messages"),
        ("same", TwoFaced, (), (), "invoke"),
        ("completed", Broken, (), (), "invoke"),
        ("decided", Idle, (Decides("refund"),), (("refund",),), "invoke"),
        ("decided", Idle, (Decides("refund", after="fetch"),), (("fetch",), ("refund",)), "invoke"),
        ("checked", Idle, (Checks("broken", ("result",)),), (("fetch",),), "invoke"),
        ("blocked", Deaf, (Checks("broken", ("result",)),), (("fetch poison",),), "invoke"),
        ("redacted", Idle, (Redacts(("result",)),), (("fetch mail",),), "invoke"),
        ("limited", Idle, (Limits(1),), (("fetch",),), "invoke"),
        ("limited", Idle, (Limits(1, "calls of fetch", thread=True),), (("fetch",),) * 2, "invoke"),
        ("once", Repeating, (Once("refund"),), (("refund",),), "invoke"),
    ],
)
def test_a_broken_feature_is_found(
    promise: str, kind: Any, promises: tuple[Promise, ...], turns: tuple[Turn, ...], way: str
) -> None:
    of = (lambda w: {"world": w}) if kind is Deaf else (lambda _: {})
    table = {"broken": Feature(kind, promises, of=of)}
    found = faults(Crossing(("broken",), way, turns), table)
    assert promise in {fault.promise for fault in found}, found


@each("before, read, found", [("", "plain-0", 0), ("", "mail-1", 1), ("mail-1", "plain-0", 1)])
def test_a_branch_counts_the_results_it_has_read(before: str, read: str, found: int) -> None:
    record = Record()
    record.write("gave", "fetch", "mail-1")
    record.write("read", OUTER, "plain-0 mail-1")
    record.write("forked", text=before)
    record.write("read", OUTER, read)
    record.write("started", "refund", number=2)
    assert len([*Decides("refund", after="fetch").faults(record)]) == found


@each("mode", ["checkpoints", "debug", "tasks", "updates", "values"])
def test_a_stream_that_shows_another_thread_is_found(mode: str) -> None:
    from crossings.features import STREAMS
    from crossings.oracle import Streamed

    sent = [HumanMessage("Hi", id="1")]
    shown = {"messages": [*sent, HumanMessage("other", id="2")]}
    chunk: dict[str, Any] = {
        "checkpoints": {"values": shown},
        "debug": {"type": "checkpoint", "payload": {"values": shown}},
        "tasks": {"result": shown},
        "updates": {"model": shown},
        "values": shown,
    }
    assert [*STREAMS[mode](Streamed(mode, frozenset(), [], sent, sent, [chunk[mode]]))]


def test_a_sentence_that_a_run_breaks_is_found() -> None:
    record = Record(plan=plan_agent(middleware=[ModelCallLimitMiddleware(run_limit=1)]))
    record.write("sent", text=word("plain", 1))
    for agent in (OUTER, INNER):
        record.write("read", agent)
    found = [*Limits(1).faults(record)]
    assert found == [Fault("proven", "model calls", "2, and 'at most 1 model calls' holds")]
