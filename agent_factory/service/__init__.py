"""Run agents as durable work: on one machine or on many.

>>> from agent_factory.service import Service
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_factory import lazy_names
from agent_factory.errors import require

if TYPE_CHECKING:
    from agent_factory.service.assistants import Assistant as Assistant
    from agent_factory.service.assistants import Assistants as Assistants
    from agent_factory.service.assistants import assistant_id as assistant_id
    from agent_factory.service.audit import AuditEntry as AuditEntry
    from agent_factory.service.backend import Busy as Busy
    from agent_factory.service.crons import Crons as Crons
    from agent_factory.service.deliveries import UndeliverableError as UndeliverableError
    from agent_factory.service.errors import AlreadyDecided as AlreadyDecided
    from agent_factory.service.errors import AlreadyExists as AlreadyExists
    from agent_factory.service.errors import AuditTampered as AuditTampered
    from agent_factory.service.errors import ClaimedByOther as ClaimedByOther
    from agent_factory.service.errors import ConfigNotAllowed as ConfigNotAllowed
    from agent_factory.service.errors import DatabaseUnavailable as DatabaseUnavailable
    from agent_factory.service.errors import DatabaseVersionError as DatabaseVersionError
    from agent_factory.service.errors import DecisionForbidden as DecisionForbidden
    from agent_factory.service.errors import MessageHeld as MessageHeld
    from agent_factory.service.errors import NotFound as NotFound
    from agent_factory.service.errors import NoWorker as NoWorker
    from agent_factory.service.errors import ReadOnly as ReadOnly
    from agent_factory.service.errors import RunCancelled as RunCancelled
    from agent_factory.service.errors import RunFailed as RunFailed
    from agent_factory.service.errors import ServiceError as ServiceError
    from agent_factory.service.errors import ThreadBusy as ThreadBusy
    from agent_factory.service.inbox import Inbox as Inbox
    from agent_factory.service.ledger import SharedLedger as SharedLedger
    from agent_factory.service.ledger import SpentBy as SpentBy
    from agent_factory.service.messages import HeldMessage as HeldMessage
    from agent_factory.service.migrations import Upgrade as Upgrade
    from agent_factory.service.operations import Operations as Operations
    from agent_factory.service.pace import Pace as Pace
    from agent_factory.service.run import Run as Run
    from agent_factory.service.run import RunInfo as RunInfo
    from agent_factory.service.run_list import RunList as RunList
    from agent_factory.service.run_list import RunSummary as RunSummary
    from agent_factory.service.schedules import Cron as Cron
    from agent_factory.service.service import Service as Service
    from agent_factory.service.service_threads import ServiceThreads as ServiceThreads
    from agent_factory.service.steering import can_be_steered as can_be_steered
    from agent_factory.service.steps import Step as Step
    from agent_factory.service.threads import ThreadInfo as ThreadInfo
    from agent_factory.service.waits import Wait as Wait
    from agent_factory.service.webhooks import Webhook as Webhook
    from agent_factory.service.webhooks import WebhookQueue as WebhookQueue

_HOME = {
    ".assistants": "Assistant Assistants assistant_id",
    ".audit": "AuditEntry",
    ".crons": "Crons",
    ".backend": "Busy",
    ".deliveries": "UndeliverableError",
    ".errors": (
        "AlreadyDecided AlreadyExists AuditTampered ClaimedByOther ConfigNotAllowed "
        "DatabaseUnavailable DatabaseVersionError DecisionForbidden MessageHeld NotFound NoWorker "
        "ReadOnly RunCancelled RunFailed ServiceError ThreadBusy"
    ),
    ".inbox": "Inbox",
    ".ledger": "SharedLedger SpentBy",
    ".messages": "HeldMessage",
    ".migrations": "Upgrade",
    ".operations": "Operations",
    ".pace": "Pace",
    ".run": "Run RunInfo",
    ".run_list": "RunList RunSummary",
    ".schedules": "Cron",
    ".service": "Service",
    ".service_threads": "ServiceThreads",
    ".steering": "can_be_steered",
    ".steps": "Step",
    ".threads": "ThreadInfo",
    ".waits": "Wait",
    ".webhooks": "Webhook WebhookQueue",
}

require("service", __name__)

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOME)
