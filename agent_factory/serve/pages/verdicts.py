"""Verdicts: who decided what about a call, and what else people did, in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent_factory.serve.pages.conversation import in_one_line, shortened
from agent_factory.service import AuditEntry

AUDIT = 500
"""Entries of the audit of a thread that are read for its conversation."""

_PAST = {
    "approve": "approved",
    "edit": "changed",
    "reject": "rejected",
    "respond": "answered",
    "cancel": "cancelled the run",
    "claim": "claimed a call",
    "release": "released a call",
    "escalate": "made a call urgent",
    "withdraw": "withdrew the question about",
    "remember": "approved later calls of",
    "allow": "had approved, by a standing approval,",
    "revoke": "revoked a standing approval",
    "write": "wrote to the thread",
    "steer": "sent a message to the run",
    "copy": "copied the thread",
    "delete": "deleted the thread",
    "delete run": "deleted a run",
    "undo": "undid effects",
    "stranded": "put back: the agent lacks the node",
}
"""What was done, by `AuditEntry.what`."""


@dataclass(frozen=True, slots=True)
class Deed:
    """An entry of the audit, in words.

    Args:
        entry: The entry.
        what: What was done, such as "changed".
        tool: The tool of the call, if it is known.
        change: What it was done with: the arguments, or what has become of them, or the reason.
    """

    entry: AuditEntry
    what: str
    tool: str = ""
    change: str = ""


def changes(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    """Describe the changes that an edit makes to arguments.

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


def deed_of(entry: AuditEntry) -> Deed:
    """An entry of the audit, in words."""
    what, detail = _PAST.get(entry.what, entry.what), entry.detail
    if not isinstance(detail, Mapping):
        return Deed(entry, what)
    call = detail.get("call")
    if not isinstance(call, Mapping):
        args = detail.get("args")
        line = in_one_line(args) if isinstance(args, Mapping) else ""
        return Deed(entry, what, str(detail.get("tool", "")), line)
    decision, runs = detail.get("decision") or {}, detail.get("runs")
    tool = str(call["name"])
    if entry.what == "edit" and isinstance(runs, Mapping):
        if runs["name"] != tool:
            tool = f"{tool} into {runs['name']}"
        return Deed(entry, what, tool, changes(call["args"], runs["args"]) or "nothing")
    if entry.what == "approve":
        return Deed(entry, what, tool, in_one_line(call["args"]))
    message = decision.get("message")
    return Deed(entry, what, tool, "" if message is None else str(message))


def verdicts(entries: Iterable[AuditEntry]) -> dict[str, list[str]]:
    """Return the decisions about calls, in words, by the ids of the calls, the oldest first.

    Args:
        entries: Entries of the audit about one thread, the newest first.
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
