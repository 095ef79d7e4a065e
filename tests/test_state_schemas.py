"""State schemas: how they become one, and what they may not say."""

from __future__ import annotations

import operator
from types import new_class
from typing import Annotated, Any, Generic, NotRequired, Optional, Required

import pytest
from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.channels import EphemeralValue, LastValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import add_messages
from pydantic import BaseModel
from typing_extensions import TypedDict, TypeVar

from agent_factory import AgentFactoryWarning, AgentMiddleware, AgentState, create_agent
from agent_factory.errors import ArgumentError, SpecError
from agent_factory.testing import ScriptedChatModel
from samples import Answer, Count, Naming, add_tool, greeting_agent, show
from tables import each

THREAD: Any = {"configurable": {"thread_id": "1"}}

GO = {"messages": "Go"}


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


class Writer(AgentMiddleware[Any, Any]):
    """Writes some updates one after another."""

    def __init__(self, schema: Any, *updates: Any, name: str = "M") -> None:
        super().__init__(name=name)
        self.state_schema = schema
        self.pending = list(updates)

    def before_model(self, state: Any, runtime: Any) -> Any:
        return self.pending.pop(0) if self.pending else None

    def after_model(self, state: Any, runtime: Any) -> Any:
        return self.before_model(state, runtime)


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


def test_a_key_is_shared_by_those_who_agree_on_it(call: Any) -> None:
    """D41"""
    stack = [Writer(Counting, {"count": 1}, name=name) for name in "ABC"]
    assert call(greeting_agent(*stack, state_schema=Counting), GO)["count"] == 3


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
    [
        (Counting, Count, "count"),
        (Counting, Otherwise, "count"),
        (Lasting, Fleeting, "name"),
    ],
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


def test_the_schema_of_the_agent_decides_on_a_type() -> None:
    made = greeting_agent(
        Writer(Naming, name="A"), Writer(Text, name="B"), state_schema=MaybeInt, strict=True
    )
    assert made.get_output_jsonschema()["properties"]["name"]["anyOf"][0] == {"type": "integer"}


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
    agent: Any = create_agent(
        model,
        [show, add_tool],
        response_format=Answer,
        checkpointer=InMemorySaver(),
        fused=fused,
    )
    modes = ["values", "updates", "checkpoints"]
    shown: list[Any] = collect(agent, GO, THREAD, stream_mode=modes)
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


def test_agents_that_share_a_state_have_messages_of_their_own(call: Any) -> None:
    agents = [
        create_agent(ScriptedChatModel(["Hi."]), checkpointer=InMemorySaver()) for _ in range(2)
    ]
    for text, agent in zip(("one", "two"), agents, strict=True):
        call(agent, {"messages": [HumanMessage(text)]}, THREAD)
    found = [agent.get_state(THREAD).values["messages"][0].text for agent in agents]
    assert found == ["one", "two"]


def test_checkpoints_decide_on_the_channel_of_the_messages_of_an_agent_alone() -> None:
    schemas = [
        create_agent(ScriptedChatModel(), checkpoints=checkpoints).channels["messages"]
        for checkpoints in ("full", "delta", "full")
    ]
    assert [type(one).__name__ for one in schemas] == [
        "IndexedMessages",
        "DeltaMessages",
        "IndexedMessages",
    ]
