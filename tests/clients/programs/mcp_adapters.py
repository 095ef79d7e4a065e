"""Agents as tools of LangChain, by its adapters for MCP."""

from __future__ import annotations

from typing import Any

from checks import URL, run
from langchain_mcp_adapters.client import MultiServerMCPClient

SERVER: Any = {"desk": {"transport": "streamable_http", "url": f"{URL}/mcp"}}


async def tools() -> Any:
    return {tool.name: tool for tool in await MultiServerMCPClient(SERVER).get_tools()}


async def names() -> Any:
    return set(await tools())


async def says(message: str, text: str) -> Any:
    call = {"type": "tool_call", "name": "desk", "args": {"message": message}, "id": "1"}
    return text in (await (await tools())["desk"].ainvoke(call)).text


run(
    tools=(names, {"desk", "ids", "outer", "page"}),
    message=(lambda: says("Hi", "You said: Hi"), True),
    review_without_forms=(lambda: says('call pay {"euros": 5}', "/inbox/"), True),
    failure=(lambda: says("fail", "the model is out of order"), True),
)
