"""Standing approvals: a person approves a call, and later calls like it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Protocol

from langchain_core.messages.tool import ToolCall
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.store.base import BaseStore

from agent_factory.errors import ArgumentError, describe
from agent_factory.review.policy import Condition, Rule, check_condition, condition_text, holds
from agent_factory.review.records import caller_of, digest, tool_digest
from agent_factory.review.requests import Remember
from agent_factory.types import providing, run_services

NAMESPACE = "approvals"
"""Namespace of a LangGraph store in which standing approvals are kept."""

_BATCH = 1000
"""Items that are read from a store at a time."""


@dataclass(frozen=True, slots=True)
class StandingApproval:
    """Approval of later calls of a tool.

    It holds for calls that the same rule of the same review asks about, of the same tool (by
    description and arguments), with the same arguments or those for which `when` holds.

    Args:
        id: Its id: the same for the same decision.
        tool: The name of the tool.
        schema: The digest of the tool, the review and the rule.
        args: The arguments of the call that was approved.
        when: A condition on the arguments of later calls; `{}` holds for any. None: they must be
            the same as those of the call that was approved.
        seconds: For how long.
        by: Who gave it.
        thread: The thread in which it holds; None for all.
        given_at: When it was given, in seconds since 1970.
        expires_at: When it ends.
        revoked_at: When it was revoked.
        revoked_by: Who revoked it.
        uses: How many calls have run by it.
        tenant: Whose threads it is for, in a service.
        agent: For which agent, in a service.
    """

    id: str
    tool: str
    schema: str
    args: Mapping[str, Any]
    when: Condition | None
    seconds: float
    by: str = ""
    thread: str | None = None
    given_at: float = 0.0
    expires_at: float = 0.0
    revoked_at: float | None = None
    revoked_by: str | None = None
    uses: int = 0
    tenant: str = ""
    agent: str = ""

    def covers(self, call: ToolCall, schema: str, thread: str | None, now: float) -> bool:
        """Return True if a call may run by this approval at this time."""
        is_same = (self.tool, self.schema) == (call["name"], schema)
        if not (is_same and self.thread in (None, thread) and self.is_active(now)):
            return False
        if self.when is None:  # by their digests: in Python, 1 == True
            return digest(self.args) == digest(call["args"])
        return holds(self.when, call["args"]) is True

    @property
    def condition(self) -> str:
        """The calls it is about, in words."""
        return condition_text(self.args if self.when is None else self.when)

    def is_active(self, now: float) -> bool:
        """Return True if this approval is neither revoked nor expired."""
        return self.revoked_at is None and now < self.expires_at

    def __str__(self) -> str:
        """Describe the approval in one line."""
        return f"{self.tool} with {self.condition}, approved by {self.by or 'a person'}"


Subject = tuple[ToolCall, str, str | None]
"""A call, the digest of the tool and of the rule that asks, and the thread."""


def subject_of(review: str, rule: Rule, request: ToolCallRequest) -> Subject:
    """Return the subject of a standing approval: calls that another rule asks about are not."""
    thread = ((request.runtime.config or {}).get("configurable") or {}).get("thread_id")
    parts = (rule.tool, rule.action, rule.calls, sorted(rule.reviewers), rule.remember)
    scope = digest(tool_digest(request.tool), review, *parts)
    return request.tool_call, scope, None if thread is None else str(thread)


def approval_by(
    review: str, rule: Rule, request: ToolCallRequest, decision: Mapping[str, Any]
) -> StandingApproval | None:
    """Return the standing approval that a decision about a call gives, if there is one."""
    remember: Remember | None = decision.get("remember")
    if remember is None:
        return None
    call, scope, thread = subject = subject_of(review, rule, request)
    caller = caller_of(request.state["messages"], call["id"])
    source = [caller.id] if caller else []
    return StandingApproval(
        # The same if the node runs again after a pause, so that the approval is kept once.
        id=digest(source, *subject)[:16],
        tool=call["name"],
        schema=scope,
        args=call["args"],
        when=remember.get("when"),
        seconds=remember["seconds"],
        by=remember.get("by") or "",
        thread=thread if remember.get("thread") else None,
    )


class ApprovalStore(Protocol):
    """Store of standing approvals. In async runs the methods are called in threads."""

    def add(self, approval: StandingApproval) -> None:
        """Keep an approval from now on, unless one with its id is known: also a revoked one."""

    def find(
        self, call: ToolCall, schema: str, thread: str | None, approval_id: str | None = None
    ) -> StandingApproval | None:
        """An approval by which a call may run now; with an id, only that one."""

    def use(self, approval: StandingApproval, call: ToolCall, thread: str | None) -> None:
        """Note that a call runs by an approval."""

    def list(self, *, active: bool = True) -> Sequence[StandingApproval]:
        """The approvals, the newest first.

        Args:
            active: Only those that are neither revoked nor expired.
        """

    def revoke(self, approval_id: str, by: str) -> StandingApproval:
        """End an approval; LookupError if there is none with this id."""


class StoredApprovals:
    """Standing approvals in a LangGraph store.

    Args:
        store: The store, such as that of an agent.
        scope: Names that keep approvals apart: those of one scope are not found in another.

    >>> from langgraph.store.memory import InMemoryStore
    >>> approvals = StoredApprovals(InMemoryStore())
    >>> approvals.add(StandingApproval("1", "pay", "", {}, {"euros": {"<=": 50}}, 3600, by="Ann"))
    >>> print(approvals.list()[0])
    pay with euros <= 50, approved by Ann
    """

    def __init__(self, store: BaseStore, scope: tuple[str, ...] = ()) -> None:
        self._store = store
        # Three records, each written by one method: none can undo what another has written.
        self._grants, self._revocations, self._uses = (
            (NAMESPACE, *scope, kind) for kind in ("given", "revoked", "used")
        )

    def add(self, approval: StandingApproval) -> None:
        """Keep an approval from now on, unless one with its id is known: also a revoked one."""
        # A node that runs again adds the same approval: that must neither prolong it nor undo its
        # end.
        if self._store.get(self._grants, approval.id) is None:
            now = time.time()
            record = replace(approval, given_at=now, expires_at=now + approval.seconds)
            # index=False: a search for similar texts in this store should not find approvals.
            self._store.put(self._grants, approval.id, asdict(record), index=False)

    def find(
        self, call: ToolCall, schema: str, thread: str | None, approval_id: str | None = None
    ) -> StandingApproval | None:
        """An approval by which a call may run now; with an id, only that one."""
        now = time.time()
        approvals = (x for x in self.list() if x.covers(call, schema, thread, now))
        return next((x for x in approvals if approval_id in (None, x.id)), None)

    def use(self, approval: StandingApproval, call: ToolCall, thread: str | None) -> None:
        """Count a call that runs by an approval."""
        # A LangGraph store has no atomic addition: of two calls at one moment, one may not be
        # counted.
        record = self._store.get(self._uses, approval.id)
        times = 1 + (record.value["times"] if record else 0)
        self._store.put(self._uses, approval.id, {"times": times}, index=False)

    def list(self, *, active: bool = True) -> Sequence[StandingApproval]:
        """The approvals, the newest first."""
        grants, revocations, uses = map(self._values, (self._grants, self._revocations, self._uses))
        names = {field.name for field in fields(StandingApproval)}
        records = []
        for id_, value in grants.items():
            changes = {**revocations.get(id_, {}), "uses": uses.get(id_, {"times": 0})["times"]}
            merged = {**value, **changes}
            # Another version may have stored more fields than this one has.
            records.append(StandingApproval(**{name: merged[name] for name in names}))
        now = time.time()
        selection = [approval for approval in records if approval.is_active(now) or not active]
        return sorted(selection, key=lambda approval: approval.given_at, reverse=True)

    def revoke(self, approval_id: str, by: str) -> StandingApproval:
        """End an approval; LookupError if there is none with this id."""
        if self._store.get(self._grants, approval_id) is None:
            raise LookupError(f"There is no standing approval {approval_id!r}.")
        # The first revocation stays, with its time and its author.
        if self._store.get(self._revocations, approval_id) is None:
            value = {"revoked_at": time.time(), "revoked_by": by}
            self._store.put(self._revocations, approval_id, value, index=False)
        return next(approval for approval in self.list(active=False) if approval.id == approval_id)

    def _values(self, namespace: tuple[str, ...]) -> dict[str, dict[str, Any]]:
        values: dict[str, dict[str, object]] = {}
        while True:
            start = len(values)
            items = self._store.search(namespace, limit=_BATCH, offset=start)
            values.update((item.key, item.value) for item in items)
            # A store that ignores `offset` returns the same page again.
            if len(items) < _BATCH or len(values) == start:
                return values


def remember_error(remember: object, args: Mapping[str, object], longest: float) -> str | None:
    """Return what is wrong with the `remember` of a decision about a call; None if nothing is."""
    if not isinstance(remember, Mapping):
        return f"'remember' must be a dict, got {describe(remember)}."
    seconds, when = remember.get("seconds"), remember.get("when")
    # In Python, True is an int.
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not (is_number and 0 < seconds <= longest):  # type: ignore[operator]
        return f"'remember' needs 'seconds' from 0 to {longest:g}, got {seconds!r}."
    if when is None:
        return None
    try:
        check_condition("when", when)
    except ValueError as error:
        return str(error)
    if holds(when, args) is not True:
        return f"the condition {condition_text(when)!r} does not hold for the approved call."
    return None


@contextmanager
def approvals_of_run(store: ApprovalStore) -> Iterator[None]:
    """Keep the standing approvals of the agents that run within the block in a store.

    It takes the place of the agent's own store, also in subagents, and in the threads and tasks
    that LangGraph starts.

    Args:
        store: Where approvals are kept.

    >>> from langgraph.store.memory import InMemoryStore
    >>> with approvals_of_run(StoredApprovals(InMemoryStore(), scope=("acme", "desk"))):
    ...     pass  # agent.invoke(...)
    """
    with providing(approvals=store):
        yield


def approval_store(store: BaseStore | None) -> ApprovalStore | None:
    """Return the store of `approvals_of_run` in this context, or else that of an agent."""
    of_run: ApprovalStore | None = run_services.get().approvals
    return of_run or (None if store is None else StoredApprovals(store))


def approvals(agent: object, *, active: bool = True) -> list[StandingApproval]:
    """The standing approvals in the store of an agent, the newest first.

    Agents with the same store share them.

    Args:
        agent: An agent with a `store`.
        active: Only those that are neither revoked nor expired.

    Raises:
        ArgumentError: The agent has no store.
    """
    return [*_store_of(agent).list(active=active)]


async def aapprovals(agent: object, *, active: bool = True) -> list[StandingApproval]:
    """Async variant of `approvals`."""
    # The protocol has sync methods only, and a store may wait for a database.
    return await asyncio.to_thread(approvals, agent, active=active)


def revoke(agent: object, approval_id: str, *, by: str) -> StandingApproval:
    """End a standing approval: later calls are asked about again.

    Args:
        agent: An agent with a `store`.
        approval_id: The id of the approval.
        by: Who ends it.

    Raises:
        ArgumentError: The agent has no store.
        LookupError: There is no approval with this id.
    """
    return _store_of(agent).revoke(approval_id, by)


async def arevoke(agent: object, approval_id: str, *, by: str) -> StandingApproval:
    """Async variant of `revoke`."""
    return await asyncio.to_thread(revoke, agent, approval_id, by=by)


def _store_of(agent: object) -> StoredApprovals:
    store = getattr(agent, "store", None)
    if store is None:
        raise ArgumentError(
            "agent",
            "must have a store, in which standing approvals are kept.",
            "Build it with create_agent(..., store=InMemoryStore()).",
        )
    return StoredApprovals(store)
