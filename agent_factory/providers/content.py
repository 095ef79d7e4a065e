"""Content that providers add to answers: calls that they run themselves, and sources."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage

_LONGEST = 120  # characters of arguments in one line


@dataclass(slots=True)
class ServerCall:
    """Call of a tool that the provider runs: a search, or code.

    Attributes:
        name: The name of the tool, such as "web_search".
        args: The arguments, such as the query.
        result: The result as text, a search's with a line for each page; "" without a result.
        is_error: Whether the call has failed.
    """

    name: str
    args: Mapping[str, object]
    result: str = ""
    is_error: bool = False

    @property
    def words(self) -> str:
        """The arguments in one line, a long line cut.

        >>> ServerCall("web_search", {"type": "search", "query": "rain in Bonn"}).words
        'rain in Bonn'
        """
        args = (value for name, value in self.args.items() if name != "type")
        values = (value if isinstance(value, list) else [value] for value in args)
        line = " ".join(", ".join(str(item) for items in values for item in items).split())
        return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def server_calls(message: AIMessage) -> list[ServerCall]:
    """Calls in an answer that the provider has run, in their order.

    >>> call = {"type": "server_tool_call", "id": "1", "name": "web_search", "args": {"query": "x"}}
    >>> server_calls(AIMessage(content_blocks=[call]))
    [ServerCall(name='web_search', args={'query': 'x'}, result='', is_error=False)]
    """
    calls: dict[object, ServerCall] = {}
    # ai.google.dev/gemini-api/docs/google-search: Gemini has no block for its searches.
    grounding = message.response_metadata.get("grounding_metadata")
    if isinstance(grounding, Mapping) and (queries := grounding.get("web_search_queries")):
        calls["grounding"] = ServerCall("web_search", {"queries": queries})
    for block in _blocks(message):
        if block["type"] == "server_tool_call":
            calls[block.get("id")] = ServerCall(block["name"], block.get("args") or {})
        elif block["type"] == "server_tool_result" and block.get("tool_call_id") in calls:
            call = calls[block["tool_call_id"]]
            call.result, call.is_error = _result(block.get("output")), block["status"] == "error"
    return [*calls.values()]


def sources_of(message: AIMessage) -> dict[str, str]:
    """Titles of the pages and files that an answer cites, by their addresses or names.

    >>> citation = {"type": "citation", "url": "https://example.com", "title": "Example"}
    >>> block = {"type": "text", "text": "It rains.", "annotations": [citation]}
    >>> sources_of(AIMessage(content_blocks=[block]))
    {'https://example.com': 'Example'}
    """
    # xAI and Perplexity list addresses alone, next to the content.
    urls = message.additional_kwargs.get("citations")
    sources = {url: url for url in urls or () if isinstance(url, str)}
    for block in _blocks(message):
        for citation in block.get("annotations") or () if block["type"] == "text" else ():
            if place := citation.get("url") or citation.get("title"):
                sources[place] = citation.get("title") or place
    return sources


def _blocks(message: AIMessage) -> Iterator[Mapping[str, Any]]:
    """The content blocks of an answer, in LangChain's form."""
    # Most answers are a text; reading their blocks takes time.
    if isinstance(message.content, list) or message.response_metadata:
        yield from message.content_blocks


def _result(output: Any) -> str:
    pages: Any = output.get("sources") if isinstance(output, Mapping) else output
    is_list = isinstance(pages, list)
    if is_list and all(isinstance(page, Mapping) and "url" in page for page in pages):
        return "\n".join(f"{page.get('title') or ''} {page['url']}".strip() for page in pages)
    if isinstance(output, str | None):
        return output or ""
    return json.dumps(output, ensure_ascii=False, indent=2, default=str)
