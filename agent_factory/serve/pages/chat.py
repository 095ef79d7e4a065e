"""Chat: versions of the messages of a thread, and forks from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from agent_factory.serve.pages.conversation import Call, Entry
from agent_factory.serve.pages.history import ThreadHistory, Version, ids_of, versions_of
from agent_factory.service import Service, ThreadInfo


@dataclass(frozen=True, slots=True)
class Chat:
    """Controls of a page at the messages of a thread.

    Args:
        versions: The versions of messages, by their ids.
        newest: The end of the branch from which the thread goes on.
        is_other: Whether the page shows the end of another branch.
        can_fork: Whether a message can begin a branch now.
        withdraws: Whether a branch withdraws a question.
        answer: The id of the last answer; "" without one.
        question: The id of the message before the answer.
        calls: The calls with a result, by the id of the message of the user before them.
        earlier: The calls before the last answer.
    """

    versions: Mapping[str, Version]
    newest: str
    is_other: bool
    can_fork: bool
    withdraws: bool
    answer: str
    question: str
    calls: Mapping[str, Sequence[Call]]
    earlier: Sequence[Call]


def chat_of(
    service: Service,
    info: ThreadInfo,
    messages: Sequence[BaseMessage],
    entries: Sequence[Entry],
    at: str | None,
) -> Chat:
    """The controls at the messages of a thread.

    Args:
        messages: The messages on the page.
        entries: The same, as the page shows them.
        at: The checkpoint on the page; None for the newest.
    """
    is_waiting, is_known = info.status == "waiting", info.agent in service.agents
    branches = ThreadHistory(service, info).branches() if is_known else []
    ends = [branch.end for branch in branches]
    # A message of the user begins another turn.
    answer = question = ""
    for message in messages:
        if isinstance(message, HumanMessage):
            answer, question = "", message.id or ""
        elif isinstance(message, AIMessage):
            answer = message.id or ""
    calls: dict[str, list[Call]] = {}
    earlier: list[Call] = []
    for entry in entries:
        finished = [call for call in entry.calls if call.result is not None]
        if entry.kind == "human":
            calls[entry.id] = []
            earlier = []
        # Each message of the user counts the calls after it.
        for later in calls.values():
            later += finished
        if entry.id != answer:
            earlier += finished
    takes_messages = info.status in ("idle", "failed") or is_waiting
    if is_known and is_waiting:
        takes_messages = service.waiting(info.agent) != "reject"
    return Chat(
        versions=versions_of(ids_of(messages), branches),
        newest=ends[0] if ends else "",
        is_other=at is not None and at in ends[1:],
        can_fork=is_known and takes_messages,
        withdraws=is_waiting,
        answer=answer if question else "",
        question=question,
        calls=calls,
        earlier=earlier,
    )
