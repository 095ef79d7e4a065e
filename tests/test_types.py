"""The values of one turn: requests, responses, and what a caller sees of the state."""

from __future__ import annotations

import copy
import operator
from typing import Annotated, Any, NotRequired

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import (
    AgentMiddleware,
    AgentState,
    ModelRequest,
    ModelResponse,
    OmitFromInput,
    OmitFromOutput,
    OmitFromSchema,
    PrivateStateAttr,
    create_agent,
)
from agent_factory.testing import ScriptedChatModel
from tables import each

ASK: Any = {"messages": [("user", "Hello")]}


def request(**fields: Any) -> ModelRequest[Any]:
    return ModelRequest(**{"model": ScriptedChatModel(), "messages": [], **fields})


# --- ModelRequest -----------------------------------------------------------------------------


def test_a_request_needs_a_model_and_messages_only() -> None:
    messages: Any = [HumanMessage("Hello")]
    made = request(messages=messages)
    assert made.messages is messages
    assert made.system_message is None
    assert made.tool_choice is None
    assert made.tools == []
    assert made.response_format is None
    assert made.state == {"messages": messages}
    assert made.model_settings == {}
    made.tools.append({"type": "web_search"})
    made.model_settings["temperature"] = 0
    assert (request().tools, request().model_settings) == ([], {})  # defaults are not shared
    assert ModelResponse([AIMessage("Hi.")]).structured_response is None


def test_a_system_prompt_is_the_text_of_the_system_message() -> None:
    made = request(system_prompt="Be brief.")
    assert made.system_message == SystemMessage("Be brief.")
    assert made.system_prompt == "Be brief."
    blocks: Any = [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]
    assert request(system_message=SystemMessage(blocks)).system_prompt == "Be brief."
    assert request().system_prompt is None
    for make in (request, request().override):
        with pytest.raises(ValueError, match="not both"):
            make(system_prompt="one", system_message=SystemMessage("other"))


@each(
    "field, value",
    [
        ("model", ScriptedChatModel(["other"])),
        ("messages", [HumanMessage("Other")]),
        ("system_message", SystemMessage("Other")),
        ("tool_choice", "any"),
        ("tools", [{"type": "web_search"}]),
        ("response_format", None),
        ("state", {"messages": [], "key": 1}),
        ("runtime", None),
        ("model_settings", {"temperature": 0}),
    ],
)
def test_override_gives_a_changed_copy_and_leaves_the_request_alone(field: str, value: Any) -> None:
    made = request(system_prompt="Old.", tool_choice="auto")
    before = copy.copy(made)
    changed = made.override(**{field: value})
    assert getattr(changed, field) is value
    assert made == before
    assert changed is not made
    others = [name for name in vars(made) if name != field]
    assert all(getattr(changed, name) is getattr(made, name) for name in others)


def test_override_takes_the_text_of_the_system_message() -> None:
    made = request(system_prompt="Old.")
    assert made.override(system_prompt="New.").system_message == SystemMessage("New.")
    assert made.override(system_prompt=None).system_message is None
    assert made.system_prompt == "Old."


def test_override_refuses_unknown_fields() -> None:
    with pytest.raises(TypeError, match="'mesages'") as caught:
        request().override(mesages=[])  # type: ignore[call-arg]
    assert "messages" in str(caught.value), "the fields there are, are named"


@each("field", ["messages", "tools", "model", "tool_choice", "model_settings"])
def test_setting_a_field_works_and_warns(field: str) -> None:
    """api.md: setting an attribute warns DeprecationWarning and names `override`."""
    made = request()
    with pytest.warns(DeprecationWarning, match=rf"request\.override\({field}=\.\.\.\)"):
        setattr(made, field, "value")
    assert getattr(made, field) == "value"


def test_setting_the_system_prompt_sets_the_system_message_and_warns() -> None:
    made = request(system_prompt="Old.")
    with pytest.warns(DeprecationWarning, match="override") as caught:
        made.system_prompt = "New."  # type: ignore[misc]  # the property has no setter by design
    assert made.system_message == SystemMessage("New.")
    assert caught[0].filename == __file__, "the warning points at the line that sets"
    with pytest.warns(DeprecationWarning, match="override"):
        made.system_prompt = None  # type: ignore[misc]
    assert made.system_message is None


def test_requests_compare_by_their_fields_and_show_them() -> None:
    made = request(system_prompt="One.")
    assert made == made.override()
    assert made != made.override(system_prompt="Other.")
    assert made != "a text"
    with pytest.raises(TypeError, match="unhashable"):
        hash(made)
    shown = repr(request(system_prompt="Be brief.", tool_choice="any"))
    assert shown.startswith("ModelRequest(model=")
    assert "tool_choice='any'" in shown
    assert "Be brief." in shown


# --- what a caller sees of the state ------------------------------------------------------------


class Marked(AgentState[Any]):
    private: NotRequired[Annotated[int, PrivateStateAttr]]
    out_only: NotRequired[Annotated[int, OmitFromInput]]
    in_only: NotRequired[Annotated[int, OmitFromOutput]]
    custom: NotRequired[Annotated[int, OmitFromSchema(input=False, output=True)]]
    open: NotRequired[int]


KEYS = ["private", "out_only", "in_only", "custom", "open"]


class Spy(AgentMiddleware[Marked]):
    """Keeps the state it found, and writes every marked key."""

    state_schema = Marked

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        self.found.append({key: state[key] for key in KEYS if key in state})
        return dict.fromkeys(KEYS, 2)


def test_markers_say_what_a_caller_passes_in_and_gets_back_and_the_thread_keeps_all(
    call: Any,
) -> None:
    spy = Spy()
    model = ScriptedChatModel(["Hi.", "Again."])
    agent = create_agent(model, middleware=[spy], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    result = call(agent, {**ASK, **dict.fromkeys(KEYS, 1), "jump_to": "end"}, config)
    assert {key: result[key] for key in KEYS if key in result} == {"out_only": 2, "open": 2}
    assert result["messages"][-1].text == "Hi."  # A32: the jump of a caller is ignored
    assert "jump_to" not in result
    call(agent, ASK, config)
    assert spy.found == [{"in_only": 1, "custom": 1, "open": 1}, dict.fromkeys(KEYS, 2)]


def test_the_jump_and_the_structured_answer_are_not_in_the_input() -> None:
    """A32 and api.md: jump_to is private, structured_response is the run's to write."""
    agent = create_agent(ScriptedChatModel(), state_schema=Marked)
    assert set(agent.get_input_jsonschema()["properties"]) == {
        "messages",
        "in_only",
        "custom",
        "open",
    }
    assert set(agent.get_output_jsonschema()["properties"]) == {
        "messages",
        "structured_response",
        "out_only",
        "open",
    }


def test_keys_of_several_schemas_stand_side_by_side(call: Any) -> None:
    class Mine(AgentState[Any]):
        mine: NotRequired[str]

    class Summing(AgentState[Any]):
        total: NotRequired[Annotated[int, operator.add]]

    class Adding(AgentMiddleware[Summing]):
        state_schema = Summing

        def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
            return {"total": 1}

    agent = create_agent(
        ScriptedChatModel(["Hi."]),
        middleware=[Adding(name="one"), Adding(name="two")],
        state_schema=Mine,
    )
    result = call(agent, {**ASK, "mine": "kept", "total": 5})
    assert (result["mine"], result["total"]) == ("kept", 7)


class Folded(AgentState[Any]):
    """Its reducer is created each time its annotations, which are strings here, are evaluated."""

    log: NotRequired[Annotated[list[str], lambda old, new: [*old, *new]]]


class Longer(Folded):
    more: NotRequired[str]


@each("own", [None, Folded, Longer])
def test_one_schema_in_several_places_is_not_a_conflict(call: Any, own: Any) -> None:
    class Logging(AgentMiddleware[Folded]):
        state_schema = Folded

        def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
            return {"log": [self.name]}

    members = [Logging(name="one"), Logging(name="two")]
    agent = create_agent(ScriptedChatModel(["Hi."]), middleware=members, state_schema=own)
    assert call(agent, ASK)["log"] == ["one", "two"]
