"""Endpoints of A2A: cards of agents, and JSON-RPC, dispatched by the SDK."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers import RequestHandler, validate_request_params
from a2a.server.routes import (
    DefaultServerCallContextBuilder,
    create_agent_card_routes,
    create_jsonrpc_routes,
)
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a.utils.constants import (
    DEFAULT_LIST_TASKS_PAGE_SIZE,
    PROTOCOL_VERSION_0_3,
    PROTOCOL_VERSION_1_0,
)
from a2a.utils.errors import (
    JSON_RPC_ERROR_CODE_MAP,
    A2AError,
    ContentTypeNotSupportedError,
    InternalError,
    InvalidParamsError,
    JSONParseError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.task import apply_history_length, validate_history_length, validate_page_size
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from agent_factory.errors import ArgumentError, ReviewError
from agent_factory.serve.a2a.messages import to_decisions, to_langchain
from agent_factory.serve.a2a.tasks import ID_PREFIX, STATES, Event, events_of, task_of
from agent_factory.serve.body import read_json, whole_number
from agent_factory.serve.errors import refusal_of
from agent_factory.serve.exchange import ENDED, Exchange
from agent_factory.serve.json_response import JsonResponse
from agent_factory.service import NotFound, Service, ThreadBusy

_MODES = ("text/plain", "application/json")


async def card_response(service: Service, request: Request, agent: str) -> Response:
    """`GET /a2a/{agent}/.well-known/agent-card.json`."""
    description = service.description(agent) or f"The agent {agent!r}."
    card = AgentCard(
        name=agent,
        description=description,
        version=version("agent-factory"),
        supported_interfaces=[
            AgentInterface(
                url=f"{request.base_url}a2a/{quote(agent, safe='')}",
                protocol_binding="JSONRPC",
                protocol_version=protocol,
            )
            # The first is preferred. Many clients speak the version before 1.0 still.
            for protocol in (PROTOCOL_VERSION_1_0, PROTOCOL_VERSION_0_3)
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=False),
        default_input_modes=_MODES,
        default_output_modes=_MODES,
        skills=[AgentSkill(id=agent, name=agent, description=description, tags=["agent"])],
    )
    (route,) = create_agent_card_routes(card)
    response: Response = await route.endpoint(request)
    # Private, since the card may depend on the principal.
    response.headers["Cache-Control"] = "private, max-age=60"
    return response


def endpoint_of(service: Service) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint of `POST /a2a/{agent}`."""
    (route,) = create_jsonrpc_routes(
        _Handler(service), "/a2a/{agent}", _ContextBuilder(), enable_v0_3_compat=True
    )

    def refusal(error: A2AError, id: object = None) -> Response:
        fault = {"code": JSON_RPC_ERROR_CODE_MAP[type(error)], "message": error.message}
        return JsonResponse({"jsonrpc": "2.0", "id": id, "error": fault})

    async def serve(request: Request) -> Response:
        try:
            body: Any = await read_json(request)  # here, where 413 answers a long body
        except HTTPException as error:
            if error.status_code != 422:
                raise
            # What cannot be read has a cause; what cannot be stored has none.
            kind = InvalidParamsError if error.__cause__ is None else JSONParseError
            return refusal(kind(error.detail))
        params = body.get("params", {}) if isinstance(body, dict) else {}
        state = params.get("status") if isinstance(params, dict) else "params"
        # The SDK would take another text for no state, and find tasks of all states. The client for
        # JavaScript 1.3 sends "UNRECOGNIZED" for none.
        if state not in (None, "UNRECOGNIZED", *TaskState.keys(), *TaskState.values()):
            names = ", ".join(TaskState.keys())
            text = f"params must be an object, with a status of {names} if there is one."
            return refusal(InvalidParamsError(text), body.get("id"))
        response: Response = await route.endpoint(request)
        return response

    return serve


class _ContextBuilder(DefaultServerCallContextBuilder):
    """Builds contexts with the request, and so with its principal."""

    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        context.state["request"] = request
        return context


@contextmanager
def _request_of(context: ServerCallContext) -> Iterator[Request]:
    """The request of a call, with errors of the service as errors of A2A."""
    request: Request = context.state["request"]
    try:
        yield request
    # The last clause would make internal errors of them.
    except A2AError:
        raise
    except NotFound as error:
        raise TaskNotFoundError(str(error)) from error
    except (ArgumentError, ReviewError) as error:
        raise InvalidParamsError(str(error)) from error
    except Exception as error:
        status, text = refusal_of(request, error, str)
        raise (UnsupportedOperationError if status < 500 else InternalError)(text) from error


class _Handler(RequestHandler):
    """Answers calls of A2A from the tables of the service, the only store of tasks."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @validate_request_params
    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task:
        """Submit a message, or decide; return the task once it has ended or waits for input."""
        with _request_of(context) as request:
            exchange = await run_in_threadpool(self._begin, params, request)
            if not params.configuration.return_immediately:
                async for _ in exchange.follow():
                    pass
            task = await run_in_threadpool(task_of, exchange)
            return apply_history_length(task, params.configuration)

    @validate_request_params
    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        """Submit a message, or decide; stream the events of the task."""
        with _request_of(context) as request:
            exchange = await run_in_threadpool(self._begin, params, request)
            async for event in events_of(exchange):
                if isinstance(event, Task):
                    event = apply_history_length(event, params.configuration)
                yield event

    @validate_request_params
    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task:
        """The task."""
        with _request_of(context) as request:
            validate_history_length(params)
            exchange = await run_in_threadpool(self._about, request, params.id)
            task = await run_in_threadpool(task_of, exchange)
            return apply_history_length(task, params)

    @validate_request_params
    async def on_list_tasks(
        self, params: ListTasksRequest, context: ServerCallContext
    ) -> ListTasksResponse:
        """The tasks of an agent, the newest first."""
        size = params.page_size if params.HasField("page_size") else DEFAULT_LIST_TASKS_PAGE_SIZE
        with _request_of(context) as request:
            if params.HasField("status_timestamp_after"):
                text = "Tasks cannot be listed by statusTimestampAfter."
                raise UnsupportedOperationError(text)
            validate_page_size(size)
            validate_history_length(params)
            if (start := whole_number(params.page_token or "0")) is None:
                raise InvalidParamsError("pageToken must be the nextPageToken of another page.")
            return await run_in_threadpool(self._tasks, request, params, start, size)

    def _tasks(
        self, request: Request, params: ListTasksRequest, start: int, size: int
    ) -> ListTasksResponse:
        agent, tenant = request.path_params["agent"], request.state.principal.tenant
        filters: dict[str, Any] = {"tenant": tenant, "agent": agent}
        if params.status:
            filters["status"] = [name for name, state in STATES.items() if state == params.status]
        thread, threads = params.context_id or None, self._service.threads
        total, end = threads.count_runs(thread, **filters), start + size
        # An unknown context has no tasks; its thread would be NotFound.
        runs = threads.runs(thread, **filters, limit=size, offset=start) if total else []
        about = partial(Exchange, self._service, request, agent, thread, "a2a")
        tasks = [task_of(about(runs=[run])) for run in runs]
        return ListTasksResponse(
            tasks=[apply_history_length(task, params) for task in tasks],
            page_size=size,
            total_size=total,
            next_page_token=str(end) if end < total else "",
        )

    @validate_request_params
    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task:
        """End a task."""
        with _request_of(context) as request:
            refusal = TaskNotCancelableError
            exchange = await run_in_threadpool(self._at_work, request, params.id, refusal)
            await exchange.cancel()
            return await run_in_threadpool(task_of, exchange)

    @validate_request_params
    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        """The events of a task, from the beginning."""
        with _request_of(context) as request:
            refusal = UnsupportedOperationError
            exchange = await run_in_threadpool(self._at_work, request, params.id, refusal)
            async for event in events_of(exchange):
                yield event

    async def _no_push(self, *_: Any) -> Any:
        raise PushNotificationNotSupportedError  # clients subscribe to tasks instead

    on_create_task_push_notification_config: Any = _no_push
    on_get_task_push_notification_config: Any = _no_push
    on_list_task_push_notification_configs: Any = _no_push
    on_delete_task_push_notification_config: Any = _no_push

    async def on_get_extended_agent_card(self, *_: Any) -> Any:
        """Refuse: there is one card for everybody."""
        raise UnsupportedOperationError("The card of the agent is the same for all.")

    def _about(self, request: Request, id: str) -> Exchange:
        """The exchange about a task.

        Raises:
            NotFound: There is no such task of this tenant and this agent.
        """
        return Exchange.about(self._service, request, request.path_params["agent"], id, "a2a")

    def _at_work(self, request: Request, id: str, refusal: type[A2AError]) -> Exchange:
        """The exchange about a task that has not ended."""
        exchange = self._about(request, id)
        if (status := exchange.run.status) in ENDED:
            raise refusal(f"Task {id!r} has ended: it is {status}.")
        return exchange

    def _begin(self, params: SendMessageRequest, request: Request) -> Exchange:
        """Submit a message; a message with a task decides about the waits of the task."""
        if params.configuration.HasField("task_push_notification_config"):
            raise PushNotificationNotSupportedError
        validate_history_length(params.configuration)
        wanted = params.configuration.accepted_output_modes
        if wanted and not {*_MODES, "text/*", "*/*", "text", "application/*"} & {*wanted}:
            text = f"acceptedOutputModes must have one of {', '.join(_MODES)}, got {[*wanted]}."
            raise ContentTypeNotSupportedError(text)
        message = params.message
        if message.task_id:
            exchange = self._about(request, message.task_id)
            run = exchange.run
            if message.context_id not in ("", run.thread_id):
                text = f"Task {run.id!r} belongs to context {run.thread_id!r}."
                raise InvalidParamsError(text)
            waits = exchange.reviews()
            if not waits:
                status = run.status
                raise UnsupportedOperationError(
                    f"Task {run.id!r} waits for the results of calls that another client runs."
                    if status == "waiting"
                    else f"Task {run.id!r} is {status} and waits for no input. Send the message "
                    "without taskId to begin another task of the context."
                )
            exchange.decide(to_decisions(message, waits))
            return exchange
        agent, thread = request.path_params["agent"], message.context_id or str(uuid4())
        exchange = Exchange(self._service, request, agent, thread, "a2a")
        try:
            id = f"{ID_PREFIX}{message.message_id}"
            said = to_langchain(message)
            exchange.send(said, message_id=id, waiting="reject", stream={"messages"})
        except ThreadBusy as error:
            raise UnsupportedOperationError(
                f"A task of context {message.context_id!r} has not ended or waits for input, so "
                "the message was not taken. Send an answer with the taskId of that task."
            ) from error
        return exchange
