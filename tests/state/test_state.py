"""The state of an agent: its schemas, and who passes in, sees, changes and gets back its keys."""

from __future__ import annotations

import operator
from types import new_class
from typing import Annotated, Any, Generic, NotRequired, Optional, Required

import pytest
from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.channels import EphemeralValue, LastValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import add_messages
from langgraph.managed import IsLastStep, RemainingSteps
from langgraph.types import Command
from pydantic import BaseModel
from stack_agents import agent_of, kept_agent
from typing_extensions import TypedDict, TypeVar

from agent_factory import (
    AgentFactoryWarning,
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    OmitFromInput,
    OmitFromOutput,
    OmitFromSchema,
    PrivateStateAttr,
    create_agent,
    hook_config,
)
from agent_factory.errors import ArgumentError, SpecError, UnknownStateKey
from agent_factory.testing import ScriptedChatModel
from agent_factory.topology import Phase
from samples import THREAD, Answer, Count, Naming, add, add_tool, greeting_agent, show
from tables import each

GO = {"messages": "Go"}


class Views(AgentState):
    plain: NotRequired[str]
    not_in: NotRequired[Annotated[str, OmitFromInput]]
    not_out: NotRequired[Annotated[str, OmitFromOutput]]
    private: NotRequired[Annotated[str, PrivateStateAttr]]
    own: NotRequired[Annotated[str, OmitFromSchema(input=False, output=True)]]


class Managed(AgentState):
    remaining_steps: NotRequired[RemainingSteps]
    is_last_step: NotRequired[IsLastStep]


class Marked(AgentState):
    before: NotRequired[Annotated[int, PrivateStateAttr, operator.add]]
    after: NotRequired[Annotated[int, operator.add, PrivateStateAttr]]
    gone: NotRequired[Annotated[int, PrivateStateAttr, EphemeralValue]]


class Writer(AgentMiddleware[Any, Any]):
    """Writes some updates one after another, and keeps the states that it saw."""

    def __init__(self, schema: Any, *updates: Any, name: str = "M") -> None:
        super().__init__(name=name)
        self.state_schema = schema
        self.pending = list(updates)
        self.seen: list[dict[str, Any]] = []

    def before_model(self, state: Any, runtime: Any) -> Any:
        self.seen.append(dict(state))
        return self.pending.pop(0) if self.pending else None

    def after_model(self, state: Any, runtime: Any) -> Any:
        return self.before_model(state, runtime)

    def after_agent(self, state: Any, runtime: Any) -> None:
        self.seen.append(dict(state))


# Views


def test_each_mark_hides_its_side_also_in_the_schemas(call: Any) -> None:
    """D38, A32: what a caller may not pass in is dropped, what it may not see is kept inside."""
    writer = Writer(Views, {"private": "kept", "not_in": "written"})
    given = {**GO, "plain": "p", "not_in": "forged", "not_out": "o", "private": "forged"}
    done = call(greeting_agent(writer), {**given, "own": "own", "jump_to": "end"})
    assert done["messages"][-1].text == "Hello"
    assert {k: v for k, v in done.items() if k != "messages"} == {"plain": "p", "not_in": "written"}
    first, *_, last = writer.seen
    assert set(first) == {"messages", "plain", "not_out", "own"}
    assert (last["not_out"], last["private"]) == ("o", "kept")

    views = greeting_agent(Writer(Views))
    assert set(views.get_input_jsonschema()["properties"]) == set(first)
    assert set(views.get_output_jsonschema()["properties"]) == {
        "messages",
        "structured_response",
        "plain",
        "not_in",
    }


class Open(AgentState):
    private: NotRequired[str]


@pytest.mark.parametrize("stack", [[Views, Open], [Open, Views]])
def test_a_key_that_one_hides_stays_hidden(stack: list[Any]) -> None:
    """D41: also if others declare it, before or after."""
    both = greeting_agent(*(Writer(schema, name=schema.__name__) for schema in stack))
    assert "private" not in both.get_input_jsonschema()["properties"]
    assert "private" not in both.get_output_jsonschema()["properties"]


def test_a_mark_does_not_take_the_reducer_away(call: Any) -> None:
    """D39: wherever it stands in the annotation."""
    one = {"before": 1, "after": 1, "gone": 1}
    writer = Writer(Marked, one, {"before": 1, "after": 1})
    call(greeting_agent(writer), GO)
    last = writer.seen[-1]
    assert (last["before"], last["after"]) == (2, 2)
    assert "gone" not in last


# Managed values


def test_managed_values_are_seen_by_hooks_alone(call: Any) -> None:
    """D40: they are in no view, and nobody writes them."""
    writer = Writer(Managed)
    result = call(greeting_agent(writer), {**GO, "remaining_steps": 3}, {"recursion_limit": 10})
    assert set(result) == {"messages"}
    steps = [state["remaining_steps"] for state in writer.seen]
    assert steps == sorted(steps, reverse=True)
    assert steps[0] == 9
    assert writer.seen[0]["is_last_step"] is False
    with pytest.raises(UnknownStateKey):
        call(greeting_agent(Writer(Managed, {"remaining_steps": 1})), GO)


# Keys that nobody declared


def test_a_hook_or_a_layer_that_writes_an_unknown_key_is_refused(call: Any) -> None:
    class Layer(AgentMiddleware):
        def around_model(self, request: Any) -> Any:
            return ExtendedModelResponse((yield request), Command(update={"nmae": "Ada"}))

    with pytest.raises(UnknownStateKey) as caught:
        call(greeting_agent(Writer(Naming, {"nmae": "Ada"})), GO)
    assert caught.value.subject == "M.before_model"
    assert "'nmae'" in caught.value.reason
    with pytest.raises(UnknownStateKey, match="'nmae'"):
        call(greeting_agent(Layer()), GO)


# A structured answer belongs to its run


class Stops(AgentMiddleware):
    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> Any:
        return {"jump_to": "end"} if len(state["messages"]) > 3 else None


def test_an_answer_of_an_earlier_turn_is_not_shown_again(call: Any) -> None:
    """A21: also where the turn ends before the model is asked."""
    model = ScriptedChatModel([[{"name": "Answer", "args": {"a": 1}}]])
    keeper = kept_agent(model, Stops(), response_format={"title": "Answer", "type": "object"})
    assert call(keeper, GO, THREAD)["structured_response"] == {"a": 1}
    assert call(keeper, GO, THREAD).get("structured_response") is None


def state(**keys: Any) -> Any:
    """A schema with these keys, of which only messages are required."""
    annotations = {key: t if key == "messages" else NotRequired[t] for key, t in keys.items()}
    return new_class(
        "State", (AgentState,), {}, lambda names: names.update(__annotations__=annotations)
    )


class Counting(AgentState):
    count: NotRequired[Annotated[int, operator.add]]


class Bare(TypedDict):
    extra: NotRequired[int]


# Merging


def test_keys_of_all_schemas_make_one_state(call: Any) -> None:
    """A37: those of every middleware, and the agent's own."""
    stack = [Writer(Counting, {"count": 2}, {"count": 3}), Writer(Bare, name="B")]
    result = call(
        greeting_agent(*stack, state_schema=Naming), {**GO, "name": "Ada", "extra": 1, "count": 1}
    )
    assert {key: result[key] for key in ("name", "extra", "count")} == {
        "name": "Ada",
        "extra": 1,
        "count": 6,
    }


class Folded(AgentState[Any]):
    """Its reducer is created each time its annotations, which are strings here, are evaluated."""

    log: NotRequired[Annotated[list[str], lambda old, new: [*old, *new]]]


class Longer(Folded):
    more: NotRequired[str]


@each("own", [None, Folded, Longer])
def test_a_key_is_shared_by_those_who_agree_on_it(call: Any, own: Any) -> None:
    """D41"""
    stack = [Writer(Folded, {"log": [name]}, name=name) for name in "ABC"]
    assert call(greeting_agent(*stack, state_schema=own), GO)["log"] == ["A", "B", "C"]


Text = state(name=bytes)
Otherwise = state(count=Annotated[int, operator.mul])
MaybeInt = state(name=int | None)
MaybeText = state(name=str | None)
Ints = state(name=list[int])
Texts = state(name=list[str])
Items = state(name=list)
Lasting = state(name=Annotated[str, LastValue(str)])
Fleeting = state(name=Annotated[str, EphemeralValue(str)])
Perhaps = state(name=Optional[int])  # noqa: UP045  # the other spelling
Anything = state(name=Any)


@each(
    "one, other, key",
    [(Counting, Count, "count"), (Counting, Otherwise, "count"), (Lasting, Fleeting, "name")],
)
def test_schemas_that_disagree_on_a_reducer_are_refused(one: Any, other: Any, key: str) -> None:
    """A37: on whether there is a reducer or a channel, and on which one."""
    with pytest.raises(SpecError, match=r"^\[AF115\]") as caught:
        greeting_agent(Writer(one, name="A"), Writer(other, name="B"), state_schema=Bare)
    assert caught.value.subject == f"state key {key!r}"
    assert " in A, and " in caught.value.reason
    assert "state_schema=" in caught.value.hint


@each("ours", [True, False])
@each("one, other", [(Naming, Text), (MaybeText, Naming), (MaybeInt, MaybeText), (Ints, Texts)])
def test_schemas_that_disagree_on_a_type_alone_are_a_warning(
    call: Any, one: Any, other: Any, ours: bool
) -> None:
    """In a run they agree, as `str | None` and `str` do."""
    stack = [Writer(one, name="A"), Writer(other, {"name": "ada"}, name="B")]
    with pytest.warns(AgentFactoryWarning, match=r"^\[AF215\] state key 'name'.* in A, and "):
        agent = greeting_agent(*stack, state_schema=Bare if ours else None)
    assert call(agent, GO)["name"] == "ada"
    with pytest.raises(SpecError, match="AF215"):
        greeting_agent(*stack, strict=True)
    greeting_agent(*stack, strict=True, ignore=["AF215"])


class Named(AgentState):
    name: Required[str]


def test_schemas_that_disagree_on_whether_a_key_is_required_agree(call: Any) -> None:
    stack = [Writer(Naming, name="A"), Writer(Named, {"name": "ada"}, name="B")]
    assert call(greeting_agent(*stack, strict=True), GO)["name"] == "ada"


@pytest.mark.parametrize(("one", "other"), [(Counting, Count), (Otherwise, Counting)])
def test_the_schema_of_the_agent_has_the_last_word(call: Any, one: Any, other: Any) -> None:
    """On the type and on the reducer, also if the middleware disagree with each other."""
    for schema, count in (Counting, 6), (Count, 3), (Otherwise, 0):
        stack = [Writer(one, {"count": 2}, name="A"), Writer(other, {"count": 3}, name="B")]
        made = greeting_agent(*stack, state_schema=schema)
        assert call(made, {**GO, "count": 1})["count"] == count


@each("one, other", [(Naming, Anything), (Ints, Items), (MaybeInt, Perhaps), (Ints, Ints)])
def test_what_one_leaves_open_agrees(call: Any, one: Any, other: Any) -> None:
    """D41: Any, a list of whatever, the same union in another spelling."""
    value = object()
    stack = [Writer(one, {"name": value}, name="A"), Writer(other, name="B")]
    assert call(greeting_agent(*stack, strict=True), GO)["name"] is value


def joined(old: list[AnyMessage] | None, new: Any) -> list[AnyMessage]:
    return [*(old or []), *(new if isinstance(new, list) else [HumanMessage(new)])]


class OwnReducer(TypedDict):
    messages: Annotated[list[AnyMessage], joined]


def test_a_middleware_may_define_its_own_reducer_of_messages(call: Any) -> None:
    """A37: a schema that only inherits the key does not take it back."""
    folding = greeting_agent(Writer(OwnReducer), Writer(Naming, name="N"))
    assert [m.text for m in call(folding, GO)["messages"]] == ["Go", "Hello"]
    assert folding.builder.channels["messages"].operator is joined


OwnAnswer = state(structured_response=dict[str, Any])


def test_a_type_for_the_structured_answer_agrees_with_the_standard(call: Any) -> None:
    format_ = {"title": "Answer", "type": "object"}
    model = ScriptedChatModel([[{"name": "Answer", "args": {"a": 1}}]])
    typed = create_agent(model, state_schema=OwnAnswer, response_format=format_)
    assert call(typed, GO)["structured_response"] == {"a": 1}


T = TypeVar("T")


class Boxed(AgentState, Generic[T]):
    box: NotRequired[T]


def test_a_generic_schema_serves(call: Any) -> None:
    """A37: with and without its argument."""
    for schema in (Boxed, Boxed[int]):
        assert call(greeting_agent(state_schema=schema), {**GO, "box": 1})["box"] == 1


# What a schema may be


class Model(BaseModel):
    messages: Annotated[list[AnyMessage], add_messages]


class Unreadable(AgentState):
    x: NotRequired[Missing]  # type: ignore[name-defined]  # noqa: F821  # on purpose


Engine = state(loop_relay=int)
WrongReducer = state(total=Annotated[int, lambda a: a])
OwnJump = state(jump_to=int)
FoldedAnswer = state(structured_response=Annotated[list[Any], operator.add])
ForgetfulMessages = state(messages=list[AnyMessage])
AppendedMessages = state(messages=Annotated[list[AnyMessage], operator.add])
ReplacedMessages = state(messages=Annotated[list[AnyMessage], lambda old, new: new])
LastMessages = state(messages=Annotated[list[AnyMessage], lambda old, new: [*old, *new][-1:]])
NO_STATES = [Model, 3, dict, Unreadable, Engine, WrongReducer]
REDEFINED = [
    *(OwnJump, FoldedAnswer, ForgetfulMessages, AppendedMessages),
    *(ReplacedMessages, LastMessages),
]


@each("schema", [*NO_STATES, *REDEFINED])
def test_what_cannot_be_a_state_is_refused(schema: Any) -> None:
    """A32, D15, D39: by name, in every schema; a jump lives for one step, messages are added."""
    for options in ({"state_schema": schema}, {"middleware": [Writer(schema)]}):
        with pytest.raises(ArgumentError, match=r"^\[AF114\]"):
            create_agent(ScriptedChatModel([]), **options)


# The agent's own keys


@each("fused", [False, True, "turn"])
def test_the_keys_of_the_engine_are_not_shown(collect: Any, fused: Any) -> None:
    """Signals of parallel tools and the count of retries are written here."""
    both = [{"name": "show", "args": {"text": text}} for text in "ab"]
    wrong = [{"name": "Answer", "args": {"number": "many"}}, *both]
    model = ScriptedChatModel([wrong, [{"name": "Answer", "args": {"number": 1}}]])
    agent: Any = kept_agent(model, tools=[show, add_tool], response_format=Answer, fused=fused)
    modes = ["values", "updates", "checkpoints"]
    shown: list[Any] = collect(agent, GO, THREAD, stream_mode=modes)
    keys = {key for mode, chunk in shown if mode == "values" for key in chunk}
    assert keys == {"messages", "structured_response"}
    shown += [agent.get_state(THREAD), *agent.get_state_history(THREAD)]
    shown += [agent.get_input_jsonschema(), agent.get_output_jsonschema()]
    shown += [agent.get_context_jsonschema(), agent.get_graph().to_json()]
    model.assert_done()
    assert len(shown) > 10
    assert not [value for value in shown if "loop_" in str(value)]


def test_agents_with_the_same_schemas_share_a_state() -> None:
    class Counting(AgentState):
        count: NotRequired[int]

    def built(**options: Any) -> Any:
        agent: Any = create_agent(ScriptedChatModel(), state_schema=Counting, **options)
        return agent.builder

    first, second = built(), built(name="second")
    assert first.state_schema is second.state_schema
    assert first.input_schema is second.input_schema
    assert built(tools=[add_tool]).state_schema is not first.state_schema


TODOS: Any = {"messages": [("user", "Go")], "todos": ["walk"], "seen": {"a": 1}}
STEPS: list[Any] = [[{"name": "add", "args": {"a": 1, "b": 2}}], "Done"]


class Todos(AgentState):
    todos: NotRequired[list[str]]
    seen: NotRequired[dict[str, int]]


def meddle(state: Any) -> None:
    state["messages"].append(HumanMessage("smuggled"))
    state["todos"].append("smuggled")
    state["seen"]["smuggled"] = 2


class Meddler(AgentMiddleware[Any, Any]):
    state_schema = Todos


def node_hook(phase: Phase) -> Any:
    def hook(self: Any, state: Any, runtime: Any) -> None:
        meddle(state)

    return {phase.value: hook}


def model_layer(self: Any, request: Any) -> Any:
    meddle(request.state)
    request.tools.clear()
    return (yield request.override(tools=[], messages=[HumanMessage("Go")]))


def model_messages(self: Any, request: Any) -> Any:
    request.messages.append(HumanMessage("smuggled"))
    request.model_settings["smuggled"] = True
    return (yield request.override(model_settings={}))


def tool_layer(self: Any, request: Any) -> Any:
    meddle(request.state)
    request.tool_call["args"]["smuggled"] = True
    result = yield request
    meddle(request.runtime.state)
    return result


CULPRITS = [
    *map(node_hook, Phase),
    {"around_model": model_layer},
    {"around_model": model_messages},
    {"around_tool": tool_layer},
]


@each("fused", [False, True, "turn"])
@each("checkpointer", [False, True])
@each("culprit", CULPRITS, ids=lambda c: next(iter(c.values())).__name__)
def test_a_change_in_place_does_not_reach_the_thread(
    call: Any, fused: Any, checkpointer: bool, culprit: dict[str, Any]
) -> None:
    seen: list[Any] = []

    class Witness(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> None:
            seen.append(str(state))

        def after_agent(self, state: Any, runtime: Any) -> None:
            seen.append(str(state))

    made = type("Made", (Meddler,), culprit)
    agent: Any = create_agent(
        ScriptedChatModel(STEPS),
        [add],
        middleware=[made(name="a"), Witness(), made(name="b")],
        checkpointer=InMemorySaver() if checkpointer else None,
        fused=fused,
    )
    result = call(agent, TODOS, THREAD if checkpointer else None)
    assert "smuggled" not in str(result)
    assert [m.type for m in result["messages"]] == ["human", "ai", "tool", "ai"]
    assert len(seen) == 3
    assert "smuggled" not in str(seen)
    if checkpointer:
        assert "smuggled" not in str([*agent.get_state_history(THREAD)])


@each("fused", [False, True, "turn"])
def test_layers_around_parallel_calls_have_states_of_their_own(call: Any, fused: Any) -> None:
    class Appends(Meddler):
        def around_tool(self, request: Any) -> Any:
            for key in ("messages", "todos"):
                request.state[key].append(HumanMessage("smuggled"))
            assert [str(request.state).count("smuggled")] == [2]
            return (yield request)

    agent: Any = agent_of([STEPS[0] * 3, "Done"], Appends(), tools=[add], fused=fused)
    assert "smuggled" not in str(call(agent, TODOS))
