"""ScheduledMessages: messages of schedules, which workers submit when they are due."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from inspect import signature
from typing import Any

from sqlalchemy import ColumnElement, select, update

from agent_factory.errors import ArgumentError, describe
from agent_factory.service.assistants import Assistants
from agent_factory.service.backend import Backend
from agent_factory.service.errors import DatabaseUnavailable, NotFound
from agent_factory.service.messages import as_config, prepare
from agent_factory.service.rows import logged, logger, read_row
from agent_factory.service.run import Run
from agent_factory.service.schedules import Cron, Schedule, next_run
from agent_factory.service.tables import schedules
from agent_factory.service.threads import delete_thread, found_threads
from agent_factory.service.webhooks import WebhookQueue
from agent_factory.state import check_json

_FAILURE = "Schedule %s was not carried out."
_HOUR = 3600.0

_OF_THE_ROW = {"backend", "agent", "thread", "tenant", "message_id", "by"}
_OPTIONS = sorted(signature(prepare).parameters.keys() - _OF_THE_ROW | {"webhook"})


def arguments_of(backend: Backend, cron: Cron) -> dict[str, Any]:
    """Arguments of `Service.submit` for the next time of a cron; and its `webhook`, if any."""
    # In UTC: other clocks show an hour of the autumn twice.
    due = datetime.fromtimestamp(cron.next_at or 0.0, UTC)
    what: dict[str, Any] = dict(Schedule.of(cron).message)
    what["thread"] = what["thread"] or f"{cron.id}-{due:%Y%m%dT%H%M%S}"
    # Two workers that fire a schedule at once submit one message.
    what |= {"message_id": f"{cron.id}-{due.isoformat()}", "by": f"schedule {cron.id}"}
    if cron.assistant:
        # With the settings that its assistant has now.
        assistant = Assistants(backend, cron.tenant).get(cron.assistant)
        what |= assistant.settings_of(what)
        # A client has chosen them: checked each time, as those of a run.
        what["config"] = as_config(what["config"], backend.agent(cron.agent))
    return what


def check_cron(backend: Backend, cron: Cron) -> None:
    """Check the message of a cron as `Service.submit` does, and its other arguments."""
    backend.agent(cron.agent)
    if others := sorted(map(str, cron.options.keys() - {*_OPTIONS})):
        reason = f"has {', '.join(others)}, which a schedule does not take."
        raise ArgumentError("options", reason, f"It takes {', '.join(_OPTIONS)}.")
    for argument, value in {"name": cron.id, **cron.options}.items():
        check_json(argument, value)
    for name in ("config", "context", "metadata"):
        if not isinstance(cron.options.get(name), Mapping | None):
            reason = f"must be an object, got {describe(cron.options[name])}."
            raise ArgumentError(name, reason)
    what = arguments_of(backend, cron)
    webhook, ends_at = what.pop("webhook", None), cron.ends_at
    if not isinstance(webhook, str | None):
        raise ArgumentError("webhook", f"must be a URL, got {describe(webhook)}.")
    try:
        datetime.fromtimestamp(0.0 if ends_at is None else ends_at, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        reason = f"must be seconds since 1970, got {describe(ends_at)}."
        raise ArgumentError("ends_at", reason) from None
    prepare(backend, **what)


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
        query = select(schedules.c.id, schedules.c.next_at).where(is_due).order_by(schedules.c.id)
        for id, next_at in database.rows(query):
            # Without a database, the message is still due at the next look.
            with logged(_FAILURE, id):
                self._carry_out(id, (schedules.c.id == id) & (schedules.c.next_at == next_at))

    def _carry_out(self, id: str, unchanged: ColumnElement[bool]) -> None:
        database = self._backend.database
        following: ColumnElement[float] | float | None = database.now + _HOUR
        try:
            query = select(schedules, database.now.label("now")).where(unchanged)
            if (row := database.row(query)) is None:  # changed or deleted since the list was read
                return
            cron = read_row(Cron, row)
            following = next_run(cron, row.now)
        except DatabaseUnavailable:
            raise
        except Exception:  # another machine may have its time zone, and have written the row
            logger.exception(f"{_FAILURE} It is tried again in an hour.", id)
        else:
            # Before the next time is stored: a process that dies in between has submitted the
            # message, and the next process submits the same message.
            with logged(_FAILURE, id, but=(DatabaseUnavailable,)):
                what = arguments_of(self._backend, cron)
                if cron.assistant:
                    self._tidy(cron, what["thread"])
                webhook = what.pop("webhook", None)
                run = self._submit(**what)
                if webhook is not None:
                    self._webhooks.add(run.id, webhook)
        database.write(update(schedules).where(unchanged).values(next_at=following))

    def _tidy(self, cron: Cron, thread: str) -> None:
        """Delete the threads of a cron's earlier runs, if they are not kept.

        The thread of this time stays: another process may have submitted the message.
        """
        if cron.keeps_threads or cron.thread_id is not None:
            return
        filters: dict[str, Any] = {"tenant": cron.tenant, "status": ("idle", "failed")}
        database = self._backend.database
        query = found_threads(database, filters, {}, f"{cron.id}-").limit(1000)
        for id in {row.thread_id for row in database.rows(query)} - {thread}:
            fault = logged("Thread %s of an earlier run was not deleted.", id)
            # NotFound: another process carries the schedule out, too.
            with fault, suppress(NotFound):
                delete_thread(self._backend, id, cron.tenant, f"schedule {cron.id}")
