"""What the tools of one turn say of the run, kept until all of them have spoken.

Each tool call is a task of its own, and none sees what the others gave. So a task hands on what
concerns the run: commands to a parent graph, and marks of what may be the answer, go to a private
channel; a stop is the state's jump. The next node sees all of it and passes it on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from langgraph.runtime import get_runtime
from langgraph.types import Command, Send

from agent_factory.errors import CommandNotSupported, UndeclaredJump
from agent_factory.runtime.routing import WRITTEN, Rules
from agent_factory.state.history import last_turn
from agent_factory.state.schema import TOOL_SIGNALS
from agent_factory.state.updates import pairs_of
from agent_factory.topology.model import END

NAMESPACE_MARK = "|"
"""Parts a checkpoint namespace: a node of a subgraph has its parent's namespace before it."""


def translate_command(command: Command[Any]) -> Command[Any]:
    """A tool's command in words that the loop understands.

    Raises:
        CommandNotSupported: It leads to another node.
        UndeclaredJump: Its update jumps, and not to the end.
        BadReturn: Its update is neither a dict nor a list of pairs.
    """
    if command.graph == Command.PARENT:
        return relay_to_parent(command)
    pairs = pairs_of(command, "a tool")
    written = dict(pairs)
    jump = written.get("jump_to")
    if jump not in (None, "end"):
        raise UndeclaredJump("a tool", f"jumped to {jump!r}.", "A tool can jump to 'end' alone.")
    said = {}
    if command.goto in (END, [END], (END,)):
        said["jump_to"] = "end"
    elif nodes := [target for target in _targets(command) if not isinstance(target, Send)]:
        raise CommandNotSupported(
            "a tool",
            f"returned a Command with goto={nodes!r}, and the tools' own edge would be taken too.",
            "goto=END stops the run, and graph=Command.PARENT leads to another node of the parent.",
        )
    if written.get("structured_response") is not None:
        said[TOOL_SIGNALS] = WRITTEN
    return _with(command, pairs, said)


def relay_to_parent(command: Command[Any]) -> Command[Any]:
    """A command to the parent graph, put where the next node finds it; another as it is."""
    return Command(update={TOOL_SIGNALS: command}) if command.graph == Command.PARENT else command


def _with(
    command: Command[Any], pairs: list[tuple[str, Any]], said: dict[str, str]
) -> Command[Any]:
    if not said:
        return command
    both = [*pairs, *said.items()]
    # A dict where it can be one: LangGraph's streams look into dicts alone.
    update = dict(both) if len(dict(both)) == len(both) else both
    return replace(command, update=update, goto=() if "jump_to" in said else command.goto)


def pending_exit(state: Mapping[str, Any], rules: Rules) -> Any:
    """What a node inside the loop hands on without working; None where it should work.

    Tools of one turn leave together for the loop's entry. Where one of them stops the run, or
    their results are its answer, the jump goes from node to node until it can be followed.
    """
    signals = state.get(TOOL_SIGNALS) or ()
    if not signals and state.get("jump_to") != "end":
        return None
    if commands := [signal for signal in signals if isinstance(signal, Command)]:
        _check_parent()
        return _merged(commands)
    if state.get("jump_to") == "end" or (signals and _answered(state, rules)):
        return {"jump_to": "end"}
    return None


def _answered(state: Mapping[str, Any], rules: Rules) -> bool:
    if state.get("structured_response") is not None:
        return True
    message, tail = last_turn(state["messages"])
    return message is not None and rules.returns(message, tail)


def _check_parent() -> None:
    info = get_runtime().execution_info
    if info is not None and NAMESPACE_MARK not in info.checkpoint_ns:
        raise CommandNotSupported(
            "a tool",
            "returned a Command to the parent graph, and this agent has none.",
            "Add the agent to a graph as a node, or leave out graph=Command.PARENT.",
        )


def _merged(commands: list[Command[Any]]) -> Command[Any]:
    """One command for the parent graph; LangGraph would let only the first one through."""
    if len(commands) == 1:
        return commands[0]
    return Command(
        graph=Command.PARENT,
        update=[pair for command in commands for pair in pairs_of(command, "a tool")],
        goto=[target for command in commands for target in _targets(command)],
    )


def _targets(command: Command[Any]) -> list[Any]:
    goto = command.goto
    return list(goto) if isinstance(goto, list | tuple) else [goto]
