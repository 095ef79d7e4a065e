"""Calls of tools: the runs that answer, and their results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import uuid4

from langchain_core.messages import HumanMessage
from mcp_types import CallToolResult, ElicitResult, TextContent
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request

from agent_factory.providers import ending_of, text_of
from agent_factory.serve.errors import refusal_of
from agent_factory.serve.exchange import Exchange, last_answer
from agent_factory.serve.json_response import to_json
from agent_factory.serve.mcp.elicitation import to_decision
from agent_factory.serve.mcp.tools import ToolInput
from agent_factory.serve.mistakes import explained
from agent_factory.serve.wait_texts import inbox_of, wait_data, waits_text
from agent_factory.service import RunCancelled, RunFailed, Service, ThreadBusy, Wait


def begin(
    service: Service,
    request: Request,
    agent: str,
    arguments: Mapping[str, Any],
    notes: Mapping[str, object] | None = None,
) -> Exchange:
    """Submit the message of a call with notes about the run, or join the last run of the thread."""
    try:
        tool_input = ToolInput.model_validate(arguments)
    except ValidationError as error:
        raise HTTPException(422, explained(error, ToolInput, arguments)) from error
    if not tool_input.message and not tool_input.thread:
        raise HTTPException(422, "message is missing.")
    exchange = Exchange(service, request, agent, tool_input.thread or str(uuid4()), "mcp")
    if not tool_input.message:
        # A call without a message reads an answer, and begins nothing.
        run = exchange.repeat(None)
        # The last run of the thread may belong to another agent.
        return Exchange.about(service, request, agent, run.id, "mcp")
    try:
        options: Any = {"waiting": "reject", "stream": {"messages"}, "metadata": notes}
        exchange.send(HumanMessage(tool_input.message), **options)
    except ThreadBusy as error:
        raise HTTPException(
            409,
            f"Thread {tool_input.thread!r} waits for a person or works on another message, so "
            "this one was not taken. Call the tool without a message to read its answer.",
        ) from error
    return exchange


def decide(exchange: Exchange, answers: Mapping[str, ElicitResult]) -> None:
    """Decide with the forms that the user has filled, by the digests of their waits.

    A digest names the call that the user has seen. A wait that somebody else has decided meanwhile
    is not open any more.
    """
    waits = {wait.digest: wait for wait in exchange.reviews()}
    decisions = {
        waits[digest].id: to_decision(waits[digest], answer.content or {})
        for digest, answer in answers.items()
        if answer.action == "accept" and digest in waits
    }
    if decisions:
        exchange.decide(decisions)


async def result_of(exchange: Exchange) -> CallToolResult:
    """The result of a call whose run has ended or waits for a person in the inbox."""
    run, outcome = exchange.run, exchange.outcome
    if outcome is not None and outcome.status == "waiting":
        text = (
            f"{waits_text(outcome.reviews, inbox_of(exchange.request))}\n"
            f"Then call this tool again with thread {run.thread_id!r} and no message."
        )
        content = _waiting(exchange, outcome.reviews)
        return CallToolResult(content=[TextContent(text=text)], structured_content=content)
    try:
        values = await run.aresult()
    except (RunFailed, RunCancelled) as error:
        return await error_result(exchange.request, str(error), exchange)
    last = last_answer(values.get("messages", ()))
    text, ending = text_of(last), ending_of(last)
    content = {"thread": run.thread_id, "status": "done", "answer": text}
    if ending is not None:
        content["ending"] = ending.text
    if "structured_response" in values:
        content["structured_response"] = json.loads(to_json(values["structured_response"]))
    return CallToolResult(content=[TextContent(text=text)], structured_content=content)


async def error_result(
    request: Request, error: Exception | str, exchange: Exchange | None
) -> CallToolResult:
    """A result with the reason of the failure for the model, which can take the thread up again."""
    text = error if isinstance(error, str) else refusal_of(request, error, str)[1]
    content: dict[str, Any] | None = None
    if exchange is not None:
        waits = await run_in_threadpool(exchange.reviews)
        failed = {"thread": exchange.thread, "status": "failed"}
        content = _waiting(exchange, waits) if waits else failed
    return CallToolResult(
        content=[TextContent(text=text)], structured_content=content, is_error=True
    )


def _waiting(exchange: Exchange, waits: Iterable[Wait]) -> dict[str, Any]:
    """Structured content about the waits of a thread."""
    rows = [wait_data(wait, inbox_of(exchange.request)) for wait in waits]
    return {"thread": exchange.thread, "status": "waiting", "waits": rows}
