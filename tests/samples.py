"""Tools, schemas and plans that many tests use, and short ways to read a result.

Test files import it as `samples`: pytest puts this folder on the path (`pythonpath` in
pyproject.toml).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Annotated, Any, NotRequired
from uuid import uuid4

import pytest
from hypothesis import strategies as st
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import InjectedState, InjectedStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from agent_factory import AgentMiddleware, Ordering, create_agent, hook_config, plan_agent
from agent_factory.testing import ScriptedChatModel
from agent_factory.topology import ToolGuard, Topology
from agent_factory.topology.model import JUMPS, Call, Hook, Layer, Phase, Shape, Tool
from agent_factory.topology.model import ToolKind as Kind
from agent_factory.types import AgentState, ModelRequest

THREAD: Any = {"configurable": {"thread_id": "1"}}
"""The thread of a test that needs no other."""


class Killed(BaseException):
    """The process dies."""


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


add_tool = tool(add)


@tool
def broken(a: int) -> int:
    """Break."""
    raise ValueError(f"broken by {a}")


def call_of(name: str, number: int = 1, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": f"call_{number}"}


class Answer(BaseModel):
    number: int


def last_text(result: Any) -> str:
    """The text of the last message."""
    return str(result["messages"][-1].text)


def tool_results(result: Any) -> list[tuple[str, str]]:
    """The text and the status of each tool message."""
    return [(m.text, m.status) for m in result["messages"] if m.type == "tool"]


def find(query: str) -> str:
    """Find."""
    return query


class Guard(AgentMiddleware):
    """Middleware with hooks, a jump and both kinds of layers."""

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> None:
        """Look."""

    def after_agent(self, state: Any, runtime: Any) -> None:
        """Look."""

    def around_model(self, request: Any) -> Any:
        return (yield request)

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(request)


class PassingWraps:
    """Wraps of a middleware that pass everything on; a mixin."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)


class PassingFlows:
    """Layers of a middleware that pass everything on; a mixin."""

    def around_model(self, request: Any) -> Any:
        return (yield request)

    def around_tool(self, request: Any) -> Any:
        return (yield request)


def combinations(*dimensions: Iterable[Any], every: int, first: int = 0) -> list[Any]:
    """Parameters: each combination of values, of which one in `every` is not long.

    Args:
        dimensions: The values of each parameter.
        every: The sum of the places of the values is a multiple of it in short tests. So each value
            has a short test where the other dimensions have at least as many values.
        first: Another beginning, so that tests of the same values have other short ones.
    """
    params = []
    for combination in product(*(enumerate(values) for values in dimensions)):
        places, values = zip(*combination, strict=True)
        marks = [pytest.mark.long] if (sum(places) - first) % every else []
        names = [str(getattr(value, "name", getattr(value, "__name__", value))) for value in values]
        params.append(pytest.param(*values, marks=marks, id="-".join(names)))
    return params


def full_plan() -> Topology:
    """A plan with hooks, layers, a jump, and tools of every kind."""
    return plan_agent(
        tools=[find, {"type": "web_search"}],
        middleware=[Guard(), Guard(name="other")],
        response_format={"title": "Answer", "type": "object"},
    )


def shapes(*, unique_layers: bool = False) -> st.SearchStrategy[Shape]:
    """Shapes of agents, with hooks, layers and tools of every kind."""
    jumps = st.frozensets(st.sampled_from(JUMPS))
    hooks = st.lists(
        st.builds(Hook, st.sampled_from("ABC"), st.sampled_from(Phase), jumps),
        unique_by=lambda hook: hook.node,
    )
    layers = st.lists(
        st.builds(Layer, st.sampled_from("ABC"), st.sampled_from(Call), st.just("x")),
        unique=unique_layers,
    )
    tools = st.lists(
        st.builds(Tool, st.sampled_from("tuv"), st.sampled_from(Kind), st.booleans()),
        unique_by=lambda tool: tool.name,
    )
    return st.builds(_shape, hooks, layers, tools, st.booleans())


def _shape(hooks: list[Hook], layers: list[Layer], tools: list[Tool], provider: bool) -> Shape:
    has_tools = any(tool.kind is Kind.CLIENT for tool in tools)
    if not has_tools:  # what create_agent refuses
        hooks = [Hook(h.owner, h.phase, h.can_jump_to - {"tools"}) for h in hooks]
    structured = provider or any(tool.kind is Kind.OUTPUT for tool in tools)
    answers = structured or any(layer.call is Call.MODEL for layer in layers)
    return Shape(tuple(hooks), tuple(layers), has_tools, answers, structured, tuple(tools))


def texts(result: Any) -> list[str]:
    """The text of each message."""
    return [message.text for message in result["messages"]]


def types(result: Any) -> list[str]:
    """The type of each message."""
    return [message.type for message in result["messages"]]


def tool_messages(result: Any) -> list[ToolMessage]:
    """The messages of tools."""
    return [message for message in result["messages"] if isinstance(message, ToolMessage)]


def tool_texts(result: Any) -> list[str]:
    """The text of each tool message."""
    return [m.text for m in result["messages"] if m.type == "tool"]


def results_by_id(result: Any) -> dict[str, str]:
    """The texts of tool messages by the ids of their calls."""
    return {m.tool_call_id: m.text for m in result["messages"] if m.type == "tool"}


def scripted(*steps: Any) -> ScriptedChatModel:
    """A model that answers with these steps, or once."""
    return ScriptedChatModel(list(steps) or ["Hello"])


def adding() -> ScriptedChatModel:
    """A model that calls `add` once, and answers."""
    return ScriptedChatModel([[{"name": "add", "args": {"a": 2, "b": 3}}], "5"])


def greeting_agent(*middleware: Any, **options: Any) -> Any:
    """An agent that answers three messages."""
    model = ScriptedChatModel(["Hello"] * 3)
    return create_agent(model, middleware=list(middleware), **options)


@dataclass
class Thread:
    """A state that is an object."""

    messages: list[Any] = field(default_factory=list)


class ThreadModel(BaseModel):
    """A state that is a model of pydantic."""

    messages: list[Any]


class Naming(AgentState):
    """A state with a name."""

    name: NotRequired[str]


class Noted(AgentState):
    """A state with a note."""

    note: NotRequired[str]


def nothing(state: Any) -> dict[str, Any]:
    """A hook of `create_react_agent` that writes nothing."""
    return {}


@tool(return_direct=True)
def show(text: str) -> str:
    """Show a text."""
    return f"<{text}>"


@tool
def ask() -> str:
    """Ask a person."""
    return f"said {interrupt('?')}"


def fail() -> str:
    """Fail."""
    raise ValueError("broken")


def undocumented(a: int) -> int:
    return a


@tool
def cancel(query: str) -> str:
    """Cancel an order."""
    return f"cancelled {query}"


@tool
def mail(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


def pay(euros: int) -> str:
    """Pay a bill."""
    return f"Paid {euros}."


def edit(name: str, **args: Any) -> dict[str, Any]:
    """The decision to run a call of this tool with these arguments."""
    return {"type": "edit", "edited_action": {"name": name, "args": args}}


def decisions(*decisions: Any) -> Command[Any]:
    """The answer to a review, with a decision for each call."""
    return Command(resume={"decisions": list(decisions)})


def tool_call(name: str, id: str, **args: Any) -> Any:
    """A call of a tool in a message of the model."""
    return {"name": name, "args": args, "id": id}


def named_calls(*names: str) -> list[dict[str, Any]]:
    """Calls of these tools, whose ids are the names."""
    return [{"name": name, "args": {}, "id": name} for name in names]


def numbered_calls(*names: str) -> list[dict[str, Any]]:
    """Calls of these tools, with the ids "0", "1", ..."""
    return [{"name": name, "args": {}, "id": f"{i}"} for i, name in enumerate(names)]


@dataclass
class User:
    """A context of a run."""

    name: str


def wrap(self: Any, request: Any, handler: Any) -> Any:
    """A wrap that passes everything on."""
    return handler(request)


async def awrap(self: Any, request: Any, handler: Any) -> Any:
    """An async wrap that passes everything on."""
    return await handler(request)


class AsksTwice(AgentMiddleware[Any, Any]):
    """Asks the model again, and takes the second answer."""

    def around_model(self, request: ModelRequest[Any]) -> Any:
        yield request
        return (yield request)


class Asks(AgentMiddleware[Any, Any]):
    """Asks a person before each call of the model."""

    def before_model(self, state: Any, runtime: Any) -> Any:
        interrupt("Go on?")


class AddsContext(AgentMiddleware[Any, Any]):
    """Adds a message to each request, and not to the thread."""

    def around_model(self, request: ModelRequest[Any]) -> Any:
        extra = HumanMessage("only for this call")
        return (yield request.override(messages=[extra, *request.messages]))


class BackToModel(AgentMiddleware[Any, Any]):
    """Goes back to the model, whatever it has called."""

    @hook_config(can_jump_to=["model"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"jump_to": "model"}


class Declares(AgentMiddleware):
    """Wraps tools, and declares guards."""

    def __init__(self, *guards: ToolGuard) -> None:
        super().__init__()
        self.guards = guards

    def around_tool(self, request: Any) -> Any:
        return (yield request)


class Rewrites(AgentMiddleware):
    """A layer that says that it changes calls."""

    ordering = Ordering(writes=("tool_calls",))

    def around_tool(self, request: Any) -> Any:
        return (yield request)


class Contact(BaseModel):
    """A contact."""

    mail: str


class Ends(AgentMiddleware):
    """Ends the run after the first answer of the model."""

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"jump_to": "end"}


class Inconsistent(AgentMiddleware):
    """A hook that writes something else in async runs."""

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"messages": [HumanMessage("blue")]}

    async def abefore_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"messages": [HumanMessage("red")]}


class AsyncHook(AgentMiddleware):
    """A hook of async runs alone."""

    async def abefore_model(self, state: Any, runtime: Any) -> None:
        return None


class Plain(AgentMiddleware):
    """A hook that does nothing."""

    def before_model(self, state: Any, runtime: Any) -> None:
        return None


class OwnModel(BaseChatModel):
    """A base for chat models of a test's own, which say how they answer."""

    @property
    def _llm_type(self) -> str:
        return "own"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self


class Gpt(ScriptedChatModel):
    """A model with a name of OpenAI's."""

    model_name: str = "gpt-5"


def message_count(messages: Sequence[Any]) -> str:
    """A summary that says how many messages there were."""
    return f"{len(messages)} messages"


def new_thread() -> str:
    """The id of a new thread."""
    return f"t-{uuid4().hex[:8]}"


def in_memory() -> dict[str, Any]:
    """Options of an agent that keeps its threads."""
    return {"checkpointer": InMemorySaver()}


def prices() -> InMemoryStore:
    """A store with one price."""
    store = InMemoryStore()
    store.put(("prices",), "lamp", {"price": 39})
    return store


def two_stores(
    first: Annotated[Any, InjectedStore()], second: Annotated[Any, InjectedStore()]
) -> str:
    """Look into two stores."""
    return "never"


def user(name: Annotated[str, InjectedState("user")]) -> str:
    """Name the user."""
    return name


def timed(runtime: str) -> str:
    """Say how long a film runs."""
    return runtime


def look() -> str:
    """Look around."""
    return "a tree"


def search(query: str) -> str:
    """Search."""
    return f"found {query}"


def through(request: Any) -> Any:
    """A flow that passes everything on."""
    return (yield request)


class Number(BaseModel):
    """A number."""

    n: int


class Count(AgentState):
    """A state with a count."""

    count: NotRequired[int]


def refund(euros: int) -> str:
    """Pay money back."""
    return f"{euros} euros were paid back."


class Review(AgentMiddleware):
    """Has a hook after the model."""

    def after_model(self, state: Any, runtime: Any) -> None:
        """Look at the calls."""
