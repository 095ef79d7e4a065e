"""State, tools, structured output, configuration and layers: as in langchain's agents."""

import copy
import dataclasses
import operator
import warnings
from collections.abc import Callable
from threading import Event
from typing import Annotated, Any, Literal, NotRequired

import pytest
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
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
from samples import THREAD, Number
from samples import add_tool as add
from tables import each

ASK: Any = {"messages": [("user", "Hi")]}
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


@tool
def shout(text: str) -> str:
    """Shout."""
    if not text:
        raise ValueError("nothing to shout")
    return text.upper()


def played(
    f: Any, call: Any, *bodies: Any, steps: Any = ("x",), tools: Any = (), **options: Any
) -> Any:
    """What the caller gets, and what the model was sent, with a layer for each body."""
    model = ScriptedChatModel(list(steps))
    layers = [b if not callable(b) else f.layer(b) for b in bodies]
    done = call(f.create_agent(model, list(tools), middleware=layers, **options), ASK)
    settings = [{k: v for k, v in r.kwargs.items() if k != "tool_choice"} for r in model.requests]
    return done, [(r.messages, sorted(map(str, r.tools))) for r in model.requests], settings


@scenario
def the_fields_of_a_request(f: Any, call: Any) -> Any:
    seen: list[Any] = []

    def look(request: Any) -> Any:
        names = ("messages", "system_message", "system_prompt", "tool_choice", "model_settings")
        seen.append([getattr(request, name) for name in names])
        seen.append([sorted(vars(request)), sorted(request.state), request.response_format])
        seen.append([name for name in dir(request.runtime) if not name.startswith("_")])
        return (yield request)

    played(f, call, look, tools=[add, {"type": "web"}], system_prompt="Be brief.")
    return seen


@scenario
def a_request_is_a_dataclass(f: Any, call: Any) -> Any:
    def replaced(request: Any) -> Any:
        return (yield dataclasses.replace(request, model_settings={"temperature": 1}))

    kinds = (f.ModelRequest, f.ModelResponse, f.ExtendedModelResponse)
    names = [[field.name for field in dataclasses.fields(kind)] for kind in kinds]
    return names, played(f, call, replaced)


@scenario
def a_request_is_copied_and_compared(f: Any, call: Any) -> Any:
    seen: list[Any] = []

    def look(request: Any) -> Any:
        other = request.override(messages=[HumanMessage("z")])
        seen.extend([copy.copy(request) == request, other == request, type(other)])
        for change in ({"nope": 1}, {"system_prompt": "a", "system_message": SystemMessage("b")}):
            with pytest.raises((TypeError, ValueError)) as caught:
                request.override(**change)
            seen.append(caught.type)
        seen.append(request.override(system_prompt=None).system_message)
        seen.append(request.override(system_prompt="").system_message)
        return (yield other)

    return played(f, call, look), seen


@scenario
def a_field_may_be_assigned_with_a_warning(f: Any, call: Any) -> Any:
    seen: list[Any] = []

    def assign(request: Any) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            request.system_prompt = "New."
            request.model_settings = {"temperature": 2}
        seen.append([warning.category for warning in caught])
        return (yield request)

    return played(f, call, assign), seen


@scenario
def system_messages_keep_their_blocks(f: Any, call: Any) -> Any:
    def more(request: Any) -> Any:
        blocks = [*request.system_message.content_blocks, {"type": "text", "text": "More."}]
        return (yield request.override(system_message=SystemMessage(content=blocks)))

    return played(f, call, more, system_prompt=SystemMessage("Base."))


@scenario
def a_handler_is_not_called(f: Any, call: Any) -> Any:
    def answers(request: Any) -> Any:
        return f.ModelResponse(result=[AIMessage("none")])
        yield

    def message(request: Any) -> Any:
        return AIMessage("none")
        yield

    return played(f, call, answers), played(f, call, message)


@scenario
def a_handler_is_called_twice(f: Any, call: Any) -> Any:
    def twice(request: Any) -> Any:
        first = yield request
        again = [*request.messages, first.result[0], HumanMessage("again")]
        second = yield request.override(messages=again)
        return f.ModelResponse(result=[first.result[0], HumanMessage("again"), *second.result])

    return played(f, call, twice, steps=["x", "y"])


@scenario
def exceptions_pass_through_handlers(f: Any, call: Any) -> Any:
    def inner(request: Any) -> Any:
        try:
            return (yield request)
        except ValueError as error:
            raise KeyError("k") from error

    def outer(request: Any) -> Any:
        try:
            return (yield request)
        except KeyError as error:
            return AIMessage(repr(error.__cause__))

    return played(f, call, outer, inner, steps=[ValueError("v")])


def log_schema(f: Any) -> Any:
    class Log(f.AgentState):  # type: ignore[misc]
        log: NotRequired[Annotated[list[str], operator.add]]  # type: ignore[valid-type]

    return Log


def writer(f: Any, name: str, *, calls: int = 1) -> Any:
    """A layer that adds its name to the log, and a message."""

    def write(request: Any) -> Any:
        for _ in range(calls):
            response = yield request
        if not isinstance(response, f.ModelResponse):
            response = response.model_response
        update = {"log": [name], "messages": [HumanMessage(name)]}
        return f.ExtendedModelResponse(response, Command(update=update))

    write.__name__ = name
    return f.layer(write, state_schema=log_schema(f))


@scenario
def commands_are_merged_from_the_innermost(f: Any, call: Any) -> Any:
    return played(f, call, writer(f, "outer"), writer(f, "inner"))


@scenario
def commands_of_an_abandoned_attempt_are_dropped(f: Any, call: Any) -> Any:
    return played(f, call, writer(f, "outer", calls=2), writer(f, "inner"), steps=["x", "y"])


@scenario
def a_layer_gives_the_structured_response(f: Any, call: Any) -> Any:
    def direct(request: Any) -> Any:
        response = yield request
        return f.ModelResponse(response.result, structured_response={"a": 1})

    def by_command(request: Any) -> Any:
        response = yield request
        command: Any = Command(update={"structured_response": {"b": 1}})
        return f.ExtendedModelResponse(response, command)

    return played(f, call, direct), played(f, call, by_command)


@scenario
def a_response_is_changed_in_place(f: Any, call: Any) -> Any:
    def change(request: Any) -> Any:
        response = yield request
        response.result[0] = AIMessage("replaced")
        response.structured_response = {"a": 1}
        return response

    return played(f, call, change)


@scenario
def tools_are_removed_and_added(f: Any, call: Any) -> Any:
    def none(request: Any) -> Any:
        return (yield request.override(tools=[]))

    def searching(request: Any) -> Any:
        return (yield request.override(tools=[*request.tools, {"type": "web_search"}]))

    # A call of a tool that was removed runs in langchain's agent: see test_offered_tools.
    scripts = ((none, ["x"]), (searching, [ADDING, "x"]))
    return [played(f, call, body, steps=steps, tools=[add]) for body, steps in scripts]


@scenario
def a_dynamic_tool_is_run_by_a_tool_layer(f: Any, call: Any) -> Any:
    asked: list[Any] = []

    def offer(request: Any) -> Any:
        return (yield request.override(tools=[*request.tools, shout]))

    def supply(request: Any) -> Any:
        asked.append([request.tool is None, request.tool_call["name"]])
        return (yield request.override(tool=request.tool or shout))

    steps = [[{"name": "shout", "args": {"text": "a"}, "id": "2"}], "x"]
    layers = [f.layer(offer), f.layer(supply, "tool")]
    return [played(f, call, *layers, steps=steps, tools=tools) for tools in ([add], [])], asked


@scenario
def model_and_settings_are_changed(f: Any, call: Any) -> Any:
    other = ScriptedChatModel(["from the other"])

    def swap(request: Any) -> Any:
        settings = {"temperature": 0, "parallel_tool_calls": False}
        return (yield request.override(model=other, model_settings=settings, tool_choice="add"))

    done = played(f, call, swap, tools=[add])
    return done, [(r.kwargs, sorted(map(str, r.tools))) for r in other.requests]


@scenario
def the_response_format_is_changed(f: Any, call: Any) -> Any:
    class Text(BaseModel):
        s: str

    def narrow(request: Any) -> Any:
        return (yield request.override(response_format=f.ToolStrategy(Number)))

    def none(request: Any) -> Any:
        return (yield request.override(response_format=None))

    def provider(request: Any) -> Any:
        return (yield request.override(response_format=f.ProviderStrategy(Number)))

    number = [[{"name": "Number", "args": {"n": 1}, "id": "1"}]]
    chosen = f.ToolStrategy(Number | Text)
    return [
        played(f, call, narrow, steps=number, tools=[add], response_format=chosen),
        played(f, call, none, steps=["prose"], tools=[add], response_format=chosen),
        played(f, call, provider, steps=['{"n": 3}'], tools=[add]),
    ]


@scenario
def the_request_of_a_tool_is_changed(f: Any, call: Any) -> Any:
    seen: list[Any] = []

    def change(request: Any) -> Any:
        names = [name for name in dir(request.runtime) if not name.startswith("_")]
        seen.append([request.tool.name, request.tool_call, sorted(request.state), names])
        first = yield request
        args = {"a": int(first.content), "b": 1}
        return (yield request.override(tool_call={**request.tool_call, "args": args}))

    return played(f, call, f.layer(change, "tool"), steps=[ADDING, "x"], tools=[add]), seen


@scenario
def a_tool_layer_returns_a_command_or_handles_an_error(f: Any, call: Any) -> Any:
    def command(request: Any) -> Any:
        message = yield request
        return Command(update={"messages": [message], "log": ["ran"]})

    def handle(request: Any) -> Any:
        try:
            return (yield request)
        except ValueError as error:
            return ToolMessage(str(error), tool_call_id=request.tool_call["id"], status="error")

    logged = f.layer(command, "tool", state_schema=log_schema(f))
    failing = [[{"name": "shout", "args": {"text": ""}, "id": "1"}], "x"]
    return [
        played(f, call, logged, steps=[ADDING, "x"], tools=[add]),
        played(f, call, f.layer(handle, "tool"), steps=failing, tools=[shout]),
    ]


@scenario
def invalid_and_unknown_calls_reach_a_tool_layer(f: Any, call: Any) -> Any:
    seen: list[Any] = []

    def look(request: Any) -> Any:
        result = yield request
        seen.append([request.tool is None, result.status])
        return result

    calls = [*ADDING, {"name": "nope", "args": {}, "id": "2"}]
    bad = [{"name": "add", "args": {"a": "x"}, "id": "3"}]
    done = played(f, call, f.layer(look, "tool"), steps=[calls, bad, "x"], tools=[add])
    return done, sorted(seen)  # parallel calls


@scenario
def a_prompt_decorator_needs_no_arguments(f: Any, call: Any) -> Any:
    @f.dynamic_prompt()  # type: ignore[untyped-decorator]
    def counted(request: Any) -> str:
        return f"{len(request.messages)} so far."

    return played(f, call, f.dynamic_prompt(lambda request: "Short."))[1], played(f, call, counted)


@each("scenario", SCENARIOS, ids=lambda function: function.__name__)
def test_it_is_the_same_in_both(same: Any, scenario: Any) -> None:
    same(scenario)
