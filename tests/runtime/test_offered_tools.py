"""Calls of tools that the request did not offer are answered, and do not run."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from stack_agents import agent_of, kept_agent

from agent_factory import AgentMiddleware, ModelResponse, after_model, create_agent, wrap_model_call
from agent_factory import middleware as m
from agent_factory.decisions import Outcome
from agent_factory.testing import ScriptedChatModel
from samples import THREAD, Answer, last_text, tool_results
from tables import each

HI: Any = {"messages": [("user", "Give me my money back.")]}
REFUND = {"name": "refund", "args": {"euros": 40}, "id": "r"}
LOOK = {"name": "look", "args": {"order": "A1"}, "id": "l"}
REFUSED = "Error: the tool refund was not offered in this request, so this call did not run."


class Shop:
    """Tools that note what ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    @property
    def tools(self) -> list[Any]:
        @tool
        def refund(euros: int) -> str:
            """Pay money back."""
            self.ran.append(f"refund {euros}")
            return "paid"

        @tool
        def look(order: str) -> str:
            """Look at an order."""
            self.ran.append(f"look {order}")
            return "shipped"

        return [refund, look]


@pytest.fixture
def shop() -> Shop:
    return Shop()


def run(call: Any, shop: Shop, *middleware: Any, calls: Any = (REFUND,), **options: Any) -> Any:
    """The result of an agent of a shop, whose model calls these tools."""
    return call(agent_of([[*calls], "I may not."], *middleware, tools=shop.tools, **options), HI)


def without_refund(request: Any) -> Any:
    return request.override(tools=[t for t in request.tools if t.name != "refund"])


class Flow(AgentMiddleware):
    def around_model(self, request: Any) -> Any:
        return (yield without_refund(request))


class Function(AgentMiddleware):
    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(without_refund(request))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(without_refund(request))


class OnlyTheMessage(AgentMiddleware):
    """Returns the answer of the model alone, as many layers do."""

    def around_model(self, request: Any) -> Any:
        response = yield without_refund(request)
        return response.result[0]


class Rebuilt(AgentMiddleware):
    """Writes the answer of the model again, with its calls."""

    def around_model(self, request: Any) -> Any:
        response = yield without_refund(request)
        answer = response.result[0]
        return ModelResponse([AIMessage(answer.content, tool_calls=answer.tool_calls)])


class Outside(AgentMiddleware):
    def around_model(self, request: Any) -> Any:
        response = yield request
        return ModelResponse(response.result[:1])


def langchain_layer() -> Any:
    middleware = pytest.importorskip("langchain.agents.middleware")

    class Hides(middleware.AgentMiddleware):  # type: ignore[misc,name-defined]
        wrap_model_call = Function.wrap_model_call
        awrap_model_call = Function.awrap_model_call

    return Hides()


SPARE: Any = ScriptedChatModel([])

STACKS: dict[str, Any] = {
    "flow": lambda: [Flow()],
    "function": lambda: [Function()],
    "of langchain": lambda: [langchain_layer()],
    "only the message": lambda: [OnlyTheMessage()],
    "rebuilt": lambda: [Rebuilt()],
    "outside of flows": lambda: [Outside(), Flow()],
    "outside of functions": lambda: [Outside(), Function(), m.ModelFallbackMiddleware(SPARE)],
}


@each("fused", [True, False])
@each("stack", STACKS.values())
def test_a_call_of_a_hidden_tool_is_only_answered(call: Any, stack: Any, fused: bool) -> None:
    shop = Shop()
    result = run(call, shop, *stack(), calls=(REFUND, LOOK), fused=fused)
    assert shop.ran == ["look A1"]
    refused, looked = tool_results(result)
    assert refused == (f"{REFUSED} Offered: look.", "error")
    assert looked == ("shipped", "success")
    assert last_text(result) == "I may not."
    # The provider's history stays as it was: the call is there, with its answer.
    assert [c["name"] for c in result["messages"][1].tool_calls] == ["refund", "look"]
    assert [m.tool_call_id for m in result["messages"][2:4]] == ["r", "l"]


def test_where_nothing_is_offered_the_answer_says_so(call: Any, shop: Shop) -> None:
    result = run(call, shop, offering([]))
    assert tool_results(result) == [(f"{REFUSED} Offered: none.", "error")]
    assert (last_text(result), shop.ran) == ("I may not.", [])


def test_repeated_calls_of_a_hidden_tool_end(call: Any, shop: Shop) -> None:
    steps = [[{"name": "refund", "args": {"euros": n}, "id": f"r{n}"}] for n in range(60)]
    agent = create_agent(ScriptedChatModel(steps), shop.tools, middleware=[Flow()])
    result = call(agent, HI, {"recursion_limit": 1000})
    assert "10 turns in a row brought only errors" in last_text(result)
    assert shop.ran == []


def test_streams_show_the_answer(collect: Any, shop: Shop) -> None:
    def agent() -> Any:
        return agent_of([[REFUND], "I may not."], Flow(), tools=shop.tools)

    shown = [m for m, _ in collect(agent(), HI, stream_mode="messages")]
    assert [m.text for m in shown if isinstance(m, ToolMessage)] == [f"{REFUSED} Offered: look."]
    first = collect(agent(), HI, stream_mode="updates")[0]["model"]["messages"]
    assert [m.type for m in first] == ["ai", "tool"]


def offering(tools: Any = (), **changes: Any) -> Any:
    """A layer that offers other tools."""

    @wrap_model_call
    def offer(request: Any) -> Any:
        return (yield request.override(tools=[*tools], **changes))

    return offer


def refund(euros: int) -> str:
    """Pay money back."""
    return "not this one"


@each(
    "layer",
    [
        *(
            offering([form])
            for form in (
                {"type": "function", "function": {"name": "refund", "parameters": {}}},
                {"name": "refund", "input_schema": {}},
                {"toolSpec": {"name": "refund"}},
                {"function_declarations": [{"name": "refund"}]},
                {"type": "namespace", "name": "shop", "tools": [{"name": "refund"}]},
                {"title": "refund", "type": "object", "properties": {}},
                refund,
                tool(refund),
                type("refund", (Answer,), {"__doc__": "Pay money back."}),
            )
        ),
        offering(model_settings={"tools": [{"name": "refund"}]}),
        # Tools that the provider searches
        m.ProviderToolSearchMiddleware(searchable_tools=["refund"], provider="anthropic"),
    ],
)
def test_a_tool_in_another_form_is_offered(call: Any, layer: Any) -> None:
    shop = Shop()
    run(call, shop, layer)
    assert shop.ran == ["refund 40"]


def test_a_model_that_is_bound_to_tools_offers_them(call: Any, shop: Shop) -> None:
    for wrapped in (False, True):
        bound: Any = ScriptedChatModel([[REFUND], "Paid."]).bind(tools=[{"name": "refund"}])
        bound = bound.bind(stop=["."]).with_config(tags=["a"]) if wrapped else bound
        agent = create_agent(ScriptedChatModel([]), shop.tools, middleware=[offering(model=bound)])
        call(agent, HI)
    assert shop.ran == ["refund 40", "refund 40"]


class AddsAtRunTime(AgentMiddleware):
    """Brings a tool that the agent does not know when it is built."""

    def __init__(self, extra: Any) -> None:
        super().__init__()
        self.extra = extra

    def around_model(self, request: Any) -> Any:
        return (yield request.override(tools=[*request.tools, self.extra]))

    def around_tool(self, request: Any) -> Any:
        if request.tool is None:
            request = request.override(tool=self.extra)
        return (yield request)


def test_tools_that_a_layer_adds_at_run_time_run(call: Any, shop: Shop) -> None:
    extra, look = shop.tools
    # What is not a tool of the agent is the layer's, also if it is not offered.
    for stack in ([AddsAtRunTime(extra)], [AddsAtRunTime(extra), Flow()]):
        call(agent_of([[REFUND], "Paid."], *stack, tools=[look]), HI)
    assert shop.ran == ["refund 40", "refund 40"]


def test_the_answer_lists_tools_that_a_layer_adds(call: Any, shop: Shop) -> None:
    result = run(call, shop, Flow(), AddsAtRunTime(tool("find")(refund)))
    assert tool_results(result) == [(f"{REFUSED} Offered: look, find.", "error")]


def test_an_unknown_tool_has_the_error_of_the_tools_node(call: Any, shop: Shop) -> None:
    ((text, status),) = tool_results(run(call, shop, Flow(), calls=[{**REFUND, "name": "refnd"}]))
    assert text.startswith("Error: refnd is not a valid tool, try one of [refund, look]")
    assert status == "error"


def test_calls_that_a_layer_or_a_hook_writes_run(call: Any, shop: Shop) -> None:
    by_hand = AIMessage("", tool_calls=[{**REFUND, "id": "by hand"}])

    class Writes(AgentMiddleware):
        def around_model(self, request: Any) -> Any:
            if request.messages[-1].type == "human":
                return by_hand
            return (yield without_refund(request))

    class Adds(AgentMiddleware):
        def around_model(self, request: Any) -> Any:
            response = yield without_refund(request)
            if request.messages[-1].type == "human":
                answer = response.result[0]
                calls = [*answer.tool_calls, *by_hand.tool_calls]
                return answer.model_copy(update={"tool_calls": calls})
            return response

    @after_model
    def hook(state: Any, runtime: Any) -> Any:
        last = state["messages"][-1]
        if last.text == "Done.":
            return None
        return {"messages": [last.model_copy(update={"tool_calls": by_hand.tool_calls})]}

    for steps, middleware in (
        (["Done."], [Writes()]),
        (["Well.", "Done."], [Adds()]),
        (["Well.", "Done."], [hook, Flow()]),
    ):
        call(create_agent(ScriptedChatModel(steps), shop.tools, middleware=[*middleware]), HI)
        assert shop.ran == ["refund 40"]
        shop.ran.clear()


def test_a_hidden_call_is_not_reviewed(call: Any, shop: Shop) -> None:
    modes: list[Any] = ["batched", "per_call"]
    for mode in modes:
        review = m.HumanInTheLoopMiddleware({"refund": True}, interrupt_mode=mode)
        agent = kept_agent([[REFUND], "I may not."], review, Flow(), tools=shop.tools)
        assert "__interrupt__" not in call(agent, HI, THREAD)
    assert shop.ran == []


def test_tools_that_the_selection_left_out_do_not_run(call: Any, shop: Shop) -> None:
    chooser = ScriptedChatModel([[{"name": "ToolSelection", "args": {"tools": ["look"]}}]])
    selector = m.LLMToolSelectorMiddleware(model=chooser, max_tools=1)
    run(call, shop, selector, calls=(REFUND, LOOK))
    assert shop.ran == ["look A1"]


def test_each_attempt_is_judged_by_its_own_request(call: Any, shop: Shop) -> None:
    class Twice(AgentMiddleware):
        def around_model(self, request: Any) -> Any:
            if len(request.messages) == 1:
                yield without_refund(request)
            return (yield request)

    call(agent_of([[REFUND], [{**REFUND, "id": "again"}], "Paid."], Twice(), tools=shop.tools), HI)
    assert shop.ran == ["refund 40"]


def test_a_hidden_tool_that_returns_directly_ends_nothing(call: Any, shop: Shop) -> None:
    tools = shop.tools
    tools[0].return_direct = True
    agent = create_agent(ScriptedChatModel([[REFUND], "I may not."]), tools, middleware=[Flow()])
    assert last_text(call(agent, HI)) == "I may not."


def test_tool_layers_and_limits_count_only_calls_that_run(call: Any, shop: Shop) -> None:
    seen = []

    class Note(AgentMiddleware):
        def around_tool(self, request: Any) -> Any:
            seen.append(request.tool_call["name"])
            return (yield request)

    limit = m.ToolCallLimitMiddleware(run_limit=1)
    run(call, shop, limit, Note(), Flow(), calls=(REFUND, LOOK))
    assert seen == ["look"]
    assert shop.ran == ["look A1"]


def test_the_decision_log_says_what_was_not_offered(call: Any, shop: Shop) -> None:
    log: list[Any] = []
    run(call, shop, Flow(), decisions=log.append)
    (decision,) = [one for one in log if one.outcome is Outcome.ERROR_REPORTED]
    assert (decision.hook, decision.detail) == ("model", "not offered")
    assert (decision.tool, decision.call_id) == ("refund", "r")
