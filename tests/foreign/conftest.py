"""langchain's create_agent and ours, side by side: black boxes that are given the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver

import agent_factory
from agent_factory.testing import ScriptedChatModel

ASK = {"messages": [("user", "Hi")]}


def plain(value: Any) -> Any:
    """A value without what differs from run to run: ids, and what a model adds of itself."""
    if isinstance(value, BaseMessage):
        left_out = {"id", "response_metadata"} if isinstance(value, AIMessage) else {"id"}
        return value.model_dump(exclude=left_out)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return repr(value)


def outcome(agent: Any, given: Any, call: Any) -> Any:
    """What a run comes to: its state and what it waits for, or its error."""
    try:
        result = dict(call(agent, given, {"configurable": {"thread_id": "1"}}))
    except Exception as error:
        return type(error).__name__, str(error)
    waiting = [interrupt.value for interrupt in result.pop("__interrupt__", ())]
    return plain(result), plain(waiting)


def story(
    create: Any, stack: Any, steps: Sequence[Any], inputs: Sequence[Any], call: Any, options: Any
) -> dict[str, Any]:
    """All that can be seen of an agent: outcomes, the thread's state, and what the model saw."""
    model = ScriptedChatModel(list(steps))
    agent = create(model, middleware=stack(), checkpointer=InMemorySaver(), **options)
    outcomes = [outcome(agent, given, call) for given in inputs]
    state = plain(agent.get_state({"configurable": {"thread_id": "1"}}).values)
    # The order of tools differs: ours begin with those of create_agent.
    seen = [(plain(r.messages), sorted(map(str, r.tools)), plain(r.kwargs)) for r in model.requests]
    return {"outcomes": outcomes, "state": state, "seen": seen}


@pytest.fixture
def alike(call: Any) -> Callable[..., dict[str, Any]]:
    """Run a stack in both agents, see that all is the same, and return what was seen."""
    theirs = pytest.importorskip("langchain.agents", reason="the extra peer is not installed")

    def run(stack: Any, steps: Sequence[Any], *inputs: Any, **options: Any) -> dict[str, Any]:
        inputs = inputs or (ASK,)
        expected = story(theirs.create_agent, stack, steps, inputs, call, options)
        given = story(agent_factory.create_agent, stack, steps, inputs, call, options)
        assert given == expected
        return given

    return run
