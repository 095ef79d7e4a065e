"""Retries, refusals and errors of tools: as many calls, and the same outcomes in both families."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from langchain_core import exceptions
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool

from agent_factory.testing import ScriptedChatModel
from samples import add_tool as add
from tables import each

pytest.importorskip("langchain.agents.middleware", reason="the extra peer is missing")

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


@each("module", ["model_retry", "tool_retry"])
@each("error", [*ERRORS, KeyboardInterrupt(), SystemExit()], ids=repr)
def test_the_same_errors_are_retried_by_default(module: str, error: BaseException) -> None:
    theirs = import_module(f"langchain.agents.middleware.{module}").default_retry_on
    ours = import_module(f"agent_factory.middleware.{module}").default_retry_on
    assert ours(error) is theirs(error)


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
        member = f.ToolErrorMiddleware(handler, tools=tools)
        return ends(
            f.create_agent(ScriptedChatModel(steps), [fail, add], middleware=[member]), call
        )

    same(scenario)
