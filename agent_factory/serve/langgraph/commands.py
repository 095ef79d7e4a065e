"""Routes of LangGraph's streaming protocol v2: commands to a thread, and events."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import Field, ValidationError
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request

from agent_factory.errors import AgentFactoryError
from agent_factory.serve.body import Keeps, RequestPart, StrictBody, read_body
from agent_factory.serve.errors import status_of, text_of
from agent_factory.serve.json_response import JsonResponse, to_json
from agent_factory.serve.langgraph.assistants import Assistants
from agent_factory.serve.langgraph.protocol import (
    CHANNELS,
    RECORDED,
    ProtocolEvent,
    ProtocolEvents,
    Subscription,
)
from agent_factory.serve.langgraph.requests import NewRun
from agent_factory.serve.langgraph.runs import Runs
from agent_factory.serve.langgraph.stream import PING_SECONDS, ThreadJobs
from agent_factory.serve.mistakes import explained
from agent_factory.service import NotFound, Run, RunCancelled, Service

_EVENTS_OF_A_JOB = 2**24
_JOBS = 2**29
"""The product is 2**53: smaller numbers are exact in JavaScript."""


class NewEventStream(StrictBody):
    """Events of a thread that a client subscribes to."""

    channels: list[str] = Field(min_length=1)
    namespaces: list[list[str]] | None = None
    depth: int | None = Field(None, ge=0)
    since: int | None = Field(None, ge=0)


class RunStart(StrictBody):
    """A message for an agent."""

    assistant_id: str
    input: Annotated[dict[str, object] | None, Keeps({})] = None
    config: dict[str, object] | None = None
    metadata: dict[str, object] = Field(default_factory=dict)
    # The client for JavaScript has its own spelling.
    multitaskStrategy: Literal["reject", "interrupt", "rollback", "enqueue", "steer"] | None = None

    def run(self) -> dict[str, object]:
        """The same request in LangGraph's API of runs."""
        configurable = (self.config or {}).get("configurable")
        place = configurable.get("checkpoint_id") if isinstance(configurable, dict) else None
        return {
            **self.model_dump(exclude={"multitaskStrategy"}),
            "checkpoint_id": place,
            "multitask_strategy": self.multitaskStrategy,
        }


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

    @property
    def answers(self) -> dict[str, object]:
        """The answers by the ids of the interrupts."""
        answers = {answer.interrupt_id: answer.response for answer in self.responses or ()}
        if self.interrupt_id is not None:
            answers[self.interrupt_id] = self.response
        return answers

    def run(self, agent: str) -> dict[str, object]:
        """The same request in LangGraph's API of runs."""
        command = {"resume": self.answers, "update": self.update, "goto": self.goto}
        config = {"config": self.config, "metadata": self.metadata}
        return {"assistant_id": agent, "command": command, **config}


class InjectedMessage(RequestPart):
    """Message to a run under way."""

    role: Literal["user"]
    content: str = Field(min_length=1)
    name: str | None = None


class InputInject(StrictBody):
    """Message to a run under way, read at its next step."""

    namespace: list[str] = Field(default_factory=list)
    message: InjectedMessage

    def run(self, assistant: str, asked: Mapping[str, object]) -> dict[str, object]:
        """The same request in LangGraph's API of runs, with the settings of the run.

        Args:
            assistant: The assistant of the run.
            asked: The request of the run.
        """
        settings = ("config", "interrupt_before", "interrupt_after")
        return {
            "assistant_id": assistant,
            "input": {"messages": [self.message.model_dump(exclude_none=True)]},
            **{name: asked[name] for name in settings if name in asked},
            "multitask_strategy": "steer",
        }


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


_OFFERED = ("run.start", "input.respond", "input.inject")
_NOT_OFFERED = {
    "agent.getTree": "Subscribe to the channel 'lifecycle'.",
    "state.get": "GET /threads/{thread_id}/state.",
    "state.listCheckpoints": "POST /threads/{thread_id}/history.",
    "state.fork": "Send 'run.start' with config.configurable.checkpoint_id.",
    "subscription.subscribe": "POST /threads/{thread_id}/stream/events.",
    "subscription.unsubscribe": "Close the stream of events.",
    "subscription.reconnect": "POST /threads/{thread_id}/stream/events with `since`.",
}
_CODES = {403: "permission_denied"}


class Commands:
    """Answers the two requests of the protocol."""

    def __init__(self, service: Service, assistants: Assistants, runs: Runs) -> None:
        self._service, self._assistants, self._runs = service, assistants, runs

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
        except HTTPException as error:
            return _refused(command.id, _code(error.status_code, error), error.detail)
        except NotFound as error:  # as on all routes: other tenants' threads do not exist
            return _refused(command.id, "no_such_run", text_of(error), 404)
        except AgentFactoryError as error:
            return _refused(command.id, _code(status_of(error), error), text_of(error))
        return JsonResponse({"type": "success", "id": command.id, "result": result})

    def _result(self, request: Request, method: str, content: object) -> dict[str, object]:
        thread = request.path_params["thread"]
        if method == "run.start":
            start = _read(CommandWith[RunStart], content)
            tenant = request.state.principal.tenant
            try:
                self._assistants.get_assistant(start.assistant_id, tenant)
            except NotFound as error:
                # A mistake in the command. Later, NotFound is about the thread.
                raise _Refusal("invalid_argument", text_of(error)) from error
            return {"run_id": self._start(request, thread, start.run()).id}
        if method == "input.respond":
            self._respond(request, thread, _read(CommandWith[InputRespond], content))
        elif method == "input.inject":
            self._inject(request, thread, _read(CommandWith[InputInject], content))
        elif method in _NOT_OFFERED:
            text = f"{method!r} is not offered by this server. {_NOT_OFFERED[method]}"
            raise _Refusal("not_supported", text)
        else:
            offered = ", ".join(map(repr, _OFFERED))
            text = f"There is no command {method!r}. There are {offered}."
            raise _Refusal("unknown_command", text)
        return {}

    def _respond(self, request: Request, thread: str, respond: InputRespond) -> Run:
        if not respond.answers:
            raise _Refusal(
                "invalid_argument", "params.interrupt_id or params.responses is missing."
            )
        info = self._service.threads.get(thread, tenant=request.state.principal.tenant)
        if info.status != "waiting":
            raise _Refusal("no_such_run", "The thread does not wait for an answer.")
        # Without a tenant, which the line above has checked.
        waiting = [interrupt.id for interrupt in self._service.threads.state(thread).interrupts]
        for id in respond.answers:
            if id not in waiting:
                text = f"The thread does not wait for an answer to interrupt {id!r}."
                raise _Refusal("no_such_interrupt", f"{text} It waits for: {', '.join(waiting)}.")
        return self._start(request, thread, respond.run(info.agent))

    def _inject(self, request: Request, thread: str, inject: InputInject) -> Run:
        if inject.namespace:
            text = "params.namespace: a message goes to the outermost agent. Leave it out."
            raise _Refusal("invalid_argument", text)
        tenant = request.state.principal.tenant
        info = self._service.threads.get(thread, tenant=tenant)
        if info.run is None or info.status not in ("queued", "running"):
            raise _Refusal("no_such_run", "No run works on the thread. Send 'run.start'.")
        run = self._service.run(info.run, tenant=tenant)
        # With other settings than the run's, the message would wait for its turn.
        assistant = str(run.info.metadata.get("assistant_id") or info.agent)
        return self._start(request, thread, inject.run(assistant, run.request))

    def _start(self, request: Request, thread: str, values: dict[str, object]) -> Run:
        options = {"stream_mode": sorted(RECORDED), "stream_subgraphs": True}
        # A thread of a new conversation does not exist yet.
        body = {**values, **options, "if_not_exists": "create"}
        try:
            new_run = NewRun.model_validate(body)
        except ValidationError as error:
            text = explained(error, NewRun, body)
            raise HTTPException(422, f"params: {text}") from error
        return self._runs.start(request, thread, new_run)

    async def events(self, request: Request, body: NewEventStream) -> EventSourceResponse:
        """Stream the events of a thread, in LangGraph's protocol v2."""
        for channel in body.channels:
            if channel.partition(":")[0] not in CHANNELS:
                expected = ", ".join(map(repr, CHANNELS))
                text = f"channels must be some of {expected} and 'custom:...', got {channel!r}."
                raise HTTPException(422, text)
        subscription = Subscription(frozenset(body.channels), body.namespaces, body.depth)
        thread, tenant = request.path_params["thread"], request.state.principal.tenant
        # Now: a stream that has begun has no status for an error.
        await run_in_threadpool(lambda: self._service.threads.get(thread, tenant=tenant))
        jobs = ThreadJobs(self._service, thread, tenant)
        return EventSourceResponse(
            _thread_events(jobs, subscription, body.since), ping=PING_SECONDS
        )


def _refused(id: int | None, code: str, text: str, status: int = 200) -> JsonResponse:
    """An error of the protocol; about a readable command, the status is 200."""
    return JsonResponse({"type": "error", "id": id, "error": code, "message": text}, status)


def _code(status: int, error: Exception) -> str:
    """The code of an error; the protocol has none for a failure of the server."""
    if status >= 500:
        raise error
    return _CODES.get(status, "invalid_argument")


def _read(kind: type[CommandWith[Params]], content: object) -> Params:
    """The parameters of a command."""
    try:
        return kind.model_validate(content).params
    except ValidationError as error:
        raise _Refusal("invalid_argument", explained(error, kind, content)) from error


async def _thread_events(
    jobs: ThreadJobs, subscription: Subscription, since: int | None
) -> AsyncIterator[ServerSentEvent]:
    """The events of a thread, from the newest job on, until the thread is deleted.

    Args:
        jobs: The jobs of the thread.
        subscription: The events for the client.
        since: The number of the last event that the client has seen.
    """
    first = None if since is None else since // _EVENTS_OF_A_JOB
    async for run, job in jobs.follow(lambda number: number % _JOBS == first):
        # The same for each client and after each reconnect: clients know events by them.
        base = int(job.rpartition("/")[2]) % _JOBS * _EVENTS_OF_A_JOB
        position = 0
        async for event in _job_events(run, job):
            position += 1
            sequence = base + position
            if subscription.covers(event) and (since is None or sequence > since):
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
        since = None  # later jobs are new as a whole


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
