"""Writes without effect: a strict agent warns of them, and names the hook and what to return."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from operator import delitem, setitem
from typing import Annotated, Any, NotRequired

from langchain_core.messages import HumanMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command
from stack_agents import agent_of

from agent_factory import (
    AgentFactoryWarning,
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    after_agent,
    after_model,
    before_agent,
    before_model,
    wrap_model_call,
)
from agent_factory.errors import BadReturn
from tables import each

HISTORY: Any = {"messages": [("user", "Hi"), ("assistant", "Hello."), ("user", "How are you?")]}
HOOKS = {
    "before_agent": before_agent,
    "before_model": before_model,
    "after_model": after_model,
    "after_agent": after_agent,
}


class Noting(AgentState[Any]):
    n: NotRequired[int]
    notes: NotRequired[list[str]]
    seen: NotRequired[Annotated[dict[str, int], lambda old, new: {**old, **new}]]


GIVEN: Any = {**HISTORY, "n": 1, "notes": ["a"], "seen": {"a": 1}}


def findings(call: Any, middleware: Any, *, strict: bool = True, given: Any = GIVEN) -> list[Any]:
    """What a run of an agent with this middleware warns of."""
    agent: Any = agent_of(["Fine."], middleware, state_schema=Noting, strict=strict)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AgentFactoryWarning)
        call(agent, given)
    messages: list[Any] = [warning.message for warning in caught]
    return [error for message in messages for error in message.warnings]


CHANGES: list[tuple[Callable[[Any], object], str]] = [
    (lambda state: setitem(state, "n", 5), "{'n': ...}"),
    (lambda state: delitem(state, "n"), "{'n': ...}"),
    (lambda state: state["messages"].append(HumanMessage("More.")), "{'messages': [message]}"),
    (lambda state: state["notes"].append("b"), "{'notes': ...}"),
    (lambda state: setitem(state["seen"], "a", 2), "{'seen': ...}"),
    (lambda state: setitem(state, "jump_to", "end"), "{'jump_to': ...}"),
]


@each("name, decorate", HOOKS.items())
@each("change, write", CHANGES)
def test_a_change_of_the_state_in_place_is_a_warning_in_a_strict_agent(
    call: Any, name: str, decorate: Any, change: Any, write: str
) -> None:
    def hook(state: Any, runtime: Any) -> None:
        change(state)

    (error,) = findings(call, decorate(hook))
    assert type(error) is BadReturn
    assert error.subject == f"hook.{name}"
    assert "must return what it changes" in error.reason
    assert error.hint == f"Return the change: {write}."
    assert findings(call, decorate(hook), strict=False) == []


def test_a_coroutine_function_is_watched_too() -> None:
    @before_model
    async def hook(state: Any, runtime: Any) -> None:
        await asyncio.sleep(0)
        state["n"] = 5

    def run(agent: Any, given: Any) -> Any:
        return asyncio.run(agent.ainvoke(given))

    (error,) = findings(run, hook)
    assert error.subject == "hook.before_model"


def redacted(messages: Any) -> Any:
    messages[-1].content = "[redacted]"
    return messages[-1:]


def marked(messages: Any) -> Any:
    messages[-1].additional_kwargs["seen"] = True
    return messages[-1:]


@each(
    "returned",
    [
        lambda state: {"n": setitem(state, "n", 5) or 5, "notes": [*state["notes"], "b"]},
        lambda state: Command(update={"notes": state["notes"].append("b") or state["notes"]}),
        # It reads the state alone.
        lambda state: state["messages"][-1].additional_kwargs.update(by=len(state["notes"])),
        lambda state: {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), state["messages"][-1]]},
        lambda state: {"messages": [HumanMessage("[redacted]", id=state["messages"][-1].id)]},
        lambda state: {"messages": redacted(state["messages"])},
        lambda state: {"messages": marked(state["messages"])},
        lambda state: {"messages": state["messages"]},
        lambda _: {"messages": []},
    ],
)
def test_a_change_that_is_returned_or_written_to_a_field_of_a_message_is_fine(
    call: Any, returned: Any
) -> None:
    @before_model
    def hook(state: Any, runtime: Any) -> Any:
        return returned(state)

    assert findings(call, hook) == []


@each("keep", [lambda known: known[-1:], lambda known: known[-2:], lambda known: known[::2]])
def test_messages_that_the_thread_has_are_a_warning_in_a_strict_agent(call: Any, keep: Any) -> None:
    """A user means to shorten the history; messages are merged by id."""

    @before_model
    def hook(state: Any, runtime: Any) -> Any:
        return {"messages": keep(state["messages"])}

    (error,) = findings(call, hook)
    assert "got some that the thread has already" in error.reason
    assert "RemoveMessage(id=REMOVE_ALL_MESSAGES)" in error.hint
    assert findings(call, hook, strict=False) == []


def test_a_layer_that_changes_the_state_of_a_request_is_a_warning(call: Any) -> None:
    class Layer(AgentMiddleware):
        def around_model(self, request: Any) -> Any:
            request.state["n"] = 5
            return (yield request)

    (error,) = findings(call, Layer())
    assert (error.subject, error.hint) == (
        "a wrap_model_call layer",
        "Return the change: {'n': ...}.",
    )
    assert findings(call, Layer(), strict=False) == []


def test_a_layer_that_changes_the_request_or_writes_with_a_command_is_fine() -> None:
    @wrap_model_call
    def layer(request: Any, handler: Any) -> Any:
        request.messages.append(HumanMessage("Be brief."))
        request.state["n"] = 5
        command: Command[Any] = Command(update={"n": 5})
        return ExtendedModelResponse(handler(request), command)

    assert findings(lambda agent, given: agent.invoke(given), layer) == []
