"""A model reads a true result of each call, and a thread says no more of a call than is known."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated, Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, RemoveMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import InjectedState
from langgraph.prebuilt import ToolNode as LangGraphToolNode
from langgraph.types import Command, interrupt
from stack_agents import agent_of, kept_agent

from agent_factory import AgentMiddleware, create_agent, review
from agent_factory import middleware as m
from agent_factory.errors import BadReturn
from agent_factory.prebuilt import ToolNode, ToolRuntime, create_react_agent
from agent_factory.testing import ScriptedChatModel, assert_valid_history
from samples import THREAD, Declares, Killed, named_calls, results_by_id
from tables import each

GO: Any = {"messages": "Go"}
CallId = Annotated[str, InjectedToolCallId]
State = Annotated[dict[str, Any], InjectedState]

MODES = each("fused", [True, False])


class Ran:
    """Two tools: `pay`, which returns what is set, and `look`."""

    def __init__(self, answer: Any) -> None:
        self.names: list[str] = []

        @tool
        def pay() -> Any:
            """Pay."""
            self.names.append("pay")
            return answer

        @tool
        def look() -> str:
            """Look."""
            self.names.append("look")
            return "seen"

        self.tools = [pay, look]


def message(id_: str) -> ToolMessage:
    return ToolMessage("paid", tool_call_id=id_)


FORMS: dict[str, Any] = {
    "message": message,
    "list": lambda id_: [message("pay"), message(id_)],
    "command": lambda id_: Command(update={"messages": [message(id_)]}),
    "command with both": lambda id_: Command(update={"messages": [message("pay"), message(id_)]}),
    "dict": lambda id_: Command(
        update={"messages": [message("pay"), {"role": "tool", "content": "", "tool_call_id": id_}]}
    ),
    "command in a list": lambda id_: [message("pay"), Command(update={"messages": [message(id_)]})],
    "handoff": lambda id_: Command(
        graph=Command.PARENT, goto="other", update={"messages": [message(id_)]}
    ),
}
FORM = each("form", FORMS)
WRONG_ID = each(
    "wrong, order",
    [("typo", ("pay", "look")), ("look", ("pay", "look")), ("look", ("look", "pay"))],
)


def layer_of(answer: Any, form: str) -> AgentMiddleware[Any, Any]:
    """A layer that replaces the result of `pay`: a flow, or a wrap, sync and async."""

    class Flow(AgentMiddleware):
        def around_tool(self, request: Any) -> Any:
            result = yield request
            return answer if request.tool_call["name"] == "pay" else result

    class Wrap(AgentMiddleware):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            result = handler(request)
            return answer if request.tool_call["name"] == "pay" else result

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            result = await handler(request)
            return answer if request.tool_call["name"] == "pay" else result

    return Flow() if form == "flow" else Wrap()


@MODES
@FORM
@WRONG_ID
def test_a_result_of_a_tool_for_another_call_is_its_error(
    call: Any, fused: Any, form: str, wrong: str, order: Any
) -> None:
    """Also where tool errors are reported: the model must not read that it may try again."""
    ran = Ran(FORMS[form](wrong))
    agent = agent_of(
        [named_calls(*order), "Not asked."], tools=ran.tools, handle_tool_errors=True, fused=fused
    )
    with pytest.raises(BadReturn, match=rf"^\[AF317\] pay: .*expected 'pay', got '{wrong}'") as e:
        call(agent, GO)
    assert "tool_call_id=tool_call_id" in e.value.hint
    assert ran.names.count("pay") == 1


@FORM
@WRONG_ID
@each("kind", ["flow", "wrap"])
def test_a_result_of_a_layer_for_another_call_is_its_error(
    call: Any, form: str, wrong: str, order: Any, kind: str
) -> None:
    ran = Ran("paid")
    agent = create_agent(
        ScriptedChatModel([named_calls(*order), "Not asked."]),
        ran.tools,
        middleware=[m.ToolErrorMiddleware(), layer_of(FORMS[form](wrong), kind)],
        ignore=["AF207"],
        handle_tool_errors=True,
    )
    where = {"flow": r"Flow\.around_tool", "wrap": r"Wrap\.a?wrap_tool_call"}[kind]
    with pytest.raises(BadReturn, match=rf"\[AF317\] {where}: .*'pay', got '{wrong}'") as e:
        call(agent, GO)
    assert e.value.hint == "Write tool_call_id=request.tool_call['id']."
    assert ran.names.count("pay") == 1


class Raw(BaseTool):
    """A tool of another class than LangChain's, which makes its own message."""

    name: str = "pay"
    description: str = "Pay."

    def invoke(self, input: Any, config: Any = None, **_: Any) -> Any:
        return message("typo")

    async def ainvoke(self, input: Any, config: Any = None, **_: Any) -> Any:
        return message("typo")

    def _run(self) -> None: ...


def test_a_tool_of_any_class_is_checked(call: Any) -> None:
    agent = create_agent(ScriptedChatModel([named_calls("pay"), "Not asked."]), [Raw()])
    with pytest.raises(BadReturn, match="expected 'pay', got 'typo'"):
        call(agent, GO)


@each("kind", [ToolNode, LangGraphToolNode])
@each("version", ["v1", "v2"])
@each("form", ["message", "command with both", "dict", "handoff"])
@WRONG_ID
def test_a_tool_node_of_the_author_is_checked(
    call: Any, kind: Any, version: Any, form: str, wrong: str, order: Any
) -> None:
    """In the first version it runs all calls of a turn at once."""
    ran = Ran(FORMS[form](wrong))
    model = ScriptedChatModel([named_calls(*order), "Not asked."])
    agent = create_react_agent(model, kind(ran.tools), version=version)
    with pytest.raises(BadReturn, match=rf"\[AF317\] pay: .*'pay', got '{wrong}'"):
        call(agent, GO)


def test_a_call_whose_result_has_a_wrong_id_is_not_repeated(call: Any) -> None:
    ran = Ran(message("typo"))
    agent = agent_of([named_calls("pay")], m.ToolRetryMiddleware(), tools=ran.tools)
    with pytest.raises(BadReturn):
        call(agent, GO)
    assert ran.names == ["pay"]


@each("source", ["tool", "layer"])
def test_an_effect_whose_result_has_a_wrong_id_may_have_happened(call: Any, source: str) -> None:
    """The record stays, so that the effect does not happen again when the run is resumed."""
    ran = Ran(message("typo") if source == "tool" else "paid")
    inside = [layer_of(message("typo"), "flow")] if source == "layer" else []
    agent = create_agent(
        ScriptedChatModel([named_calls("pay"), "It is uncertain."]),
        ran.tools,
        middleware=[m.OnceMiddleware({"pay": "fail"}, store=m.InMemoryEffects()), *inside],
        checkpointer=InMemorySaver(),
    )
    with pytest.raises(BadReturn):
        call(agent, GO, THREAD, durability="sync")
    result = call(agent, None, THREAD, durability="sync")
    assert "it may have been done" in results_by_id(result)["pay"]
    assert ran.names == ["pay"]


@tool
def recall(state: State, tool_call_id: CallId) -> Command[Any]:
    """Write the whole history again."""
    answer = ToolMessage("recalled", tool_call_id=tool_call_id)
    return Command(update={"messages": [*state["messages"], answer]})


@tool
def redo(state: State, tool_call_id: CallId) -> Command[Any]:
    """Edit an earlier result, and start again from it."""
    *_, earlier = [m for m in state["messages"] if m.type == "tool"]
    edited = earlier.model_copy(update={"content": "short"})
    answer = ToolMessage("edited", tool_call_id=tool_call_id)
    return Command(update={"messages": [edited, answer]})


@tool
def delegate(tool_call_id: CallId) -> Command[Any]:
    """Bring the calls of a subagent along, of which one has the id of an earlier call."""
    turns = [
        part
        for id_ in ("look", "inner")
        for part in (
            AIMessage("", tool_calls=named_calls(id_)),
            ToolMessage("inner", tool_call_id=id_),
        )
    ]
    return Command(update={"messages": [ToolMessage("ok", tool_call_id=tool_call_id), *turns]})


@tool
def clear() -> Command[Any]:
    """Forget everything."""
    return Command(update={"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES)]})


@each("name", ["recall", "redo", "delegate", "clear"])
@each("layered", [False, True])
def test_messages_and_calls_that_come_along_keep_results(
    call: Any, name: str, layered: bool
) -> None:
    ran = Ran("paid")
    agent = create_agent(
        ScriptedChatModel([named_calls("look"), named_calls(name), "Done."]),
        [*ran.tools, recall, redo, delegate, clear],
        system_prompt="Help.",
        middleware=[Declares()] if layered else [],
    )
    result = call(agent, GO)
    expected = {"recall": "recalled", "redo": "edited", "delegate": "ok"}
    assert results_by_id(result).get(name) == expected.get(name)
    assert result["messages"][-1].text == "Done."


def test_a_layer_may_call_inward_under_another_id(call: Any) -> None:
    """Its own result counts."""

    class Twice(AgentMiddleware):
        def around_tool(self, request: Any) -> Any:
            texts = []
            for id_ in ("first", "second"):
                own = {**request.tool_call, "id": id_}
                texts.append((yield request.override(tool_call=own)).text)
            return ToolMessage(" ".join(texts), tool_call_id=request.tool_call["id"])

    ran = Ran("paid")
    result = call(agent_of([named_calls("look"), "Done."], Twice(), tools=ran.tools), GO)
    assert results_by_id(result) == {"look": "seen seen"}


def test_a_tool_node_alone_passes_on_what_its_tools_return() -> None:
    """As LangGraph's does."""
    graph = StateGraph(MessagesState).add_node("tools", ToolNode(Ran(message("typo")).tools))
    ask: Any = {"messages": [AIMessage("", tool_calls=named_calls("pay"))]}
    assert results_by_id(graph.add_edge(START, "tools").compile().invoke(ask)) == {"typo": "paid"}


TRUE = ("text", "message", "command", "list", "handoff")
FORGED = ("typo", "sibling", "earlier", "both")
KINDS = (*TRUE, *FORGED, "ends", "raises", "asks")


def answer(kind: str, id_: str, state: Any) -> Any:
    """What a tool or a layer of this kind returns for a call."""
    if kind == "raises":
        raise ValueError("It failed.")
    if kind == "asks":
        return ToolMessage(interrupt("?"), tool_call_id=id_)
    true = ToolMessage(f"true {id_}", tool_call_id=id_)
    sibling = ToolMessage("forged", tool_call_id="1" if id_ == "0" else "0")
    results: dict[str, Any] = {
        "text": true,
        "message": true,
        "command": Command(update={"messages": [true]}),
        "list": [Command(update={"messages": []}), true],
        "handoff": Command(
            graph=Command.PARENT, goto="bob", update={"messages": [*state["messages"], true]}
        ),
        "typo": ToolMessage("forged", tool_call_id="nowhere"),
        "sibling": sibling,
        "earlier": ToolMessage("forged", tool_call_id="before"),
        "both": Command(update={"messages": [true, sibling]}),
        "ends": Command(goto="__end__"),
    }
    return results[kind]


class Turn(AgentMiddleware):
    """The tools of a turn, one for each call; as a layer, it returns results in their place."""

    def __init__(self, kinds: list[str], *, layered: bool) -> None:
        super().__init__()
        self.kinds = {str(index): kind for index, kind in enumerate(kinds)}
        self.layered = layered
        self.ran: set[str] = set()
        self.calls = [{"name": f"tool_{id_}", "args": {}, "id": id_} for id_ in self.kinds]
        look = StructuredTool.from_function(lambda: "true before", name="look", description="-")
        self.tools = (*map(self._tool, self.kinds), look)

    def _tool(self, id_: str) -> StructuredTool:
        def run(runtime: ToolRuntime[Any, Any]) -> Any:
            self.ran.add(id_)
            kind = "text" if self.layered else self.kinds[id_]
            return f"true {id_}" if kind == "text" else answer(kind, id_, runtime.state)

        return StructuredTool.from_function(run, name=f"tool_{id_}", description="-")

    def around_tool(self, request: Any) -> Any:
        result, id_ = (yield request), request.tool_call["id"]
        return answer(self.kinds[id_], id_, request.state) if id_ in self.kinds else result


@settings.get_profile("costly")
@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=4),
    layered=st.booleans(),
    fused=st.sampled_from([True, False, "turn"]),
    asynchronous=st.booleans(),
    reported=st.booleans(),
)
def test_the_next_model_reads_one_true_result_of_each_call(
    kinds: list[str], layered: bool, fused: Any, asynchronous: bool, reported: bool
) -> None:
    turn = Turn(kinds, layered=layered)
    before = [{"name": "look", "args": {}, "id": "before"}]
    both = [ScriptedChatModel([before, turn.calls, *["Done."] * 3]), ScriptedChatModel(["Hi."] * 2)]
    agent: Any = create_agent(
        both[0],
        turn.tools,
        middleware=[turn] if layered else [],
        handle_tool_errors=(lambda error: f"failed: {error}") if reported else False,
        fused=fused,
        checkpointer=None if "handoff" in kinds else InMemorySaver(),
    )
    if "handoff" in kinds:
        graph = StateGraph(MessagesState).add_node("alice", agent).add_edge(START, "alice")
        graph.add_node("bob", create_agent(both[1]))
        agent = graph.compile(checkpointer=InMemorySaver())

    def call(text: str) -> Any:
        given = {"messages": text}
        if asynchronous:
            return asyncio.run(agent.ainvoke(given, THREAD, durability="sync"))
        return agent.invoke(given, THREAD, durability="sync")

    error: Exception | None = None
    try:
        call("Go")
    except (BadReturn, ValueError) as raised:
        error = raised
    raises = "raises" in kinds and not reported
    forges = any(kind in FORGED for kind in kinds)
    assert (error is not None) == (raises or forges) or "asks" in kinds
    assert raises or not forges or isinstance(error, BadReturn) or "asks" in kinds
    event("raised" if error else "returned")
    if "handoff" not in kinds or (error is None and "asks" not in kinds):
        call("Well?")
    for model in both:
        for request in model.requests:
            assert_valid_history(request.messages)
            messages = request.messages
            results = {m.tool_call_id: m.text for m in messages if isinstance(m, ToolMessage)}
            for id_, text in results.items():
                kind = turn.kinds.get(id_, "text")
                complete = kind in TRUE and error is None and "asks" not in kinds
                assert "did not run" not in text or id_ not in turn.ran
                if complete or "may have run" not in text:
                    assert text == ("failed: It failed." if kind == "raises" else f"true {id_}")


class Bank:
    """A tool that pays, and then meets with what is set."""

    def __init__(self, trouble: Any) -> None:
        self.trouble = trouble
        self.paid = 0

    def pay(self) -> Any:
        """Pay."""
        self.paid += 1
        if self.trouble == "ask":
            return interrupt("Which account?")
        if self.trouble == "no result":
            return Command(goto="__end__")
        raise self.trouble


def bank_agent(bank: Bank, *stack: Any, **options: Any) -> Any:
    steps = [[{"name": "pay", "id": "1"}], "Done."]
    return kept_agent(steps, *stack, tools=[bank.pay], **options)


def result_of(values: Any) -> str:
    assert_valid_history(values["messages"])
    (result,) = [m for m in values["messages"] if m.type == "tool"]
    return str(result.text)


@each("fused", [True, False, "turn"])
@each("way", ["add_input", "invoke"])
@each("trouble", ["ask", "no result", ValueError("It failed."), Killed()])
def test_a_call_that_began_may_have_run(call: Any, fused: Any, way: str, trouble: Any) -> None:
    bank = Bank(trouble)
    agent = bank_agent(bank, fused=fused)
    with suppress(ValueError, Killed):
        call(agent, GO, THREAD, durability="sync")
    if way == "invoke" or not review.pending(agent, THREAD):
        values = call(agent, {"messages": "Well?"}, THREAD)
    else:
        values = review.add_input(agent, THREAD, "Well?")
    assert "may have run" in result_of(values)
    assert bank.paid == 1


@each("mode", ["batched", "per_call"])
def test_a_call_that_was_approved_and_began_may_have_run(call: Any, mode: Any) -> None:
    bank = Bank(Killed())
    guard = m.HumanInTheLoopMiddleware({"pay": True}, interrupt_mode=mode)
    agent = bank_agent(bank, guard)
    call(agent, GO, THREAD, durability="sync")
    with pytest.raises(Killed):
        review.approve(agent, THREAD, durability="sync")
    assert "may have run" in result_of(review.add_input(agent, THREAD, "Stop."))


def test_a_run_that_ends_at_a_limit_does_not_know_of_calls_without_a_result(call: Any) -> None:
    class Drop(AgentMiddleware):
        def around_tool(self, request: Any) -> Any:
            yield request
            return Command(update={"messages": []})

    bank = Bank("no result")
    limit = m.ModelCallLimitMiddleware(run_limit=1)
    values = call(bank_agent(bank, limit, Drop()), GO, THREAD)
    assert "It may have run" in result_of(values)
    assert bank.paid == 1


def test_a_budget_does_not_say_of_an_attempt_before_that_it_did_not_run(call: Any) -> None:
    """A retry further out makes a second attempt, which the budget refuses."""
    bank = Bank(ConnectionError("Lost."))
    stack = [
        m.ToolRetryMiddleware(initial_delay=0, jitter=False),
        m.BudgetMiddleware(ledger=m.Ledger(m.Limits(tool_calls=1))),
    ]
    text = result_of(call(bank_agent(bank, *stack), GO, THREAD))
    assert "the budget refused this call of pay" in text
    assert "did not run" not in text
    assert bank.paid == 1
