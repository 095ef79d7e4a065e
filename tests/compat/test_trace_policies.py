"""Spans of built-ins record what those of langchain's record, in LangSmith's own tracer."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from decision_models import ScriptedDecisionModel
from langchain_core.tracers import LangChainTracer
from langsmith import Client
from langsmith.run_helpers import tracing_context

import agent_factory.middleware as ours
from agent_factory import create_agent
from agent_factory.testing import ScriptedChatModel
from samples import add_tool as add
from samples import awrap, wrap
from tables import each

theirs = pytest.importorskip("langchain.agents.middleware", reason="the extra peer is missing")
agents = pytest.importorskip("langchain.agents")

pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")

ASK: Any = {"messages": [("user", "2 + 3?")]}
CALL = [{"name": "add", "args": {"a": 2, "b": 3}, "id": "1"}]
FAMILIES = {"langchain": (theirs, agents.create_agent), "ours": (ours, create_agent)}


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
        call(agent, ASK, {"callbacks": [LangChainTracer(client=client)]})
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
@pytest.mark.parametrize("kind", ["langchain's", "ours"])
def test_the_default_may_be_set_after_an_agent_was_built(call: Any, kind: str, fused: bool) -> None:
    """As in langchain: it holds for hooks and layers, those written for langchain's class too."""

    def both_ways(package: Any) -> Any:
        def before_model(self: Any, state: Any, runtime: Any) -> dict[str, Any]:
            return {"messages": []}

        async def abefore_model(self: Any, state: Any, runtime: Any) -> dict[str, Any]:
            return {"messages": []}

        names: dict[str, Any] = {"before_model": before_model, "abefore_model": abefore_model}
        names |= {f"wrap_{what}_call": wrap for what in ("model", "tool")}
        names |= {f"awrap_{what}_call": awrap for what in ("model", "tool")}
        return type("Passing", (package.AgentMiddleware,), names)()

    hidden = ours.TracePolicy(process_inputs=ours.omit_payload, process_outputs=ours.omit_payload)

    def agent() -> Any:
        member = both_ways(theirs if kind == "langchain's" else ours)
        model = ScriptedChatModel([CALL, "5", CALL, "5"])
        return create_agent(model, [add], middleware=[member], fused=fused)

    built = agent()
    assert what_is_recorded(built, call, "Passing") == {(True, True)}
    ours.configure_trace_policy(hidden)
    try:
        assert what_is_recorded(built, call, "Passing") == {(False, False)}
    finally:
        ours.configure_trace_policy(None)
    assert what_is_recorded(agent(), call, "Passing") == {(True, True)}
