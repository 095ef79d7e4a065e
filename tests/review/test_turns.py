"""A turn that is called again, after a crash at any write, ends as a turn that is called once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt

from agent_factory import create_agent, review
from agent_factory.errors import ArgumentError
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.review import atake_turn, take_turn
from agent_factory.testing import ScriptedChatModel
from samples import Killed


class MortalSaver(InMemorySaver):
    """A saver whose process dies at one of its writes: before or after it."""

    dies_at = 0
    survives_write = False
    count = 0

    def live(self, dies_at: int = 0, *, survives_write: bool = False) -> None:
        self.dies_at, self.survives_write, self.count = dies_at, survives_write, 0

    @contextmanager
    def _write(self) -> Iterator[None]:
        self.count += 1
        if self.dies_at and self.count >= self.dies_at + self.survives_write:
            raise Killed
        yield
        if self.count == self.dies_at:
            raise Killed

    def put(self, *args: Any, **options: Any) -> Any:
        with self._write():
            return super().put(*args, **options)

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        with self._write():
            super().put_writes(config, writes, task_id, task_path)


def each_death(
    saver: MortalSaver, begin: Callable[[Any], None], act: Callable[[Any], Sequence[str]]
) -> Sequence[str]:
    """Let a process die at each of its writes in turn, and call again: the end is the same."""
    ends = []
    for at in range(1, 100):
        survived = True
        for survives_write in (False, True):
            thread = {"configurable": {"thread_id": f"t-{at}-{survives_write}"}}
            saver.live()
            begin(thread)
            saver.live(at, survives_write=survives_write)
            try:
                act(thread)
            except Killed:
                survived = False
            saver.live()
            ends += [act(thread), act(thread)]
            assert ends[-1] == ends[0]
            assert ends[-2] == ends[0]
        if survived:
            assert at > 5
            return ends[0]
    raise AssertionError("the turn does not end")


FORMS: list[dict[str, Any]] = [{}, {"fused": False}, {"fused": "turn"}, {"checkpoints": "delta"}]
CASES = {
    "no question": ["Pay.", "", "Paid 1.", "", "Paid 2.", "Done."],
    "review": ["Pay.", "", "Paid 1.", "", "Paid 2.", "Done."],
    "pause": ["Pay.", "", "Paid 1.", "", "Paid 2.", "Done."],
    "questions": ["Pay.", "", "ACCOUNT? RECEIPT?", "", "ACCOUNT? RECEIPT?", "Done."],
}


def make_agent(saver: MortalSaver, case: str, **options: Any) -> Any:
    """An agent that calls a tool twice for each message."""

    def pay(euros: int) -> str:
        """Pay a bill."""
        return f"Paid {euros}."

    def ask(euros: int) -> str:
        """Ask about a bill."""
        return f"{interrupt('Account?')} {interrupt('Receipt?')}"

    def answer(messages: list[BaseMessage]) -> Any:
        last = max(at for at, one in enumerate(messages) if isinstance(one, HumanMessage))
        done = sum(isinstance(one, ToolMessage) for one in messages[last:])
        name = "ask" if case == "questions" else "pay"
        # A model that gives an id again.
        return "Done." if done == 2 else [{"name": name, "args": {"euros": done + 1}, "id": "c"}]

    return create_agent(
        ScriptedChatModel([answer] * 10_000),
        [pay, ask],
        middleware=[HumanInTheLoopMiddleware({"pay": True})] if case == "review" else [],
        interrupt_before=["tools"] if case == "pause" else [],
        checkpointer=saver,
        **options,
    )


def texts(agent: Any, thread: Any) -> list[str]:
    return [one.text for one in agent.get_state(thread).values["messages"]]


@pytest.mark.parametrize("options", FORMS, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_a_process_that_dies_during_a_turn(case: str, options: dict[str, Any]) -> None:
    saver = MortalSaver()
    agent = make_agent(saver, case, **options)
    given: dict[str, Any] = {}

    def act(thread: Any) -> list[str]:
        """As a consumer of a queue does, with all decisions so far."""
        for _ in range(6):
            take_turn(agent, thread, HumanMessage("Pay.", id="m-1"), given)
            for call in review.pending(agent, thread).calls:
                answer = {"type": "respond", "message": str(call.question).upper()}
                given[call.digest] = answer if call.kind == "question" else "approve"
        return texts(agent, thread)

    assert each_death(saver, lambda _: given.clear(), act) == CASES[case]


@pytest.mark.parametrize("cut", range(2, 12))
def test_a_message_after_a_turn_that_was_cut(cut: int) -> None:
    """Both are in the history once, and calls without a result have an answer."""
    saver = MortalSaver()
    agent = make_agent(saver, "no question")

    def begin(thread: Any) -> None:
        saver.live(cut)
        with pytest.raises(Killed):
            take_turn(agent, thread, HumanMessage("Old.", id="m-0"))

    def act(thread: Any) -> list[str]:
        take_turn(agent, thread, HumanMessage("Pay.", id="m-1"))
        # The queue may deliver the earlier message late.
        if "Old." in (before := texts(agent, thread)):
            take_turn(agent, thread, HumanMessage("Old.", id="m-0"))
            assert texts(agent, thread) == before
        return before

    end = each_death(saver, begin, act)
    assert (end[-6:], end[0] == "Old.") == (CASES["no question"], cut > 2)


def test_a_turn_that_was_cut_may_be_finished() -> None:
    saver, thread = MortalSaver(), cast("Any", {"configurable": {"thread_id": "t"}})
    agent = make_agent(saver, "no question")
    saver.live(6)
    with suppress(Killed):
        take_turn(agent, thread, HumanMessage("Pay.", id="m-1"))
    saver.live()
    take_turn(agent, thread, HumanMessage("Pay.", id="m-1"))
    assert texts(agent, thread) == CASES["no question"]


async def test_a_decision_counts_once_also_for_a_call_with_the_same_id() -> None:
    saver, thread = MortalSaver(), cast("Any", {"configurable": {"thread_id": "t"}})
    agent, message = make_agent(saver, "review"), HumanMessage("Pay.", id="m-1")
    first = await atake_turn(agent, thread, message)
    assert first["__interrupt__"]
    (call,) = review.pending(agent, thread).calls
    for _ in range(3):
        again = await atake_turn(agent, thread, message, {call.digest: "approve"})
    assert again["__interrupt__"]
    assert texts(agent, thread) == ["Pay.", "", "Paid 1.", ""]
    assert await atake_turn(agent, thread, message) == again


def test_a_decision_may_be_a_word() -> None:
    saver, thread = MortalSaver(), cast("Any", {"configurable": {"thread_id": "t"}})
    agent = make_agent(saver, "review")
    take_turn(agent, thread, HumanMessage("Pay.", id="m-1"))
    assert review.decide(agent, thread, {"c": "approve"})["messages"][-2].text == "Paid 1."
    with pytest.raises(review.InvalidDecision, match="Did you mean"):
        review.decide(agent, thread, {"c": "aprove"})


def test_a_message_without_an_id_is_refused() -> None:
    agent = make_agent(MortalSaver(), "no question")
    for message in (HumanMessage("Pay."), "Pay.", AIMessage("Paid.")):
        with pytest.raises(ArgumentError, match="a message with an id"):
            take_turn(agent, {"configurable": {"thread_id": "t"}}, cast("Any", message))
