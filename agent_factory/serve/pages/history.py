"""History: the states of a thread as a tree, with its branches and what happened in words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import chain

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.types import StateSnapshot
from starlette.exceptions import HTTPException

from agent_factory.serve.exchange import branch_of
from agent_factory.serve.pages.conversation import Call, Entry
from agent_factory.serve.pages.rails import PATH, Rails
from agent_factory.serve.pages.rendering import Values
from agent_factory.serve.pages.wording import Line, Wording, quoted
from agent_factory.service import HeldMessage, NotFound, Run, Service, ThreadInfo, Wait
from agent_factory.upstream import RUN_ID

PAGE = 50
"""Checkpoints that are loaded at once."""

MOST_BRANCHES = 30
"""The branches of a thread that are compared, the newest ones."""

MOST_QUEUED = 50
"""Messages of a queue that a page shows."""

AT_WORK = ("queued", "running")
"""States of a thread, or of a run, that a worker has or gets."""


@dataclass(slots=True)
class Moment:
    """Row of a history: a checkpoint, a decision, or a message in the queue.

    Args:
        at: The time, in seconds since 1970.
        checkpoint: The id of the checkpoint; "" of another row.
        before: The id of the checkpoint before, if there is one.
        wait: The wait, of a decision.
        note: The state of a message in the queue.
        steps: The state, and later ones at which nothing happened for people.
        branches: Number of branches that go on from here.
        rails: Classes of the style of each column.
    """

    at: float
    lines: tuple[Line, ...]
    checkpoint: str = ""
    before: str | None = None
    wait: Wait | None = None
    note: str = ""
    steps: list[StateSnapshot] = field(default_factory=list)
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
class QueuedMessage(HeldMessage):
    """Message or fork that no run has read; `note` says for what it waits."""

    note: str


@dataclass(frozen=True, slots=True)
class Version:
    """Version of a message, among the versions of other branches.

    Args:
        previous: The end of the branch with the version before; "" of the first.
        next: The end of the branch with the version after; "" of the last.
    """

    number: int
    count: int
    previous: str
    next: str


@dataclass(frozen=True, slots=True)
class Branch:
    """Branch of a thread.

    Args:
        checkpoints: The ids of the checkpoints, the end first.
        messages: The ids of the messages, the oldest first.
    """

    checkpoints: Sequence[str]
    messages: Sequence[str]

    @property
    def end(self) -> str:
        """The id of the last checkpoint."""
        return self.checkpoints[0]


class ThreadHistory:
    """States of a thread: a tree of checkpoints, in which each fork begins a branch.

    Args:
        thread: The thread, of a tenant that was checked.
    """

    def __init__(self, service: Service, thread: ThreadInfo) -> None:
        self._service, self._thread = service, thread

    def state(self, checkpoint: str | None = None) -> StateSnapshot:
        """The state at a checkpoint; None takes the newest.

        Raises:
            NotFound: The thread does not have the checkpoint.
        """
        state = self._service.threads.state(self._thread.id, checkpoint=checkpoint)
        # LangGraph returns an empty state for an unknown checkpoint.
        if checkpoint is not None and state.created_at is None:
            raise NotFound(f"checkpoint {checkpoint!r}", "is not one of this thread.")
        return state

    def branches(self) -> list[Branch]:
        """The branches, the newest first; none of a thread without forks."""
        branches = self._service.threads.branches(self._thread.id, limit=MOST_BRANCHES)
        if len(branches) < 2:
            return []
        return [Branch(ids, ids_of(messages_of(self.state(ids[0])))) for ids in branches]

    def fork(self, message: str, at: str | None, *, keeps: bool) -> str:
        """The checkpoint from which a message is written again, or answered again.

        Args:
            at: The checkpoint at the end of the branch; None takes the newest.
            keeps: Whether the message stays: True takes the first checkpoint with the message, and
                False the checkpoint before, which takes another input.

        Raises:
            HTTPException: 404 if the branch has no such message, or begins with it.
        """
        threads, first, before = self._service.threads, None, None
        newest = threads.state(self._thread.id, checkpoint=at)
        earlier = threads.history(self._thread.id, before=id_of(newest))
        for state in branch_of(chain([newest], earlier)):
            if message not in ids_of(messages_of(state)):
                before = first and id_of(state)
                break
            first = id_of(state)
        if first is None:
            text = "is not in this branch of the thread"
        elif keeps or before:
            return first if keeps else str(before)
        else:
            text = "has no checkpoint before it"
        raise HTTPException(404, f"The message {message!r:.80} {text}.")

    def controls(
        self, messages: Sequence[BaseMessage], entries: Sequence[Entry], at: str | None
    ) -> Values:
        """The controls at the messages of a page: versions, and forks from them.

        Args:
            entries: The messages, as the page shows them.
            at: The checkpoint on the page; None for the newest.
        """
        info, agents = self._thread, self._service.agents
        branches = self.branches() if info.agent in agents else []
        ends = [branch.end for branch in branches]
        # The last answer and its question. A message of the user begins another turn.
        answer = question = ""
        for message in messages:
            if isinstance(message, HumanMessage):
                answer, question = "", message.id or ""
            elif isinstance(message, AIMessage):
                answer = message.id or ""
        # The calls with a result after each message of the user, and those before the last answer.
        calls: dict[str, list[Call]] = {}
        earlier: list[Call] = []
        for entry in entries:
            finished = [call for call in entry.calls if call.result is not None]
            if entry.kind == "human":
                calls[entry.id], earlier = [], []
            for later in calls.values():
                later += finished
            if entry.id != answer:
                earlier += finished
        is_waiting, takes_messages = info.status == "waiting", info.status in ("idle", "failed")
        if is_waiting and info.agent in agents:
            takes_messages = self._service.waiting(info.agent) != "reject"
        return {
            "versions": versions_of(ids_of(messages), branches),
            "newest": ends[0] if ends else "",
            "is_other": at in ends[1:],
            "can_fork": info.agent in agents and takes_messages,
            "withdraws": is_waiting,
            "answer": answer if question else "",
            "question": question,
            "calls": calls,
            "earlier": earlier,
        }

    def queue(self, newest: StateSnapshot | None = None) -> list[QueuedMessage]:
        """Messages and forks that no run has read, in their order.

        Args:
            newest: The newest state, whose message has been read.
        """
        thread = self._thread
        if thread.status == "waiting":
            return held_messages(self._service, thread.id, thread.tenant)
        if thread.status not in AT_WORK:
            return []
        messages = []
        runs = self._service.threads.runs(thread.id, status=[*AT_WORK], limit=MOST_QUEUED)
        for run in runs:
            facts, checkpoint = run.info, fork_of(run)
            # A run under way writes its message with its first step.
            has_begun = facts.status == "running" and checkpoint is None
            if facts.reader is not None or has_begun or has_written(run.id, newest):
                continue
            note = "waits for its turn"
            if run.id == thread.run:
                note = "begins"
            elif run.request.get("busy") == "steer":
                note = "is read at the next step of the run"
            text = "\n".join(str(message.text) for message in run.messages)
            messages.append(QueuedMessage(run.id, text, checkpoint, facts.created_at, note))
        return messages[::-1]

    def part(
        self, wording: Wording, before: str | None, columns: Sequence[str]
    ) -> tuple[list[Moment], list[str], str | None]:
        """A part of the history, the newest first; the columns and the checkpoint at its end.

        Args:
            before: The checkpoint at the end of the newer part; None begins with now.
            columns: The columns at the end of the newer part.
        """
        # With the state before the last row.
        read = self._service.threads.history(self._thread.id, before=before, limit=PAGE + 1)
        snapshots = {id_of(state): state for state in read}
        states, has_more = [*snapshots.values()][:PAGE], len(snapshots) > PAGE
        # A branch can begin further back.
        missing = {parent_of(state) for state in states} - snapshots.keys() - {None}
        snapshots |= {id: self.state(id) for id in missing if id is not None}
        moments = happenings(states, wording, snapshots)
        rows = list({moment.checkpoint: moment for moment in moments.values()}.values())
        decisions: dict[str, list[Wait]] = defaultdict(list)
        waits = self._service.inbox(self._thread.tenant).find(threads=[self._thread.id])
        for wait in sorted(waits, key=lambda wait: -(wait.decided_at or wait.created_at)):
            if wait.checkpoint_id in moments:
                decisions[moments[wait.checkpoint_id].checkpoint].append(wait)
        origins = (moments.get(row.before or "") for row in rows)
        branches = Counter(origin.checkpoint for origin in origins if origin is not None)
        first = id_of(states[0]) if states else ""
        # The path has the first column, also below forks that have not begun.
        rails = Rails(columns or [first], is_drawn=bool(columns))
        shown: list[Moment] = []

        def add(row: Moment, ids: Iterable[str], parent: str | None, *, joins: bool = True) -> None:
            row.rails = rails.row({*ids}, parent, joins=joins)
            row.is_on_path = rails.column == PATH
            shown.append(row)

        queue = [] if before else self.queue(states[0] if states else None)
        for message in reversed(queue):
            did, how = ("wrote:", quoted(message.text)) if message.text else ("ran it again", "")
            line = Line(wording.author, did, how=how, kind="human")
            row = Moment(message.created_at, (line,), note=message.note, before=message.checkpoint)
            # A message without a checkpoint goes on from where the thread is.
            ids = [message.run] if message.checkpoint else [first]
            add(row, ids, message.checkpoint or first)
        for row in reversed(rows):
            ids = [id_of(state) for state in row.steps]
            for wait in decisions[row.checkpoint]:
                at, lines = wait.decided_at or wait.created_at, (wording.decision(wait),)
                # Of the branch that has begun first: later forks were not asked.
                add(Moment(at, lines, wait=wait), ids, row.checkpoint, joins=False)
            row.branches = branches[row.checkpoint]
            add(row, ids, row.before)
        return shown, list(rails.parents), id_of(states[-1]) if has_more else None


def id_of(state: StateSnapshot) -> str:
    """The id of the checkpoint of a state; "" of a new thread."""
    return str(state.config["configurable"].get("checkpoint_id", ""))


def parent_of(state: StateSnapshot) -> str | None:
    """The id of the checkpoint before a state; None of the first."""
    parent = state.parent_config
    return None if parent is None else str(parent["configurable"]["checkpoint_id"])


def time_of(state: StateSnapshot) -> float:
    """When a state was stored, in seconds since 1970."""
    return datetime.fromisoformat(state.created_at).timestamp() if state.created_at else 0.0


def messages_of(state: StateSnapshot) -> Sequence[BaseMessage]:
    """The messages of a state."""
    return state.values.get("messages") or ()


def ids_of(messages: Sequence[BaseMessage]) -> list[str]:
    """The ids of messages."""
    return [message.id or "" for message in messages]


def fork_of(run: Run) -> str | None:
    """The checkpoint where a run begins a branch; None if the run goes on from the newest."""
    checkpoint: str | None = run.request.get("checkpoint")
    return checkpoint


def has_written(run: str, state: StateSnapshot | None) -> bool:
    """Return True if a run has written a state."""
    metadata: Mapping[str, object] = (state.metadata if state is not None else None) or {}
    return metadata.get(RUN_ID) == run


def held_messages(service: Service, thread: str, tenant: str) -> list[QueuedMessage]:
    """Messages of a thread that are held until a decision, in their order.

    Raises:
        NotFound: There is no such thread.
    """
    return [
        QueuedMessage(held.run, held.text, held.checkpoint, held.created_at, "held until decided")
        for held in service.threads.held(thread, tenant=tenant)
    ]


def versions_of(shown: Sequence[str], branches: Sequence[Branch]) -> dict[str, Version]:
    """The versions of messages, by the ids of the messages, in the order of writing.

    Two branches have two versions of a message if all messages before are the same. The newest
    branch is the first.

    >>> branches = [Branch(["3", "1"], ["q", "a2"]), Branch(["2", "1"], ["q", "a1"])]
    >>> versions_of(["q", "a2"], branches)
    {'a2': Version(number=2, count=2, previous='2', next='')}
    """
    versions: dict[str, Version] = {}
    alike = [*branches]
    for place, message in enumerate(shown):
        groups: dict[str, list[Branch]] = {}
        for branch in alike:
            if len(branch.messages) > place:
                groups.setdefault(branch.messages[place], []).append(branch)
        if len(groups) > 1 and message in groups:
            ordered = sorted(groups.values(), key=partial(_beginning, groups.values()))
            number, ends = ordered.index(groups[message]), [group[0].end for group in ordered]
            before, _, after = ["", *ends, ""][number : number + 3]
            versions[message] = Version(number + 1, len(ordered), before, after)
        # Only these have the same messages up to here.
        alike = groups.get(message, [])
    return versions


def _beginning(groups: Iterable[list[Branch]], group: list[Branch]) -> str:
    """The first checkpoint of these branches alone."""
    others = {id for other in groups if other is not group for b in other for id in b.checkpoints}
    return min({id for branch in group for id in branch.checkpoints} - others)


def happenings(
    states: Sequence[StateSnapshot], wording: Wording, snapshots: Mapping[str, StateSnapshot]
) -> dict[str, Moment]:
    """The moment of each checkpoint, by the ids of the checkpoints, the oldest first.

    A checkpoint without news for people is a step of the moment before.
    """
    moments: dict[str, Moment] = {}
    for state in reversed(states):
        id, parent = id_of(state), parent_of(state)
        earlier = snapshots.get(parent or "")
        lines = wording.lines(messages_of(earlier) if earlier else (), messages_of(state))
        # Most checkpoints are of hooks that changed nothing, and would hide the rest.
        moment = moments.get(parent or "")
        if lines or moment is None:
            begun = Line("", "the thread began" if parent is None else "the run went on")
            moment = Moment(time_of(state), tuple(lines or [begun]), id, parent)
        moment.steps.append(state)
        moments[id] = moment
    return moments
