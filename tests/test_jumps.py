"""Where a hook may send the run, what follows, and what a state says about where it goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Send

from agent_factory import (
    AgentMiddleware,
    create_agent,
    hook_config,
)
from agent_factory.errors import CommandNotSupported, JumpWithoutCalls, SpecError, UndeclaredJump
from agent_factory.middleware import ModelCallLimitMiddleware
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
from agent_factory.testing import ScriptedChatModel
from agent_factory.topology import MODEL, TOOLS, Hook, Phase, Shape, plan
from samples import types
from tables import each

# These hooks jump where a build warns about it; the tests are about the targets.
pytestmark = pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")

PHASES = [phase.value for phase in Phase]
GO = {"messages": "Go"}
ERROR_REPORTED = {"type": "tool_call", "name": "tell", "args": {}, "id": "1"}


def tell() -> str:
    """Tell."""
    return "reported"


def asking(*ids: str) -> AIMessage:
    return AIMessage("", tool_calls=[{**ERROR_REPORTED, "id": id_} for id_ in ids])


def hook(
    log: list[str],
    phase: str,
    jump: Any = None,
    can: list[str] | None = None,
    *,
    times: int = 1,
    by: Callable[[Any], Any] = lambda jump: {"jump_to": jump},
) -> Any:
    """A hook that tells that it ran, and jumps the first times."""
    left = [times]

    def method(self: Any, state: Any, runtime: Any) -> Any:
        log.append(f"{self.name}.{phase}")
        left[0] -= 1
        return by(jump) if jump is not None and left[0] >= 0 else None

    return hook_config(can_jump_to=can)(method) if can is not None else method  # type: ignore[arg-type]


def member(name: str, **methods: Any) -> AgentMiddleware:
    made: AgentMiddleware = type("Member", (AgentMiddleware,), methods)(name=name)
    return made


def quiet(log: list[str], name: str, *phases: str) -> AgentMiddleware:
    return member(name, **{phase: hook(log, phase) for phase in phases})


@each("phase", ["before_agent", "before_model"])
def test_tools_runs_pending_calls_before_the_model_is_called(call: Any, phase: str) -> None:
    """A28, A34c: calls that an earlier turn left, or the caller passed in."""
    jumper = member("J", **{phase: hook([], phase, "tools", ["tools"])})
    agent = create_agent(ScriptedChatModel(["Done"]), [tell], middleware=[jumper])
    done = [ToolMessage("known", tool_call_id="2", name="tell")]
    result = call(agent, {"messages": [HumanMessage("Go"), asking("1", "2"), *done]})
    assert [m.text for m in result["messages"]] == ["Go", "", "known", "reported", "Done"]


def test_tools_from_after_agent_runs_what_is_pending(call: Any) -> None:
    """A34c: one hook leaves with calls pending, another goes back for them."""
    log: list[str] = []
    leave = member("L", after_model=hook(log, "after_model", "end", ["end"]))
    back = member("B", after_agent=hook(log, "after_agent", "tools", ["tools"]))
    model = ScriptedChatModel([asking("1"), "Done"])
    result = call(create_agent(model, [tell], middleware=[leave, back]), GO)
    assert types(result) == ["human", "ai", "tool", "ai"]
    assert log == ["L.after_model", "B.after_agent", "L.after_model", "B.after_agent"]


@each("phase", PHASES)
def test_tools_without_a_pending_call_is_refused(call: Any, phase: str) -> None:
    """A34c"""
    jumper = member("J", **{phase: hook([], phase, "tools", ["tools"])})
    agent = create_agent(ScriptedChatModel(["Hello"]), [tell], middleware=[jumper])
    with pytest.raises(JumpWithoutCalls) as caught:
        call(agent, GO)
    assert caught.value.subject == f"J.{phase}"


def test_a_jump_comes_before_pending_calls_and_a_structured_answer(call: Any) -> None:
    """A20 rule 1"""
    answer = {"name": "Answer", "args": {}, "id": "9", "type": "tool_call"}
    message = AIMessage("", tool_calls=[ERROR_REPORTED, answer])
    agent = create_agent(
        ScriptedChatModel([message, [answer]]),
        [tell],
        middleware=[member("J", after_model=hook([], "after_model", "model", ["model"]))],
        response_format={"title": "Answer", "type": "object"},
    )
    result = call(agent, GO)
    results = [m for m in result["messages"] if m.type == "tool"]
    assert [m.name for m in results] == ["Answer", "tell", "Answer"]
    assert "no result" in results[1].text


@each("can, acan", [(["end"], ["model"]), (None, ["end"])])
def test_a_declaration_on_either_hook_is_enough(call: Any, can: Any, acan: Any) -> None:
    """A31"""

    async def leave(self: Any, state: Any, runtime: Any) -> Any:
        return {"jump_to": "end"}

    methods = {"before_model": hook([], "before_model", "end", can)}
    jumper = member("J", abefore_model=hook_config(can_jump_to=acan)(leave), **methods)
    assert types(call(create_agent(ScriptedChatModel([]), middleware=[jumper]), GO)) == ["human"]


@each("phase", PHASES)
@each("jump", ["tools", "model", "end", "nowhere", 5])
def test_an_undeclared_jump_is_refused_even_with_an_edge(call: Any, phase: str, jump: Any) -> None:
    """A34d"""
    jumper = member("J", **{phase: hook([], phase, jump)})
    agent = create_agent(ScriptedChatModel([asking("1"), "Bye"]), [tell], middleware=[jumper])
    with pytest.raises(UndeclaredJump) as caught:
        call(agent, GO)
    assert caught.value.subject == f"J.{phase}"
    assert str(jump) in caught.value.reason
    assert ("hook_config" in caught.value.hint) == (jump in ("tools", "model", "end"))


def test_tools_cannot_be_declared_without_tools() -> None:
    """A34b"""
    jumper = member("J", before_model=hook([], "before_model", None, ["tools"]))
    with pytest.raises(SpecError, match=r"^\[AF111\]") as caught:
        create_agent(ScriptedChatModel([]), middleware=[jumper])
    assert caught.value.subject == "J.before_model"


@each("by", [lambda _: None, lambda _: {}, lambda _: Command(update={})])
def test_a_jump_is_not_followed_again_by_its_target(call: Any, by: Callable[[Any], Any]) -> None:
    """A32: whatever that node returns, where its own edge reads jumps too."""
    log: list[str] = []
    start = member("S", before_agent=hook(log, "before_agent", "end", ["end"]))
    stack = [quiet(log, "A", "after_agent"), start]
    stack += [member("Z", after_agent=hook(log, "after_agent", 0, ["end", "model"], by=by))]
    call(create_agent(ScriptedChatModel([]), middleware=stack), GO)
    assert log == ["S.before_agent", "Z.after_agent", "A.after_agent"]


def test_a_jump_is_private(call: Any) -> None:
    """A32: not in the output, not in the next run of the thread, and not a caller's."""
    jumper = member("J", before_model=hook([], "before_model", "end", ["end"]))
    agent = create_agent(
        ScriptedChatModel(["Hello"]), middleware=[jumper], checkpointer=InMemorySaver()
    )
    thread: RunnableConfig = {"configurable": {"thread_id": "1"}}
    assert set(call(agent, GO, thread)) == {"messages"}
    assert types(call(agent, {**GO, "jump_to": "end"}, thread)) == ["human", "human", "ai"]


@each("update", [{"jump_to": "end"}, [("jump_to", "end")]])
def test_a_command_may_carry_a_declared_jump(call: Any, update: Any) -> None:
    """A29: as a dict of updates, or as pairs."""

    def agent(can: list[str] | None) -> Any:
        jump = hook([], "before_model", "end", can, by=lambda _: Command(update=update))
        return create_agent(ScriptedChatModel([]), middleware=[member("J", before_model=jump)])

    assert types(call(agent(["end"]), GO)) == ["human"]
    with pytest.raises(UndeclaredJump):
        call(agent(None), GO)


def test_a_command_of_a_hook_cannot_go_to_a_node(call: Any) -> None:
    """A29: its edge would be taken as well, so the goto would not do what it says."""
    by = Command(goto="__end__")
    jumper = member("J", before_model=hook([], "before_model", "end", ["end"], by=lambda _: by))
    with pytest.raises(CommandNotSupported) as caught:
        call(create_agent(ScriptedChatModel([]), middleware=[jumper]), GO)
    assert caught.value.subject == "J.before_model"
    assert "jump_to" in caught.value.hint


@each("outer", [True, False])
def test_a_limit_cannot_be_bypassed_by_a_jump(call: Any, outer: bool) -> None:
    """A20 rule 1: the limit is asked at every entry of the loop, wherever it stands."""
    back = member("B", after_model=hook([], "after_model", "model", ["model"], times=99))
    limit = ModelCallLimitMiddleware(run_limit=2)
    stack: list[AgentMiddleware[Any, Any]] = [limit, back] if outer else [back, limit]
    model = ScriptedChatModel(["One", "Two"])
    call(create_agent(model, middleware=stack), GO)
    model.assert_done()


@st.composite
def jumps(draw: st.DrawFn) -> tuple[list[list[str]], int, str, str]:
    """Who has which hooks, and which hook of whom jumps where."""
    phases = st.lists(st.sampled_from(PHASES), unique=True)
    stack = draw(st.lists(phases, min_size=1, max_size=4))
    index = draw(st.integers(0, len(stack) - 1))
    phase = draw(st.sampled_from(PHASES))
    stack[index] = sorted({*stack[index], phase})
    return stack, index, phase, draw(st.sampled_from(["model", "end"]))


def walk(stack: list[list[str]], index: int, phase: str, jump: str) -> list[str]:
    """A reference model of the run: two lists and a position in them."""

    def having(wanted: str) -> list[str]:
        return [f"M{i}.{wanted}" for i, phases in enumerate(stack) if wanted in phases]

    start, loop = having("before_agent"), [*having("before_model"), "model"]
    head = [*start, *loop, *reversed(having("after_model"))]
    way = [*head, *reversed(having("after_agent"))]
    end = len(way) if phase == "after_agent" else len(head)
    ran: list[str] = []
    at = 0
    while at < len(way):
        ran.append(way[at])
        first = way[at] == f"M{index}.{phase}" and ran.count(way[at]) == 1
        first &= (jump, at) != ("model", len(start))  # A34a: it is where it jumps to
        at = {"model": len(start), "end": end}[jump] if first else at + 1
    return [node for node in ran if node != "model"]


@given(case=jumps())
def test_any_jump_reaches_its_target(
    call: Any, case: tuple[list[list[str]], int, str, str]
) -> None:
    """A28-A30, A33, A34"""
    stack, index, phase, jump = case
    log: list[str] = []
    bodies = [{name: hook(log, name) for name in phases} for phases in stack]
    bodies[index][phase] = hook(log, phase, jump, [jump])
    middleware = [member(f"M{i}", **body) for i, body in enumerate(bodies)]
    call(create_agent(ScriptedChatModel(["Hi", "Hi"]), middleware=middleware), GO)
    assert log == walk(stack, index, phase, jump)


BEFORE, OUT = "A.before_model", "Z.after_agent"
RULES = Rules(known={"add", "mul", "show", "tell"}, direct={"show", "tell"}, output={"Answer"})
HOOKS = (Hook("A", Phase.BEFORE_MODEL), Hook("Z", Phase.AFTER_AGENT))
PLAN = plan(Shape(HOOKS, has_tools=True, may_skip_tools=True))


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


def test_a_jump_without_an_edge_is_refused() -> None:
    """A34d: a caller may have written it into the thread."""
    closed = plan(Shape(HOOKS, has_tools=True))
    with pytest.raises(UndeclaredJump, match=BEFORE):
        after_model(closed)(state(AIMessage("Bye"), jump_to="model"))


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
