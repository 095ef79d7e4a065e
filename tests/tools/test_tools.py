"""Which tools an agent has and offers, and what becomes of unknown and failed calls."""

from __future__ import annotations

import asyncio
import operator
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, cast, get_type_hints

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, tool
from langchain_core.tools import tool as make_tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.managed import RemainingSteps
from langgraph.prebuilt import ToolNode as LangGraphToolNode
from stack_agents import agent_of

from agent_factory import AgentMiddleware, before_model, create_agent, wrap_model_call
from agent_factory.errors import ArgumentError, UnknownTool
from agent_factory.prebuilt import InjectedState, ToolNode, ToolRuntime, create_react_agent
from agent_factory.testing import ScriptedChatModel
from agent_factory.tools.registry import as_tool
from agent_factory.types import AgentState, PrivateStateAttr
from error_handlers import later as async_handler
from error_handlers import number, two
from samples import THREAD, add, prices, tool_results, tool_texts, undocumented
from tables import each

GO = {"messages": "Go"}


class Doubler:
    def double(self, n: int) -> int:
        """Double a number."""
        return 2 * n


class Halve(BaseTool):
    name: str = "halve"
    description: str = "Halve a number."

    def _run(self, n: int) -> float:
        return n / 2


def calls(*names: str, **args: Any) -> list[dict[str, Any]]:
    return [{"name": name, "args": args, "id": f"{i}"} for i, name in enumerate(names)]


def test_functions_methods_and_tool_objects_are_offered_and_run(call: Any) -> None:
    """B13, C2"""
    turn = [
        *calls("add", a=1, b=2),
        {"name": "double", "args": {"n": 4}, "id": "x"},
        {"name": "halve", "args": {"n": 3}, "id": "y"},
    ]
    double = Doubler().double
    for doubled in (StructuredTool.from_function(double, name="double"), double):
        model = ScriptedChatModel([turn, "Done"])
        tools: Any = (tool for tool in (add, doubled, Halve()))  # any iterable
        result = call(create_agent(model, tools), GO)
        assert [text for text, _ in tool_results(result)] == ["3", "8", "1.5"]
        assert model.requests[0].tools == ["add", "double", "halve"]


def test_a_providers_tool_is_offered_and_never_run(call: Any) -> None:
    """B14"""
    model = ScriptedChatModel([calls("web_search", q="x"), "Done"])
    result = call(create_agent(model, [add, {"type": "web_search", "name": "web_search"}]), GO)
    assert model.requests[0].tools == ["add", "web_search"]
    assert tool_results(result) == [
        ("Error: web_search is not a valid tool, try one of [add].", "error")
    ]


def test_a_middleware_brings_tools(call: Any) -> None:
    """A3: after the agent's, in the order of the stack; a shared object is one tool."""

    @before_model(tools=[add, Halve()])
    def helper(state: Any, runtime: Any) -> None:
        return None

    cases: Any = (([Doubler().double, add], ["double", "add", "halve"]), ([], ["add", "halve"]))
    for tools, offered in cases:
        model = ScriptedChatModel([calls("halve", n=3), "Done"])
        result = call(create_agent(model, tools, middleware=[helper]), GO)
        assert tool_results(result) == [("1.5", "success")]
        assert model.requests[0].tools == offered


class Passes(AgentMiddleware):
    def around_tool(self, request: Any) -> Any:
        return (yield request)


@each(
    "make, options",
    [
        (create_agent, {}),
        (create_agent, {"fused": False}),
        (create_agent, {"fused": "turn"}),
        (create_agent, {"middleware": [Passes()]}),
        (create_agent, {"middleware": [Passes()], "fused": False}),
        (create_agent, {"decisions": True}),
        (create_agent, {"decisions": True, "middleware": [Passes()], "fused": False}),
        (create_react_agent, {}),
        (create_react_agent, {"version": "v1"}),
    ],
)
def test_the_tools_node_of_an_agent_is_a_tool_node_and_lists_its_tools(
    make: Any, options: Any, call: Any
) -> None:
    """As LangGraph's ToolNode does: code looks there for what an agent can do."""
    model = ScriptedChatModel([calls("add", a=1, b=2), "Done"])
    agent = make(model, [add, Halve()], **options)
    node = agent.nodes["tools"].bound
    assert isinstance(node, ToolNode)
    assert isinstance(node, LangGraphToolNode)
    assert node._tools_by_name is node.tools_by_name
    assert {name: tool.description for name, tool in node.tools_by_name.items()} == {
        "add": "Add two numbers.",
        "halve": "Halve a number.",
    }
    assert tool_results(call(agent, GO)) == [("3", "success")]


def offering(*tools: Any) -> AgentMiddleware:
    """A layer that offers the model these tools instead of the agent's own."""

    @wrap_model_call
    def offer(request: Any) -> Any:
        return (yield request.override(tools=list(tools)))

    return offer


class Runs(AgentMiddleware):
    """Runs a tool that the agent was built without."""

    def __init__(self, extra: BaseTool) -> None:
        self.extra = extra

    def around_tool(self, request: Any) -> Any:
        if request.tool_call["name"] == self.extra.name:
            assert request.tool is None
            request = request.override(tool=self.extra)
        return (yield request)


@pytest.mark.parametrize("static", [[], [add]], ids=["without", "next to"])
def test_a_tool_may_arrive_at_run_time(call: Any, static: list[Any]) -> None:
    """A3: a layer offers it, another runs it, also without any static tool."""
    extra = Halve()
    model = ScriptedChatModel([calls("halve", n=3), "Done"])
    stack = [offering(*static, extra), Runs(extra)]
    result = call(create_agent(model, static, middleware=stack), GO)
    assert tool_results(result) == [("1.5", "success")]
    assert model.requests[0].tools[-1] == "halve"


@pytest.mark.parametrize("static", [[], [add]], ids=["without", "next to"])
def test_a_tool_that_nothing_can_run_is_refused(call: Any, static: list[Any]) -> None:
    model = ScriptedChatModel(["never"])
    agent = create_agent(model, static, middleware=[offering(Halve())])
    with pytest.raises(UnknownTool) as caught:
        call(agent, GO)
    assert caught.value.subject == "halve"
    assert "wrap_tool_call" in caught.value.hint
    assert model.requests == []


def test_a_layer_may_take_tools_away_and_without_any_none_are_bound(call: Any) -> None:
    """No empty list of tools is sent."""
    model = ScriptedChatModel(["Done"] * 2)
    call(create_agent(model, [add, Halve()], middleware=[offering(Halve())]), GO)
    call(create_agent(model), GO)
    assert [request.tools for request in model.requests] == [["halve"], []]
    assert model.requests[1].kwargs == {}


def test_a_made_up_name_is_answered_and_the_others_run(call: Any) -> None:
    """A17, C45: even where errors are not handled."""
    model = ScriptedChatModel([[*calls("ghost"), {**calls("add", a=1, b=2)[0], "id": "9"}], "Done"])
    result = call(create_agent(model, [add, Halve()], handle_tool_errors=False), GO)
    assert tool_results(result) == [
        ("Error: ghost is not a valid tool, try one of [add, halve].", "error"),
        ("3", "success"),
    ]
    result = call(create_agent(ScriptedChatModel([calls("ghost"), "Sorry"]), [add]), GO)
    assert [m.type for m in result["messages"]] == ["human", "ai", "tool", "ai"]


def test_without_a_tools_node_a_made_up_call_is_answered_and_the_run_ends(call: Any) -> None:
    """C45: the history stays valid."""
    result = call(agent_of([calls("ghost", "spook")]), GO)
    assert tool_results(result) == [
        ("Error: ghost is not a valid tool, try one of [].", "error"),
        ("Error: spook is not a valid tool, try one of [].", "error"),
    ]


def unreadable(*names: str) -> AIMessage:
    broken = [
        {"name": name, "args": "{", "id": f"b{i}", "error": "cut off", "type": "invalid_tool_call"}
        for i, name in enumerate(names)
    ]
    return AIMessage("", tool_calls=calls("add", a=1, b=2), invalid_tool_calls=broken)


def test_calls_that_cannot_be_read_are_explained_to_the_model(call: Any) -> None:
    result = call(agent_of([unreadable("add", "ghost"), "Done"], tools=[add]), GO)
    (_, fine), *refused = [(m.tool_call_id, m) for m in result["messages"] if m.type == "tool"]
    assert fine.text == "3"
    assert [id_ for id_, _ in refused] == ["b0", "b1"]
    for _, message in refused:
        assert message.status == "error"
        assert "could not be read as JSON: {\n cut off\n" in message.text


@each("entry", [5, "add", None, Halve, undocumented])
def test_what_cannot_be_a_tool_is_refused(entry: Any) -> None:
    """C2"""
    with pytest.raises(ArgumentError, match=r"^\[AF112\]") as caught:
        create_agent(ScriptedChatModel([]), [entry])
    assert caught.value.subject.startswith("tools")


def plain(n: int) -> str:
    """Show a number."""
    return f"{n}"


async def later(n: int) -> str:
    """Show a number later."""
    return f"{n} later"


def configured(n: int, config: RunnableConfig) -> str:
    """Show a number and the thread."""
    return f"{n} in {config['configurable']['thread_id']}"


def called_back(n: int, callbacks: Any = None) -> str:
    """Show a number, and whether there are callbacks."""
    return f"{n} with {callbacks is not None}"


@each("function", [plain, later, configured, called_back])
@each("way", ["agent", "invoke", "ainvoke"])
def test_a_function_gets_what_langchain_core_would_give_it(function: Any, way: str) -> None:
    ours, theirs = as_tool(function, "tools"), make_tool(function)

    def result(tool: BaseTool) -> Any:
        if way == "invoke":
            return tool.invoke({"n": 2}, THREAD)
        if way == "ainvoke":
            return asyncio.run(tool.ainvoke({"n": 2}, THREAD))
        agent = agent_of([calls(function.__name__, n=2), "Done."], tools=[tool])
        return tool_results(asyncio.run(agent.ainvoke(cast("Any", GO), THREAD)))

    if way == "invoke" and function is later:
        with pytest.raises(NotImplementedError, match="sync invocation"):
            result(ours)
    else:
        assert result(ours) == result(theirs)
    assert convert_to_openai_tool(ours) == convert_to_openai_tool(theirs)


def test_nothing_is_looked_up_for_a_plain_function(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated: list[Any] = []

    def hints(function: Any, **options: Any) -> dict[str, Any]:
        evaluated.extend(function.__annotations__)
        return get_type_hints(function, **options)

    tool = as_tool(plain, "tools")
    assert tool.invoke({"n": 1}) == "1"  # langchain-core looks once which arguments are injected
    monkeypatch.setattr("langchain_core.tools.base.get_type_hints", hints)
    assert tool.invoke({"n": 2}) == "2"
    assert evaluated == []
    StructuredTool.from_function(plain).invoke({"n": 2})
    assert evaluated


def test_a_function_becomes_a_tool_once(call: Any) -> None:
    """A middleware and the agent may both bring it; a method is another object each time."""
    seen: list[Any] = []

    @wrap_model_call
    def look(request: Any) -> Any:
        seen.append(request.tools)
        return (yield request)

    doubler = Doubler()
    for _ in range(2):
        look.tools = [doubler.double, add]
        tools: Any = [add, doubler.double, doubler.double]
        call(create_agent(ScriptedChatModel(["Done"]), tools, middleware=[look]), GO)
    first, second = seen
    assert [tool.name for tool in first] == ["add", "double"]
    assert first[0] is second[0]


@tool
def fail(kind: str) -> str:
    """Fail in some way."""
    raise {"value": ValueError, "key": KeyError, "os": OSError}[kind](kind)


def asked(name: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": name}


def failing(handle: Any, kind: str) -> Any:
    model = ScriptedChatModel([[asked("fail", kind=kind)], "Done"])
    if handle is None:
        return create_agent(model, [fail])
    return create_agent(model, [fail], handle_tool_errors=handle)


def test_by_default_a_raising_tool_raises_and_invalid_arguments_are_reported(call: Any) -> None:
    """C42, E1"""
    with pytest.raises(ValueError, match="value"):
        call(failing(None, "value"), GO)
    model = ScriptedChatModel([[asked("add", a="one", b=2)], "Done"])
    ((text, status),) = tool_results(call(create_agent(model, [add]), GO))
    assert status == "error"
    assert text.startswith("Error invoking tool 'add' with kwargs {'a': 'one', 'b': 2}")


@each("handle", [None, 5, {}, [ValueError], (int,), int, two, async_handler, number])
def test_a_form_that_could_not_work_is_refused_at_build(handle: Any) -> None:
    """C41, C47: not when an error occurs."""
    with pytest.raises(ArgumentError, match=r"^\[AF112\]") as caught:
        create_agent(ScriptedChatModel([]), [add], handle_tool_errors=handle)
    assert caught.value.subject.startswith("handle_tool_errors")


def test_a_handled_error_does_not_stop_parallel_calls(call: Any) -> None:
    """C20"""
    model = ScriptedChatModel([[asked("fail", kind="value"), asked("add", a=1, b=2)], "Done"])
    result = call(create_agent(model, [fail, add], handle_tool_errors="No."), GO)
    assert tool_results(result) == [("No.", "error"), ("3", "success")]


class Shop(AgentState):
    user: NotRequired[str]
    visits: NotRequired[Annotated[int, operator.add]]
    secret: NotRequired[Annotated[str, PrivateStateAttr]]
    remaining_steps: NotRequired[RemainingSteps]


@dataclass
class Till:
    currency: str


def one_field(user: Annotated[str, InjectedState("user")], greeting: str = "Hi") -> str:
    """Greet the user."""
    return f"{greeting} {user}"


def whole_state(state: Annotated[dict[str, Any], InjectedState]) -> str:
    """List the keys of the state."""
    return f"{sorted(state)} after {len(state['messages'])}"


def with_runtime(runtime: ToolRuntime[Any, Any], item: str = "lamp") -> str:
    """Look at everything."""
    store: Any = runtime.store
    runtime.stream_writer({"item": item})
    parts = [
        runtime.state["user"],
        runtime.context.currency,
        runtime.tool_call_id,
        store.get(("prices",), item).value["price"] if store else None,
        runtime.config["configurable"]["thread_id"],
        len(runtime.tools),
    ]
    return " ".join(map(str, parts))


def called(name: str, id_: str = "1", **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": id_}


def shop(only: Any, *steps: Any, **options: Any) -> Any:
    model = ScriptedChatModel([*steps, "Done"])
    return create_agent(model, [only] if only else [], **{"state_schema": Shop, **options})


SHOPPING = {"messages": "Go", "user": "Ada"}


def test_the_runtime_bundles_everything(collect: Any) -> None:
    """C32, C33, C35: state, context, store, config, call id, tools, the stream."""
    rich = shop(
        with_runtime,
        [called("with_runtime", "call-7")],
        context_schema=Till,
        store=prices(),
        checkpointer=InMemorySaver(),
    )
    chunks = collect(rich, SHOPPING, THREAD, context=Till("EUR"), stream_mode=["custom", "values"])
    assert [chunk for mode, chunk in chunks if mode == "custom"] == [{"item": "lamp"}]
    assert tool_texts(chunks[-1][1]) == ["Ada EUR call-7 39 1 1"]


def test_the_model_does_not_see_injected_parameters(call: Any) -> None:
    """C25"""
    seen: list[Any] = []

    class Look(AgentMiddleware):
        def around_model(self, request: Any) -> Any:
            seen.extend(request.tools)
            return (yield request)

    for given, shown in ((one_field, ["greeting"]), (with_runtime, ["item"]), (whole_state, [])):
        call(shop(given, middleware=[Look()]), SHOPPING)
        assert list(seen.pop().tool_call_schema.model_json_schema()["properties"]) == shown


def test_tools_of_run_time_are_injected_too(call: Any) -> None:
    """C36: a tool that a layer brings has its state as well."""
    late = tool(one_field)

    class Late(AgentMiddleware):
        def around_tool(self, request: Any) -> Any:
            return (yield request.override(tool=late))

    forged = called("one_field", user="Eve")
    assert tool_texts(call(shop(None, [forged], middleware=[Late()]), SHOPPING)) == ["Hi Ada"]
