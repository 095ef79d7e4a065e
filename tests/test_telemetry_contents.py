"""Telemetry: what spans hold of messages, arguments and results, and what never."""

from __future__ import annotations

import json
from typing import Annotated, Any, NotRequired

import pytest
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from spans import ASK, Broken, Flows, Spans, adding, watched

from agent_factory import AgentMiddleware, AgentState, PrivateStateAttr, create_agent
from agent_factory.prebuilt import InjectedState
from agent_factory.testing import ScriptedChatModel
from samples import add

# Contents


class Secret(AgentState[Any]):
    pin: NotRequired[Annotated[str, PrivateStateAttr]]


class KeepsPin(AgentMiddleware):
    state_schema = Secret

    def before_model(self, state: Any, runtime: Any) -> Any:
        return {"pin": "PIN 4711"}


def mailing() -> Any:
    def read_mail(folder: str, state: Annotated[dict[str, Any], InjectedState]) -> Any:
        """Read mail."""
        found = ToolMessage("two letters", tool_call_id="c-1")
        return Command(update={"messages": [found], "pin": "PIN 4712"})

    asked: Any = [{"name": "read_mail", "args": {"folder": "inbox"}, "id": "c-1"}]
    return create_agent(
        ScriptedChatModel([asked, "You have two."]),
        [read_mail],
        middleware=[KeepsPin(), Flows()],
        system_prompt="Be brief.",
        name="desk",
    )


TEXTS = ("2 + 3?", "inbox", "two letters", "You have two.", "Be brief.")


def test_without_contents_no_text_is_in_the_spans(call: Any, spans: Spans) -> None:
    call(mailing(), ASK, watched(spans))
    recorded = "".join(span.to_json() for span in spans.started)
    assert not [text for text in (*TEXTS, "PIN") if text in recorded]


def test_with_contents_spans_hold_messages_arguments_and_results(call: Any, spans: Spans) -> None:
    call(mailing(), ASK, watched(spans, contents=True))
    second: Any = [dict(span.attributes or {}) for span in spans.started if "chat" in span.name][1]
    assert json.loads(second["gen_ai.system_instructions"]) == [
        {"type": "text", "content": "Be brief."}
    ]
    asked = {"id": "c-1", "name": "read_mail", "arguments": {"folder": "inbox"}}
    read = {"id": "c-1", "response": "two letters"}
    question = {"role": "user", "parts": [{"type": "text", "content": "2 + 3?"}]}
    answer = [{"role": "assistant", "parts": [{"type": "text", "content": "You have two."}]}]
    assert json.loads(second["gen_ai.input.messages"]) == [
        question,
        {"role": "assistant", "parts": [{"type": "tool_call", **asked}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", **read}]},
    ]
    assert json.loads(second["gen_ai.output.messages"]) == answer
    run = spans.says("invoke_agent desk")
    assert json.loads(run["gen_ai.input.messages"]) == [question]
    assert json.loads(run["gen_ai.output.messages"]) == answer
    of_tool = spans.says("execute_tool read_mail")
    assert json.loads(of_tool["gen_ai.tool.call.arguments"]) == {"folder": "inbox"}
    assert json.loads(of_tool["gen_ai.tool.call.result"]) == ["two letters"]


def test_state_is_never_in_the_spans(call: Any, spans: Spans) -> None:
    call(mailing(), ASK, watched(spans, contents=True))
    recorded = "".join(span.to_json() for span in spans.started)
    assert [text for text in TEXTS if text not in recorded] == []
    assert "PIN" not in recorded


def test_with_contents_the_exception_is_an_event(call: Any, spans: Spans) -> None:
    with pytest.raises(Broken):
        call(create_agent(ScriptedChatModel([Broken("why")])), ASK, watched(spans, contents=True))
    (event,) = spans.of("chat ScriptedChatModel").events
    assert (event.attributes or {})["exception.message"] == "why"


@pytest.mark.parametrize("given", [{"messages": 5}, {"messages": [object()]}, {"messages": "Hi"}])
def test_contents_of_any_input_do_not_disturb_the_run(call: Any, spans: Spans, given: Any) -> None:
    outcomes = []
    config: Any
    for config in ({}, watched(spans, contents=True)):
        try:
            done = call(create_agent(ScriptedChatModel(["Hi."])), given, config)
            outcomes.append(done["messages"][-1].text)
        except Exception as error:
            outcomes.append(str(error)[:50])
    assert outcomes[0] == outcomes[1]


def test_a_run_that_pauses_after_its_tools_has_no_answer(call: Any, spans: Spans) -> None:
    config = watched(spans, contents=True)
    options: Any = {"checkpointer": InMemorySaver(), "interrupt_after": ["tools"]}
    call(create_agent(adding(), [add], name="desk", **options), ASK, config)
    assert "gen_ai.output.messages" not in spans.says("invoke_agent desk")


def test_what_nodes_write_is_not_recorded(call: Any, spans: Spans) -> None:
    graph: Any = StateGraph(MessagesState).add_node("b", lambda _: {"messages": [("ai", "Hi.")]})
    call(graph.add_edge(START, "b").compile(name="desk"), ASK, watched(spans, contents=True))
    assert spans.says("b") == {}
    assert "Hi." in spans.says("invoke_agent desk")["gen_ai.output.messages"]


def test_of_images_only_the_type_is_recorded(call: Any, spans: Spans) -> None:
    image = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
    asked: Any = {"messages": [("user", [{"type": "text", "text": "What?"}, image])]}
    call(create_agent(ScriptedChatModel(["A cat."])), asked, watched(spans, contents=True))
    said = spans.says("chat ScriptedChatModel")["gen_ai.input.messages"]
    parts = [{"type": "text", "content": "What?"}, {"type": "image_url"}]
    assert json.loads(said) == [{"role": "user", "parts": parts}]
