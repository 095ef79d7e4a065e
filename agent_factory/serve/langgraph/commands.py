"""Routes of LangGraph's streaming protocol v2: commands to a thread, and events."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import Field, ValidationError
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request

from agent_factory.errors import AgentFactoryError
from agent_factory.serve.body import Keeps, RequestPart, StrictBody, read_body
from agent_factory.serve.endpoints import Endpoints
from agent_factory.serve.errors import refusal_of, status_of, text_of
from agent_factory.serve.json_response import JsonResponse, to_json
from agent_factory.serve.langgraph.protocol import (
    RECORDED,
    NewEventStream,
    ProtocolEvent,
    ProtocolEvents,
)
from agent_factory.serve.langgraph.requests import NewRun, Strategy
from agent_factory.serve.langgraph.runs import Runs
from agent_factory.serve.langgraph.stream import (
    PING_SECONDS,
    ThreadRuns,
    first_job,
    number_of,
    thread_jobs,
)
from agent_factory.serve.mistakes import explained
from agent_factory.service import NotFound, Run, RunCancelled, Service

_EVENTS_OF_A_JOB = 2**24
_JOBS = 2**29
"""The product is 2**53: smaller numbers are exact in JavaScript."""


class RunStart(StrictBody):
    """A message for an agent."""

    assistant_id: str
    input: Annotated[dict[str, object] | None, Keeps({})] = None
    config: dict[str, object] | None = None
    metadata: dict[str, object] = Field(default_factory=dict)
    # The client for JavaScript has its own spelling.
    multitask_strategy: Strategy | None = Field(None, alias="multitaskStrategy")


class InterruptAnswer(RequestPart):
    """Answer to one interrupt."""

    interrupt_id: str
    response: Annotated[Any, Keeps(None, [], {})] = None  # each value is an answer, None too
    namespace: list[str] = Field(default_factory=list)


class InputRespond(StrictBody):
    """Answers to one interrupt of a thread, or to several."""

    namespace: list[str] = Field(default_factory=list)
    interrupt_id: str | None = None
    response: Annotated[Any, Keeps(None, [], {})] = None
    responses: list[InterruptAnswer] | None = None
    update: object = None
    goto: object = None
    config: dict[str, object] | None = None
    metadata: dict[str, object] = Field(default_factory=dict)


class InjectedMessage(RequestPart):
    """Message to a run under way."""

    role: Literal["user"]
    content: str = Field(min_length=1)
    name: str | None = None


class InputInject(StrictBody):
    """Message to a run under way, read at its next step."""

    namespace: list[str] = Field(default_factory=list)
    message: InjectedMessage


Params = TypeVar("Params", bound=StrictBody)


# Not strict: which `params` there are depends on the method, which is read first.
class ProtocolCommand(RequestPart):
    """A command of the protocol."""

    id: int
    method: str


class CommandWith(ProtocolCommand, Generic[Params]):
    """Command with the parameters of its method."""

    params: Params


class _Refusal(Exception):
    """Refused command, with a code of the protocol."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


_NOT_OFFERED = {
    "agent.getTree": "Subscribe to the channel 'lifecycle'.",
    "state.get": "GET /threads/{thread_id}/state.",
    "state.listCheckpoints": "POST /threads/{thread_id}/history.",
    "state.fork": "Send 'run.start' with config.configurable.checkpoint_id.",
    "subscription.subscribe": "POST /threads/{thread_id}/stream/events.",
    "subscription.unsubscribe": "Close the stream of events.",
    "subscription.reconnect": "POST /threads/{thread_id}/stream/events with `since`.",
}


class Commands(Endpoints):
    """Answers the two requests of the protocol."""

    def __init__(self, service: Service, runs: Runs) -> None:
        super().__init__(service)
        self._runs = runs

    async def command(self, request: Request) -> JsonResponse:
        """Start a run or answer interrupts, in LangGraph's protocol v2."""
        try:
            command = await read_body(request, ProtocolCommand)
        except HTTPException as error:
            return _refused(None, "invalid_argument", error.detail, error.status_code)
        # Starlette keeps the body, which `read_body` has checked.
        content = json.loads(await request.body())
        try:
            result = await run_in_threadpool(self._result, request, command.method, content)
        except _Refusal as error:
            return _refused(command.id, error.code, str(error))
        except NotFound as error:  # as on all routes: other tenants' threads do not exist
            return _refused(command.id, "no_such_run", text_of(error), 404)
        except (AgentFactoryError, HTTPException) as error:
            if status_of(error) >= 500:  # the protocol has no code for a failure of the server
                raise
            code = "permission_denied" if status_of(error) == 403 else "invalid_argument"
            return _refused(command.id, code, refusal_of(request, error)[1])
        return JsonResponse({"type": "success", "id": command.id, "result": result})

    def _result(self, request: Request, method: str, content: object) -> dict[str, object]:
        if method == "run.start":
            start = _read(CommandWith[RunStart], content)
            try:
                self._assistant(request, start.assistant_id)
            except NotFound as error:
                # A mistake in the command. Later, NotFound is about the thread.
                raise _Refusal("invalid_argument", text_of(error)) from error
            configurable = (start.config or {}).get("configurable")
            place = configurable.get("checkpoint_id") if isinstance(configurable, dict) else None
            return {"run_id": self._start(request, {**dict(start), "checkpoint_id": place}).id}
        if method == "input.respond":
            self._respond(request, _read(CommandWith[InputRespond], content))
        elif method == "input.inject":
            self._inject(request, _read(CommandWith[InputInject], content))
        elif method in _NOT_OFFERED:
            text = f"{method!r} is not offered by this server. {_NOT_OFFERED[method]}"
            raise _Refusal("not_supported", text)
        else:
            offered = "'run.start', 'input.respond', 'input.inject'"
            text = f"There is no command {method!r}. There are {offered}."
            raise _Refusal("unknown_command", text)
        return {}

    def _respond(self, request: Request, respond: InputRespond) -> None:
        answers = {answer.interrupt_id: answer.response for answer in respond.responses or ()}
        if respond.interrupt_id is not None:
            answers[respond.interrupt_id] = respond.response
        if not answers:
            text = "params.interrupt_id or params.responses is missing."
            raise _Refusal("invalid_argument", text)
        info = self._thread(request)
        if info.status != "waiting":
            raise _Refusal("no_such_run", "The thread does not wait for an answer.")
        waiting = [interrupt.id for interrupt in self._service.threads.state(info.id).interrupts]
        for id in answers:
            if id not in waiting:
                text = f"The thread does not wait for an answer to interrupt {id!r}."
                raise _Refusal("no_such_interrupt", f"{text} It waits for: {', '.join(waiting)}.")
        command = {"resume": answers, "update": respond.update, "goto": respond.goto}
        settings = {"config": respond.config, "metadata": respond.metadata}
        self._start(request, {"assistant_id": info.agent, "command": command, **settings})

    def _inject(self, request: Request, inject: InputInject) -> None:
        if inject.namespace:
            text = "params.namespace: a message goes to the outermost agent. Leave it out."
            raise _Refusal("invalid_argument", text)
        info = self._thread(request)
        if info.run is None or info.status not in ("queued", "running"):
            raise _Refusal("no_such_run", "No run works on the thread. Send 'run.start'.")
        run = self._service.run(info.run)
        values: dict[str, object] = {
            "assistant_id": str(run.info.metadata.get("assistant_id") or info.agent),
            "input": {"messages": [inject.message.model_dump(exclude_none=True)]},
            "multitask_strategy": "steer",
        }
        # With other settings than the run's, the message would wait for its turn.
        settings = {"config", "interrupt_before", "interrupt_after"} & run.request.keys()
        self._start(request, {**values, **{name: run.request[name] for name in settings}})

    def _start(self, request: Request, values: dict[str, object]) -> Run:
        options = {"stream_mode": sorted(RECORDED), "stream_subgraphs": True}
        # A thread of a new conversation does not exist yet.
        body = {**values, **options, "if_not_exists": "create"}
        try:
            new_run = NewRun.model_validate(body)
        except ValidationError as error:
            text = explained(error, NewRun, body)
            raise HTTPException(422, f"params: {text}") from error
        return self._runs.start(request, new_run)

    async def events(self, request: Request, body: NewEventStream) -> EventSourceResponse:
        """Stream the events of a thread, in LangGraph's protocol v2."""
        # Now: a stream that has begun has no status for an error.
        info = await run_in_threadpool(self._thread, request)
        # The number of an event begins with that of its job.
        since = None if body.since is None else body.since // _EVENTS_OF_A_JOB

        def known(runs: ThreadRuns) -> int:
            jobs = [number_of(job) for run, _ in runs for job in run.jobs]
            if since is None:
                return max(jobs, default=1) - 1
            # The rest of this job is new. Without it, such as in a new thread of the name, all is.
            return next((job for job in jobs if job % _JOBS == since), first_job(runs)) - 1

        jobs = thread_jobs(self._service, info.id, info.tenant, known)
        return EventSourceResponse(_thread_events(jobs, body), ping=PING_SECONDS)


def _refused(id: int | None, code: str, text: str, status: int = 200) -> JsonResponse:
    """An error of the protocol; about a readable command, the status is 200."""
    return JsonResponse({"type": "error", "id": id, "error": code, "message": text}, status)


def _read(kind: type[CommandWith[Params]], content: object) -> Params:
    """The parameters of a command."""
    try:
        return kind.model_validate(content).params
    except ValidationError as error:
        raise _Refusal("invalid_argument", explained(error, kind, content)) from error


async def _thread_events(
    jobs: AsyncIterator[tuple[Run, str]], subscription: NewEventStream
) -> AsyncIterator[ServerSentEvent]:
    """The events of a thread, from the newest job on, until the thread is deleted."""
    since = subscription.since
    async for run, job in jobs:
        # The same for each client and after each reconnect: clients know events by them.
        base = number_of(job) % _JOBS * _EVENTS_OF_A_JOB
        # The client has seen events of one job at most.
        seen = since if since is not None and 0 < since - base < _EVENTS_OF_A_JOB else 0
        position = 0
        async for event in _job_events(run, job):
            position += 1
            sequence = base + position
            if subscription.covers(event) and sequence > seen:
                now = round(time.time() * 1000)
                params = {"namespace": event.ns, "timestamp": now, "data": event.data}
                sent = {
                    "type": "event",
                    "event_id": f"{job}:{position}",
                    "seq": sequence,
                    "method": event.method,
                    "params": params,
                }
                yield ServerSentEvent(to_json(sent), event=event.method, id=str(sequence))


async def _job_events(run: Run, job: str) -> AsyncIterator[ProtocolEvent]:
    # The thread may be deleted meanwhile.
    with suppress(NotFound):
        events = ProtocolEvents((await run_in_threadpool(lambda: run.info)).agent)
        has_ended = False
        with suppress(RunCancelled):
            # From the first part: later events depend on earlier parts.
            async for part in run.astream(after=f"{job}:0:0"):
                for event in events.events(part):
                    yield event
                has_ended = part["type"] == "end"
        # A cancelled run has no last part, and clients wait for the end.
        if not has_ended:
            for event in events.end("interrupted"):
                yield event
