"""Three ways to write middleware: a class, a decorated function, a flow.

Run: python examples/own_middleware.py

It prints the plan of the stack, then runs it sync and async.
"""

from __future__ import annotations

import asyncio
from typing import Any, NotRequired

from agent_factory import (
    AgentMiddleware,
    AgentState,
    Flow,
    InputAgentState,
    ModelRequest,
    Runtime,
    Sleep,
    create_agent,
    dynamic_prompt,
    hook_config,
    topology_of,
)
from agent_factory.testing import ScriptedChatModel


class WordState(AgentState[Any]):
    """The state of an agent, with another key."""

    words_said: NotRequired[int]


class WordBudget(AgentMiddleware[WordState, Any]):
    """A class: hooks that share settings and a state key. It ends long runs."""

    state_schema = WordState

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: WordState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        return {"jump_to": "end"} if state.get("words_said", 0) >= self.most else None

    def after_model(self, state: WordState, runtime: Runtime[Any]) -> dict[str, Any]:
        said = len(state["messages"][-1].text.split())
        return {"words_said": state.get("words_said", 0) + said}


@dynamic_prompt
def counted_prompt(request: ModelRequest[Any]) -> str:
    """A decorated function: a single hook without settings."""
    return f"Be brief. You have seen {len(request.messages)} messages."


class Patience(AgentMiddleware):
    """A flow: a layer around the model call, written once for sync and async.

    `yield request` makes the call and returns its response, or raises its exception.
    """

    def around_model(self, request: ModelRequest[Any]) -> Flow[Any]:
        try:
            return (yield request)
        except ConnectionError as error:
            print(f"  {error}; trying once more")
            yield Sleep(0.01)
            return (yield request)


def shout(text: str) -> str:
    """Write a text in capitals."""
    return text.upper()


def script() -> ScriptedChatModel:
    return ScriptedChatModel(
        [
            ConnectionError("the provider hung up"),
            [{"name": "shout", "args": {"text": "hello"}}],
            "The tool returned HELLO.",
        ]
    )


def main() -> None:
    question: InputAgentState = {"messages": [{"role": "user", "content": "Shout hello"}]}
    stack = [WordBudget(most=50), counted_prompt, Patience()]

    agent = create_agent(script(), [shout], middleware=stack)
    print(topology_of(agent).render())
    print("sync:")
    result = agent.invoke(question)
    print(f"  {result['messages'][-1].text} ({result['words_said']} words)")

    agent = create_agent(script(), [shout], middleware=stack)
    print("async:")
    result = asyncio.run(agent.ainvoke(question))
    print(f"  {result['messages'][-1].text} ({result['words_said']} words)")


if __name__ == "__main__":
    main()
