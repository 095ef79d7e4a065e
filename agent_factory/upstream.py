"""What the package relies on in LangGraph and langchain-core that they do not publish.

Each reliance stands here once, with the reason and the version it was seen in, and has a canary in
``tests/test_upstream.py``: an upgrade that changes one fails there first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from langchain_core.prompt_values import ChatPromptValue
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.graph import message as langgraph_message
from langgraph.runtime import Runtime
from langgraph.stream import SubgraphTransformer
from langgraph.types import Interrupt

# langchain_core/runnables/config.py, 1.x: the context variable that holds the config of the node
# under way. The models and tools that a node calls inherit their callbacks and tags from it.
current_config = var_child_runnable_config

run_identity: Callable[[Runtime[Any]], object | None] = attrgetter("control")
"""Returns an object that is one for all steps of a run and all its subgraphs, and no other run.

langgraph/pregel/main.py, 1.2: Pregel makes one `RunControl` for each run and hands it down in
`Runtime.control`. Only its use for draining is documented. `execution_info.run_id` would be
the documented way, but it is None where the caller's config has no run id.
"""


def super_step(config: RunnableConfig) -> int:
    """Return the number of the super-step that a node or an edge runs in; 0 where it is unknown.

    langgraph/pregel/_algo.py, 1.2: `prepare_single_task` writes it to the task's metadata.
    """
    step: int = config.get("metadata", {}).get("langgraph_step", 0)
    return step


def with_node_name(config: RunnableConfig | None, name: str) -> RunnableConfig:
    """Return a config whose streamed tokens are attributed to this node.

    langgraph/pregel/_messages.py, 1.2: the stream mode "messages" yields the metadata of the run
    that a token belongs to, in which `prepare_single_task` has set `langgraph_node`.
    """
    known = config or {}
    return {**known, "metadata": {**known.get("metadata", {}), "langgraph_node": name}}


def interrupts_here(interrupts: tuple[Interrupt[Any], ...], config: RunnableConfig | None) -> bool:
    """Whether there is one interrupt and the node of this config raised it, not a subgraph in it.

    langgraph/types.py, 1.2: `interrupt` derives the id from the checkpoint namespace of its task.
    """
    namespace = (config or {}).get("configurable", {}).get("checkpoint_ns", "")
    return [one.id for one in interrupts] == [Interrupt.from_ns(None, namespace).id]


def is_json_overwrite(value: Any) -> bool:
    """Whether a write is an `Overwrite` in the form it has in JSON.

    langgraph/channels/binop.py, 1.2: a dict with the key or the type "__overwrite__" counts as one.
    """
    return isinstance(value, Mapping) and "__overwrite__" in (*value, value.get("type"))


def compiled_graph_arguments(graph: Any) -> dict[str, Any]:
    """Return the arguments that would construct a compiled graph again.

    langgraph/pregel/main.py, 1.2: every parameter of `CompiledStateGraph` is an attribute of the
    same name. `__orig_class__` comes from `typing`, which sets it on instances of generic classes.
    """
    return {name: value for name, value in vars(graph).items() if name != "__orig_class__"}


construct_prompt = ChatPromptValue.model_construct
"""Makes a prompt of `messages=` that `BaseChatModel` takes without converting them one by one.

langchain_core/language_models/chat_models.py, 1.x: `_convert_input` returns a `PromptValue` as
it is. Unvalidated construction is safe for lists of messages, and ten times faster.
"""


def read_channels(config: RunnableConfig) -> dict[str, Any]:
    """Return the state of the graph that runs, read from its channels; empty outside of a graph.

    langgraph/prebuilt/tool_node.py, 1.2: `_extract_state` does the same for calls that arrive by
    `Send` and bring no state. Pregel installs `partial(local_read, scratchpad, channels, ...)`.
    """
    read = config.get("configurable", {}).get("__pregel_read")
    if read is None:
        return {}
    state: dict[str, Any] = read(list(read.args[1]), True)
    return state


def messages_delta_reducer(default: Callable[..., Any]) -> Callable[..., Any]:
    """Return the reducer by which LangGraph recognizes a delta channel of messages.

    langgraph 1.2, `pregel/_messages.py`: if the reducer of a DeltaChannel is
    `_messages_delta_reducer` itself, all that is written is converted to messages with ids before
    it is stored. Other channels store pairs and strings, and a saver returns a pair as a list of
    two strings. LangGraph calls the function experimental; without it, lists of messages work
    with the default too.
    """
    reducer: Callable[..., Any] = getattr(langgraph_message, "_messages_delta_reducer", default)
    return reducer


COPY_BRANCH = "__copy__"
"""Node name with which `update_state(config, None, COPY_BRANCH)` copies a checkpoint without the
answers to its interrupts (langgraph 1.2.22, `pregel/main.py`, `Pregel.bulk_update_state`).

The name is not exported. `agent_factory.review` needs it to answer an old interrupt once more.
"""

CLEAR_TASKS = "__end__"
"""Node name with which `update_state(config, None, CLEAR_TASKS)` ends the tasks of the current
step and keeps what they wrote (langgraph 1.2.22, `pregel/main.py`, `Pregel.bulk_update_state`).

The name is `langgraph.graph.END`; that it has this meaning is only said in a source comment.
"""


def model_params(model: Any, /, **settings: Any) -> Mapping[str, Any]:
    """The name and the provider of a chat model, as it reports them to LangSmith.

    `_get_ls_params` (langchain-core 1.7, `language_models/chat_models.py`) is private, but every
    provider package implements it, and no public method gives the provider. A model without it
    gives an empty dict.
    """
    get_params = getattr(model, "_get_ls_params", None)
    return get_params(**settings) if get_params else {}


def task_identity(runtime: Any) -> object:
    """An object that identifies one execution of a node; None without a runtime.

    LangGraph makes a new `Runtime` for each task (langgraph 1.2.22, `pregel/_algo.py`,
    `prepare_single_task`), so the object itself identifies the task. A budget adds up what was
    spent within one task.
    """
    return runtime


class SubagentTransformer(SubgraphTransformer):
    """Projects the agents that a run calls as `subagents`, in the event protocol "v3".

    Each is a run stream, as in `subgraphs`, with two more attributes: `name`, and `cause`, which
    holds the id of the tool call that started it, or is None.

    langgraph 1.2.22, `stream/transformers.py`: LangGraph publishes the base class and not its
    hook `_on_started`, or the attributes that are read here. `_lc_by_ns` holds `lc_agent_name` of
    each nested graph; it is None in other graphs.
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
