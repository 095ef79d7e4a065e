"""Tools are not run: a model invents their results, and the rest is as with real ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from stack_agents import agent_of

from agent_factory import AgentMiddleware, ModelRequest, ToolCallRequest, TurnError, create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware, LLMToolEmulator
from agent_factory.prebuilt import InjectedState, ToolRuntime
from agent_factory.testing import ScriptedChatModel
from tables import each

Run = Callable[..., Any]
ONE: Any = {"configurable": {"thread_id": "1"}}
GO: Any = {"messages": "Go"}


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    raise AssertionError("the real tool ran")


@tool
def clock() -> str:
    """The time."""
    return "noon"


def ask(name: str, call_id: str | None = None, /, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": call_id}


def test_the_agents_own_model_invents_the_result(call: Run) -> None:
    model = ScriptedChatModel([[ask("weather", city="Ulm")], "12 degrees", "Take a coat."])
    result = call(create_agent(model, [weather], middleware=[LLMToolEmulator()]), GO)
    invented = result["messages"][2]
    assert (invented.text, invented.name, invented.status) == ("12 degrees", "weather", "success")
    assert invented.additional_kwargs["lc_source"] == "tool_emulation"
    prompt, asked = model.requests[1].messages
    assert prompt.type == "system"
    assert "The weather in a city." in asked.text
    assert '{"city": "Ulm"}' in asked.text
    assert model.requests[1].tools == []
    model.assert_done()


@each("chosen", [["weather"], [weather], ("weather",), []])
def test_only_the_chosen_tools_are_emulated_and_a_model_can_be_passed(
    call: Run, chosen: Any
) -> None:
    calls = [ask("weather", city="Ulm")] * bool(chosen) + [ask("clock")]
    inventor = ScriptedChatModel(["12 degrees"])
    emulator = LLMToolEmulator(tools=chosen, model=inventor)
    agent = create_agent(ScriptedChatModel([calls, "ok"]), [weather, clock], middleware=[emulator])
    result = call(agent, GO)
    assert [m.text for m in result["messages"][2:-1]] == ["12 degrees", "noon"][not chosen :]


class PerUser(AgentMiddleware[Any, Any]):
    """Each user has a model."""

    def around_model(self, request: ModelRequest[Any]) -> Any:
        return (yield request.override(model=request.runtime.context))


def user(number: int) -> ScriptedChatModel:
    # The same call ids for all: they say nothing of whose call it is.
    return ScriptedChatModel([[ask("weather", "same", city="Ulm")], f"for {number}", "ok"])


def test_parallel_runs_use_their_own_models() -> None:
    agent: Any = create_agent(user(0), [weather], middleware=[PerUser(), LLMToolEmulator()])
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(agent.invoke, GO, context=user(n)) for n in range(8)]
        results = [run.result() for run in runs]

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(agent.ainvoke(GO, context=user(n)) for n in range(8)))

    for outcome in (results, asyncio.run(all_of_them())):
        assert [r["messages"][2].text for r in outcome] == [f"for {n}" for n in range(8)]


def test_without_a_known_model_the_error_says_to_pass_one(call: Run) -> None:
    """As in another process: a new middleware has not seen who made the call."""
    model = ScriptedChatModel([[ask("weather", city="Ulm")], "12 degrees", "ok"])
    options: Any = {"checkpointer": InMemorySaver()}
    review = HumanInTheLoopMiddleware({"weather": True})
    first, other = (
        create_agent(model, [weather], middleware=[review, LLMToolEmulator()], **options)
        for _ in range(2)
    )
    call(first, GO, ONE)
    approved: Any = Command(resume={"decisions": [{"type": "approve"}]})
    with pytest.raises(TurnError, match=r"LLMToolEmulator\(model=\.\.\.\)"):
        call(other, approved, ONE)
    assert call(first, approved, ONE)["messages"][2].text == "12 degrees"


def test_arguments_that_do_not_fit_become_the_error_of_a_real_call(call: Run) -> None:
    wrong = [ask("weather", "w", town="Ulm")]
    agent = agent_of([wrong, "ok"], LLMToolEmulator(), tools=[weather])
    message = call(agent, GO)["messages"][2]
    real = call(create_agent(ScriptedChatModel([wrong, "ok"]), [weather]), GO)["messages"][2]
    assert (message.text, message.status) == (real.text, "error")
    assert "city: Field required" in message.text


def test_injected_arguments_are_neither_needed_nor_shown(call: Run) -> None:
    @tool
    def lookup(
        key: str, state: Annotated[dict[str, Any], InjectedState], runtime: ToolRuntime
    ) -> str:
        """Look up."""
        raise AssertionError("the real tool ran")

    model = ScriptedChatModel([[ask("lookup", key="k")], "v", "ok"])
    agent = create_agent(model, [lookup], middleware=[LLMToolEmulator()])
    assert call(agent, GO)["messages"][2].text == "v"
    asked = model.requests[1].messages[1].text
    assert '"key"' in asked
    assert "runtime" not in asked
    assert "state" not in asked


def test_layers_may_offer_a_tool_that_is_emulated_and_change_its_result(call: Run) -> None:
    class Offers(AgentMiddleware[Any, Any]):
        def around_model(self, request: ModelRequest[Any]) -> Any:
            return (yield request.override(tools=[weather]))

        def around_tool(self, request: ToolCallRequest) -> Any:
            message = yield request
            return message.model_copy(update={"content": message.text.upper()})

    agent = agent_of([[ask("weather", city="Ulm")], "rain", "ok"], Offers(), LLMToolEmulator())
    assert call(agent, GO)["messages"][2].text == "RAIN"


def test_the_number_of_remembered_models_is_limited(
    call: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LLMToolEmulator, "SIZE", 2)
    emulator = LLMToolEmulator(tools=["weather"])
    model = ScriptedChatModel([[ask("weather", city="Ulm")], "12", "ok"] * 4)
    agent = create_agent(model, [weather], middleware=[emulator])
    for _ in range(4):
        assert call(agent, {"messages": [HumanMessage("Go")]})["messages"][2].text == "12"
    assert len(emulator._models_by_message) == 2
