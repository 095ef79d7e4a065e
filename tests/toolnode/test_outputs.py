"""What a ToolNode gives back, and what becomes of a tool's result: C12 to C15, C53 to C55."""

from __future__ import annotations

import math
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.types import Command

from agent_factory import ToolNode, create_agent
from agent_factory.testing import ScriptedChatModel
from samples import tool_messages
from tables import each


def show(n: int) -> str:
    """Show a number."""
    return str(n)


@tool
def note(n: int) -> Any:
    """Note a number in the state."""
    said = ToolMessage(f"noted {n}", tool_call_id=str(n))
    return Command(update={"messages": [said], "noted": n})


@tool
def note_in_a_list(n: int) -> Any:
    """Note a number in a history that is the whole state."""
    return Command(update=[ToolMessage(f"noted {n}", tool_call_id=str(n))])


def giving(value: Any) -> BaseTool:
    @tool
    def give() -> Any:
        """Give something."""
        return value

    return give


def result_content(kind: Any, run: Any, ask: Any, value: Any) -> Any:
    """What the model reads of a value that a tool returned."""
    (message,) = run(kind([giving(value)]), ask(("give", {})))
    return message.content


def test_c12_a_list_gives_a_list_and_a_state_gives_an_update(kind: Any, run: Any, ask: Any) -> None:
    node, calls = kind([show]), ask(("show", {"n": 1}))
    assert [m.text for m in run(node, calls)] == ["1"]
    assert [m.text for m in run(node, {"messages": calls})["messages"]] == ["1"]
    direct = [{**calls[0].tool_calls[0], "type": "tool_call"}]
    assert [m.text for m in run(node, direct)["messages"]] == ["1"]
    keyed = kind([show], messages_key="talk")
    assert [m.text for m in run(keyed, direct)["talk"]] == ["1"]


def test_c13_results_stand_in_the_order_of_the_calls(kind: Any, run: Any, ask: Any) -> None:
    """C13: test_execution has the ones that finish in another order."""
    calls = ask(*(("show", {"n": n}) for n in range(9)))
    assert [m.text for m in run(kind([show]), calls)] == [str(n) for n in range(9)]


def test_c14_with_a_command_each_message_is_an_update(kind: Any, run: Any, ask: Any) -> None:
    calls = ask(("note", {"n": 1}), ("show", {"n": 2}), ("show", {"n": 3}))
    command, second, third = run(kind([note, show]), {"messages": calls})
    assert command.update["noted"] == 1
    assert [m.text for m in second["messages"]] == ["2"]
    assert [m.text for m in third["messages"]] == ["3"]


def test_c14_with_a_list_in_a_command_messages_are_lists(kind: Any, run: Any, ask: Any) -> None:
    calls = ask(("note_in_a_list", {"n": 1}), ("show", {"n": 2}))
    command, (second,) = run(kind([note_in_a_list, show]), calls)
    assert isinstance(command, Command)
    assert second.text == "2"


def test_c15_a_message_names_its_tool_and_its_call(kind: Any, run: Any, ask: Any) -> None:
    (message,) = run(kind([show]), ask(("show", {"n": 1})))
    known = (message.content, message.name, message.tool_call_id, message.status)
    assert known == ("1", "show", "1", "success")


class Thing:
    """An object that JSON cannot encode."""

    def __str__(self) -> str:
        return "a thing"


BLOCKS = ["text", "image_url", "image", "json", "search_result", "document", "file"]


@each(
    "value, content",
    [
        ("a text", "a text"),
        ({"city": "北京"}, '{"city": "北京"}'),
        (None, "null"),
        ([], []),
        (["a", "b"], '["a", "b"]'),
        ({1, 2}, "{1, 2}"),
        (math.nan, "NaN"),
        (True, "true"),
        (Thing(), "a thing"),
        *(([{"type": block}], [{"type": block}]) for block in BLOCKS),
        ([{"type": "custom_tool_call_output"}], [{"type": "custom_tool_call_output"}]),
        ([{"type": "text", "text": "a"}], [{"type": "text", "text": "a"}]),
        ([{"type": "tool_use", "id": "1"}], '[{"type": "tool_use", "id": "1"}]'),
        ([{"type": "text", "text": "a"}, "b"], '[{"type": "text", "text": "a"}, "b"]'),
    ],
)
def test_c53_c54_a_result_becomes_a_text_or_stays_a_list_of_blocks(
    kind: Any, run: Any, ask: Any, value: Any, content: Any
) -> None:
    """C54: a list of texts does not pass, and no character is escaped."""
    assert result_content(kind, run, ask, value) == content


def test_c55_a_tool_may_write_its_message_itself(kind: Any, run: Any, ask: Any) -> None:
    message = ToolMessage(["a", "b"], tool_call_id="1", status="error", artifact=7)
    (given,) = run(kind([giving(message)]), ask(("give", {})))
    assert (given.content, given.status, given.artifact) == ('["a", "b"]', "error", 7)


class Raw(BaseTool):
    """A tool that answers without BaseTool's formatting."""

    name: str = "raw"
    description: str = "Answer with a value."
    value: Any = 5

    def _run(self) -> Any:
        return self.value

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        return self._run()

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        return self._run()


def test_c55_any_other_answer_of_a_tool_is_a_mistake(kind: Any, run: Any, ask: Any) -> None:
    with pytest.raises(TypeError, match="Tool raw returned unexpected type: <class 'int'>"):
        run(kind([Raw()]), ask(("raw", {})))


@each("value", [5, None, {"a": 1}, [5], [{"a": 1}], [[]]])
def test_such_an_answer_is_refused_with_what_to_return(value: Any, run: Any, ask: Any) -> None:
    with pytest.raises(TypeError, match=r"^Tool raw returned .* Return a string, a list of conten"):
        run(ToolNode([Raw(value=value)]), ask(("raw", {})))


BLOCK = {"type": "text", "text": "A page."}


@each(
    "value, content",
    [
        ("text", "text"),
        ([BLOCK], [BLOCK]),
        (["a", BLOCK], '["a", {"type": "text", "text": "A page."}]'),
        (
            [{"type": "image_url", "image_url": {"url": "u"}}],
            [{"type": "image_url", "image_url": {"url": "u"}}],
        ),
    ],
)
def test_content_of_such_a_tool_is_the_content_of_its_message(
    value: Any, content: Any, run: Any, ask: Any
) -> None:
    (message,) = run(ToolNode([Raw(value=value)]), ask(("raw", {})))
    assert (message.content, message.name, message.tool_call_id) == (content, "raw", "1")
    # As for a tool that leaves the formatting to BaseTool.
    assert result_content(ToolNode, run, ask, value) == (value if value == "text" else content)


@each("fused", [True, False])
def test_content_of_such_a_tool_reaches_the_model(fused: bool, call: Any) -> None:
    model = ScriptedChatModel([[{"name": "raw", "args": {}, "id": "1"}], "Seen."])
    agent = create_agent(model, [Raw(value=[BLOCK])], fused=fused)
    (message,) = tool_messages(call(agent, {"messages": "Look"}))
    assert (message.content, model.requests[1].messages[-1].content) == ([BLOCK], [BLOCK])
