"""How tools end a run: results that are the answer, and tools that stop it."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.graph import END
from langgraph.types import Command
from stack_agents import kept_agent

import samples
from agent_factory import AgentMiddleware, create_agent, hook_config
from agent_factory.errors import CommandNotSupported, UnknownStateKey
from agent_factory.testing import ScriptedChatModel
from agent_factory.topology import Phase
from samples import THREAD, ask, numbered_calls
from tables import each

GO = {"messages": "Go"}
CallId = Annotated[str, InjectedToolCallId]


@tool
def add() -> str:
    """Give an ordinary result."""
    return "sum"


@tool(return_direct=True)
def show() -> str:
    """Give a result that is the answer."""
    return "shown"


@tool(return_direct=True)
def tell() -> str:
    """Give another result that is the answer."""
    return "reported"


fail = tool(return_direct=True)(samples.fail)


def stopper(name: str, **fields: Any) -> Any:
    @tool(name)
    def stop(tool_call_id: CallId) -> Command[Any]:
        """Stop the run."""
        update = {"messages": [ToolMessage("stopped", tool_call_id=tool_call_id)]}
        return Command(update={**update, **fields.get("update", {})}, goto=fields.get("goto", ()))

    return stop


stop = stopper("stop", goto=[END])
halt = stopper("halt", update={"jump_to": "end"})
TOOLS: list[Any] = [add, show, tell, fail, ask, stop, halt]


def logger(log: list[str]) -> AgentMiddleware:
    """Logs every hook that ran."""

    def logged(phase: Phase) -> Any:
        return lambda self, state, runtime: log.append(phase.value)

    made: AgentMiddleware = type("Logger", (AgentMiddleware,), {p: logged(p) for p in Phase})()
    return made


TURN = ["before_model", "after_model"]


def ran(call: Any, step: Any, *rest: Any, **more: Any) -> tuple[list[str], list[str]]:
    """What the messages of a run say, and which hooks ran."""
    log: list[str] = []
    agent = create_agent(ScriptedChatModel([step, *rest]), TOOLS, middleware=[logger(log)], **more)
    return [m.text for m in call(agent, GO)["messages"]][2:], log


@each(
    "names, said",
    [
        # A16 rule 1: results that are the answer end the run, if all of them are.
        (["show"], ["shown"]),
        (["show", "tell"], ["shown", "reported"]),
        (["show", "add"], ["shown", "sum", "Done"]),
        # A made-up name does not count.
        (["show", "ghost"], ["shown", "Error: ghost is not a valid tool"]),
        # A33: other tools of a turn with a stop finish; no hook of the loop runs again.
        (["halt"], ["stopped"]),
        (["stop", "add"], ["stopped", "sum"]),
        (["add", "halt"], ["sum", "stopped"]),
        (["stop", "halt"], ["stopped", "stopped"]),
        (["stop", "show"], ["stopped", "shown"]),
        (["add", "show", "stop", "tell"], ["sum", "shown", "stopped", "reported"]),
    ],
)
def test_direct_results_and_stops_end_the_run(call: Any, names: list[str], said: list[str]) -> None:
    """The hooks that end a run run once."""
    texts, log = ran(call, numbered_calls(*names), "Done")
    assert len(texts) == len(said)
    assert all(map(str.startswith, texts, said))
    turns = 2 if "Done" in said else 1
    assert log == ["before_agent", *TURN * turns, "after_agent"]


@each("name", ["add", "show", "ghost"])
def test_a_call_with_invalid_arguments_goes_back_to_the_model(call: Any, name: str) -> None:
    """A16: with a parallel direct one too, and the run ends once."""
    broken = {"name": name, "args": "{", "id": "b", "error": None, "type": "invalid_tool_call"}
    message = AIMessage("", tool_calls=numbered_calls("tell"), invalid_tool_calls=[broken])
    said, log = ran(call, message, "Done")
    assert said[0] == "reported"
    assert "could not be read" in said[1]
    assert said[2] == "Done"
    assert log == ["before_agent", *TURN, *TURN, "after_agent"]


def test_a_stop_parallel_to_a_structured_answer_ends_the_run_once(call: Any) -> None:
    """A16 rule 2, A33"""
    said, log = ran(
        call,
        numbered_calls("Answer", "stop", "add"),
        response_format={"title": "Answer", "type": "object"},
    )
    assert said[1:] == ["stopped", "sum"]
    assert log == ["before_agent", *TURN, "after_agent"]


def test_a_stop_waits_for_a_parallel_tool_that_interrupts(call: Any) -> None:
    """D29: the answer of the person arrives, and the stop is not forgotten."""
    log: list[str] = []
    agent = kept_agent([numbered_calls("stop", "ask")], logger(log), tools=TOOLS)
    assert "__interrupt__" in call(agent, GO, THREAD)
    result = call(agent, Command(resume="yes"), THREAD)
    assert [m.text for m in result["messages"]][2:] == ["stopped", "said yes"]
    assert log == ["before_agent", *TURN, "after_agent"]


@each("names", [["stop", "add"], ["show", "tell"]])
@each("pause", [{"interrupt_after": ["tools"]}, {"interrupt_before": ["model"]}])
def test_signals_of_tools_survive_a_pause(
    call: Any, names: list[str], pause: dict[str, Any]
) -> None:
    """D20, D26"""
    agent = kept_agent([numbered_calls(*names)], tools=TOOLS, **pause)
    call(agent, GO, THREAD)
    while agent.get_state(THREAD).next:
        result = call(agent, None, THREAD)
    assert [m.type for m in result["messages"]] == ["human", "ai", "tool", "tool"]


def test_a_stop_passes_hooks_without_an_edge_to_the_exit(call: Any) -> None:
    class Back(AgentMiddleware):
        @hook_config(can_jump_to=["model"])
        def after_model(self, state: Any, runtime: Any) -> None:
            return None

    model = ScriptedChatModel([numbered_calls("stop", "add")])
    agent = create_agent(model, [stop, add], middleware=[Back(name="a"), Back(name="b")])
    assert [message.type for message in call(agent, GO)["messages"]][1:] == ["ai", "tool", "tool"]
    model.assert_done()


def test_a_stop_from_a_list_of_commands(call: Any) -> None:
    """C64"""

    @tool
    def leave(tool_call_id: CallId) -> Any:
        """Stop the run."""
        return [Command(goto=END), ToolMessage("left", tool_call_id=tool_call_id)]

    done = call(create_agent(ScriptedChatModel([numbered_calls("leave", "add")]), [leave, add]), GO)
    assert [m.text for m in done["messages"]][2:] == ["left", "sum"]


@each("names", [["add"], ["add", "show"]])
def test_a_layer_may_stop_the_run(call: Any, names: list[str]) -> None:
    """A33: also without an answer to the call, which the next turn then supplies."""

    class Stop(AgentMiddleware):
        def around_tool(self, request: Any) -> Any:
            if request.tool_call["name"] == "add":
                return Command(goto=END)
            return (yield request)

    log: list[str] = []
    agent = kept_agent([numbered_calls(*names), "Hello"], logger(log), Stop(), tools=TOOLS)
    call(agent, GO, THREAD)
    assert log == ["before_agent", *TURN, "after_agent"]
    result = call(agent, GO, THREAD)
    assert "no result" in result["messages"][1 + len(names)].text
    assert result["messages"][-1].text == "Hello"


def test_a_stop_may_write_to_the_state(call: Any) -> None:
    """C60: what its command updates is kept."""
    wrong = stopper("wrong", goto=END, update={"typo": 1})
    with pytest.raises(UnknownStateKey, match="'typo'"):
        call(create_agent(ScriptedChatModel([numbered_calls("wrong")]), [wrong]), GO)
    answer = stopper("answer", goto=END, update={"structured_response": {"a": 1}})
    result = call(create_agent(ScriptedChatModel([numbered_calls("answer")]), [answer]), GO)
    assert result["structured_response"] == {"a": 1}


@each("goto", ["model", "nowhere", [END, "model"]])
def test_a_tool_cannot_go_to_another_node(call: Any, goto: Any) -> None:
    """C65: the tools' own edge would be taken as well."""
    agent = create_agent(ScriptedChatModel([numbered_calls("go")]), [stopper("go", goto=goto)])
    with pytest.raises(CommandNotSupported) as caught:
        call(agent, GO)
    assert "graph=Command.PARENT" in caught.value.hint


@settings.get_profile("costly")
@given(
    stack=st.lists(st.lists(st.sampled_from(list(Phase)), unique=True), max_size=4),
    names=st.lists(st.sampled_from(["stop", "halt", "show", "add"]), min_size=1, max_size=3),
)
def test_any_stack_runs_its_after_agent_hooks_once_and_in_order(
    call: Any, stack: list[list[Phase]], names: list[str]
) -> None:
    """A16, A27, A33: whichever hooks there are, none of the loop runs after the tools."""
    log: list[str] = []

    def logged(name: str) -> Any:
        return lambda self, state, runtime: log.append(name)

    middleware = [
        type("Member", (AgentMiddleware,), {p: logged(f"{i}.{p}") for p in phases})(name=f"M{i}")
        for i, phases in enumerate(stack)
    ]
    over = {"stop", "halt"} & set(names) or set(names) == {"show"}
    model = ScriptedChatModel([numbered_calls(*names), *([] if over else ["Done"])])
    call(create_agent(model, TOOLS, middleware=middleware, ignore=["AF212"]), GO)

    def having(phase: Phase) -> list[str]:
        return [f"{i}.{phase}" for i, phases in enumerate(stack) if phase in phases]

    turn = [*having(Phase.BEFORE_MODEL), *reversed(having(Phase.AFTER_MODEL))]
    rounds = turn if over else turn * 2
    leaving = reversed(having(Phase.AFTER_AGENT))
    assert log == [*having(Phase.BEFORE_AGENT), *rounds, *leaving]
