"""Errors of the service."""

from __future__ import annotations

from agent_factory.errors import AgentFactoryError, ArgumentError


class ServiceError(AgentFactoryError, RuntimeError):
    """The service cannot do the requested work. Nothing was changed."""

    code = "AF360"


class NotFound(ServiceError, LookupError):
    """There is no such agent, thread, run or wait, or another tenant has it."""

    code = "AF361"


class ThreadBusy(ServiceError):
    """The thread is busy or waits for a decision, and the new message may not wait."""

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


class DatabaseUnavailable(ServiceError):
    """The database is restarting, unreachable or overloaded."""

    code = "AF367"


class AuditTampered(ServiceError):
    """An entry of the audit was changed, removed, inserted or moved.

    Attributes:
        number: The number of the first entry that is wrong.
    """

    code = "AF368"

    def __init__(self, number: int, reason: str, thread: str | None = None) -> None:
        self.number = number
        hint = "Compare it with a backup of the table service_audit."
        place = "" if thread is None else f", about thread {thread!r}"
        super().__init__(f"entry {number} of the audit{place}", reason, hint)


class DecisionForbidden(ServiceError, PermissionError):
    """The `may_decide` of an inbox does not let this person decide about the wait."""

    code = "AF369"


class NoWorker(ServiceError, TimeoutError):
    """No living worker has the agent of the run."""

    code = "AF370"
    waits_for = "a worker"


class MessageHeld(ServiceError, TimeoutError):
    """The message is held until the decision for which its thread waits."""

    code = "AF371"
    waits_for = "a decision"


class ConfigNotAllowed(ArgumentError):
    """A part of a run's config belongs to the service or to LangGraph, or a client may not set it.

    `Service.add(configurable=...)` names the keys of `configurable` that clients may set.
    """

    code = "AF373"


class DatabaseVersionError(ServiceError):
    """This version of agent-factory does not work with the version of the tables.

    Args:
        url: The URL of the database, without its password.
        reason: The versions.
        hint: The remedy.
        version: The version of the tables.
    """

    code = "AF374"

    def __init__(self, url: str, reason: str, hint: str, version: int) -> None:
        self.version = version
        super().__init__(f"the database {url}", reason, hint)


class AlreadyExists(ServiceError):
    """There is an assistant or a thread with this id."""

    code = "AF378"


class ReadOnly(ServiceError, PermissionError):
    """Only code may change an agent that code has added."""

    code = "AF379"


class RunAborted(BaseException):
    """A run ends without an outcome; another attempt may continue the run.

    Not an Exception, so that no middleware takes it for an error of a tool.
    """


class DatabaseLost(RunAborted):
    """The database is not available in the middle of a run."""


class LeaseLost(RunAborted):
    """Another process works on the thread, or its run was cancelled."""
