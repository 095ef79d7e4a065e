"""Handoffs: commands of tools to the parent graph, with the results of parallel calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from langchain_core.messages import AnyMessage, ToolMessage
from langgraph.types import Command, Send

from agent_factory.state.channels import random_id
from agent_factory.state.history import (
    answers_of,
    call_ids,
    last_turn,
    messages_in,
    results_of,
    with_results,
)
from agent_factory.state.updates import pairs_of


def command_to_parent(
    commands: Sequence[Command[Any]], messages: Sequence[AnyMessage]
) -> Command[Any]:
    """Return one command for the handoffs of a turn, with the results of all other calls."""
    message, tail = last_turn(messages)
    ids = [] if message is None else call_ids(message)
    if len(ids) > 1:
        commands = _with_results(commands, ids, answers_of(tail))
    # Unchanged: a parent gets the result of the tool, a dict as a dict.
    if len(commands) == 1:
        return commands[0]
    # LangGraph would let only the first command pass.
    return Command(
        graph=Command.PARENT,
        update=[pair for command in commands for pair in pairs_of(command, "a tool")],
        goto=[target for command in commands for target in targets_of(command)],
    )


def targets_of(command: Command[Any]) -> list[Any]:
    """Return where a command goes."""
    goto = command.goto
    return list(goto) if isinstance(goto, list | tuple) else [goto]


def _with_results(
    commands: Sequence[Command[Any]], ids: Sequence[str], results: Mapping[str, object]
) -> list[Command[Any]]:
    """Return handoffs in which each passed call has its result.

    A tool passes on the history from before the turn, without the results of parallel calls.
    """
    from_updates: dict[str, Any] = {}  # results that the parent gets from the updates
    from_targets: dict[str, Any] = {}
    for command in commands:
        from_updates |= results_of(ids, messages_in(command.update))
        for target in targets_of(command):
            if isinstance(target, Send):
                from_targets |= results_of(ids, messages_in(target.arg))
    results = {**from_targets, **from_updates, **results}
    for result in results.values():
        if isinstance(result, ToolMessage) and result.id is None:
            result.id = random_id()  # by the id, a parent merges a message from several handoffs
    missing = {id: result for id, result in results.items() if id not in from_updates}
    new_commands = []
    for command in commands:
        update = _completed(command.update, missing)
        # Only once: the updates of several handoffs are written one after the other.
        missing = {id: missing[id] for id in missing.keys() - results_of(ids, messages_in(update))}
        goto = [_completed(target, results) for target in targets_of(command)]
        new_commands.append(replace(command, update=update, goto=goto))
    return new_commands


def _completed(payload: Any, results: Mapping[str, object]) -> Any:
    """Return an update or a target of a command with the missing results in its messages."""
    if isinstance(payload, Send):
        # A tool may return the same Send each time, and keep the object.
        target = copy(payload)
        target.arg = _completed(payload.arg, results)
        return target
    if isinstance(payload, Mapping):
        return dict(_completed([*payload.items()], results))
    if not messages_in(payload):
        return payload
    return [
        (key, with_results(value, results))
        if key == "messages" and isinstance(value, list)
        else (key, value)
        for key, value in payload
    ]
