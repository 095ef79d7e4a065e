"""What a budget writes down in the state: one book for each middleware, summed up by a reducer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired

from langgraph.channels.untracked_value import UntrackedValue

from agent_factory import AgentState, PrivateStateAttr

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
