"""Canaries for what agent_factory/upstream.py relies on."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from itertools import pairwise
from operator import add
from time import time_ns
from types import ModuleType, SimpleNamespace
from typing import Annotated, Any, TypedDict
from unittest.mock import Mock, patch
from uuid import UUID

import pytest
from langchain_core.callbacks import BaseCallbackHandler, get_usage_metadata_callback
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.tracers.context import collect_runs
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler as RunCollector
from langgraph.callbacks import GraphCallbackHandler
from langgraph.channels import BinaryOperatorAggregate
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base import id as checkpoint_ids
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.config import get_stream_writer
from langgraph.errors import GraphInterrupt, is_invalid_resume
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolRuntime
from langgraph.prebuilt import ToolNode as LangGraphToolNode
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Command, Send, interrupt
from langgraph_keys import configurable_keys
from pydantic import BaseModel

from agent_factory import DeltaMessages, create_agent, upstream
from agent_factory.state.channels import fold_messages
from agent_factory.testing import ScriptedChatModel
from samples import THREAD
from tables import each


def add_one(n: int) -> int:
    """Add one."""
    return n + 1


class State(TypedDict):
    log: Annotated[list[Any], add]


def chain(*nodes: Any, schema: Any = State, **compiled: Any) -> Any:
    """A graph of nodes that run one after the other."""
    graph: Any = StateGraph(schema)
    names = [f"node{number}" for number in range(len(nodes))]
    for name, node in zip(names, nodes, strict=True):
        graph.add_node(name, node)
    graph.add_edge(START, names[0])
    for source, target in pairwise(names):
        graph.add_edge(source, target)
    return graph.compile(**compiled)


def test_a_node_finds_its_config_its_step_and_keys_of_the_state() -> None:
    class More(State):
        unset: int

    def node(state: Any, config: RunnableConfig) -> Any:
        assert upstream.current_config.get() == config
        return {"log": [upstream.super_step(config), upstream.read_keys(config, ["log", "unset"])]}

    assert upstream.current_config.get() is None
    assert upstream.super_step({}) == 0
    result = chain(node, node, schema=More).invoke({"log": []})
    assert result["log"] == [1, {"log": []}, 2, {"log": [1, {"log": []}]}]


def test_run_identity_is_one_for_a_run_and_its_subgraphs_and_no_other_run(call: Any) -> None:
    def node(state: Any) -> Any:
        return {"log": [upstream.run_identity(get_runtime())]}

    inner = chain(node)

    def outer(state: Any) -> Any:
        return {"log": inner.invoke({"log": []})["log"]}

    graph = chain(node, node, outer)
    one, other = (call(graph, {"log": []})["log"] for _ in range(2))
    assert None not in one
    assert len({id(run) for run in one}) == len({id(run) for run in other}) == 1
    assert one[0] is not other[0]


def test_a_tool_node_runs_outside_of_a_graph_once_it_may(call: Any) -> None:
    node, asked = LangGraphToolNode([add_one]), {"name": "add_one", "args": {"n": 1}, "id": "1"}
    given = [AIMessage("", tool_calls=[asked])]
    with pytest.raises(ValueError, match="Missing required config key"):
        call(node, given)
    upstream.run_without_graph(node)
    assert [m.text for m in call(node, given)] == ["2"]


def test_remaining_steps_are_those_of_the_run_of_a_thread() -> None:
    def node(state: Any, config: RunnableConfig) -> Any:
        step, stop = upstream.step_and_stop(config["configurable"][upstream.SCRATCHPAD])
        return {"log": [stop - step]}

    graph = chain(node, node, checkpointer=InMemorySaver())
    config: Any = {**THREAD, "recursion_limit": 5}
    assert graph.invoke({"log": []}, config)["log"] == [4, 3]
    # The steps of a thread are counted on; its runs have a limit each.
    assert graph.invoke({"log": []}, config)["log"] == [4, 3, 4, 3]


class Recorded(Runnable[Any, Any]):
    """A runnable that keeps the config it is called with."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.configs: list[RunnableConfig] = []

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        self.configs.append(dict(config or {}))  # type: ignore[arg-type]
        return self.inner.invoke(input, config)


def write_one(state: Any) -> Any:
    return {"log": ["one"]}


def write_two(state: Any) -> Any:
    return {"log": ["two"]}


def test_a_node_runs_with_another_end_and_its_state_is_written_without_its_edge() -> None:
    ends: list[Any] = []

    def end(output: Any, config: RunnableConfig) -> Any:
        ends.append(output)
        return writer.invoke(Command(update=output, goto=END), config)

    graph = chain(write_one, write_two)
    node = graph.nodes["node0"]
    writer, *edges = upstream.node_writers(node)
    assert len(edges) == 1
    upstream.run_in_place(node, upstream.node_runnable(node, RunnableLambda(end)))
    tracer = Names()
    assert graph.invoke({"log": []}, {"callbacks": [tracer]})["log"] == ["one"]
    assert ends == [{"log": ["one"]}]
    assert "node0" in tracer.names


class Names(BaseCallbackHandler):
    """Keeps the names, tags and metadata of the chains that start."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.known: list[Any] = []

    def on_chain_start(self, *args: Any, **kwargs: Any) -> None:
        self.names.append(kwargs["name"])
        self.known.append((kwargs["tags"], kwargs["metadata"]))


@pytest.mark.parametrize("sent", [False, True])
def test_a_config_can_be_that_of_another_node(sent: bool) -> None:
    def leave(state: Any) -> Any:
        return Command(goto=Send("node1", state) if sent else "node1")

    graph: Any = StateGraph(State)
    graph.add_node("node0", leave)
    graph.add_node("node1", write_two)
    graph.add_edge(START, "node0")
    agent = graph.compile()
    recorded = [Recorded(upstream.node_runnable(agent.nodes[name])) for name in ("node0", "node1")]
    for name, runnable in zip(("node0", "node1"), recorded, strict=True):
        upstream.run_in_place(agent.nodes[name], runnable)
    names = Names()
    agent.invoke({"log": []}, {"callbacks": [names], "configurable": {"thread_id": "1"}})
    (first,), (second,) = (runnable.configs for runnable in recorded)
    made: Any = upstream.at_node(first, 1, "node1", "an-id", None, sent=sent)
    assert [tag for tag in made["callbacks"].tags if tag.startswith("graph")] == ["graph:step:2"]
    key = "langgraph_checkpoint_ns"
    assert made["metadata"] == {**second["metadata"], key: "node1:an-id"}
    assert second["metadata"][key].startswith("node1:")
    assert made["configurable"]["checkpoint_ns"] == "node1:an-id"
    assert second["configurable"]["checkpoint_ns"] == second["metadata"][key]
    assert made["run_name"] == second["run_name"]
    assert names.known[-1][0] == ["graph:step:2"]
    run_id = UUID(int=1)
    called: Any = upstream.at_step(first, 1, run_id)
    assert called["callbacks"].tags == ["seq:step:1"]
    assert called["callbacks"].parent_run_id == run_id
    assert upstream.super_step(called) == 2
    assert upstream.super_step(first) == 1


def test_a_nested_graph_knows_it_and_its_namespace_is_that_of_its_events() -> None:
    seen: list[Any] = []

    def node(state: Any, config: RunnableConfig) -> Any:
        keys = config["configurable"]
        shown = upstream.shows_subgraphs(keys)
        seen.append((upstream.is_nested(keys), upstream.graph_namespace(config), shown))

    inner = chain(node)
    graph = chain(lambda state: inner.invoke({"log": []}))
    namespaces = [ns for ns, _ in graph.stream({"log": []}, subgraphs=True)]
    assert seen == [(True, namespaces[0], True)]
    assert len(namespaces[0]) == 1
    graph.invoke({"log": []})
    assert not seen[1][2]
    assert not upstream.is_nested({"thread_id": "one"})


def test_a_node_knows_its_saver_whether_its_run_stores_only_the_end_and_whether_it_goes_on() -> (
    None
):
    seen: list[Any] = []

    def node(state: Any, config: RunnableConfig) -> Any:
        saver, goes_on = upstream.saver_of(config), upstream.is_resumed(config["configurable"])
        seen.append((saver, upstream.stores_at_exit(config), goes_on))
        if saver is not None:
            interrupt("Sure?")

    saver = InMemorySaver()
    given: Any = {"log": []}
    graph = chain(node, checkpointer=saver)
    for input, durability in ((given, "sync"), (given, "exit"), (Command(resume="Yes"), "async")):
        graph.invoke(input, THREAD, durability=durability)
    chain(node).invoke(given)
    assert seen == [
        (saver, False, False),
        (saver, True, False),
        (saver, False, True),
        (None, False, False),
    ]


def test_a_graph_with_a_detached_config_is_a_run_by_itself() -> None:
    seen: list[Any] = []

    def inside(state: Any, config: RunnableConfig) -> Any:
        keys = config["configurable"]
        seen.append((keys["thread_id"], keys["user"], get_runtime().context))

    def node(state: Any, config: RunnableConfig) -> Any:
        runtime: Any = Runtime(context="context")
        # In another thread and later, as work that outlives the node.
        work.append(lambda: inner.invoke({"log": []}, upstream.detached(config, "1:job", runtime)))

    work: list[Any] = []
    own_saver = InMemorySaver()
    inner = chain(inside, checkpointer=own_saver)
    outer = chain(node, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1", "user": "ada"}, "tags": ["tag"]}
    outer.invoke({"log": []}, config)
    stored = [*outer.checkpointer.storage["1"]]
    work[0]()
    assert seen == [("1:job", "ada", "context")]
    assert [*own_saver.storage] == ["1:job"]
    assert [*outer.checkpointer.storage["1"]] == stored == [""]


@dataclass
class Town:
    name: str
    river: str = ""


class Country(BaseModel):
    name: str
    capital: str = ""


@each("schema", [Town, Country, dict, None])
def test_nodes_get_the_context_of_a_run_in_the_form_of_its_schema(schema: Any) -> None:
    contexts: list[Any] = []

    def note(state: State, runtime: Runtime[Any]) -> None:
        contexts.append(runtime.context)

    graph: Any = StateGraph(State, context_schema=schema)
    compiled = graph.add_node("note", note).set_entry_point("note").compile()
    for context in ({"name": "Rome"}, None, *([schema(name="Oslo")] if schema else [])):
        compiled.invoke({"log": []}, context=context)
        assert upstream.coerced_context(context, schema) == contexts[-1]
        assert type(upstream.coerced_context(context, schema)) is type(contexts[-1])


@pytest.mark.filterwarnings("ignore:astream_events version='v1' is deprecated")
async def test_handlers_of_streams_and_events_are_known_and_detached_work_has_no_streams() -> None:
    seen: list[Any] = []
    own: list[Any] = []

    async def node(state: Any, config: RunnableConfig) -> Any:
        handlers = config["callbacks"].handlers  # type: ignore[union-attr]
        messages = [h for h in handlers if upstream.streams(h, "messages")]
        seen.append((messages, [h for h in handlers if upstream.streams_events(h)]))
        detached: Any = upstream.detached(config, "1", Runtime())["callbacks"]
        own.append(detached.handlers)

    graph, names = chain(node), Names()
    for mode in ("messages", "tools"):
        async for _ in graph.astream({"log": []}, {"callbacks": [names]}, stream_mode=mode):
            pass
    assert own == [[names], [names]]
    assert [len(messages) for messages, _ in seen] == [1, 0]
    assert names not in seen.pop(0)[0]
    for version in ("v1", "v2"):
        async for _ in graph.astream_events({"log": []}, {"callbacks": [names]}, version=version):
            pass
        (event_handler,) = seen.pop()[1]
        assert event_handler is not names
        assert not event_handler.run_inline


def test_an_interrupt_outside_of_a_task_is_recognized() -> None:
    errors: list[Any] = []

    def node(state: Any, config: RunnableConfig) -> Any:
        def ask(_: Any) -> Any:
            return interrupt("?")

        try:
            RunnableLambda(ask).invoke(None, upstream.detached(config, "1", Runtime()))
        except Exception as error:
            errors.append(error)

    chain(node).invoke({"log": []})
    assert [upstream.needs_task(error) for error in errors] == [True]
    assert not upstream.needs_task(KeyError("other"))


def test_the_ids_of_checkpoints_sort_by_time() -> None:
    graph = chain(lambda state: None, lambda state: None, checkpointer=InMemorySaver())
    for _ in range(3):
        graph.invoke({"log": []}, THREAD)
    history = [*graph.get_state_history(THREAD)]
    ids = [snapshot.config["configurable"]["checkpoint_id"] for snapshot in history]
    assert ids == sorted(ids, reverse=True)
    parents = [snapshot.parent_config for snapshot in history[:-1]]
    assert [parent["configurable"]["checkpoint_id"] for parent in parents if parent] == ids[1:]


def test_the_savers_of_a_service_agree_on_the_versions_of_channels() -> None:
    version = "0"  # the service counts by the first of these, without a connection
    for saver in (InMemorySaver, SqliteSaver, PostgresSaver, InMemorySaver):
        before, version = version, saver.get_next_version(Mock(spec=saver), version, None)
        assert int(version[:32]) == int(before[:32]) + 1


def test_the_handler_of_a_stream_of_tools_puts_what_a_tool_emits_into_its_stream() -> None:
    """Also what `emit_output_delta` emits."""
    parts: list[Any] = []

    def tell(runtime: ToolRuntime) -> str:
        """Tell."""
        runtime.emit_output_delta("one")
        return "two"

    def note(state: Any, config: RunnableConfig) -> None:
        for handler in config["callbacks"].handlers:  # type: ignore[union-attr]
            if upstream.streams(handler, "tools"):
                handler.stream = parts.append  # type: ignore[union-attr]

    calls = [{"name": "tell", "args": {}, "id": "1"}]
    nodes: Any = [("note", note), ("tools", LangGraphToolNode([tell]))]
    graph = StateGraph(MessagesState).add_sequence(nodes)
    agent: Any = graph.set_entry_point("note").compile()
    ask: Any = {"messages": [AIMessage("", tool_calls=calls)]}
    assert list(agent.stream(ask, stream_mode="tools")) == []
    assert [(mode, data["event"]) for _, mode, data in parts] == [
        ("tools", "tool-started"),
        ("tools", "tool-output-delta"),
        ("tools", "tool-finished"),
    ]


def test_handlers_of_the_context_are_found() -> None:
    with get_usage_metadata_callback() as usage, collect_runs() as runs:
        handlers = [variable.get() for variable in upstream.handler_variables()]
    assert usage in handlers
    assert runs in handlers
    # A handler in place of one that a variable has gets its events.
    replacement = Names()
    with collect_runs():
        (variable,) = [v for v in upstream.handler_variables() if isinstance(v.get(), RunCollector)]
        variable.set(replacement)
        RunnableLambda(str).invoke(1)
    assert replacement.names == ["str"]


def test_parts_of_nested_graphs_and_custom_data_can_be_put_elsewhere() -> None:
    """By the config with which a node calls a graph, or asks for the writer of the stream."""
    parts: list[Any] = []

    def inside(state: Any) -> Any:
        get_stream_writer()("hello")
        return {"log": ["inside"]}

    inner = chain(inside)

    def outside(state: Any, config: RunnableConfig) -> Any:
        config = upstream.with_stream(config, lambda put: parts.append)
        inner.invoke({"log": []}, upstream.with_writer(config, lambda writer: parts.append))

    modes: Any = {"stream_mode": ["updates", "custom"], "subgraphs": True}
    shown = [data for _, _, data in chain(outside).stream({"log": []}, **modes)]
    assert shown == [{"node0": None}]
    assert [part if isinstance(part, str) else part[1:] for part in parts] == [
        "hello",
        ("updates", {"node0": {"log": ["inside"]}}),
    ]


def test_reading_after_shows_writes_that_come_first() -> None:
    def node(state: Any, config: RunnableConfig) -> Any:
        before: list[Any] = []
        later = upstream.reading_after(config, lambda sent: [*before, *sent])["configurable"]
        later["__pregel_send"]([("log", ["sent"])])
        seen.append(later["__pregel_read"](["log"]))
        before.append(("log", ["before"]))
        seen.append(later["__pregel_read"](["log"]))
        seen.append(later["__pregel_read"](["log"], fresh=True))
        seen.append(list(upstream.sent_writes(config)))

    seen: list[Any] = []
    chain(node).invoke({"log": ["given"]})
    assert seen == [
        {"log": ["given"]},
        {"log": ["given", "before"]},
        {"log": ["given", "before", "sent"]},
        [("log", ["sent"])],
    ]


def test_a_read_of_kept_keys_copies_no_channel_before_a_write() -> None:
    asked: list[bool] = []

    def node(state: Any, config: RunnableConfig) -> Any:
        before: list[Any] = [("else", 1)]
        read = config["configurable"]["__pregel_read"]

        def noted(keys: list[str], fresh: bool) -> Any:
            asked.append(fresh)
            return read(keys, fresh)

        config["configurable"]["__pregel_read"] = noted
        later = upstream.reading_after(config, lambda sent: [*before, *sent], {"log"})
        seen.append(later["configurable"]["__pregel_read"](["log"]))
        before.append(("log", ["before"]))
        seen.append(later["configurable"]["__pregel_read"](["log"]))

    seen: list[Any] = []
    chain(node).invoke({"log": ["given"]})
    assert (seen, asked) == ([{"log": ["given"]}, {"log": ["given", "before"]}], [False, True])


def test_interrupts_here_tells_an_interrupt_of_a_node_from_one_of_a_subgraph() -> None:
    """A nested graph raises it and reports none: only a run that is not nested handles pauses."""
    found: list[bool] = []
    events: list[Any] = []

    class Handler(GraphCallbackHandler):
        def on_interrupt(self, event: Any) -> None:
            events.append(event.checkpoint_ns)

    def ask(state: Any, config: RunnableConfig) -> Any:
        return watched(lambda: interrupt("Sure?"), config)

    def watched(call: Any, config: RunnableConfig) -> Any:
        try:
            return call()
        except GraphInterrupt as error:
            found.append(upstream.interrupts_here(error.args[0], config))
            raise

    inner = chain(ask)

    def outer(state: Any, config: RunnableConfig) -> Any:
        return watched(lambda: inner.invoke({"log": []}), config)

    graph = chain(outer, checkpointer=InMemorySaver())
    graph.invoke({"log": []}, {**THREAD, "callbacks": [Handler()]})
    assert found == [True, False]
    assert events == [()]
    assert not upstream.interrupts_here((), THREAD)


def test_is_json_overwrite_knows_the_forms_that_reducers_know() -> None:
    forms: list[Any] = [{"__overwrite__": [3]}, {"value": [3], "type": "__overwrite__"}]
    for form in forms:
        channel = BinaryOperatorAggregate(list, add)
        channel.update([[1]])
        channel.update([form])
        assert channel.get() == [3]
        assert upstream.is_json_overwrite(form)
    assert not any(map(upstream.is_json_overwrite, [[3], {"value": [3]}, {"type": "text"}, None]))


def test_construct_prompt_reaches_a_chat_model_without_conversion(call: Any) -> None:
    messages = [HumanMessage("Hi?"), AIMessage("Hi.")]
    seen: list[Any] = []

    class Model(FakeListChatModel):
        def _call(self, messages: Any, *_: Any, **__: Any) -> str:
            seen.extend(messages)
            return "Bye."

    model = Model(responses=[])
    with patch("langchain_core.language_models.chat_models.convert_to_messages") as convert:
        assert call(model, upstream.construct_prompt(messages=messages)).text == "Bye."
    assert not convert.called
    assert [id(message) for message in seen] == [id(message) for message in messages]


class Colored(MessagesState):
    color: str


def test_read_channels_returns_the_state_that_langgraphs_tool_node_reads() -> None:
    seen: list[Any] = []

    def look(state: Annotated[Any, InjectedState]) -> str:
        """Look at the state."""
        seen.append(state)
        return "seen"

    tools = LangGraphToolNode([look])

    def act(calls: Any, config: RunnableConfig) -> Any:
        seen.append(upstream.read_channels(config))
        return tools.invoke(calls, config)

    call = {"name": "look", "args": {}, "id": "1", "type": "tool_call"}
    graph: Any = StateGraph(Colored)
    graph.add_node("act", act)
    graph.add_conditional_edges(START, lambda _: [Send("act", [call])], ["act"])
    graph.compile().invoke({"messages": [AIMessage("Hi", id="1")], "color": "red"})
    ours, theirs = seen
    assert ours == theirs
    assert ours["color"] == "red"
    assert upstream.read_channels({}) == {}


def test_tool_node_calls_its_attributes_func_and_afunc(call: Any) -> None:
    """Our ToolNode replaces them; LangGraph passes them the config and the runtime."""

    def func(input: Any, config: RunnableConfig, runtime: Runtime[Any]) -> Any:
        return input, config["metadata"], runtime.context

    async def afunc(input: Any, config: RunnableConfig, runtime: Runtime[Any]) -> Any:
        return func(input, config, runtime)

    node = LangGraphToolNode([])
    node.func, node.afunc = func, afunc
    runtime: Any = Runtime(context="context")
    result = call(node, ["input"], {"metadata": {"who": "Ada"}}, runtime=runtime)
    assert result == (["input"], {"who": "Ada"}, "context")


def asking_graph() -> Any:
    """A graph with two parallel nodes: one interrupts, the other writes a message."""

    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [("ai", interrupt("Well?"))]}

    def write(state: MessagesState) -> dict[str, Any]:
        return {"messages": [("ai", "written")]}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_node("write", write)
    graph.add_edge(START, "ask")
    graph.add_edge(START, "write")
    return graph.compile(checkpointer=InMemorySaver())


def test_a_copied_checkpoint_has_no_answers_to_its_interrupts() -> None:
    graph, thread = asking_graph(), {"configurable": {"thread_id": "1"}}
    graph.invoke({"messages": [("user", "Go")]}, thread)
    asking = graph.get_state(thread).config
    graph.invoke(Command(resume="yes"), thread)
    graph.update_state(asking, None, upstream.COPY_BRANCH)
    graph.invoke(None, thread)
    assert graph.get_state(thread).interrupts[0].value == "Well?"
    result = graph.invoke(Command(resume="no"), thread)
    assert {m.text for m in result["messages"]} == {"Go", "no", "written"}


def test_each_key_that_langgraph_reads_is_reserved() -> None:
    keys = configurable_keys()
    assert {"thread_id", "__pregel_resume_map", "checkpoint_map", "langgraph_auth_user"} <= {*keys}
    assert [key for key in keys if not upstream.is_reserved(key)] == []
    assert {*keys} >= upstream.RESERVED_KEYS
    assert not upstream.is_reserved("user_tier")


def test_a_key_of_the_config_answers_an_interrupt() -> None:
    graph = asking_graph()
    thread: Any = {"thread_id": "1"}
    (one,) = graph.invoke({"messages": [("user", "Go")]}, {"configurable": thread})["__interrupt__"]
    forged = {**thread, "__pregel_resume_map": {one.id: "yes"}}
    assert "yes" in [m.text for m in graph.invoke(None, {"configurable": forged})["messages"]]


def test_the_id_of_a_run_in_the_metadata_makes_a_run_drop_its_input() -> None:
    graph = chain(lambda _: {"log": ["one"]}, lambda _: {"log": ["two"]})
    graph.checkpointer = InMemorySaver()
    graph.interrupt_before_nodes = ["node1"]
    config: Any = {**THREAD, "metadata": {upstream.RUN_ID: "r"}}
    graph.invoke({"log": ["Go"]}, config)
    assert graph.invoke({"log": ["More"]}, config)["log"] == ["Go", "one", "two"]


def test_clearing_the_tasks_keeps_what_they_wrote() -> None:
    assert upstream.CLEAR_TASKS == END
    graph, thread = asking_graph(), {"configurable": {"thread_id": "1"}}
    graph.invoke({"messages": [("user", "Go")]}, thread)
    graph.update_state(thread, None, upstream.CLEAR_TASKS)
    state = graph.get_state(thread)
    assert (state.next, state.values["messages"][-1].text) == ((), "written")


def test_a_chat_model_reports_its_name_and_provider() -> None:
    assert upstream.model_params(ScriptedChatModel([]))["ls_provider"] == "scriptedchatmodel"
    assert upstream.model_params(object(), model="gpt-1") == {}


def test_a_tool_gets_the_runtime_that_dumps_of_its_arguments_leave_out() -> None:
    """Pydantic would warn of the context, which is None in the type of a bare ToolRuntime."""

    def who(runtime: ToolRuntime) -> str:
        """Who."""
        return str(runtime.context)

    model = ScriptedChatModel([[{"name": "who", "args": {}}], "Hi"])
    agent = create_agent(model, [who], context_schema=str)  # type: ignore[type-var]
    assert agent.invoke({"messages": "Who?"}, context="ann")["messages"][2].text == "ann"


def test_a_configurable_model_of_langchain_makes_the_model_of_a_config(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    models = pytest.importorskip("langchain.chat_models", reason="the extra peer is missing")
    package: Any = ModuleType("langchain_mistralai")
    package.ChatMistralAI = type(
        "ChatMistralAI", (ScriptedChatModel,), {"__annotations__": {"model": str}}
    )
    monkeypatch.setitem(sys.modules, "langchain_mistralai", package)
    configurable = models.init_chat_model("mistralai:llama", configurable_fields="any")
    config: RunnableConfig = {"configurable": {"model": "mistralai:qwen"}}
    assert not isinstance(configurable, BaseChatModel)
    made = [upstream.initialized_chat_model(configurable, c) for c in (None, config)]
    assert [(type(model), model.model) for model in made] == [
        (package.ChatMistralAI, "llama"),
        (package.ChatMistralAI, "qwen"),
    ]
    internal: RunnableConfig = {"configurable": {"thread_id": "1", "__pregel_send": print, "a": 1}}
    arguments: list[Any] = []
    with patch.object(package.ChatMistralAI, "__init__", lambda _, **kw: arguments.append(kw)):
        upstream.initialized_chat_model(configurable, internal)
    assert arguments == [{"model": "llama", "a": 1}]
    bound = upstream.initialized_chat_model(configurable.bind_tools([add]), config)
    assert (bound.bound.model, len(bound.kwargs["tools"])) == ("qwen", 1)
    assert upstream.initialized_chat_model(made[0]) is made[0]


def test_every_task_has_its_own_runtime() -> None:
    tasks: list[Any] = []

    def note(state: MessagesState, runtime: Runtime[Any]) -> None:
        tasks.append(upstream.task_identity(runtime))

    graph = StateGraph(MessagesState)
    for name in ("a", "b", "c"):
        graph.add_node(name, note)
    graph.add_edge(START, "a")
    graph.add_edge("a", "b")
    graph.add_edge("a", "c")
    graph.compile().invoke({"messages": []})
    assert len({id(task) for task in tasks}) == len(tasks) == 3


def test_a_delta_channel_has_ever_rarer_snapshots_and_stores_pairs_as_messages_with_ids() -> None:
    """LangGraph reads the frequency for each checkpoint, and knows messages by their reducer."""

    class State(TypedDict):
        messages: Annotated[list[Any], DeltaMessages(snapshot_frequency=4)]

    assert upstream.messages_delta_reducer(fold_messages) is not fold_messages
    saver = InMemorySaver()
    graph = StateGraph(State).add_node("node", lambda state: {"messages": [("ai", "Hello")]})
    agent = graph.set_entry_point("node").compile(checkpointer=saver)
    for _ in range(40):
        agent.invoke({"messages": [("user", "Hi")]}, THREAD)
    stored = [saved.checkpoint["channel_values"] for saved in saver.list(THREAD)]
    snapshots = sum("messages" in values for values in stored)
    assert 22 <= snapshots <= 32  # 39 with a frequency that stays 4
    question, answer, *_ = agent.get_state(THREAD).values["messages"]
    assert (type(question), type(answer)) == (HumanMessage, AIMessage)
    assert None not in (question.id, answer.id)


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
def test_a_subagent_is_a_subgraph_whose_metadata_name_an_agent() -> None:
    """LangGraph's own hook: its base class finds the subgraphs, and the names and causes."""
    named = chain(lambda state: {"log": ["in"]}).with_config(metadata={"lc_agent_name": "inner"})
    unnamed = chain(lambda state: {"log": ["in"]})

    def node(state: Any) -> Any:
        named.invoke({"log": []})
        unnamed.invoke({"log": []})

    run = chain(node, transformers=[upstream.SubagentTransformer]).stream_events(
        {"log": []}, version="v3"
    )
    found = [(handle.name, handle.cause, handle.output) for handle in run.subagents]
    assert found == [("inner", None, {"log": ["in"]})]


def test_a_saver_keeps_the_write_that_it_has_at_a_place() -> None:
    config: RunnableConfig = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
    with SqliteSaver.from_conn_string(":memory:") as sqlite:
        for saver in (InMemorySaver(), sqlite):
            at = saver.put(config, empty_checkpoint(), {}, {})
            saver.put_writes(at, [("a", 1), ("branch:to:b", None)], "task")
            saver.put_writes(at, [("a", 1), ("branch:to:c", None), ("d", 2)], "task")
            stored = saver.get_tuple(at)
            assert stored is not None
            assert stored.pending_writes is not None
            expected = [("task", "a", 1), ("task", "branch:to:b", None), ("task", "d", 2)]
            assert sorted(stored.pending_writes, key=lambda write: write[1]) == expected


def test_the_namespace_of_a_graph_begins_with_that_of_its_node_and_ends_with_its_number() -> None:
    def look(state: Any, config: RunnableConfig) -> None:
        seen.append(config["configurable"]["checkpoint_ns"].partition("|node0")[0])

    def ask(state: Any, config: RunnableConfig) -> None:
        own = upstream.in_namespace(config, "other", "task")
        for asked in (own, own, upstream.counting_graphs(own, lambda: 5)):
            graph.invoke({"log": []}, asked)

    seen: list[str] = []
    graph = chain(look)
    chain(ask).invoke({"log": []})
    assert seen == ["other:task", "other:task|1", "other:task|5"]


def test_a_node_and_what_it_calls_have_the_namespace_of_its_task_in_their_metadata() -> None:
    seen: dict[str, str | None] = {}

    class Listener(BaseCallbackHandler):
        def on_chain_start(self, *_: Any, name: str = "", metadata: Any = None, **__: Any) -> None:
            seen[name] = upstream.task_namespace(metadata)

    inner: Any = StateGraph(MessagesState).add_node("b", lambda state: {}).add_edge(START, "b")
    top: Any = StateGraph(MessagesState)
    top.add_node("a", RunnableLambda(lambda state: {}).with_config(run_name="own") | (lambda _: {}))
    top.add_node("nested", inner.compile(name="inner")).add_edge(START, "a").add_edge("a", "nested")
    top.compile(name="outer").invoke({"messages": []}, {"callbacks": [Listener()]})
    assert seen["outer"] is None
    assert seen["a"] == seen["own"] is not None
    assert seen["nested"] == seen["inner"] != seen["a"]
    assert seen["b"] not in (None, seen["inner"])


def _asking(sends: bool) -> Any:
    """A graph that waits for an answer in `ask`, which an edge or a `Send` leads to."""
    graph: Any = StateGraph(State)
    graph.add_node("begin", lambda state: None)
    graph.add_node("ask", lambda state: {"log": [interrupt("Well?")]})
    graph.add_edge(START, "begin")
    if sends:
        graph.add_conditional_edges("begin", lambda state: [Send("ask", state)], ["ask"])
    else:
        graph.add_edge("begin", "ask")
    return graph


def test_a_stored_thread_says_which_interrupts_are_answered() -> None:
    saver = InMemorySaver()
    graph: Any = StateGraph(State)
    for node in ("one", "other"):
        graph.add_node(node, lambda state: {"log": [interrupt("Well?")]})
        graph.add_edge(START, node)
    graph = graph.compile(checkpointer=saver)
    one, other = (asked.id for asked in graph.invoke({"log": []}, THREAD)["__interrupt__"])
    assert upstream.named_interrupts({one: "Yes", other: "No"}) == {one, other}
    assert (
        upstream.named_interrupts({one: "Yes", "Well?": "No"})
        == upstream.named_interrupts("Yes")
        == set()
    )
    graph.invoke(Command(resume={one: "Yes"}), THREAD)
    assert upstream.open_interrupts(saver.get_tuple(THREAD)) == {one: False, other: True}  # type: ignore[arg-type]
    assert graph.invoke(Command(resume={other: "No"}), THREAD)["log"] == ["Yes", "No"]


def test_the_first_node_finds_what_tasks_of_an_unfinished_step_have_written() -> None:
    starts: list[Any] = []

    class First(Runnable[Any, Any]):
        def invoke(self, input: Any, config: Any = None, **_: Any) -> Any:
            if place := upstream.earlier_checkpoint(config):
                earlier = next(place[0].list(place[1], **place[2]), None)
                writes = upstream.finished_writes(earlier) if earlier else []
                starts.append(sorted(write[1:] for write in writes))
            return node.invoke(input, config)

    graph: Any = StateGraph(State)
    graph.add_node("pay", lambda state: {"log": ["paid"]}).add_edge(START, "pay")
    graph.add_node("ask", lambda state: {"log": [interrupt("Well?")]}).add_edge(START, "ask")
    graph = graph.compile(checkpointer=InMemorySaver())
    node = upstream.node_runnable(graph.nodes[START])
    upstream.run_in_place(graph.nodes[START], First())
    graph.invoke({"log": []}, THREAD)
    graph.invoke(Command(update={"log": ["note"]}), THREAD)
    stored: Any = graph.checkpointer.get_tuple(THREAD)
    assert upstream.NO_TASK in [task for task, *_ in upstream.finished_writes(stored)]
    graph.invoke({"log": []}, THREAD)
    assert starts == [[], [("log", ["note"]), ("log", ["paid"])]]
    graph.invoke({"log": []}, graph.get_state(THREAD).config)  # a branch
    assert len(starts) == 2


@each("late", [False, True])
def test_the_tasks_beside_one_that_fails_late_end_first(late: bool) -> None:
    async def slow(state: Any) -> Any:
        for _ in range(9):
            await asyncio.sleep(0)
        return {"log": ["paid"]}

    async def fails(state: Any) -> None:
        error = ConnectionError("down")
        if late:
            upstream.raise_late(error)
        raise error

    saver = InMemorySaver()
    graph: Any = StateGraph(State).add_node("slow", slow).add_node("fails", fails)
    graph = graph.add_edge(START, "slow").add_edge(START, "fails").compile(checkpointer=saver)
    with pytest.raises(ConnectionError) as caught:
        asyncio.run(graph.ainvoke({"log": []}, THREAD))
    stored: Any = saver.get_tuple(THREAD)
    assert ("paid" in str(upstream.finished_writes(stored))) == late
    upstream.unmark(caught.value)
    assert not is_invalid_resume(caught.value)


@each("sends", [False, True])
@each("kind", ["memory", "sqlite"])
def test_a_stored_thread_says_which_nodes_come_next(sends: bool, kind: str) -> None:
    """Also after another graph took it over, without the node."""
    with SqliteSaver.from_conn_string(":memory:") as database:
        saver: Any = InMemorySaver() if kind == "memory" else database
        graph = _asking(sends).compile(checkpointer=saver)
        graph.invoke({"log": []}, THREAD)
        (task,) = graph.get_state(THREAD).tasks
        stored = saver.get_tuple(THREAD)
        assert upstream.waiting_nodes(stored, latest=True) == ["ask"]
        assert upstream.waiting_interrupts(stored) == {task.id: task.interrupts}
        assert upstream.open_interrupts(stored) == {task.interrupts[0].id: True}
        other = chain(lambda state: None, checkpointer=saver)
        assert other.invoke(None, THREAD) == {"log": []}  # without a word
        assert upstream.waiting_nodes(saver.get_tuple(THREAD), latest=True) == ["ask"]
        graph.invoke(Command(resume="Yes."), THREAD)
        assert upstream.waiting_nodes(saver.get_tuple(THREAD), latest=True) == []
        graph.invoke({"log": []}, THREAD)
        other.invoke({"log": ["again"]}, THREAD)
        assert upstream.waiting_nodes(saver.get_tuple(THREAD), latest=True) == []


def test_what_a_task_has_stored_leads_on_before_the_checkpoint_of_its_step() -> None:
    saver = InMemorySaver()

    def fails(state: Any) -> None:
        raise ConnectionError

    graph: Any = StateGraph(State)
    graph.add_node("one", lambda state: None)
    graph.add_node("other", fails)
    graph.add_node("last", lambda state: None)
    for node in ("one", "other"):
        graph.add_edge(START, node)
    graph.add_edge("one", "last")
    with pytest.raises(ConnectionError):
        graph.compile(checkpointer=saver).invoke({"log": []}, THREAD)
    stored: Any = saver.get_tuple(THREAD)
    assert upstream.waiting_nodes(stored, latest=True) == ["one", "other", "last"]
    assert upstream.waiting_nodes(stored, latest=False) == ["one", "other"]


@pytest.mark.parametrize("stateful", [False, True])
def test_the_place_of_a_nested_run_is_where_its_checkpoints_are(stateful: bool) -> None:
    saver, places = InMemorySaver(), []
    inner: Any = StateGraph(State).add_node("node", lambda state: None).add_edge(START, "node")
    inner = inner.compile(checkpointer=True if stateful else None)

    def outer(state: Any) -> None:
        for _ in range(2):
            configurable: Any = upstream.current_config.get()
            place, again = upstream.place_of_run(configurable["configurable"], stateful=stateful)
            inner.invoke({"log": []}, {"configurable": again})
            places.append(place["configurable"]["checkpoint_ns"])

    graph: Any = StateGraph(State).add_node("outer", outer).add_edge(START, "outer")
    graph.compile(checkpointer=saver).invoke({"log": []}, THREAD)
    assert len(set(places)) == 2
    assert set(places) == set(saver.storage["1"].keys()) - {""}
    root, again = upstream.place_of_run({"thread_id": "one", "checkpoint_id": "a"}, stateful=False)
    assert root["configurable"] == {"thread_id": "one", "checkpoint_ns": "", "checkpoint_id": "a"}
    assert again == {}


def test_writers_and_runtimes_are_found_by_a_config() -> None:
    written: list[Any] = []
    runtime: Runtime[Any] = Runtime(context="mine", stream_writer=written.append)
    token = upstream.current_config.set(upstream.in_runtime({"configurable": {}}, runtime))
    try:
        get_stream_writer()("hello")
        assert get_runtime().context == "mine"
    finally:
        upstream.current_config.reset(token)
    assert written == ["hello"]


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
def test_the_event_protocol_asks_for_events_of_messages() -> None:
    seen: list[bool] = []

    def note(state: State, config: RunnableConfig) -> None:
        seen.append(upstream.streams_message_events(config["configurable"]))

    list(chain(note).stream({"log": []}, stream_mode="messages"))
    assert chain(note).stream_events({"log": []}, version="v3").output is not None
    assert seen == [False, True]


def test_an_error_can_be_marked_as_the_refusal_of_an_answer() -> None:
    assert not is_invalid_resume(ValueError("no"))
    assert is_invalid_resume(upstream.mark_invalid_resume(ValueError("no")))


def test_a_graph_begins_with_the_attributes_of_an_empty_one_like_it() -> None:
    class State(TypedDict):
        seen: Annotated[list[str], add]

    first = StateGraph(State)
    attributes = upstream.empty_graph(first)
    second: Any = object.__new__(StateGraph)
    vars(second).update(attributes())
    for number, graph in enumerate((first, second)):
        name = f"node {number}"
        graph.add_node(name, lambda _, name=name: {"seen": [name]})
        graph.add_edge(START, name)
        graph.add_conditional_edges(name, lambda _: END, [END])
    assert vars(second).keys() == vars(StateGraph(State)).keys()
    assert [list(graph.nodes) for graph in (first, second)] == [["node 0"], ["node 1"]]
    results = [graph.compile().invoke({"seen": []}) for graph in (first, second, first)]
    assert [result["seen"] for result in results] == [["node 0"], ["node 1"], ["node 0"]]


def test_a_process_whose_clock_is_behind_goes_on_after_what_it_has_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = str(checkpoint_ids.uuid6())
    an_hour_ago = SimpleNamespace(time_ns=lambda: time_ns() - 3_600 * 10**9)
    monkeypatch.setattr(checkpoint_ids, "time", an_hour_ago)
    monkeypatch.setattr(checkpoint_ids, "_last_v6_timestamp", None)
    assert str(checkpoint_ids.uuid6()) < read  # what LangGraph does by itself
    for id in (read, "1", str(UUID(int=0))):
        upstream.number_after(id)
    assert str(checkpoint_ids.uuid6()) > read


@each("value", [None, {"log": ["input"]}])
def test_writes_of_no_task_are_part_of_the_state_of_a_checkpoint(value: Any) -> None:
    """A saver keeps what it has at a place of a list."""

    def node(state: Any, config: RunnableConfig) -> Any:
        seen.append(state["log"])
        places.append(upstream.checkpoint_of(config))
        if len(seen) == 1:
            raise ConnectionError

    seen: list[Any] = []
    places: list[RunnableConfig] = []
    graph = chain(node, checkpointer=(saver := InMemorySaver()))
    with pytest.raises(ConnectionError):
        graph.invoke({"log": ["first"]}, THREAD)
    for number in (1, 2):
        saver.put_writes(places[0], [("log", ["counted"])] * number, upstream.NO_TASK)
    graph.invoke(value, THREAD)
    assert seen[1] == ["first", "counted", "counted", *((value or {}).get("log", []))]
