"""Rules for tool calls: some run, some are asked about, some are denied.

Run: python examples/rules.py

A reviewer approves one refund, and later refunds of the same order for an hour. Nobody is asked
about the second one. A refund that is too large is denied, and nobody can approve it.
"""

from __future__ import annotations

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from agent_factory import create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware, Rule, ToolPolicy
from agent_factory.review import approvals, decide, pending, policy_table, revoke
from agent_factory.testing import ScriptedChatModel


def find_order(order_id: str) -> str:
    """Find an order."""
    return f"{order_id}: a lamp, 30 euros"


def refund(order_id: str, euros: int) -> str:
    """Refund an order."""
    return f"{euros} euros were refunded for {order_id}."


RULES = ToolPolicy(
    Rule("find_*", "allow"),
    Rule("refund", "deny", when={"euros": {">": 500}}, reason="The office pays these."),
    Rule("refund", "ask", remember=3600),
)


def call(order_id: str, euros: int) -> list[dict[str, object]]:
    return [{"name": "refund", "args": {"order_id": order_id, "euros": euros}}]


def answer(messages: list[BaseMessage]) -> str:
    return str(messages[-1].text)


def main() -> None:
    model = ScriptedChatModel(
        [call("A-1001", 30), answer, call("A-1001", 20), answer, call("A-1001", 900), answer]
    )
    agent = create_agent(
        model,
        [find_order, refund],
        middleware=[HumanInTheLoopMiddleware(RULES)],
        checkpointer=InMemorySaver(),
        store=InMemoryStore(),
    )
    for row in policy_table(agent):
        print(f"{row.tool}: {row.when or 'other calls'}: {row.action}")
    thread: RunnableConfig = {"configurable": {"thread_id": "1"}}

    agent.invoke({"messages": "My lamp is broken."}, thread)
    (waiting,) = pending(agent, thread).open
    print(f"\nWaits for a decision: {waiting.name} {waiting.args}")
    remember = {"seconds": 3600, "when": {"order_id": "A-1001"}, "by": "ann"}
    decide(agent, thread, {waiting.digest: {"type": "approve", "remember": remember}})
    print(agent.get_state(thread).values["messages"][-1].text)

    for request in ("The shade is broken, too.", "I want 900 euros."):
        result = agent.invoke({"messages": request}, thread)
        print(f"\n{request}\n{result['messages'][-1].text}")

    (approval,) = approvals(agent)
    print(f"\n{approval}; it let {approval.uses} calls run.")
    revoke(agent, approval.id, by="bob")
    print(f"Approvals that hold now: {approvals(agent)}")


if __name__ == "__main__":
    main()
