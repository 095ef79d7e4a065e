"""A model that fails is asked again, and a run whose model stays away ends well."""

from __future__ import annotations

import asyncio
from itertools import cycle
from typing import Any

import pytest
from langchain_core import exceptions
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphInterrupt
from stack_agents import reply

from agent_factory import (
    AgentMiddleware,
    OutputError,
    TurnError,
    create_agent,
)
from agent_factory.middleware import ModelRetryMiddleware
from agent_factory.middleware.model_retry import default_retry_on
from agent_factory.structured_output import ProviderStrategy, ToolStrategy
from agent_factory.testing import Reply, ScriptedChatModel
from samples import Answer, add
from tables import each
from waiting import auntil

GO: Any = {"messages": "Go"}
ONE: Any = {"configurable": {"thread_id": "1"}}
DOWN = ConnectionError("down")


def retry(**settings: Any) -> ModelRetryMiddleware:
    return ModelRetryMiddleware(**{"initial_delay": 0.0001, **settings})


ADD = [{"name": "add", "args": {"a": 1, "b": 2}}]


def test_the_last_failure_ends_the_run_with_a_message(call: Any) -> None:
    class Closing(AgentMiddleware[Any, Any]):
        def after_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
            return {"messages": [AIMessage("closed")]}

    model = ScriptedChatModel([ADD, DOWN, DOWN, ValueError("gone")])
    result = call(create_agent(model, [add], middleware=[retry(), Closing()]), GO)
    *_, last, closing = result["messages"]
    assert last.text.startswith("The model call failed after 3 attempts with ValueError")
    assert "gone" in last.text
    assert last.additional_kwargs == {"lc_source": "model_retry"}
    assert closing.text == "closed"
    assert [m.type for m in result["messages"]] == ["human", "ai", "tool", "ai", "ai"]


def test_the_exception_itself_is_raised_with_a_note_of_the_attempts(call: Any) -> None:
    model = ScriptedChatModel([ConnectionError("first"), ConnectionError("last")])
    agent = create_agent(model, middleware=[retry(max_retries=1, on_failure="error", name="R")])
    with pytest.raises(ConnectionError, match="last") as caught:
        call(agent, GO)
    note = "R: The model call failed after 2 attempts."
    assert note in caught.value.__notes__


def test_a_custom_text_ends_the_run(call: Any) -> None:
    words = retry(max_retries=0, on_failure=lambda error: f"Sorry ({error}).")
    assert reply(call, [DOWN], words).text == "Sorry (down)."
    wrong: Any = retry(max_retries=0, on_failure=lambda error: None, name="Mine")
    with pytest.raises(TurnError, match="Mine on_failure: must return a str, got NoneType"):
        reply(call, [DOWN], wrong)


@each(
    "retry_on, retried, raised",
    [
        (ConnectionError, ConnectionResetError("x"), ValueError("x")),
        ((ConnectionError, TimeoutError), TimeoutError("x"), OSError("x")),
        (lambda error: "503" in str(error), OSError("503"), OSError("400")),
    ],
)
@each("on_failure", ["continue", "error"])
def test_only_what_matches_is_retried_and_the_rest_is_raised_at_once(
    call: Any, retry_on: Any, retried: Exception, raised: Exception, on_failure: str
) -> None:
    model = ScriptedChatModel([retried, raised])
    with pytest.raises(type(raised)) as caught:
        reply(call, model, retry(retry_on=retry_on, on_failure=on_failure))
    assert caught.value is raised
    assert not any("attempt" in note for note in getattr(raised, "__notes__", ()))
    model.assert_done()


PERMANENT = [
    exceptions.ModelError("unknown"),
    exceptions.ModelAuthenticationError("invalid key"),
    exceptions.ModelPermissionDeniedError("not yours"),
    exceptions.ModelInvalidRequestError("no such field"),
    exceptions.ModelNotFoundError("no such model"),
    exceptions.ContextOverflowError("too long"),
]
TRANSIENT = [
    exceptions.ModelRateLimitError("slow down"),
    exceptions.ModelAPIError("500"),
    exceptions.ModelConnectionError("no route"),
    exceptions.ModelTimeoutError("too late"),
    exceptions.LangChainException("unknown"),
    DOWN,
]
BASES: list[Any] = [Exception, (exceptions.LangChainException, OSError), default_retry_on]


@each("error", PERMANENT, ids=repr)
def test_an_error_that_no_retry_helps_is_raised_at_once(call: Any, error: Exception) -> None:
    assert not default_retry_on(error)
    ways = cycle(["continue", "error", lambda error: "Sorry."])
    for base, on_failure in zip([None, *BASES], ways, strict=False):
        settings = {} if base is None else {"retry_on": base}
        model = ScriptedChatModel([error, "never"])
        with pytest.raises(type(error)) as caught:
            reply(call, model, retry(on_failure=on_failure, **settings))
        assert caught.value is error
        assert len(model.requests) == 1


@each("error", TRANSIENT, ids=repr)
def test_an_error_that_may_pass_is_retried(call: Any, error: Exception) -> None:
    assert reply(call, [error, error, "Hello!"], retry()).text == "Hello!"
    assert default_retry_on(error)


class ProviderError(Exception):
    """The base class of a provider's client."""


class InvalidKey(ProviderError, exceptions.ModelAuthenticationError):
    """As integrations derive their errors from those of the client and of langchain-core."""


@each(
    "retry_on",
    [
        exceptions.ModelAuthenticationError,
        (OSError, InvalidKey),
        ProviderError,
        lambda error: isinstance(error, exceptions.ModelError),
    ],
)
def test_an_error_that_no_retry_helps_is_retried_if_it_is_named(call: Any, retry_on: Any) -> None:
    steps = [InvalidKey("invalid key"), "Hello!"]
    assert reply(call, steps, retry(retry_on=retry_on)).text == "Hello!"


@each("on_failure", ["continue", lambda error: "Sorry."])
def test_a_program_can_tell_a_failure_from_an_answer_and_the_thread_goes_on(
    call: Any, on_failure: Any
) -> None:
    decisions: list[Any] = []
    model = ScriptedChatModel([DOWN, ValueError("gone"), "Hello!"])
    stack, saver = [retry(max_retries=1, on_failure=on_failure)], InMemorySaver()
    agent = create_agent(model, middleware=stack, decisions=decisions.append, checkpointer=saver)
    failure = call(agent, GO, ONE)["messages"][-1]
    assert failure.additional_kwargs == {"lc_source": "model_retry"}
    assert failure.response_metadata["failure"] == {"error": "ValueError", "attempts": 2}
    (decision,) = [d for d in decisions if d.middleware == "ModelRetryMiddleware"]
    assert (decision.outcome, decision.error) == ("recovered", "ConnectionError, ValueError")
    assert decision.reason == "gave up after 2 attempts"
    answer = call(agent, GO, ONE)["messages"][-1]
    assert (answer.text, "failure" in answer.response_metadata) == ("Hello!", False)
    assert decisions[-1].reason != decision.reason


WRONG = [{"name": "Answer", "args": {"number": "many"}}]


@each("strategy", [ToolStrategy, ProviderStrategy])
@each("tools", [[], [add]])
@each("before", [[], ["prose"]])
def test_an_outage_ends_a_run_with_a_response_format(
    call: Any, strategy: Any, tools: list[Any], before: list[Any]
) -> None:
    """Its message is not taken for prose that came instead of an answer."""
    model = ScriptedChatModel([*before, DOWN, DOWN])
    stack = [retry(max_retries=1)]
    agent = create_agent(model, tools, middleware=stack, response_format=strategy(Answer))
    result = call(agent, GO)
    assert "after 2 attempts" in result["messages"][-1].text
    assert result["structured_response"] is None
    model.assert_done()


@each(
    "retry_on, is_retried",
    [
        *((named, True) for named in (OutputError, (ValueError, TurnError), lambda error: True)),
        *((base, False) for base in (RuntimeError, (ValueError, OSError), *BASES)),
    ],
)
def test_an_error_of_the_library_is_retried_if_it_is_named(
    call: Any, retry_on: Any, is_retried: bool
) -> None:
    """A base class does not cover it."""
    model = ScriptedChatModel([WRONG, [{"name": "Answer", "args": {"number": 5}}]])
    format_ = ToolStrategy(Answer, max_retries=0)
    agent = create_agent(model, middleware=[retry(retry_on=retry_on)], response_format=format_)
    if is_retried:
        assert call(agent, GO)["structured_response"] == Answer(number=5)
        return
    with pytest.raises(OutputError):
        call(agent, GO)


@each("signal", [KeyboardInterrupt, SystemExit])
def test_a_signal_to_stop_is_not_retried(signal: Any) -> None:
    def stop(messages: Any) -> Any:
        raise signal

    model = ScriptedChatModel([stop, "never"])
    with pytest.raises(signal):
        create_agent(model, middleware=[retry(retry_on=lambda error: True)]).invoke(GO)
    assert len(model.requests) == 1
    assert not any(map(default_retry_on, [signal(), GraphInterrupt(), GeneratorExit()]))


async def test_a_cancelled_run_stops_waiting() -> None:
    model = ScriptedChatModel([DOWN, "never"])
    agent = create_agent(model, middleware=[retry(initial_delay=60, jitter=False)])
    task = asyncio.create_task(agent.ainvoke(GO))
    await auntil(lambda: model.requests)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(model.requests) == 1


def test_tokens_of_a_failed_attempt_are_streamed_under_another_id(collect: Any) -> None:
    model = ScriptedChatModel([Reply(chunks=["Good "], error=DOWN), "Good morning"])
    words: dict[Any, str] = {}
    for chunk, _ in collect(create_agent(model, middleware=[retry()]), GO, stream_mode="messages"):
        words[chunk.id] = words.get(chunk.id, "") + chunk.text
    assert list(words.values()) == ["Good ", "Good morning"]


class Broken(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even that")


@each(
    "error, line",
    [
        (ConnectionError("provider is down"), "ConnectionError: provider is down."),
        (ConnectionError("provider is down."), "ConnectionError: provider is down."),
        (ConnectionError("is it down?"), "ConnectionError: is it down?"),
        (ConnectionError("x" * 100_000), f"ConnectionError: {'x' * 1000}..."),
        (ConnectionError("bad \ud800 text"), "ConnectionError: bad ? text."),
        (ConnectionError(), "ConnectionError."),
        pytest.param(Broken(), "Broken.", id="broken"),
    ],
)
def test_the_text_of_a_failure_is_made_of_sentences(call: Any, error: Exception, line: str) -> None:
    first, second = reply(call, [error], retry(max_retries=0)).text.splitlines()
    assert first == f"The model call failed after 1 attempt with {line}"
    assert second == "Nothing is lost: ask again later."
