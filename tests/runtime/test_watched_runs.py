"""Whatever a stack does and however it is watched: a fused run shows what it shows hook by hook."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.tools import InjectedToolCallId, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from random_stacks import (
    ACTS,
    CALLED,
    CALM,
    FAILING,
    OUTWARD,
    TOOLS,
    Case,
    Helper,
    Member,
    Mode,
    Stored,
    Trial,
    cases,
    is_stuck,
)
from stack_agents import agent_of
from watching import (
    EVENTS,
    FORMS,
    NESTED_STREAMS,
    PROTOCOL,
    SECOND_STREAMS,
    STREAMS,
    TRACES,
    Event,
    Form,
    compare,
)

from agent_factory import AgentMiddleware, create_agent
from agent_factory.runtime import watching
from agent_factory.testing import ScriptedChatModel
from samples import find

pytestmark = [
    pytest.mark.timeout(1800),  # of a failure, hypothesis finds the smallest case first
    pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning"),
    pytest.mark.filterwarnings("ignore:The v3 streaming protocol"),
    pytest.mark.filterwarnings("ignore:astream_events version='v1' is deprecated"),
]


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
    """Tools that ask an agent, with a checkpointer and without one, and a model."""
    return [
        _delegating("delegate", inner(fused, name="helper")),
        _delegating("remember", inner(fused, checkpointer=True)),
        speak,
    ]


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
    unwatched = False
    for doing, watched in (("ask", True), *(case.doings if kept else ())):
        for trial in (plain, fused_run):
            trial.do(doing, watched) if kept else trial.ask(watched)
        if found := compare(form, fused_run.seen, plain.seen):
            pytest.fail(f"{form}, {mode}, {doing}: {found}")
        unwatched = unwatched or not watched
        assert fused_run.model.asked == plain.model.asked
        if kept and is_stuck(plain.results[-1]):
            assert fused_run.results[-1][0] == plain.results[-1][0]
            return
        assert fused_run.results == plain.results


ALL_CALLED = (*CALLED, "delegate", "delegate", "remember", "speak", *FAILING)
# Whether a stream shows an update that cannot be applied depends on its mode.
APPLIED = [name for name in ACTS if name != "forget unknown"]
CASES = st.one_of(
    cases([*CALM, *OUTWARD * 3], ALL_CALLED), cases([*APPLIED, *OUTWARD * 3], ALL_CALLED)
)


# One law for each kind of forms, sync and async: 10,000 examples of all of them in proofs.
IN_TESTS = settings.get_current_profile_name() == "test"
EXAMPLES = 5 if IN_TESTS else settings().max_examples // 3

MODES: tuple[Mode, ...] = ("sync", "async")
PATIENCES = [0, 60]  # no reader is as fast as that, or as slow


def _possible(forms: Sequence[Form], mode: Mode) -> list[Form]:
    """The forms that exist in this mode: `astream_events` is only async."""
    return [form for form in forms if (form.awatch if mode == "async" else form.watch)]


LAWS = [
    pytest.param(name, mode, id=f"{mode}, {name}")
    for name, forms in FORMS.items()
    for mode in MODES
    if _possible(forms, mode)
]


@pytest.mark.parametrize(("forms", "mode"), LAWS)
def test_a_fused_run_shows_what_it_shows_hook_by_hook(forms: str, mode: Mode) -> None:
    """Every event, in its order, with its node, its namespace and its metadata."""
    possible = _possible(FORMS[forms], mode)

    @settings(max_examples=EXAMPLES)
    @given(
        CASES,
        st.sampled_from([True, True, "turn"]),
        st.sampled_from(possible),
        st.booleans(),
        st.sampled_from(PATIENCES),
    )
    def check(case: Case, fused: Any, form: Form, kept: bool, patience: float) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(watching, "PATIENCE", patience)
            _same(case if kept else replace(case, pauses=()), fused, mode, form, kept)

    check()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "tool",
    [
        # It waits, fails and answers; others take as long again for each mode.
        pytest.param(tool, marks=[] if tool in ("ask", "fail", "find") else [pytest.mark.long])
        for tool in dict.fromkeys(ALL_CALLED)
    ],
)
def test_a_call_in_the_one_step_of_a_run_looks_the_same(
    tool: str, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers, waits for an answer, fails or ends the run, and is shown once."""
    monkeypatch.setattr(watching, "PATIENCE", 60)
    case = Case(members=(), turns=((tool,), ("Answer",)), structured=False, pauses=(), doings=())
    for form in _possible([form for forms in FORMS.values() for form in forms], mode):
        _same(case, True, mode, form, kept=False)


CONVERSATION = Case(
    members=(
        Member(
            {"before_agent": ("write",), "before_model": ("last", "ask a model", "log")},
            form="double",
        ),
        Member(
            {
                "before_model": ("nothing", "say", "ask", "flash"),
                "after_model": ("log", "write from context", "ask an agent"),
            },
            layer="speaks",
        ),
        Member({"after_model": ("several",), "after_agent": ("log", "fail", "last")}, layer="tool"),
    ),
    turns=(("find", "delegate"), ("Answer",), ("speak",), ("delegate",), ("Answer",)),
    structured=True,
    pauses=(),
    # The second turn pauses at a hook, goes on until another hook fails, and ends.
    doings=(("ask", True), ("go on", True), ("go on", True)),
)
ALONE = [form for form in STREAMS if "[" not in form.name]
TOGETHER = [NESTED_STREAMS[-1], SECOND_STREAMS[-1]]
REST = [form for name, forms in FORMS.items() if "streams" not in name for form in forms]
# LangChain copies all that a run has shown for each event of v1: a second and a half.
IN_MODES = [
    pytest.param(
        form, mode, id=f"{mode}, {form}", marks=[pytest.mark.long] if "v1" in form.name else []
    )
    for mode in MODES
    for form in _possible([*ALONE, *TOGETHER, *REST], mode)
]


@pytest.mark.parametrize(("form", "mode"), IN_MODES)
def test_a_conversation_looks_the_same(form: Form, mode: Mode) -> None:
    """Three hooks around a model, tools, agents inside, a pause, an error, a structured answer."""
    _same(CONVERSATION, True, mode, form, kept=True)


SHORT = replace(CONVERSATION, turns=(("delegate",),), structured=False)


def _seen(form: Form, mode: Mode, fused: Any = True, case: Case = SHORT) -> list[Event]:
    """The events of one turn."""
    trial = WatchedTrial(case, fused, mode, form)
    trial.do("ask", True)
    return trial.seen


HOOKS = [
    "m0.before_agent", "m0.before_model", "m1.before_model", "model", "m2.after_model",
    "m1.after_model", "tools", "m0.before_model", "m1.before_model", "model", "m2.after_model",
    "m1.after_model", "m2.after_agent",
]  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_each_hook_is_a_run_of_a_trace(mode: Mode) -> None:
    seen = _seen(FORMS["traces"][0], mode)
    (root,) = [event for event in seen if event["event"] == "start" and not event["parent"]]
    starts = [event for event in seen if event["event"] == "start"]
    assert [e["name"] for e in starts if e["parent"] == root["run_id"]] == HOOKS
    steps = [e["metadata"]["langgraph_step"] for e in starts if e["parent"] == root["run_id"]]
    assert steps == list(range(1, len(HOOKS) + 1))
    assert seen[-1]["run_id"] == root["run_id"]


def test_calls_that_wait_look_the_same_where_somebody_begins_to_watch() -> None:
    case = replace(SHORT, members=(Member({}),), turns=(("ask", "find"),))
    form, seen = FORMS["traces"][0], []
    for fused in (True, False):
        trial = WatchedTrial(case, fused, "sync", form)
        trial.do("ask", False)
        trial.do("go on", True)
        seen.append(trial.seen)
    found = compare(form, seen[0], seen[1])
    assert not found, found


@pytest.mark.parametrize("form", [TRACES[0], EVENTS[0]], ids=str)
@pytest.mark.parametrize("kept", [False, True])
def test_an_edge_that_fails_after_the_model_ends_the_span_of_its_hook(
    form: Form, kept: bool
) -> None:
    case = replace(SHORT, members=(Member({"after_model": ("jump to tools",)}),), turns=())
    _same(case, True, "async", form, kept)


@pytest.mark.parametrize("form", [*TOGETHER, PROTOCOL, TRACES[0]], ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_an_agent_inside_a_graph_looks_the_same(form: Form, mode: Mode) -> None:
    seen = []
    for fused in (True, False):
        trial = WatchedTrial(CONVERSATION, fused, mode, form, kept=False)
        graph: Any = StateGraph(Stored)
        graph.add_node("agent", trial.agent)
        graph.add_edge(START, "agent")
        trial.agent = graph.compile(checkpointer=InMemorySaver())
        for doing in ("ask", "ask", "go on", "go on"):
            trial.do(doing, True)
            seen.append((trial.seen, trial.results[-1]))
    for (events, result), (expected, known) in zip(seen[:4], seen[4:], strict=True):
        if found := compare(form, events, expected):
            pytest.fail(f"{form}, {mode}: {found}")
        assert result == known


CHANGES: dict[str, Any] = {
    "an event is lost": lambda seen: seen[:3] + seen[4:],
    "the last event is lost": lambda seen: seen[:-1],
    "an event comes twice": lambda seen: [*seen[:3], seen[2], *seen[3:]],
    "two events change places": lambda seen: [*seen[:2], seen[3], seen[2], *seen[4:]],
    "an event says something else": lambda seen: _replaced(seen, "m1", "m9"),
}


def _replaced(seen: list[Event], old: str, new: str) -> list[Event]:
    changed: list[Event] = json.loads(json.dumps(seen).replace(old, new, 1))
    return changed


@pytest.mark.long
@pytest.mark.parametrize("form", [*ALONE, *TOGETHER, *REST], ids=str)
def test_a_comparison_notices_what_differs(form: Form) -> None:
    expected, same = (_seen(form, "async", fused=False) for _ in range(2))
    assert compare(form, same, expected) is None
    for name, change in CHANGES.items():
        assert compare(form, change(expected), expected), name


def test_a_comparison_notices_other_metadata() -> None:
    form = FORMS["traces"][0]
    seen = _seen(form, "sync", fused=False)
    for old, new in (
        ('"langgraph_step": 2', '"langgraph_step": 3'),
        ("graph:step:2", "graph:step:3"),
        ("branch:to:m1.before_model", "branch:to:m2.before_model"),
        ("__pregel_pull", "__pregel_push"),
    ):
        assert compare(form, _replaced(seen, old, new), seen), old


STREAMED: list[Any] = ["messages", "updates", "values", "custom", ["updates", "messages"]]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stream_mode", STREAMED, ids=str)
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("part", ["the first", "the result"])
def test_a_run_goes_no_further_than_its_stream_is_read(
    part: str, fused: bool, stream_mode: Any, mode: Mode
) -> None:
    """Who stops at a call has stopped the tool, and who stops at its result the next model call."""
    paid: list[int] = []

    def pay(euros: int) -> str:
        """Pay."""
        paid.append(euros)
        get_stream_writer()("Paid.")
        return "Paid."

    async def apay(euros: int) -> str:
        return pay(euros)

    class Writing(AgentMiddleware[Any, Any]):
        def after_model(self, state: Any, runtime: Any) -> None:
            runtime.stream_writer("The model has answered.")

        async def aafter_model(self, state: Any, runtime: Any) -> None:
            self.after_model(state, runtime)

    def is_last(shown: Any) -> bool:
        return part == "the first" or "Paid." in str(shown)

    def read() -> None:
        parts: Any = agent.stream(question, stream_mode=stream_mode)
        assert any(is_last(shown) for shown in parts)
        parts.close()  # a run in a thread ends before it returns

    async def aread() -> None:
        parts: Any = agent.astream(question, stream_mode=stream_mode)
        assert any([is_last(shown) async for shown in until_last(parts)])
        for _ in range(200):  # a run that does not wait goes on meanwhile
            await asyncio.sleep(0)
        await parts.aclose()

    async def until_last(parts: Any) -> Any:
        async for shown in parts:
            yield shown
            if is_last(shown):
                return

    calls = [[{"name": "pay", "args": {"euros": n}, "id": str(n)}] for n in (1, 2)]
    model = ScriptedChatModel([*calls, "Done."])
    agent = agent_of(
        model, Writing(), tools=[StructuredTool.from_function(pay, coroutine=apay)], fused=fused
    )
    question: Any = {"messages": [("user", "Pay.")]}
    read() if mode == "sync" else asyncio.run(aread())
    assert paid == ([] if part == "the first" else [1])
    assert len(model.requests) <= 1  # values begin before the first


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stream_mode", ["messages", "custom", ["values", "messages"]], ids=str)
def test_a_live_stream_is_one_step_unless_its_reader_is_slow(
    stream_mode: Any, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[Any] = []

    class Noting(AgentMiddleware[Any, Any]):
        def before_model(self, state: Any, runtime: Any) -> None:
            steps.append(runtime.execution_info.checkpoint_id)

        async def abefore_model(self, state: Any, runtime: Any) -> None:
            self.before_model(state, runtime)

    async def aread() -> None:
        async for _ in agent.astream(question, stream_mode=stream_mode):
            pass

    model = ScriptedChatModel([[{"name": "find", "args": {"query": "it"}}], "Done."] * 2)
    agent: Any = create_agent(model, [find], middleware=[Noting()])
    question: Any = {"messages": [("user", "Find it.")]}
    for patience, number in ((60, 1), (0, 2)):
        monkeypatch.setattr(watching, "PATIENCE", patience)
        steps.clear()
        if mode == "sync":
            list(agent.stream(question, stream_mode=stream_mode))
        else:
            asyncio.run(aread())
        assert len(steps) == 2
        assert len(set(steps)) == number
