"""The state of create_react_agent: its schemas, structured answers, and steps (B9-B12, E7)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, NotRequired
from uuid import uuid4

import langgraph.prebuilt
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.managed import RemainingSteps
from langgraph.prebuilt import InjectedState
from langgraph.types import Command
from pydantic import BaseModel, Field, ValidationError
from typing_extensions import TypedDict

from agent_factory import create_react_agent, prebuilt
from agent_factory.prebuilt import AgentStatePydantic, AgentStateWithStructuredResponsePydantic
from agent_factory.prebuilt.react_state import keys_of, model_schema, schemas_of
from agent_factory.testing import ScriptedChatModel
from samples import THREAD, Answer, OwnModel, nothing, scripted, show
from samples import add_tool as add
from tables import each

ASK: Any = {"messages": [("user", "2 + 3?")]}


ADD = [{"name": "add", "args": {"a": 2, "b": 3}, "id": "1"}]


def test_a_model_of_the_state_counts_from_25_where_nobody_counts() -> None:
    """B41, D12, E8"""
    assert prebuilt.AgentStatePydantic(messages=[]).remaining_steps == 25
    assert prebuilt.AgentStateWithStructuredResponsePydantic(messages=[]).remaining_steps == 25


class Moody(prebuilt.AgentStatePydantic):
    mood: int = 0


@each("tools", [[], [add]])
def test_a_model_of_the_state_refuses_what_does_not_fit(tools: Any, call: Any) -> None:
    """B11"""
    agent = create_react_agent(scripted(), tools, state_schema=Moody)
    with pytest.raises(ValidationError, match="mood"):
        call(agent, {**ASK, "mood": "bad"})


@dataclass
class Plain:
    messages: Annotated[list[AnyMessage], add_messages]
    remaining_steps: RemainingSteps
    mood: str = "calm"


def test_a_dataclass_is_a_state_too(call: Any) -> None:
    seen = []

    def look(state: Plain) -> dict[str, Any]:
        seen.append((type(state), state.mood, len(state.messages)))
        return {"mood": "kind"}

    agent = create_react_agent(
        scripted(ADD, "5"), [add], state_schema=Plain, pre_model_hook=look, version="v1"
    )
    assert call(agent, ASK)["mood"] == "kind"
    assert seen == [(Plain, "calm", 1), (Plain, "kind", 3)]


class Noting(prebuilt.AgentState):
    notes: NotRequired[list[str]]


class Chosen(prebuilt.AgentState):
    llm_input_messages: list[AnyMessage]


class Own(BaseModel):
    messages: Annotated[list[AnyMessage], add_messages]
    remaining_steps: RemainingSteps = 25


@each("schema", [prebuilt.AgentState, Noting, Own])
def test_the_models_input_is_the_state_and_what_a_hook_chose(schema: Any) -> None:
    """B12: of the same kind as the state."""
    assert model_schema(schema, hooked=False) is schema
    made = model_schema(schema, hooked=True)
    assert made.__name__ == "CallModelInputSchema"
    assert keys_of(made).keys() == {*keys_of(schema), "llm_input_messages"}
    assert issubclass(made, BaseModel) == issubclass(schema, BaseModel)


def test_a_state_may_have_its_own_key() -> None:
    """B12: then its author says how it is kept."""
    assert model_schema(Chosen, hooked=True) is Chosen
    kept = keys_of(schemas_of(Chosen, has_tools=False, hooked=True).state)
    assert kept["llm_input_messages"] == list[AnyMessage]


def test_what_a_hook_chose_outlives_a_pause(call: Any) -> None:
    """B32, B58"""
    asked = scripted()
    agent = create_react_agent(
        asked,
        [],
        pre_model_hook=lambda state: {"llm_input_messages": [HumanMessage("Short")]},
        checkpointer=InMemorySaver(),
        interrupt_before=["agent"],
    )
    call(agent, ASK, THREAD)
    call(agent, None, THREAD)
    assert [m.text for m in asked.requests[0].messages] == ["Short"]
    assert set(agent.get_state(THREAD).values) == {"messages"}


def test_it_is_a_node_of_another_graph(call: Any) -> None:
    """B6: with the steps of that graph's run as its own limit."""
    inner = create_react_agent(scripted(ADD, "It is 5."), [add], name="counter")
    graph = StateGraph(MessagesState).add_node("counter", inner).add_edge(START, "counter")
    assert call(graph.compile(), ASK)["messages"][-1].text == "It is 5."
    short = create_react_agent(scripted(ADD), [add])
    graph = StateGraph(MessagesState).add_node("counter", short).add_edge(START, "counter")
    said = call(graph.compile(), ASK, {"recursion_limit": 3})["messages"][-1].text
    assert said == "Sorry, need more steps to process this request."


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
@each("make", [create_react_agent, langgraph.prebuilt.create_react_agent])
def test_checkpoints_have_the_metadata_of_langgraph_and_of_the_caller(call: Any, make: Any) -> None:
    saver = InMemorySaver()
    agent = make(scripted(), [add], checkpointer=saver)
    call(agent, ASK, {"configurable": {"thread_id": "1"}, "metadata": {"team": "red"}})
    for entry in saver.list(None):
        assert entry.metadata.keys() == {"source", "step", "parents", "team"}


class AnswerDict(TypedDict):
    """The structured answer."""

    number: int


SCHEMA = {
    "title": "Answer",
    "description": "The structured answer.",
    "type": "object",
    "properties": {"number": {"type": "integer"}},
    "required": ["number"],
}

SHOW = [{"name": "show", "args": {"text": "it"}, "id": "2"}]


def answer(name: str = "Answer", number: int = 5) -> list[dict[str, Any]]:
    return [{"name": name, "args": {"number": number}}]


@each(
    "schema, name, expected",
    [
        (Answer, "Answer", Answer(number=5)),
        (AnswerDict, "AnswerDict", {"number": 5}),
        (SCHEMA, "Answer", {"number": 5}),
    ],
)
def test_the_model_is_asked_for_the_answer(
    schema: Any, name: str, expected: Any, call: Any
) -> None:
    """B42, B44, G17: in its own call, without the agent's tools, that leaves no message."""
    asked = ScriptedChatModel([ADD, "It is 5.", answer(name)])
    result = call(create_react_agent(asked, [add], response_format=schema), ASK)
    assert result["structured_response"] == expected
    assert [m.text for m in result["messages"]] == ["2 + 3?", "", "5", "It is 5."]
    assert len(asked.requests[2].tools) == 1
    assert "add" not in asked.requests[2].tools
    assert [m.text for m in asked.requests[2].messages] == ["2 + 3?", "", "5", "It is 5."]


def test_its_own_prompt_comes_first_and_the_agents_does_not(call: Any) -> None:
    """B43"""
    asked = ScriptedChatModel(["It is 5.", answer()])
    agent = create_react_agent(asked, [], prompt="Be brief.", response_format=("Be exact.", Answer))
    assert call(agent, ASK)["structured_response"] == Answer(number=5)
    assert [r.messages[0].text for r in asked.requests] == ["Be brief.", "Be exact."]
    assert len(asked.requests[1].messages) == 3


def test_a_bound_model_is_asked_without_what_is_bound(call: Any) -> None:
    """B22, B42"""
    asked = ScriptedChatModel(["It is 5.", answer()])
    agent = create_react_agent(asked.bind_tools([add]), [add], response_format=Answer)
    assert call(agent, ASK)["structured_response"] == Answer(number=5)
    assert [r.tools for r in asked.requests] == [["add"], ["Answer"]]


def test_an_answer_of_an_earlier_turn_is_not_taken_for_this_ones(call: Any) -> None:
    """B54: a thread keeps its state, and the answer was to another question."""
    asked = ScriptedChatModel(["It is 5.", answer(), ADD, "It is 6.", answer(number=6), SHOW])
    agent = create_react_agent(
        asked, [add, show], response_format=Answer, checkpointer=InMemorySaver()
    )
    assert call(agent, ASK, THREAD)["structured_response"] == Answer(number=5)
    assert call(agent, ASK, THREAD)["structured_response"] == Answer(number=6)
    assert call(agent, ASK, THREAD)["structured_response"] is None


class Strict(AgentStateWithStructuredResponsePydantic):
    structured_response: dict[str, Any] = Field(default_factory=dict)


def test_a_state_that_knows_no_none_is_not_given_it(call: Any) -> None:
    """B11: neither at the first turn, nor when an earlier answer is taken back."""
    asked = ScriptedChatModel([ADD, "5", answer("AnswerDict"), ADD, "5", answer("AnswerDict")])
    agent = create_react_agent(
        asked,
        [add],
        response_format=AnswerDict,
        state_schema=Strict,
        pre_model_hook=lambda state: {},
        checkpointer=InMemorySaver(),
    )
    for _ in range(2):
        assert call(agent, ASK, THREAD)["structured_response"] == {"number": 5}


def test_the_tokens_of_the_answer_are_streamed(collect: Any) -> None:
    """It is the agent's own model that speaks, in its own node."""
    agent = create_react_agent(ScriptedChatModel(["Hm.", answer()]), [], response_format=Answer)
    nodes = {about["langgraph_node"] for _, about in collect(agent, ASK, stream_mode="messages")}
    assert nodes == {"agent", "generate_structured_response"}


def test_a_tool_that_writes_the_key_does_not_end_the_run(call: Any) -> None:
    """B53, B54: return_direct alone decides where a run goes after tools."""

    @tool
    def guess() -> Command[Any]:
        """Guess."""
        message = ToolMessage("guessed", tool_call_id="3")
        return Command(update={"structured_response": Answer(number=1), "messages": [message]})

    asked = ScriptedChatModel([[{"name": "guess", "args": {}, "id": "3"}], "It is 5.", answer()])
    agent = create_react_agent(asked, [guess, show], response_format=Answer)
    assert call(agent, ASK)["structured_response"] == Answer(number=5)


SORRY = "Sorry, need more steps to process this request."


ARGS: dict[str, dict[str, Any]] = {
    "add": {"a": 2, "b": 3},
    "show": {"text": "it"},
    "Answer": {"number": 5},
}


class Restless(OwnModel):
    """Asks for the same calls each time, or for the answer where that is wanted."""

    calls: tuple[str, ...]

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
