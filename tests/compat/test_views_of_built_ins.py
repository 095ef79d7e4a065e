"""What callers and tracers see of each built-in: all that langchain's shows of its counterpart.

Texts differ, and these may show more. Nothing that a front end reads may be missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from built_in_cases import CASES, Case, says
from decision_models import ScriptedDecisionModel
from langchain_core.messages import BaseMessage
from langchain_core.tracers import LangChainTracer
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Interrupt
from langsmith import Client
from langsmith.run_helpers import tracing_context

import agent_factory.middleware as ours
import agent_factory.structured_output as our_output
from agent_factory import create_agent
from agent_factory.testing import ScriptedChatModel
from samples import THREAD, Answer, awrap, broken, scripted, wrap
from samples import add_tool as add
from tables import each

langchain = pytest.importorskip("langchain.agents", reason="the extra peer is missing")
theirs = pytest.importorskip("langchain.agents.middleware")
their_output = pytest.importorskip("langchain.agents.structured_output")

pytestmark = [
    pytest.mark.filterwarnings("ignore:The v3 streaming protocol"),
    pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning"),
    pytest.mark.filterwarnings("ignore:astream_events version='v1' is deprecated"),
]


def invoked(agent: Any, ask: Any, config: Any) -> Any:
    return agent.invoke(ask, config)


def messages(version: str) -> Callable[..., Any]:
    def view(agent: Any, ask: Any, config: Any) -> Any:
        parts = agent.stream(ask, config, stream_mode="messages", version=version)
        pairs = [part["data"] if version == "v2" else part for part in parts]
        return [(metadata["langgraph_node"], message) for message, metadata in pairs]

    return view


def updates(version: str) -> Callable[..., Any]:
    def view(agent: Any, ask: Any, config: Any) -> Any:
        # What is a hook there may be a layer here: only the nodes of the loop are compared.
        parts = agent.stream(ask, config, stream_mode="updates", version=version)
        data = [part["data"] if version == "v2" else part for part in parts]
        shown = ("model", "tools", "__interrupt__")
        return [{key: part[key]} for part in data for key in shown if key in part]

    return view


def events(version: str) -> Callable[..., Any]:
    async def view(agent: Any, ask: Any, config: Any) -> Any:
        return [
            (event["event"], event["name"], event["data"].keys(), event["data"].get("output"))
            async for event in agent.astream_events(ask, config, version=version)
            if event["event"].startswith(("on_chat_model", "on_tool"))
        ]

    return lambda *arguments: asyncio.run(view(*arguments))


def protocol(agent: Any, ask: Any, config: Any) -> Any:
    shown = [
        (event["method"], event["params"]["data"])
        for event in agent.stream_events(ask, config, version="v3")
        if event["method"] in ("messages", "tools")
    ]
    return [(method, data[0] if isinstance(data, tuple) else data) for method, data in shown]


VIEWS: dict[str, Callable[..., Any]] = {
    "invoke": invoked,
    "messages v1": messages("v1"),
    "messages v2": messages("v2"),
    "updates v1": updates("v1"),
    "updates v2": updates("v2"),
    "events v1": events("v1"),
    "events v2": events("v2"),
    "events v3": protocol,
}

A_LAYER = "a layer writes with the model's answer what a hook writes by itself there"
ASKED_ONCE = "the choice for a question is asked once, not in each turn"
DIFFERENT = {
    ("summaries", "messages v1"): A_LAYER,
    ("summaries", "messages v2"): A_LAYER,
    ("summaries", "events v3"): A_LAYER,
    **{
        (name, f"updates {version}"): A_LAYER
        for name in ("summaries", "tool limit", "tool limit, end")
        for version in ("v1", "v2")
    },
    ("tool selection", "events v1"): ASKED_ONCE,
    ("tool selection", "events v2"): ASKED_ONCE,
}
"""Cases and views that differ, and why."""

SAME = {"type", "role", "name", "tool_call_id", "status", "event", "lc_source", "decision"}
"""Keys whose values are compared. Texts differ, and ids of runs do in each run."""


def plain(value: Any) -> Any:
    """Messages, commands and interrupts as plain values."""
    if isinstance(value, BaseMessage):
        kept = value.model_dump(exclude={"id", "response_metadata"})
        return {key: plain(item) for key, item in kept.items()}
    if isinstance(value, Interrupt):
        return plain(value.value)
    if isinstance(value, Command):
        return {"update": plain(value.update)}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return sorted(value) if isinstance(value, type({}.keys())) else value


def missing(there: Any, here: Any, path: str = "", key: Any = None) -> Iterator[str]:
    """Paths of what langchain shows and these do not."""
    if isinstance(there, dict) and isinstance(here, dict):
        for name, value in there.items():
            if name in here:
                yield from missing(value, here[name], f"{path}.{name}", name)
            else:
                yield f"{path}.{name} is missing"
    elif isinstance(there, list) and isinstance(here, list):
        if len(there) != len(here):
            yield f"{path} has {len(here)} items for {len(there)}"
        for at, (value, counterpart) in enumerate(zip(there, here, strict=False)):
            yield from missing(value, counterpart, f"{path}[{at}]", key)
    elif there is None:
        return
    elif type(there) is not type(here) or (key in SAME and there != here):
        yield f"{path} is {here!r} for {there!r}"


def views(factory: Any, package: Any, case: Case, view: Callable[..., Any]) -> list[Any]:
    stack, steps, inputs = case
    agent = factory(
        says(*steps), [add, broken], middleware=stack(package), checkpointer=InMemorySaver()
    )
    return [plain(view(agent, ask, THREAD)) for ask in inputs]


@pytest.mark.parametrize("view", VIEWS)
@each("name", CASES)
def test_all_that_langchain_shows_is_shown(name: str, view: str) -> None:
    there = views(langchain.create_agent, theirs, CASES[name], VIEWS[view])
    here = views(create_agent, ours, CASES[name], VIEWS[view])
    differences = list(missing(there, here))
    assert bool(differences) == ((name, view) in DIFFERENT), differences


ASK: Any = {"messages": [("user", text) for text in ("One.", "Two.", "2 + 3?")]}
ADDING: Any = [{"name": "add", "args": {"a": 2, "b": 3}, "id": "1"}]
FACTORIES = [(langchain.create_agent, theirs, their_output), (create_agent, ours, our_output)]

Build = Callable[[Any, Any, Any], Any]
"""Makes an agent of a factory, a package of middleware and one of strategies."""


def giving(*values: Any) -> list[Any]:
    return [[{"name": "Answer", "args": {"number": v}, "id": f"{n}"}] for n, v in enumerate(values)]


AGENTS: dict[str, Build] = {
    "plain": lambda make, _, __: make(scripted("Hi")),
    "tools": lambda make, _, __: make(scripted(ADDING, "5"), [add]),
    "parallel": lambda make, _, __: make(scripted([*ADDING, {**ADDING[0], "id": "2"}], "5"), [add]),
    "by tool": lambda make, _, output: make(
        scripted(ADDING, *giving(5)), [add], response_format=output.ToolStrategy(Answer)
    ),
    "asked again": lambda make, _, output: make(
        scripted(*giving("five", 5)), [], response_format=output.ToolStrategy(Answer)
    ),
    "by provider": lambda make, _, output: make(
        scripted('{"number": 5}'), [], response_format=output.ProviderStrategy(Answer)
    ),
}


def shape(value: Any) -> Any:
    """Kinds and keys, without texts, which differ."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value]
    update = getattr(value, "update", None)
    name = type(value).__name__
    return (name, shape(update)) if isinstance(update, dict) else name


@each("build", AGENTS.values())
def test_the_updates_and_states_of_a_run_have_the_same_shape(collect: Any, build: Build) -> None:
    one, other = (
        collect(build(*factory), ASK, stream_mode=["updates", "values"]) for factory in FACTORIES
    )
    assert shape(one) == shape(other)


# The output of a node that asks again holds the count of it too, in a reserved key.
@each("name", sorted(AGENTS.keys() - {"asked again"}))
def test_the_events_of_nodes_have_the_same_outputs(name: str) -> None:
    async def outputs(agent: Any) -> list[Any]:
        events = [event async for event in agent.astream_events(ASK, version="v2")]
        ended = [event for event in events if event["event"] == "on_chain_end"]
        return [(event["name"], shape(event["data"]["output"])) for event in ended]

    one, other = (asyncio.run(outputs(AGENTS[name](*factory))) for factory in FACTORIES)
    assert one == other


@each("make, built_ins", [factory[:2] for factory in FACTORIES])
def test_the_event_protocol_shows_nothing_that_a_guard_of_output_redacts(
    make: Any, built_ins: Any
) -> None:
    """Neither of the agent, with its tools, nor of an agent inside of a tool."""
    got: list[str] = []

    def look(who: str) -> str:
        """Look up."""
        got.append(who)
        return f"{who} is bob@x.org"

    def ask(who: str) -> str:
        """Ask."""
        script = scripted([{"name": "look", "args": {"who": who}, "id": "i1"}], "see kim@x.org")
        return str(make(script, [look]).invoke({"messages": [("user", who)]})["messages"][-1].text)

    calls = [{"name": n, "args": {"who": f"{n}@x.org"}, "id": n} for n in ("look", "ask")]
    options = {"apply_to_output": True, "apply_to_tool_results": True}
    guard = built_ins.PIIMiddleware("email", **options)
    agent = make(scripted(calls, "so zoe@x.org"), [look, ask], middleware=[guard])
    events = list(agent.stream_events({"messages": [("user", "eve@x.org")]}, version="v3"))
    assert {"messages", "tools", "values"} <= {event["method"] for event in events}
    assert "@x.org" not in repr([event["params"]["data"] for event in events])
    assert sorted(got) == ["ask@x.org", "look@x.org"]


SUM: Any = {"messages": [("user", "2 + 3?")]}
CALL = [{"name": "add", "args": {"a": 2, "b": 3}, "id": "1"}]
FAMILIES = {"langchain": (theirs, langchain.create_agent), "ours": (ours, create_agent)}


class Spans(Client):
    """A client of LangSmith that keeps the runs it should send."""

    def __init__(self) -> None:
        super().__init__(api_url="http://localhost:1", api_key="none", auto_batch_tracing=False)
        self.sent: dict[UUID, dict[str, Any]] = {}

    def create_run(self, name: str, inputs: Any, run_type: Any, **fields: Any) -> None:
        self.sent[fields["id"]] = {"name": name, "inputs": inputs}

    def update_run(self, run_id: Any, **fields: Any) -> None:
        self.sent[run_id]["outputs"] = fields.get("outputs")


def router(package: Any) -> Any:
    choice = package.ModelChoice(ScriptedChatModel([CALL, "5"]), "all questions")
    return package.ModelRouterMiddleware(
        choices={"same": choice}, classifier=judge("same"), instructions="Which?"
    )


def judge(answer: Any) -> ScriptedDecisionModel:
    return ScriptedDecisionModel(answers=[answer] * 2)


BUILT_INS: dict[str, Any] = {
    "AutoModeMiddleware": lambda p: p.AutoModeMiddleware(tools=["add"], classifier=judge(0.0)),
    "ModelFallbackMiddleware": lambda p: p.ModelFallbackMiddleware(ScriptedChatModel([])),
    "ModelRefusalMiddleware": lambda p: p.ModelRefusalMiddleware(),
    "ModelRetryMiddleware": lambda p: p.ModelRetryMiddleware(),
    "ModelRouterMiddleware": router,
    "ToolErrorMiddleware": lambda p: p.ToolErrorMiddleware(on_error=repr),
    "ToolRetryMiddleware": lambda p: p.ToolRetryMiddleware(),
}


def what_is_recorded(agent: Any, call: Any, name: str) -> set[tuple[bool, bool]]:
    """Whether spans of a middleware hold inputs and outputs."""
    client = Spans()
    with tracing_context(enabled=True, client=client):
        call(agent, SUM, {"callbacks": [LangChainTracer(client=client)]})
    runs = [r for r in client.sent.values() if r["name"].startswith(f"{name}.")]
    assert runs
    return {(bool(run["inputs"]), bool(run["outputs"])) for run in runs}


@each("fused", [True, False])
@each("name", BUILT_INS)
def test_a_tracer_sees_as_much_of_a_built_in_as_of_langchains(
    call: Any, name: str, fused: bool
) -> None:
    seen = {}
    for family, (package, create) in FAMILIES.items():
        member = BUILT_INS[name](package)
        options = {"fused": fused} if family == "ours" else {}
        agent = create(ScriptedChatModel([CALL, "5"]), [add], middleware=[member], **options)
        seen[family] = what_is_recorded(agent, call, name)
    assert seen["ours"] == seen["langchain"]


@pytest.mark.parametrize("fused", [True, False])
def test_the_default_may_be_set_after_an_agent_was_built(call: Any, fused: bool) -> None:
    """As in langchain: it holds for hooks and layers that are written for langchain's class."""

    class Passing(theirs.AgentMiddleware):  # type: ignore[misc, name-defined]
        wrap_model_call = wrap_tool_call = wrap
        awrap_model_call = awrap_tool_call = awrap

        def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
            return {"messages": []}

    hidden = ours.TracePolicy(process_inputs=ours.omit_payload, process_outputs=ours.omit_payload)

    def agent() -> Any:
        model = ScriptedChatModel([CALL, "5", CALL, "5"])
        return create_agent(model, [add], middleware=[Passing()], fused=fused)

    built = agent()
    assert what_is_recorded(built, call, "Passing") == {(True, True)}
    ours.configure_trace_policy(hidden)
    try:
        assert what_is_recorded(built, call, "Passing") == {(False, False)}
    finally:
        ours.configure_trace_policy(None)
    assert what_is_recorded(agent(), call, "Passing") == {(True, True)}
