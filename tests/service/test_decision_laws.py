"""Whatever people decide, write and fork, and whenever workers die: what they decided happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from stack_agents import agent_of

from agent_factory import ToolRuntime
from agent_factory.errors import AgentFactoryError
from agent_factory.middleware import HumanInTheLoopMiddleware, OnceMiddleware, Rule, ToolPolicy
from agent_factory.service import Service
from agent_factory.service.waits import Wait
from agent_factory.testing import ScriptedChatModel
from samples import edit
from service.desk import status_of
from service.test_recovery import work

Call = tuple[str, str, int]
"""The id of a call, the tool, the amount."""

CLAIMS = ("did not run", "was not run", "has not run")
"""What a result says about a call that did not run."""


class Desk:
    """An agent with two reviewers, and what happens in the thread of an example."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.numbers, self.threads = count(1), count(1)
        self.ran: list[Call] = []
        service.add("desk", self._agent("batched", "per_call"))
        service.add("other", self._agent("per_call", "per_call"))
        self.begin("desk")

    def begin(self, agent: str) -> None:
        """Begin an example."""
        self.agent, self.thread = agent, f"t-{next(self.threads)}"
        self.ran.clear()
        self.seen: list[Wait] = []
        self.forks = 0

    def _agent(self, first: Any, second: Any) -> Any:
        def made(name: str) -> BaseTool:
            @tool(name, description="Act.")
            def act(euros: int, runtime: ToolRuntime) -> str:
                self.ran.append((str(runtime.tool_call_id), name, euros))
                return f"{name}: {euros}."

            return act

        deny = Rule("wire", "deny", when={"euros": {">": 50}})
        policy = ToolPolicy(deny, Rule("wire", "ask"), Rule("*", "allow"))
        return agent_of(
            ScriptedChatModel([self._answer] * 1_000_000),
            HumanInTheLoopMiddleware(policy, name="second", interrupt_mode=second),
            HumanInTheLoopMiddleware({"pay": True}, name="first", interrupt_mode=first),
            OnceMiddleware({"pay": "rerun", "wire": "rerun"}),
            tools=[made(name) for name in ("pay", "wire", "look")],
            ignore=["AF206", "AF211"],
        )

    def _answer(self, messages: list[BaseMessage]) -> Any:
        if not isinstance(messages[-1], HumanMessage):
            return "Done."
        tools = str(messages[-1].text).split()
        return [
            {"name": tool, "args": {"euros": 40}, "id": f"c{next(self.numbers)}"} for tool in tools
        ]

    def carry_out(self, dies_at: int = 0, survives: bool = False) -> None:
        """Carry out what is queued, by a worker that may die and another one after it."""
        for _ in range(30):
            with suppress(AgentFactoryError):
                if self.service.threads.get(self.thread).status not in ("queued", "running"):
                    return
            work(self.service, self.thread, dies_at, survives)
            dies_at = 0
        raise AssertionError(f"the thread is {status_of(self.service, self.thread)} without end")

    def look_at_inbox(self) -> None:
        self.seen += self.service.inbox().waits(thread=self.thread)


def is_denial(text: str) -> bool:
    """Whether a result says that the call did not run."""
    return any(claim in text for claim in CLAIMS)


def say(desk: Desk, tools: list[str], waiting: Any) -> None:
    with suppress(AgentFactoryError):
        text = " ".join(tools)
        desk.service.submit(
            desk.agent, thread=desk.thread, message=text, waiting=waiting, by="the user"
        )


def fork(desk: Desk, which: int, waiting: Any) -> None:
    """Go on from an earlier checkpoint."""
    with suppress(AgentFactoryError):
        states = [*desk.service.threads.history(desk.thread)]
        if not states:
            return
        place = states[min(which, len(states) - 1)].config["configurable"]["checkpoint_id"]
        desk.service.submit(
            desk.agent, thread=desk.thread, checkpoint=place, waiting=waiting, by="the user"
        )
        desk.forks += 1


def decide(desk: Desk, which: int, decision: Any, whole: bool) -> None:
    """Decide about a call that somebody has seen, perhaps long ago."""
    desk.look_at_inbox()
    if not desk.seen:
        return
    wait = desk.seen[-1 - which % len(desk.seen)]
    try:
        if whole:
            waits = desk.service.inbox().waits(thread=desk.thread)
            answers = {"decisions": [decision] * len(waits)}
            desk.service.resume(desk.thread, answers, by="eve")
        else:
            desk.service.decide(wait.id, decision, by="ann")
    except AgentFactoryError as error:
        event(f"refused: {type(error).__name__}")
    else:
        event(f"accepted: {decision['type']}")


GOOD: list[Any] = [
    {"type": "approve"},
    {"type": "reject", "message": "No."},
    {"type": "respond", "message": "It is done by hand."},
    edit("pay", euros=10),
    edit("wire", euros=10),
    edit("look", euros=10),
]
BAD: list[Any] = [
    {"type": "approve", "args": {"euros": 1}},
    {"type": "reject", "reason": "No."},
    edit("pay", euro=10),
    edit("pay"),
    edit("wire", euros=60),
    edit("paid", euros=10),
    {"type": "approve", "digest": "another"},
]
DEATHS = st.tuples(st.integers(0, 12), st.booleans())
WAITING = st.sampled_from(["queue", "interrupt", "reject"])
TOOLS = st.lists(st.sampled_from(["pay", "wire", "look"]), min_size=1, max_size=2)
STEPS = st.one_of(
    st.tuples(st.just(decide), st.integers(0, 3), st.sampled_from(GOOD), st.booleans()),
    st.tuples(st.just(decide), st.integers(0, 3), st.sampled_from([*GOOD, *BAD]), st.booleans()),
    st.tuples(st.just(say), TOOLS, WAITING),
    st.tuples(st.just(fork), st.integers(0, 8), WAITING),
)


def replayed(desk: Desk) -> set[Call]:
    """The calls that run, as the audit says, with the decisions in their order.

    Decisions about calls that wait together are carried out together, or not at all if one of the
    questions is withdrawn. The last decision about a call of a run counts.
    """
    inbox = desk.service.inbox()
    entries = list(reversed(inbox.audit(thread=desk.thread, limit=1000)))
    steps: dict[Any, dict[str, Any]] = {}
    withdrawn = set()
    for entry in entries:
        if entry.wait_id is None or entry.what == "refused":
            continue
        wait = inbox.get(entry.wait_id)
        step = (wait.run, wait.checkpoint_id)
        steps[step] = {**steps.pop(step, {}), wait.call_id: None}
        if entry.what == "withdraw":
            withdrawn.add(step)
        else:
            steps[step][wait.call_id] = entry.detail["runs"]
    last: dict[Any, Any] = {}
    for (run, place), calls in steps.items():
        for call_id, action in calls.items():
            last[run, call_id] = None if (run, place) in withdrawn else action
    return {
        (call_id, action["name"], action["args"]["euros"])
        for (_, call_id), action in last.items()
        if action is not None
    }


def asked_about(desk: Desk) -> set[Call]:
    """The calls that run by a decision about a call of the same tool, which its reviewer made."""
    details = [entry.detail for entry in desk.service.inbox().audit(thread=desk.thread, limit=1000)]
    return {
        (detail["call"]["id"], detail["runs"]["name"], detail["runs"]["args"]["euros"])
        for detail in details
        if isinstance(detail, dict) and detail.get("runs")
        if detail["call"]["name"] == detail["runs"]["name"]
    }


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder: Path = tmp_path_factory.mktemp("decisions")
    with closing(Service(f"sqlite:///{folder}/service.db")) as service:
        yield Desk(service)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.filterwarnings("ignore:Do not use the `random` module")
@settings(settings.get_profile("costly"))
@example("desk", ["pay"], [((decide, 0, edit("wire", euros=10), False), (0, False))])
@example("other", ["pay"], [((decide, 0, edit("wire", euros=10), False), (0, False))])
@example("desk", ["pay"], [((say, ["look"], "interrupt"), (3, True))])
@given(
    st.sampled_from(["desk", "other"]),
    TOOLS,
    st.lists(st.tuples(STEPS, DEATHS), min_size=1, max_size=8),
)
def test_what_people_decide_is_what_happens(
    desk: Desk, agent: str, tools: list[str], steps: list[Any]
) -> None:
    desk.begin(agent)
    for (step, *arguments), death in [((say, tools, "queue"), (0, False)), *steps]:
        step(desk, *arguments)
        desk.carry_out(*death)
    for _ in range(30):  # what still waits is decided, until nothing does
        if desk.service.threads.get(desk.thread).status != "waiting":
            break
        for wait in desk.service.inbox().waits(thread=desk.thread):
            desk.service.decide(wait.id, "approve", by="ann")
        desk.carry_out()
    assert desk.service.threads.get(desk.thread).status in ("idle", "failed")
    # What the model looks at needs no decision; a look into which a call was edited has one.
    ran = {call for call in desk.ran if (call[1], call[2]) != ("look", 40)}
    assert ran == replayed(desk)
    assert {call for call in ran if call[1] != "look"} <= asked_about(desk)
    if not desk.forks:  # in another branch, the same call has run
        messages = desk.service.threads.state(desk.thread).values["messages"]
        ids = {call_id for call_id, _, _ in desk.ran}
        results = {m.tool_call_id: m.text for m in messages if isinstance(m, ToolMessage)}
        assert ids <= results.keys()
        assert not [text for id_, text in results.items() if id_ in ids and is_denial(text)]
