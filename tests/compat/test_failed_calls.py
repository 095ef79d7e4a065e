"""Retries, refusals, errors of tools, judges and routers: the same outcomes in both families."""

from __future__ import annotations

from typing import Any

import pytest
from decision_models import ScriptedDecisionModel, read
from families import OURS, THEIRS
from langchain_core import exceptions
from langchain_core.decisions import NoulCriteria
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory.middleware import RoutingError
from agent_factory.testing import ScriptedChatModel
from samples import THREAD, mail
from samples import add_tool as add
from tables import each

pytest.importorskip("langchain.agents.middleware", reason="the extra peer is missing")

pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")

ASK: Any = {"messages": [HumanMessage("Go on", id="1")]}
NO_WAIT: Any = {"initial_delay": 0, "jitter": False}

ERRORS = [
    exceptions.ModelError("unknown"),
    exceptions.ModelAuthenticationError("invalid key"),
    exceptions.ModelPermissionDeniedError("not yours"),
    exceptions.ModelInvalidRequestError("no such field"),
    exceptions.ModelNotFoundError("no such model"),
    exceptions.ContextOverflowError("too long"),
    exceptions.ModelRefusalError("no"),
    exceptions.ModelRateLimitError("slow down"),
    exceptions.ModelAPIError("500"),
    exceptions.ModelConnectionError("no route"),
    exceptions.LangChainException("unknown"),
    ConnectionError("down"),
    ValueError("no"),
]
SETTINGS: list[dict[str, Any]] = [
    {},
    {"max_retries": 0},
    {"retry_on": (exceptions.ModelAuthenticationError, ConnectionError)},
    {"retry_on": (exceptions.ContextOverflowError,)},
    {"retry_on": lambda error: isinstance(error, exceptions.ModelError)},
]


def ends(agent: Any, call: Any) -> Any:
    """The messages of a run, or what it raised."""
    try:
        return [[m.type, m.content] for m in call(agent, ASK)["messages"]]
    except Exception as error:
        return type(error).__name__, str(error)


@pytest.mark.long
@each("settings", SETTINGS)
@each("on_failure", ["error", lambda error: f"Sorry: {error}."])
def test_a_model_is_called_as_often(same: Any, settings: Any, on_failure: Any) -> None:
    def scenario(f: Any, call: Any) -> Any:
        outcomes = []
        for error in ERRORS:
            model = ScriptedChatModel([error] * 3)
            member = f.ModelRetryMiddleware(on_failure=on_failure, **NO_WAIT, **settings)
            agent = f.create_agent(model, middleware=[member])
            outcomes.append([repr(error), ends(agent, call), len(model.requests)])
        return outcomes

    same(scenario)


@each("settings", SETTINGS)
@each("on_failure", ["error", lambda error: f"Sorry: {error}."])
def test_a_tool_is_called_as_often(same: Any, settings: Any, on_failure: Any) -> None:
    def scenario(f: Any, call: Any) -> Any:
        outcomes = []
        for error in ERRORS:
            calls = []

            @tool
            def fail() -> str:
                """Fail."""
                calls.append(1)  # noqa: B023  # read before the next round
                raise error  # noqa: B023

            steps = [[{"name": "fail", "args": {}, "id": "1"}], "Done."]
            member = f.ToolRetryMiddleware(on_failure=on_failure, **NO_WAIT, **settings)
            agent = f.create_agent(ScriptedChatModel(steps), [fail], middleware=[member])
            outcomes.append([repr(error), ends(agent, call), len(calls)])
        return outcomes

    same(scenario)


def test_an_exhausted_default_continues_with_a_message_and_a_refusal_is_not_retried(
    same: Any,
) -> None:
    """The text is another one here."""

    def scenario(f: Any, call: Any) -> Any:
        model = ScriptedChatModel([ConnectionError("down")] * 3)
        agent = f.create_agent(model, middleware=[f.ModelRetryMiddleware(**NO_WAIT)])
        answer = call(agent, ASK)["messages"][-1]
        exhausted = answer.type, "after 3 attempts with ConnectionError: down" in answer.text
        model = ScriptedChatModel([REFUSALS[1], "never"])
        stack = [
            f.ModelFallbackMiddleware(ScriptedChatModel(["Gladly."])),
            f.ModelRefusalMiddleware(),
            f.ModelRetryMiddleware(**NO_WAIT),
        ]
        agent = f.create_agent(model, middleware=stack)
        return exhausted, ends(agent, call), len(model.requests)

    same(scenario)


OPENAI: Any = {"response_metadata": {"model_provider": "openai"}}
REFUSALS = [
    AIMessage("", additional_kwargs={"refusal": "No."}, **OPENAI),
    AIMessage([{"type": "refusal", "refusal": "No."}]),
    AIMessage([{"type": "refusal", "refusal": "No.", "extras": {"category": "x"}}, "Sorry."]),
    AIMessage("", response_metadata={"stop_reason": "refusal", "model_provider": "anthropic"}),
    AIMessage("", response_metadata={"finish_reason": "SAFETY", "model_provider": "google_genai"}),
    AIMessage("I cannot help."),
    AIMessage("Hello."),
]


@each("answer", REFUSALS, ids=str)
def test_the_same_answers_are_refusals(same: Any, answer: AIMessage) -> None:
    def scenario(f: Any, call: Any) -> Any:
        agent = f.create_agent(ScriptedChatModel([answer]), middleware=[f.ModelRefusalMiddleware()])
        try:
            return call(agent, ASK)["messages"][-1].content
        except exceptions.ModelRefusalError as error:
            return getattr(error.raw_message, "content", None), error.is_retryable

    same(scenario)


HANDLERS: list[Any] = [
    lambda error, request: f"{request.tool_call['name']}: {error}",
    lambda error, request: [{"type": "text", "text": "Sorry."}],
    lambda error, request: "Sorry." if isinstance(error, KeyError) else None,
]


@each("handler", HANDLERS)
@each("tools", [None, ["fail"], ["add"], [add]])
def test_an_error_of_a_tool_becomes_the_same_result(same: Any, handler: Any, tools: Any) -> None:
    @tool
    def fail() -> str:
        """Fail."""
        raise ValueError("broken")

    def scenario(f: Any, call: Any) -> Any:
        steps = [[{"name": "fail", "args": {}, "id": "1"}], "Done."]
        layer = f.ToolErrorMiddleware(handler, tools=tools)
        return ends(f.create_agent(ScriptedChatModel(steps), [fail, add], middleware=[layer]), call)

    same(scenario)


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
    results = [call(agent, ask(f"question {n}"), THREAD)["messages"] for n in range(turns)]
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
