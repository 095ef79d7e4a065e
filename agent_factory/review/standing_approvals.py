"""Standing approvals: a person approves a call, and similar later calls."""

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
"""Namespace of standing approvals in a LangGraph store."""

_BATCH = 1000
"""Number of items in a read from a store."""


@dataclass(frozen=True, slots=True)
class StandingApproval:
    """Approval of later calls of a tool.

    An approval holds for calls under the same rule of the same review, of the same tool (by
    description and arguments), with the same arguments or with arguments that meet `when`.

    Args:
        id: The id: the same for the same decision.
        tool: The name of the tool.
        schema: The digest of the tool, the review and the rule.
        args: The arguments of the approved call.
        when: A condition on the arguments of later calls; `{}` holds for any arguments. None: the
            arguments of the approved call.
        seconds: Duration.
        by: The person who gave the approval.
        thread: The thread of the approval; None for all threads.
        given_at: Time of the approval, in seconds since 1970.
        expires_at: Time of the end.
        revoked_at: Time of the revocation.
        revoked_by: The person who revoked the approval.
        uses: Number of calls by this approval.
        tenant: The tenant of the threads, in a service.
        agent: The agent, in a service.
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
        """Return True if a call may run by this approval at a time."""
        is_same = (self.tool, self.schema) == (call["name"], schema)
        if not (is_same and self.thread in (None, thread) and self.is_active(now)):
            return False
        if self.when is None:  # by their digests: in Python, 1 == True
            return digest(self.args) == digest(call["args"])
        return holds(self.when, call["args"]) is True

    @property
    def condition(self) -> str:
        """The calls of the approval, in words."""
        return condition_text(self.args if self.when is None else self.when)

    def is_active(self, now: float) -> bool:
        """Return True if this approval is neither revoked nor expired."""
        return self.revoked_at is None and now < self.expires_at

    def __str__(self) -> str:
        """Describe the approval in one line."""
        return f"{self.tool} with {self.condition}, approved by {self.by or 'a person'}"


Subject = tuple[ToolCall, str, str | None]
"""A call, the digest of the tool and the rule, and the thread."""


def subject_of(review: str, rule: Rule, request: ToolCallRequest) -> Subject:
    """Return the subject of a standing approval; the subject depends on the rule."""
    thread = ((request.runtime.config or {}).get("configurable") or {}).get("thread_id")
    parts = (rule.tool, rule.action, rule.calls, sorted(rule.reviewers), rule.remember)
    scope = digest(tool_digest(request.tool), review, *parts)
    return request.tool_call, scope, None if thread is None else str(thread)


def approval_by(
    review: str, rule: Rule, request: ToolCallRequest, decision: Mapping[str, Any]
) -> StandingApproval | None:
    """Return the standing approval in a decision about a call, if any."""
    remember: Remember | None = decision.get("remember")
    if remember is None:
        return None
    call, scope, thread = subject = subject_of(review, rule, request)
    caller = caller_of(request.state["messages"], call["id"])
    source = [caller.id] if caller else []
    return StandingApproval(
        # The same if the node runs again after a pause, so the approval is stored once.
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
        """Add an approval, unless an approval has this id already, even after a revocation."""

    def find(
        self, call: ToolCall, schema: str, thread: str | None, approval_id: str | None = None
    ) -> StandingApproval | None:
        """An approval by which a call may run now; with an id, only this approval."""

    def use(self, approval: StandingApproval, call: ToolCall, thread: str | None) -> None:
        """Note a call by an approval."""

    def list(self, *, active: bool = True) -> Sequence[StandingApproval]:
        """The approvals, the newest first.

        Args:
            active: Leave out revoked and expired approvals.
        """

    def revoke(self, approval_id: str, by: str) -> StandingApproval:
        """End an approval; LookupError for an unknown id."""


class StoredApprovals:
    """Standing approvals in a LangGraph store.

    Args:
        store: The store, such as the store of an agent.
        scope: Names of a scope. Approvals are found within their scope only.

    >>> from langgraph.store.memory import InMemoryStore
    >>> approvals = StoredApprovals(InMemoryStore())
    >>> approvals.add(StandingApproval("1", "pay", "", {}, {"euros": {"<=": 50}}, 3600, by="Ann"))
    >>> print(approvals.list()[0])
    pay with euros <= 50, approved by Ann
    """

    def __init__(self, store: BaseStore, scope: tuple[str, ...] = ()) -> None:
        self._store = store
        # Three records, each written by a single method, so no write can undo another.
        self._grants, self._revocations, self._uses = (
            (NAMESPACE, *scope, kind) for kind in ("given", "revoked", "used")
        )

    def add(self, approval: StandingApproval) -> None:
        """Add an approval, unless an approval has this id already, even after a revocation."""
        # A repeated node adds the same approval again, which must neither prolong nor renew it.
        if self._store.get(self._grants, approval.id) is None:
            now = time.time()
            record = replace(approval, given_at=now, expires_at=now + approval.seconds)
            # index=False: searches for similar texts in this store should not find approvals.
            self._store.put(self._grants, approval.id, asdict(record), index=False)

    def find(
        self, call: ToolCall, schema: str, thread: str | None, approval_id: str | None = None
    ) -> StandingApproval | None:
        """An approval by which a call may run now; with an id, only this approval."""
        now = time.time()
        approvals = (x for x in self.list() if x.covers(call, schema, thread, now))
        return next((x for x in approvals if approval_id in (None, x.id)), None)

    def use(self, approval: StandingApproval, call: ToolCall, thread: str | None) -> None:
        """Count a call by an approval."""
        # A LangGraph store has no atomic addition: two calls at a moment may count as one.
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
            # A newer version may have stored more fields.
            records.append(StandingApproval(**{name: merged[name] for name in names}))
        now = time.time()
        selection = [approval for approval in records if approval.is_active(now) or not active]
        return sorted(selection, key=lambda approval: approval.given_at, reverse=True)

    def revoke(self, approval_id: str, by: str) -> StandingApproval:
        """End an approval; LookupError for an unknown id."""
        if self._store.get(self._grants, approval_id) is None:
            raise LookupError(f"There is no standing approval {approval_id!r}.")
        # The first revocation stays, with time and author.
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
            # A store without support for `offset` returns the same page again.
            if len(items) < _BATCH or len(values) == start:
                return values


def remember_error(remember: object, args: Mapping[str, object], longest: float) -> str | None:
    """Return the mistake in the `remember` of a decision about a call, if any."""
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
    """Store the standing approvals of agents within the block in a store.

    The store takes the place of the stores of the agents, also in subagents, and in the threads and
    tasks of LangGraph.

    Args:
        store: The store of approvals.

    >>> from langgraph.store.memory import InMemoryStore
    >>> with approvals_of_run(StoredApprovals(InMemoryStore(), scope=("acme", "desk"))):
    ...     pass  # agent.invoke(...)
    """
    with providing(approvals=store):
        yield


def approval_store(store: BaseStore | None) -> ApprovalStore | None:
    """Return the store of `approvals_of_run` in this context, or else the store of an agent."""
    of_run: ApprovalStore | None = run_services.get().approvals
    return of_run or (None if store is None else StoredApprovals(store))


def approvals(agent: object, *, active: bool = True) -> list[StandingApproval]:
    """The standing approvals in the store of an agent, the newest first.

    Agents with the same store share approvals.

    Args:
        agent: An agent with a `store`.
        active: Leave out revoked and expired approvals.

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
        by: The person who ends the approval.

    Raises:
        ArgumentError: The agent has no store.
        LookupError: No approval has this id.
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
