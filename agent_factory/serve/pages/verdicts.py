"""Verdicts: decisions about calls and other acts of people, in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent_factory.review import StandingApproval
from agent_factory.serve.pages.conversation import in_one_line, shortened
from agent_factory.serve.pages.rendering import duration
from agent_factory.service import AuditEntry, Service, Wait

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
class Deed:
    """Entry of the audit, in words.

    Args:
        what: The act, such as "changed".
        tool: The tool of the call, if known.
        change: The arguments, their change, or the reason.
        args: The original arguments, if `change` is something else.
    """

    entry: AuditEntry
    what: str
    tool: str = ""
    change: str = ""
    args: str = ""


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
) -> Deed:
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
        return Deed(entry, what if tool else what.removesuffix(" of"), tool, how)
    decision, runs = detail.get("decision") or {}, detail.get("runs")
    tool, args = str(call["name"]), in_one_line(call["args"])
    if entry.what == "edit" and isinstance(runs, Mapping):
        if runs["name"] != tool:
            tool = f"{tool} into {runs['name']}"
        return Deed(entry, what, tool, changes(call["args"], runs["args"]) or "nothing", args)
    if entry.what == "approve":
        return Deed(entry, what, tool, args)
    message = decision.get("message")
    return Deed(entry, what, tool, "" if message is None else str(message), args)


def deeds_of(service: Service, entries: Sequence[AuditEntry], tenant: str) -> list[Deed]:
    """Entries of the audit of a tenant in words, with two queries for all of them."""
    waits = {entry.wait_id for entry in entries if entry.wait_id}
    by_id = {wait.id: wait for wait in service.inbox(tenant).find(ids=waits)} if waits else {}
    # The entry of a revocation has the id of the approval alone.
    is_revoked = any(entry.what == "revoke" for entry in entries)
    approvals = service.approvals(tenant=tenant, active=False) if is_revoked else ()
    standing = {approval.id: approval for approval in approvals}

    def approval_of(entry: AuditEntry) -> StandingApproval | None:
        return standing.get(entry.detail["approval"]) if entry.what == "revoke" else None

    return [deed_of(entry, by_id.get(entry.wait_id or ""), approval_of(entry)) for entry in entries]


def verdicts(entries: Iterable[AuditEntry]) -> dict[str, list[str]]:
    """Decisions about calls, in words, by the ids of the calls, the oldest first.

    Args:
        entries: Entries of the audit of one thread, the newest first.
    """
    lines: dict[str, list[str]] = defaultdict(list)
    for entry in reversed(list(entries)):
        call = entry.detail.get("call") if isinstance(entry.detail, Mapping) else None
        if isinstance(call, Mapping):
            action = deed_of(entry)
            change = "" if entry.what == "approve" else action.change
            line = f"{action.what} by {entry.who}"
            lines[str(call["id"])].append(f"{line}: {change}" if change else line)
    return lines
