"""What a guard removes is in no view of a run: streams, events, callbacks, traces, the thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.context import collect_runs
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.types import Command
from spans import Spans

from agent_factory import AgentMiddleware, DecisionLog, ToolRuntime, agent_tool, create_agent
from agent_factory import middleware as m
from agent_factory.telemetry import Telemetry
from agent_factory.testing import Reply, ScriptedChatModel

pytestmark = [
    pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning"),
    pytest.mark.filterwarnings("ignore:astream_events version='v1'"),
]

THREAD = {"thread_id": "1"}

# Where data stands, by what removes it there.
INPUT = ("old_user", "user", "user_of_tool", "user_of_hook")
OUTPUT = ("old_answer", "old_final", "answer", "final")
RESULTS = ("old_result", "result", "error", "result_in_command", "final_of_subagent")
CALLS = ("old_argument", "argument", "request")
INSIDE = (
    *("delta", "written", "chain", "token", "answer_of_subagent", "argument_of_subagent"),
    "result_of_subagent",
)
PLACES = (*INPUT, *OUTPUT, *RESULTS, *CALLS, *INSIDE)

KINDS: dict[str, Any] = {
    "email": lambda place: f"{place}@corp.example",
    "url": lambda place: f"https://corp.example/{place}/x",
    "ip": lambda place: f"10.11.12.{100 + PLACES.index(place)}",
    "code": lambda place: f"S3C-{place}-x",
}
MODES = ("values", "updates", "messages", "custom", "tasks", "debug", "checkpoints", "tools")
WAYS = ("invoke", *MODES, "all", "v1", "v2", "v3")


class Says(AgentMiddleware):
    """Adds a message of the user, once, from a hook."""

    def __init__(self, data: str) -> None:
        super().__init__()
        self.data = data

    def before_model(self, state: Any, runtime: Any) -> Any:
        if any("by the way" in message.text for message in state["messages"]):
            return None
        return {"messages": [("user", f"by the way, {self.data}")]}


OTHERS: dict[str, Any] = {
    "retry": lambda case: m.ModelRetryMiddleware(max_retries=1, initial_delay=0),
    "tool retry": lambda case: m.ToolRetryMiddleware(max_retries=0),
    "tool error": lambda case: m.ToolErrorMiddleware(),
    "todo": lambda case: m.TodoListMiddleware(),
    "tool limit": lambda case: m.ToolCallLimitMiddleware(run_limit=50),
    "model limit": lambda case: m.ModelCallLimitMiddleware(run_limit=50),
    "editing": lambda case: m.ContextEditingMiddleware(),
    "offload": lambda case: m.ToolResultOffloadMiddleware(),
    "fallback": lambda case: m.ModelFallbackMiddleware(ScriptedChatModel([])),
    "summary": lambda case: m.SummarizationMiddleware(
        ScriptedChatModel(["short"], loop=True), trigger=("messages", 8), keep=("messages", 6)
    ),
    "says": lambda case: Says(case.data("user_of_hook")),
    "second guard": lambda case: m.PIIMiddleware("mac_address", apply_to_output=True),
}


@dataclass(frozen=True)
class Case:
    """A guard, what stands around it, and how its agent is run and viewed."""

    kind: str
    strategy: Any
    places: tuple[bool, bool, bool, bool]  # input, output, results, calls
    before: tuple[str, ...]
    after: tuple[str, ...]
    way: str
    sizes: tuple[int, ...]
    asynchronous: bool
    fused: bool
    saves: bool
    handlers: bool
    guards_subagent: bool

    @property
    def guard(self) -> m.PIIMiddleware:
        names = ("input", "output", "tool_results", "tool_calls")
        options: Any = {f"apply_to_{n}": on for n, on in zip(names, self.places, strict=True)}
        detector = r"S3C-[a-z_]+-x" if self.kind == "code" else None
        return m.PIIMiddleware(self.kind, strategy=self.strategy, detector=detector, **options)

    def data(self, place: str) -> str:
        return str(KINDS[self.kind](place))

    def pieces(self, text: str) -> list[str]:
        """The text as a model streams it, in pieces of these sizes."""
        pieces = []
        for size in self.sizes:
            pieces.append(text[:size])
            text = text[size:]
        return [*filter(None, pieces), *([text] if text else [])]

    @property
    def removed(self) -> set[str]:
        """The places from which the guard removes data."""
        of_input, output, results, calls = self.places
        parts = ((of_input, INPUT), (output, OUTPUT), (results, RESULTS), (calls, CALLS))
        removed = {place for on, places in parts if on for place in places}
        return removed | (set(INSIDE) if output or results else set())

    @property
    def hidden(self) -> set[str]:
        """The places whose data the event protocol does not show, although the thread has it."""
        return {*CALLS, *RESULTS} if self.places[1] and self.way == "v3" else set()


@st.composite
def cases(draw: st.DrawFn) -> Case:
    names = draw(st.lists(st.sampled_from([*OTHERS]), max_size=3, unique=True))
    at = draw(st.integers(0, len(names)))
    return Case(
        kind=draw(st.sampled_from([*KINDS])),
        strategy=draw(st.sampled_from(["redact", "mask", "hash", "block"])),
        places=draw(st.tuples(*[st.booleans()] * 4).filter(any)),
        before=tuple(names[:at]),
        after=tuple(names[at:]),
        way=draw(st.sampled_from(WAYS)),
        sizes=tuple(draw(st.lists(st.integers(1, 9), max_size=8))),
        asynchronous=draw(st.booleans()),
        fused=draw(st.booleans()),
        saves=draw(st.booleans()),
        handlers=draw(st.booleans()),
        guards_subagent=draw(st.booleans()),
    )


def tools_of(case: Case) -> list[Any]:
    data = case.data

    def look(who: str, runtime: ToolRuntime) -> str:
        """Look up."""
        assert case.data("argument") in who or case.places[3]
        for piece in case.pieces(f"so far {data('delta')}"):
            runtime.emit_output_delta(piece)
        runtime.stream_writer({"progress": data("written")})
        get_stream_writer()(f"and {data('written')}")
        chain: Any = RunnableLambda(lambda text: f"{text} {data('chain')}")
        assert data("chain") in chain.invoke(data("chain"))
        model = ScriptedChatModel([Reply(chunks=case.pieces(f"token {data('token')}."))])
        assert data("token") in "".join(chunk.text for chunk in model.stream("hi")), "as it is"
        return f"found {data('result')}"

    def fails() -> str:
        """Fail."""
        raise ValueError(f"not found: {data('error')}")

    @tool
    def command() -> Any:
        """Command."""
        messages = [
            ToolMessage(f"in {data('result_in_command')}", tool_call_id="c3"),
            HumanMessage(f"I am {data('user_of_tool')}"),
        ]
        return Command(update={"messages": messages})

    def look_inside(who: str) -> str:
        """Look up."""
        assert data("argument_of_subagent") in who or case.guards_subagent
        return f"found {data('result_of_subagent')}"

    steps = [
        Reply(
            chunks=case.pieces(f"I ask {data('answer_of_subagent')}"),
            calls=[{"name": "look_inside", "args": {"who": data("argument_of_subagent")}}],
        ),
        Reply(chunks=case.pieces(f"It is {data('final_of_subagent')}.")),
    ]
    stack = [m.PIIMiddleware("mac_address", apply_to_output=True)] if case.guards_subagent else []
    options: Any = {"name": "clerk", "fused": case.fused}
    subagent = create_agent(ScriptedChatModel(steps), [look_inside], middleware=stack, **options)
    return [look, fails, command, agent_tool(subagent, description="Ask the clerk.")]


def agent_of(case: Case, saver: Any, decisions: Any) -> Any:
    calls = [
        {"name": "look", "args": {"who": case.data("argument")}, "id": "c1"},
        {"name": "fails", "args": {}, "id": "c2"},
        {"name": "command", "args": {}, "id": "c3"},
        {"name": "clerk", "args": {"request": case.data("request")}, "id": "c4"},
    ]
    steps = [
        Reply(chunks=case.pieces(f"I look for {case.data('answer')}."), calls=calls),
        Reply(chunks=case.pieces(f"It is {case.data('final')}")),
    ]
    stack = [OTHERS[name](case) for name in case.before]
    stack += [case.guard, *(OTHERS[name](case) for name in case.after)]
    return create_agent(
        ScriptedChatModel(steps),
        tools_of(case),
        middleware=stack,
        checkpointer=saver,
        fused=case.fused,
        decisions=decisions,
        handle_tool_errors=lambda error: f"failed: {error}",
    )


def history_of(case: Case) -> dict[str, Any]:
    call: Any = {"name": "look", "args": {"who": case.data("old_argument")}, "id": "old"}
    return {
        "messages": [
            HumanMessage(f"I am {case.data('old_user')}"),
            AIMessage(f"for {case.data('old_answer')}", tool_calls=[call]),
            ToolMessage(f"found {case.data('old_result')}", tool_call_id="old"),
            AIMessage(f"so {case.data('old_final')}"),
            ("user", f"and {case.data('user')}"),
        ]
    }


class Views:
    """Everything that was shown, by where; and texts that were shown in pieces, joined."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str]] = []
        self.pieces: dict[Any, list[str]] = {}

    def see(self, where: str, value: Any) -> None:
        self.shown.append((where, repr(value)))

    def piece(self, key: Any, text: Any) -> None:
        self.pieces.setdefault(key, []).append(text if isinstance(text, str) else repr(text))

    def of(self, data: str) -> list[str]:
        """Where data was shown."""
        joined = [(" ".join(map(str, key)), "".join(t)) for key, t in self.pieces.items()]
        return sorted({where for where, text in (*self.shown, *joined) if data in text})


EVENTS = [name for name in dir(BaseCallbackHandler) if name.startswith("on_")]


def handler_of(views: Views, base: Any) -> Any:
    """A handler that records all it gets."""

    def record(name: str) -> Any:
        def sync(self: Any, *args: Any, **kwargs: Any) -> None:
            # The first argument of a start describes the model, here with its script.
            shown = args[1:] if name.endswith("_start") else args
            views.see(f"{base.__name__}.{name}", (shown, kwargs))
            if name == "on_llm_new_token":
                token = args[0] if args else kwargs["token"]
                views.piece((base.__name__, name, kwargs["run_id"]), token)
                views.piece((base.__name__, "chunk", kwargs["run_id"]), kwargs["chunk"].text)

        async def asynchronous(self: Any, *args: Any, **kwargs: Any) -> None:
            sync(self, *args, **kwargs)

        return asynchronous if base is AsyncCallbackHandler else sync

    members: Any = {name: record(name) for name in EVENTS}
    return type("Recording", (base,), {**members, "raise_error": True})()


class Tracer(BaseTracer):
    raise_error = True

    def __init__(self, views: Views) -> None:
        super().__init__()
        self.views = views

    def _persist_run(self, run: Any) -> None:
        self.views.see("tracer", run.model_dump() if hasattr(run, "model_dump") else vars(run))


def observe(case: Case, agent: Any, views: Views, spans: Spans) -> None:
    config: Any = {"configurable": {**THREAD}}
    if case.handlers:
        bases = [BaseCallbackHandler, *([AsyncCallbackHandler] if case.asynchronous else [])]
        telemetry = Telemetry(spans.provider, contents=True)
        config["callbacks"] = [*(handler_of(views, b) for b in bases), Tracer(views), telemetry]
    # A run that is blocked ends with an error, whose message does not show the data.
    with collect_runs() as runs, suppress(m.PIIDetectionError):
        if case.asynchronous or case.way in ("v1", "v2"):
            asyncio.run(run_async(case, agent, config, views))
        else:
            run_sync(case, agent, config, views)
    for run in runs.traced_runs:
        views.see("collected runs", (run.inputs, run.outputs, run.error, run.child_runs))
    for span in spans.started:
        views.see(f"span {span.name}", (span.attributes, [vars(event) for event in span.events]))


def view_of(case: Case, views: Views) -> tuple[str, dict[str, Any], Callable[[Any], None]]:
    """The method by which a run is viewed, its options, and what sees each part."""
    if case.way == "v3":
        return "stream_events", {"version": "v3"}, lambda event: see_event(views, event)
    if case.way in ("v1", "v2"):
        return "stream_events", {"version": case.way}, lambda event: see_old_event(views, event)
    modes = [*MODES] if case.way == "all" else [case.way]
    options = {"stream_mode": modes, "subgraphs": True}
    return "stream", options, lambda part: see_part(views, *part)


def run_sync(case: Case, agent: Any, config: Any, views: Views) -> None:
    if case.way == "invoke":
        views.see("result", agent.invoke(history_of(case), config))
        return
    method, options, see = view_of(case, views)
    for part in getattr(agent, method)(history_of(case), config, **options):
        see(part)


async def run_async(case: Case, agent: Any, config: Any, views: Views) -> None:
    if case.way == "invoke":
        views.see("result", await agent.ainvoke(history_of(case), config))
        return
    method, options, see = view_of(case, views)
    parts = getattr(agent, f"a{method}")(history_of(case), config, **options)
    async for part in await parts if case.way == "v3" else parts:
        see(part)


def see_old_event(views: Views, event: Any) -> None:
    views.see(f"{event['event']} {event['name']}", event)
    if (chunk := event["data"].get("chunk")) is not None:
        text = chunk if isinstance(chunk, str) else getattr(chunk, "text", "")
        views.piece((event["event"], event["run_id"]), text)


def see_part(views: Views, namespace: Any, mode: str, data: Any) -> None:
    views.see(f"{mode} {len(namespace)}", data)
    if mode == "messages":
        views.piece((mode, data[0].id), data[0].text)
    elif mode == "tools" and data["event"] == "tool-output-delta":
        views.piece((mode, data["tool_call_id"]), data["delta"])


def see_event(views: Views, event: Any) -> None:
    method, data = event["method"], event["params"]["data"]
    views.see(f"v3 {method} {len(event['params']['namespace'])}", data)
    if method == "messages" and isinstance(data, tuple) and isinstance(data[0], dict):
        delta = data[0].get("delta") or {}
        key = (f"v3 {method}", data[1].get("run_id"), data[0].get("index"))
        views.piece(key, delta.get("text") or delta.get("args") or "")
    elif method == "tools" and data["event"] == "tool-output-delta":
        views.piece((f"v3 {method}", data["tool_call_id"]), data["delta"])


def see_thread(agent: Any, saver: Any, views: Views) -> None:
    """The thread itself; that of an agent in a tool is what the agent goes on with."""
    config: Any = {"configurable": {**THREAD}}
    for snapshot in agent.get_state_history(config):
        views.see("history", snapshot)
    for entry in saver.list(None):
        if entry.config["configurable"]["checkpoint_ns"] == "":
            views.see("checkpoint", (entry.checkpoint, entry.pending_writes, entry.metadata))


def leaks(case: Case) -> Mapping[str, Sequence[str]]:
    saver = InMemorySaver() if case.saves else None
    views, spans = Views(), Spans()
    log = DecisionLog(lambda decision: views.see("decision", decision), contents=True)
    agent = agent_of(case, saver, log if case.handlers else None)
    observe(case, agent, views, spans)
    if saver is not None:
        see_thread(agent, saver, views)
    places = {place: views.of(case.data(place)) for place in PLACES}
    leaks = {place: places[place] for place in case.removed}
    for place in case.hidden:
        leaks[place] = leaks.get(place) or [w for w in places[place] if w.startswith("v3")]
    return {place: where for place, where in leaks.items() if where}


@pytest.mark.long
@settings.get_profile("costly")
@given(case=cases())
def test_what_a_guard_removes_is_in_no_view_of_a_run(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    assert leaks(case) == {}
    callbacks = "langchain_core.callbacks.manager"
    assert [r.getMessage() for r in caplog.records if r.name == callbacks] == []
