"""Replies of the scripted model: usage, delays, pieces, errors and structured answers."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel

from agent_factory import create_agent
from agent_factory.middleware import ModelRetryMiddleware
from agent_factory.structured_output import ProviderStrategy, ToolStrategy
from agent_factory.testing import Reply, ScriptedChatModel, ScriptError


class Answer(BaseModel):
    """The answer."""

    value: int


@dataclass
class Place:
    """A place."""

    name: str


async def _astream(model: BaseChatModel) -> list[str]:
    return [chunk.text async for chunk in model.astream("?")]


@pytest.fixture(params=["sync", "async"])
def pieces(request: pytest.FixtureRequest) -> Any:
    """The texts that a model streams."""
    if request.param == "sync":
        return lambda model: [chunk.text for chunk in model.stream("?")]
    return lambda model: asyncio.run(_astream(model))


@pytest.mark.parametrize("usage", [(12, 5), {"input_tokens": 12, "output_tokens": 5}])
def test_a_reply_has_usage_in_every_way(usage: Any, sync_or_async: Any) -> None:
    model = ScriptedChatModel([Reply("Five.", usage=usage), Reply("Five.", usage=usage)])
    assert sync_or_async.invoke(model, "?").usage_metadata["total_tokens"] == 17
    assert sync_or_async.stream(model, "?")[-1].usage_metadata["total_tokens"] == 17


def test_a_reply_calls_tools(sync_or_async: Any) -> None:
    model = ScriptedChatModel([Reply("Wait.", calls=[{"name": "add", "args": {"a": 1}}])])
    said = sync_or_async.invoke(model, "?")
    assert (said.text, said.tool_calls[0]["name"]) == ("Wait.", "add")


def test_a_reply_comes_after_its_delay(sync_or_async: Any) -> None:
    model = ScriptedChatModel([Reply("Late.", delay=0.05), Reply("Late.", delay=0.05)])
    start = time.perf_counter()
    sync_or_async.invoke(model, "?")
    sync_or_async.stream(model, "?")
    assert time.perf_counter() - start >= 0.1


async def test_delays_side_by_side_cost_the_time_of_one() -> None:
    model = ScriptedChatModel([Reply("Late.", delay=0.3)] * 8)
    start = time.perf_counter()
    await asyncio.gather(*(model.ainvoke("?") for _ in range(8)))
    assert time.perf_counter() - start < 2


def test_a_reply_is_streamed_in_the_pieces_it_names(pieces: Any) -> None:
    model = ScriptedChatModel([Reply(chunks=["Fi", "ve", "."])])
    assert [piece for piece in pieces(model) if piece] == ["Fi", "ve", "."]
    assert ScriptedChatModel([Reply(chunks=["Fi", "ve."])]).invoke("?").text == "Five."


def test_an_error_breaks_a_stream_off_after_its_pieces(pieces: Any) -> None:
    model = ScriptedChatModel([Reply(chunks=["Fi"], error=ConnectionError("cut"))])
    heard: list[str] = []
    with pytest.raises(ConnectionError, match="cut"):
        heard.extend(chunk.text for chunk in model.stream("?"))
    model.rewind()
    with pytest.raises(ConnectionError):
        pieces(model)
    model.rewind()
    with pytest.raises(ConnectionError):
        model.invoke("?")


@pytest.mark.parametrize("strategy", [ToolStrategy(Answer), ProviderStrategy(Answer)])
def test_a_structured_answer_is_a_step(strategy: Any, sync_or_async: Any) -> None:
    agent = create_agent(ScriptedChatModel([Answer(value=5)]), response_format=strategy)
    result = sync_or_async.invoke(agent, {"messages": [("user", "2 + 3?")]})
    assert result["structured_response"] == Answer(value=5)


def test_a_dataclass_is_an_answer_too() -> None:
    agent = create_agent(ScriptedChatModel([Place("Bern")]), response_format=ToolStrategy(Place))
    assert agent.invoke({"messages": [("user", "Where?")]})["structured_response"] == Place("Bern")


def test_a_block_insists_at_its_end_that_the_script_was_used_up() -> None:
    with pytest.raises(ScriptError, match="the script has 1 step, and 0 were requested"), ScriptedChatModel(["?"]):
        pass
    with pytest.raises(ValueError, match="mine"), ScriptedChatModel(["?"]):
        raise ValueError("mine")


def test_a_request_beyond_the_script_counts_even_if_a_layer_caught_its_failure() -> None:
    model = ScriptedChatModel([])
    retry = ModelRetryMiddleware(max_retries=1, initial_delay=0, jitter=False)
    create_agent(model, middleware=[retry]).invoke({"messages": [("user", "Hi")]})
    with pytest.raises(ScriptError, match="the script has 0 steps, and this is request 1"):
        model.assert_done()


def test_a_script_can_be_wound_back() -> None:
    model = ScriptedChatModel(["One.", "Two."])
    model.invoke("first")
    model.invoke("second")
    model.rewind(1)
    assert (model.position, len(model.requests)) == (1, 1)
    assert model.invoke("again").text == "Two."


def test_the_fixture_makes_models(scripted_model: Any) -> None:
    assert scripted_model(["Hi"]).invoke("?").text == "Hi"
