"""Whatever a stack does and however it is watched: a fused run shows what it shows hook by hook."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import cache
from typing import Annotated, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from langchain_core.tools import InjectedToolCallId, StructuredTool
from langgraph.config import get_stream_writer
from random_stacks import (
    ACTS,
    CALLED,
    CALM,
    FAILING,
    OUTWARD,
    TOOLS,
    Case,
    Helper,
    Mode,
    Stored,
    Trial,
    cases,
    is_stuck,
)
from watching import FORMS, Event, Form, compare

from agent_factory import AgentMiddleware, create_agent

pytestmark = [
    pytest.mark.timeout(600),  # of a failure, hypothesis finds the smallest case first
    pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning"),
    pytest.mark.filterwarnings("ignore:The v3 streaming protocol"),
    pytest.mark.filterwarnings("ignore:astream_events version='v1' is deprecated"),
]


# Agents inside


class Inner(AgentMiddleware[Any, Any]):
    """Middleware of an agent inside: the same in each of its runs, which may be parallel."""

    state_schema = Stored

    def before_agent(self, state: Any, runtime: Any) -> None:
        runtime.stream_writer({"by": self.name, "call": state["messages"][0].text})

    def before_model(self, state: Any, runtime: Any) -> Any:
        return {"last": f"{self.name} after {state.get('last')}"}

    def after_model(self, state: Any, runtime: Any) -> None:
        """Look."""

    async def aafter_model(self, state: Any, runtime: Any) -> None:
        """Look."""

    def after_agent(self, state: Any, runtime: Any) -> Any:
        return {"log": [self.name]}


@cache
def inner(fused: Any, **options: Any) -> Any:
    """An agent with two middleware, that calls a tool and then answers."""
    stack = [Inner(name="i0"), Inner(name="i1")]
    return create_agent(Helper(calls="find"), TOOLS[:1], middleware=stack, fused=fused, **options)


def _delegating(name: str, agent: Any) -> StructuredTool:
    def ask(query: str) -> str:
        return str(agent.invoke({"messages": [("user", query)]})["messages"][-1].text)

    async def aask(query: str) -> str:
        outcome = await agent.ainvoke({"messages": [("user", query)]})
        return str(outcome["messages"][-1].text)

    return StructuredTool.from_function(ask, aask, name=name, description="Ask an agent.")


def speak(query: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> str:
    """Write to the stream, and ask a model."""
    get_stream_writer()({"by": "speak", "call": tool_call_id})
    return str(Helper().invoke(query).text)


@cache
def tools_for(fused: Any) -> list[Any]:
    """Tools that ask an agent, without a checkpointer of its own and with one, and a model."""
    return [
        _delegating("delegate", inner(fused, name="helper")),
        _delegating("remember", inner(fused, checkpointer=True)),
        speak,
    ]


# The law


class WatchedTrial(Trial):
    """One agent of a case, and all that a watcher sees of its runs."""

    def __init__(self, case: Case, fused: Any, mode: Mode, form: Form, kept: bool = True) -> None:
        super().__init__(case, fused, mode, kept, tools_for(fused), inner(fused))
        self.form = form
        self.seen: list[Event] = []

    def _run(self, input: Any, watched: bool) -> Any:
        self.seen = []
        if not watched:
            return super()._run(input, watched)
        return asyncio.run(self._watch(input)) if self.mode == "async" else self._watch_now(input)

    def _watch_now(self, input: Any) -> None:
        assert self.form.watch is not None
        for event in self.form.watch(self.agent, input, self.config):
            self.seen.append(event)

    async def _watch(self, input: Any) -> None:
        assert self.form.awatch is not None
        async for event in self.form.awatch(self.agent, input, self.config):
            self.seen.append(event)


def _same(case: Case, fused: Any, mode: Mode, form: Form, kept: bool) -> None:
    plain = WatchedTrial(case, False, mode, form, kept)
    fused_run = WatchedTrial(case, fused, mode, form, kept)
    for doing, watched in (("ask", True), *(case.doings if kept else ())):
        for trial in (plain, fused_run):
            trial.do(doing, watched) if kept else trial.ask(watched)
        if found := compare(form, fused_run.seen, plain.seen):
            pytest.fail(f"{form}, {mode}, {doing}: {found}")
        assert fused_run.model.asked == plain.model.asked
        if kept and is_stuck(plain.results[-1]):
            assert fused_run.results[-1][0] == plain.results[-1][0]
            return
        assert fused_run.results == plain.results


ALL_CALLED = (*CALLED, "delegate", "delegate", "remember", "speak", *FAILING)
CASES = st.one_of(
    cases([*CALM, *OUTWARD * 3], ALL_CALLED), cases([*ACTS, *OUTWARD * 3], ALL_CALLED)
)


# One law for each kind of forms, sync and async: 10,000 examples of all of them in proofs.
IN_TESTS = settings.get_current_profile_name() == "test"
EXAMPLES = 12 if IN_TESTS else settings().max_examples // 3

BY_STEP = "callbacks of models and tools"
"""They do not prevent fusion today, and get the metadata of its step. Once they get that of the
nodes, this name and its mark go."""
DIFFERS = pytest.mark.xfail(strict=True, reason="metadata are those of the fused step")
NAMES = [pytest.param(name, marks=DIFFERS if name == BY_STEP else ()) for name in FORMS]


@pytest.mark.parametrize("forms", NAMES)
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_fused_run_shows_what_it_shows_hook_by_hook(forms: str, mode: Mode) -> None:
    """Every event, in its order, with its node, its namespace and its metadata."""
    phases = [Phase.generate] if forms == BY_STEP else list(Phase)
    possible = [form for form in FORMS[forms] if form.awatch if mode == "async" or form.watch]
    if not possible:
        return  # `astream_events` has no sync form

    @settings(max_examples=EXAMPLES, phases=phases)
    @given(CASES, st.sampled_from([True, True, "turn"]), st.sampled_from(possible), st.booleans())
    def check(case: Case, fused: Any, form: Form, kept: bool) -> None:
        _same(case if kept else replace(case, pauses=()), fused, mode, form, kept)

    check()
