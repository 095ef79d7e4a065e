"""Calls are sent with the state, which equals what their tools would read from the channels."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable
from copy import deepcopy
from typing import Annotated, Any, NotRequired

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.channels import EphemeralValue, LastValue, NamedBarrierValue, UntrackedValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.managed import RemainingSteps
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, Send, interrupt

from agent_factory import AgentMiddleware, AgentState, create_agent
from agent_factory.runtime.tools_node import ToolsNode, sending_state
from agent_factory.testing import ScriptedChatModel
from agent_factory.tools.tool_node import CallsWithState
from tables import each

Run = Callable[..., Any]
ASK: Any = {"messages": [{"role": "user", "content": "Well?"}]}
THREAD: Any = {"configurable": {"thread_id": "one"}}


class Latest(LastValue[Any]):
    """A channel of somebody's own."""


class Rich(AgentState[Any]):
    """A key of every kind."""

    log: NotRequired[Annotated[list[str], operator.add]]
    flash: NotRequired[Annotated[str, EphemeralValue(str)]]
    mine: NotRequired[Annotated[str, Latest(str)]]
    unsaved: NotRequired[Annotated[str, UntrackedValue(str)]]
    left: NotRequired[RemainingSteps]


class Writes(AgentMiddleware):
    """Writes to every key before and after the model."""

    state_schema = Rich

    def __init__(self, said: Any = None) -> None:
        super().__init__()
        self.said = said

    def before_model(self, state: Any, runtime: Any) -> Any:
        return {"log": ["before"], "flash": "before", "mine": "before", "unsaved": "before"}

    def after_model(self, state: Any, runtime: Any) -> Any:
        said = {"messages": [self.said]} if self.said else {}
        return {"log": ["after"], "flash": "after", "mine": "after", **said}


def asked(number: int) -> list[dict[str, Any]]:
    return [{"name": "look", "args": {}, "id": f"call {i}"} for i in range(number)]


class Looking:
    """A tool, and a layer around it, that note what they are shown."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def look(self, state: Annotated[Any, InjectedState]) -> str:
        """Look at the state."""
        self.seen.append(shown(state))
        return "seen"

    @property
    def layer(self) -> Any:
        seen = self.seen

        class Around(AgentMiddleware):
            def around_tool(self, request: Any) -> Any:
                seen.append(shown(request.state))
                seen.append(request.runtime.state is request.state)
                return (yield request)

        return Around()


def shown(state: Any) -> Any:
    """A state without what differs between any two runs."""
    messages = [(message.type, message.text) for message in state["messages"]]
    return {**{key: state[key] for key in sorted(state)}, "messages": messages}


@each("fused", [False, True, "turn"])
@each("saver", [True, False])
@each("calls", [1, 3])
@each("said", [None, ("user", "And another thing.")])
def test_tools_and_layers_see_what_they_would_read(
    call: Run, monkeypatch: pytest.MonkeyPatch, fused: Any, saver: bool, calls: int, said: Any
) -> None:
    def run() -> list[Any]:
        looking = Looking()
        model = ScriptedChatModel([asked(calls), asked(1), "Done."])
        agent = create_agent(
            model,
            [looking.look],
            middleware=[Writes(said), looking.layer],
            checkpointer=InMemorySaver() if saver else None,
            fused=fused,
        )
        call(agent, ASK, THREAD)
        return looking.seen

    handed = run()
    for module in ("runtime.tools_node", "runtime.step"):
        monkeypatch.setattr(f"agent_factory.{module}.with_state", lambda calls, *_: calls)
    # Calls at once take turns as they like.
    assert sorted(map(repr, handed)) == sorted(map(repr, run()))
    assert handed[0]["log"] == ["before", "after"]
    assert handed[0]["mine"] == "after"
    assert not handed[0].keys() & {"flash", "left", "jump_to"}


@pytest.fixture
def with_calls(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the state came with the calls, for each run of the tools node."""
    known, begin = [], ToolsNode._begin

    def noted(self: ToolsNode, input: Any, *args: Any, **options: Any) -> Any:
        known.append(isinstance(input, CallsWithState))
        return begin(self, input, *args, **options)

    monkeypatch.setattr(ToolsNode, "_begin", noted)
    return known


class Odd(AgentState[Any]):
    """A key that only its channel knows how to read."""

    met: NotRequired[Annotated[str, NamedBarrierValue(str, {"a", "b"})]]


@pytest.mark.parametrize(
    "options",
    [
        {"middleware": [Writes(("user", "And another thing."))]},  # a hook adds messages
        {"state_schema": Odd, "fused": False},
    ],
)
def test_the_state_is_read_if_it_is_not_that_after_the_model(
    call: Run, with_calls: list[bool], options: Any
) -> None:
    looking = Looking()
    call(create_agent(ScriptedChatModel([asked(1), "Done."]), [looking.look], **options), ASK)
    assert with_calls == [False]
    assert len(looking.seen) == 1


def test_the_state_is_read_when_a_thread_is_resumed(call: Run, with_calls: list[bool]) -> None:
    """With what was written while it waited."""
    looking, saver = Looking(), InMemorySaver()

    def agent(*steps: Any, **options: Any) -> Any:
        model = ScriptedChatModel([*steps])
        options |= {"middleware": [Writes()], "checkpointer": saver}
        return create_agent(model, [looking.look], **options)

    waiting = agent(asked(1), interrupt_before=["tools"])
    call(waiting, ASK, THREAD)
    waiting.update_state(THREAD, {"log": ["meanwhile"]})
    call(agent("Done."), None, THREAD)
    assert with_calls == [False]
    assert looking.seen[-1]["messages"] == [("human", "Well?"), ("ai", "")]
    assert looking.seen[-1]["log"] == ["before", "after", "meanwhile"]


def test_a_call_that_is_resumed_reads_the_state_again(call: Run, with_calls: list[bool]) -> None:
    seen = []

    def ask(state: Annotated[Any, InjectedState]) -> str:
        """Ask a person."""
        seen.append(shown(state))
        return str(interrupt("Sure?"))

    steps = [[{"name": "ask", "args": {}}], "Done."]
    agent = create_agent(ScriptedChatModel(steps), [ask], checkpointer=InMemorySaver())
    call(agent, ASK, THREAD)
    call(agent, Command(resume="yes"), THREAD)
    assert seen[0] == seen[1]
    assert with_calls == [True, False]


def test_a_checkpoint_holds_the_calls_without_the_state() -> None:
    calls = CallsWithState([{"id": "1"}], {"messages": ["kept out"]})
    serializer = JsonPlusSerializer()
    sent = serializer.loads_typed(serializer.dumps_typed(Send("tools", calls)))
    for copy in (sent.arg, pickle.loads(pickle.dumps(calls)), deepcopy(calls)):
        assert type(copy) is list
        assert copy == [{"id": "1"}]


def test_calls_are_sent_without_the_state_if_the_last_message_is_not_from_the_model() -> None:
    calls: list[Any] = [{"id": "1"}]
    state = {"messages": [AIMessage(""), ToolMessage("", tool_call_id="0")]}
    sends: Any = sending_state(lambda *_: [Send("tools", calls)], {"messages"})(state)
    assert sends[0].arg is calls
