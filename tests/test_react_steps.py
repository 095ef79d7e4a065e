"""A run of create_react_agent whose steps do not suffice ends with a message, and in time (E7)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.errors import GraphRecursionError
from langgraph.graph.message import add_messages
from langgraph.prebuilt import InjectedState

from agent_factory import create_react_agent
from agent_factory.prebuilt import AgentStatePydantic
from agent_factory.testing import ScriptedChatModel
from samples import Answer, nothing, show
from samples import add_tool as add
from tables import each

SORRY = "Sorry, need more steps to process this request."
ASK = {"messages": [("user", "2 + 3?")]}


ARGS: dict[str, dict[str, Any]] = {
    "add": {"a": 2, "b": 3},
    "show": {"text": "it"},
    "Answer": {"number": 5},
}


class Restless(BaseChatModel):
    """Asks for the same calls each time, or for the answer where that is wanted."""

    calls: tuple[str, ...]

    @property
    def _llm_type(self) -> str:
        return "restless"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(offered=[getattr(tool, "name", "Answer") for tool in tools])

    def _generate(self, messages: Any, *_: Any, offered: Any = (), **kwargs: Any) -> ChatResult:
        names = ["Answer"] if "Answer" in offered else self.calls
        calls = [{"name": name, "args": ARGS[name], "id": uuid4().hex} for name in names]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=calls))])


@dataclass(frozen=True)
class Kind:
    """Which nodes an agent has; each is 0 or 1."""

    pre: int = 0
    post: int = 0
    structured: int = 0
    version: Any = "v2"

    def agent(self, model: BaseChatModel, **more: Any) -> Any:
        return create_react_agent(
            model,
            [add, show],
            pre_model_hook=nothing if self.pre else None,
            post_model_hook=nothing if self.post else None,
            response_format=Answer if self.structured else None,
            version=self.version,
            **more,
        )

    def answer(self) -> int:
        """Steps of a turn that ends the run, what follows it included."""
        return self.pre + 1 + self.post + self.structured

    def round(self) -> int:
        """Steps of a turn with tools."""
        return self.pre + 1 + self.post + 1


KINDS = [
    Kind(pre, post, structured, version)
    for pre, post, structured, version in product((0, 1), (0, 1), (0, 1), ("v1", "v2"))
    if not (post and version == "v1")
]
each_kind = each("kind", KINDS)


def limit(steps: int) -> Any:
    return {"recursion_limit": steps}


def rounds(messages: list[AnyMessage]) -> int:
    return len({m.tool_call_id for m in messages if isinstance(m, ToolMessage)})


@each_kind
def test_a_model_that_never_stops_is_stopped_as_late_as_possible(kind: Kind, call: Any) -> None:
    """E7, B36, B37, B39: limits 1 to 15. LangGraph looks once more after the last step, so a run
    of k steps needs a limit of k + 1."""
    agent = kind.agent(Restless(calls=("add",)))
    for steps in range(1, 16):
        if steps <= kind.answer():
            with pytest.raises(GraphRecursionError):
                call(agent, ASK, limit(steps))
            continue
        result = call(agent, ASK, limit(steps))
        assert result["messages"][-1].text == SORRY
        assert rounds(result["messages"]) == (steps - 1 - kind.answer()) // kind.round()
        assert ("structured_response" in result) == bool(kind.structured)


@each_kind
@each("calls", [("show",), ("add", "show")])
def test_calls_whose_results_end_a_run_need_no_turn(
    kind: Kind, calls: tuple[str, ...], call: Any
) -> None:
    """E7, E2, B39: one such call among others ends the run, so it counts for all of them."""
    agent = kind.agent(Restless(calls=calls))
    for steps in range(1, kind.round() + 3):
        if steps <= min(kind.answer(), kind.round()):
            with pytest.raises(GraphRecursionError):
                call(agent, ASK, limit(steps))
        elif steps > kind.round():
            assert rounds(call(agent, ASK, limit(steps))["messages"]) == len(calls)
        else:
            assert call(agent, ASK, limit(steps))["messages"][-1].text == SORRY


@each(
    "kind, least",
    [(Kind(), 4), (Kind(pre=1), 6), (Kind(post=1), 6), (Kind(structured=1), 5), (Kind(1, 1, 1), 9)],
)
def test_the_least_limit_of_one_round_of_tools(kind: Kind, least: int, call: Any) -> None:
    """E7"""

    def run(steps: int) -> str:
        answer = [{"name": "Answer", "args": ARGS["Answer"]}]
        once = [[{"name": "add", "args": ARGS["add"]}], "It is 5.", answer]
        model = ScriptedChatModel([once[0], *([] if steps < least else once[1:2]), answer])
        text: str = call(kind.agent(model), ASK, limit(steps))["messages"][-1].text
        return text

    assert run(least) == "It is 5."
    assert run(least - 1) == SORRY


def test_the_words_take_the_place_of_the_calls(call: Any) -> None:
    """B36: the id is that of the model's message, so no call stays without an answer."""
    asked = AIMessage("", id="asked", tool_calls=[{"name": "add", "args": ARGS["add"], "id": "1"}])
    agent = create_react_agent(ScriptedChatModel([asked]), [add], name="counter")
    last = call(agent, ASK, limit(3))["messages"][-1]
    assert (last.id, last.text, last.tool_calls, last.name) == ("asked", SORRY, [], "counter")


def test_without_tools_no_call_needs_a_step(call: Any) -> None:
    """B56, E7: it is left to the outer graph."""
    asked = AIMessage("", tool_calls=[{"name": "add", "args": ARGS["add"], "id": "1"}])
    agent = create_react_agent(ScriptedChatModel([asked]), [])
    messages = call(agent, ASK, limit(2))["messages"]
    assert [m.type for m in messages] == ["human", "ai"]
    assert messages[-1].tool_calls[0]["name"] == "add"


class Unmanaged(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    remaining_steps: int


def test_steps_that_nobody_counts_do_not_limit_a_run(call: Any) -> None:
    """B38: None says nothing; B41: a number is taken as it is, from any source."""
    ask = [{"name": "add", "args": ARGS["add"]}]
    agent = create_react_agent(
        ScriptedChatModel([ask, "It is 5.", ask]), [add], state_schema=Unmanaged
    )
    assert call(agent, ASK)["messages"][-1].text == "It is 5."
    assert call(agent, {**ASK, "remaining_steps": 2})["messages"][-1].text == SORRY


@each("version", ["v1", "v2"])
@each("schema", [None, AgentStatePydantic])
def test_tools_see_the_steps_that_are_left(version: Any, schema: Any, call: Any) -> None:
    """E9, B41, B47: a task of v2 carries the whole state, what is in no channel included."""
    seen = []

    @tool
    def steps(state: Annotated[Any, InjectedState]) -> str:
        """Tell the steps."""
        get = state.get if isinstance(state, dict) else lambda key: getattr(state, key)
        seen.append(get("remaining_steps"))
        return "reported"

    model = ScriptedChatModel([[{"name": "steps", "args": {}}], "Done."])
    agent = create_react_agent(model, [steps], version=version, state_schema=schema)
    call(agent, ASK, limit(10))
    # v2's is read where the task is sent, v1's where the node starts.
    assert seen == [9 if version == "v2" else 8]
