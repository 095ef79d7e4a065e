"""Decision models as judges and routers: the same requests and outcomes in both families."""

from __future__ import annotations

from typing import Any

import pytest
from decision_models import ScriptedDecisionModel, read
from families import OURS, THEIRS
from langchain_core.decisions import NoulCriteria
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory.middleware import RoutingError
from agent_factory.testing import ScriptedChatModel
from samples import add_tool as add
from samples import mail
from tables import each

pytest.importorskip("langchain.agents.middleware", reason="the extra peer is missing")

pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")

ONE: Any = {"configurable": {"thread_id": "1"}}
CALL = [{"name": "add", "args": {"a": 1, "b": 2}, "id": "1"}]


def ask(text: str) -> Any:
    return {"messages": [HumanMessage(text, id=text)]}


def judged(f: Any, call: Any, *answers: Any, messages: Any = None, **settings: Any) -> Any:
    """Whether a call ran, or what was raised; and what the judge was asked."""
    judge = ScriptedDecisionModel(answers=list(answers))
    member = f.AutoModeMiddleware(**{"tools": ["add"], "classifier": judge, **settings})
    agent = f.create_agent(ScriptedChatModel([CALL, "Done."]), [add], middleware=[member])
    result = call(agent, messages or ask("Clean up"))["messages"][-2]
    ((state, questions),) = judge.requests
    *conversation, answer = state["messages"]  # the answer has another id in each run
    state = {**state, "messages": [*conversation, answer.tool_calls]}
    return result.status, result.name, result.tool_call_id, repr(state), questions


MANY = {"messages": [HumanMessage(f"{n}" * 3000, id=f"{n}") for n in range(40)]}


@each(
    "probability, settings",
    [
        *((probability, {}) for probability in (0.0, 0.49, 0.5, 1.0)),
        (0.1, {"tools": [add]}),
        (0.1, {"criteria": NoulCriteria(true="It deletes.", false={"only": ["reads"]})}),
        (0.1, {"criteria": NoulCriteria()}),
        (0.1, {"messages": MANY}),
    ],
)
def test_a_judge_is_asked_the_same_and_blocks_from_the_same_probability_on(
    same: Any, probability: float, settings: Any
) -> None:
    same(lambda f, call: judged(f, call, probability, instructions="Is it risky?", **settings))


def test_calls_of_other_tools_are_not_judged(same: Any) -> None:
    def other(f: Any, call: Any) -> Any:
        judge = ScriptedDecisionModel(answers=[])
        member = f.AutoModeMiddleware(tools=[mail], classifier=judge)
        model = ScriptedChatModel([CALL, "Done."])
        agent = f.create_agent(model, [add, mail], middleware=[member])
        return call(agent, ask("Clean up"))["messages"][2]

    same(other)


def routed(f: Any, call: Any, *answers: Any, instructions: Any = "Pick.", turns: int = 1) -> Any:
    """The messages of a thread, and what the classifier was asked."""
    classifier = ScriptedDecisionModel(answers=list(answers))
    choices = {
        "small": f.ModelChoice(ScriptedChatModel([CALL, "small", "small"]), "small talk"),
        "large": f.ModelChoice(model=ScriptedChatModel(["large"] * 2), criteria={"a": [1, None]}),
    }
    member = f.ModelRouterMiddleware(
        choices=choices, classifier=classifier, instructions=instructions
    )
    agent = f.create_agent(
        ScriptedChatModel([]), [add], middleware=[member], checkpointer=InMemorySaver()
    )
    results = [call(agent, ask(f"question {n}"), ONE)["messages"] for n in range(turns)]
    return results, classifier.requests


@each("instructions", ["Choose.", ["a", {"b": 1}], {"a": "b"}])
def test_each_turn_is_routed_once_by_the_same_instructions(same: Any, instructions: Any) -> None:
    """A turn with a tool call has two model calls."""
    answers, more = ("small", "large", "small"), {"instructions": instructions, "turns": 3}
    same(lambda f, call: routed(f, call, *answers, **more))


@each("answer", ["other", {}, {"model_route": read(0.5)}])
def test_a_router_without_a_choice_ends_the_run(call: Any, answer: Any) -> None:
    """A difference: langchain's error does not name the choices."""
    with pytest.raises(KeyError):
        routed(THEIRS, call, answer)
    with pytest.raises(RoutingError, match="Return one of 'small', 'large'"):
        routed(OURS, call, answer)


@each("answer", [ConnectionError("down"), {}, {"is_risky": read("yes")}])
def test_a_judge_without_a_probability_blocks_the_call(call: Any, answer: Any) -> None:
    """A difference: in langchain the run ends with an error."""
    with pytest.raises((ConnectionError, KeyError)):
        judged(THEIRS, call, answer)
    assert judged(OURS, call, answer)[0] == "error"
