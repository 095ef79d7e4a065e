"""Limits of the agent loop: turns with errors alone, and jumps after which nothing is new.

The limits end loops without another end. The length of a run that makes progress is the user's
decision: `recursion_limit`, and middleware with a limit of calls, tokens or money.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import count, islice, takewhile
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.runtime import Runtime
from langgraph.types import Command

from agent_factory.errors import EndlessLoop
from agent_factory.hooks.flows import then
from agent_factory.state.history import call_ids, is_explanation
from agent_factory.structured_output.strategies import MAX_RETRIES
from agent_factory.upstream import run_identity

MAX_UNREADABLE_TURNS = 1 + MAX_RETRIES
"""Turns in a row whose calls all have invalid JSON arguments, before the run ends."""

MAX_FAILED_TURNS = 10
"""Turns in a row with errors alone, before the run ends."""

MAX_JUMPS = 100
"""Jumps of a hook to the model with nothing new for the model, before an error is raised."""

ENDED_KWARGS = {"lc_source": "only_errors"}
"""`additional_kwargs` of the message that ends a run after turns with errors alone."""

REFUSAL_KWARGS = {"lc_source": "not_offered"}
"""`additional_kwargs` of the answer to a call of a tool that the request did not offer."""


class _FailedTurn(NamedTuple):
    """A turn whose calls all have an error as their result."""

    calls: list[tuple[str, object, str]]  # the name, arguments and error of each
    unreadable: bool  # no call had valid JSON arguments
    ran: bool  # a tool of the agent may have run


def _failed_turns(
    messages: Sequence[AnyMessage], tool_names: Collection[str]
) -> Iterator[_FailedTurn]:
    """Yield the failed turns at the end of a history, the last turn first."""
    errors: dict[str, str] = {}
    refused_ids: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            # Invalid structured answers have a limit of the user.
            if message.status != "error" or is_explanation(message):
                return
            errors[message.tool_call_id] = message.text
            if message.additional_kwargs == REFUSAL_KWARGS:
                refused_ids.add(message.tool_call_id)
            continue
        if not isinstance(message, AIMessage):
            return
        ids = call_ids(message)
        # One call without an error, or without a result so far, and the turn has not failed.
        if not ids or not errors.keys() >= set(ids):
            return
        calls = [*message.tool_calls, *message.invalid_tool_calls]
        yield _FailedTurn(
            calls=[(str(call["name"]), call["args"], errors[str(call["id"])]) for call in calls],
            unreadable=not message.tool_calls,
            ran=any(
                call["name"] in tool_names and call["id"] not in refused_ids
                for call in message.tool_calls
            ),
        )
        errors = {}


def why_to_end(messages: Sequence[AnyMessage], tool_names: Collection[str]) -> str | None:
    """Return the reason not to ask the model again, or None to ask.

    A failed turn counts if no tool of the agent ran there, or if the turn before was the same. A
    result, and a message of the user, start the count again.
    """
    failed = [*islice(_failed_turns(messages, tool_names), MAX_FAILED_TURNS + 1)]
    unreadable = len([*takewhile(lambda turn: turn.unreadable, failed)])
    names = ", ".join(dict.fromkeys(name for name, *_ in failed[0].calls)) if failed else ""
    if unreadable >= MAX_UNREADABLE_TURNS:
        return f"the model's calls of {names} could not be read, {unreadable} times in a row"
    pairs = zip(failed, [*failed[1:], None], strict=False)
    repeats = takewhile(lambda pair: not pair[0].ran or pair[0] == pair[1], pairs)
    if len([*repeats]) < MAX_FAILED_TURNS:
        return None
    return f"{MAX_FAILED_TURNS} turns in a row brought only errors, the last from calls of {names}"


class JumpLimit:
    """Limit of the jumps of a hook to the model while the model gets nothing new.

    A new message with the text of the last message, after the same answer, is nothing new.
    """

    RUNS = 64
    """Maximum number of active runs whose jumps are counted; the oldest is forgotten."""

    def __init__(self, hook: str) -> None:
        self._hook = hook
        # Two entries for each run: the message of the user, and the last exchange.
        self._jumps = lru_cache(2 * self.RUNS)(lambda run, key: count(1))

    def around(self, hook: Callable[[Any, Any], object], state: Any, runtime: Runtime[Any]) -> Any:
        """Call a hook, sync or async, and count its jumps."""
        return then(hook(state, runtime), partial(self.check, state, runtime))

    def check(self, state: Mapping[str, Any], runtime: Runtime[Any], result: object) -> object:
        """Return the result of the hook; raise EndlessLoop for a jump too many."""
        update = result.update if isinstance(result, Command) else result
        if not isinstance(update, Mapping) or update.get("jump_to") != "model":
            return result
        # The model's own answers are nothing new for the model.
        messages = state["messages"]
        question = next((m for m in reversed(messages) if not isinstance(m, AIMessage)), None)
        answer = next((m for m in reversed(messages) if isinstance(m, AIMessage)), None)
        calls = [(call["name"], call["args"]) for call in answer.tool_calls] if answer else []
        # The text, because contents may be lists of blocks, which have no hash.
        exchange = hash(str([question and question.content, answer and answer.content, calls]))
        run, message = run_identity(runtime), question and question.id
        jumps = max(next(self._jumps(run, key)) for key in (message, exchange))
        if jumps >= MAX_JUMPS:
            raise EndlessLoop(
                self._hook,
                f"jumped to 'model' {jumps} times, and the model got nothing new in between.",
                "Jump only if something changed: return None after a few attempts, or add a "
                "message that says what to do differently.",
            )
        return result
