"""Labels that a thread has seen: which tools have brought it untrusted text and private data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from types import MappingProxyType
from typing import Any, Final, Literal

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from typing_extensions import TypedDict

from agent_factory.guarantees.flows import is_guarded
from agent_factory.state.history import last_turn
from agent_factory.tools.labels import labels_of
from agent_factory.tools.labels import own_labels as own_labels
from agent_factory.tools.registry import plan_inside

SEEN: Final = "seen"
"""Key of a rule's condition: what the thread has seen."""

STATE_KEY: Final = "seen_labels"
"""Key of the state with what the thread has seen, which `FlowGuardMiddleware` writes."""

SourceLabel = Literal["untrusted", "private"]

SOURCES: Final[tuple[SourceLabel, ...]] = ("untrusted", "private")
"""The labels of results."""

_CONTENTS = {"untrusted": "text that others wrote", "private": "private data"}


class LabelSource(TypedDict):
    """Origin of a label in a thread.

    Attributes:
        tool: The tool whose result brought it; of an agent inside as "clerk/fetch".
        call: The id of its call, which its message has; None for a tool that the call may use.
    """

    tool: str
    call: str | None


Seen = Mapping[str, LabelSource]
"""What a thread has seen, by label: the first result that brought it."""

_outer: ContextVar[Seen] = ContextVar("seen_outside", default=MappingProxyType({}))
"""What the threads of the agents have seen that called this one."""


@contextmanager
def seen_outside(sources: Seen) -> Iterator[None]:
    """Let the agents that a tool calls know what the thread has seen that calls the tool."""
    token = _outer.set({**sources, **_outer.get()})  # the outermost thread has seen it first
    try:
        yield
    finally:
        _outer.reset(token)


def labels_inside(tool: BaseTool | None) -> dict[str, str]:
    """Return the labels of the tools of an agent that a tool calls; for each, a tool that has it.

    A tool with an effect outside counts if nothing in there decides about it.
    """
    labels: dict[str, str] = {}
    if tool is not None and (plan := plan_inside(tool)) is not None:
        for inner in plan.tools:
            for label in inner.labels:
                if label != "outside" or not is_guarded(plan, inner):
                    labels.setdefault(label, f"{tool.name}/{inner.name}")
    return labels


def flow_labels(tool: BaseTool | None) -> dict[str, str]:
    """Return the labels of a tool and of the agent that it calls, and for each the tool it is from.

    `tool_labels` of a tool that calls an agent decides about its results, not about its effects.
    """
    if tool is None:
        return {}
    is_said = own_labels(tool) is not None
    inside = (label for label in labels_inside(tool) if label == "outside" or not is_said)
    # Whether a tool of the agent ran is not known here, so the result is that of the agent.
    return dict.fromkeys((*inside, *labels_of(tool)), tool.name)


def thread_labels(request: ToolCallRequest) -> Seen | None:
    """Return what the thread of a call has seen; None if it has no state, so that nobody knows.

    Results that the thread still has count even if nothing kept their labels: those from before
    the agent had a `FlowGuardMiddleware`, and those that a layer outside of it wrote.
    """
    state: Any = request.state
    if not isinstance(state, Mapping) or "messages" not in state:
        return None
    sources: dict[str, LabelSource] = {**(state.get(STATE_KEY) or {}), **_outer.get()}
    if all(label in sources for label in SOURCES):
        return sources
    labels_by_name, calls = _labels_by_name(request), dict[str | None, str]()
    for message in state["messages"]:
        calls |= {call["id"]: call["name"] for call in getattr(message, "tool_calls", ())}
        if isinstance(message, ToolMessage):
            for name in (message.name, calls.get(message.tool_call_id)):  # a client may send none
                for label, tool in labels_by_name(name).items():
                    sources.setdefault(label, LabelSource(tool=tool, call=message.tool_call_id))
    return sources


def _labels_by_name(request: ToolCallRequest) -> Callable[[str | None], dict[str, str]]:
    """Return a function that returns `flow_labels` of a tool of the agent, by its name."""
    tools = {tool.name: tool for tool in getattr(request.runtime, "tools", None) or ()}
    # Most results of a thread are of a few tools.
    return cache(lambda name: flow_labels(tools.get(name or "")))


def labels_seen(request: ToolCallRequest) -> Seen | None:
    """Return what the thread of a call has seen, for a rule about the call; None if nobody knows.

    A call of an agent counts as having seen what the tools of that agent bring. A call with an
    effect outside counts as having seen the private data that its tool brings itself, and, after
    text of others, that which another call of its turn may leave where this one finds it.
    """
    sources = thread_labels(request)
    if sources is None:
        return None
    inside = labels_inside(request.tool)
    if "outside" in (own := flow_labels(request.tool)) and "private" not in sources:
        answer, _ = last_turn(request.state["messages"])
        calls = answer.tool_calls if answer and "untrusted" in sources else []
        turn = map(_labels_by_name(request), (call["name"] for call in calls))
        for tool in (labels["private"] for labels in (own, *turn) if "private" in labels):
            inside.setdefault("private", tool)
    return {label: LabelSource(tool=t, call=None) for label, t in inside.items()} | {**sources}


def seen_text(sources: Seen | None, labels: Iterable[str]) -> str:
    """Say which results brought some labels, in a sentence for those who decide about a call.

    >>> seen_text({"private": {"tool": "read_mail", "call": "call_1"}}, ("private",))
    'The thread has seen private data: the result of read_mail (call_1).'
    """
    if sources is None:
        return "Nobody knows what the thread has seen, because the call has no state."
    results = []
    for label in labels:
        if (source := sources.get(label)) is not None:
            tool, call = source["tool"], source["call"]
            text = f"the result of {tool} ({call})" if call else f"{tool}, which this call may use"
            results.append(f"{_CONTENTS[label]}: {text}")
    return f"The thread has seen {', and '.join(results)}." if results else ""
