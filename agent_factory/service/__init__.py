"""Run agents as durable work: on one machine or on many.

>>> from agent_factory.service import Service, ThreadInfo
"""

from __future__ import annotations

from agent_factory.service.errors import (
    AlreadyDecided,
    ClaimedByOther,
    DatabaseUnavailable,
    NotFound,
    RunCancelled,
    RunFailed,
    ServiceError,
    ThreadBusy,
)
from agent_factory.service.inbox import AuditEntry, Inbox, Wait
from agent_factory.service.ledger import SharedLedger, SpentBy
from agent_factory.service.run import Run
from agent_factory.service.service import Service, ThreadInfo

__all__ = [
    "AlreadyDecided",
    "AuditEntry",
    "ClaimedByOther",
    "DatabaseUnavailable",
    "Inbox",
    "NotFound",
    "Run",
    "RunCancelled",
    "RunFailed",
    "Service",
    "ServiceError",
    "SharedLedger",
    "SpentBy",
    "ThreadBusy",
    "ThreadInfo",
    "Wait",
]
