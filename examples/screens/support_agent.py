"""The agent that each screen of this folder shows: an order desk, whose refunds a person reviews.

The model is a script. `MODEL=anthropic:claude-sonnet-4-5` in the environment names a real one.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from agent_factory import create_agent, init_model
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.review import Pending
from agent_factory.testing import Reply, ScriptedChatModel


def find_order(order_id: str) -> str:
    """Find an order."""
    return f"{order_id}: a lamp for 90 euros. It arrives on Thursday."


def refund(order_id: str, euros: int) -> str:
    """Pay money back for an order."""
    return f"{euros} euros were paid back for order {order_id}."


class Typist(ScriptedChatModel):
    """A script, word by word, at the pace of a model."""

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        for chunk in super()._stream(*args, **kwargs):
            time.sleep(0.04)
            yield chunk

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        async for chunk in super()._astream(*args, **kwargs):
            await asyncio.sleep(0.04)
            yield chunk


def answer(messages: list[BaseMessage]) -> Reply:
    """Do what the last message asks for."""
    last = messages[-1]
    order = re.search(r"[A-Z]-\d+", last.text)
    if isinstance(last, ToolMessage):
        text = "Nothing was paid back." if last.status == "error" else last.text
    elif "fail" in last.text:
        return Reply(error=ConnectionError("The model does not answer."))
    elif "back" in last.text and order:
        return Reply(calls=[{"name": "refund", "args": {"order_id": order[0], "euros": 90}}])
    elif order:
        return Reply(calls=[{"name": "find_order", "args": {"order_id": order[0]}}])
    elif "count" in last.text:
        text = " ".join(map(str, range(1, 1000)))
    else:
        number = sum(message.type == "human" for message in messages)
        text = f"This is message {number} of our conversation. Which order is it about?"
    return Reply(text)


def build() -> Any:
    """The agent, with threads in memory."""
    name = os.environ.get("MODEL")
    return create_agent(
        init_model(name) if name else Typist(steps=[answer] * 10_000),
        [find_order, refund],
        middleware=[HumanInTheLoopMiddleware({"refund": True})],
        checkpointer=InMemorySaver(),
    )


def question(review: Pending) -> str:
    """The calls that wait, for a person to read."""
    return "\n\n".join(f"Run `{call.name}` with `{call.args}`?" for call in review.calls)


def decided(review: Pending, verdict: str) -> Command[Any]:
    """The answer to a review: "approve" or "reject" for each call that waits."""
    return Command(resume={"decisions": [{"type": verdict} for _ in review.calls]})
