"""State, tools, structured output and configuration: the same in langchain's agents and here."""

import dataclasses
import operator
from collections.abc import Callable
from threading import Event
from typing import Annotated, Any, Literal, NotRequired

import pytest
from families import OURS, THEIRS
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt
from pydantic import BaseModel
from typing_extensions import TypedDict

from agent_factory.testing import ScriptedChatModel
from samples import Number
from samples import add_tool as add
from tables import each

ASK: Any = {"messages": [("user", "Hi")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}
SCENARIOS: list[Callable[..., Any]] = []


def scenario(function: Callable[..., Any]) -> Callable[..., Any]:
    SCENARIOS.append(function)
    return function


def calling(*names_and_args: tuple[str, dict[str, Any]]) -> list[Any]:
    numbered = enumerate(names_and_args, start=1)
    return [{"name": name, "args": args, "id": str(id)} for id, (name, args) in numbered]


ADDING = calling(("add", {"a": 1, "b": 2}))


def agent_of(f: Any, *members: Any, steps: Any = ("x",), tools: Any = (), **options: Any) -> Any:
    model = ScriptedChatModel(list(steps))
    return f.create_agent(model, list(tools), middleware=members, **options)


def schema_of(f: Any) -> Any:
    class State(f.AgentState):  # type: ignore[misc]
        plain: NotRequired[int]  # type: ignore[valid-type]
        given: NotRequired[Annotated[int, f.OmitFromInput]]  # type: ignore[valid-type]
        taken: NotRequired[Annotated[int, f.OmitFromOutput]]  # type: ignore[valid-type]
        private: NotRequired[Annotated[int, f.PrivateStateAttr]]  # type: ignore[valid-type]
        log: NotRequired[Annotated[list[Any], operator.add]]  # type: ignore[valid-type]

    return State


def hooked(f: Any, name: str, hook: Any, jumps: Any = None, **attributes: Any) -> Any:
    """A middleware whose one hook returns what a function of the state returns."""

    def method(self: Any, state: Any, runtime: Any) -> Any:
        return hook(state)

    declared = f.hook_config(can_jump_to=jumps)(method) if jumps else method
    return type("Mine", (f.AgentMiddleware,), {name: declared} | attributes)()


@scenario
def schemas_and_what_passes_them(f: Any, call: Any) -> Any:
    def look(state: Any) -> Any:
        return {"log": [sorted(state)], "private": 5}

    member = hooked(f, "before_model", look, state_schema=schema_of(f))
    agent = agent_of(f, member, checkpointer=InMemorySaver(), context_schema=dict)
    schemas = agent.get_input_jsonschema(), agent.get_output_jsonschema()
    keys = [(s["title"], sorted(s["properties"]), sorted(s.get("required", ()))) for s in schemas]
    done = call(agent, ASK | {"plain": 1, "given": 2, "taken": 3, "private": 4}, THREAD)
    return keys, done, sorted(agent.get_state(THREAD).values)


@scenario
def jumps_of_hooks(f: Any, call: Any) -> Any:
    found = []
    for hook, target in (
        ("before_agent", "end"),
        ("before_agent", "model"),
        ("before_model", "end"),
        ("after_model", "end"),
        ("after_model", "tools"),
        ("after_agent", "model"),
    ):
        visits: list[int] = []

        def jump(state: Any, visits: list[int] = visits, target: str = target) -> Any:
            visits.append(1)
            return {"jump_to": target} if len(visits) == 1 else None

        member = hooked(f, hook, jump, [target])
        done = call(agent_of(f, member, steps=[ADDING, "x", "y"], tools=[add]), ASK)
        found.append((hook, target, done, len(visits)))
    return found


@scenario
def what_hooks_write(f: Any, call: Any) -> Any:
    only = [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("only")]
    return [
        call(agent_of(f, hooked(f, hook, lambda state, update=update: update)), ASK)
        for hook, update in (
            ("before_model", Command(update={"messages": [HumanMessage("more")]})),
            ("before_model", {"messages": only}),
            ("after_agent", {"structured_response": {"a": 1}}),
        )
    ]


@scenario
def a_thread_is_edited_and_replayed(f: Any, call: Any) -> Any:
    agent = agent_of(
        f,
        hooked(f, "before_model", lambda state: None),
        steps=[ADDING, "x", "again"],
        tools=[add],
        checkpointer=InMemorySaver(),
        interrupt_before=["tools"],
        # Fused steps make fewer checkpoints.
        **({} if f.__name__.startswith("langchain") else {"fused": False}),
    )
    call(agent, ASK, THREAD)
    state = agent.get_state(THREAD)
    changed = calling(("add", {"a": 10, "b": 2}))
    message = AIMessage("", id=state.values["messages"][-1].id, tool_calls=changed)
    agent.update_state(THREAD, {"messages": [message]})
    done = call(agent, None, THREAD)
    history = list(agent.get_state_history(THREAD))
    steps = [(s.next, s.metadata["source"], s.metadata["step"]) for s in history]
    first = next(s for s in reversed(history) if s.next == ("model",))
    return state.next, done, steps, call(agent, None, first.config)


@scenario
def static_interrupts(f: Any, call: Any) -> Any:
    found: list[Any] = []
    for options in ({"interrupt_after": ["tools"]}, {"interrupt_before": "*"}):
        agent = agent_of(
            f, steps=[ADDING, "x"], tools=[add], checkpointer=InMemorySaver(), **options
        )
        given = ASK
        while not found or found[-1][0] or given is ASK:
            call(agent, given, THREAD)
            given, state = None, agent.get_state(THREAD)
            found.append((state.next, len(state.values["messages"])))
    return found


@scenario
def tools_that_end_the_run(f: Any, call: Any) -> Any:
    @tool(return_direct=True)
    def direct(x: int) -> str:
        """Answer."""
        return f"direct {x}"

    alone = calling(("direct", {"x": 1}))
    mixed = calling(("direct", {"x": 1}), ("add", {"a": 1, "b": 2}))
    return [call(agent_of(f, steps=[s, "y"], tools=[direct, add]), ASK) for s in (alone, mixed)]


@scenario
def tools_that_return_commands_and_other_things(f: Any, call: Any) -> Any:
    @tool
    def command(x: int, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Write."""
        message = ToolMessage("written", tool_call_id=tool_call_id)
        return Command(update={"plain": x, "messages": [message]})

    @tool(response_format="content_and_artifact")
    def artifact(x: int) -> tuple[str, Any]:
        """Give an artifact."""
        return "content", {"artifact": x}

    @tool
    def value(kind: Literal["blocks", "dict", "list", "None", "float"]) -> Any:
        """Return a value."""
        blocks = [{"type": "text", "text": "t"}, {"type": "image", "url": "http://x"}]
        return {"blocks": blocks, "dict": {"a": "é"}, "list": [1], "float": 1.5}.get(kind)

    kinds = [("value", {"kind": kind}) for kind in ("blocks", "dict", "list", "None", "float")]
    steps = [calling(("command", {"x": 1}), ("artifact", {"x": 2}), *kinds), "y"]
    tools = [command, artifact, value]
    return call(agent_of(f, steps=steps, tools=tools, state_schema=schema_of(f)), ASK)


@scenario
def what_tools_are_given(f: Any, call: Any) -> Any:
    @tool
    def look(
        x: int,
        state: Annotated[Any, InjectedState],
        plain: Annotated[int, InjectedState("plain")],
        store: Annotated[Any, InjectedStore()],
        runtime: ToolRuntime[Any, Any],
    ) -> str:
        """Look."""
        known = store.get(("a",), "b").value, runtime.tool_call_id, runtime.context
        return str((x, sorted(state), plain, *known, sorted(runtime.state)))

    store = InMemoryStore()
    store.put(("a",), "b", {"v": 1})
    agent = agent_of(
        f,
        steps=[calling(("look", {"x": 1})), "y"],
        tools=[look],
        state_schema=schema_of(f),
        store=store,
        context_schema=dict,
    )
    return call(agent, ASK | {"plain": 7}, context={"u": 1})


@scenario
def a_tool_interrupts_next_to_another(f: Any, call: Any) -> Any:
    @tool
    def ask(question: str) -> str:
        """Ask."""
        return f"got {interrupt({'question': question})}"

    steps = [calling(("ask", {"question": "q"}), ("add", {"a": 1, "b": 2})), "y"]
    agent = agent_of(f, steps=steps, tools=[ask, add], checkpointer=InMemorySaver())
    waiting = call(agent, ASK, THREAD)
    values = [item.value for item in waiting.pop("__interrupt__")]
    return values, waiting, call(agent, Command(resume="R"), THREAD)


@scenario
def results_keep_the_order_of_calls(f: Any, call: Any) -> Any:
    second = Event()

    @tool
    def work(number: int) -> str:
        """Work; the first call ends after the second."""
        second.set() if number == 2 else second.wait()
        return str(number)

    steps = [calling(*(("work", {"number": n}) for n in (1, 2))), "y"]
    return call(agent_of(f, steps=steps, tools=[work]), ASK)


@scenario
def tools_of_a_middleware(f: Any, call: Any) -> Any:
    member = type("Mine", (f.AgentMiddleware,), {"tools": [add]})()
    return [call(agent_of(f, member, steps=[ADDING, "y"], tools=t), ASK) for t in ([], [add])]


class Text(BaseModel):
    """A text."""

    s: str


@dataclasses.dataclass
class Data:
    n: int


class Typed(TypedDict):
    n: int


JSON = {"title": "Json", "type": "object", "properties": {"n": {"type": "integer"}}}


@scenario
def structured_answers(f: Any, call: Any) -> Any:
    number = calling(("Number", {"n": 1}))
    text = calling(("Text", {"s": "q"}))
    wrong = calling(("Number", {"n": "zz"}))
    both = calling(("add", {"a": 1, "b": 2}), ("Number", {"n": 1}))
    found = []
    for strategy, steps in (
        (Number, [number]),
        (f.AutoStrategy(Number), [number]),
        (f.ToolStrategy(Number, tool_message_content="Custom."), [number]),
        (f.ToolStrategy(Number | Text), [text]),
        (f.ToolStrategy({"oneOf": [JSON, {**JSON, "title": "Other"}]}), [calling(("Other", {}))]),
        (f.ToolStrategy(Number), [both, "not asked"]),
        (f.ToolStrategy(Number), [ADDING, number]),
        (f.ToolStrategy(Data), [calling(("Data", {"n": 1}))]),
        (f.ToolStrategy(Typed), [calling(("Typed", {"n": 1}))]),
        (f.ToolStrategy(JSON), [calling(("Json", {"n": 1}))]),
        (f.ToolStrategy(Number, handle_errors="Fix it."), [wrong, number]),
        (f.ToolStrategy(Number, handle_errors=lambda e: type(e).__name__), [wrong, number]),
        (
            f.ToolStrategy(Number | Text, handle_errors="One."),
            [[*number, {**text[0], "id": "2"}], number],
        ),
        (f.ProviderStrategy(Number), [ADDING, '{"n": 1}']),
    ):
        found.append(call(agent_of(f, steps=steps, tools=[add], response_format=strategy), ASK))
    strict = agent_of(f, steps=[wrong], response_format=f.ToolStrategy(Number, handle_errors=False))
    with pytest.raises(f.StructuredOutputValidationError) as caught:
        call(strict, ASK)
    return found, caught.value.tool_name


@scenario
def nodes_and_names(f: Any, call: Any) -> Any:
    hooks = ("before_agent", "before_model", "after_model", "after_agent")
    member = type(
        "Mine", (f.AgentMiddleware,), {h: lambda self, state, runtime: None for h in hooks}
    )()
    found = []
    for tools, strategy in (([], None), ([add], None), ([add], f.ToolStrategy(Number))):
        agent = agent_of(f, member, tools=tools, response_format=strategy, name="mine")
        graph = agent.get_graph()
        edges = {(e.source, e.target, e.conditional) for e in graph.edges}
        # Any tool may end the run here.
        found.append((sorted(graph.nodes), sorted(edges - {("tools", "Mine.after_agent", True)})))
    specs = [spec.id for spec in agent.config_specs]
    done = call(agent_of(f, name="mine"), ASK)["messages"][-1].name
    return found, agent.name, agent.config["recursion_limit"], specs, done, agent.stream_mode


@scenario
def limits_batches_and_graphs_around(f: Any, call: Any) -> Any:
    def endless() -> Any:
        steps = [f"Answer {n}" for n in range(9)]
        member = hooked(f, "after_model", lambda state: {"jump_to": "model"}, ["model"])
        return agent_of(f, member, steps=steps, tools=[add])

    with pytest.raises(GraphRecursionError):
        call(endless(), ASK, {"recursion_limit": 5})
    with pytest.raises(GraphRecursionError):
        call(endless().with_config({"recursion_limit": 5}), ASK)
    graph = StateGraph(MessagesState)
    graph.add_node("inner", agent_of(f, steps=[ADDING, "x"], tools=[add], name="inner"))
    graph.add_edge(START, "inner")
    outer = graph.compile(checkpointer=InMemorySaver())
    many = agent_of(f, steps=["a", "a"]).batch([ASK, ASK])
    empty = call(agent_of(f, system_prompt="Begin."), {"messages": []})
    forms = [call(agent_of(f), {"messages": given}) for given in ("hi", HumanMessage("z"))]
    return call(outer, ASK, THREAD), sorted(outer.get_graph(xray=True).nodes), many, empty, forms


@each("by_config", [False, True])
def test_calls_at_the_recursion_limit_end_our_run_with_a_message(
    call: Any, by_config: bool
) -> None:
    """LangChain's raises, and the caller of a run without a thread has nothing of it."""
    pytest.importorskip("langchain.agents", reason="the extra peer is missing")

    def run(f: Any) -> Any:
        steps = [calling(("add", {"a": n, "b": 0})) for n in range(9)]
        agent, limit = agent_of(f, steps=steps, tools=[add]), {"recursion_limit": 5}
        return call(agent.with_config(limit), ASK) if by_config else call(agent, ASK, limit)

    with pytest.raises(GraphRecursionError):
        run(THEIRS)
    messages = run(OURS)["messages"]
    assert next(m.text for m in messages if m.type == "tool") == "0"
    assert messages[-1].text.startswith("The run ended: its recursion limit of 5")


@each("scenario", SCENARIOS, ids=lambda function: function.__name__)
def test_it_is_the_same_in_both(same: Any, scenario: Any) -> None:
    same(scenario)
