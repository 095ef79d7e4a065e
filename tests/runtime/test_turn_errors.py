"""Every mistake that ends a run, raised by a run, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langgraph.types import Command

from agent_factory import (
    AgentMiddleware,
    TurnError,
    create_agent,
    hook_config,
    wrap_model_call,
    wrap_tool_call,
)
from agent_factory import errors as errors_module
from agent_factory import structured_output as output_module
from agent_factory.structured_output import ToolStrategy
from agent_factory.testing import ScriptedChatModel
from samples import AsyncHook, add


def hook(result: Any, *can: Any) -> list[AgentMiddleware]:
    """A before_model hook that returns this."""

    @hook_config(can_jump_to=can)
    def before_model(self: Any, state: Any, runtime: Any) -> Any:
        return result

    return [type("Hook", (AgentMiddleware,), {"before_model": before_model})()]


class AsyncLayer(AgentMiddleware):
    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)


class Insists(AgentMiddleware):
    @hook_config(can_jump_to=["model"])
    def after_model(self, state: Any, runtime: Any) -> Any:
        return {"jump_to": "model"}


@wrap_model_call
def offers_more(request: Any, handler: Callable[[Any], Any]) -> Any:
    return handler(request.override(tools=[*request.tools, ADD]))


@wrap_tool_call
def forgets(request: Any, handler: Callable[[Any], Any]) -> Any:
    handler(request)


@wrap_tool_call
def answers_another(request: Any, handler: Callable[[Any], Any]) -> ToolMessage:
    return ToolMessage("3", tool_call_id="call_1")


ADD = tool(add)
ANSWER = {
    "title": "Answer",
    "type": "object",
    "properties": {"number": {"type": "integer"}},
    "required": ["number"],
}
CALL = [{"name": "add", "args": {"a": 1, "b": 2}, "id": "1"}]
WRONG = [{"name": "Answer", "args": {"number": "many"}, "id": "1"}]
RIGHT = {"name": "Answer", "args": {"number": 1}}
ONCE: Any = ToolStrategy(ANSWER, max_retries=1)
RAISES: Any = ToolStrategy(ANSWER, handle_errors=False)

TROUBLE: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("HookPathNotSupported", [], {"middleware": [AsyncHook()]}),
    ("PathNotSupported", [], {"middleware": [AsyncLayer()]}),
    ("UndeclaredJump", [], {"middleware": hook({"jump_to": "end"})}),
    ("UndeclaredJump", [], {"middleware": hook({"jump_to": "away"})}),
    ("JumpWithoutCalls", [], {"tools": [add], "middleware": hook({"jump_to": "tools"}, "tools")}),
    ("BadReturn", [], {"middleware": hook("text")}),
    ("BadReturn", [CALL], {"tools": [add], "middleware": [forgets]}),
    ("WrongToolCallId", [CALL], {"tools": [add], "middleware": [answers_another]}),
    ("CommandNotSupported", [], {"middleware": hook(Command(goto="__end__"))}),
    ("ModelCannotCallTools", [], {"tools": [add], "model": FakeListChatModel(responses=["x"])}),
    ("UnknownTool", [], {"middleware": [offers_more]}),
    ("UnknownStateKey", [], {"middleware": hook({"typo": 1})}),
    ("HistoryError", [], {"input": {"messages": []}}),
    ("EndlessLoop", ["Hi"] * 100, {"middleware": [Insists()]}),
    ("OutputError", [WRONG, WRONG], {"response_format": ONCE}),
    ("StructuredOutputValidationError", [WRONG], {"response_format": RAISES}),
    ("MultipleStructuredOutputsError", [[RIGHT, RIGHT]], {"response_format": RAISES}),
    ("MissingStructuredOutputError", ["One."], {"response_format": RAISES}),
]


def refused(steps: list[Any], arguments: dict[str, Any]) -> TurnError:
    options = {"model": ScriptedChatModel(steps), **arguments}
    given = options.pop("input", {"messages": "Go"})
    agent: Any = create_agent(**options)
    with pytest.raises(TurnError) as caught:
        agent.invoke(given)
    return caught.value


def test_every_kind_of_turn_error_is_tested() -> None:
    kinds = {
        name
        for module in (errors_module, output_module)
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, TurnError)
    }
    others = {"MissingNode"}  # in test_changed_stacks
    # in test_run_inputs and test_review
    others |= {"UnknownInput", "ReviewError", "NothingPending", "UnknownCall", "NoThread"}
    others |= {"InvalidAnswer"}  # in test_client_tools and test_service
    assert kinds - others - {"TurnError", "StructuredOutputError"} == {kind for kind, *_ in TROUBLE}


def test_the_messages_of_turn_errors(snapshot: Any) -> None:
    """One look at all of it: a change of words is a change that users read."""
    errors = [refused(steps, arguments) for _, steps, arguments in TROUBLE]
    assert [type(error).__name__ for error in errors] == [kind for kind, *_ in TROUBLE]
    for error in errors:
        assert error.subject
        assert error.hint
        assert str(error).startswith(f"[{type(error).code}] {error.subject}: {error.reason}")
    assert "\n\n".join(map(str, errors)) == snapshot
