"""Hooks, layers and jumps that are read from a middleware, overrides of them, and errors in it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial, wraps
from typing import Any, NotRequired

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import StreamWriter
from typing_extensions import TypedDict

from agent_factory import (
    AgentFactoryWarning,
    AgentMiddleware,
    AgentState,
    Invoke,
    ModelRequest,
    ModelResponse,
    Ordering,
    ToolCallRequest,
    before_model,
    create_agent,
    hook_config,
    plan_agent,
    topology_of,
)
from agent_factory import middleware as m
from agent_factory.errors import ArgumentError, BadReturn, SpecError, SpecErrors
from agent_factory.hooks.introspection import hooks_of, is_empty, layers_of, validate_middleware
from agent_factory.testing import ScriptedChatModel
from agent_factory.topology import Call, Hook, Layer, Phase
from samples import add, awrap, last_text, tool_results, wrap
from tables import each

PHASES = [str(phase) for phase in Phase]
WRAPS = ["wrap_model_call", "wrap_tool_call"]
FLOWS = ["around_model", "around_tool"]
CALLS = [Call.MODEL, Call.TOOL]


def hook(self: Any, state: Any, runtime: Any) -> None:
    return None


async def ahook(self: Any, state: Any, runtime: Any) -> None:
    return None


def wrong(self: Any) -> None:
    """A hook that takes no state."""


def flow(self: Any, request: Any) -> Any:
    return (yield request)


def generator(self: Any, one: Any, other: Any) -> Any:
    yield one


async def acoroutine(self: Any, request: Any) -> Any:
    return request


async def async_generator(self: Any, one: Any, other: Any = None) -> Any:
    yield one


def made(**methods: Any) -> AgentMiddleware:
    middleware: AgentMiddleware = type("Mine", (AgentMiddleware,), methods)()
    return middleware


def build(**methods: Any) -> Any:
    return create_agent(ScriptedChatModel(), middleware=[made(**methods)])


@each("phase", PHASES)
@each("sides", ["sync", "async", "both"])
def test_a_hook_is_found_with_the_sides_its_class_overrides(phase: str, sides: str) -> None:
    """A4, A5, A6: either twin makes the node; the other side stays None."""
    methods: dict[str, Any] = {}
    if sides != "async":
        methods[phase] = hook
    if sides != "sync":
        methods[f"a{phase}"] = ahook
    middleware = made(**methods)
    (found,) = hooks_of(middleware)
    assert found.definition == Hook("Mine", Phase(phase))
    assert found.definition.node == f"Mine.{phase}"
    assert found.owner is middleware
    assert (found.func is not None, found.afunc is not None) == (sides != "async", sides != "sync")
    assert f"Mine.{phase}" in build(**methods).nodes


@each("name, call", list(zip(WRAPS, CALLS, strict=True)))
@each("sides", ["sync", "async", "both"])
def test_a_layer_is_found_with_its_sides(name: str, call: Call, sides: str) -> None:
    methods: dict[str, Any] = {}
    if sides != "async":
        methods[name] = wrap
    if sides != "sync":
        methods[f"a{name}"] = awrap
    (found,) = layers_of(made(**methods))
    assert found.definition == Layer("Mine", call, name)
    assert (found.func is not None, found.afunc is not None) == (sides != "async", sides != "sync")


def test_a_class_that_is_changed_is_read_again() -> None:
    middleware = made(before_model=hook)
    assert list(validate_middleware(middleware)) == []
    type(middleware).before_model = wrong  # type: ignore[assignment,method-assign]
    (error,) = validate_middleware(middleware)
    assert error.code == "AF106"
    type(middleware).after_model = hook  # type: ignore[method-assign]
    found = [bound.definition.node for bound in hooks_of(middleware)]
    assert found == ["Mine.before_model", "Mine.after_model"]


def test_an_instance_with_its_own_method_is_read_itself() -> None:
    cls = type(made(before_model=hook))
    assert list(validate_middleware(cls())) == []
    changed = cls()
    changed.before_model = partial(wrong, None)  # type: ignore[method-assign]
    assert [error.code for error in validate_middleware(changed)] == ["AF105", "AF106"]
    assert list(validate_middleware(cls())) == []


def test_a_property_may_give_each_instance_another_method() -> None:
    cls: Any = type(made(before_model=property(lambda self: self.given)))
    first, second, third = cls(), cls(), cls()
    first.given, second.given, third.given = partial(hook, None), partial(wrong, None), None
    assert list(validate_middleware(first)) == []
    assert [error.code for error in validate_middleware(second)] == ["AF106"]
    assert list(validate_middleware(third)) == []
    assert [len(hooks_of(one)) for one in (first, second, third)] == [1, 1, 0]


def test_each_instance_of_a_wrong_class_is_reported_by_its_name() -> None:
    cls = type(made(before_model=wrong))
    for name in ("first", "second"):
        (error,) = validate_middleware(cls(name=name))
        assert error.subject == f"{name}.before_model"


@each(
    "name, meant",
    [
        ("before_modle", "before_model"),
        ("abefore_modle", "abefore_model"),
        ("after_agents", "after_agent"),
        ("wrap_model", "wrap_model_call"),
        ("wrap_tool", "wrap_tool_call"),
        ("awrap_toolcall", "awrap_tool_call"),
        ("around_tools", "around_tool"),
        ("around_model_call", "around_model"),
        # The spelling of other libraries
        ("beforeModel", "before_model"),
        ("async_before_model", "abefore_model"),
        ("a_before_model", "abefore_model"),
        ("pre_model_hook", "before_model"),
        ("post_model_hook", "after_model"),
        ("on_tool_call", "wrap_tool_call"),
        ("modify_model_request", "wrap_model_call"),
        ("wrapToolCall", "wrap_tool_call"),
        ("before_tool", "wrap_tool_call"),
        ("after_tool", "wrap_tool_call"),
        ("aafter_tool", "awrap_tool_call"),
        ("before_tool_call", "wrap_tool_call"),
        ("on_tool_start", "wrap_tool_call"),
        # Attributes
        ("state_shema", "state_schema"),
        ("need_checkpointer", "needs_checkpointer"),
    ],
)
def test_a_misspelt_name_is_refused_with_the_name_that_was_meant(name: str, meant: str) -> None:
    """wanted 17"""
    value = AgentState if name in ("state_shema", "need_checkpointer") else hook
    middleware = made(**{name: value, "after_model": hook})
    with pytest.raises(SpecError, match=rf"^\[AF105\] .*Did you mean {meant}\?") as caught:
        create_agent(ScriptedChatModel(), middleware=[middleware])
    assert caught.value.subject == f"Mine.{name}"


@each(
    "name, decorator",
    [
        *((prefix + name, name) for name in PHASES + WRAPS for prefix in ("", "a")),
        *zip(FLOWS, WRAPS, strict=True),
    ],
)
def test_a_hook_set_on_an_instance_is_refused_with_its_decorator(name: str, decorator: str) -> None:
    middleware = made()
    setattr(middleware, name, hook)
    (error,) = validate_middleware(middleware)
    assert error.hint == f"Define it in the class, or decorate a function with {decorator}."


@each("wrap_name, flow_name", list(zip(WRAPS, FLOWS, strict=True)))
@each("twin", ["", "a"])
def test_a_flow_and_a_wrap_of_a_call_are_refused(wrap_name: str, flow_name: str, twin: str) -> None:
    with pytest.raises(SpecError, match=rf"^\[AF108\] .*Keep {flow_name} only") as caught:
        build(**{twin + wrap_name: awrap if twin else wrap, flow_name: flow})
    assert twin + wrap_name in caught.value.reason


@each("name", PHASES + WRAPS)
def test_a_function_of_another_kind_is_refused(name: str) -> None:
    plain, coroutine = (hook, ahook) if name in PHASES else (wrap, awrap)
    for method, function, words in (
        (name, coroutine, f"Name it a{name}"),
        (f"a{name}", plain, f"Use `async def`, or name it {name}"),
        (name if name in WRAPS else f"a{name}", generator, "these may be flows: before_agent"),
        (name, async_generator, ""),
    ):
        with pytest.raises(ArgumentError, match=rf"^\[AF107\] .*{words}"):
            build(**{method: function})


def test_a_hook_that_is_a_flow_has_both_forms(call: Any) -> None:
    """Alone, in an agent, from a subclass and from a base that is not a middleware."""

    class Mixin:
        def after_model(self, state: Any, runtime: Any, config: Any = None) -> Any:
            text = yield Invoke(RunnableLambda(str.upper), state["messages"][-1].text)
            return {"jump_to": "end", "messages": [AIMessage(text + config["metadata"]["mark"])]}

    class Base(Mixin, AgentMiddleware):
        pass

    class Plain(Base):
        @hook_config(can_jump_to=["end"])
        def after_model(self, state: Any, runtime: Any, config: Any = None) -> Any:
            return super().after_model(state, runtime, config)

    class Double(Plain):
        def after_model(self, state: Any, runtime: Any, config: Any = None) -> Any:
            return super().after_model(state, runtime, config)

        async def aafter_model(self, state: Any, runtime: Any, config: Any = None) -> Any:
            inherited: Any = super(Plain, self).aafter_model
            return await inherited(state, runtime, config)

    class Flow(Base):
        @hook_config(can_jump_to=["end"])
        def after_model(self, state: Any, runtime: Any, config: Any = None) -> Any:
            return (yield from Mixin.after_model(self, state, runtime, config))

    state: Any = {"messages": [AIMessage("no")]}
    for member in (Plain(), Double(), Flow()):
        update = member.after_model(state, None, {"metadata": {"mark": "!"}})
        assert update["messages"][0].text == "NO!"
        agent = create_agent(ScriptedChatModel(["yes"]), middleware=[member])
        config = {"metadata": {"mark": "?"}}
        assert call(agent, {"messages": "Hi"}, config)["messages"][-1].text == "YES?"


@each("name", PHASES)
def test_a_flow_with_an_async_double_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match=rf"^\[AF108\] .*Keep {name} only") as caught:
        build(**{name: generator, f"a{name}": ahook})
    assert f"a{name}" in caught.value.reason


@each("name", PHASES)
def test_a_hook_that_yields_a_request_is_refused(call: Any, name: str) -> None:
    stack = [made(**{name: generator})]
    agent = create_agent(ScriptedChatModel(["Yes."]), middleware=stack)
    with pytest.raises(BadReturn, match=r"generator: yielded .* no inner layer to call"):
        call(agent, {"messages": "Hi"})


@each("name", FLOWS)
@each("body", [lambda self, request: request, acoroutine, async_generator])
def test_a_flow_that_is_not_a_generator_is_refused(name: str, body: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^\[AF107\] .*yield request"):
        build(**{name: body})


@each("name", [*PHASES, *WRAPS, *FLOWS])
def test_a_hook_that_does_not_take_its_arguments_is_refused(name: str) -> None:
    """wanted 17: a wrong hook signature."""

    def narrow(self: Any) -> Any:
        yield

    bad = narrow if name in FLOWS else (lambda self: None)
    with pytest.raises(ArgumentError, match=r"^\[AF106\]") as caught:
        build(**{name: bad})
    assert caught.value.subject == f"Mine.{name}"
    assert f"def {name}(self, " in caught.value.hint


def test_a_hook_that_is_not_a_function_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"^\[AF106\] .*not a callable"):
        build(before_model=5)


@each("jump", ["END", "finish", None, 3])
def test_an_unknown_jump_is_refused(jump: Any) -> None:
    """A31, wanted 17."""
    declared = hook_config(can_jump_to=[jump])(lambda self, state, runtime: None)
    with pytest.raises(SpecError, match=r"^\[AF110\] .*'end', 'tools', 'model'"):
        build(before_model=declared)


def test_all_errors_of_a_middleware_are_reported_at_once() -> None:
    with pytest.raises(SpecErrors) as caught:
        build(before_modle=hook, after_model=ahook, wrap_tool_call=lambda self: None)
    assert {error.code for error in caught.value.errors} == {"AF105", "AF106", "AF107"}


@each(
    "unused, left",
    [
        ((), ["before_model", "around_tool"]),
        (("before_model",), ["around_tool"]),
        (("before_model", "around_tool"), []),
    ],
)
def test_what_is_unused_is_not_in_the_plan(unused: tuple[str, ...], left: list[str]) -> None:
    mine = made(before_model=hook, abefore_model=ahook, around_tool=flow, unused=unused)
    hooks, layers = hooks_of(mine), layers_of(mine)
    found = [str(b.definition.phase) for b in hooks] + [b.definition.method for b in layers]
    assert found == left


def test_unused_hooks_have_to_be_known() -> None:
    with pytest.raises(SpecError, match=r"^\[AF105\] .*contains 'before_modle', .* before_model,"):
        build(before_model=hook, unused=("before_modle",))
    with pytest.raises(ArgumentError, match=r"Mine\.unused"):
        build(before_model=hook, unused=(1,))


class Noting(AgentState[Any]):
    note: NotRequired[str]


class Bare(TypedDict):
    note: str


@each("where", ["class", "instance"])
@each(
    "name, value",
    [("state", Noting), ("state", Bare), ("schema", Noting), ("state_schemas", Noting)],
)
def test_a_state_schema_under_another_name_is_refused(name: str, value: Any, where: str) -> None:
    middleware = made(before_model=hook, **({name: value} if where == "class" else {}))
    if where == "instance":
        setattr(middleware, name, value)
    with pytest.raises(SpecError, match=r"^\[AF105\].*nothing would read it") as error:
        create_agent(ScriptedChatModel(), middleware=[middleware])
    assert error.value.subject == f"Mine.{name}"
    assert "Did you mean state_schema?" in error.value.hint


ADD = tool(add)


@each("value", [ADD, [ADD], (ADD,)])
def test_tools_under_another_name_are_refused(value: Any) -> None:
    (error,) = validate_middleware(made(before_model=hook, tool=value))
    assert (error.code, error.subject) == ("AF105", "Mine.tool")
    assert "Did you mean tools?" in error.hint


@each("name", ["before_tool", "after_tool"])
def test_a_hook_around_tools_is_explained_as_a_layer(name: str) -> None:
    (error,) = validate_middleware(made(**{name: hook}))
    assert "around each call; the flow around_tool serves sync and async runs" in error.hint


@each(
    "namespace",
    [
        {"before_model": staticmethod(lambda state, runtime: None)},
        {"before_model": classmethod(lambda cls, state, runtime: None)},
        {"before_model": lambda self, *arguments: None},
        {"before_model": lambda self, state, runtime, extra=None: None},
        # Names that do not look like a hook are the author's own.
        *({name: hook} for name in ("befor_model", "_before_modle", "before_lunch", "after_hours")),
        {"before_models": ["a", "b"]},
        {"helper": hook, "tool": hook, "model": 3, "after": hook, "on_error": hook},
        # A schema, or a tool, that the class uses itself
        {"before_model": hook, "schema": AgentState},
        {"before_model": hook, "State": Noting, "state_schema": Noting},
        {"before_model": hook, "answer_schema": Bare},
        {"before_model": hook, "tool": ADD, "tools": [ADD]},
        {"tool": ADD, "wrap_model_call": lambda self, request, handler: handler(request)},
        {"before_model": hook, "tool": []},
    ],
)
def test_a_class_is_accepted(namespace: dict[str, Any]) -> None:
    assert list(validate_middleware(made(**namespace))) == []


def test_tools_as_a_method_are_refused_with_what_to_write() -> None:
    with pytest.raises(ArgumentError, match=r"Mine\.tools: must be .* Decorate .* with @property"):
        build(tools=lambda self: [])


@each(
    "namespace",
    [
        {"tools": [add]},
        {"ordering": Ordering(requires=("Other",))},
        {"expected_tools": ("add",)},
        {"state_schema": type("Own", (AgentState,), {})},
        {"around_tool": flow},
    ],
)
def test_a_middleware_that_declares_something_is_not_empty(namespace: dict[str, Any]) -> None:
    assert not is_empty(made(**namespace))


def test_a_middleware_that_does_nothing_at_all_is_a_warning() -> None:
    with pytest.warns(AgentFactoryWarning, match=r"^\[AF212\] Mine: does nothing"):
        plan_agent(middleware=[made(look=hook)])


IGNORED = ["AF211", "AF212"]  # no review happens here
ASK = {"messages": [("user", "Hello")]}
CALL_ADD = [{"name": "add", "args": {"a": 1, "b": 2}, "id": "1"}]


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
    agent = create_agent(ScriptedChatModel([CALL_ADD, "3"]), [add], middleware=[middleware])
    result = call(agent, ASK)
    assert (last_text(result), tool_results(result)) == ("3", [("3", "success")])
    assert middleware.log == [*MODEL_TURN, "tool wrap", "tool flow", *MODEL_TURN]
    methods = [layer.method for layer in topology_of(agent).layers]
    assert methods == ["wrap_model_call", "wrap_tool_call"]


FORMS = {
    "before_model": (hook, ahook, "before_model"),
    "wrap_model_call": (wrap, awrap, "around_model"),
    "wrap_tool_call": (wrap, awrap, "around_tool"),
}


@each("name", FORMS)
@each("bases", [["flow"], ["pair"], ["pair", "flow"], ["flow", "pair"], ["pair", "other"]])
@each("side", [0, 1])
def test_no_form_of_a_base_class_runs_in_place_of_an_override_of_the_other(
    name: str, bases: list[str], side: int
) -> None:
    func, afunc, flow_name = FORMS[name]
    forms = [{name: func}, {f"a{name}": afunc}]
    kinds: dict[str, dict[str, Any]] = {"pair": forms[0] | forms[1], "other": forms[1 - side]}
    kinds["flow"] = kinds["pair"] if name == flow_name else {flow_name: flow}
    cls: Any = Logged
    for members in (*map(kinds.__getitem__, bases), forms[side]):
        cls = type("Mine", (cls,), members)
    found: list[Any] = [
        *hooks_of(cls()),
        *(b for b in layers_of(cls()) if b.definition.method == name),
    ]
    assert [(b.func is None, b.afunc is None) for b in found] == [(side == 1, side == 0)]


def test_a_flow_that_overrides_wraps_is_the_one_that_runs(call: Any) -> None:
    class FlowAgain(Wrapping):
        def around_model(self, request: Any) -> Any:
            self.log.append("own")
            return (yield from super().around_model(request))

    middleware = FlowAgain()
    call(create_agent(ScriptedChatModel(["Hi"]), middleware=[middleware]), ASK)
    assert middleware.log == ["own", "flow", "end of flow"]


def request_of(text: str = "Hi") -> ModelRequest[Any]:
    return ModelRequest(model=ScriptedChatModel([]), messages=[AIMessage(text)])


def test_wraps_of_a_flow_can_be_called_outside_of_a_run() -> None:
    tool_call: Any = {**CALL_ADD[0], "type": "tool_call"}
    known: Any = {"tool": None, "state": {"messages": []}, "runtime": None}
    answer: Any = ModelResponse(result=[AIMessage("Hello")])
    result: Any = ToolMessage("3", tool_call_id="1")

    async def handler(request: Any) -> Any:
        return answer if isinstance(request, ModelRequest) else result

    async def both() -> Any:
        answered = await middleware.awrap_model_call(request_of(), handler)
        return answered, await middleware.awrap_tool_call(request, handler)

    middleware, request = Logged(), ToolCallRequest(tool_call=tool_call, **known)
    assert middleware.wrap_model_call(request_of(), lambda request: answer) is answer
    assert middleware.wrap_tool_call(request, lambda request: result) is result
    assert asyncio.run(both()) == (answer, result)
    assert middleware.log == ["flow", "end of flow", "tool flow"] * 2


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


def test_an_unused_method_that_a_subclass_or_a_mixin_overrides_is_used(call: Any) -> None:
    calls = []

    class Mine(Configured):
        def before_model(self, state: Any, runtime: Any) -> Any:
            calls.append("hook")

        def around_model(self, request: Any) -> Any:
            calls.append("flow")
            return (yield request)

    class Mixin:
        def before_model(self, state: Any, runtime: Any) -> Any:
            return {"messages": [("user", "Mixed in.")]}

    class Mixed(Mixin, Configured): ...

    agent = create_agent(ScriptedChatModel(["Hi"]), middleware=[Configured(), Mine(), Mixed()])
    assert [m.text for m in call(agent, ASK)["messages"]] == ["Hello", "Mixed in.", "Hi"]
    assert calls == ["hook", "flow"]


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


def test_a_hook_takes_config_store_and_writer_or_the_state_alone(call: Any) -> None:
    @before_model
    def with_config(state: Any, runtime: Any, config: RunnableConfig) -> Any:
        return {"messages": [("user", config["configurable"]["user"])]}

    @before_model
    def alone(state: Any) -> Any:
        return {"messages": [("user", str(len(state["messages"])))]}

    stack = [Reads(), with_config, alone]
    agent = create_agent(ScriptedChatModel(["Hi"]), middleware=stack, store=InMemoryStore())
    texts = [m.text for m in call(agent, ASK, CONFIG)["messages"]]
    assert texts == ["Hello", "Ada, InMemoryStore, Runtime", "Ada", "3", "Hi"]


def test_a_hook_that_takes_the_runtime_by_name_alone_gets_it_so(call: Any) -> None:
    def plain(self: object, state: Any, *, runtime: Any) -> dict[str, Any]:
        return {"messages": [HumanMessage(type(runtime).__name__)]}

    @wraps(lambda self, state, runtime: None)
    def wrapped(self: object, state: Any, *, runtime: Any) -> dict[str, Any]:
        return plain(self, state, runtime=runtime)

    for hook in (plain, wrapped):
        Named: Any = type("Named", (AgentMiddleware,), {"before_model": hook})
        agent = create_agent(ScriptedChatModel(["Done."]), middleware=[Named()])
        assert call(agent, {"messages": "Hi"})["messages"][1].text == "Runtime"


def test_a_coroutine_hook_takes_config() -> None:
    class Late(AgentMiddleware):
        async def abefore_model(  # type: ignore[override]
            self, state: Any, config: RunnableConfig
        ) -> Any:
            return {"messages": [("user", config["configurable"]["user"])]}

    agent = create_agent(ScriptedChatModel(["Hi"]), middleware=[Late()])
    result = asyncio.run(agent.ainvoke({"messages": [HumanMessage("Hello")]}, CONFIG))
    assert result["messages"][1].text == "Ada"


BUILT_INS: list[tuple[type[Any], dict[str, Any], str]] = [
    (m.PIIMiddleware, {"pii_type": "email", "apply_to_output": True}, "after_model"),
    (m.HumanInTheLoopMiddleware, {"interrupt_on": {}, "interrupt_mode": "per_call"}, "after_model"),
    (m.SummarizationMiddleware, {"model": ScriptedChatModel([])}, "before_model"),
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
        call(create_agent(ScriptedChatModel(["Hi"]), middleware=[member], ignore=IGNORED), ASK)
    assert seen == [hook]


class Keeping(Logged):
    kept_flows = ("around_model", "around_tool")


class CallingSuper(Wrapping, Keeping): ...


class NotCallingSuper(Keeping):
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
    class Limited(m.ModelCallLimitMiddleware):
        def before_model(self, state: Any, runtime: Any) -> Any:
            return super().before_model(state, runtime)

        async def abefore_model(self, state: Any, runtime: Any) -> Any:
            return await super().abefore_model(state, runtime)

    limited: Any = Limited(run_limit=1)
    agent = create_agent(ScriptedChatModel([CALL_ADD, "no"]), [add], middleware=[limited])
    assert "used up" in last_text(call(agent, ASK))
