"""Start runs of threads for requests."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any
from weakref import WeakKeyDictionary

from langchain_core.runnables import RunnableConfig
from langgraph.constants import END
from starlette.exceptions import HTTPException

from agent_factory.errors import ArgumentError
from agent_factory.serve.errors import logger
from agent_factory.serve.exchange import Exchange
from agent_factory.serve.json_response import to_json
from agent_factory.serve.langgraph import run_events
from agent_factory.serve.langgraph.requests import NewRun, RunSettings
from agent_factory.service import Run, Service, ThreadBusy, ThreadInfo, can_be_steered
from agent_factory.types import Graph
from agent_factory.upstream import INTERRUPT, is_resumed

_EXAMPLE = 'Send input: {"messages": [{"role": "user", "content": "..."}]}.'


def start_run(exchange: Exchange, info: ThreadInfo | None, body: NewRun) -> Run:
    """Submit a message, or carry a command out.

    Args:
        info: The thread; None if it does not exist.

    Raises:
        HTTPException: 422 if the body has nothing to do, or nothing for a thread that waits. 409 if
            the thread has gone on since the checkpoint of a decision.
        ArgumentError: A part of the body cannot be used.
    """
    service, agent, tenant = exchange.service, exchange.agent, exchange.principal.tenant
    graph = service.agents[agent]
    options = run_options(graph, body)
    options["config"] = _config(service, agent, exchange.thread, body)
    if body.command is not None:
        if info is None:
            raise HTTPException(422, "A command needs the thread that waits.")
        _check_command(service, agent, info, body)
        if body.command.goto is None:
            answer = plain_answer(service, info.id, tenant, body.command.resume)
            return exchange.answer(answer, stream=options["stream"])
        # This cancels the run that waits. The answer to a command is a run, so another
        # run begins, which has nothing left to do.
        name = exchange.principal.name
        service.threads.update_state(info.id, None, as_node=END, tenant=tenant, by=name)
        return exchange.send(None, **options)
    check_strategy(graph, agent, body)
    message, waits = None, info is not None and info.status == "waiting"
    if body.input is not None:
        message = checked_input(graph, agent, body.input, waits=waits)
    elif info is not None and _is_paused(service, info, body.place):
        return exchange.answer(None, stream=options["stream"])
    elif body.place is None:
        if waits:
            text = 'The thread waits for an answer. Send command: {"resume": ...}, or an input.'
            raise HTTPException(422, text)
        # After a failure, a thread goes on without a message.
        if info is None or not info.agent or not service.threads.state(info.id).next:
            raise HTTPException(422, f"input is missing. {_EXAMPLE}")
    try:
        place, delay = body.place, body.after_seconds
        with naming_input():
            return exchange.send(message, checkpoint=place, delay=delay, **options)
    except ThreadBusy as error:
        hint = 'Send it when the run has ended, or with multitask_strategy "enqueue".'
        raise ThreadBusy(error.subject, error.reason, hint) from error


@contextmanager
def naming_input() -> Iterator[None]:
    """Raise HTTPException (422) about `input` for an ArgumentError about a message."""
    try:
        yield
    except ArgumentError as error:
        if error.subject != "message":
            raise
        raise HTTPException(422, f"input: {error.reason} {_EXAMPLE}") from error


def run_options(graph: Graph, body: RunSettings) -> dict[str, Any]:
    """Arguments of `Service.submit` for the settings of a run."""
    modes: set[str] = {"messages" if mode == "messages-tuple" else mode for mode in body.modes}
    if "events" in modes:
        modes = (modes - {"events"}) | run_events.RECORDED
    if "messages" in modes and not body.stream_subgraphs and next(graph.get_subgraphs(), None):
        # Messages of inner agents are taken from the results of their nodes.
        modes |= {"values", "updates"}
    return {
        "context": body.context,
        "metadata": body.metadata,
        "stream": sorted(modes),
        # Steps of inner agents are events of the run, too.
        "subgraphs": body.stream_subgraphs or "events" in body.modes,
        "busy": "queue" if body.multitask_strategy == "enqueue" else body.multitask_strategy,
        # On LangGraph's own server, a waiting thread is not busy.
        "waiting": "interrupt",
        "interrupt_before": body.interrupt_before,
        "interrupt_after": body.interrupt_after,
    }


def plain_answer(service: Service, thread: str, tenant: str, answer: Any) -> Any:
    """An answer of any client in LangChain's form.

    Decisions of agent-inbox have an older form: `args` is a call, or a text.
    """
    decisions = answer.get("decisions") if isinstance(answer, Mapping) else None
    if not isinstance(decisions, list):
        return answer
    waits = service.inbox(tenant).waits(thread=thread, limit=1000)
    calls = [(wait.tool, wait.args) for wait in waits]
    return {**answer, "decisions": [_plain_decision(decision, calls) for decision in decisions]}


def _plain_decision(decision: Any, calls: Collection[tuple[str, Any]]) -> Any:
    if not isinstance(decision, Mapping) or "args" not in decision:
        return decision
    kind, args = decision.get("type"), decision["args"]
    plain = {key: value for key, value in decision.items() if key != "args"}
    is_call = isinstance(args, Mapping) and args.keys() == {"action", "args"}
    # The person has seen a call that does not wait.
    if kind == "approve" and is_call and (args["action"], args["args"]) in calls:
        return plain
    if kind == "edit" and is_call:
        return {**plain, "edited_action": {"name": args["action"], "args": args["args"]}}
    if kind == "reject" and isinstance(args, str):
        return {**plain, "message": args}
    return decision


def _config(service: Service, agent: str, thread: str | None, body: NewRun) -> RunnableConfig:
    """The config of a run, as far as a client may set it.

    Raises:
        HTTPException: 422 if a graph around the agent resumes it by LangGraph's RemoteGraph, which
            in langgraph 1.2 sends the input of its node again, and not the answer.
        ArgumentError: A part of the config cannot be used.
    """
    configurable = (body.config or {}).get("configurable")
    for key, value in configurable.items() if isinstance(configurable, dict) else ():
        if is_resumed({key: value}):
            raise HTTPException(
                422,
                f"config.configurable: {key!r} says that a graph around this agent resumes it. "
                "That graph cannot answer for it: LangGraph's RemoteGraph does not pass the answer "
                f'on. Send it to thread {thread!r}: command: {{"resume": ...}}.',
            )
    return service.client_config(agent, body.settings)


def _check_command(service: Service, agent: str, thread: ThreadInfo, body: NewRun) -> None:
    """Raise HTTPException if a command is about another agent or state, or comes with news."""
    if thread.agent and thread.agent != agent:
        text = f"The thread is one of agent {thread.agent!r}, not of {agent!r}."
        raise HTTPException(422, f"{text} Send assistant_id: {thread.agent!r}.")
    if not thread.agent or not (body.input or body.place):
        return
    state = service.threads.state(thread.id)
    if body.input and (news := _news(service.agents[agent], body.input, state.values)):
        raise HTTPException(
            422,
            "command and input contradict each other: a command is for what the thread waits for, "
            f"and the thread lacks {news}. Send one of them.",
        )
    if body.place not in (None, state.config["configurable"]["checkpoint_id"]):
        raise HTTPException(
            409,
            f"The thread has gone on since checkpoint {body.place!r}. Look at what it waits for "
            "now, and send the command without a checkpoint.",
        )


def _news(graph: Graph, inputs: Mapping[str, Any], values: Mapping[str, Any]) -> str | None:
    """The first part of an input that a thread lacks; clients repeat the state that they know."""
    stored = {message.id: message for message in values.get("messages", ())}
    messages = inputs.get("messages", [])
    for message in messages if isinstance(messages, list) else [messages]:
        known = stored.get(message.get("id")) if isinstance(message, Mapping) else None
        # Clients write the answers of models in forms of their own.
        if known is None or (
            known.type == "human" and message.get("content") not in (known.content, known.text)
        ):
            return f"this message: {to_json(message):.200}"
    others = [key for key in input_keys(graph) if key != "messages" and inputs.get(key)]
    changed = (key for key in others if to_json(inputs[key]) != to_json(values.get(key)))
    return next((f"this {key}: {to_json(inputs[key]):.200}" for key in changed), None)


def check_strategy(graph: Graph, agent: str, body: RunSettings) -> None:
    """Raise HTTPException (422) if an agent cannot do this with a message to a busy thread."""
    if body.multitask_strategy == "steer" and not can_be_steered(graph):
        raise HTTPException(
            422,
            f"multitask_strategy 'steer': agent {agent!r} reads no messages while it runs, since "
            "it has no SteeringMiddleware. Send 'enqueue' or 'interrupt'.",
        )


def checked_input(graph: Graph, agent: str, inputs: Mapping[str, object], *, waits: bool) -> object:
    """An input of an agent, without keys that its schema lacks.

    Args:
        inputs: The input, or one message.
        waits: Whether the thread waits for an answer, which the input may be.

    Raises:
        HTTPException: 422 if the input is empty or nearly has a key of the schema, or the thread
            waits and a key is not in the schema.
    """
    if not inputs:
        raise HTTPException(422, f"input is empty. {_EXAMPLE} Send null to go on without one.")
    keys, is_message = input_keys(graph), "content" in inputs and bool({"role", "type"} & {*inputs})
    others = [key for key in inputs if key not in keys and key != INTERRUPT]
    if not keys or is_message or not others:
        return inputs
    names = ", ".join(f"input.{key}" for key in others)
    missing = [key for key in keys if key not in inputs]
    for key in others:
        if close := get_close_matches(key, missing, 1, cutoff=0.85):
            text = f"input.{key} is not a key of agent {agent!r}. Did you mean {close[0]!r}?"
            raise HTTPException(422, text)
    if waits:
        key = others[0]
        answer = json.dumps(inputs[key] if key == "resume" else {key: inputs[key]}, default=str)
        raise HTTPException(
            422,
            f"The thread waits for an answer, and {names} is not a key of agent {agent!r}. Send "
            f'command: {{"resume": {answer:.500}}} to answer, or leave {names} out.',
        )
    logger.info("%s is not a key of agent %r and is left out.", names, agent)
    return {key: value for key, value in inputs.items() if key in keys} or inputs


_keys: WeakKeyDictionary[Graph, tuple[str, ...]] = WeakKeyDictionary()
"""The keys of inputs by agent: LangGraph makes the schema again each time."""


def input_keys(graph: Graph) -> tuple[str, ...]:
    """The keys of an agent's input; none if any key is allowed."""
    if graph not in _keys:
        _keys[graph] = tuple(graph.get_input_jsonschema().get("properties", ()))
    return _keys[graph]


def _is_paused(service: Service, thread: ThreadInfo, place: str | None) -> bool:
    """Return True if a thread waits at a checkpoint, or the newest, and not for an answer."""
    if thread.status != "waiting":
        return False
    waits = service.inbox(thread.tenant).waits(thread=thread.id, limit=1000)
    is_pause = all(wait.kind in ("pause", "result") for wait in waits)
    newest = service.threads.state(thread.id).config["configurable"] if place is not None else {}
    return is_pause and newest.get("checkpoint_id") == place
