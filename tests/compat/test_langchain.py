"""Classes and functions on langchain's base in a stack: what they get, give, raise and guard."""

from __future__ import annotations

import asyncio
import inspect
import re
import subprocess
import sys
from typing import Any, get_args

import pytest
from families import THEIRS
from langchain_core.messages import AIMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.store.base import BaseStore
from langgraph.types import Command, StreamWriter

import agent_factory as ours
from agent_factory import ToolGuard, before_model, create_agent, middleware, plan_agent, tool_labels
from agent_factory.errors import (
    AgentFactoryWarning,
    ArgumentError,
    BadReturn,
    CommandNotSupported,
    DuplicateMiddleware,
    HookPathNotSupported,
    PathNotSupported,
    SpecError,
    UndeclaredJump,
)
from agent_factory.guarantees import counterexamples
from agent_factory.hooks.langchain_names import PRIVATE_METHODS
from agent_factory.testing import ScriptedChatModel, run_hook, run_layer
from samples import THREAD, call_of, find, refund
from samples import add_tool as add
from tables import each

pytest.importorskip("langchain.agents", reason="the extra peer is not installed")

from langchain.agents import middleware as theirs
from langchain.agents.middleware import human_in_the_loop as reviews
from langchain.agents.middleware import types as their_types
from stack_agents import kept_agent

ASK = {"messages": [("user", "Hi")]}


def agent_of(*members: Any, steps: Any = ("hello",)) -> Any:
    return create_agent(ScriptedChatModel(list(steps)), middleware=members)


ADDING = [[{"name": "add", "args": {"a": 1, "b": 2}, "id": "call_1"}], "3"]


class Loud(theirs.AgentMiddleware[Any, Any]):
    """A sync and async model layer that checks the types it receives."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return self.shout(handler(self.prompted(request)))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return self.shout(await handler(self.prompted(request)))

    def prompted(self, request: Any) -> Any:
        assert type(request) is theirs.ModelRequest
        return request.override(
            system_message=SystemMessage("Shout."), model_settings={"temperature": 0}
        )

    def shout(self, response: Any) -> Any:
        assert type(response) is theirs.ModelResponse
        answer: Any = response.result[0]
        loud = AIMessage(answer.text.upper(), tool_calls=answer.tool_calls)
        return theirs.ModelResponse([loud], structured_response=response.structured_response)


def test_a_model_layer_receives_and_returns_types_of_langchain(alike: Any) -> None:
    seen = alike(lambda: [Loud()], ["hello"])
    messages, _, settings = seen["seen"][0]
    assert messages[0]["content"] == "Shout."
    assert settings == {"temperature": "0"}
    assert seen["state"]["messages"][-1]["content"] == "HELLO"


@THEIRS.layer
def brief(request: Any) -> Any:
    return AIMessage("Short.")
    yield


@THEIRS.layer
def from_nothing(request: Any) -> Any:
    """Call inward with a request that has no state and no runtime."""
    fields: Any = {"model": request.model, "tools": request.tools}
    return (yield theirs.ModelRequest(messages=request.messages[-1:], **fields))


@each("stack", [[brief], [from_nothing], [from_nothing, Loud()]])
def test_other_answers_and_requests_are_understood(alike: Any, stack: list[Any]) -> None:
    alike(lambda: stack, ["hello"])


class Seen(theirs.AgentState[Any]):
    seen: int


def count(request: Any) -> Any:
    command: Any = Command(update={"seen": len(request.messages)})
    return theirs.ExtendedModelResponse((yield request), command)


counting = THEIRS.layer(count, state_schema=Seen)


def test_the_command_of_an_extended_response_is_applied(alike: Any) -> None:
    assert alike(lambda: [counting], ADDING, tools=[add])["state"]["seen"] == "3"


def cache(request: Any) -> Any:
    if request.tool_call["args"]["a"] == 1:
        return ToolMessage("cached", tool_call_id=request.tool_call["id"])
    return Command(update={"messages": [(yield request)]})


@each("a", [1, 2])
def test_tool_layers_are_called_with_the_request_of_langgraph(alike: Any, a: int) -> None:
    steps = [[{"name": "add", "args": {"a": a, "b": 2}, "id": "call_1"}], "Done."]
    seen = alike(lambda: [THEIRS.layer(cache, "tool")], steps, tools=[add])
    assert seen["state"]["messages"][2]["content"] == ("cached" if a == 1 else "4")


class Injected(theirs.AgentMiddleware[Any, Any]):
    """Names what it wants among its parameters, as LangGraph's nodes may."""

    def before_agent(self, state: Any) -> None:  # type: ignore[override]
        assert state["messages"]

    def before_model(self, state: Any, config: RunnableConfig) -> None:  # type: ignore[override]
        assert config["configurable"]["thread_id"] == "1"

    def after_model(self, state: Any, runtime: Any, store: BaseStore, writer: StreamWriter) -> None:  # type: ignore[override]
        assert store is None
        assert callable(writer)
        assert runtime.context is None


def test_hooks_get_what_they_name_among_their_parameters(alike: Any) -> None:
    alike(lambda: [Injected()], ["hello"])


class Stopping(theirs.AgentMiddleware[Any, Any]):
    tools = (add,)

    def __init__(self) -> None:
        """Calls no __init__ above it, as many do not."""

    @theirs.hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> Any:
        if len(state["messages"]) > 1:
            return {"jump_to": "end", "messages": [AIMessage("Enough.")]}
        return None


def test_declared_jumps_and_tools_of_a_class_are_the_agents(alike: Any) -> None:
    assert alike(lambda: [Stopping()], ADDING)["state"]["messages"][-1]["content"] == "Enough."


def decorated() -> list[Any]:
    @theirs.before_model(can_jump_to=["end"])
    def check(state: Any, runtime: Any) -> Any:
        return {"jump_to": "end"} if len(state["messages"]) > 9 else None

    @theirs.dynamic_prompt
    def prompt(request: Any) -> str:
        return f"{len(request.messages)} so far."

    @theirs.after_agent
    def sign(state: Any, runtime: Any) -> Any:
        return {"messages": [AIMessage("Bye.")]}

    return [check, prompt, sign]


def test_what_their_decorators_make_is_a_member(alike: Any) -> None:
    seen = alike(decorated, ADDING, tools=[add])
    assert seen["seen"][1][0][0]["content"] == "3 so far."
    assert seen["state"]["messages"][-1]["content"] == "Bye."


def test_members_of_both_families_stand_in_any_order(call: Any) -> None:
    trail: list[str] = []

    class Inner(ours.AgentMiddleware):
        def around_model(self, request: Any) -> Any:
            assert isinstance(request, ours.ModelRequest)
            trail.append(f"{self.name} {request.system_prompt}")
            response = yield request
            assert isinstance(response, ours.ModelResponse)
            return response

    stack: list[Any] = [
        Inner(name="first"),
        Loud(),
        Inner(name="second"),
        counting,
        Inner(name="third"),
    ]
    done = call(agent_of(*stack), ASK)
    assert trail == ["first None", "second Shout.", "third Shout."]
    assert done["messages"][-1].text == "HELLO"
    assert done["seen"] == 1


def test_an_ordering_can_name_a_langchain_class() -> None:
    class Guard(ours.AgentMiddleware):
        ordering = ours.Ordering(before=("Loud",))

    class Louder(Loud): ...

    with pytest.warns(ours.AgentFactoryWarning, match="Guard belongs outside of Louder"):
        plan_agent(middleware=[Louder(), Guard()])


def test_a_missing_variant_is_named_with_its_class() -> None:
    class OneMode(theirs.AgentMiddleware[Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request)

    assert agent_of(OneMode()).invoke(ASK)["messages"][-1].text == "hello"

    class OneOverride(theirs.ModelRetryMiddleware):  # LangChain's asynchronous run skips it
        wrap_model_call = OneMode.wrap_model_call

    for kind in (OneMode, OneOverride):
        with pytest.raises(PathNotSupported, match=rf"{kind.__name__}: has no awrap_model_call"):
            asyncio.run(agent_of(kind()).ainvoke(ASK))

    @theirs.wrap_model_call
    async def prefix(request: Any, handler: Any) -> Any:
        return await handler(request)

    with pytest.raises(PathNotSupported, match=r"prefix: has no wrap_model_call"):
        agent_of(prefix).invoke(ASK)

    class Late(theirs.AgentMiddleware[Any, Any]):
        async def abefore_model(self, state: Any, runtime: Any) -> None: ...

    with pytest.raises(HookPathNotSupported, match=r"Late\.abefore_model"):
        agent_of(Late()).invoke(ASK)


def test_mistakes_are_found_by_name_when_an_agent_is_built() -> None:
    class Greedy(theirs.AgentMiddleware[Any, Any]):
        def before_model(self, state: Any, runtime: Any, more: Any) -> None:  # type: ignore[override]
            ...

    with pytest.raises(ArgumentError, match=r"^\[AF106\] .*Greedy\.before_model"):
        agent_of(Greedy())
    with pytest.raises(
        ArgumentError, match=r"^\[AF102\] .*must be an instance, got the class Loud"
    ):
        agent_of(Loud)
    with pytest.raises(DuplicateMiddleware, match=r"class FirstLoud\(Loud\)"):
        plan_agent(middleware=[Loud(), Loud()])


@each(
    "returned, error",
    [
        ("text", BadReturn),
        (theirs.ModelResponse("text"), BadReturn),  # type: ignore[arg-type]
        (
            theirs.ExtendedModelResponse(
                theirs.ModelResponse([AIMessage("a")]), Command(goto="model")
            ),
            CommandNotSupported,
        ),
    ],
)
def test_what_a_layer_may_not_return_is_refused_by_name(returned: Any, error: Any) -> None:
    def odd(request: Any) -> Any:
        yield request
        return returned

    with pytest.raises(error, match=r"odd\.wrap_model_call"):
        agent_of(THEIRS.layer(odd)).invoke(ASK)


def test_a_jump_that_would_be_lost_elsewhere_is_refused_here() -> None:
    @theirs.before_model
    def jumps(state: Any, runtime: Any) -> Any:
        return {"jump_to": "end"}

    with pytest.raises(UndeclaredJump, match=r"before_model"):
        agent_of(jumps).invoke(ASK)


def test_the_test_kit_takes_them() -> None:
    stopping, loud = Stopping(), Loud()
    assert run_hook(stopping, "before_model", ["a", "b"])["jump_to"] == "end"  # type: ignore[arg-type]
    assert run_layer(loud, handler="quiet").response.result[0].text == "QUIET"  # type: ignore[arg-type]


@pytest.mark.long
def test_nothing_of_langchain_is_loaded_for_an_agent_without_it() -> None:
    code = (
        "import sys; from agent_factory import create_agent; "
        "from agent_factory.middleware import TodoListMiddleware; "
        "from agent_factory.testing import ScriptedChatModel; "
        "create_agent(ScriptedChatModel(['a']), middleware=[TodoListMiddleware()]).invoke("
        "{'messages': [('user', 'Hi')]}); "
        "print([name for name in sys.modules if name.split('.')[0] == 'langchain'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_their_base_is_where_it_is_looked_for() -> None:
    """The names by which their types are known, here and in agent_factory/foreign_values.py."""
    assert theirs.AgentMiddleware.__module__ == their_types.__name__
    assert theirs.ModelRequest.__module__ == their_types.__name__
    assert type(their_types.PrivateStateAttr).__name__ == ours.OmitFromSchema.__name__


@each(
    "name, meant",
    [
        ("before_modle", "before_model"),
        ("beforeModel", "before_model"),
        ("awrap_modelcall", "awrap_model_call"),
        ("state_shema", "state_schema"),
    ],
)
def test_a_misspelt_hook_is_refused_as_in_our_own_classes(name: str, meant: str) -> None:
    value = ours.AgentState if name == "state_shema" else lambda self, state, runtime: None
    made = type("Mine", (theirs.AgentMiddleware,), {name: value})()
    with pytest.raises(SpecError, match=rf"^\[AF105\] Mine\.{name}: .*Did you mean {meant}\?"):
        agent_of(made)
    assert agent_of(type("Derived", (Loud,), {"_before_modle": value})())


def test_a_middleware_that_does_nothing_is_reported() -> None:
    class Nothing(theirs.AgentMiddleware[Any, Any]):
        """No hooks."""

    class Counts(ours.AgentState[Any]):
        count: int

    class Keyed(theirs.AgentMiddleware[Any, Any]):
        state_schema = Counts

    with pytest.warns(AgentFactoryWarning, match=r"\[AF212\] Nothing: does nothing") as caught:
        agent_of(Nothing(), Loud(), Keyed())
    assert len(caught) == 1
    assert len(caught[0].message.warnings) == 1  # type: ignore[union-attr]


MODES = ["batched", "per_call"]
PLACES = {"batched": "after_model", "per_call": "around_tool"}


def is_large(request: Any) -> bool:
    return bool(request.tool_call["args"]["euros"] > 50)


@before_model(can_jump_to=["tools"])
def shortcut(state: Any, runtime: Any) -> dict[str, Any] | None:
    """Pay at once, around the model."""
    if len(state["messages"]) > 1:
        return None
    return {
        "messages": [AIMessage("", tool_calls=[call_of("refund", euros=60)])],
        "jump_to": "tools",
    }


@each("mode", MODES)
def test_a_review_says_what_it_decides_about(mode: Any) -> None:
    config: Any = {"allowed_decisions": ["reject", "approve"], "when": is_large}
    review = theirs.HumanInTheLoopMiddleware(
        {"refund": config, "search": False, "pay": True}, interrupt_mode=mode
    )
    place: Any = PLACES[mode]
    options: Any = {"place": place, "owner": "HumanInTheLoopMiddleware"}
    options |= {"decides_again": mode == "batched"}
    assert plan_agent(tools=[refund], middleware=[review], ignore=["AF210"]).guards == (
        ToolGuard("refund", "ask", "is_large()", decisions=("approve", "reject"), **options),
        ToolGuard("pay", "ask", **options),
    )
    with pytest.warns(AgentFactoryWarning, match="asks about no tool"):
        plan_agent(tools=[refund], middleware=[theirs.HumanInTheLoopMiddleware({"refund": False})])
    # All decisions of langchain are all of ours.
    every = [*get_args(reviews.DecisionType)]
    review = theirs.HumanInTheLoopMiddleware({"refund": {"allowed_decisions": every}})
    (guard,) = plan_agent(tools=[refund], middleware=[review]).guards
    assert guard.decisions == ()


@each(
    "retry, unit",
    [
        (theirs.ModelRetryMiddleware(max_retries=2), "model calls"),
        (theirs.ToolRetryMiddleware(max_retries=2), "tool calls"),
        (theirs.ModelFallbackMiddleware(*[ScriptedChatModel([])] * 2), "model calls"),
    ],
)
def test_attempts_count(retry: Any, unit: Any) -> None:
    class Counts(ours.AgentMiddleware):
        limits = (ours.UsageLimit(1, unit),)
        most = ours.hook_config(can_jump_to=["end"])(lambda self, state, runtime: None)
        before_model = after_model = most

        def around_tool(self, request: Any) -> Any:
            return (yield request)

    plan = plan_agent(tools=[refund], middleware=[Counts(), retry])
    assert {layer.attempts for layer in plan.layers if layer.owner == retry.name} == {3}
    (no,) = counterexamples(plan, [f"at most 1 {unit} a run"])
    assert "attempts" in no.reason


@each("mode", MODES)
def test_guarantees_rely_on_a_review_and_it_closes_the_way_out(mode: Any) -> None:
    """A build warns where text of others can send private data out."""
    review = theirs.HumanInTheLoopMiddleware({"refund": True}, interrupt_mode=mode)
    plan = plan_agent(tools=[refund], middleware=[review])
    sentences = ["tool refund passes a person", "tool refund passes HumanInTheLoopMiddleware"]
    assert counterexamples(plan, sentences) == ()
    bring = tool_labels("untrusted", "private")(tool(find))
    send = tool_labels("outside")(tool(refund))
    with pytest.warns(AgentFactoryWarning, match="AF219"):
        plan_agent(tools=[bring, send])
    plan_agent(tools=[bring, send], middleware=[review])  # a warning would be an error


def test_a_build_refuses_a_jump_around_a_review_of_turns() -> None:
    review = theirs.HumanInTheLoopMiddleware({"refund": True})
    with pytest.raises(SpecError, match="in a hook that a jump bypasses") as error:
        plan_agent(tools=[refund], middleware=[shortcut, review])
    assert error.value.code == "AF129"


@each("mode", MODES)
def test_what_a_review_says_is_what_it_does(mode: Any) -> None:
    """After a jump to the tools: it asks where it has said that no call bypasses it."""
    review = theirs.HumanInTheLoopMiddleware({"refund": True}, interrupt_mode=mode)
    agent = kept_agent(["Done."], shortcut, review, tools=[refund], ignore=["AF129"])
    agent.invoke({"messages": [("user", "Pay.")]}, THREAD)
    assert bool(agent.get_state(THREAD).interrupts) == (PLACES[mode] == "around_tool")


@each(
    "make",
    [
        lambda name: theirs.HumanInTheLoopMiddleware({name: True}),
        lambda name: theirs.ToolCallLimitMiddleware(tool_name=name, run_limit=1),
    ],
)
def test_a_misspelt_tool_is_refused(make: Any) -> None:
    with pytest.raises(SpecError, match="Write 'refund'") as error:
        plan_agent(tools=[refund], middleware=[make("refnud")])
    assert error.value.code == "AF124"
    with pytest.warns(AgentFactoryWarning, match="AF210.*has no such tool"):
        plan_agent(tools=[refund], middleware=[make("send_email")])


@each("base", [theirs.HumanInTheLoopMiddleware, theirs.ToolCallLimitMiddleware])
def test_a_subclass_with_a_constructor_of_its_own_says_nothing(base: Any) -> None:
    subclass: Any = type("Own", (base,), {"__init__": lambda self: None, "name": "Own"})
    assert plan_agent(tools=[refund], middleware=[subclass()]).guards == ()


def test_overrides_of_private_methods_that_our_class_lacks_are_refused() -> None:
    names: dict[str, str] = {}
    for name in filter(re.compile("[A-Z].*(Middleware|Emulator)$").match, middleware.__all__):
        their_class, our_class = getattr(theirs, name, object), getattr(middleware, name)
        private = {
            method
            for base in their_class.__mro__
            if base.__module__.startswith("langchain.") and base is not theirs.AgentMiddleware
            for method, value in vars(base).items()
            if re.fullmatch("_[^_].*", method)
            and (inspect.isroutine(value) or isinstance(value, property))
        }
        if missing := sorted(method for method in private if not hasattr(our_class, method)):
            names[name] = " ".join(missing)
    assert names == PRIVATE_METHODS

    class Checked(middleware.HumanInTheLoopMiddleware):
        def _process_decision(self, *_: Any) -> Any: ...

    pattern = (
        r"^\[AF105\] Own\._process_decision.*Override after_model or around_tool.* interrupt_on"
    )
    with pytest.raises(SpecError, match=pattern):
        plan_agent(middleware=[type("Own", (Checked,), {})({})])
