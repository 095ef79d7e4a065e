"""MCP tools by langchain-mcp-adapters, over stdio and HTTP. They are asynchronous only."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from foreign.stories import Library, calls, compare, tell_each
from processes import owned, wait_for_line

SERVER = '''
import pathlib
import socket
import sys

import uvicorn
from mcp.server.fastmcp import FastMCP, Image
from mcp.server.fastmcp.exceptions import ToolError
from pydantic import BaseModel

server = FastMCP("shop", log_level="CRITICAL")
count = pathlib.Path(__file__).with_suffix(".count")


class Item(BaseModel):
    name: str
    stock: int


@server.tool()
def in_stock(item: str) -> int:
    """Count how many of an item are in stock."""
    return 3


@server.tool()
def find(name: str) -> Item:
    """Find an item."""
    return Item(name=name, stock=3)


@server.tool()
def picture() -> Image:
    """Show the shop."""
    return Image(data=b"png", format="png")


@server.tool()
def order(item: str) -> str:
    """Order an item; it fails each first time."""
    if count.exists():
        count.unlink()
        return f"ordered {item}"
    count.touch()
    raise ToolError("out of order")


if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    bound = socket.create_server(("127.0.0.1", 0))
    print(f"port {bound.getsockname()[1]}", flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="critical")
    uvicorn.Server(config).run(sockets=[bound])
'''


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mcp") / "shop.py"
    path.write_text(SERVER)
    return path


@pytest.fixture
def stdio(server: Path) -> MultiServerMCPClient:
    """A client that starts the server for each session."""
    arguments = [str(server), "stdio"]
    connection: Any = {"transport": "stdio", "command": sys.executable, "args": arguments}
    return MultiServerMCPClient({"shop": connection})


@pytest.fixture(scope="module")
def url(server: Path) -> Iterator[str]:
    """The address of a running server: to start one for each call would take minutes."""
    with owned() as processes:
        process = processes.start([sys.executable, server, "http"], stdout=subprocess.PIPE)
        port = wait_for_line(process, "port").split()[1]
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.fixture
def tools(url: str) -> Callable[..., Any]:
    """The tools of the server, with options of the client: `tools(handle_tool_errors=False)`."""
    connection: Any = {"shop": {"transport": "streamable_http", "url": url}}
    return lambda **known: asyncio.run(MultiServerMCPClient(connection, **known).get_tools())


def alike(build: Any, *inputs: Any, **known: Any) -> Any:
    return compare(build, *inputs, asynchronous=True, **known)


STOCK = ("in_stock", {"item": "lamp"})
ORDER = calls(("order", {"item": "lamp"}))


def test_results_have_content_and_artifacts(tools: Any) -> None:
    known = tools()

    def build(library: Library, script: Any) -> Any:
        turn = calls(STOCK, ("find", {"name": "lamp"}), ("picture", {}))
        return library.create_agent(script(turn, "Done."), known)

    story = alike(build)
    number, item, picture = (m for m in story.outcomes[0]["messages"] if m["type"] == "tool")
    assert number["content"][0]["text"] == "3"
    assert item["artifact"]["structured_content"] == {"name": "lamp", "stock": "3"}
    assert picture["content"][0]["type"] == "image"


def test_invalid_arguments_and_unknown_tools_are_reported_to_the_model(tools: Any) -> None:
    known = tools()

    def build(library: Library, script: Any) -> Any:
        turn = calls(("in_stock", {"thing": "lamp"}), ("sell", {}))
        return library.create_agent(script(turn, "Done."), known)

    assert [("rror" in str(result)) for result in alike(build).results] == [True, True]


@pytest.mark.parametrize("handled", [True, False])
def test_errors_of_a_server(tools: Any, server: Path, handled: bool) -> None:
    known = tools(handle_tool_errors=handled)

    def build(library: Library, script: Any) -> Any:
        server.with_suffix(".count").unlink(missing_ok=True)
        model = script(ORDER, "Sorry.") if handled else script(ORDER)
        return library.create_agent(model, known)

    story = alike(build)
    assert "out of order" in str(story.outcomes)
    assert ("error" in story.outcomes[0]) == (not handled)


def test_a_failed_call_is_tried_again(tools: Any, server: Path) -> None:
    known = tools(handle_tool_errors=False)

    def build(library: Library, script: Any) -> Any:
        server.with_suffix(".count").unlink(missing_ok=True)
        retry = library.middleware.ToolRetryMiddleware(initial_delay=0)
        return library.create_agent(script(ORDER, "Done."), known, middleware=[retry])

    assert "ordered lamp" in str(alike(build).results)


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_call_is_reviewed(tools: Any, decision: str) -> None:
    known = tools()

    def build(library: Library, script: Any) -> Any:
        review = library.middleware.HumanInTheLoopMiddleware({"in_stock": True})
        return library.create_agent(
            script(calls(STOCK, ("find", {"name": "lamp"})), "Done."),
            known,
            middleware=[review],
            checkpointer=InMemorySaver(),
        )

    answer: Any = Command(resume={"decisions": [{"type": decision}]})
    story = alike(build, "Hi", answer, parts=["course"])  # our review words some things differently
    assert ("'3'" in str(story.results[0])) == (decision == "approve")


def test_interceptors_see_the_run_and_change_calls(tools: Any) -> None:
    """They get the runtime of the agent: its state, context and store."""

    async def intercept(request: Any, handler: Any) -> Any:
        runtime = request.runtime
        await runtime.store.aput(("calls",), request.name, request.args)
        text = runtime.state["messages"][0].text
        return await handler(request.override(args={"name": f"{text} for {runtime.context}"}))

    known = tools(tool_interceptors=[intercept])
    store = InMemoryStore()

    def build(library: Library, script: Any) -> Any:
        model = script(calls(("find", {"name": "lamp"})), "Done.")
        return library.create_agent(model, known, store=store, context_schema=str)

    story = alike(build, "A lamp", context="Ada")
    assert "A lamp for Ada" in str(story.results)
    stored = store.get(("calls",), "find")
    assert stored is not None
    assert stored.value == {"name": "lamp"}


def test_interceptors_answer_and_return_commands(tools: Any) -> None:
    async def intercept(request: Any, handler: Any) -> Any:
        if request.name == "find":
            return ToolMessage("No need.", tool_call_id=request.runtime.tool_call_id)
        text = ToolMessage("Counted.", tool_call_id=request.runtime.tool_call_id)
        return Command(update={"messages": [text]})

    known = tools(tool_interceptors=[intercept])

    def build(library: Library, script: Any) -> Any:
        turn = calls(("find", {"name": "lamp"}), STOCK)
        return library.create_agent(script(turn, "Done."), known)

    assert alike(build).results == ["No need.", "Counted."]


def test_a_server_over_stdio_with_one_session(stdio: Any) -> None:
    """Tools of a session run only inside of it."""

    async def story(library: Library, model: Any) -> Any:
        async with stdio.session("shop") as session:
            agent = library.create_agent(model, await load_mcp_tools(session))
            return await agent.ainvoke({"messages": "Hi"})

    class Once:
        """An agent within a session."""

        checkpointer = None

        def __init__(self, library: Library, model: Any) -> None:
            self.ainvoke = lambda *_: story(library, model)

    alike(
        lambda library, script: Once(library, script(calls(STOCK), calls(STOCK), "Done.")),
        stream=False,
    )


def test_a_synchronous_run_says_that_the_tool_is_asynchronous(tools: Any) -> None:
    known = tools()

    def build(library: Library, script: Any) -> Any:
        return library.create_agent(script(calls(STOCK)), known)

    errors = [s.outcomes[0]["error"]["error"] for s in tell_each(build, asynchronous=False)]
    # Ours is a NotImplementedError too, and names the tool.
    assert errors == ["NotImplementedError", "PathNotSupported", "PathNotSupported"]
