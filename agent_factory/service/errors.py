"""Errors of the service."""

from __future__ import annotations

from agent_factory.errors import AgentFactoryError


class ServiceError(AgentFactoryError, RuntimeError):
    """The service cannot do what was asked. Nothing was changed."""

    code = "AF360"


class NotFound(ServiceError, LookupError):
    """There is no such agent, thread, run or wait, or it belongs to another tenant."""

    code = "AF361"


class ThreadBusy(ServiceError):
    """The thread works on another message or waits for a review, and `busy` is "reject"."""

    code = "AF362"


class AlreadyDecided(ServiceError):
    """Somebody has decided otherwise about the call."""

    code = "AF363"


class ClaimedByOther(ServiceError, PermissionError):
    """Somebody else has claimed the wait."""

    code = "AF364"


class RunFailed(ServiceError):
    """The run has ended with an error, which the message holds."""

    code = "AF365"


class RunCancelled(ServiceError):
    """The run was cancelled, or its message was withdrawn."""

    code = "AF366"
