"""Status codes of errors that the service raises."""

from __future__ import annotations

from agent_factory.errors import ArgumentError
from agent_factory.review import DecisionNotAllowed
from agent_factory.service import (
    AlreadyDecided,
    ClaimedByOther,
    DatabaseUnavailable,
    DecisionForbidden,
    NotFound,
    ThreadBusy,
)

_STATUS: dict[type[Exception], int] = {
    NotFound: 404,
    ThreadBusy: 409,
    AlreadyDecided: 409,
    ClaimedByOther: 409,
    DecisionForbidden: 403,
    DecisionNotAllowed: 422,
    ArgumentError: 422,
    DatabaseUnavailable: 503,
}


def status_of(error: Exception) -> int:
    """The status code of a response to a request that has led to this error."""
    return next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 500)
