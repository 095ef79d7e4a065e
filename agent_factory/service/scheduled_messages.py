"""ScheduledMessages: messages of schedules, which workers submit when they are due."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import select, update

from agent_factory.errors import ArgumentError
from agent_factory.service.assistants import Assistants
from agent_factory.service.backend import Backend
from agent_factory.service.cron import zone_of
from agent_factory.service.errors import DatabaseUnavailable, ServiceError
from agent_factory.service.messages import as_config
from agent_factory.service.rows import read_row
from agent_factory.service.run import Run
from agent_factory.service.schedules import Cron, Schedule, next_run
from agent_factory.service.tables import schedules
from agent_factory.service.threads import delete_thread, found_threads
from agent_factory.service.webhooks import WebhookQueue

logger = logging.getLogger("agent_factory.service")


class ScheduledMessages:
    """Messages of schedules and of crons, submitted as by `Service.submit`."""

    def __init__(
        self, backend: Backend, webhooks: WebhookQueue, submit: Callable[..., Run]
    ) -> None:
        self._backend, self._webhooks, self._submit = backend, webhooks, submit

    def submit_due(self) -> None:
        """Submit the messages of schedules whose time has come; several missed times once.

        Several processes may do this at once: a message is the same in all of them.
        """
        database, agents = self._backend.database, [*self._backend.agents]
        is_due = (schedules.c.next_at <= database.now) & schedules.c.agent.in_(agents)
        with database.read() as connection:
            ids = connection.execute(select(schedules.c.id).where(is_due).order_by(schedules.c.id))
            due = [select(schedules).where(is_due, schedules.c.id == id) for id in ids.scalars()]
        for query in due:
            with database.read() as connection:
                row = connection.execute(query).first()
            if row is None:  # changed or deleted since the list was read
                continue
            cron = read_row(Cron, row)
            # Before the next time is stored: a process that dies in between has submitted the
            # message, and the next process submits the same message.
            self._submit_one(cron)
            unchanged = (schedules.c.id == cron.id) & (schedules.c.next_at == cron.next_at)
            with database.begin() as connection:
                now = connection.execute(select(database.now)).scalar_one()
                following = update(schedules).where(unchanged).values(next_at=next_run(cron, now))
                connection.execute(following)

    def _submit_one(self, cron: Cron) -> None:
        due = datetime.fromtimestamp(cron.next_at or 0.0, zone_of(cron.timezone))
        name, what = cron.id, dict[str, Any](Schedule.of(cron).message)
        thread = what.pop("thread") or f"{name}-{due:%Y%m%dT%H%M%S}"
        try:
            if cron.assistant:
                self._tidy(cron, thread)
                # With the settings that its assistant has now.
                assistant = Assistants(self._backend, cron.tenant).get(cron.assistant)
                what |= assistant.settings_of(what)
                # A client has chosen them: checked each time, as those of a run.
                what["config"] = as_config(what["config"], self._backend.agent(what["agent"]))
            webhook = what.pop("webhook", None)
            # Two workers that fire a schedule at once submit one message.
            message_id, by = f"{name}-{due.isoformat()}", f"schedule {name}"
            run = self._submit(**what, thread=thread, message_id=message_id, by=by)
            if webhook is not None:
                self._webhooks.add(run.id, webhook)
        except DatabaseUnavailable:
            # It is not the schedule's fault: the worker tries again.
            raise
        except (ServiceError, ArgumentError) as error:
            # The thread may be busy, or the assistant deleted. The next time may go well.
            logger.error("Schedule %s was not carried out: %s", name, error)
        except Exception:  # such as of a guard of the agent; other schedules go on
            logger.exception("Schedule %s was not carried out.", name)

    def _tidy(self, cron: Cron, thread: str) -> None:
        """Delete the threads of a cron's earlier runs, if they are not kept.

        The thread of this time stays: another process may have submitted the message.
        """
        if cron.keeps_threads or cron.thread_id is not None:
            return
        filters: dict[str, Any] = {"tenant": cron.tenant, "status": ("idle", "failed")}
        with self._backend.database.read() as connection:
            query = found_threads(connection, filters, {}, f"{cron.id}-").limit(1000)
            ids = {row.thread_id for row in connection.execute(query)}
        for id in ids - {thread}:
            delete_thread(self._backend, id, cron.tenant, f"schedule {cron.id}")
