"""Keys that hooks of langchain's middleware write and no schema has: dropped, with a warning."""

from __future__ import annotations

from typing import Any, NotRequired

import pytest
from langgraph.types import Command

from agent_factory import AgentFactoryWarning, AgentState, before_model, create_agent
from agent_factory.errors import UnknownStateKey
from agent_factory.testing import ScriptedChatModel

pytest.importorskip("langchain.agents", reason="the extra peer is not installed")

from langchain.agents import middleware as theirs

from tables import each

HISTORY: Any = {"messages": [("user", "Hi")]}


class Noting(AgentState[Any]):
    n: NotRequired[int]


class Writes(theirs.AgentMiddleware[Any, Any]):
    def __init__(self, update: Any) -> None:
        super().__init__()
        self.update = update

    def before_agent(self, state: Any, runtime: Any) -> Any:
        return self.update


class WritesLate(theirs.AgentMiddleware[Any, Any]):
    def after_model(self, state: Any, runtime: Any) -> Any:
        return {"rubric": "strict", "n": 7}


@each(
    "middleware",
    [
        Writes({"rubric": "strict", "n": 7}),
        Writes(Command(update={"rubric": "strict", "n": 7})),
        WritesLate(),
    ],
)
def test_a_key_that_a_hook_of_langchain_writes_and_nobody_declares_is_one_warning(
    call: Any, middleware: Any
) -> None:
    """LangChain drops it; the middleware may belong to another one that declares it."""
    agent: Any = create_agent(
        ScriptedChatModel(["Fine."] * 2), middleware=[middleware], state_schema=Noting
    )
    with pytest.warns(AgentFactoryWarning, match=r"^\[AF309\] Writes.*'rubric', which is dropped"):
        assert call(agent, HISTORY)["n"] == 7
    assert call(agent, HISTORY)["n"] == 7, "without a second warning, which would be an error"
    strict: Any = create_agent(
        ScriptedChatModel(["Fine."]), middleware=[middleware], state_schema=Noting, strict=True
    )
    with pytest.raises(UnknownStateKey):
        call(strict, HISTORY)


def test_a_key_that_nobody_declares_is_an_error_in_another_middleware(call: Any) -> None:
    @before_model
    def hook(state: Any, runtime: Any) -> Any:
        return {"rubric": "strict"}

    with pytest.raises(UnknownStateKey):
        call(create_agent(ScriptedChatModel(["Fine."]), middleware=[hook]), HISTORY)
