"""Branches: the versions of the messages of a thread, and the checkpoints at which it forks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from langchain_core.messages import BaseMessage
from langgraph.types import StateSnapshot
from starlette.exceptions import HTTPException

from agent_factory.service import Run, Service

MOST_BRANCHES = 30
"""The branches of a thread that are compared, the newest ones."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a message, among those that other branches have in its place.

    Args:
        number: Its number, from 1.
        count: How many there are.
        previous: The end of the branch with the one before it; "" if there is none.
        next: The end of the branch with the one after it; "" if there is none.
    """

    number: int
    count: int
    previous: str
    next: str


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch of a thread.

    Args:
        checkpoints: The ids of its checkpoints, its end first.
        messages: The ids of its messages, the oldest first.
    """

    checkpoints: Sequence[str]
    messages: Sequence[str]

    @property
    def end(self) -> str:
        """The id of its last checkpoint."""
        return self.checkpoints[0]


def versions_of(shown: Sequence[str], branches: Sequence[Branch]) -> dict[str, Version]:
    """The versions of the messages that are shown, by their ids.

    Two branches have two versions of a message if all messages before it are the same. The
    versions are in the order in which they were written.

    Args:
        shown: The ids of the messages that are shown.
        branches: The branches of the thread, the newest first.

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
            number = ordered.index(groups[message])
            before, after = ordered[number - 1 : number], ordered[number + 1 : number + 2]
            versions[message] = Version(
                number + 1,
                len(ordered),
                before[0][0].end if number else "",
                after[0][0].end if after else "",
            )
        # Only these have the same messages up to here.
        alike = groups.get(message, [])
    return versions


def _beginning(groups: Iterable[list[Branch]], group: list[Branch]) -> str:
    """The first checkpoint that these branches have and the other groups do not."""
    others = {id for other in groups if other is not group for b in other for id in b.checkpoints}
    return min({id for branch in group for id in branch.checkpoints} - others)


def branches_of(service: Service, thread: str) -> list[Branch]:
    """The branches of a thread, the newest first; none if it has only one."""
    branches = service.threads.branches(thread, limit=MOST_BRANCHES)
    if len(branches) < 2:
        return []
    states = (service.threads.state(thread, checkpoint=branch[0]) for branch in branches)
    return [
        Branch(branch, ids_of(state.values.get("messages") or ()))
        for branch, state in zip(branches, states, strict=True)
    ]


def ids_of(messages: Sequence[BaseMessage]) -> list[str]:
    """The ids of messages."""
    return [message.id or "" for message in messages]


def fork_of(run: Run) -> str | None:
    """The checkpoint at which a run begins a branch; None if it goes on from the newest."""
    checkpoint: str | None = run.request.get("checkpoint")
    return checkpoint


def path_of(service: Service, thread: str, at: str | None) -> Iterator[StateSnapshot]:
    """The states of a branch, from its end back to its beginning.

    Args:
        service: The service.
        thread: The thread.
        at: The id of the checkpoint at the end of the branch; None takes the newest.
    """
    state = service.threads.state(thread, checkpoint=at)
    yield state
    history = service.threads.history(thread, before=id_of(state))
    for earlier in history:
        parent = state.parent_config
        if parent is None:
            return
        # The history has the checkpoints of all branches.
        if id_of(earlier) == parent["configurable"]["checkpoint_id"]:
            state = earlier
            yield state


def id_of(state: StateSnapshot) -> str:
    """The id of the checkpoint of a state."""
    return str(state.config["configurable"].get("checkpoint_id", ""))


def fork_before(service: Service, thread: str, message: str, at: str | None) -> str:
    """The checkpoint before a message, from which another one can take its place.

    Raises:
        HTTPException: 404 if the branch has no such message, or begins with it.
    """
    # The checkpoint of an input has the messages before it, and takes another input as well.
    is_there = False
    for state in path_of(service, thread, at):
        if message in ids_of(state.values.get("messages") or ()):
            is_there = True
        elif is_there:
            return id_of(state)
        else:
            break
    text = "has no checkpoint before it" if is_there else "is not in this branch of the thread"
    raise HTTPException(404, f"The message {message!r:.80} {text}.")


def fork_after(service: Service, thread: str, message: str, at: str | None) -> str:
    """The first checkpoint with a message, from which the answer to it can be written again.

    Raises:
        HTTPException: 404 if the branch has no such message.
    """
    first = ""
    for state in path_of(service, thread, at):
        if message not in ids_of(state.values.get("messages") or ()):
            break
        first = id_of(state)
    if not first:
        raise HTTPException(404, f"The message {message!r:.80} is not in this branch.")
    return first
