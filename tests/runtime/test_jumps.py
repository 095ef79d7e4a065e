"""Where a hook may send the run, what follows, and what a state says about where it goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.types import Command
from stack_agents import agent_of, kept_agent

from agent_factory import AgentMiddleware, create_agent, hook_config
from agent_factory.errors import CommandNotSupported, JumpWithoutCalls, SpecError, UndeclaredJump
from agent_factory.middleware import ModelCallLimitMiddleware
from agent_factory.testing import ScriptedChatModel
from agent_factory.topology import Phase
from samples import THREAD, types
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
    result = call(agent_of([asking("1"), "Done"], leave, back, tools=[tell]), GO)
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
    results = [m for m in call(agent, GO)["messages"] if m.type == "tool"]
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
    agent = kept_agent(["Hello"], jumper)
    assert set(call(agent, GO, THREAD)) == {"messages"}
    assert types(call(agent, {**GO, "jump_to": "end"}, THREAD)) == ["human", "human", "ai"]


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
