"""What an agent of one request was made of is collected when nothing refers to the agent.

Classes, functions and tools that are made for a request close over what belongs to it: a user, a
connection. A cache must not keep them.
"""

import gc
import re
from operator import add
from pathlib import Path
from typing import Annotated, Any
from weakref import ref

import pytest
from langchain_core.tools import tool
from pydantic import BaseModel
from stack_agents import agent_of
from typing_extensions import TypedDict

import agent_factory
from agent_factory import (
    AgentMiddleware,
    AgentState,
    before_model,
    create_agent,
    middleware,
    wrap_model_call,
    wrap_tool_call,
)
from agent_factory.middleware import PromptCachingMiddleware, SummarizationMiddleware
from agent_factory.serve.langgraph.start import input_keys
from agent_factory.structured_output import ToolStrategy
from agent_factory.testing import ScriptedChatModel
from samples import look
from tables import each

langchain = pytest.importorskip("langchain.agents.middleware")

ASK = {"messages": [("user", "Hello")]}


class Connection:
    """What belongs to a request."""

    def used(self) -> str:
        return "used"


def model_of(*calls: str) -> ScriptedChatModel:
    return ScriptedChatModel([*([{"name": name, "args": {}}] for name in calls), "Done."])


def classes(connection: Connection) -> Any:
    class Hook(AgentMiddleware[Any]):
        def __init__(self) -> None:
            super().__init__()

        def before_model(self, state: Any, runtime: Any) -> None:
            connection.used()

    class Derived(Hook):
        def before_model(self, state: Any, runtime: Any) -> None:
            super().before_model(state, runtime)

    class Flow(AgentMiddleware[Any]):
        name = "flow"

        def around_model(self, request: Any) -> Any:
            connection.used()
            return (yield request)

        def around_agent(self, state: Any) -> Any:
            connection.used()
            return (yield state)

    return create_agent(model_of(), middleware=[Hook(), Derived(), Flow()])


def decorated_functions(connection: Connection) -> Any:
    @before_model
    def hook(state: Any, runtime: Any) -> None:
        connection.used()

    @wrap_model_call
    def layer(request: Any) -> Any:
        connection.used()
        return (yield request)

    @wrap_tool_call
    def tool_layer(request: Any) -> Any:
        connection.used()
        return (yield request)

    return create_agent(model_of("look"), [look], middleware=[hook, layer, tool_layer])


def state_schemas(connection: Connection) -> Any:
    class Own(AgentState[Any]):
        # Not a reducer that closes over it: Python's `typing` keeps the items of Annotated.
        used: Annotated[list[Any], add]

    class Other(AgentState[Any]):
        kept: Connection

    class Keeper(AgentMiddleware[Any]):
        state_schema = Own

        def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
            return {"kept": connection, "used": [connection.used()]}

    class Context(TypedDict):
        connection: Connection

    for schema in (Own, Other):
        setattr(schema, "connection", connection)  # noqa: B010  # mypy knows no such attribute
    schemas: Any = {"state_schema": Other, "context_schema": Context}
    return create_agent(model_of(), middleware=[Keeper()], **schemas)


def function_and_method_tools(connection: Connection) -> Any:
    def use() -> str:
        """Use the connection."""
        return connection.used()

    class Service:
        def serve(self) -> str:
            """Use the connection."""
            return connection.used()

    agent = create_agent(model_of("use", "serve"), [use, Service().serve])
    assert input_keys(agent) == ("messages",)
    return agent


def tools_of_built_ins(connection: Connection) -> Any:
    @tool
    def use() -> str:
        """Use the connection."""
        return connection.used()

    return create_agent(
        model_of("use"),
        [use],
        middleware=[SummarizationMiddleware(model_of(), trigger=("tokens", 9_999)), *SHARED],
    )


def decisions_of(connection: Connection) -> Any:
    class Hook(AgentMiddleware[Any]):
        def before_model(self, state: Any, runtime: Any) -> None:
            connection.used()

    def use() -> str:
        """Use the connection."""
        return connection.used()

    return agent_of(model_of("use"), Hook(), tools=[use], decisions=lambda _: connection.used())


def model_class(connection: Connection) -> Any:
    class Model(ScriptedChatModel):
        def use(self) -> None:
            connection.used()

    model: Any = Model
    return create_agent(model(["Done."]), middleware=SHARED)


def langchain_middleware(connection: Connection) -> Any:
    class Layer(langchain.AgentMiddleware):  # type: ignore[misc,name-defined]
        def before_model(self, state: Any, runtime: Any) -> None:
            connection.used()

    class Answer(BaseModel):
        text: str

        def use(self) -> None:
            connection.used()

    model = ScriptedChatModel([[{"name": "Answer", "args": {"text": "Done."}}]])
    return create_agent(model, middleware=[Layer()], response_format=ToolStrategy(Answer))


WAYS = [
    classes,
    decorated_functions,
    state_schemas,
    function_and_method_tools,
    tools_of_built_ins,
    decisions_of,
    model_class,
    langchain_middleware,
]

SHARED = [PromptCachingMiddleware()]
"""Middleware that agents of several requests share."""


@each("way", WAYS, ids=lambda way: way.__name__)
def test_what_an_agent_is_made_of_is_collected_after_it(way: Any, call: Any) -> None:
    def serve() -> ref[Connection]:
        connection = Connection()
        call(way(connection), ASK)
        return ref(connection)

    connections = [serve() for _ in range(3)]
    gc.collect()
    assert [one() for one in connections] == [None] * 3


CACHED = re.compile(r"^@(?:lru_cache|cache)\b.*\ndef (\w+)\((.*)\)", re.MULTILINE)
"""A function of a module with a cache that keeps its arguments, and their annotations."""


def test_no_cache_of_a_module_keeps_objects() -> None:
    """Others are weak: a WeakKeyDictionary, or an attribute of the object."""
    caches = {
        (path.name, *match.groups())
        for root in (Path(agent_factory.__file__).parent, Path(middleware.__file__).parent)
        for path in root.rglob("*.py")
        for match in CACHED.finditer(path.read_text("utf8"))
    }
    assert {entry for entry in caches if not re.fullmatch(r"(\w+: str(, )?)*", entry[2])} <= {
        # An object of LangGraph, without references, that has none to it either.
        ("log.py", "_ids_of", "run: object"),
        ("counting.py", "_turn", "run: object, message: str"),
        # A value: the names, numbers and texts of a pattern.
        ("trajectory_patterns.py", "_next", "node: Node | None"),
    }
