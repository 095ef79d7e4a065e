"""Tools that know what they touch: calls of one turn run in order where they can meet.

Run: python examples/touches.py [--model local | provider:name]

The model makes four calls in one turn. Two change one shopping list, in a key of the state that
takes one value a step: the second one sees what the first one wrote. The others wait for nothing.
"""

from __future__ import annotations

from time import sleep
from typing import Annotated, Any

from _models import chosen_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.types import Command

from agent_factory import AgentState, InjectedState, create_agent, topology_of, touches

CALLS = [
    {"name": name, "args": {"item": item}}
    for item in ("milk", "bread")
    for name in ("add_item", "price_of")
]
SCRIPT: list[Any] = [CALLS, "Both are on the list: 4 euros."]
HINTS = {"add_item": ["Milk and bread, please."]}


class Shopping(AgentState):
    """The state of the agent."""

    items: list[str]


@touches(writes="state:items")
@tool
def add_item(
    item: str,
    items: Annotated[list[str], InjectedState("items")],
    id: Annotated[str, InjectedToolCallId],
) -> Command[Any]:
    """Add an item to the shopping list."""
    print(f"add {item} to {items}")
    return Command(
        update={"items": [*items, item], "messages": [ToolMessage("Added.", tool_call_id=id)]}
    )


@touches(reads="price:{item}")
def price_of(item: str) -> str:
    """Look up a price."""
    sleep(0.1)  # both prices are looked up at once
    return {"milk": "1.20 euros", "bread": "2.80 euros"}[item]


def main(model: BaseChatModel) -> None:
    agent: Any = create_agent(model, [add_item, price_of], state_schema=Shopping)
    print(topology_of(agent).render())
    result = agent.invoke({"messages": "Milk and bread, please.", "items": []})
    print(result["items"])
    print(result["messages"][-1].text)


if __name__ == "__main__":
    main(chosen_model(SCRIPT, HINTS))
