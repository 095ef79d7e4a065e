"""The decision log holds no word of what was said, unless it is asked to."""

from __future__ import annotations

import json
from typing import Any, NotRequired

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from agent_factory import (
    AgentMiddleware,
    AgentState,
    Decision,
    DecisionLog,
    ExtendedModelResponse,
    Jump,
    create_agent,
    hook_config,
)
from agent_factory.testing import ScriptedChatModel
from samples import Answer
from tables import each

SECRET = "S3CR3T"
THREAD: Any = {"configurable": {"thread_id": "one"}}
ASK: Any = {
    "messages": [
        AIMessage(SECRET, tool_calls=[{"name": "add", "args": {"a": SECRET}, "id": "0"}]),
        HumanMessage(SECRET),
    ]
}


class Kept(AgentState):
    kept: NotRequired[Any]


class Busy(AgentMiddleware):
    """Goes every way a hook and a layer can go, with a secret in its hands."""

    state_schema = Kept

    def before_agent(self, state: Any, runtime: Any) -> Any:
        return {"kept": SECRET, "messages": [HumanMessage(SECRET)], "reason": "author's words"}

    @hook_config(can_jump_to=["model"])
    def after_model(self, state: Any, runtime: Any) -> Any:
        if any(message.text == f"{SECRET} once" for message in state["messages"][-2:]):
            return Jump("model", reason="once more", messages=[HumanMessage(SECRET)], kept=SECRET)
        return Command(update={"kept": [SECRET]})

    def after_agent(self, state: Any, runtime: Any) -> Any:
        interrupt(SECRET)

    def around_model(self, request: Any) -> Any:
        try:
            response = yield request.override(system_prompt=SECRET, messages=request.messages[-1:])
        except OSError:
            response = yield request
        return ExtendedModelResponse(response, Command(update={"kept": SECRET}))

    def around_tool(self, request: Any) -> Any:
        call = {**request.tool_call, "args": {**request.tool_call["args"], "more": SECRET}}
        response = yield request.override(tool_call=call)
        if request.tool_call["name"] == "add":
            return ToolMessage(SECRET, tool_call_id=request.tool_call["id"])
        return response


def add(a: str, more: str = "") -> str:
    """Add."""
    return SECRET


def fail(a: str, more: str = "") -> str:
    """Fail."""
    raise ValueError(SECRET)


def calls(*names: str) -> list[Any]:
    return [{"name": name, "args": {"a": SECRET}} for name in names]


STEPS: list[Any] = [
    OSError(SECRET),
    calls("add", "fail", "unknown"),
    lambda messages: AIMessage(
        SECRET, invalid_tool_calls=[{"name": "add", "args": SECRET, "id": "9", "error": SECRET}]
    ),
    f"{SECRET} once",
    [{"name": "Answer", "args": {"number": SECRET}}],
    f"in prose: {SECRET}",
    [{"name": "Answer", "args": {"number": 5}}],
]


def run(call: Any, decisions: Any) -> None:
    agent = create_agent(
        ScriptedChatModel(STEPS),
        [add, fail],
        system_prompt=SECRET,
        middleware=[Busy()],
        response_format=Answer,
        handle_tool_errors=True,
        checkpointer=InMemorySaver(),
        decisions=decisions,
        ignore=["AF201"],
    )
    call(agent, ASK, THREAD)
    call(agent, Command(resume=SECRET), THREAD)


def test_no_text_of_prompts_answers_arguments_errors_or_state_is_recorded(call: Any) -> None:
    log: list[Decision] = []
    run(call, log.append)
    verdicts = {str(decision.outcome) for decision in log}
    assert verdicts >= {
        *("wrote", "jumped", "changed request", "repeated", "routed", "reported error"),
        *("repaired", "explained", "interrupted"),
    }
    assert {"author's words", "once more"} <= {decision.reason for decision in log}
    for decision in log:
        assert SECRET not in f"{decision!r} {decision} {json.dumps(decision.to_data())}"
        assert "contents" not in decision.to_data()


def test_contents_are_recorded_on_request(call: Any) -> None:
    log: list[Decision] = []
    run(call, DecisionLog(log.append, contents=True))
    wrote = next(decision for decision in log if decision.hook == "before_agent")
    assert wrote.contents["kept"] == SECRET
    assert SECRET in json.dumps(wrote.to_data())
    raised = [d.contents for d in log if d.outcome == "interrupted"]
    assert SECRET in repr(raised)


MARK = "\N{SNOWMAN}"
# The words of a record are ASCII, and hypothesis draws such words from our own source: with the
# mark on both ends, no text is one of them, and the beginning or end of a text is found too.
TEXT = st.text(st.characters(codec="utf-8"), min_size=12).map(lambda text: f"{MARK}{text}{MARK}")


@given(said=TEXT, returned=TEXT, wrote=TEXT)
def test_no_text_of_a_run_is_in_a_record(said: str, returned: str, wrote: str) -> None:
    class Writes(AgentMiddleware):
        state_schema = Kept

        def after_model(self, state: Any, runtime: Any) -> Any:
            return {"kept": wrote, "messages": [HumanMessage(wrote)]}

    def echo(text: str) -> str:
        """Say something."""
        raise ValueError(returned)

    log: list[Decision] = []
    agent = create_agent(
        ScriptedChatModel([[{"name": "echo", "args": {"text": said}}], returned]),
        [echo],
        system_prompt=wrote,
        middleware=[Writes()],
        handle_tool_errors=True,
        decisions=log.append,
    )
    agent.invoke({"messages": [("user", said)]})
    records = " ".join(map(repr, log))
    for text in (said, returned, wrote, MARK):
        assert repr(text)[1:-1] not in records


@each("update", [{SECRET: 1}, {"jump_to": SECRET}, SECRET, {"jump_to": [SECRET]}])
def test_a_refused_result_is_recorded_by_its_kind_only(call: Any, update: Any) -> None:
    class Wrong(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> Any:
            return update

    log: list[Decision] = []
    agent = create_agent(ScriptedChatModel([]), middleware=[Wrong()], decisions=log.append)
    with pytest.raises(Exception, match="Wrong"):
        call(agent, ASK)
    assert SECRET not in repr(log)
    assert [decision.outcome for decision in log] == ["raised"]
