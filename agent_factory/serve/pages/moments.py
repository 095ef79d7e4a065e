"""Moments: what has happened on a thread, in words, as a tree of its checkpoints."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.types import StateSnapshot

from agent_factory.serve.pages.conversation import in_one_line
from agent_factory.serve.pages.markdown import plain_words
from agent_factory.serve.pages.queue import QueuedMessage
from agent_factory.serve.pages.rails import PATH, Rails
from agent_factory.serve.pages.verdicts import changes
from agent_factory.service import Wait

LONGEST = 160
"""Characters of a text that a line quotes."""


@dataclass(frozen=True, slots=True)
class Line:
    """Something that happened: who did what, to which tool, and how.

    Args:
        who: A person or an agent.
        did: What they did, such as "approved".
        tool: The tool that it was about, if there is one.
        how: Arguments, or a text, or what was changed.
        kind: "human", "ai", "tool" or "decision", for the style.
    """

    who: str
    did: str
    tool: str = ""
    how: str = ""
    kind: str = "ai"


@dataclass(frozen=True, slots=True)
class Step:
    """A checkpoint, as developers know it.

    Args:
        id: Its id.
        number: The number of the step that has written it.
        source: "input", "loop", "update" or "fork", as LangGraph's metadata have it.
        next: The nodes that run next.
        messages: How many messages the state has.
    """

    id: str
    number: int
    source: str
    next: tuple[str, ...]
    messages: int


@dataclass(slots=True)
class Moment:
    """A row of a history: a checkpoint, a decision, or a message that waits for its turn.

    Args:
        at: When, in seconds since 1970.
        lines: What happened.
        checkpoint: The id of the checkpoint; "" if the row is about something else.
        before: The id of the checkpoint that it comes from, if there is one.
        wait: The id of the wait that it is about, if it is about one.
        is_open: Whether nobody has decided that wait.
        note: What a message waits for, if it does.
        steps: The checkpoint, and later ones at which nothing happened that people care about.
        branches: How many branches go on from here.
        rails: What each column of the branches shows, as classes of a style.
        is_on_path: Whether it led to where the thread is now.
    """

    at: float
    lines: tuple[Line, ...]
    checkpoint: str = ""
    before: str | None = None
    wait: str = ""
    is_open: bool = False
    note: str = ""
    steps: list[Step] = field(default_factory=list)
    branches: int = 0
    rails: tuple[str, ...] = ()
    is_on_path: bool = True

    @property
    def words(self) -> str:
        """The lines as one text."""
        parts = (
            " ".join(filter(None, (line.who, line.did, line.tool, line.how))) for line in self.lines
        )
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class Wording:
    """Words for what has happened, with the names of those who did it.

    Args:
        agent: The name of the agent.
        author: Who writes to it, such as "the user".
    """

    agent: str
    author: str = "the user"

    def lines(self, before: Sequence[BaseMessage], after: Sequence[BaseMessage]) -> list[Line]:
        """What has happened between two states, by their messages."""
        previous = by_id(before)
        messages = by_id(after)
        lines: list[Line] = []
        for key, message in messages.items():
            if key not in previous:
                lines += self.written(message)
            elif message != previous[key]:
                lines += self.changed(previous[key], message)
        if lost := len(previous.keys() - messages.keys()):
            count = "1 message" if lost == 1 else f"{lost:,} messages"
            lines.append(Line("", f"{count} left the conversation"))
        return lines

    def written(self, message: BaseMessage) -> Iterator[Line]:
        """A message that was added."""
        # Set where a middleware has written the message, such as a summary.
        source = message.additional_kwargs.get("lc_source")
        text = quoted(message.text)
        if isinstance(message, ToolMessage):
            did = "returned"
            if message.status == "error":
                did = "did not run:" if source else "failed:"
            yield Line("", "", message.name or "a tool", f"{did} {text}", kind="tool")
        elif source:
            yield Line(str(source), "wrote:", how=text)
        elif isinstance(message, HumanMessage):
            yield Line(self.author, "wrote:", how=text, kind="human")
        elif isinstance(message, AIMessage):
            if message.text.strip():
                did = "wrote:" if message.tool_calls else "answered:"
                yield Line(self.agent, did, how=quoted(plain_words(message.text)))
            for call in message.tool_calls:
                yield Line(self.agent, "called", call["name"], in_one_line(call["args"]))
        else:
            yield Line("", f"{message.type} message:", how=text)

    def changed(self, before: BaseMessage, after: BaseMessage) -> Iterator[Line]:
        """A message that was there, and is another one now."""
        if isinstance(before, AIMessage) and isinstance(after, AIMessage):
            # A review changes the arguments of a call in its message, which keeps its id.
            calls = {call["id"]: call for call in before.tool_calls}
            for call in after.tool_calls:
                earlier = calls.get(call["id"])
                if earlier is not None and (change := changes(earlier["args"], call["args"])):
                    yield Line("", "", call["name"], change, kind="tool")
        if before.text != after.text:
            yield Line("", "a message became", how=quoted(after.text))

    def decision(self, wait: Wait) -> Line:
        """The decision about a wait, or that there is none yet."""
        kind = (wait.decision or {}).get("type")
        message = (wait.decision or {}).get("message")
        if kind is None:
            args = in_one_line(wait.args)
            return Line("", "waits for a decision about", wait.tool, args, kind="decision")
        # The inbox calls itself so, where nobody has decided in time.
        who = "the deadline" if wait.decided_by == "deadline" else str(wait.decided_by)
        did = {
            "approve": "approved",
            "edit": "changed and approved",
            "reject": "rejected",
            "respond": "answered" if wait.kind == "question" else "answered in place of",
            "cancel": "withdrew the question about",
        }.get(kind, kind)
        how = "" if message is None else quoted(str(message))
        if (action := (wait.decision or {}).get("edited_action")) is not None:
            how = changes(wait.args, action["args"]) or "nothing"
            if action["name"] != wait.tool:
                how = f"{action['name']} runs in place of it, {how}"
        return Line(who, did, wait.tool, how, kind="decision")


def by_id(messages: Iterable[BaseMessage]) -> dict[str, BaseMessage]:
    """Messages by their ids; by their places, if they have none."""
    return {message.id or f"message-{n}": message for n, message in enumerate(messages)}


def quoted(text: str) -> str:
    """A text in one line and in quotes, a long one cut."""
    line = " ".join(text.split())
    return f"“{line if len(line) <= LONGEST else f'{line[: LONGEST - 1]}…'}”"


def id_of(state: StateSnapshot) -> str:
    """The id of the checkpoint of a state."""
    return str(state.config["configurable"]["checkpoint_id"])


def parent_of(state: StateSnapshot) -> str | None:
    """The id of the checkpoint that a state comes from; None if it is the first."""
    parent = state.parent_config
    return None if parent is None else str(parent["configurable"]["checkpoint_id"])


def time_of(state: StateSnapshot) -> float:
    """When a state was stored, in seconds since 1970."""
    return datetime.fromisoformat(state.created_at).timestamp() if state.created_at else 0.0


def step_of(state: StateSnapshot) -> Step:
    """A checkpoint, as developers know it."""
    metadata: Mapping[str, Any] = state.metadata or {}
    # Without nodes of LangGraph, such as `__start__`.
    following = tuple(name for name in state.next if not name.startswith("__"))
    count = len(state.values.get("messages") or ())
    source = str(metadata.get("source", ""))
    return Step(id_of(state), metadata.get("step", 0), source, following, count)


def happenings(
    states: Sequence[StateSnapshot], wording: Wording, parents: Mapping[str, StateSnapshot]
) -> dict[str, Moment]:
    """The moment that each checkpoint belongs to, by the ids of the checkpoints, the oldest first.

    A checkpoint at which nothing happened that people care about is a step of the moment before it.

    Args:
        states: The states, the newest first.
        wording: The words for what has happened.
        parents: States that come before these, by the ids of their checkpoints.
    """
    earlier_states = {id_of(state): state for state in states} | dict(parents)
    moments: dict[str, Moment] = {}
    for state in reversed(states):
        id, parent = id_of(state), parent_of(state)
        earlier = earlier_states.get(parent or "")
        messages = (earlier.values.get("messages") if earlier else None) or ()
        lines = wording.lines(messages, state.values.get("messages") or ())
        # Most checkpoints are those of hooks that pass: people would not find the others.
        moment = moments.get(parent or "")
        if lines or moment is None:
            begun = Line("", "the thread began" if parent is None else "the run went on")
            moment = Moment(time_of(state), tuple(lines or [begun]), id, parent)
        moment.steps.append(step_of(state))
        moments[id] = moment
    return moments


def moments_of(
    states: Sequence[StateSnapshot],
    wording: Wording,
    waits: Iterable[Wait] = (),
    queue: Sequence[QueuedMessage] = (),
    *,
    parents: Mapping[str, StateSnapshot] | None = None,
    columns: Sequence[str] = (),
) -> tuple[list[Moment], list[str]]:
    """The history of a thread, the newest first, and the columns with which it goes on.

    Args:
        states: The states, the newest first.
        wording: The words for what has happened.
        waits: What the thread has waited for.
        queue: Messages that no run has read.
        parents: States that come before these, by the ids of their checkpoints.
        columns: The columns of the part of the history before this one, which is newer.
    """
    moments = happenings(states, wording, parents or {})
    rows = list({moment.checkpoint: moment for moment in moments.values()}.values())
    decisions: dict[str, list[Wait]] = defaultdict(list)
    for wait in sorted(waits, key=lambda wait: -(wait.decided_at or wait.created_at)):
        if wait.checkpoint_id in moments:
            decisions[moments[wait.checkpoint_id].checkpoint].append(wait)
    origins = (moments.get(row.before or "") for row in rows)
    branches = Counter(origin.checkpoint for origin in origins if origin is not None)
    first = id_of(states[0]) if states else ""
    # The path has the first column, also where newer rows are forks that have not begun.
    rails = Rails(columns or [first], is_drawn=bool(columns))
    shown: list[Moment] = []

    def add(row: Moment, ids: Iterable[str], parent: str | None, *, joins: bool = True) -> None:
        row.rails = rails.row({*ids}, parent, joins=joins)
        row.is_on_path = rails.column == PATH
        shown.append(row)

    for message in reversed(queue):
        did, how = ("wrote:", quoted(message.text)) if message.text else ("ran it again", "")
        line = Line(wording.author, did, how=how, kind="human")
        row = Moment(message.created_at, (line,), note=message.note, before=message.checkpoint)
        # A message without a checkpoint goes on from where the thread is.
        ids = [message.run] if message.checkpoint else [first]
        add(row, ids, message.checkpoint or first)
    for row in reversed(rows):
        ids = [step.id for step in row.steps]
        for wait in decisions[row.checkpoint]:
            at, lines = wait.decided_at or wait.created_at, (wording.decision(wait),)
            # It belongs to the branch that has begun first: those that fork here were not asked.
            decision = Moment(at, lines, wait=wait.id, is_open=wait.decided_at is None)
            add(decision, ids, row.checkpoint, joins=False)
        row.branches = branches[row.checkpoint]
        add(row, ids, row.before)
    return shown, list(rails.parents)
