"""Labels of tools: where they come from, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.tools import BaseTool, StructuredTool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool

from agent_factory import (
    SpecError,
    agent_tool,
    client_tool,
    create_agent,
    labels_of,
    plan_agent,
    tool_labels,
)
from agent_factory.testing import ScriptedChatModel
from samples import add, find
from tables import each

LABELS: Any = ("untrusted", "private", "outside")


def fetch_with(*labels: Any) -> Callable[..., Any]:
    @tool_labels(*labels)
    def fetch(url: str) -> str:
        """Fetch."""
        return url

    return fetch


def from_mcp(**hints: object) -> BaseTool:
    """A tool as langchain-mcp-adapters makes it."""
    hints = {"title": None, "readOnlyHint": None, "openWorldHint": None, **hints}
    return StructuredTool.from_function(find, metadata=hints)


def labels_in_plan(*tools: Any) -> dict[str, tuple[str, ...]]:
    return {t.name: t.labels for t in plan_agent(tools=[*tools], ignore=["AF219"]).tools}


@given(st.lists(st.sampled_from(LABELS)))
def test_a_function_keeps_its_labels_as_a_tool_and_in_the_plan(labels: list[Any]) -> None:
    fetch = fetch_with(*labels)
    expected = tuple(label for label in LABELS if label in labels)
    assert labels_of(fetch) == labels_of(tool(fetch)) == expected
    assert labels_in_plan(fetch) == {"fetch": expected}


def test_a_former_tool_its_wrapper_and_a_coroutine_function_have_labels() -> None:
    def fetch(url: str) -> str:
        """Fetch."""
        return url

    assert labels_in_plan(fetch) == {"fetch": ()}
    tool_labels("private")(fetch)

    @wraps(fetch)
    def logged(url: str) -> Any:
        return fetch(url)

    assert labels_in_plan(fetch) == labels_in_plan(logged) == {"fetch": ("private",)}

    @tool
    @tool_labels("outside")
    async def post(text: str) -> str:
        """Post."""
        return text

    assert labels_of(post) == ("outside",)


def test_a_tool_of_each_kind_is_copied_with_labels_and_its_own_extras() -> None:
    plain = tool(find, extras={"defer_loading": True})
    copy = tool_labels("private")(plain)
    assert (labels_of(plain), labels_of(copy)) == ((), ("private",))
    assert copy.extras == {"defer_loading": True, "labels": ["private"]}
    assert copy.invoke({"query": "x"}) == "x"
    clerk = agent_tool(create_agent(ScriptedChatModel()), name="clerk", description="Works.")
    kinds = [tool_labels("outside")(kind) for kind in (clerk, client_tool("page", "Looks."))]
    assert labels_in_plan(*kinds) == {"clerk": ("outside",), "page": ("outside",)}


def test_a_provider_gets_no_labels() -> None:
    assert convert_to_openai_tool(tool(fetch_with("private"))) == convert_to_openai_tool(
        tool(fetch_with())
    )
    copy = tool_labels("private")(tool(find))
    assert convert_to_openai_tool(copy) == convert_to_openai_tool(tool(find))


@each(
    "hints, labels",
    [
        ({"openWorldHint": True, "readOnlyHint": True}, ("untrusted",)),
        ({"openWorldHint": True, "readOnlyHint": False}, ("untrusted", "outside")),
        ({"openWorldHint": True, "destructiveHint": True}, ("untrusted", "outside")),
        ({"openWorldHint": True}, ("untrusted", "outside")),
        ({"openWorldHint": False}, ()),
        ({"openWorldHint": False, "readOnlyHint": False, "destructiveHint": True}, ()),
        # What MCP's annotations leave out is an open world, and not read only.
        ({}, ("untrusted", "outside")),
        ({"readOnlyHint": True}, ("untrusted",)),
    ],
)
def test_annotations_of_mcp_are_defaults(hints: Any, labels: Any) -> None:
    assert labels_of(from_mcp(**hints)) == labels
    assert labels_in_plan(from_mcp(**hints)) == {"find": labels}


def test_labels_win_over_annotations_and_other_metadata_is_not_read() -> None:
    no_labels, private = tool_labels(), tool_labels("private")
    assert labels_of(no_labels(from_mcp(openWorldHint=True))) == ()
    assert labels_of(private(from_mcp(openWorldHint=True))) == ("private",)
    assert labels_of(StructuredTool.from_function(find, metadata={"team": "search"})) == ()


@each("label", ["Untrusted", "secret", "", None, 3, ["private"]])
def test_an_unknown_label_is_refused(label: Any) -> None:
    with pytest.raises(SpecError, match=r'must be some of "untrusted", "private", "outside", got'):
        tool_labels(label)
    with pytest.raises(SpecError, match="@tool_labels"):
        plan_agent(tools=[tool(find, extras={"labels": [label]})])


def test_an_unknown_label_is_reported_with_the_other_mistakes() -> None:
    unlabeled: Any = lambda query: query  # noqa: E731  # without a docstring
    with pytest.raises(SpecError) as caught:
        plan_agent(tools=[tool(find, extras={"labels": ["secret"]}), unlabeled])
    assert [error.code for error in caught.value.errors] == ["AF101", "AF112"]


def test_only_tools_have_labels_and_a_function_is_not_one() -> None:
    """`@tool_labels` without parentheses is refused."""
    no_tools: Any = ({"type": "web_search"}, "find", None, ScriptedChatModel)
    for thing in no_tools:
        with pytest.raises(SpecError, match="must decorate a function or a BaseTool, got"):
            tool_labels("private")(thing)
    with pytest.raises(SpecError, match="must be some of"):
        tool_labels(add)  # type: ignore[arg-type]
