"""Middleware whose subclasses override a flow, a wrap or a hook, and methods called directly."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import StreamWriter

from agent_factory import (
    AgentMiddleware,
    AgentState,
    ModelRequest,
    ModelResponse,
    ToolCallRequest,
    before_model,
    create_agent,
    topology_of,
)
from agent_factory.errors import ArgumentError
from agent_factory.middleware import (
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
)
from agent_factory.testing import ScriptedChatModel
from samples import add, last_text, tool_results
from tables import each

IGNORED = ["AF211"]  # no review happens here
ASK = {"messages": [("user", "Hello")]}
ADD = [{"name": "add", "args": {"a": 1, "b": 2}, "id": "1"}]


class Logged(AgentMiddleware):
    """Middleware with a flow around each kind of call; it notes what it does in `log`."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []

    def around_model(self, request: Any) -> Any:
        self.log.append("flow")
        response = yield request
        self.log.append("end of flow")
        return response

    def around_tool(self, request: Any) -> Any:
        self.log.append("tool flow")
        return (yield request)


class Wrapping(Logged):
    """Overrides the wraps of the flows, and calls them."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        self.log.append("wrap")
        return super().wrap_model_call(request, handler)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        self.log.append("wrap")
        return await super().awrap_model_call(request, handler)

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        self.log.append("tool wrap")
        return super().wrap_tool_call(request, handler)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        self.log.append("tool wrap")
        return await super().awrap_tool_call(request, handler)


MODEL_TURN = ["wrap", "flow", "end of flow"]


def test_a_wrap_that_overrides_a_flow_runs_once_and_calls_the_flow(call: Any) -> None:
    middleware = Wrapping()
    agent = create_agent(ScriptedChatModel([ADD, "3"]), [add], middleware=[middleware])
    result = call(agent, ASK)
    assert (last_text(result), tool_results(result)) == ("3", [("3", "success")])
    assert middleware.log == [*MODEL_TURN, "tool wrap", "tool flow", *MODEL_TURN]
    methods = [layer.method for layer in topology_of(agent).layers]
    assert methods == ["wrap_model_call", "wrap_tool_call"]


def test_an_override_of_one_wrap_leaves_the_other_to_the_flow(call: Any) -> None:
    class OnlySync(Logged):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            self.log.append("wrap")
            return super().wrap_model_call(request, handler)

    middleware = OnlySync()
    call(create_agent(ScriptedChatModel(["Hi"]), middleware=[middleware]), ASK)
    assert middleware.log[-2:] == ["flow", "end of flow"]
    assert len(middleware.log) == (3 if call.__name__ == "sync" else 2)


def test_a_flow_that_overrides_wraps_is_the_one_that_runs(call: Any) -> None:
    class FlowAgain(Wrapping):
        def around_model(self, request: Any) -> Any:
            self.log.append("own")
            return (yield from super().around_model(request))

    middleware = FlowAgain()
    call(create_agent(ScriptedChatModel(["Hi"]), middleware=[middleware]), ASK)
    assert middleware.log == ["own", "flow", "end of flow"]


def test_an_override_may_answer_without_the_flow(call: Any) -> None:
    class Silent(Logged):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return AIMessage("No.")

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            return AIMessage("No.")

    middleware = Silent()
    agent = create_agent(ScriptedChatModel([]), middleware=[middleware])
    assert last_text(call(agent, ASK)) == "No."
    assert middleware.log == []


def request_of(text: str = "Hi") -> ModelRequest[Any]:
    return ModelRequest(model=ScriptedChatModel([]), messages=[AIMessage(text)])


def test_wraps_of_a_flow_can_be_called_outside_of_a_run() -> None:
    response = ModelResponse(result=[AIMessage("Hello")])
    middleware = Logged()
    assert middleware.wrap_model_call(request_of(), lambda request: response) is response

    async def handler(request: Any) -> Any:
        return response

    assert asyncio.run(middleware.awrap_model_call(request_of(), handler)) is response
    assert middleware.log == ["flow", "end of flow"] * 2


def test_tool_wraps_of_a_flow_can_be_called_outside_of_a_run() -> None:
    result = ToolMessage("3", tool_call_id="1")
    runtime: Any = None
    request = ToolCallRequest(
        tool_call={**ADD[0], "type": "tool_call"},  # type: ignore[typeddict-item]
        tool=None,
        state={"messages": []},
        runtime=runtime,
    )
    assert Logged().wrap_tool_call(request, lambda request: result) is result

    async def handler(request: Any) -> Any:
        return result

    assert asyncio.run(Logged().awrap_tool_call(request, handler)) is result


def test_a_middleware_without_a_layer_says_what_to_define() -> None:
    with pytest.raises(NotImplementedError, match=r"^AgentMiddleware .* Define around_model, or"):
        AgentMiddleware().wrap_model_call(request_of(), lambda request: ModelResponse(result=[]))
    with pytest.raises(NotImplementedError, match="around_tool"):
        AgentMiddleware().wrap_tool_call(None, lambda request: None)  # type: ignore


class Configured(AgentMiddleware):
    """Says that none of its methods does anything."""

    unused: Collection[str] = ()

    def __init__(self) -> None:
        super().__init__()
        self.unused = ("before_model", "around_model")

    def before_model(self, state: Any, runtime: Any) -> Any:
        raise AssertionError("unused")

    def around_model(self, request: Any) -> Any:
        raise AssertionError("unused")
        yield


def test_an_unused_method_that_a_subclass_overrides_is_used(call: Any) -> None:
    calls = []

    class Mine(Configured):
        def before_model(self, state: Any, runtime: Any) -> Any:
            calls.append("hook")

        def around_model(self, request: Any) -> Any:
            calls.append("flow")
            return (yield request)

    call(create_agent(ScriptedChatModel(["Hi"]), middleware=[Configured(), Mine()]), ASK)
    assert calls == ["hook", "flow"]


def test_an_unused_method_that_a_mixin_overrides_is_used(call: Any) -> None:
    class Mixin:
        def before_model(self, state: Any, runtime: Any) -> Any:
            return {"messages": [("user", "Mixed in.")]}

    class Mixed(Mixin, Configured):
        pass

    agent = create_agent(ScriptedChatModel(["Hi"]), middleware=[Mixed()])
    assert [m.text for m in call(agent, ASK)["messages"]] == ["Hello", "Mixed in.", "Hi"]


@each(
    "base",
    [
        AgentMiddleware[AgentState[Any]],
        AgentMiddleware[AgentState[Any], None],
        AgentMiddleware[AgentState[str], None, str],
    ],
)
def test_a_class_may_take_one_two_or_three_type_parameters(base: Any) -> None:
    class Mine(base):  # type: ignore[misc]
        pass

    assert Mine().name == "Mine"


class Reads(AgentMiddleware):
    """Its hook takes what LangGraph can give to a node."""

    def before_model(  # type: ignore[override]  # its caller passes what it names
        self,
        state: Any,
        runtime: Any,
        config: RunnableConfig,
        *,
        store: BaseStore,
        writer: StreamWriter,
    ) -> Any:
        writer("seen")
        user = config["configurable"]["user"]
        return {"messages": [("user", f"{user}, {type(store).__name__}, {type(runtime).__name__}")]}


CONFIG: Any = {"configurable": {"user": "Ada"}}


def test_a_hook_takes_config_store_and_writer(call: Any) -> None:
    model = ScriptedChatModel(["Hi"])
    agent = create_agent(model, middleware=[Reads()], store=InMemoryStore())
    texts = [m.text for m in call(agent, ASK, CONFIG)["messages"]]
    assert texts == ["Hello", "Ada, InMemoryStore, Runtime", "Hi"]


def test_a_coroutine_hook_takes_config() -> None:
    class Late(AgentMiddleware):
        async def abefore_model(  # type: ignore[override]
            self, state: Any, config: RunnableConfig
        ) -> Any:
            return {"messages": [("user", config["configurable"]["user"])]}

    agent = create_agent(ScriptedChatModel(["Hi"]), middleware=[Late()])
    result = asyncio.run(agent.ainvoke({"messages": [HumanMessage("Hello")]}, CONFIG))
    assert result["messages"][1].text == "Ada"


def test_a_decorated_function_takes_config_or_the_state_alone(call: Any) -> None:
    @before_model
    def with_config(state: Any, runtime: Any, config: RunnableConfig) -> Any:
        return {"messages": [("user", config["configurable"]["user"])]}

    @before_model
    def alone(state: Any) -> Any:
        return {"messages": [("user", str(len(state["messages"])))]}

    agent = create_agent(ScriptedChatModel(["Hi"]), middleware=[with_config, alone])
    texts = [m.text for m in call(agent, ASK, CONFIG)["messages"]]
    assert texts == ["Hello", "Ada", "2", "Hi"]


def test_a_hook_with_another_parameter_is_refused_by_name() -> None:
    class Wrong(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any, user: str) -> Any:  # type: ignore[override]
            return None

    with pytest.raises(ArgumentError, match=r"Wrong\.before_model.*'user'"):
        create_agent(ScriptedChatModel([]), middleware=[Wrong()])


BUILT_INS: list[tuple[type[Any], dict[str, Any], str]] = [
    (PIIMiddleware, {"pii_type": "email", "apply_to_output": True}, "after_model"),
    (HumanInTheLoopMiddleware, {"interrupt_on": {}, "interrupt_mode": "per_call"}, "after_model"),
    (SummarizationMiddleware, {"model": ScriptedChatModel([])}, "before_model"),
]


@each("built_in, arguments, hook", BUILT_INS)
def test_a_subclass_of_a_built_in_uses_the_hook_that_it_overrides(
    call: Any, built_in: type[Any], arguments: dict[str, Any], hook: str
) -> None:
    seen = []

    def override(self: Any, state: Any, runtime: Any) -> Any:
        seen.append(hook)
        return getattr(built_in, hook)(self, state, runtime)

    async def aoverride(self: Any, state: Any, runtime: Any) -> Any:
        return override(self, state, runtime)

    mine = type("Mine", (built_in,), {hook: override, f"a{hook}": aoverride})
    for member in (built_in(**arguments), mine(**arguments)):
        agent = create_agent(ScriptedChatModel(["Hi"]), middleware=[member], ignore=IGNORED)
        call(agent, ASK)
    assert seen == [hook]


class Guard(Logged):
    kept_flows = ("around_model", "around_tool")


class CallingSuper(Wrapping, Guard): ...


class NotCallingSuper(Guard):
    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        self.log.append("wrap")
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        self.log.append("wrap")
        return await handler(request)


@each("kind", [CallingSuper, NotCallingSuper])
def test_a_kept_flow_runs_once_outside_of_the_wraps_of_a_subclass(call: Any, kind: Any) -> None:
    mine = kind()
    agent = create_agent(ScriptedChatModel(["Hi"]), middleware=[mine])
    call(agent, ASK)
    assert mine.log == ["flow", "wrap", "end of flow"]
    layers = [layer.method for layer in topology_of(agent).layers if layer.call == "model"]
    assert layers == ["around_model", "wrap_model_call"]


def test_a_hook_may_jump_where_the_one_it_overrides_may(call: Any) -> None:
    class Limited(ModelCallLimitMiddleware):
        def before_model(self, state: Any, runtime: Any) -> Any:
            return super().before_model(state, runtime)

        async def abefore_model(self, state: Any, runtime: Any) -> Any:
            return await super().abefore_model(state, runtime)

    limited: Any = Limited(run_limit=1)
    agent = create_agent(ScriptedChatModel([ADD, "no"]), [add], middleware=[limited])
    assert "used up" in last_text(call(agent, ASK))
