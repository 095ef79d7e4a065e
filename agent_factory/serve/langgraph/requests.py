"""Bodies of requests from clients of LangGraph's API."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, Field, RootModel, ValidationError, model_validator
from starlette.exceptions import HTTPException
from starlette.requests import Request

from agent_factory.serve.body import Keeps, RequestPart, StrictBody, json_value, several
from agent_factory.serve.json_response import time_text
from agent_factory.serve.mistakes import explained
from agent_factory.state import json_fault, place_of

Query = TypeVar("Query", bound=BaseModel)

_MOST = 1000
"""The most threads, runs or states in one request."""

Ids = Annotated[list[str], Field(max_length=_MOST)]


def read_query(request: Request, kind: type[Query]) -> Query:
    """The query of a request, with the fields of a body: lists are repeated or JSON, objects JSON.

    Raises:
        HTTPException: 422 if the query does not fit `kind`.
    """
    values: dict[str, object] = {}
    for name, text in request.query_params.items():
        field = kind.model_fields.get(name)
        if field is not None and "list" in str(field.annotation):
            values[name] = several(request, name)
        elif text.startswith("{"):
            values[name] = json_value(name, text)
        else:
            values[name] = text
    try:
        query = kind.model_validate(values)
    except ValidationError as error:
        raise HTTPException(422, explained(error, kind, values)) from error
    if (fault := json_fault(query.model_dump(mode="json"))) is not None:
        path, reason = fault
        raise HTTPException(422, f"{place_of(path)} {reason}")
    return query


StreamMode = Literal[
    "values", "updates", "messages", "messages-tuple", "custom", "tasks", "checkpoints", "debug",
    "events",
]  # fmt: skip
"""Modes of streams, in the words of LangGraph's API."""

Values = dict[str, object] | list[dict[str, object]] | None


class StateWrite(StrictBody):
    """What a node writes to the state of a thread."""

    values: Values = None
    as_node: str | None = None


class SuperStep(StrictBody):
    """What nodes write to the state of a thread in one step."""

    updates: list[StateWrite] = Field(max_length=_MOST)


class NewThread(StrictBody):
    """A thread to create."""

    thread_id: str | None = None
    metadata: dict[str, object] = Field(default_factory=dict)
    if_exists: Literal["raise", "do_nothing"] = "raise"
    supersteps: list[SuperStep] = Field(default_factory=list, max_length=_MOST)


class ThreadChange(StrictBody):
    """A change of a thread."""

    metadata: dict[str, object] = Field(default_factory=dict)


class Part(StrictBody):
    """Part of a list."""

    limit: int = Field(10, ge=1, le=1000)
    offset: int = Field(0, ge=0)


class Search(Part):
    """Search for the nouns of a tenant, a part of the list at a time."""

    sort_order: Literal["asc", "desc"] = "desc"
    select: list[str] | None = None

    columns: ClassVar[Mapping[str, str]] = {}
    """Columns of the service, by the names that LangGraph's API has for them, if it has others."""

    @property
    def filters(self) -> dict[str, Any]:
        """Conditions of the list, in the words of the service."""
        return self.model_dump(exclude={*Search.model_fields, "sort_by"}, by_alias=True)

    @property
    def order(self) -> dict[str, Any]:
        """Order and part of the list, in the words of the service."""
        name: str = getattr(self, "sort_by")  # noqa: B009  each search has its own choices
        return {
            "sort_by": self.columns.get(name, name),
            "descending": self.sort_order == "desc",
            "limit": self.limit,
            "offset": self.offset,
        }


class ThreadSearch(Search):
    """Search for threads."""

    # The service has one time for both.
    columns: ClassVar = {"state_updated_at": "updated_at"}

    ids: Annotated[Ids | None, Keeps([])] = None  # an empty list names no thread
    metadata: dict[str, Any] = Field(default_factory=dict)
    status: Literal["idle", "busy", "interrupted", "error"] | None = None
    sort_by: Literal["updated_at", "state_updated_at", "created_at", "status", "thread_id"] = (
        "updated_at"
    )


class ThreadPrune(StrictBody):
    """Threads to delete."""

    thread_ids: Ids
    strategy: Literal["delete"] = "delete"


class Checkpoint(RequestPart):
    """A place in the history of a thread."""

    thread_id: str | None = None
    # Runs and writes begin at a state of the thread, never at one of an agent inside.
    checkpoint_ns: Literal[""] | None = ""
    checkpoint_id: str | None = None
    checkpoint_map: dict[str, object] | None = None
    configurable: dict[str, Any] = Field(default_factory=dict)

    @property
    def place(self) -> str | None:
        """The id of the checkpoint; the client for JavaScript may send a config instead."""
        return self.checkpoint_id or self.configurable.get("checkpoint_id")


class StateChange(StateWrite):
    """Values to write to the state of a thread."""

    values: Values
    checkpoint: Checkpoint | None = None
    checkpoint_id: str | None = None


class StateSearch(StrictBody):
    """Search in the history of a thread."""

    limit: int = Field(10, ge=1, le=1000)
    before: str | Checkpoint | None = None
    metadata: dict[str, object] = Field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    select: list[str] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.before is not None and self.checkpoint is not None and self.checkpoint.place:
            raise ValueError("before and checkpoint contradict each other. Send one of them.")
        return self


class InnerCheckpoint(Checkpoint):
    """A checkpoint of a thread, or of an agent that is a node."""

    checkpoint_ns: str | None = ""  # type: ignore[assignment]  # wider, only read


class StatePlace(StrictBody):
    """Place of a state in the history of a thread."""

    checkpoint: InnerCheckpoint
    subgraphs: bool = False
    select: list[str] | None = None


class Command(StrictBody):
    """A command for a thread that waits: an answer, or the end of its run."""

    resume: Annotated[Any, Keeps(None, [], {})] = None  # each value is an answer, None too
    goto: Literal["__end__"] | list[Literal["__end__"]] | None = None
    update: object = None
    graph: object = None
    # CopilotKit repeats the question that it answers.
    interruptEvent: object = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.update is not None:
            hint = "Write to the state of the thread: POST /threads/{thread_id}/state."
            raise ValueError(f"command.update is not supported by this server. {hint}")
        if self.graph is not None:
            raise ValueError("command.graph is not supported by this server. Leave it out.")
        if self.goto is not None and self.resume is not None:
            raise ValueError(
                "command.resume and command.goto contradict each other: resume answers what the "
                "thread waits for, and goto ends its run. Send one of them."
            )
        return self


Strategy = Literal["reject", "interrupt", "rollback", "enqueue", "steer"]
"""What a message to a busy thread does. LangGraph's own server does not have "steer"."""


class RunPlan(StrictBody):
    """What a run does, and how: at once, or at the times of a cron."""

    input: dict[str, object] | None = None
    config: dict[str, object] | None = None
    context: dict[str, object] | None = None
    metadata: dict[str, object] = Field(default_factory=dict)
    stream_mode: StreamMode | list[StreamMode] = "values"
    stream_subgraphs: bool = False
    interrupt_before: Literal["*"] | list[str] | None = None
    interrupt_after: Literal["*"] | list[str] | None = None
    webhook: str | None = None
    # All runs are like this here.
    stream_resumable: bool = True
    durability: Literal["sync", "async", "exit"] | None = None


class RunSettings(RunPlan):
    """Plan of a run, and the agent that runs."""

    assistant_id: str
    # `{}` is refused with a hint, and not taken for null, which goes on without a message.
    input: Annotated[dict[str, object] | None, Keeps({})] = None
    context: Annotated[dict[str, object] | None, Keeps({})] = None
    multitask_strategy: Strategy | None = None
    checkpoint_during: bool | None = None

    @property
    def settings(self) -> Any:
        """The config of the run, without what names the thread, which the path does."""
        names = ("thread_id", "checkpoint_id", "checkpoint_ns")
        configurable = (self.config or {}).get("configurable")
        if isinstance(configurable, dict):
            configurable = {k: value for k, value in configurable.items() if k not in names}
        return {**(self.config or {}), "configurable": configurable}

    @property
    def modes(self) -> list[StreamMode]:
        """Stream modes that the client asks for."""
        return self.stream_mode if isinstance(self.stream_mode, list) else [self.stream_mode]


class NewRun(RunSettings):
    """A message for an agent, or the answer to what its thread waits for."""

    command: Command | None = None
    checkpoint: Checkpoint | None = None
    checkpoint_id: str | None = None
    if_not_exists: Literal["create", "reject"] = "reject"
    on_disconnect: Literal["cancel", "continue"] = "continue"
    on_completion: Literal["delete", "keep"] = "delete"
    after_seconds: float | None = Field(None, ge=0)
    strict_resume: bool | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        # A command without a field asks for nothing.
        if self.command is not None and not self.command.model_fields_set:
            self.command = None
        places = {self.checkpoint_id, self.checkpoint and self.checkpoint.place} - {None}
        if len(places) > 1:
            raise ValueError("checkpoint and checkpoint_id name different checkpoints. Send one.")
        return self

    @property
    def place(self) -> str | None:
        """The id of the checkpoint that the run begins at."""
        if self.checkpoint_id is None and self.checkpoint is not None:
            return self.checkpoint.place
        return self.checkpoint_id


def _five_fields(schedule: str) -> str:
    # With six, servers differ in whether the first or the last one is that of the seconds.
    if len(schedule.split()) != 5:
        raise ValueError(
            f"schedule must be a cron expression of five fields, got {schedule!r:.100}. "
            "Write '0 3 * * *' for three every night."
        )
    return schedule


CronExpression = Annotated[str, AfterValidator(_five_fields)]


def _within_years(time: datetime) -> datetime:
    # A time without a zone is one of UTC, as LangGraph's clients write it.
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    try:
        # As it is stored and shown: seconds are rounded, and the year may be another one in UTC.
        time_text(time.timestamp())
    except (ValueError, OverflowError) as error:
        raise ValueError("end_time must be a time of the years 1 to 9999 in UTC.") from error
    return time


EndTime = Annotated[datetime, AfterValidator(_within_years)]


class NewCron(RunSettings):
    """A run that begins at the times of a cron expression."""

    schedule: CronExpression
    timezone: str | None = None
    end_time: EndTime | None = None
    enabled: bool = True
    on_run_completed: Literal["delete", "keep"] = "delete"


class CronChange(RunPlan):
    """A change of a cron."""

    schedule: CronExpression | None = None
    timezone: str | None = None
    # Null takes the end away.
    end_time: Annotated[EndTime | None, Keeps(None)] = None
    enabled: bool | None = None
    on_run_completed: Literal["delete", "keep"] | None = None


class CronSearch(Search):
    """Search for crons."""

    columns: ClassVar = {
        "assistant_id": "assistant",
        "next_run_date": "next_at",
        "end_time": "ends_at",
    }

    assistant_id: str | None = Field(None, serialization_alias="assistant")
    thread_id: str | None = Field(None, serialization_alias="thread")
    enabled: bool | None = None
    metadata: dict[str, object] = Field(default_factory=dict)
    sort_by: Literal[
        "cron_id", "assistant_id", "thread_id", "created_at", "updated_at", "next_run_date",
        "end_time",
    ] = "created_at"  # fmt: skip


class RunOfBatch(NewRun):
    """One of several messages."""

    thread_id: str | None = None
    # The client for JavaScript sends it in addition to assistant_id.
    assistantId: str | None = None


class Batch(RootModel[Annotated[list[RunOfBatch], Field(max_length=_MOST)]]):
    """Several messages."""


class Cancelled(StrictBody):
    """Selection of runs to cancel."""

    thread_id: str | None = None
    run_ids: Ids | None = None
    status: Literal["pending", "running", "all"] | None = None


class NewAssistant(StrictBody):
    """An assistant to create."""

    graph_id: str = Field(serialization_alias="agent")
    assistant_id: str | None = Field(
        None, min_length=1, max_length=255, serialization_alias="assistant"
    )
    config: dict[str, object] | None = None
    context: dict[str, object] | None = None
    metadata: dict[str, object] = Field(default_factory=dict)
    name: str = "Untitled"
    description: str | None = None
    if_exists: Literal["raise", "do_nothing"] = "raise"


class AssistantChange(StrictBody):
    """A change of an assistant."""

    graph_id: str | None = Field(None, serialization_alias="agent")
    # `{}` takes away what was there.
    config: Annotated[dict[str, object] | None, Keeps({})] = None
    context: Annotated[dict[str, object] | None, Keeps({})] = None
    metadata: dict[str, object] | None = None
    name: str | None = None
    description: str | None = None


class AssistantSearch(Search):
    """Search for assistants."""

    columns: ClassVar = {"graph_id": "agent"}

    graph_id: str | None = Field(None, serialization_alias="agent")
    name: str | None = None
    metadata: dict[str, object] = Field(default_factory=dict)
    sort_by: Literal["assistant_id", "graph_id", "name", "created_at", "updated_at"] = "created_at"


class AssistantVersionSearch(Part):
    """Search for the versions of an assistant."""

    metadata: dict[str, object] = Field(default_factory=dict)


class AssistantVersion(StrictBody):
    """The version of an assistant that runs take."""

    version: int = Field(ge=1)


class ItemPlace(StrictBody):
    """Namespace and key of an item of the store."""

    namespace: list[str]
    key: str


class NewItem(ItemPlace):
    """An item of the store."""

    value: dict[str, object]
    index: Literal[False] | list[str] | None = None
    ttl: float | None = Field(None, gt=0)  # in minutes


class ItemSearch(Part):
    """Search for items of the store."""

    namespace_prefix: list[str] = Field(default_factory=list)
    filter: dict[str, object] | None = None
    query: str | None = None
    refresh_ttl: bool | None = None  # changes nothing where items have no time to live


class NamespaceSearch(Part):
    """Search for namespaces of the store."""

    prefix: list[str] | None = None
    suffix: list[str] | None = None
    max_depth: int | None = Field(None, ge=1)
    limit: int = Field(100, ge=1, le=1000)
