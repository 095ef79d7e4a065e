"""MCP's clients for Python, of version 1 and of version 2."""

from __future__ import annotations

from typing import Any

from checks import URL, run

try:
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp_types import ElicitResult
except ImportError:
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client
    from mcp.types import ElicitResult

    Client = None


async def using(act: Any, answer: Any = None) -> Any:
    """The result of a function of the client; `answer` fills forms."""
    if Client is not None:
        connection = streamable_http_client(f"{URL}/mcp")
        async with Client(connection, elicitation_callback=answer) as client:
            return await act(client)
    async with (
        streamablehttp_client(f"{URL}/mcp") as (read, write, _),
        ClientSession(read, write, elicitation_callback=answer) as client,
    ):
        await client.initialize()
        return await act(client)


async def call(message: str, answer: Any = None, **options: Any) -> Any:
    """The result of the tool, as JSON."""

    async def act(client: Any) -> Any:
        return await client.call_tool("desk", {"message": message}, **options)

    return (await using(act, answer)).model_dump(by_alias=True)


async def approve(context: Any, params: Any) -> Any:
    return ElicitResult(action="accept", content={"decision": "approve"})


async def tools() -> Any:
    tools = await using(lambda client: client.list_tools())
    return {tool.name for tool in tools.tools}


async def text(*arguments: Any) -> Any:
    return (await call(*arguments))["content"][0]["text"]


async def progress() -> Any:
    seen: list[Any] = []

    async def note(number: float, total: float | None, message: str | None) -> None:
        seen.append(message)

    await call('call look {"order": "A1"}', progress_callback=note)
    return "look" in str(seen)


async def failed() -> Any:
    return (await call("fail"))["isError"]


async def waiting() -> Any:
    return (await call(PAY))["structuredContent"]["status"]


PAY = 'call pay {"euros": 5}'
run(
    tools=(tools, {"desk", "ids", "outer", "page"}),
    message=(lambda: text("Hi"), "You said: Hi"),
    progress=(progress, True),
    failure=(failed, True),
    review_without_forms=(waiting, "waiting"),
    review_by_a_form=(lambda: text(PAY, approve), "Done: Paid 5."),
)
