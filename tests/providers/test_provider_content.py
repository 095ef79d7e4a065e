"""Calls that providers run, and sources, in the forms of their packages."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage

from agent_factory.providers import ServerCall, server_calls, sources_of
from tables import each

URL = "https://example.com"
PAGES = [{"type": "url", "url": URL, "title": "Rain"}, {"type": "url", "url": f"{URL}/3"}]
FAILED = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}

FORMS: dict[str, tuple[Any, list[ServerCall], dict[str, str]]] = {
    "anthropic": (
        [
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": FAILED},
            {"type": "web_search_tool_result", "tool_use_id": "of no call", "content": []},
        ],
        [ServerCall("web_search", {"query": "x"}, '"error_code": "max_uses_exceeded"', True)],
        {},
    ),
    "openai": (
        [
            {
                "type": "web_search_call",
                "id": "w",
                "status": "completed",
                "action": {"type": "search", "query": "x", "sources": PAGES},
            },
            {"type": "file_search_call", "id": "f", "status": "completed", "queries": ["y"]},
            {
                "type": "text",
                "text": "It rains.",
                "annotations": [
                    {"type": "url_citation", "url": URL, "title": "Rain"},
                    {"type": "url_citation", "url": f"{URL}/2"},
                    {"type": "file_citation", "file_id": "1", "filename": "rain.pdf"},
                ],
            },
        ],
        [
            ServerCall("web_search", {"type": "search", "query": "x"}, f"Rain {URL}\n{URL}/3"),
            ServerCall("file_search", {"queries": ["y"]}),
        ],
        {URL: "Rain", f"{URL}/2": f"{URL}/2", "rain.pdf": "rain.pdf"},
    ),
    "google_genai": (
        [
            {"type": "executable_code", "executable_code": "1", "language": 1, "id": "e"},
            {
                "type": "code_execution_result",
                "code_execution_result": "one",
                "outcome": 1,
                "tool_call_id": "e",
            },
        ],
        [ServerCall("code_interpreter", {"code": "1", "language": 1}, "one")],
        {},
    ),
}
"""Content, calls and sources, by the provider. Of a result, a part of its text."""


@each("provider", list(FORMS))
def test_calls_and_sources_are_read_in_the_form_of_each_provider(provider: str) -> None:
    content, expected, sources = FORMS[provider]
    message = AIMessage(content, response_metadata={"model_provider": provider})
    calls = server_calls(message)
    for call, wanted in zip(calls, expected, strict=True):
        assert (call.name, call.args, call.is_error) == (wanted.name, wanted.args, wanted.is_error)
        assert wanted.result in call.result
        assert bool(wanted.result) == bool(call.result)
    assert sources_of(message) == sources


def test_searches_and_addresses_beside_the_content_are_read() -> None:
    grounding = {"grounding_metadata": {"web_search_queries": ["a", "b"]}}
    (call,) = server_calls(AIMessage("Hi", response_metadata=grounding))
    assert call.words == "a, b"
    listed = AIMessage("Hi", additional_kwargs={"citations": [URL, {"no": "text"}]})
    assert sources_of(listed) == {URL: URL}
    assert len(ServerCall("code", {"code": "x\n" * 99}).words) == 120
