"""A run that somebody ends early, fused: it shows a part of what it shows hook by hook, and the
thread goes on from a state in which it would have been."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, closing
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.types import Command
from pydantic import Field
from random_stacks import ACTS, PHASES, Mode, Model, Script, Stored
from stack_agents import kept_agent
from watching import NESTED_STREAMS, SECOND_STREAMS, STREAMS, Event, Form, compare, events

from agent_factory import AgentMiddleware

pytestmark = [
    pytest.mark.timeout(1800),  # of a failure, hypothesis finds the smallest case first
    pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning"),
]

THREAD: Any = {"configurable": {"thread_id": "one"}, "recursion_limit": 60}
ASK: Any = {"messages": [("user", "Well?")]}
AND: Any = {"messages": [("user", "And?")]}

End = Literal["reads no more", "is interrupted", "is cancelled", "is out of time"]


class Interrupted(BaseException):
    """Stands for a KeyboardInterrupt."""


@dataclass
class Places:
    """The places at which hooks, the model and tools may be stopped, counted as they are reached.

    Args:
        at: The number of the place at which the run ends; None to go on.
        end: How it ends there.
    """

    at: int | None = None
    end: End = "is interrupted"
    reached: int = 0
    task: asyncio.Task[Any] | None = None
    limit: asyncio.Timeout = field(default_factory=lambda: asyncio.Timeout(None))

    def __deepcopy__(self, memo: Any) -> Places:
        return self

    def reach(self) -> None:
        """Go on, or end a sync run."""
        if self._is_here():
            raise Interrupted

    async def areach(self) -> None:
        """Go on, or end an async run."""
        await asyncio.sleep(0)
        if not self._is_here():
            return
        if self.end == "is cancelled":
            assert self.task
            self.task.cancel()
        else:
            self.limit.reschedule(asyncio.get_running_loop().time())
        await asyncio.Event().wait()  # the end of the run

    def _is_here(self) -> bool:
        self.reached += 1
        return self.reached == self.at


# An agent that does the same again when it begins again: all it does depends on the state alone


class SteadyModel(Model):
    """Answers as many answers as there are say."""

    places: Places = Field(default_factory=Places)

    def _answer(self, messages: list[BaseMessage]) -> Any:
        self.asked[:] = [0] * sum(message.type == "ai" for message in messages)
        return super()._answer(messages)

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.places.reach()
        return super()._generate(messages, *args, **kwargs)

    async def _agenerate(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> ChatResult:
        await self.places.areach()
        return ChatResult(generations=[ChatGeneration(message=self._answer(messages))])

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in super()._stream(messages, *args, **kwargs):
            self.places.reach()
            yield chunk

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in super()._stream(messages, *args, **kwargs):
            await self.places.areach()
            yield chunk


def _steady(name: str, scripts: dict[str, Script], places: Places) -> Any:
    methods: dict[str, Any] = {}
    for phase, script in scripts.items():
        hook, ahook = _hook(f"{name}.{phase}", script, places)
        methods |= {phase: hook, f"a{phase}": ahook}
    kind: Any = type("Member", (AgentMiddleware,), {"state_schema": Stored, **methods})
    return kind(name=name)


def _hook(who: str, script: Script, places: Places) -> Any:
    def act(state: Any, runtime: Any) -> Any:
        done = sum(message.type == "ai" for message in state["messages"])
        name = script[done] if done < len(script) else "nothing"
        if name == "write":
            runtime.stream_writer({"by": who})
            return None
        return ACTS[name](state, who)

    def hook(self: Any, state: Any, runtime: Any) -> Any:
        places.reach()
        return act(state, runtime)

    async def ahook(self: Any, state: Any, runtime: Any) -> Any:
        await places.areach()
        return act(state, runtime)

    return hook, ahook


def _tool(places: Places) -> StructuredTool:
    def find(query: str) -> str:
        places.reach()
        return f"found {query}"

    async def afind(query: str) -> str:
        await places.areach()
        return f"found {query}"

    return StructuredTool.from_function(find, afind, name="find", description="Find something.")


@dataclass(frozen=True)
class Case:
    """An agent, and how one of its runs ends early.

    Args:
        members: What the hooks of each middleware do, by phase and then by answer of the model.
        calls: How many tools the model calls, one after the other.
        earlier: Whether the thread has an earlier run.
        end: How the run ends.
        at: After how many events, or at which place.
        is_new: Whether the user then says something else, rather than to let the run go on.
    """

    members: tuple[dict[str, Script], ...]
    calls: int
    earlier: bool
    end: End
    at: int
    is_new: bool


STEADY = ["nothing", "last", "log", "say", "say as dict", "command", "several", "write", "ask"]


def _cases(*ends: End) -> st.SearchStrategy[Case]:
    scripts = st.lists(st.sampled_from(STEADY), max_size=3).map(tuple)
    members = st.lists(
        st.dictionaries(st.sampled_from(PHASES), scripts, max_size=4), min_size=1, max_size=4
    )
    return st.builds(
        Case,
        members=members.map(tuple),
        calls=st.integers(0, 2),
        earlier=st.booleans(),
        end=st.sampled_from(ends),
        at=st.integers(1, 12),
        is_new=st.booleans(),
    )


class Thread:
    """An agent of a case with its thread."""

    def __init__(self, case: Case, fused: Any, mode: Mode) -> None:
        self.places = Places(end=case.end)
        self.mode = mode
        members = enumerate(case.members)
        self.agent: Any = kept_agent(
            SteadyModel(turns=(("find",),) * case.calls, asked=[], places=self.places),
            *(_steady(f"m{n}", scripts, self.places) for n, scripts in members),
            tools=[_tool(self.places)],
            state_schema=Stored,
            fused=fused,
        )
        if case.earlier:
            self.run(ASK)
            self.finish()

    def run(self, input: Any, config: Any = THREAD) -> None:
        """Run to the next pause."""
        if self.mode == "sync":
            self.agent.invoke(input, config)
        else:
            asyncio.run(self.agent.ainvoke(input, config))

    def watch(self, form: Form | None, case: Case | None = None) -> list[Event]:
        """Run to the next pause, or to an early end; return what was seen."""
        count = case.at if case and case.end == "reads no more" else None
        self.places.reached = 0
        self.places.at = case.at if case and case.end != "reads no more" else None
        seen: list[Event] = []
        try:
            if self.mode == "sync":
                self._read(form, seen, count)
            else:
                asyncio.run(self._aread(form, seen, count))
        except (Interrupted, asyncio.CancelledError, TimeoutError):
            assert case
        self.places.at = None
        return seen

    def _read(self, form: Form | None, seen: list[Event], count: int | None) -> None:
        if form is None or form.watch is None:
            self.agent.invoke(ASK, THREAD)
            return
        stream: Any = form.watch(self.agent, ASK, THREAD)
        with closing(stream):
            for event in stream:
                seen.append(event)
                if len(seen) == count:
                    return

    async def _aread(self, form: Form | None, seen: list[Event], count: int | None) -> None:
        self.places.task = asyncio.current_task()
        self.places.limit = asyncio.timeout(None)
        async with self.places.limit:
            if form is None or form.awatch is None:
                await self.agent.ainvoke(ASK, THREAD)
                return
            stream: Any = form.awatch(self.agent, ASK, THREAD)
            async with aclosing(stream):
                async for event in stream:
                    seen.append(event)
                    if len(seen) == count:
                        return

    def finish(self, config: Any = THREAD) -> str:
        """Answer all that waits, to the end; return the state then."""
        while (state := self.agent.get_state(THREAD)).tasks:
            answers = {i.id: f"to {i.value}" for i in state.interrupts}
            self.run(Command(resume=answers) if answers else None)
        return _plain(state.values)

    @property
    def state(self) -> str:
        return _plain(self.agent.get_state(THREAD).values)


def _plain(values: Any) -> str:
    """A state without ids, and without what passes with a step."""
    kept = {k: v for k, v in values.items() if k in ("log", "last")}
    messages = [(m.type, m.text) for m in values.get("messages", ())]
    return json.dumps({"messages": messages, **kept}, sort_keys=True)


def _check(case: Case, fused: Any, mode: Mode, form: Form | None) -> None:
    plain, ended = Thread(case, False, mode), Thread(case, fused, mode)
    before = len(list(plain.agent.get_state_history(THREAD)))
    expected, seen = plain.watch(form), ended.watch(form, case)
    if form and (found := compare(form, seen, expected[: len(seen)])):
        pytest.fail(f"{form}, {mode}, the caller {case.end}: {found}")
    end = plain.finish()
    history = list(plain.agent.get_state_history(THREAD))  # the newest first
    passed = history[: len(history) - before]
    states = [_plain(snapshot.values) for snapshot in passed]
    first = _plain(history[-before].values) if before else _plain({})
    if ended.state == first:
        return  # the input was not stored: to go on is to ask once more
    assert ended.state in states
    if not case.is_new:
        assert ended.finish() == end
        return
    earlier = passed[states.index(ended.state) :]
    ended.run(AND)
    assert ended.finish() in _ends_again(plain, earlier)


def _ends_again(plain: Thread, passed: list[Any]) -> Iterator[str]:
    """How the run hook by hook ends if the user says something else in one of its states.

    LangGraph shows what the tasks of a step have written before it is over, and drops it if there
    is a new input: then the run goes on from an earlier state.
    """
    for snapshot in passed:
        plain.run(AND, snapshot.config)
        yield plain.finish()


# One law for each end: 10,000 examples of all of them in proofs.
EXAMPLES = 5 if settings.get_current_profile_name() == "test" else settings().max_examples

ENDS: dict[Mode, list[End]] = {
    "sync": ["reads no more", "is interrupted"],
    "async": ["reads no more", "is cancelled", "is out of time"],
}
ABANDONED = [None, *STREAMS, *NESTED_STREAMS, *SECOND_STREAMS, events("v2")]


@pytest.mark.parametrize(("mode", "end"), [(mode, end) for mode in ENDS for end in ENDS[mode]])
def test_a_run_that_ends_early_leaves_the_thread_where_it_would_have_been(
    mode: Mode, end: End
) -> None:
    """What was seen is the beginning of what is seen hook by hook, and the thread goes on."""
    forms = [form for form in ABANDONED if not form or form.watch or mode == "async"]

    @settings(max_examples=EXAMPLES)
    @given(_cases(end), st.sampled_from([True, True, "turn"]), st.sampled_from(forms))
    def check(case: Case, fused: Any, form: Form | None) -> None:
        _check(case, fused, mode, form)

    check()
