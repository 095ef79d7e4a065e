"""The state of an agent: who may pass its keys in, who sees them, and who gets them back."""

from __future__ import annotations

import operator
from typing import Annotated, Any, NotRequired

import pytest
from langgraph.channels import EphemeralValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.managed import IsLastStep, RemainingSteps
from langgraph.types import Command

from agent_factory import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    OmitFromInput,
    OmitFromOutput,
    PrivateStateAttr,
    create_agent,
    hook_config,
)
from agent_factory.errors import AgentFactoryWarning, HistoryError, UnknownStateKey
from agent_factory.testing import ScriptedChatModel
from samples import Naming, greeting_agent

GO = {"messages": "Go"}
THREAD: Any = {"configurable": {"thread_id": "1"}}


class Views(AgentState):
    plain: NotRequired[str]
    not_in: NotRequired[Annotated[str, OmitFromInput]]
    not_out: NotRequired[Annotated[str, OmitFromOutput]]
    private: NotRequired[Annotated[str, PrivateStateAttr]]


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
    """D38: what a caller may not pass in is dropped, what it may not see is kept inside."""
    writer = Writer(Views, {"private": "kept", "not_in": "written"})
    given = {**GO, "plain": "p", "not_in": "forged", "not_out": "o", "private": "forged"}
    result = call(greeting_agent(writer), given)
    assert {k: v for k, v in result.items() if k != "messages"} == {
        "plain": "p",
        "not_in": "written",
    }
    first, *_, last = writer.seen
    assert set(first) == {"messages", "plain", "not_out"}
    assert (last["not_out"], last["private"]) == ("o", "kept")

    views = greeting_agent(Writer(Views))
    assert set(views.get_input_jsonschema()["properties"]) == {"messages", "plain", "not_out"}
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


def test_a_caller_may_pass_keys_that_nobody_reads(call: Any) -> None:
    """They are dropped, as by any LangGraph graph, and a warning says so."""
    with pytest.warns(AgentFactoryWarning, match="nonsense"):
        assert set(call(greeting_agent(), {**GO, "nonsense": 1})) == {"messages"}


@pytest.mark.parametrize("given", [{"messages": []}, {}])
def test_a_run_without_a_message_is_refused(call: Any, given: dict[str, Any]) -> None:
    with pytest.raises(HistoryError):
        call(greeting_agent(), given)


# A structured answer belongs to its run


class Stops(AgentMiddleware):
    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> Any:
        return {"jump_to": "end"} if len(state["messages"]) > 3 else None


def test_an_answer_of_an_earlier_turn_is_not_shown_again(call: Any) -> None:
    """A21: also where the turn ends before the model is asked."""
    model = ScriptedChatModel([[{"name": "Answer", "args": {"a": 1}}]])
    keeper = create_agent(
        model,
        middleware=[Stops()],
        response_format={"title": "Answer", "type": "object"},
        checkpointer=InMemorySaver(),
    )
    assert call(keeper, GO, THREAD)["structured_response"] == {"a": 1}
    assert call(keeper, GO, THREAD).get("structured_response") is None
