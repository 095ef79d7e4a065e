"""Calls of tools: the runs that answer, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from langchain_core.messages import HumanMessage
from mcp_types import CallToolResult, ElicitResult
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request

from agent_factory.serve.errors import refusal_of
from agent_factory.serve.exchange import Exchange
from agent_factory.serve.mcp.elicitation import to_decision
from agent_factory.serve.mcp.tools import ToolInput, answer_of, error_result, waiting_result
from agent_factory.serve.mistakes import explained
from agent_factory.serve.wait_texts import inbox_of
from agent_factory.service import RunCancelled, RunFailed, Service, ThreadBusy


def begin(service: Service, request: Request, agent: str, arguments: Mapping[str, Any]) -> Exchange:
    """Submit the message of a call, or join the last run of the thread."""
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
        exchange.send(HumanMessage(tool_input.message), waiting="reject", stream={"messages"})
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
    """The result of a call whose run has ended or waits."""
    outcome = exchange.outcome
    if outcome is not None and outcome.status == "waiting":
        return waiting_result(exchange.run, outcome.reviews, inbox_of(exchange.request))
    try:
        return answer_of(exchange.run, await exchange.run.aresult())
    except (RunFailed, RunCancelled) as error:
        return error_result(str(error), exchange.thread)


async def refused(request: Request, error: Exception, exchange: Exchange | None) -> CallToolResult:
    """The result of a call that was refused, with the thread and its waits if there is one."""
    text = refusal_of(request, error, str)[1]
    if exchange is None:
        return error_result(text, None)
    waits = await run_in_threadpool(exchange.reviews)
    return error_result(text, exchange.thread, waits, inbox_of(request))
