"""Wording: events of a thread, decisions about calls and other acts of people, in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from agent_factory.providers import text_of
from agent_factory.review import StandingApproval
from agent_factory.serve.pages.conversation import in_one_line, shortened
from agent_factory.serve.pages.markdown import plain_words
from agent_factory.serve.pages.rendering import duration
from agent_factory.service import AuditEntry, Service, Wait

LONGEST = 160
"""Most characters of a quotation."""

AUDIT = 500
"""Entries of the audit that the conversation of a thread reads."""

PAST = {
    "approve": "approved",
    "edit": "changed",
    "reject": "rejected",
    "respond": "answered",
    "cancel": "cancelled the run",
    "claim": "claimed a call of",
    "release": "released a call of",
    "escalate": "made urgent a call of",
    "withdraw": "withdrew the question about",
    "remember": "approved later calls of",
    "allow": "had approved, by a standing approval,",
    "revoke": "revoked the approval of later calls of",
    "write": "wrote to the thread",
    "steer": "sent a message to the run",
    "copy": "copied the thread",
    "delete": "deleted the thread",
    "delete run": "deleted a run",
    "undo": "undid effects",
    "stranded": "put back: the agent lacks the node",
}
"""Acts, by `AuditEntry.what`."""


@dataclass(frozen=True, slots=True)
class Line:
    """An event: who did what, to which tool, and how.

    Args:
        who: A person or an agent.
        did: The action, such as "approved".
        tool: The tool, if there is one.
        how: Arguments, a text, a change, or a reason.
        kind: "human", "ai", "tool" or "decision", for the style.
        args: The original arguments, if `how` is something else.
    """

    who: str
    did: str
    tool: str = ""
    how: str = ""
    kind: str = "ai"
    args: str = ""


@dataclass(frozen=True, slots=True)
class Wording:
    """Words for the events of a thread, in which an author, such as "the user", asks an agent."""

    agent: str
    author: str

    def lines(self, before: Sequence[BaseMessage], after: Sequence[BaseMessage]) -> list[Line]:
        """The events between two states, by their messages."""
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
        """A new message."""
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
            if said := text_of(message).strip():
                did = "wrote:" if message.tool_calls else "answered:"
                yield Line(self.agent, did, how=quoted(plain_words(said)))
            for call in message.tool_calls:
                yield Line(self.agent, "called", call["name"], in_one_line(call["args"]))
        else:
            yield Line("", f"{message.type} message:", how=text)

    def changed(self, before: BaseMessage, after: BaseMessage) -> Iterator[Line]:
        """A message with another content under its id."""
        if isinstance(before, AIMessage) and isinstance(after, AIMessage):
            # A review changes arguments in the message, whose id stays.
            calls = {call["id"]: call for call in before.tool_calls}
            for call in after.tool_calls:
                earlier = calls.get(call["id"])
                if earlier is not None and (change := changes(earlier["args"], call["args"])):
                    yield Line("", "", call["name"], change, kind="tool")
        if before.text != after.text:
            yield Line("", "a message became", how=quoted(after.text))

    def decision(self, wait: Wait) -> Line:
        """The decision about a wait, or its absence."""
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


def changes(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    """Describe the changes of an edit to arguments.

    >>> changes({"order": "A1", "euros": 40}, {"order": "A1", "euros": 10, "note": "paid"})
    "euros 40 → 10, note: 'paid'"
    """
    parts = []
    for name in {**before, **after}:
        if name not in after:
            parts.append(f"{name} {shortened(before[name])} left out")
        elif name not in before:
            parts.append(f"{name}: {shortened(after[name])}")
        elif before[name] != after[name]:
            parts.append(f"{name} {shortened(before[name])} → {shortened(after[name])}")
    return ", ".join(parts)


def deed_of(
    entry: AuditEntry, wait: Wait | None = None, approval: StandingApproval | None = None
) -> Line:
    """An entry of the audit in words, with the wait or the standing approval, if still there."""
    what, detail = PAST.get(entry.what, entry.what), entry.detail
    detail = detail if isinstance(detail, Mapping) else {}
    call = detail.get("call")
    if not isinstance(call, Mapping):
        tool, args = str(detail.get("tool", "")), detail.get("args")
        how = in_one_line(args) if isinstance(args, Mapping) else ""
        if entry.what == "remember":
            how = f"{detail.get('when', '')}, for {duration(detail.get('seconds', 0))}"
        elif approval is not None and not tool:
            tool, how = approval.tool, approval.condition
        elif wait is not None and not tool:
            tool, how = wait.tool, in_one_line(wait.args)
        # The tool is not known once the thread is deleted.
        return Line(entry.who, what if tool else what.removesuffix(" of"), tool, how)
    decision, runs = detail.get("decision") or {}, detail.get("runs")
    tool, args = str(call["name"]), in_one_line(call["args"])
    if entry.what == "edit" and isinstance(runs, Mapping):
        if runs["name"] != tool:
            tool = f"{tool} into {runs['name']}"
        how = changes(call["args"], runs["args"]) or "nothing"
        return Line(entry.who, what, tool, how, args=args)
    if entry.what == "approve":
        return Line(entry.who, what, tool, args)
    message = decision.get("message")
    return Line(entry.who, what, tool, "" if message is None else str(message), args=args)


def deeds_of(
    service: Service, entries: Sequence[AuditEntry], tenant: str
) -> list[tuple[AuditEntry, Line]]:
    """Entries of the audit of a tenant in words, with two queries for all of them."""
    waits = {entry.wait_id for entry in entries if entry.wait_id}
    decided = {wait.id: wait for wait in service.inbox(tenant).find(ids=waits)} if waits else {}
    # The entry of a revocation has the id of the approval alone.
    is_revoked = any(entry.what == "revoke" for entry in entries)
    approvals = service.approvals(tenant=tenant, active=False) if is_revoked else ()
    standing = {approval.id: approval for approval in approvals}

    def approval_of(entry: AuditEntry) -> StandingApproval | None:
        return standing.get(entry.detail["approval"]) if entry.what == "revoke" else None

    return [(e, deed_of(e, decided.get(e.wait_id or ""), approval_of(e))) for e in entries]


def verdicts(entries: Iterable[AuditEntry]) -> dict[str, list[str]]:
    """Decisions about calls of a thread, in words, by the ids of the calls, the oldest first.

    The audit has the newest entry first.
    """
    lines: dict[str, list[str]] = defaultdict(list)
    for entry in reversed(list(entries)):
        call = entry.detail.get("call") if isinstance(entry.detail, Mapping) else None
        if isinstance(call, Mapping):
            deed = deed_of(entry)
            change = "" if entry.what == "approve" else deed.how
            line = f"{deed.did} by {deed.who}"
            lines[str(call["id"])].append(f"{line}: {change}" if change else line)
    return lines
