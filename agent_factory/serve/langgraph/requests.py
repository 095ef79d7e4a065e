"""Bodies of requests from clients of LangGraph's API."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, RootModel, model_validator

from agent_factory.serve.body import Keeps, RequestPart, StrictBody

StreamMode = Literal[
    "values",
    "updates",
    "messages",
    "messages-tuple",
    "custom",
    "tasks",
    "checkpoints",
    "debug",
    "events",
]
"""What a stream shows, in the words of LangGraph's API."""


class NewThread(StrictBody):
    """A thread to create."""

    thread_id: str | None = None
    metadata: dict[str, object] = Field(default_factory=dict)
    if_exists: Literal["raise", "do_nothing"] = "raise"


class ThreadChange(StrictBody):
    """A change of a thread."""

    metadata: dict[str, object] = Field(default_factory=dict)


class ThreadSearch(StrictBody):
    """Search for threads."""

    ids: Annotated[list[str] | None, Keeps([])] = None  # an empty list names no thread
    metadata: dict[str, Any] = Field(default_factory=dict)
    status: Literal["idle", "busy", "interrupted", "error"] | None = None
    limit: int = Field(10, ge=1, le=1000)
    offset: int = Field(0, ge=0)
    sort_by: Literal["updated_at", "state_updated_at", "created_at", "status", "thread_id"] = (
        "updated_at"
    )
    sort_order: Literal["asc", "desc"] = "desc"
    select: list[str] | None = None


class ThreadPrune(StrictBody):
    """Threads to delete."""

    thread_ids: list[str]
    strategy: Literal["delete"] = "delete"


class Checkpoint(RequestPart):
    """A place in the history of a thread."""

    thread_id: str | None = None
    checkpoint_ns: Literal[""] | None = ""
    checkpoint_id: str | None = None
    checkpoint_map: dict[str, object] | None = None
    configurable: dict[str, Any] = Field(default_factory=dict)

    @property
    def place(self) -> str | None:
        """The id of the checkpoint; the client for JavaScript may send a config instead."""
        return self.checkpoint_id or self.configurable.get("checkpoint_id")


class StateChange(StrictBody):
    """Values to write to the state of a thread."""

    values: dict[str, object] | list[dict[str, object]] | None
    as_node: str | None = None
    checkpoint: Checkpoint | None = None
    checkpoint_id: str | None = None

    @property
    def keys(self) -> set[str]:
        """The keys of the state that are written."""
        updates = self.values if isinstance(self.values, list) else [self.values or {}]
        return {key for update in updates for key in update}


class StateSearch(StrictBody):
    """Search in the history of a thread."""

    limit: int = Field(10, ge=1, le=1000)
    before: str | Checkpoint | None = None
    metadata: dict[str, object] = Field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    select: list[str] | None = None


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


class NewRun(StrictBody):
    """A message for an agent, or the answer to what its thread waits for."""

    assistant_id: str
    # `{}` is refused with a hint, and not taken for null, which goes on without a message.
    input: Annotated[dict[str, object] | None, Keeps({})] = None
    command: Command | None = None
    config: dict[str, object] | None = None
    context: Annotated[dict[str, object] | None, Keeps({})] = None
    metadata: dict[str, object] = Field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    checkpoint_id: str | None = None
    stream_mode: StreamMode | list[StreamMode] = "values"
    stream_subgraphs: bool = False
    multitask_strategy: Literal["reject", "interrupt", "rollback", "enqueue"] | None = None
    if_not_exists: Literal["create", "reject"] = "reject"
    on_disconnect: Literal["cancel", "continue"] = "continue"
    on_completion: Literal["delete", "keep"] = "delete"
    interrupt_before: Literal["*"] | list[str] | None = None
    interrupt_after: Literal["*"] | list[str] | None = None
    after_seconds: float | None = Field(None, ge=0)
    # All runs are like this here.
    stream_resumable: bool = True
    durability: Literal["sync", "async", "exit"] | None = None
    checkpoint_during: bool | None = None
    strict_resume: bool | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        # A command without a field asks for nothing.
        if self.command is not None and not self.command.model_fields_set:
            self.command = None
        if self.command is not None and self.input:
            raise ValueError(
                "command and input contradict each other: a command is for what the thread waits "
                "for, and an input is a new message. Send one of them."
            )
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


class RunOfBatch(NewRun):
    """One of several messages."""

    thread_id: str | None = None
    # The client for JavaScript sends it in addition to assistant_id.
    assistantId: str | None = None


class Batch(RootModel[list[RunOfBatch]]):
    """Several messages."""


class Cancelled(StrictBody):
    """Selection of runs to cancel."""

    thread_id: str | None = None
    run_ids: list[str] | None = None
    status: Literal["pending", "running", "all"] | None = None


class AgentSearch(StrictBody):
    """Search for agents."""

    graph_id: str | None = None
    name: str | None = None
    metadata: dict[str, object] = Field(default_factory=dict)
    limit: int = Field(10, ge=1, le=1000)
    offset: int = Field(0, ge=0)
    sort_by: Literal["assistant_id", "graph_id", "name", "created_at", "updated_at"] | None = None
    sort_order: Literal["asc", "desc"] = "asc"
    select: list[str] | None = None


class NewItem(StrictBody):
    """An item of the store."""

    namespace: list[str]
    key: str
    value: dict[str, object]
    index: Literal[False] | None = None


class ItemPlace(StrictBody):
    """Namespace and key of an item of the store."""

    namespace: list[str]
    key: str


class ItemSearch(StrictBody):
    """Search for items of the store."""

    namespace_prefix: list[str] = Field(default_factory=list)
    filter: dict[str, object] | None = None
    limit: int = Field(10, ge=1, le=1000)
    offset: int = Field(0, ge=0)
    refresh_ttl: bool | None = None  # items have no time to live here


class NamespaceSearch(StrictBody):
    """Search for namespaces of the store."""

    prefix: list[str] | None = None
    suffix: list[str] | None = None
    max_depth: int | None = Field(None, ge=1)
    limit: int = Field(100, ge=1, le=1000)
    offset: int = Field(0, ge=0)
