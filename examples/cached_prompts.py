"""What prevents a provider from caching prompts: found in a test, and corrected.

Run: python examples/cached_prompts.py

A layer shows the model the time at the beginning of the system prompt. So no request begins like
the one before it, and nothing is read from the provider's cache.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from agent_factory import AgentMiddleware, Flow, ModelRequest, Outcome, create_agent
from agent_factory.middleware import TodoListMiddleware
from agent_factory.testing import PrefixChanged, ScriptedChatModel, assert_stable_prefix

MANUAL = "You work at the desk of a shop. Orders arrive within two days. " * 60
CONVERSATION = ["Where is order A-1001?", "And order A-1002?", "Thank you."]


def find_order(order_id: str) -> str:
    """Say when an order arrives."""
    return f"Order {order_id} arrives on Thursday."


class EarlyClock(AgentMiddleware[Any, Any]):
    """Shows the time at the beginning of the system prompt."""

    def __init__(self) -> None:
        super().__init__()
        self._minutes = count()

    def time(self) -> str:
        """The time; each call is a minute later, so that the example runs the same each day."""
        return f"It is 12:{next(self._minutes):02}."

    def around_model(self, request: ModelRequest[Any]) -> Flow[Any]:
        prompt = f"{self.time()} {request.system_prompt}"
        return (yield request.override(system_prompt=prompt))


class LateClock(EarlyClock):
    """Shows the time at the end of the last message, which is new in each call anyway."""

    def around_model(self, request: ModelRequest[Any]) -> Flow[Any]:
        *before, last = request.messages
        shown = last.model_copy(update={"content": f"{last.text}\n\n{self.time()}"})
        return (yield request.override(messages=[*before, shown]))


def desk(clock: AgentMiddleware[Any, Any], **options: Any) -> Any:
    steps: list[Any] = [
        [{"name": "find_order", "args": {"order_id": "A-1001"}}],
        "It arrives on Thursday.",
        "So does that one.",
        "You are welcome.",
    ]
    stack = [TodoListMiddleware(), clock]
    return create_agent(
        ScriptedChatModel(steps), [find_order], system_prompt=MANUAL, middleware=stack, **options
    )


def main() -> None:
    for clock in (EarlyClock(), LateClock()):
        try:
            assert_stable_prefix(desk(clock), CONVERSATION)
            print(f"{clock.name}: each request begins like the one before it.")
        except PrefixChanged as error:
            print(error, end="\n\n")

    lost = cached = 0

    def add_up(decision: Any) -> None:
        nonlocal lost, cached
        if decision.outcome is Outcome.CHANGED_PREFIX:
            lost += decision.tokens["lost"]
            cached += decision.tokens["cached"]

    # In production the decision log knows the same.
    agent = desk(EarlyClock(), decisions=add_up)
    history: list[Any] = []
    for text in CONVERSATION:
        asked = {"messages": [*history, ("user", text)]}
        history = agent.invoke(asked, {"configurable": {"thread_id": "1"}})["messages"]
    print(f"\nIn the log of a run: {lost:,} of {cached:,} tokens were lost.")


if __name__ == "__main__":
    main()
