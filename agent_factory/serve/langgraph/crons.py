"""Routes of crons: runs at the times of a cron expression."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from agent_factory.serve.endpoints import Endpoints
from agent_factory.serve.json_response import JsonResponse, search_response, time_text
from agent_factory.serve.langgraph.requests import CronChange, CronSearch, NewCron, RunSettings
from agent_factory.serve.langgraph.start import (
    check_strategy,
    checked_input,
    naming_input,
    run_options,
)
from agent_factory.serve.webhooks import Webhooks
from agent_factory.service import Assistant, Cron, Crons, Service

_OPTIONS = {"input": "message", "stream_mode": "stream", "stream_subgraphs": "subgraphs"}
"""Arguments of `Service.submit`, by the fields of a request that have other names."""


class CronRoutes(Endpoints):
    """Answers requests about crons."""

    def __init__(self, service: Service, webhooks: Webhooks) -> None:
        super().__init__(service)
        self._webhooks = webhooks

    def create(self, request: Request, body: NewCron) -> JsonResponse:
        """Create a cron: a run that begins again and again."""
        thread = self._thread(request).id if "thread" in request.path_params else None
        assistant = self._assistant(request, body.assistant_id)
        with naming_input():
            created = self._of(request).create(
                body.schedule,
                agent=assistant.agent,
                assistant=assistant.id,
                options=self._options(body, assistant),
                by=request.state.principal.name,
                thread=thread,
                timezone=body.timezone,
                ends_at=_seconds(body.end_time),
                enabled=body.enabled,
                keeps_threads=body.on_run_completed == "keep",
                # The original, for `payload` and for checks of changes.
                request=body.model_dump(mode="json", exclude_unset=True),
                metadata=body.metadata,
            )
        return JsonResponse(_shown(created))

    def get(self, request: Request) -> JsonResponse:
        """Get a cron."""
        return JsonResponse(_shown(self._of(request).get(request.path_params["cron"])))

    def search(self, request: Request, body: CronSearch) -> JsonResponse:
        """Search for crons."""
        return search_response(self._of(request), body, self._filters(request, body), _shown)

    def count(self, request: Request, body: CronSearch) -> JsonResponse:
        """Count crons."""
        return JsonResponse(self._of(request).count(**self._filters(request, body)))

    def change(self, request: Request, body: CronChange) -> JsonResponse:
        """Change a cron."""
        crons, id = self._of(request), request.path_params["cron"]
        sent = body.model_dump(mode="json", exclude_unset=True)
        cron = crons.get(id)
        # As a whole, for all checks of a new cron.
        whole = NewCron.model_validate(
            {"assistant_id": cron.assistant, "schedule": cron.schedule, **cron.request, **sent}
        )
        options = self._options(whole, self._assistant(request, cron.assistant))
        changed = options.keys() & {_OPTIONS.get(field, field) for field in sent}
        names = sent.keys() & {"schedule", "timezone", "enabled", "metadata"}
        values: dict[str, Any] = {
            "request": {**cron.request, **sent},
            **{name: sent[name] for name in names},
        }
        if changed:  # code may have created the cron, with other options
            values["options"] = {**cron.options, **{name: options[name] for name in changed}}
        if "on_run_completed" in sent:
            values["keeps_threads"] = whole.on_run_completed == "keep"
        if "end_time" in sent:
            values["ends_at"] = _seconds(body.end_time)
        with naming_input():
            return JsonResponse(_shown(crons.change(id, **values)))

    def delete(self, request: Request) -> Response:
        """Delete a cron."""
        self._of(request).delete(request.path_params["cron"])
        return Response(status_code=204)

    def _options(self, body: RunSettings, assistant: Assistant) -> dict[str, Any]:
        """Arguments of `Service.submit`, checked as for a run that begins now."""
        name = assistant.agent
        # With the settings of the assistant, which each run reads again.
        settings = assistant.settings_of({"config": body.settings})
        self._service.client_config(name, settings["config"])
        graph, message = self._service.agents[name], None
        check_strategy(graph, name, body)
        if body.input is not None:
            message = checked_input(graph, name, body.input, waits=False)
        options = {**run_options(graph, body), "message": message, "config": body.settings}
        options["busy"] = options["busy"] or "queue"
        if body.webhook is not None:
            self._webhooks.check(body.webhook)
            options["webhook"] = body.webhook
        return options

    def _filters(self, request: Request, body: CronSearch) -> dict[str, Any]:
        """Arguments of `Crons.count` for a search."""
        if body.assistant_id is None:
            return body.filters
        # A client may name an agent; crons are stored with its id.
        return {**body.filters, "assistant": self._assistant(request, body.assistant_id).id}

    def _of(self, request: Request) -> Crons:
        """The crons of the caller's tenant."""
        return self._service.crons(request.state.principal.tenant)


def _seconds(time: datetime | None) -> float | None:
    return None if time is None else time.timestamp()


def _shown(cron: Cron) -> dict[str, Any]:
    keeps = "keep" if cron.keeps_threads else "delete"
    names = ("schedule", "timezone", "thread_id", "enabled", "metadata")
    return {
        "cron_id": cron.id,
        "assistant_id": cron.assistant,
        "user_id": cron.by,
        **{name: getattr(cron, name) for name in names},
        "end_time": None if cron.ends_at is None else time_text(cron.ends_at),
        "next_run_date": None if cron.next_at is None else time_text(cron.next_at),
        # A given thread stays.
        "on_run_completed": None if cron.thread_id else keeps,
        "payload": cron.request,
        "created_at": time_text(cron.created_at),
        "updated_at": time_text(cron.updated_at),
    }
