"""Chat: versions of the messages of a thread, and forks from them."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from agent_factory.serve.pages.conversation import Call, Entry
from agent_factory.serve.pages.history import ThreadHistory, ids_of, versions_of
from agent_factory.serve.pages.rendering import Values
from agent_factory.service import Service, ThreadInfo


def chat_of(
    service: Service,
    info: ThreadInfo,
    messages: Sequence[BaseMessage],
    entries: Sequence[Entry],
    at: str | None,
) -> Values:
    """The controls at the messages of a thread, for the template.

    Args:
        messages: The messages on the page.
        entries: The same, as the page shows them.
        at: The checkpoint on the page; None for the newest.
    """
    is_waiting, is_known = info.status == "waiting", info.agent in service.agents
    branches = ThreadHistory(service, info).branches() if is_known else []
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
    takes_messages = info.status in ("idle", "failed")
    if is_known and is_waiting:
        takes_messages = service.waiting(info.agent) != "reject"
    return {
        "versions": versions_of(ids_of(messages), branches),
        "newest": ends[0] if ends else "",
        "is_other": at in ends[1:],
        "can_fork": is_known and takes_messages,
        "withdraws": is_waiting,
        "answer": answer if question else "",
        "question": question,
        "calls": calls,
        "earlier": earlier,
    }
