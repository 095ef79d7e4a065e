"""Labels in a thread: the tools with untrusted text and private data among their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
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
from agent_factory.types import RunServices, providing, run_services, setting

SEEN: Final = "seen"
"""Key of a rule's condition with the labels in the thread."""

STATE_KEY: Final = "seen_labels"
"""Key of the state with the labels in the thread, written by `FlowGuardMiddleware`."""

SourceLabel = Literal["untrusted", "private"]

SOURCES: Final[tuple[SourceLabel, ...]] = ("untrusted", "private")
"""The labels of results."""

_CONTENTS = {"untrusted": "text that others wrote", "private": "private data"}


class LabelSource(TypedDict):
    """Origin of a label in a thread.

    Attributes:
        tool: The tool with the first result; a tool of an agent inside as "clerk/fetch".
        call: The id of the call of this result; None for a tool within reach of the call.
    """

    tool: str
    call: str | None


Seen = Mapping[str, LabelSource]
"""The labels in a thread, each with the first result of the label."""


def seen_outside(sources: Seen) -> setting[RunServices]:
    """Let the agents inside of a tool know the labels in the thread of the tool call."""
    # The outermost thread has seen a label first.
    return providing(seen={**sources, **run_services.get().seen})


def labels_inside(tool: BaseTool | None) -> dict[str, str]:
    """Return the labels of the tools of an agent inside a tool, each with a tool of the label.

    A tool with an effect outside counts if nothing in the agent guards the tool.
    """
    labels: dict[str, str] = {}
    if tool is not None and (plan := plan_inside(tool)) is not None:
        for inner in plan.tools:
            for label in inner.labels:
                if label != "outside" or not is_guarded(plan, inner):
                    labels.setdefault(label, f"{tool.name}/{inner.name}")
    return labels


def flow_labels(tool: BaseTool | None) -> dict[str, str]:
    """Return the labels of a tool and of the agent inside, each with the name of the tool.

    `tool_labels` of a tool with an agent inside is about the results, not about the effects.
    """
    if tool is None:
        return {}
    is_said = own_labels(tool) is not None
    inside = (label for label in labels_inside(tool) if label == "outside" or not is_said)
    # The tools used by the agent are not known here, so the label comes from the agent.
    return dict.fromkeys((*inside, *labels_of(tool)), tool.name)


def thread_labels(request: ToolCallRequest) -> Seen | None:
    """Return the labels in the thread of a call; None without a state.

    Results in the thread count even without stored labels: results older than the
    `FlowGuardMiddleware` of the agent, and results of a layer outside of this middleware.
    """
    state: Any = request.state
    if not isinstance(state, Mapping) or "messages" not in state:
        return None
    sources: dict[str, LabelSource] = {**(state.get(STATE_KEY) or {}), **run_services.get().seen}
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
    """Return a function from the name of a tool of the agent to `flow_labels` of the tool."""
    tools = {tool.name: tool for tool in getattr(request.runtime, "tools", None) or ()}
    # Most results of a thread are of a few tools.
    return cache(lambda name: flow_labels(tools.get(name or "")))


def labels_seen(request: ToolCallRequest) -> Seen | None:
    """Return the labels for a rule about a call; None if unknown.

    The labels in the thread, and more: for a call of an agent, the labels of the tools of this
    agent; for a call with an effect outside, private data of the tool, and, after untrusted text,
    private data of another call of the turn, which may leave the data within reach of this call.
    """
    sources = thread_labels(request)
    if sources is None:
        return None
    inside = labels_inside(request.tool)
    if "outside" in (tool_labels := flow_labels(request.tool)) and "private" not in sources:
        answer, _ = last_turn(request.state["messages"])
        calls = answer.tool_calls if answer and "untrusted" in sources else []
        turn = map(_labels_by_name(request), (call["name"] for call in calls))
        for tool in (labels["private"] for labels in (tool_labels, *turn) if "private" in labels):
            inside.setdefault("private", tool)
    return {label: LabelSource(tool=t, call=None) for label, t in inside.items()} | {**sources}


def seen_text(sources: Seen | None, labels: Iterable[str]) -> str:
    """Name the results with some labels, in a sentence for a reviewer.

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
