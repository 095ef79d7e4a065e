"""Exchange: a message or a decision of a client to a thread, and the answer of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.types import StateSnapshot
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request

from agent_factory.review import CLIENT_ID
from agent_factory.serve.client_tools import is_client_call, taker_of, with_settings
from agent_factory.serve.principal import Principal
from agent_factory.service import NotFound, Run, RunCancelled, Service, ThreadInfo, Wait
from agent_factory.upstream import INTERRUPT

Via = Literal["langgraph", "ag-ui", "openai", "mcp", "a2a"]
"""Protocols, as the audit names them."""

ENDED = ("done", "failed", "cancelled")
"""Status of a run that has ended."""

TOKENS = ("input_tokens", "output_tokens", "cached_tokens")
"""Kinds of tokens."""


@dataclass(frozen=True)
class ThreadView:
    """Thread at one moment.

    Args:
        info: The thread; None before the first message.
        checkpoint: The id of the newest checkpoint.
        waits: The open waits, with those for the client.
    """

    info: ThreadInfo | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    checkpoint: str | None = None
    waits: Sequence[Wait] = ()

    @property
    def messages(self) -> Sequence[BaseMessage]:
        """The messages of the thread."""
        messages: Sequence[BaseMessage] = self.values.get("messages", ())
        return messages


@dataclass(frozen=True)
class Outcome:
    """End of an exchange.

    Args:
        status: "waiting" until somebody decides about `waits`.
        error: With "failed": the class of the error, ": ", and the text.
        waits: With "waiting": the open waits of the run.
    """

    status: Literal["done", "waiting", "failed", "cancelled"]
    error: str = ""
    waits: Sequence[Wait] = ()

    @property
    def reviews(self) -> list[Wait]:
        """The waits about which people decide."""
        return reviews_of(self.waits)


@dataclass
class Exchange:
    """Request of a client to a thread: messages or decisions go in, events and an outcome come out.

    A protocol parses its request, calls `send`, `repeat`, `decide` or `answer`, writes the parts of
    `follow` as its events, and ends with texts for the `outcome`.

    Args:
        thread: The id of the thread, which need not exist; None for a new one.
        via: The protocol, for the audit.
        runs: The runs that answer: first the run of a decision, then the run of a message.
        outcome: The end of the exchange; None before `follow` or `result` has returned.
        used_before: The tokens of the runs before this request, see `tokens_of`.
        fork: The id of the checkpoint from which a message goes on; None is the newest.
    """

    service: Service
    request: Request
    agent: str
    thread: str | None
    via: Via
    runs: list[Run] = field(default_factory=list)
    outcome: Outcome | None = None
    used_before: Counter[tuple[str, str]] = field(default_factory=Counter)
    fork: str | None = None

    @classmethod
    def about(
        cls, service: Service, request: Request, agent: str | None, run_id: str, via: Via
    ) -> Exchange:
        """The exchange of a request about a run.

        Args:
            agent: The agent of the run; None is any.

        Raises:
            NotFound: There is no such run of this tenant and this agent.
        """
        exchange = cls(service, request, str(agent), None, via)
        run = exchange.join(run_id)
        exchange.thread, exchange.agent = run.thread_id, run.info.agent
        if agent not in (None, exchange.agent):
            raise NotFound(f"run {run_id!r}", f"is not a run of {agent!r}.")
        return exchange

    @property
    def principal(self) -> Principal:
        """The principal of the request."""
        principal: Principal = self.request.state.principal
        return principal

    @cached_property
    def before(self) -> ThreadView:
        """The thread before this request."""
        return self.now()

    def now(self) -> ThreadView:
        """The thread in the database. A thread of another tenant does not exist."""
        try:
            info = self.service.threads.get(str(self.thread), tenant=self.principal.tenant)
        except NotFound:
            return ThreadView()
        # A thread without a message has no agent, and so no state.
        if not info.agent:
            return ThreadView(info)
        state = self.service.threads.state(info.id, tenant=info.tenant)
        checkpoint = state.config["configurable"].get("checkpoint_id")
        waits: Sequence[Wait] = ()
        if info.status == "waiting":
            waits = self.service.inbox(info.tenant).waits(thread=info.id, limit=1000)
        return ThreadView(info, state.values, checkpoint, waits)

    def go_back(self, message_id: str) -> None:
        """Let `before` be the thread without a message and all after; `send` goes on from there.

        Raises:
            HTTPException: 422 if the thread has begun with the message.
        """
        places = (
            state
            for state in branch_of(self._history())
            if message_id not in [message.id for message in messages_in(state.values)]
        )
        if (place := next(places, None)) is None:
            text = f"thread {self.thread!r} has begun with message {message_id!r}, which stays."
            raise HTTPException(422, text)
        self.fork_at(place)

    def return_to(self, message_id: str) -> bool:
        """Let `before` be the thread where a message was the last; False if there was none such."""
        for state in self._history():
            for last in messages_in(state.values)[-1:]:
                if message_id in (last.id, last.response_metadata.get(CLIENT_ID)):
                    self.fork_at(state)
                    return True
        return False

    def _history(self) -> Iterator[StateSnapshot]:
        return self.service.threads.history(str(self.thread), tenant=self.principal.tenant)

    def fork_at(self, place: StateSnapshot) -> None:
        """Let `before` be the thread at a state; `send` goes on from there."""
        self.fork = place.config["configurable"]["checkpoint_id"]
        self.before = replace(self.before, values=place.values, checkpoint=self.fork)

    def join(self, run_id: str) -> Run:
        """Let an earlier run answer."""
        run = self.service.run(run_id, tenant=self.principal.tenant)
        self.used_before = tokens_of([run])
        self.runs.append(run)
        return run

    @property
    def run(self) -> Run:
        """The last of the runs."""
        return self.runs[-1]

    def reviews(self) -> list[Wait]:
        """The open waits of the run about which people decide."""
        return reviews_of(open_waits(self.service, self.run))

    # Input

    def send(self, message: object, **options: Any) -> Run:
        """Submit a message, with options of `Service.submit`; None goes on without a message."""
        options = {"checkpoint": self.fork, **options}
        options |= {"tenant": self.principal.tenant, "by": self.principal.name}
        run = self.service.submit(self.agent, thread=self.thread, message=message, **options)
        self.runs.append(run)
        return run

    def repeat(self, message_id: str | None, **options: Any) -> Run:
        """Join the last run of the thread: a client has lost its stream, and sends nothing new.

        Args:
            message_id: The id of another attempt, if the run has failed, was cancelled, or is one
                that `go_back` has left; None makes no attempt.
            options: Options of `Service.submit` for the attempt.

        Raises:
            HTTPException: 422 if the thread has no run.
        """
        info, tenant = self.before.info, self.principal.tenant
        if info is None or info.run is None:
            raise HTTPException(422, "messages must have a message of the user, got none.")
        last = self.service.run(info.run, tenant=tenant)
        is_done = self.fork is None and last.status not in ("failed", "cancelled")
        if message_id is None or is_done:
            self.runs.append(last)
            return last
        options |= {"message_id": message_id, "checkpoint": self.before.checkpoint}
        return self.send(None, **options)

    def decide(
        self,
        decisions: Mapping[str, Any],
        *,
        settings: Mapping[str, object] | None = None,
        stream: Collection[str] | None = None,
    ) -> Run:
        """Decide about waits of one run: about all of them, or about none.

        Args:
            decisions: Decisions by the ids of the waits. None in place of a decision ends the run.
            settings: Settings of a client that sends results of calls, see `client_settings`; None
                keeps those of the run.
            stream: The modes that are recorded from now on; None keeps those of the run.

        Raises:
            ServiceError: As `Inbox.decide_together` does.
            ReviewError: As `Inbox.decide_together` does.
        """
        name, roles = self.principal.name, self.principal.roles
        may_decide = self.request.state.may_decide
        inbox = self.service.inbox(self.principal.tenant, may_decide=may_decide)
        # A thread waits in one run at a time.
        run = self.runs[-1] if self.runs else self.join(inbox.get(next(iter(decisions))).run)
        if settings is not None and taker_of(self.service.agents[self.agent]) is not None:
            calls = filter(is_client_call, inbox.find(ids=decisions))
            results = {wait.id: decisions[wait.id] for wait in calls}
            results = with_settings(results, settings, run, self.before.messages)
            decisions = {**decisions, **results}
        if None in decisions.values():
            run.cancel(by=name)
        else:
            inbox.decide_together(decisions, by=name, roles=roles, stream=stream, via=self.via)
        return run

    def answer(self, value: object, *, stream: Collection[str] | None = None) -> Run:
        """Answer the interrupts of the thread, as `Service.resume` does."""
        run = self.service.resume(
            str(self.thread),
            value,
            by=self.principal.name,
            roles=self.principal.roles,
            stream=stream,
            tenant=self.principal.tenant,
            may_decide=self.request.state.may_decide,
            via=self.via,
        )
        self.runs.append(run)
        return run

    async def cancel(self) -> None:
        """End the runs, unless the exchange has ended."""
        if self.outcome is None:
            for run in self.runs:
                await run.acancel(by=self.principal.name)

    # Output

    async def follow(self, after: str | None = None) -> AsyncIterator[dict[str, Any]]:
        """Parts of the streams until a run pauses or the last has ended; then `outcome` is set.

        Without a run, the exchange is done. A run goes on where somebody decides just when it
        pauses.

        Args:
            after: The id of the part with which an earlier stream has ended.
        """
        self.outcome = None if self.runs else Outcome("done")
        for run in self.runs:
            # Behind a call that the client runs, a message may be held.
            if self.outcome and await run_in_threadpool(getattr, run, "status") == "held":
                return
            self.outcome = outcome = None
            while outcome is None:
                end: Mapping[str, Any] = {}
                try:
                    async for part in run.astream(after=after):
                        end = part["data"] if part["type"] == "end" else end
                        yield part
                except RunCancelled:
                    outcome = Outcome("cancelled")
                    break
                after = None
                if end["status"] == "waiting":
                    outcome = await run_in_threadpool(self._pause, run)
                else:
                    outcome = Outcome(end["status"], error=end.get("error") or "")
            self.outcome = outcome
            # Where a client has to run calls, the next message passes.
            if outcome.status != "done" and (outcome.status != "waiting" or outcome.reviews):
                return

    async def result(self) -> Any:
        """Output of the last run, once the run has ended or pauses; then `outcome` is set.

        Raises:
            RunFailed: The run has failed.
            RunCancelled: The run was cancelled.
        """
        while True:
            values = await self.run.aresult()
            outcome: Outcome | None = Outcome("done")
            if INTERRUPT in values:
                outcome = await run_in_threadpool(self._pause, self.run)
            if outcome is not None:
                self.outcome = outcome
                return values

    def _pause(self, run: Run) -> Outcome | None:
        """The outcome of a run that waits; None if somebody has decided meanwhile."""
        waits = open_waits(self.service, run)
        return Outcome("waiting", waits=waits) if waits else None

    def used(self) -> Counter[tuple[str, str]]:
        """Tokens of the model calls of this request, see `tokens_of`."""
        tokens = tokens_of(self.runs)
        tokens.subtract(self.used_before)
        return tokens


def branch_of(states: Iterable[StateSnapshot]) -> Iterator[StateSnapshot]:
    """The states of the branch of the newest state; a history has those of all branches."""
    parent = None
    for state in states:
        if parent in (None, state.config["configurable"].get("checkpoint_id")):
            yield state
            if state.parent_config is None:
                return
            parent = state.parent_config["configurable"]["checkpoint_id"]


def check_agent(service: Service, agent: str) -> None:
    """Raise HTTPException (404) if there is no such agent."""
    if agent not in service.agents:
        names = ", ".join(service.agents)
        raise HTTPException(404, f"There is no agent {agent!r}. There are: {names}.")


def open_waits(service: Service, run: Run) -> list[Wait]:
    """The undecided waits of a run, with those for the client."""
    # Without a tenant, which was checked when the run was read.
    return service.inbox().waits(thread=run.thread_id, run=run.id, limit=1000)


def reviews_of(waits: Collection[Wait]) -> list[Wait]:
    """The waits for people, without calls for a client."""
    return [wait for wait in waits if not is_client_call(wait)]


def tokens_of(runs: Collection[Run]) -> Counter[tuple[str, str]]:
    """The tokens of runs that are not deleted, by model and kind of `TOKENS`."""
    tokens: Counter[tuple[str, str]] = Counter()
    for run in runs:
        with suppress(NotFound):
            for line in run.info.usage:
                tokens.update({(line["model"], name): line[name] for name in TOKENS})
    return tokens


def last_answer(messages: Sequence[BaseMessage]) -> AIMessage:
    """The last message of the model; an empty message without one."""
    return next((m for m in reversed(messages) if isinstance(m, AIMessage)), AIMessage(""))


def messages_in(update: object) -> list[BaseMessage]:
    """The messages in a state, in an update, or in several updates."""
    messages: list[object] = []
    for part in update if isinstance(update, list) else [update]:
        value = part.get("messages") if isinstance(part, Mapping) else None
        messages += value if isinstance(value, list) else [value]
    return [message for message in messages if isinstance(message, BaseMessage)]
