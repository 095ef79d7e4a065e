"""Commands to the parent graph, kept until all tools of a turn have spoken.

Each tool call is a task of its own, and the first command to a parent that a task raised would be
the only one to get through. So tools hand theirs to a private channel, and the next node passes
all of them on as one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.types import Command

from agent_factory.errors import BadReturn, describe
from agent_factory.schema import RELAY


def relayed(state: Mapping[str, Any]) -> Command[Any] | None:
    """The one command for the parent graph that waits in a state; None where there is none."""
    commands: Sequence[Command[Any]] = state.get(RELAY) or ()
    if len(commands) < 2:
        return commands[0] if commands else None
    gotos = [target for command in commands for target in _targets(command)]
    updates = [pair for command in commands for pair in _updates(command)]
    return Command(graph=Command.PARENT, update=updates, goto=gotos)


def _targets(command: Command[Any]) -> list[Any]:
    goto = command.goto
    return list(goto) if isinstance(goto, list | tuple) else [goto]


def _updates(command: Command[Any]) -> list[tuple[str, Any]]:
    update = command.update
    if update is None:
        return []
    if isinstance(update, Mapping):
        return list(update.items())
    if isinstance(update, Sequence) and all(isinstance(pair, tuple) for pair in update):
        return list(update)
    raise BadReturn(
        "a tool",
        f"returned a Command to the parent graph whose update is {describe(update)}, beside "
        "another such command.",
        "Give a dict of the parent's state keys.",
    )
