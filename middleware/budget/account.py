"""One call as a budget sees it: what the state says was spent, and what this call adds to it."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from time import monotonic
from typing import Annotated, Any, NotRequired

from langgraph.channels.untracked_value import UntrackedValue

from agent_factory import AgentState, PrivateStateAttr
from agent_factory.middleware.budget.limits import Account, Limits

Book = dict[str, float]
"""What is spent, by the names of Spent; and `told`, `over`, `refused`, `slowest`, `extra_...`."""

_LARGEST = ("told", "over", "slowest")
_OF_THE_RUN = ("told", "over", "refused", "slowest", "extra_run_")


def merged(book: Mapping[str, float], more: Mapping[str, float]) -> Book:
    """A book with more written into it."""
    if not book:
        return dict(more)
    result = dict(book)
    for key, amount in more.items():
        before = result.get(key, 0)
        result[key] = max(before, amount) if key in _LARGEST else before + amount
    return result


def for_thread(book: Mapping[str, float]) -> Book:
    """What of a run's book is left to its thread when the run has ended."""
    return {key: amount for key, amount in book.items() if not key.startswith(_OF_THE_RUN)}


def add_books(
    books: dict[str, Book] | None, more: dict[str, Book | None] | None
) -> dict[str, Book]:
    """The reducer: amounts are added up, and None begins a book anew."""
    result = dict(books or {})
    for name, book in (more or {}).items():
        result[name] = {} if book is None else merged(result.get(name, {}), book)
    return result


class BudgetState(AgentState[Any]):
    """The state of an agent with a budget.

    Attributes:
        budget_run: What each BudgetMiddleware has spent in this run, by its name. A run that
            pauses for a person, or failed and is taken up again, goes on with it.
        budget_thread: What each had spent in this thread before this run, so that it is written
            once a run and not at each call.
        budget_clock: When time was last booked in this process, in seconds of `time.monotonic`.
    """

    budget_run: NotRequired[Annotated[dict[str, Book], add_books, PrivateStateAttr]]
    budget_thread: NotRequired[Annotated[dict[str, Book], add_books, PrivateStateAttr]]
    budget_clock: NotRequired[
        Annotated[float, UntrackedValue(float, guard=False), PrivateStateAttr]
    ]


_Entry = tuple[Book, float]
"""What a middleware has added within one node, and up to when its time is booked."""

# A layer further out may call twice, and only the updates of the last call are kept. So each
# update holds all that was spent in the node that is under way; its runtime tells which that is.
_NODE: ContextVar[tuple[object, dict[str, _Entry]]] = ContextVar("budget_node", default=(None, {}))


def _entries(runtime: object) -> dict[str, _Entry]:
    owner, entries = _NODE.get()
    return entries if runtime is not None and owner is runtime else {}


def is_over(name: str, state: Mapping[str, Any]) -> bool:
    """Whether a middleware has ended the run."""
    return bool((state.get("budget_run") or {}).get(name, {}).get("over"))


class Visit:
    """One call through one middleware.

    Args:
        name: The middleware.
        state: The state before the step.
        runtime: The runtime of the node of the model; None in a tool.

    Attributes:
        run: What is written of this run.
        added: What of it was added within this node.
    """

    def __init__(self, name: str, state: Mapping[str, Any], runtime: object = None) -> None:
        added, since = _entries(runtime).get(name, ({}, state.get("budget_clock")))
        self.added: Book = added
        self.began = monotonic()
        self.timed = since is not None
        self.since: float = self.began if since is None else since
        self._name = name
        self._runtime = runtime
        self._book: Book = (state.get("budget_run") or {}).get(name, {})
        self.run = merged(self._book, added) if added else self._book
        self._thread: Book = (state.get("budget_thread") or {}).get(name, {})

    @property
    def thread(self) -> Book:
        """What is written of this thread, with this run."""
        return merged(self._thread, self.run) if self._thread else self.run

    @property
    def idle(self) -> float:
        """Seconds that are not booked yet."""
        return monotonic() - self.since

    def add(self, amounts: Mapping[str, float]) -> None:
        """Write something down."""
        self._note(amounts)
        self.run = merged(self._book, self.added)

    def _note(self, amounts: Mapping[str, float]) -> None:
        self.added = merged(self.added, {key: n for key, n in amounts.items() if n})

    def accounts(self, run: Limits, thread: Limits) -> tuple[Account, ...]:
        """The run's and the thread's limits, with what people have added, and what is spent."""
        of_run = self._up_to_now(self.run)
        of_thread = self._up_to_now(self.thread) if self._thread else of_run
        return (
            _account("run", "in this run", run, of_run),
            _account("thread", "in this thread", thread, of_thread),
        )

    def _up_to_now(self, book: Book) -> Book:
        return {**book, "seconds": book.get("seconds", 0) + self.idle}

    def booked(self, amounts: Mapping[str, float]) -> dict[str, Any]:
        """The update of a model's node: some amounts more, and the time up to now."""
        now = monotonic()
        self._note({**amounts, "seconds": now - self.since})
        self.since = now
        if self._runtime is not None:
            entries = {**_entries(self._runtime), self._name: (self.added, self.since)}
            _NODE.set((self._runtime, entries))
        return {"budget_run": {self._name: self.added}, "budget_clock": self.since}

    def started(self) -> dict[str, Any]:
        """The clock, where a resumed run has none yet: time is counted from here."""
        return {} if self.timed else {"budget_clock": self.began}

    def update(self) -> dict[str, Any]:
        """What is added to the book of the run."""
        return {"budget_run": {self._name: self.added}}


def _account(scope: str, where: str, limits: Limits, book: Book) -> Account:
    extra = {n: more for n in limits.given() if (more := book.get(extra_key(scope, n)))}
    return Account(scope, where, limits.raised(extra) if extra else limits, book)


def extra_key(scope: str, name: str) -> str:
    """Where a book holds what people have added to a limit."""
    return f"extra_{scope}_{name}"
