"""With a tracer, layers are spans: named, nested in order, recorded according to their policy."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.tracers.base import BaseTracer
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt
from spans import CALL, Flows, adding

from agent_factory import (
    AgentMiddleware,
    Invoke,
    TracePolicy,
    configure_trace_policy,
    create_agent,
    omit_payload,
)
from agent_factory.middleware import PIIMiddleware
from agent_factory.runtime import composition
from agent_factory.testing import ScriptedChatModel
from samples import PassingWraps, add
from tables import each

ASK: Any = {"messages": [("user", "2 + 3?")]}
MODES: Any = ["updates", "values", "messages", "custom", "tasks", ["messages", "values"]]
HIDDEN = TracePolicy(process_inputs=omit_payload, process_outputs=omit_payload)


class Tracer(BaseTracer):
    """Keeps the finished traces."""

    def __init__(self) -> None:
        super().__init__()
        self.traces: list[Any] = []

    def _persist_run(self, run: Any) -> None:
        self.traces.append(run)

    @property
    def config(self) -> Any:
        return {"callbacks": [self]}


class Wraps(PassingWraps, AgentMiddleware):
    pass


class Asking(AgentMiddleware):
    def around_model(self, request: Any) -> Any:
        yield Invoke(ScriptedChatModel(["Aside."], name="Other"), "?")
        return (yield request)


def tree(run: Any) -> Any:
    """A trace as names: a name alone, or a name with what ran inside it."""
    inside = [tree(child) for child in run.child_runs]
    return (run.name, inside) if inside else run.name


def walk(run: Any) -> Iterator[Any]:
    """A run and all runs inside it, in the order of the trace."""
    yield run
    for child in run.child_runs:
        yield from walk(child)


def spans(tracer: Tracer, name: str) -> list[Any]:
    """All runs of a name, in the order of the trace."""
    return [run for trace in tracer.traces for run in walk(trace) if run.name == name]


@pytest.fixture(autouse=True)
def _default_policy() -> Iterator[None]:
    yield
    configure_trace_policy(None)


def test_nodes_and_layers_are_spans_that_record_requests_and_responses(call: Any) -> None:
    """ToolNode passes a tool the config of the node, so its run is a sibling of layers' spans."""
    tracer = Tracer()
    members = [Flows(name="a"), Wraps(name="b"), Flows(name="c")]
    agent = create_agent(adding("It is five."), [add], middleware=members, name="desk")
    call(agent, ASK, tracer.config)
    (trace,) = tracer.traces
    assert trace.metadata["ls_integration"] == "agent_factory"
    assert {run.metadata["lc_agent_name"] for run in walk(trace)} == {"desk"}
    hooks = ["a.before_model", "c.before_model"]
    innermost = ("c.around_model", ["ScriptedChatModel"])
    turn = [*hooks, ("model", [("a.around_model", [("b.wrap_model_call", [innermost])])])]
    tool_layers = ("a.around_tool", [("b.wrap_tool_call", ["c.around_tool"])])
    assert tree(trace)[1] == [*turn, ("tools", [tool_layers, "add"]), *turn]
    span, _ = spans(tracer, "a.around_model")
    assert span.inputs["value"].messages[0].text == "2 + 3?"
    assert span.outputs["value"].result[0].tool_calls[0]["name"] == "add"
    assert span.error is None
    assert span.end_time is not None


def test_model_calls_of_a_layer_are_inside_its_span(call: Any) -> None:
    tracer = Tracer()
    call(create_agent(ScriptedChatModel(["Hi."]), middleware=[Asking()]), ASK, tracer.config)
    (span,) = spans(tracer, "Asking.around_model")
    assert [child.name for child in span.child_runs] == ["Other", "ScriptedChatModel"]


@each("error", [ValueError("boom"), None])
def test_an_error_or_an_interrupt_ends_every_span_that_it_passes(call: Any, error: Any) -> None:
    class Last(AgentMiddleware):
        def around_model(self, request: Any) -> Any:
            if error is not None:
                raise error
            return (yield request.override(system_prompt=interrupt("May I?")))

    tracer, stack = Tracer(), [Flows(), Last()]
    agent = create_agent(ScriptedChatModel(), middleware=stack, checkpointer=InMemorySaver())
    config = {**tracer.config, "configurable": {"thread_id": "1"}}
    if error is None:
        assert call(agent, ASK, config)["__interrupt__"][0].value == "May I?"
    else:
        with pytest.raises(ValueError, match="boom"):
            call(agent, ASK, config)
    for name in ("Flows.around_model", "Last.around_model"):
        (span,) = spans(tracer, name)
        assert error is None or "boom" in span.error
        assert span.end_time is not None


def test_a_traced_agent_still_streams_tokens(collect: Any) -> None:
    """wanted 7: and what its layers ask is still not."""
    agent = create_agent(ScriptedChatModel(["It is five."]), middleware=[Flows(), Asking()])
    chunks = collect(agent, ASK, Tracer().config, stream_mode="messages")
    assert [message.text for message, _ in chunks if message.text] == ["It ", "is ", "five."]


def recorded(tracer: Tracer, name: str) -> tuple[Any, Any]:
    run = spans(tracer, name)[0]
    return run.inputs, run.outputs


NAMES = ["around_model", "around_tool", "before_model"]


def test_a_policy_may_say_what_is_recorded_instead(call: Any) -> None:
    class Counted(AgentMiddleware):
        trace_policy = TracePolicy(
            process_inputs=lambda request: {"messages": len(request.messages)},
            process_outputs=lambda response: len(response.result),
        )

        def around_model(self, request: Any) -> Any:
            return (yield request)

    tracer = Tracer()
    agent = create_agent(ScriptedChatModel(["Hi."]), middleware=[Counted()])
    result = call(agent, ASK, tracer.config)
    assert recorded(tracer, "Counted.around_model") == ({"messages": 1}, {"value": 1})
    assert result["messages"][-1].text == "Hi.", "what a policy records changes nothing"


@each("fused", [True, False])
def test_the_process_wide_policy_holds_where_no_other_does_also_for_agents_built_already(
    call: Any, fused: bool
) -> None:
    class Closed(Flows):
        trace_policy = HIDDEN

    class Open(Flows):
        trace_policy = TracePolicy()

    stack = [Closed(), Open(), Flows()]
    agent = create_agent(adding("5", CALL, "5"), [add], middleware=stack, fused=fused)
    for policy in (HIDDEN, None):
        configure_trace_policy(policy)
        tracer = Tracer()
        call(agent, ASK, tracer.config)
        for hook in NAMES:
            assert recorded(tracer, f"Closed.{hook}") == ({}, {})
            assert all(recorded(tracer, f"Open.{hook}"))
            assert (recorded(tracer, f"Flows.{hook}") == ({}, {})) is (policy is HIDDEN)


@pytest.mark.parametrize("fused", [True, False])
def test_a_policy_that_raises_hides_the_payload_and_does_not_end_the_run(
    call: Any, fused: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(payload: Any) -> Any:
        raise ValueError(payload)

    class Failing(Flows):
        trace_policy = TracePolicy(process_inputs=fail, process_outputs=fail)

    tracer = Tracer()
    agent = create_agent(adding("It is five."), [add], middleware=[Failing()], fused=fused)
    assert call(agent, ASK, tracer.config)["messages"][-1].text == "It is five."
    sides = ("process_inputs", "process_outputs")
    for hook in NAMES:
        assert recorded(tracer, f"Failing.{hook}") == tuple(
            {"error": f"{side} raised ValueError: the payload is not recorded."} for side in sides
        )
    assert "trace_policy of Failing: process_inputs raised ValueError" in caplog.text


def test_personal_data_is_not_recorded_before_it_is_redacted(call: Any) -> None:
    """The span of PIIMiddleware would hold the request as it was."""
    tracer = Tracer()
    guard = PIIMiddleware("email", apply_to_output=True)
    agent = create_agent(ScriptedChatModel(["Write to bob@example.org."]), middleware=[guard])
    call(agent, {"messages": [("user", "I am ada@example.org")]}, tracer.config)
    runs = [run for trace in tracer.traces for run in walk(trace) if run.name.startswith("PII")]
    assert runs
    for run in runs:
        assert "@" not in f"{run.inputs} {run.outputs}"


class Listener(BaseCallbackHandler):
    """A callback handler that is not a tracer."""

    def __init__(self) -> None:
        self.runs: set[Any] = {None}
        self.parents: set[Any] = set()

    def on_chain_start(self, *_: Any, run_id: Any, parent_run_id: Any = None, **__: Any) -> None:
        self.runs.add(run_id)
        self.parents.add(parent_run_id)

    def on_chat_model_start(self, *_: Any, parent_run_id: Any = None, **__: Any) -> None:
        self.parents.add(parent_run_id)


@pytest.mark.parametrize("callbacks", [[], [Listener()]], ids=["nobody", "a listener"])
def test_without_a_tracer_no_span_is_made(
    call: Any, monkeypatch: pytest.MonkeyPatch, callbacks: list[Any]
) -> None:
    """wanted 12: layers cost nothing that nobody looks at."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        pytest.fail("a span was made")

    monkeypatch.setattr(composition, "get_callback_manager_for_config", refuse)
    agent = create_agent(adding("It is five."), [add], middleware=[Flows(), Wraps()])
    assert call(agent, ASK, {"callbacks": callbacks})["messages"][-1].text == "It is five."


def test_every_handler_knows_the_parent_of_a_call(call: Any) -> None:
    """A tracer sees no layers if another handler sees nodes alone."""
    listener, tracer = Listener(), Tracer()
    agent = create_agent(ScriptedChatModel(["Hi."]), middleware=[Flows(), Wraps()])
    call(agent, ASK, {"callbacks": [listener, tracer]})
    assert listener.parents <= listener.runs
    assert not spans(tracer, "Flows.around_model")


@each("mode, inline, fused", product(MODES, [True, False], [True, False]))
def test_a_tracer_in_every_callback_manager_sees_each_run_once(
    monkeypatch: pytest.MonkeyPatch, mode: Any, inline: bool, fused: bool
) -> None:
    """OpenInference and MLflow add themselves to each manager that anybody makes."""
    init, tracer = BaseCallbackManager.__init__, Tracer()
    tracer.run_inline = inline

    def init_with_tracer(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        if tracer not in self.inheritable_handlers:
            self.add_handler(tracer)

    def add(a: int, b: int) -> str:
        """Ask another agent for the sum."""
        inner = create_agent(ScriptedChatModel(["Five."]), name="inner", fused=fused)
        return str(inner.invoke(ASK)["messages"][-1].text)

    async def read() -> None:
        async for _ in outer.astream(ASK, config, stream_mode=mode, subgraphs=True):
            pass

    monkeypatch.setattr(BaseCallbackManager, "__init__", init_with_tracer)
    model = ScriptedChatModel([CALL, "Five.", CALL, "Five."])
    outer = create_agent(model, [add], middleware=[Flows(name="a")], name="outer", fused=fused)
    config: Any = {"callbacks": [Listener()]}  # an asynchronous run calls it in a thread
    list(outer.stream(ASK, config, stream_mode=mode, subgraphs=True))
    asyncio.run(read())
    node = ("model", ["ScriptedChatModel"])
    tools = ("tools", [("add", [("inner", [node])])])
    nodes = ["a.before_model", node, tools, "a.before_model", node]
    assert [tree(trace) for trace in tracer.traces] == [("outer", nodes)] * 2
