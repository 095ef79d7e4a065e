"""Whatever happens in a service between a question and its answer: only what was approved runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.tools import BaseTool, tool

from agent_factory import ToolRuntime, create_agent, wrap_tool_call
from agent_factory.errors import AgentFactoryError
from agent_factory.middleware import HumanInTheLoopMiddleware, OnceMiddleware, Rule, ToolPolicy
from agent_factory.review.records import call_digest
from agent_factory.service import Service
from agent_factory.service.waits import Wait
from agent_factory.testing import ScriptedChatModel
from service.stored import backend_of
from waiting import until

VERSIONS = 3
"""Versions of the agent: the second describes its tool otherwise, the third changes its calls."""

ADDED = 10_000
"""What the third version adds to each amount, in a layer inside of the review."""

FREE = 10
"""Amounts below run without a question."""

EXAMPLES = 3 if settings.get_current_profile_name() == "test" else settings().max_examples

REFUSED = AgentFactoryError


class Desk:
    """The versions of an agent in a service, and what runs in the thread of an example."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.numbers, self.threads = count(1), count(1)
        self.tools = [self._tool(number) for number in range(VERSIONS)]
        self.graphs = [self._agent(number) for number in range(VERSIONS)]
        service.add("desk", self.graphs[0])
        self.begin()

    def begin(self) -> None:
        """Begin an example."""
        self.deploy(0)
        self.tenant = self.thread = f"t-{next(self.threads)}"
        self.approved: set[tuple[str, str]] = set()
        self.covered: dict[str, frozenset[str]] = {}
        self.remembered: list[frozenset[str]] = []
        self.mistakes: list[Any] = []
        self.ran: list[tuple[str, str]] = []
        self.seen: list[list[Wait]] = [[], []]  # by each of two reviewers

    def deploy(self, version: int) -> None:
        agents = backend_of(self.service).agents
        agents["desk"] = replace(agents["desk"], graph=self.graphs[version])

    def _tool(self, version: int) -> BaseTool:
        @tool(description="Pay." if version != 1 else "Pay at once.")
        def pay(euros: int, runtime: ToolRuntime) -> str:
            digest = digest_of(euros, self.tools[version])
            call_id = str(runtime.tool_call_id)
            standing = {one.id for one in self.service.approvals(tenant=self.tenant)}
            covered = any(digest in self.covered.get(id_, self.later) for id_ in standing)
            if not (euros < FREE or covered or (call_id, digest) in self.approved):
                self.mistakes.append((call_id, euros))
            self.ran.append((call_id, digest))
            return f"paid {euros}"

        found: BaseTool = pay
        return found

    remembered: list[frozenset[str]]
    """What standing approvals cover that are not stored yet: with several calls, the decisions are
    carried out when the last call is decided."""

    @property
    def later(self) -> frozenset[str]:
        return frozenset().union(*self.remembered)

    def _agent(self, version: int) -> Any:
        policy = ToolPolicy(
            Rule("pay", "allow", when={"euros": {"<": FREE}}), Rule("pay", "ask", remember=3600)
        )

        @wrap_tool_call
        def adds(request: Any) -> Any:
            args = {"euros": request.tool_call["args"]["euros"] + ADDED}
            return (yield replace(request, tool_call={**request.tool_call, "args": args}))

        return create_agent(
            ScriptedChatModel([self._answer] * 1_000_000),
            [self.tools[version]],
            middleware=[
                HumanInTheLoopMiddleware(policy),
                *([adds] if version == 2 else []),
                OnceMiddleware({"pay": "rerun"}),
            ],
            ignore=["AF211"],
        )

    def _answer(self, messages: list[BaseMessage]) -> Any:
        if not isinstance(messages[-1], HumanMessage):
            return "Done."
        amounts = map(int, str(messages[-1].text).split())
        return [
            {"name": "pay", "args": {"euros": euros}, "id": f"c{next(self.numbers)}"}
            for euros in amounts
        ]

    def settle(self) -> None:
        """Wait until the thread is not busy."""

        def is_busy() -> bool:
            with suppress(REFUSED):
                return self.service.threads.get(self.thread).status in ("queued", "running")
            return True

        until(lambda: not is_busy())


def digest_of(euros: Any, of: BaseTool) -> str:
    return call_digest({"name": "pay", "args": {"euros": euros}}, of)


def say(desk: Desk, amounts: list[int], busy: Any) -> None:
    with suppress(REFUSED):
        text = " ".join(map(str, amounts))
        desk.service.submit("desk", thread=desk.thread, message=text, tenant=desk.tenant, busy=busy)


def look(desk: Desk, reviewer: int) -> None:
    desk.seen[reviewer] = desk.service.inbox(desk.tenant).waits(thread=desk.thread)


def judge(desk: Desk, reviewer: int, which: int, kind: str, amount: int) -> None:
    """Decide about a call that the reviewer has seen, perhaps long ago."""
    if not (seen := desk.seen[reviewer]):
        return
    wait = seen[which % len(seen)]
    asked = wait.args["euros"]
    versions = [one for one in desk.tools if wait.call_digest == digest_of(asked, one)]
    options: dict[str, Any] = {"digest": wait.digest}
    euros, decision = asked, kind
    if kind == "edit":
        euros, options["args"] = amount, {"euros": amount}
    elif kind == "remember":
        decision = "approve"
        options["remember"] = {"seconds": 60, "when": {"euros": {"<=": euros}}}
        covers = frozenset(digest_of(n, one) for one in versions for n in range(euros + 1))
        desk.remembered.append(covers)
    elif kind != "approve":
        options["message"] = "No."
    approved = {(call, digest_of(euros, one)) for one in versions for call in ids_of(desk, wait)}
    with suppress(REFUSED):
        if kind in ("approve", "edit", "remember"):
            desk.approved |= approved
        desk.service.decide(wait.id, decision, by=f"r{reviewer}", tenant=desk.tenant, **options)
    desk.settle()
    known = {one.id for one in desk.service.approvals(tenant=desk.tenant, active=False)}
    if new := known - desk.covered.keys():
        desk.covered |= dict.fromkeys(new, desk.later)
        desk.remembered = []


def ids_of(desk: Desk, wait: Wait) -> list[str]:
    """The ids of the calls in the thread that a wait may be about."""
    messages = desk.service.threads.state(desk.thread).values["messages"]
    calls = [call for one in messages for call in getattr(one, "tool_calls", ())]
    return [str(call["id"]) for call in calls]


def answer(desk: Desk) -> None:
    """Approve what waits now, as a client of LangGraph's API does."""
    waits = desk.service.inbox(desk.tenant).waits(thread=desk.thread)
    for wait in waits:
        digests = {digest_of(wait.args.get("euros"), one) for one in desk.tools}
        desk.approved |= {(call, one) for call in ids_of(desk, wait) for one in digests}
    with suppress(REFUSED):
        value = {"decisions": [{"type": "approve"} for _ in waits]}
        desk.service.resume(desk.thread, value, by="r0", tenant=desk.tenant)


def end(desk: Desk, which: int) -> None:
    if active := desk.service.approvals(tenant=desk.tenant):
        desk.service.revoke(active[which % len(active)].id, by="ann")


def replay(desk: Desk, which: int) -> None:
    """Go on from an earlier checkpoint."""
    with suppress(REFUSED):
        states = [*desk.service.threads.history(desk.thread, tenant=desk.tenant)]
        place = states[min(which, len(states) - 1)].config["configurable"]["checkpoint_id"]
        desk.service.submit(
            "desk", thread=desk.thread, checkpoint=place, tenant=desk.tenant, busy="reject"
        )


WHO = st.integers(0, 1)
AMOUNTS = st.lists(st.sampled_from([5, 20, 21, 60]), min_size=1, max_size=2)
KINDS = st.sampled_from(["approve", "approve", "edit", "reject", "remember"])
STEPS = st.one_of(
    st.tuples(st.just(say), AMOUNTS, st.sampled_from(["reject", "interrupt", "rollback"])),
    st.tuples(st.just(look), WHO),
    st.tuples(st.just(judge), WHO, WHO, KINDS, st.sampled_from([4, 30])),
    st.tuples(st.just(answer)),
    st.tuples(st.just(Desk.deploy), st.integers(0, VERSIONS - 1)),
    st.tuples(st.just(end), st.integers(0, 2)),
    st.tuples(st.just(replay), st.integers(0, 8)),
)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder: Path = tmp_path_factory.mktemp("approvals")
    with Service(f"sqlite:///{folder}/service.db") as service:
        yield Desk(service)


@pytest.mark.long
@pytest.mark.timeout(7200)
# The worker draws its own random waits, in its threads, while examples are drawn.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module")
@settings(settings.get_profile("costly"), max_examples=EXAMPLES)
@example(  # the decision about the second call stores the standing approval of the first
    [20, 20], [(judge, 0, 0, "remember", 4), (look, 0), (judge, 0, 0, "approve", 4), (replay, 4)]
)
@given(AMOUNTS, st.lists(STEPS, min_size=4, max_size=10))
def test_only_approved_calls_run_and_once(desk: Desk, amounts: list[int], steps: list[Any]) -> None:
    desk.begin()
    for step, *arguments in [(say, amounts, "reject"), (look, 0), *steps]:
        step(desk, *arguments)
        desk.settle()
    assert desk.mistakes == []
    twice = [call for call, times in Counter(desk.ran).items() if times > 1]
    assert twice == []
