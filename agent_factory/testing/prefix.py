"""Check that a conversation keeps the prefix of requests, which providers cache."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import uuid4

from langgraph.types import Command

from agent_factory.decisions.log import Decision, DecisionLog, Outcome
from agent_factory.decisions.prefix.change import INPUT, REPAIR
from agent_factory.errors import ArgumentError, describe, did_you_mean
from agent_factory.factory.agent import middleware_of, tools_of, with_decisions
from agent_factory.hooks.flows import Flow, Invoke, arun, run
from agent_factory.hooks.ordering import is_strings
from agent_factory.testing.harness import in_thread

CALLERS = {INPUT.hook: "the input of the run", REPAIR.hook: "the repair of the history"}
"""What may change a prefix besides middleware and tools, with its name in `allow`."""


class PrefixChanged(AssertionError):
    """A conversation in which a request begins unlike the request before.

    Attributes:
        changes: Each change with the number of the turn, as the decision log records it.
    """

    def __init__(self, changes: Sequence[tuple[int, Decision]]) -> None:
        self.changes = tuple(changes)
        lines = []
        for turn, change in changes:
            who = f"{change.middleware}.{change.hook}"
            if not change.middleware:
                who = f"the tool {change.tool}" if change.tool else CALLERS[change.hook]
            lines.append(f"turn {turn}: {who} {change.detail}.")
        name = _name_of(changes[0][1])
        lines.append(
            "Put what changes behind what stays: at the end of the last message, or of the system "
            f"prompt. If it is meant to change, pass allow={{{name!r}}}."
        )
        super().__init__("\n".join(lines))


def assert_stable_prefix(
    agent: object,
    conversation: Sequence[object],
    *,
    allow: Collection[str] = (),
    context: object = None,
    config: Mapping[str, object] | None = None,
) -> None:
    """Run a conversation, and fail unless each request begins like the request before.

    Providers read a request in the order tools, system prompt, messages, and cache the beginning.
    So each request has to repeat the request before, and may add messages at the end. The last
    message may change in the next request, because a message that is only shown, such as a list of
    tasks, costs the cache little; models that preserve thinking lose the thoughts of that answer
    (docs/prompt_caching.md has a table). A change of the model, of `tool_choice` or of settings for
    the model counts, too; marks for the cache and sampling settings do not count.

    Args:
        agent: An agent of `create_agent`. With a checkpointer the conversation is a new thread;
            without one, texts and messages follow the messages of the turns before.
        conversation: The turns: texts, messages, whole inputs of the agent, or a `Command` to
            resume an interrupt.
        allow: Allowed sources of a change: names of middleware, such as a summarization, names
            of tools, "input" for messages of the caller, "model" for repaired histories.
        context: `runtime.context`.
        config: A RunnableConfig.

    Raises:
        PrefixChanged: A request began otherwise than the request before. The error names the turn,
            the cause, the position, and about how many tokens the cache no longer holds.
        ArgumentError: `create_agent` did not build `agent`, the conversation is not a list, or
            `allow` has a name outside of the agent.

    >>> from itertools import count
    >>> from agent_factory import create_agent, dynamic_prompt
    >>> from agent_factory.testing import ScriptedChatModel
    >>> minutes = count()
    >>> @dynamic_prompt
    ... def clock(request):
    ...     return f"You help. It is 12:0{next(minutes)}."
    >>> agent = create_agent(ScriptedChatModel(["Hello!", "Fine."]), middleware=[clock])
    >>> try:
    ...     assert_stable_prefix(agent, ["Hi", "How are you?"])
    ... except PrefixChanged as error:
    ...     print(str(error).partition(";")[0])
    turn 2: clock.around_model changes the system prompt at byte 20
    """
    __tracebackhide__ = True
    if changes := run(_changes(agent, conversation, allow, context, config)):
        raise PrefixChanged(changes)


async def aassert_stable_prefix(
    agent: object,
    conversation: Sequence[object],
    *,
    allow: Collection[str] = (),
    context: object = None,
    config: Mapping[str, object] | None = None,
) -> None:
    """`assert_stable_prefix` for asynchronous runs."""
    __tracebackhide__ = True
    if changes := await arun(_changes(agent, conversation, allow, context, config)):
        raise PrefixChanged(changes)


def _changes(
    agent: Any,
    conversation: Sequence[object],
    allow: Collection[str],
    context: object,
    config: Mapping[str, Any] | None,
) -> Flow[list[tuple[int, Decision]]]:
    """Run the conversation; return each change outside of `allow`, with the turn."""
    if isinstance(conversation, str) or not isinstance(conversation, Sequence) or not conversation:
        raise ArgumentError(
            "conversation",
            f"must be a list of turns, got {describe(conversation)}.",
            'Pass ["Hello", "And then?"].',
        )
    names = {*(m.name for m in middleware_of(agent)), *tools_of(agent), *CALLERS}
    if not is_strings(allow) or not names.issuperset(allow):
        unknown = [name for name in allow if name not in names] if is_strings(allow) else [""]
        hint = did_you_mean(unknown[0], names, f"It has {', '.join(sorted(names))}.", repr)
        reason = f"must be names of middleware or tools of the agent, got {describe(allow)}."
        raise ArgumentError("allow", reason, hint)
    changes: list[tuple[int, Decision]] = []
    turn = 0

    def note(decision: Decision) -> None:
        is_change = decision.outcome is Outcome.CHANGED_PREFIX
        if is_change and _name_of(decision) not in allow:
            changes.append((turn, decision))

    # With contents, so that the exact byte is known.
    recording_agent = with_decisions(agent, DecisionLog(note, contents=True)).bind(context=context)
    # A new thread each time: with a fixed id, a second check would continue the first thread.
    run_config = in_thread(config, str(uuid4()))
    result: Any = {}
    for turn_input in conversation:
        turn += 1
        run_input: object = {"messages": turn_input}
        if isinstance(turn_input, Mapping | Command):
            run_input = turn_input
        # Without a checkpointer, nothing else keeps the conversation from turn to turn.
        elif not agent.checkpointer:
            run_input = {"messages": [*result.get("messages", ()), turn_input]}
        result = yield Invoke(recording_agent, run_input, run_config)
    return changes


def _name_of(change: Decision) -> str:
    """Name of the source of a change, for `allow`."""
    return change.middleware or change.tool or change.hook
