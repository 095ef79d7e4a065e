"""Inputs of runs, checked against the agent and its thread.

LangGraph drops a key that no schema has, and an answer to a thread that waits for nothing, without
an error.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import get_args

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.types import Command, StreamMode

from agent_factory.errors import (
    AgentFactoryWarning,
    ArgumentError,
    NothingPending,
    NoThread,
    UnknownCall,
    UnknownInput,
    describe,
    did_you_mean,
)
from agent_factory.state.schema import ENGINE_KEYS
from agent_factory.upstream import named_interrupts, open_interrupts, waiting_nodes

STREAM_MODES = frozenset((*get_args(StreamMode), "tools"))
"""Modes of a stream; LangGraph's event protocol asks for "tools" as well."""

_ALIKE = 0.85
"""Least likeness of a misspelt key to the right one: "mesages" is like "messages". The key "tools",
which front ends for AG-UI send to any agent, is less like "todos"."""


def unknown_mode(modes: Collection[object]) -> ArgumentError:
    """Return the error for stream modes, if a mode does not exist."""
    mode = next(mode for mode in modes if mode not in STREAM_MODES)
    names = sorted(STREAM_MODES)
    otherwise = "Pass stream_mode='values', for example."
    hint = did_you_mean(str(mode), names, otherwise, repr)
    reason = f"must be one of {', '.join(names)}, got {describe(mode)}."
    return ArgumentError("stream_mode", reason, hint)


def check_threads(config: Mapping[str, object]) -> None:
    """Raise ArgumentError for a sync stream with one thread, in which LangGraph waits forever."""
    if config.get("max_concurrency") == 1:
        raise ArgumentError(
            "max_concurrency",
            "is 1, and a sync stream of messages, custom events or subgraphs keeps one thread "
            "waiting for them: no thread would be left for the nodes.",
            "Pass max_concurrency=2, use astream, or stream other modes.",
        )


def check_keys(
    input: object,
    keys: Collection[str],
    schema: Collection[str],
    checkpoint: CheckpointTuple | None,
) -> None:
    """Look for keys of an input that no schema of the agent has.

    Raises:
        UnknownInput: The key is nearly the same as an expected key, the input has no other key, or
            the thread waits for an answer, and the input may be meant as the answer.

    Warns:
        AgentFactoryWarning: The input has an unknown key.
    """
    # A Command may have pairs with a key twice: only the names count here.
    update = input.update if isinstance(input, Command) else input
    pairs = dict(update) if isinstance(update, Mapping | list | tuple) else {}
    # A caller may pass on the result of `invoke`.
    unknown_keys = [str(key) for key in pairs if key not in keys and key != "__interrupt__"]
    if not unknown_keys:
        return
    expected = [key for key in schema if key not in ENGINE_KEYS]
    names, left = ", ".join(map(repr, unknown_keys)), [key for key in expected if key not in pairs]
    reason = f"has {names}, which no schema of the agent has, so that it would be dropped."
    hint = f"The keys are {', '.join(expected)}. Declare others in a state_schema."
    fails = False
    if close := [
        m for key in unknown_keys for m in get_close_matches(key, left, n=1, cutoff=_ALIKE)
    ]:
        fails, hint = True, f"Did you mean {close[0]!r}?"
    # A Command answers, jumps or updates, so a key of its update is not a misplaced answer.
    elif not isinstance(input, Command):
        fails = len(unknown_keys) == len(pairs)
        if checkpoint is not None and any(open_interrupts(checkpoint).values()):
            answer = f"Command(resume={{{unknown_keys[0]!r}: ...}})"
            fails, hint = True, f"The thread waits for an answer: write {answer} to give it."
    error = UnknownInput("the input", reason, hint)
    if fails:
        raise error
    warnings.warn(AgentFactoryWarning([error]), stacklevel=2)


def check_answer(
    input: object, checkpoint: CheckpointTuple | None, place: Mapping[str, object]
) -> None:
    """Check that a thread waits for the answer in the input of a run.

    Raises:
        NoThread: The thread does not exist.
        NothingPending: The thread waits for nothing.
        UnknownCall: The answer names an interrupt that does not wait.
    """
    if not isinstance(input, Command) or input.resume is None or input.goto:
        return
    if checkpoint is None:
        raise missing_thread(place)
    interrupts, again = open_interrupts(checkpoint), "checkpoint_id" in place
    # At an earlier checkpoint, each answer can be given again.
    waiting = sorted(id for id, waits in interrupts.items() if waits or again)
    if not waiting:
        # The thread is paused at a node, has failed in one, or has not begun with its input.
        if (
            waiting_nodes(checkpoint, latest=not again)
            or checkpoint.metadata.get("source") == "input"
        ):
            return
        raise nothing_pending()
    answer_ids = named_interrupts(input.resume)
    # After the failure of one of several tasks, the answers to all tasks may be sent again.
    if answer_ids and (answer_ids - interrupts.keys() or answer_ids.isdisjoint(waiting)):
        raise UnknownCall(
            repr(min(answer_ids - interrupts.keys() or answer_ids)),
            "is not a pending interrupt.",
            f"Pending: {', '.join(map(repr, waiting))}.",
        )


def nothing_pending() -> NothingPending:
    """Return the error for an answer to a thread that is not paused."""
    reason = "is not paused: its run has ended."
    return NothingPending("the thread", reason, "Use invoke() for the next turn.")


def missing_thread(place: Mapping[str, object]) -> NoThread:
    """Return the error for an answer to a thread that does not exist."""
    where = f" {place['checkpoint_id']!r}" if place.get("checkpoint_id") else ""
    return NoThread(
        f"thread {place['thread_id']!r}",
        f"does not exist: the checkpointer has no checkpoint{where} of it.",
        "Check the config, or start the thread with invoke().",
    )
