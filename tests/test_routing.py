"""Pure decisions: what a state says about where the run goes next."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.types import Command, Send

from agent_factory.errors import JumpWithoutCalls, UndeclaredJump
from agent_factory.runtime.routing import (
    DIRECT,
    PARALLEL_CALL,
    WRITTEN,
    Choice,
    Rules,
    _make_model_to_tools_edge,
    _make_tools_to_model_edge,
    jump_route,
    pending_calls,
    retry_route,
)
from agent_factory.state.history import last_turn
from agent_factory.topology import MODEL, TOOLS, Hook, Phase, Shape, plan
from tables import each

BEFORE, OUT = "A.before_model", "Z.after_agent"
RULES = Rules(known={"add", "mul", "show", "tell"}, direct={"show", "tell"}, output={"Answer"})
HOOKS = (Hook("A", Phase.BEFORE_MODEL), Hook("Z", Phase.AFTER_AGENT))
PLAN = plan(Shape(HOOKS, has_tools=True, may_skip_tools=True))
BARE = plan(Shape(has_tools=True))


def ask(*calls: str, **fields: Any) -> AIMessage:
    """A message with calls; `add:1` calls add with the id 1."""
    parts = [call.split(":") for call in calls]
    asked = [{"name": name, "args": {}, "id": id_} for name, id_ in parts]
    return AIMessage("", tool_calls=asked, **fields)


def result(call: str, status: Any = "success") -> ToolMessage:
    name, id_ = call.split(":")
    return ToolMessage("done", name=name, tool_call_id=id_, status=status)


def broken(name: str) -> dict[str, Any]:
    """A call that cannot be read, with the id 2."""
    return {"name": name, "args": "{", "id": "2", "error": None, "type": "invalid_tool_call"}


def explained(call: str | None = None) -> AnyMessage:
    mark = {"lc_source": "structured_output"}
    if call is None:
        return HumanMessage("No.", additional_kwargs=mark)
    name, id_ = call.split(":")
    return ToolMessage("No.", name=name, tool_call_id=id_, status="error", additional_kwargs=mark)


def state(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"messages": [HumanMessage("Go."), *messages], **more}


def after_model(planned: Any = PLAN, rules: Rules = RULES) -> Choice:
    return _make_model_to_tools_edge(planned.edge_from(MODEL), planned, rules)


def after_tools() -> Choice:
    return _make_tools_to_model_edge(PLAN.edge_from(TOOLS), PLAN, RULES)


def sent(choice: Any) -> list[list[str]]:
    """The names of the calls in each Send."""
    assert isinstance(choice, list)
    assert all(isinstance(send, Send) and send.node == TOOLS for send in choice)
    return [[call["name"] for call in send.arg] for send in choice]


# The helper


def test_the_last_turn_is_the_last_ai_message_and_what_follows() -> None:
    """A22"""
    old, new = ask("add:1"), ask("add:2")
    tail: list[Any] = [result("add:2"), HumanMessage("Well?")]
    assert last_turn([old, result("add:1"), new, *tail]) == (new, tail)
    assert last_turn([HumanMessage("Hi")]) == (None, [])
    assert last_turn([]) == (None, [])


# Jumps


@each(
    "jump, node",
    [("model", MODEL), ("end", OUT), ("nowhere", BEFORE), (None, BEFORE), ("", BEFORE)],
)
def test_a_jump_leads_to_its_node_and_others_have_no_effect(jump: str | None, node: str) -> None:
    """A28"""
    hook = Hook("A", Phase.BEFORE_AGENT, frozenset({"model", "end", "tools"}))
    planned = plan(Shape((hook, *HOOKS), has_tools=True))
    bare = plan(Shape((hook, *HOOKS[1:]), has_tools=True))
    assert jump_route(planned.edge_from("A.before_agent"), planned, RULES)(state()) == BEFORE
    target = jump_route(bare.edge_from("A.before_agent"), bare, RULES)(state(jump_to=jump))
    assert target == (MODEL if node == BEFORE else node)
    assert sent(
        jump_route(bare.edge_from("A.before_agent"), bare, RULES)(
            state(ask("add:1"), jump_to="tools")
        )
    ) == [["add"]]


def test_a_jump_to_tools_sends_what_is_pending_or_refuses() -> None:
    """A34c"""
    choose = after_model()
    done = [ask("add:1", "mul:2"), result("add:1")]
    assert sent(choose(state(*done, jump_to="tools", structured_response=1))) == [["mul"]]
    for messages in ([], [AIMessage("Bye")], [*done, result("mul:2")], [ask("Answer:1")]):
        with pytest.raises(JumpWithoutCalls) as caught:
            choose(state(*messages, jump_to="tools"))
        assert caught.value.subject == MODEL


def test_a_hooks_edge_follows_the_jump_or_the_default() -> None:
    """A29: without a jump, and with an unknown one, the default."""
    hook = Hook("A", Phase.BEFORE_AGENT, frozenset({"end", "tools"}))
    planned = plan(Shape((hook, *HOOKS), has_tools=True))
    edge = planned.edge_from("A.before_agent")
    choose = jump_route(edge, planned, RULES)
    assert choose(state()) == BEFORE
    assert choose(state(jump_to="nowhere")) == BEFORE
    assert choose(state(jump_to="end")) == OUT
    assert sent(choose(state(ask("add:1"), jump_to="tools"))) == [["add"]]


def test_end_from_an_after_agent_hook_is_the_end_itself() -> None:
    """A34e"""
    hook = Hook("Z", Phase.AFTER_AGENT, frozenset({"end", "model"}))
    planned = plan(Shape((hook, Hook("Y", Phase.AFTER_AGENT))))
    choose = jump_route(planned.edge_from(OUT), planned, RULES)
    assert choose(state(jump_to="end")) == "__end__"
    assert choose(state(jump_to="model")) == MODEL


def test_a_jump_to_its_own_node_has_no_effect() -> None:
    """A34a: the loop entry that jumps to the model goes on to it."""
    hook = Hook("A", Phase.BEFORE_MODEL, frozenset({"model", "end"}))
    planned = plan(Shape((hook,)))
    choose = jump_route(planned.edge_from(BEFORE), planned, RULES)
    assert choose(state(jump_to="model")) == MODEL


def test_a_jump_without_an_edge_is_refused() -> None:
    """A34d: a caller may have written it into the thread."""
    closed = plan(Shape(HOOKS, has_tools=True))
    with pytest.raises(UndeclaredJump, match=BEFORE):
        after_model(closed)(state(AIMessage("Bye"), jump_to="model"))


# After the model


ANSWERED = [ask("Answer:1"), result("Answer:1")]
REFUSED = [ask("Answer:1"), explained("Answer:1")]


@each(
    "messages, more, node",
    [
        ([], {}, OUT),  # A21: without an AI message
        ([AIMessage("Bye")], {}, OUT),  # A20 rule 2: without calls
        ([AIMessage("Bye"), explained()], {}, BEFORE),  # prose in place of a structured answer
        (ANSWERED, {"structured_response": {}}, OUT),  # A20 rule 4
        # A21: None says that this call gave none; a false value is an answer.
        (REFUSED, {"structured_response": None}, BEFORE),
        (REFUSED, {"structured_response": 0}, OUT),
        ([ask("add:1"), result("add:1")], {}, BEFORE),  # A20 rule 5: answered by something else
        # A20 rule 1: a jump comes before pending calls, a structured answer, or having no calls.
        ([ask("add:1")], {"jump_to": "model", "structured_response": 1}, BEFORE),
        ([ask("add:1")], {"jump_to": "end", "structured_response": 1}, OUT),
        ([AIMessage("Bye")], {"jump_to": "model"}, BEFORE),
    ],
)
def test_the_model_leads_to_a_node(messages: list[Any], more: Any, node: str) -> None:
    assert after_model()(state(*messages, **more)) == node


def test_each_pending_call_is_sent_alone() -> None:
    """A20 rule 3, A23: a list of one call, and no state in it."""
    message = ask("add:1", "mul:2")
    ordinary = Rules(known={"add", "mul"})
    sends: Any = after_model(rules=ordinary)(state(message))
    assert [send.node for send in sends] == [TOOLS, TOOLS]
    assert [send.arg for send in sends] == [[call] for call in message.tool_calls]
    assert sends[0].arg[0] == {"name": "add", "args": {}, "id": "1", "type": "tool_call"}


def test_calls_are_marked_as_parallel_if_their_results_may_be_the_answer() -> None:
    """A16, D29: sent alone all the same, so that none is run again with another."""
    sends: Any = after_model()(state(ask("show:1", "add:2", invalid_tool_calls=[broken("tell")])))
    types = [call["type"] for send in sends for call in send.arg]
    assert types == [PARALLEL_CALL, PARALLEL_CALL, "invalid_tool_call"]
    sends = after_model()(state(ask("show:1")))
    assert sends[0].arg[0]["type"] == "tool_call"


@each(
    "messages, more, calls",
    [
        # A20 rule 3: answered calls and structured answers are not sent.
        ([ask("add:1", "Answer:2", "mul:3"), result("add:1")], {}, [["mul"]]),
        # Ids may recur in a thread; only what follows the last message answers it.
        ([ask("add:1"), result("add:1"), ask("add:1")], {}, [["add"]]),
        # A20 rules 3 and 4: ordinary calls next to a structured answer still run.
        ([ask("Answer:1", "add:2"), ANSWERED[1]], {"structured_response": 1}, [["add"]]),
    ],
)
def test_pending_calls_are_sent(messages: list[Any], more: Any, calls: list[list[str]]) -> None:
    assert sent(after_model()(state(*messages, **more))) == calls


def test_without_an_edge_back_the_run_leaves() -> None:
    """A19, A20: only a declared target is ever chosen."""
    assert after_model(BARE)(state(ask("add:1"), result("add:1"))) == "__end__"


def test_calls_with_invalid_arguments_are_sent_too() -> None:
    """Each needs its answer, and is known by its type."""
    message = ask("add:1", invalid_tool_calls=[broken("mul")])
    sends: Any = after_model()(state(message))
    assert sent(sends) == [["add"], ["mul"]]
    assert sends[1].arg[0]["type"] == "invalid_tool_call"
    assert sent(after_model()(state(message, result("mul:2")))) == [["add"]]


# After the tools


SHOWN = [ask("show:1"), result("show:1")]
UNREAD = ask("show:1", invalid_tool_calls=[broken("ghost")])


@each(
    "messages, more, node",
    [
        # A16 rules 1 and 3, E2: the run leaves where all tools return directly, not any.
        (SHOWN, {}, OUT),
        ([ask("show:1", "tell:2"), result("show:1"), result("tell:2")], {}, OUT),
        ([ask("add:1"), result("add:1")], {}, BEFORE),
        ([ask("show:1", "add:2"), result("show:1"), result("add:2")], {}, BEFORE),
        # While one is open, nothing is decided.
        ([ask("show:1", "tell:2"), result("show:1")], {}, BEFORE),
        # A17: the model must see that there is no such tool, where it called no other.
        ([ask("ghost:1"), result("ghost:1", "error")], {}, BEFORE),
        ([ask("ghost:1"), result("ghost:1")], {}, BEFORE),
        ([ask("show:1", "web:2"), result("show:1"), result("web:2")], {}, OUT),
        # A direct tool that failed leads back.
        ([ask("show:1"), result("show:1", "error")], {}, BEFORE),
        ([ask("show:1", "tell:2"), result("show:1"), result("tell:2", "error")], {}, BEFORE),
        ([UNREAD, result("show:1"), result("ghost:2", "error")], {}, BEFORE),
        # A18: the name of a tool is taken from its answer, where a call was redirected.
        ([ask("add:1"), result("show:1")], {}, OUT),
        ([ask("show:1"), result("add:1")], {}, BEFORE),
        ([], {}, BEFORE),  # A18: without an AI message
        # Signals of several tools meet in the next node.
        (SHOWN, {"loop_relay": [DIRECT]}, BEFORE),
        (SHOWN, {"loop_relay": [WRITTEN]}, BEFORE),
        (SHOWN, {"loop_relay": [Command(graph=Command.PARENT)]}, BEFORE),
        # A16 rule 2: with a structured answer parallel tasks leave too; only what they cannot
        # know is passed on.
        (SHOWN, {"loop_relay": [DIRECT], "structured_response": 1}, OUT),
        (SHOWN, {"loop_relay": [WRITTEN], "structured_response": 1}, BEFORE),
        ([ask("Answer:1", "add:2"), ANSWERED[1], result("add:2")], {"structured_response": 1}, OUT),
        # A18: a refused structured answer, with a parallel direct tool too
        (
            [ask("Answer:1", "show:2"), REFUSED[1], result("show:2")],
            {"structured_response": None},
            BEFORE,
        ),
        # A tool that stops the run leaves. Parallel tasks leave for the loop entry, as the exit
        # must not be entered twice.
        ([ask("add:1"), result("add:1")], {"jump_to": "end"}, OUT),
        ([ask("add:1", "mul:2"), result("add:1")], {"jump_to": "end"}, BEFORE),
        (
            [ask("add:1", "mul:2"), result("add:1")],
            {"jump_to": "end", "structured_response": 1},
            OUT,
        ),
    ],
)
def test_the_tools_lead_to_a_node(messages: list[Any], more: Any, node: str) -> None:
    assert after_tools()(state(*messages, **more)) == node


# A structured answer without tools


def test_without_tools_only_an_explanation_leads_back() -> None:
    """A24"""
    planned = plan(Shape(HOOKS, retries_output=True))
    choose = retry_route(planned.edge_from(MODEL), planned, Rules())
    again = state(ask("Answer:1"), explained("Answer:1"), structured_response=None)
    assert choose(again) == BEFORE
    assert choose({**again, "structured_response": 1}) == OUT
    assert choose({**again, "jump_to": "end"}) == OUT
    assert choose(state(AIMessage("Bye"), explained())) == BEFORE
    assert choose(state(AIMessage("Bye"))) == OUT
    assert choose(state(AIMessage("Bye"), jump_to="model")) == BEFORE


# Laws over any turn


NAMES = ["add", "mul", "show", "tell", "Answer", "ghost"]


@st.composite
def turns(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(NAMES), max_size=4))
    calls = [f"{name}:{index}" for index, name in enumerate(names)]
    statuses = st.sampled_from(["success", "error"])
    answers = [result(call, draw(statuses)) for call in calls if draw(st.booleans())]
    answer = draw(st.sampled_from([None, 1]))
    return state(ask(*calls), *draw(st.permutations(answers)), structured_response=answer)


@given(turns())
def test_each_pending_call_is_sent_once_and_nothing_else(turn: dict[str, Any]) -> None:
    """A20 rule 3, A23"""
    choice = after_model()(turn)
    message, tail = last_turn(turn["messages"])
    assert message is not None
    pending = pending_calls(message, tail, RULES.output)
    if pending:
        assert isinstance(choice, list)
        assert [call["id"] for send in choice for call in send.arg] == [p["id"] for p in pending]
        assert all(len(send.arg) == 1 for send in choice)
    else:
        assert choice in PLAN.edge_from(MODEL).targets


@given(turns())
def test_after_tools_only_declared_targets_are_chosen(turn: dict[str, Any]) -> None:
    """A15"""
    for jump in (None, "end", "model", "tools"):
        assert after_tools()({**turn, "jump_to": jump}) in PLAN.edge_from(TOOLS).targets
