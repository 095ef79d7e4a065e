"""The values of one turn: requests and responses."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from agent_factory import ModelRequest, ModelResponse
from agent_factory.testing import ScriptedChatModel
from tables import each


def request(**fields: Any) -> ModelRequest[Any]:
    return ModelRequest(**{"model": ScriptedChatModel(), "messages": [], **fields})


def test_a_request_needs_a_model_and_messages_only() -> None:
    messages: Any = [HumanMessage("Hello")]
    made = request(messages=messages)
    assert made.messages is messages
    assert (made.system_message, made.tool_choice, made.response_format) == (None, None, None)
    assert (made.state, made.tools, made.model_settings) == ({"messages": messages}, [], {})
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
