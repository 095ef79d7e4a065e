"""Unpublished behaviour of LangGraph and langchain-core that the package relies on.

Each reliance stands here once, with the reason and the version of the observation, and has a canary
in ``tests/test_upstream.py``: an upgrade with another behaviour fails there first.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from copy import copy
from dataclasses import is_dataclass, replace
from inspect import getclosurevars, signature
from operator import attrgetter
from typing import Any, TypeVar, cast
from uuid import UUID

from langchain_core.callbacks import BaseCallbackManager, CallbackManager
from langchain_core.language_models import BaseChatModel
from langchain_core.prompt_values import ChatPromptValue
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import (
    ensure_config,
    var_child_runnable_config,
)
from langchain_core.tracers import context as tracer_context
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.base import id as checkpoint_ids
from langgraph.errors import GraphBubbleUp, is_invalid_resume
from langgraph.graph import message as langgraph_message
from langgraph.runtime import Runtime
from langgraph.stream import SubgraphTransformer
from langgraph.types import Interrupt, Send
from pydantic import BaseModel

E = TypeVar("E", bound=Exception)

# langgraph/_internal/_constants.py, 1.2: the public name in langgraph.constants is deprecated.
INTERRUPT = "__interrupt__"
"""Key under which LangGraph returns the interrupts of a run."""

RESUME = "__resume__"
"""Channel under which LangGraph stores the answers to the interrupts of a task."""

# langchain_core/runnables/config.py, 1.x: the context variable with the config of the current
# node. The models and tools that a node calls inherit callbacks and tags from this config.
current_config = var_child_runnable_config

run_identity: Callable[[Runtime[Any]], object | None] = attrgetter("control")
"""Returns the same object for all steps of a run and all its subgraphs, and for no other run.

langgraph/pregel/main.py, 1.2: Pregel makes one `RunControl` for each run and hands it down in
`Runtime.control`. Only its use for draining is documented. `execution_info.run_id` would be
the documented way, but is None where the caller's config has no run id.
"""


def run_of_node(config: RunnableConfig | None) -> object | None:
    """Return the `run_identity` of the run of a node with this config."""
    runtime = (config or {}).get("configurable", {}).get("__pregel_runtime")
    return runtime and run_identity(runtime)


def super_step(config: RunnableConfig) -> int:
    """Return the number of the super-step of a node or an edge; 0 where it is unknown.

    langgraph/pregel/_algo.py, 1.2: `prepare_single_task` writes the number to the task's metadata.
    """
    return cast("int", config.get("metadata", {}).get("langgraph_step", 0))


SCRATCHPAD = "__pregel_scratchpad"
"""Key of a node's `configurable`, from whose value `step_and_stop` reads.

langgraph/managed/is_last_step.py, 1.2: `RemainingSteps` is their difference, the remaining steps of
a run with the node's own. As a managed value, the number would be a key of the state.
"""

step_and_stop: Callable[[Any], tuple[int, int]] = attrgetter("step", "stop")
"""Returns the super-step of a node, and the step at which its run is out of steps."""


def interrupts_here(interrupts: tuple[Interrupt[Any], ...], config: RunnableConfig | None) -> bool:
    """Return True if the node of this config raised the only interrupt, not a subgraph inside.

    langgraph/types.py, 1.2: `interrupt` derives the id from the checkpoint namespace of its task.
    """
    namespace = (config or {}).get("configurable", {}).get("checkpoint_ns", "")
    return [item.id for item in interrupts] == [Interrupt.from_ns(None, namespace).id]


def is_json_overwrite(value: Any) -> bool:
    """Return True if a write is an `Overwrite` in its form in JSON.

    langgraph/channels/binop.py, 1.2: a dict with the key or the type "__overwrite__" counts.
    """
    return isinstance(value, Mapping) and "__overwrite__" in (*value, value.get("type"))


construct_prompt = ChatPromptValue.model_construct
"""Makes a prompt of `messages=` that `BaseChatModel` takes without converting them one by one.

langchain_core/language_models/chat_models.py, 1.x: `_convert_input` returns a `PromptValue`
unchanged. Unvalidated construction is safe for lists of messages, and ten times faster.
"""


def read_channels(config: RunnableConfig) -> dict[str, Any]:
    """Return the state of the running graph, from its channels; empty outside of a graph.

    langgraph/prebuilt/tool_node.py, 1.2: `_extract_state` does the same for calls by `Send`, which
    bring no state. Pregel installs `partial(local_read, scratchpad, channels, ...)`.
    """
    read = config.get("configurable", {}).get("__pregel_read")
    if read is None:
        return {}
    return cast("dict[str, Any]", read(list(read.args[1]), True))


def read_keys(config: RunnableConfig, keys: list[str]) -> dict[str, Any]:
    """Return the values of some keys of the state before a node of this config writes.

    langgraph/pregel/_algo.py, 1.2: see `read_channels`. Keys without a value are left out.
    """
    read: Callable[[list[str], bool], dict[str, Any]] = config["configurable"]["__pregel_read"]
    return read(keys, False)


def messages_delta_reducer(default: Callable[..., Any]) -> Callable[..., Any]:
    """Return the reducer by which LangGraph recognizes a delta channel of messages.

    langgraph 1.2, `pregel/_messages.py`: writes of a DeltaChannel with `_messages_delta_reducer`
    become messages with ids before they are stored. Other channels store pairs and strings.
    LangGraph calls the function experimental; lists of messages work with the default too.
    """
    return getattr(langgraph_message, "_messages_delta_reducer", default)


COPY_BRANCH = "__copy__"
"""Node name with which `update_state(config, None, COPY_BRANCH)` copies a checkpoint without the
answers to its interrupts (langgraph 1.2.22, `pregel/main.py`, `Pregel.bulk_update_state`).

The name is not exported. `agent_factory.review` needs it to answer an old interrupt once more.
"""

CLEAR_TASKS = "__end__"
"""Node name with which `update_state(config, None, CLEAR_TASKS)` ends the tasks of the current
step and keeps their writes (langgraph 1.2.22, `pregel/main.py`, `Pregel.bulk_update_state`).

The name is `langgraph.graph.END`; only a comment in the source gives this meaning.
"""


def model_params(model: Any, /, **settings: Any) -> Mapping[str, Any]:
    """The name and the provider of a chat model, as reported to LangSmith.

    langchain-core 1.7, `language_models/chat_models.py`: `_get_ls_params`; empty without it.
    """
    get_params = getattr(model, "_get_ls_params", None)
    return get_params(**settings) if get_params else {}


class ModelWrapper(BaseChatModel):
    """Chat model that asks another model, `inner`, and has its name and its provider.

    langchain-core 1.7, `language_models/chat_models.py`: traces and callbacks get both from these.
    """

    inner: Any

    @property
    def _serialized(self) -> dict[str, Any]:
        return dict(getattr(self.inner, "_serialized", {"name": type(self.inner).__name__}))

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return {"ls_model_type": "chat", **model_params(self.inner, stop=stop, **kwargs)}


def initialized_chat_model(model: Any, config: RunnableConfig | None = None) -> Any:
    """The chat model that a model of `init_chat_model(configurable_fields=...)` makes for a config.

    langchain 1.5.2, `chat_models/base.py`: `_model(config)` of a `_ConfigurableModel` makes the
    model, with the bound tools; no public method does. With `configurable_fields="any"`, each key
    of the config becomes an argument, so keys of LangGraph are left out.
    """
    if type(model).__name__ != "_ConfigurableModel":
        return model
    config = ensure_config(config)
    arguments = {k: v for k, v in config.get("configurable", {}).items() if not is_reserved(k)}
    return model._model({**config, "configurable": arguments})


def task_identity(runtime: Any) -> object:
    """An object that identifies one execution of a node; None without a runtime.

    langgraph 1.2.22, `pregel/_algo.py`: `prepare_single_task` makes a `Runtime` for each task.
    """
    return runtime


class SubagentTransformer(SubgraphTransformer):
    """Projects the agents called by a run as `subagents`, in the event protocol "v3".

    Each is a run stream, as in `subgraphs`, with a `name`, and the id of the tool call that started
    the agent, or None, as its `cause`.

    langgraph 1.2.22, `stream/transformers.py`: the base class is published, but not its hook and
    its attributes. `_lc_by_ns` holds `lc_agent_name` of nested graphs, None for other graphs.
    """

    def init(self) -> dict[str, Any]:
        """Return the projection under the name of this transformer."""
        return {"subagents": super().init()["subgraphs"]}

    def _on_started(self, ns: tuple[str, ...], graph_name: str | None, *ids: str | None) -> None:
        if self._lc_by_ns.get(ns) is None:
            return
        super()._on_started(ns, graph_name, *ids)
        if (handle := self._handles.get(ns)) is not None:
            vars(handle).update(name=graph_name, cause=self._pending_cause)


# Graphs


def empty_graph(graph: Any) -> Callable[[], dict[str, Any]]:
    """Return a function that gives the attributes of a graph without nodes to a similar graph.

    langgraph/graph/state.py, 1.2: a `StateGraph` begins with collections that its methods fill, and
    with channels, which take a third of the time to build. Compiled graphs copy them.
    """
    before = {name: copy(value) for name, value in vars(graph).items()}
    return lambda: {name: copy(value) for name, value in before.items()}


# Nodes of a compiled graph  langgraph/pregel/_read.py, 1.2: `PregelNode.node` is a cached property,
# a runnable that is traced as a chain: the node, and then its writers. `prepare_single_task` reads
# it for each task. A copy makes it again. graph/state.py, `attach_node`: the first writer is for
# updates and commands.


def node_runnable(node: Any, end: Any = None) -> Runnable[Any, Any]:
    """Return the runnable of a node for LangGraph: the node and its writers, or `end` instead."""
    runnable: Runnable[Any, Any] = node.copy({} if end is None else {"writers": [end]}).node
    return runnable


def run_in_place(node: Any, runnable: Any) -> None:
    """Let LangGraph run `runnable` for a node. Drawings and manual updates use its writers."""
    node.node = runnable


def node_writers(node: Any) -> list[Runnable[Any, Any]]:
    """Return the writers of a node: first for updates and commands, then for its edges."""
    return cast("list[Runnable[Any, Any]]", node.writers)


def run_without_graph(node: Any) -> None:
    """Let a ToolNode run outside of a graph, with an empty runtime.

    langgraph/_internal/_runnable.py, 1.2: `RunnableCallable.func_accepts` has the key and the
    default of each parameter to fill in. Without a default, its error names neither.
    """
    key, _ = node.func_accepts["runtime"]
    node.func_accepts["runtime"] = key, Runtime()


# Configs of runs and nodes


RESERVED_KEYS = frozenset(
    ("thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map", "assistant_id", "graph_id")
)
"""Keys of `config["configurable"]` that LangGraph reads and whose names give no sign of it.

langgraph/_internal/_constants.py, 1.2, and `_build_server_info` in pregel/main.py. All others begin
with "__pregel_", or with "langgraph_auth_" where LangGraph's server has set them.
"""


def is_reserved(key: str) -> bool:
    """Return True if LangGraph itself reads a key of `config["configurable"]`.

    Such a key changes how a run is carried out: langgraph/pregel/_loop.py, 1.2, takes the answers
    to interrupts from `__pregel_resume_map`.
    """
    return key.startswith(("__", "langgraph_")) or key in RESERVED_KEYS


RUN_ID = "run_id"
"""Key in the metadata of a config by which LangGraph knows that a run continues another run.

langgraph/pregel/_loop.py, 1.2: with the `run_id` in the metadata of the last checkpoint, the input
of a run is dropped and the thread goes on from there, also past a pause.
"""


SAVER = "__pregel_checkpointer"
"""Key of `configurable` under which LangGraph hands the saver of a graph to its tasks."""


def saver_of(config: RunnableConfig) -> BaseCheckpointSaver[Any] | None:
    """Return the saver of the graph of a node with this config, if any.

    langgraph/pregel/_algo.py, 1.2: each task gets the saver under this key.
    """
    saver = config.get("configurable", {}).get(SAVER)
    return saver if isinstance(saver, BaseCheckpointSaver) else None


def detached(config: RunnableConfig, thread: str, runtime: Runtime[Any]) -> RunnableConfig:
    """Return a config for work that goes on after the node of a config has ended.

    It has the tags, callbacks and keys of the caller, without handlers of streams. A graph with it
    is a separate run, in the thread of this id, with the context and the store of `runtime`.

    langgraph/pregel, 1.2: reserved keys, and keys of the metadata, make a graph a part of a run.
    """
    keys = config.get("configurable", {})
    callbacks: Any = config.get("callbacks")
    if isinstance(callbacks, BaseCallbackManager):
        callbacks = callbacks.copy()
        for name in ("handlers", "inheritable_handlers"):
            handlers = getattr(callbacks, name)
            setattr(callbacks, name, [each for each in handlers if not _ends_with_run(each)])
    metadata = config.get("metadata") or {}
    result: RunnableConfig = {
        "tags": list(config.get("tags") or ()),
        "metadata": {k: v for k, v in metadata.items() if not is_reserved(k)},
        # Otherwise the work would inherit the callbacks of the node that started it.
        "callbacks": callbacks or CallbackManager([]),
        "configurable": {
            **{key: value for key, value in keys.items() if not is_reserved(key)},
            "thread_id": thread,
            "__pregel_runtime": runtime,
        },
    }
    if "recursion_limit" in config:
        result["recursion_limit"] = config["recursion_limit"]
    return result


def coerced_context(context: Any, schema: object) -> Any:
    """Return the context of a run in the form for its nodes.

    langgraph/pregel/main.py, 1.2: `_coerce_context` makes an instance of the schema of a dict.
    """
    is_class = isinstance(schema, type) and (is_dataclass(schema) or issubclass(schema, BaseModel))
    return cast("Any", schema)(**context) if is_class and isinstance(context, dict) else context


def _ends_with_run(handler: object) -> bool:
    is_of_stream = streams(handler, "messages", "tools") or streams_events(handler)
    return is_of_stream or getattr(handler, "ends_with_run", False)


def needs_task(error: BaseException) -> bool:
    """Return True for the error of an `interrupt` outside of a run that could be paused.

    langgraph/types.py, 1.2: `interrupt` reads this key, which each task of a graph has.
    """
    return isinstance(error, KeyError) and error.args == (SCRATCHPAD,)


def stores_at_exit(config: RunnableConfig) -> bool:
    """Return True if a run stores nothing before it ends, as with `durability="exit"`.

    langgraph/pregel/main.py, 1.2: graphs inside learn this from the key.
    """
    return config["configurable"].get("__pregel_durability") == "exit"


def stored_writes(
    config: RunnableConfig, pairs: Sequence[tuple[str, Any]], target: str, number: int
) -> tuple[RunnableConfig, list[tuple[str, Any]], str, str]:
    """Return the arguments of `put_writes` for a node that writes `pairs` and leads to `target`.

    langgraph/pregel/_loop.py, 1.2: a run resumed at the checkpoint takes a task with writes for
    done. When the task ends, all its writes are stored, but savers keep the earlier write of an
    index in the list. So `target` is written as often as the task may send to other nodes.
    """
    targets = [(f"branch:to:{target}", None)] * number
    # The path of the task, as `task_path_str` of langgraph/pregel/_algo.py, 1.2, writes it.
    kind, place, *sent = config["metadata"]["langgraph_path"]
    path = f"~{kind}, {place:010d}, {sent[0]:010d}" if sent else f"~{kind}, {place}"
    info = config["configurable"]["__pregel_runtime"].execution_info
    return checkpoint_of(config), [*pairs, *targets], info.task_id, path


def put_stored(put_writes: Callable[..., Any], writes: tuple[Any, ...]) -> Any:
    """Call `put_writes` or `aput_writes` of a saver with the result of `stored_writes`.

    langgraph/pregel/_checkpoint.py, 1.2: a saver gets the path of a task if it takes the path. Some
    savers (MongoDB's) look for the earlier writes of a task by its path as well.
    """
    return put_writes(*writes[: None if "task_path" in signature(put_writes).parameters else -1])


def checkpoint_of(config: RunnableConfig) -> RunnableConfig:
    """Return the config of the checkpoint before the step of a node."""
    # The checkpoint is the graph's, and the config has the namespace of a task of the graph.
    keys, namespace = config["configurable"], "|".join(graph_namespace(config))
    checkpoint_id = keys["__pregel_runtime"].execution_info.checkpoint_id
    return {"configurable": {**keys, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}}


def sent_writes(config: RunnableConfig) -> deque[tuple[str, Any]]:
    """Return the direct writes of the node of this config so far, before it returns.

    langgraph/pregel/_algo.py and _retry.py, 1.2: a task gets its `extend`; with a timeout, wrapped.
    """
    send: Any = config["configurable"]["__pregel_send"]
    extend: Any = send if hasattr(send, "__self__") else getclosurevars(send).nonlocals["send"]
    return cast("deque[tuple[str, Any]]", extend.__self__)


NO_TASK = "00000000-0000-0000-0000-000000000000"
"""Task whose writes belong to the state of a checkpoint, however the thread goes on.

langgraph/pregel/_loop.py, 1.2: `_first` applies them, and a general `update_state` does not. Savers
keep the first write of an index in the list, so a list begins with the earlier writes.
"""


def reading_after(
    config: RunnableConfig, writes: Callable[..., list[tuple[str, Any]]], kept: Collection[str] = ()
) -> RunnableConfig:
    """Return the config of a node that reads the state directly, after these writes.

    langgraph/pregel/_algo.py, 1.2: a task gets `local_read`, which with `fresh=True` applies the
    writes of the task to copies of all channels. `writes` gets these writes, and adds the earlier
    writes. Before a write, keys of `kept` need no copies.
    """
    configurable = config["configurable"]
    read, pending = configurable["__pregel_read"], sent_writes(config)

    def read_after(select: Any, fresh: bool = False) -> Any:
        every, direct = writes(pending if fresh else ()), [*pending]
        keys = {select} if isinstance(select, str) else {*select}
        is_kept = keys.issubset(kept) and keys.isdisjoint(key for key, _ in every)
        if is_kept or not every:
            return read(select, fresh and not is_kept)
        pending.clear()  # in place: `local_read` looks into this very deque
        pending.extend(every)
        try:
            return read(select, True)
        finally:
            pending.clear()
            pending.extend(direct)

    return {**config, "configurable": {**configurable, "__pregel_read": read_after}}


def at_step(config: RunnableConfig, ahead: int, run_id: UUID | None) -> RunnableConfig:
    """Return the config of a node in a later super-step, so many steps ahead.

    langgraph/pregel/_algo.py, 1.2: `prepare_single_task` writes the number to the metadata and a
    tag of the callbacks. Calls of a traced node get the tag "seq:step:1" in its place, and the run
    of the node as their parent (langgraph/_internal/_runnable.py): `run_id`, if it is not traced.
    """
    manager: Any = config["callbacks"]
    # The nodes of a step share the manager of the task.
    own = manager.copy()
    step = (before := super_step(config)) + ahead
    old, new = f"graph:step:{before}", "seq:step:1" if run_id else f"graph:step:{step}"
    own.tags = [new if tag == old else tag for tag in own.tags]
    if run_id is not None:
        own.parent_run_id = run_id
    return {**config, "metadata": {**config["metadata"], "langgraph_step": step}, "callbacks": own}


def at_node(
    config: RunnableConfig, ahead: int, node: str, task: str, run_id: UUID | None, *, sent: bool
) -> RunnableConfig:
    """Return the config that a task of another node would have in a later super-step.

    langgraph/pregel/_algo.py, 1.2: see `at_step`. Each task has another `Runtime`, with its
    namespace. No edge leads to a node that is `sent` to.
    """
    result = in_namespace(at_step(config, ahead, run_id), node, task)
    configurable = result["configurable"]
    namespace = configurable["checkpoint_ns"]
    result["run_name"] = node
    result["metadata"].update(
        langgraph_node=node,
        langgraph_triggers=("__pregel_push",) if sent else (f"branch:to:{node}",),
        langgraph_path=("__pregel_push", 0, False) if sent else ("__pregel_pull", node),
        langgraph_checkpoint_ns=namespace,
    )
    runtime = configurable["__pregel_runtime"]
    info = replace(runtime.execution_info, checkpoint_ns=namespace, task_id=task)
    configurable["__pregel_runtime"] = replace(runtime, execution_info=info)
    return result


def in_namespace(
    config: RunnableConfig, node: str, task: str, step: int | None = None
) -> RunnableConfig:
    """Return the config of a node with the namespace of another task, of another node.

    langgraph/pregel/_algo.py, 1.2: the namespace ends with the name of the node and the id of the
    task. Graphs inside store their checkpoints below. `step` is for `super_step` alone.
    """
    configurable = config["configurable"]
    around, mark, _ = configurable["checkpoint_ns"].rpartition("|")
    configurable = {**configurable, "checkpoint_ns": f"{around}{mark}{node}:{task}"}
    if step is None:
        return {**config, "configurable": configurable}
    metadata = {**config["metadata"], "langgraph_step": step}
    return {**config, "configurable": configurable, "metadata": metadata}


def counting_graphs(config: RunnableConfig, number: Callable[[], int]) -> RunnableConfig:
    """Return the config of a node, in which a function counts the graphs called by the node.

    langgraph/pregel/_loop.py, 1.2: the number of a graph ends its namespace, unless it is 0.
    """
    configurable = config["configurable"]
    scratchpad = replace(configurable["__pregel_scratchpad"], subgraph_counter=number)
    return {**config, "configurable": {**configurable, "__pregel_scratchpad": scratchpad}}


def graph_namespace(config: RunnableConfig | None) -> tuple[str, ...]:
    """Return the namespace of the graph of a node with this config.

    langgraph/pregel/main.py, 1.2: streams show the namespace with each event.
    """
    namespace = (config or {}).get("configurable", {}).get("checkpoint_ns", "")
    return tuple(namespace.split("|")[:-1])


def task_id(config: RunnableConfig) -> str:
    """Return the id of the task of a node with this config.

    langgraph/pregel/_algo.py, 1.2: the namespace of a task ends with the id.
    """
    return str(config["configurable"]["checkpoint_ns"]).rpartition(":")[2]


def task_namespace(metadata: Mapping[str, Any]) -> str | None:
    """Return the namespace of the task around a run with this metadata.

    langgraph/pregel/_algo.py, 1.2: `prepare_single_task` adds the namespace to the metadata of a
    node, from which graphs called by the node inherit it; their nodes have others.
    """
    return metadata.get("langgraph_checkpoint_ns")


def place_of_run(
    configurable: Mapping[str, Any], *, stateful: bool
) -> tuple[RunnableConfig, dict[str, Any]]:
    """Return the config of the thread of a graph that is about to run, and keys for the run.

    With `stateful`, the graph keeps its history over runs of its parent: `checkpointer=True`.

    langgraph/pregel/_loop.py, 1.2: within a node, the namespace is that of its task, and the number
    of the graph among the node's graphs, unless it is 0. Asking for the number counts the graph.
    """
    keys = ("thread_id", "checkpoint_id")
    place = {key: configurable[key] for key in keys if configurable.get(key)}
    if "__pregel_task_id" not in configurable:
        return {"configurable": {**place, "checkpoint_ns": ""}}, {}
    scratchpad = configurable["__pregel_scratchpad"]
    number = scratchpad.subgraph_counter()
    parts = configurable["checkpoint_ns"].split("|")
    parts = [part.partition(":")[0] for part in parts] if stateful else parts
    namespace = "|".join([*parts, *([str(number)] if number else [])])
    checkpoint_id = (configurable.get("checkpoint_map") or {}).get(namespace)
    where = {"thread_id": configurable["thread_id"], "checkpoint_ns": namespace}
    where |= {"checkpoint_id": checkpoint_id} if checkpoint_id else {}
    again = replace(scratchpad, subgraph_counter=lambda: number)
    return {"configurable": where}, {"__pregel_scratchpad": again}


def number_after(checkpoint: str) -> None:
    """Give later checkpoints of this process ids after the id of a checkpoint that it has read.

    langgraph/checkpoint/base/id.py, 4.3: an id begins with the time of its process. Savers take the
    highest id for the newest checkpoint, so nobody would read a checkpoint of a slow clock.
    """
    with suppress(ValueError):  # an id of another form has no time
        id = UUID(checkpoint)
        if id.version == 6:
            time = (id.int >> 80) << 12 | (id.int >> 64) & 0xFFF
            numbers: Any = checkpoint_ids
            if time > (numbers._last_v6_timestamp or 0):  # mostly the time is not later
                numbers._last_v6_timestamp = time


def earlier_checkpoint(config: RunnableConfig) -> tuple[Any, RunnableConfig, Any] | None:
    """Return a saver, and arguments of `list` for the checkpoint before the step of a node.

    None without a saver, and in a branch from a checkpoint that the caller has named.

    langgraph/pregel/_loop.py, 1.2: a run with new input begins with a checkpoint. The writes of an
    unfinished step are stored with the one before. The config of a branch has a replay state.
    """
    configurable = config["configurable"]
    if (saver := saver_of(config)) is None or configurable.get("__pregel_replay_state") is not None:
        return None
    keys = {"thread_id": configurable["thread_id"]}
    keys["checkpoint_ns"] = "|".join(graph_namespace(config))
    current = configurable["__pregel_runtime"].execution_info.checkpoint_id
    before = {"configurable": {**keys, "checkpoint_id": current}}
    return saver, {"configurable": keys}, {"before": before, "limit": 1}


def is_nested(configurable: Mapping[str, Any]) -> bool:
    """Return True if a graph with this config runs within a node of another graph.

    langgraph/pregel/_loop.py, 1.2: such a graph raises a `GraphInterrupt`; others end their stream.
    """
    return "__pregel_task_id" in configurable


def in_runtime(config: RunnableConfig, runtime: Runtime[Any]) -> RunnableConfig:
    """Return a config by which `get_stream_writer` and the like find a runtime.

    langgraph/config.py and langgraph/runtime.py, 1.2: both read the runtime under this key.
    """
    return {**config, "configurable": {**config["configurable"], "__pregel_runtime": runtime}}


def streams_message_events(configurable: Mapping[str, Any]) -> bool:
    """Return True if a stream of messages shows events of the event protocol, and no messages.

    langgraph/pregel/main.py, 1.2: `stream_events(version="v3")` asks for them under this key.
    """
    return bool(configurable.get("__pregel_stream_messages_v2"))


def waiting_nodes(entry: CheckpointTuple, *, latest: bool) -> list[str]:
    """Return the next nodes of a stored thread, whether or not a graph has them.

    With `latest`, these include nodes after finished tasks of an unfinished step: LangGraph runs
    such tasks again at an older checkpoint.

    langgraph/graph/state.py, 1.2: an edge is a channel `branch:to:NODE`, and `Send`s are in the
    channel `__pregel_tasks`. Only a channel written by the last step waits.
    """
    values, versions = entry.checkpoint["channel_values"], entry.checkpoint["channel_versions"]
    newest: Any = max(versions.values(), default=None)
    writes = [(name, values[name]) for name in sorted(values) if versions.get(name) == newest]
    if latest:
        writes += [(channel, value) for _, channel, value in entry.pending_writes or ()]
    nodes: list[str] = []
    for channel, value in writes:
        if channel.startswith("branch:to:"):
            nodes.append(channel.removeprefix("branch:to:"))
        elif channel == "__pregel_tasks":
            sends = value if isinstance(value, list) else [value]
            nodes += [send.node for send in sends if isinstance(send, Send)]
    return list(dict.fromkeys(nodes))


def waiting_interrupts(entry: CheckpointTuple) -> dict[str, tuple[Interrupt[Any], ...]]:
    """Return the interrupts of a stored thread, by the ids of their tasks.

    langgraph/pregel/_loop.py, 1.2: a task writes its interrupts to `__interrupt__`.
    """
    writes = entry.pending_writes or ()
    return {task: tuple(value) for task, channel, value in writes if channel == INTERRUPT}


_CONTROL = {INTERRUPT, RESUME, "__error__", "__error_source_node__"}


def finished_writes(entry: CheckpointTuple) -> list[tuple[str, str, Any]]:
    """Return the writes of finished tasks after a stored checkpoint: task, channel, value.

    langgraph/pregel/_task_status.py, 1.2: a task with a write to another channel than these control
    channels has ended. A new input drops it, and so does `update_state` except with `CLEAR_TASKS`.
    """
    return [write for write in entry.pending_writes or () if write[1] not in _CONTROL]


def open_interrupts(entry: CheckpointTuple) -> dict[str, bool]:
    """Return the ids of the interrupts of a stored thread, and whether each waits for an answer.

    The interrupt of a finished task was answered, and is stored until the step ends.
    """
    finished = {task for task, name, _ in entry.pending_writes or () if name not in _CONTROL}
    return {
        interrupt.id: task not in finished
        for task, interrupts in waiting_interrupts(entry).items()
        for interrupt in interrupts
    }


def named_interrupts(resume: Any) -> set[str]:
    """Return the ids of interrupts in an answer; none if it answers the only interrupt.

    langgraph/pregel/_loop.py, 1.2: a dict whose keys are all such ids has an answer for each.
    """
    # LangGraph makes the ids with xxh3_128, whose digest in hex is this long.
    is_map = isinstance(resume, dict) and all(
        isinstance(key, str) and re.fullmatch("[0-9a-f]{32}", key) for key in resume
    )
    return set(resume) if is_map else set()


def shows_subgraphs(configurable: Mapping[str, Any]) -> bool:
    """Return True if the caller of a graph around this graph sees the steps of this graph.

    langgraph/pregel/main.py, 1.2: `stream(subgraphs=True)` hands its stream down under this key.
    """
    return configurable.get("__pregel_stream") is not None


def is_resumed(configurable: Mapping[str, Any]) -> bool:
    """Return True if the graph around this graph continues an earlier run of this graph.

    langgraph/pregel/_loop.py, 1.2: the input of a nested graph is the same in both cases.
    """
    return bool(configurable.get("__pregel_resuming"))


def handler_variables() -> list[ContextVar[Any]]:
    """Return the variables of the context from which each run takes callback handlers.

    langchain_core/callbacks/manager.py, 1.7: nothing returns what `register_configure_hook` got.
    """
    hooks = tracer_context._configure_hooks
    return [tracer_context.tracing_v2_callback_var, *(variable for variable, *_ in hooks)]


Put = Callable[[Any], None]
"""Function that puts something into a stream."""


def with_stream(config: RunnableConfig, wrap: Callable[[Put], Put]) -> RunnableConfig:
    """Return a config in which nested graphs put the parts of their streams elsewhere.

    langgraph/pregel/main.py, 1.2: see `shows_subgraphs`. Parts are `(namespace, mode, data)`.
    """
    stream = config.get("configurable", {}).get("__pregel_stream")
    if stream is None:
        return config
    wrapped = type(stream)(wrap(stream), stream.modes)
    return {**config, "configurable": {**config["configurable"], "__pregel_stream": wrapped}}


def with_writer(config: RunnableConfig, wrap: Callable[[Put], Put]) -> RunnableConfig:
    """Return a config in which `get_stream_writer` returns another function.

    langgraph/config.py, 1.2: see `in_runtime`.
    """
    if (runtime := config.get("configurable", {}).get("__pregel_runtime")) is None:
        return config
    return in_runtime(config, replace(runtime, stream_writer=wrap(runtime.stream_writer)))


def streams(handler: object, *modes: str) -> bool:
    """Return True if a callback handler belongs to the stream mode "messages", or "tools".

    langgraph/pregel/_messages.py and _tools.py, 1.2: LangGraph publishes neither class. Attribute
    `stream` of a handler of tools puts a part into the stream.
    """
    return type(handler).__module__ in [f"langgraph.pregel._{mode}" for mode in modes]


def mark_invalid_resume(error: E) -> E:
    """Return an error that LangGraph takes for the refusal of an answer to an interrupt.

    langgraph/errors.py, 1.2: `is_invalid_resume` reads this attribute.
    """
    error._langgraph_invalid_resume = True  # type: ignore[attr-defined]
    return error


_RAISES_LATE = "_agent_factory_raises_late"


def raise_late(error: BaseException) -> None:
    """Have LangGraph raise the error of a task when the other tasks of its step have ended.

    langgraph/pregel/_runner.py, 1.2: only the refusal of an answer does not cancel other tasks.
    """
    with suppress(AttributeError):  # of a frozen class
        if not (isinstance(error, GraphBubbleUp) or is_invalid_resume(error)):
            setattr(error, _RAISES_LATE, True)
            mark_invalid_resume(cast("Exception", error))


def unmark(error: BaseException) -> None:
    """Take the mark of `raise_late` from the error at the end of a run of a graph."""
    if vars(error).pop(_RAISES_LATE, False):
        del error._langgraph_invalid_resume  # type: ignore[attr-defined]


def streams_events(handler: object) -> bool:
    """Return True if a callback handler belongs to a call of `astream_events` or `astream_log`.

    langchain_core/tracers/_streaming.py, 1.7: such handlers put results into a queue.
    """
    return hasattr(handler, "tap_output_aiter")
