"""Whatever reviewers, new versions, replays and forks do: only what was approved runs, and once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from pydantic import ValidationError
from stack_agents import agent_of

from agent_factory import ToolRuntime, after_model, wrap_tool_call
from agent_factory import middleware as m
from agent_factory.errors import MissingNode, ReviewError
from agent_factory.review import PendingCall, approvals, decide, pending, policy_table, revoke
from agent_factory.review.records import call_digest
from agent_factory.testing import ScriptedChatModel
from samples import THREAD

VERSIONS = 4
"""Versions of the agent: the second describes its tool otherwise, the others change its calls."""

ADDED = 10_000
"""What the third version adds to each amount, in a layer inside of the review, and the fourth in a
node after it."""

FREE, DENIED = 10, 90
"""Amounts below the first run without a question, those above the second never."""

MODES = ("batched", "per_call")


@dataclass
class World:
    """The versions of one agent, its thread, and what was approved and what ran."""

    mode: Any
    by_hand: bool = False  # whether reviewers answer with a Command of LangGraph

    def __post_init__(self) -> None:
        self.saver, self.store, self.effects = InMemorySaver(), InMemoryStore(), m.InMemoryEffects()
        self.version, self.numbers = 0, 0
        self.approved: set[tuple[str, str]] = set()
        self.standing: dict[str, set[str]] = {}
        self.ran: list[tuple[str, str]] = []
        self.tools = [self._tool(number) for number in range(VERSIONS)]
        self.agents = [self._agent(number) for number in range(VERSIONS)]
        self.seen: list[tuple[PendingCall, ...]] = [(), ()]  # by each of two reviewers
        self.amounts: list[int] = []

    def _tool(self, version: int) -> BaseTool:
        @tool(description="Pay." if version != 1 else "Pay at once.")
        def pay(euros: int, runtime: ToolRuntime) -> str:
            call = {"name": "pay", "args": {"euros": euros}}
            self.check(str(runtime.tool_call_id), euros, call_digest(call, self.tools[version]))
            return f"paid {euros}"

        found: BaseTool = pay
        return found

    def _agent(self, version: int) -> Any:
        policy = m.ToolPolicy(
            m.Rule("pay", "deny", when={"euros": {">": DENIED, "<": ADDED}}),
            m.Rule("pay", "allow", when={"euros": {"<": FREE}}),
            m.Rule("pay", "ask", remember=3600),
        )

        @wrap_tool_call
        def adds(request: Any) -> Any:
            args = {"euros": request.tool_call["args"]["euros"] + ADDED}
            return (yield replace(request, tool_call={**request.tool_call, "args": args}))

        @after_model
        def changes(state: Any, runtime: Any) -> Any:
            message = state["messages"][-1]
            calls = [
                {**call, "args": {"euros": call["args"]["euros"] % ADDED + ADDED}}
                for call in getattr(message, "tool_calls", ())
            ]
            return {"messages": [message.model_copy(update={"tool_calls": calls})]} if calls else {}

        return agent_of(
            ScriptedChatModel([self._answer] * 1000),
            *([changes] if version == 3 else []),
            m.HumanInTheLoopMiddleware(policy, interrupt_mode=self.mode),
            *([adds] if version == 2 else []),
            m.OnceMiddleware({"pay": "rerun"}, store=self.effects),
            tools=[self.tools[version]],
            checkpointer=self.saver,
            store=self.store,
        )

    def _answer(self, messages: list[BaseMessage]) -> Any:
        if not isinstance(messages[-1], HumanMessage):
            return "Done."
        self.numbers += len(self.amounts)
        return [
            {"name": "pay", "args": {"euros": euros}, "id": f"c{self.numbers - at}"}
            for at, euros in enumerate(self.amounts)
        ]

    @property
    def agent(self) -> Any:
        """The version that runs now."""
        return self.agents[self.version]

    def check(self, call_id: str, euros: int, digest: str) -> None:
        """What runs was approved, or needs no approval."""
        standing = {one.id for one in approvals(self.agent)}
        covered = any(digest in self.standing.get(id_, ()) for id_ in standing)
        assert euros < FREE or covered or (call_id, digest) in self.approved, (call_id, euros)
        assert not DENIED < euros < ADDED
        self.ran.append((call_id, digest))

    def run(self, act: Callable[[], Any]) -> None:
        """Do what may be refused: it is about what is over, or at a node of another version."""
        with suppress(ReviewError, ValidationError, MissingNode):
            act()


AMOUNTS = st.lists(st.sampled_from([5, 20, 21, 60, 95]), min_size=1, max_size=2)


def say(world: World, amounts: list[int]) -> None:
    if not pending(world.agent, THREAD):
        world.amounts = amounts
        world.agent.invoke({"messages": "Pay"}, THREAD)


def look(world: World, reviewer: int) -> None:
    world.seen[reviewer] = pending(world.agent, THREAD).calls


def judge(world: World, reviewer: int, which: int, kind: str, earlier: int, amount: int) -> None:
    """Decide about a call that the reviewer has seen, perhaps long ago."""
    if not (seen := world.seen[reviewer]):
        return
    call = seen[which % len(seen)]
    versions = [one for one in world.tools if call.call_digest == digest_of(call.args, one)]
    decision: dict[str, Any] = {"type": "approve", "digest": call.call_digest}
    approved = dict(call.args)
    if kind == "edit":
        approved = {"euros": amount}
        decision.update(type="edit", edited_action={"name": "pay", "args": approved})
    elif kind == "remember":
        decision["remember"] = {"seconds": 60, "when": {"euros": {"<=": approved["euros"]}}}
    elif kind != "approve":
        decision.update(type=kind, message="No.")
    # A Command answers all calls of an interrupt, here in the same way.
    about = [one for one in seen if world.by_hand and one.interrupt_id == call.interrupt_id]
    if kind in ("approve", "edit", "remember"):
        allowed = {digest_of(approved, one) for one in versions}
        world.approved |= {(one.id, digest) for one in [call, *about] for digest in allowed}
    before = {one.id for one in approvals(world.agent, active=False)}
    later = {digest_of({"euros": n}, one) for one in versions for n in range(approved["euros"] + 1)}

    def act() -> Any:
        if world.by_hand and call.interrupt_id:
            answer = {"decisions": [decision] * len(seen)} if call.batched else decision
            return world.agent.invoke(Command(resume={call.interrupt_id: answer}), THREAD)
        place = THREAD
        if earlier:
            states = list(world.agent.get_state_history(THREAD))
            place = states[min(earlier, len(states) - 1)].config
        return decide(world.agent, place, {call.digest: decision})

    if kind == "remember":
        # Its id is known when it is stored; calls that follow at once may already need it.
        world.standing = Always(world.standing, later, before)
    world.run(act)
    if kind == "remember":
        known = {one.id for one in approvals(world.agent, active=False)} - before
        world.standing = {**world.standing, **dict.fromkeys(known, later)}


class Always(dict[str, set[str]]):
    """Standing approvals, and one that is about to be stored."""

    def __init__(self, known: dict[str, set[str]], later: set[str], before: set[str]) -> None:
        super().__init__(known)
        self._later, self._before = later, before

    def get(self, key: str, default: Any = None) -> Any:
        return super().get(key, default if key in self._before else self._later)


def digest_of(args: Any, of: BaseTool) -> str:
    return call_digest({"name": "pay", "args": dict(args)}, of)


def deploy(world: World, version: int) -> None:
    world.version = version


def end(world: World, which: int) -> None:
    if active := approvals(world.agent):
        revoke(world.agent, active[which % len(active)].id, by="ann")


def replay(world: World, which: int) -> None:
    """Run again from an earlier checkpoint, or go on from the newest."""
    states = list(world.agent.get_state_history(THREAD))
    if states:
        world.run(lambda: world.agent.invoke(None, states[min(which, len(states) - 1)].config))


def go_on(world: World) -> None:
    if list(world.agent.get_state_history(THREAD, limit=1)):
        world.run(lambda: world.agent.invoke(None, THREAD))


WHO = st.integers(0, 1)
KINDS = st.sampled_from(["approve", "approve", "edit", "reject", "respond", "remember"])
STEPS = st.one_of(
    st.tuples(st.just(say), AMOUNTS),
    st.tuples(st.just(look), WHO),
    st.tuples(
        st.just(judge),
        WHO,
        WHO,
        KINDS,
        st.sampled_from([0, 0, 0, 1, 3]),
        st.sampled_from([4, 30, 95]),
    ),
    st.tuples(st.just(deploy), st.integers(0, VERSIONS - 1)),
    st.tuples(st.just(end), st.integers(0, 2)),
    st.tuples(st.just(replay), st.integers(0, 8)),
    st.tuples(st.just(go_on)),
)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")
@example(  # two versions call different graphs in one task
    "batched",
    False,
    [20],
    [(deploy, 2), (judge, 0, 0, "approve", 0, 4), (deploy, 1), (go_on,), (deploy, 2), (go_on,)],
)
@settings(settings.get_profile("costly"))
@given(st.sampled_from(MODES), st.booleans(), AMOUNTS, st.lists(STEPS, min_size=4, max_size=16))
def test_only_what_was_approved_runs_and_once(
    mode: str, by_hand: bool, amounts: list[int], steps: list[Any]
) -> None:
    world = World(mode, by_hand)
    assert all(row.is_covered for row in policy_table(world.agent))
    for step, *arguments in [(say, amounts), (look, 0), *steps]:
        step(world, *arguments)
    twice = [call for call, times in Counter(world.ran).items() if times > 1]
    assert twice == []
