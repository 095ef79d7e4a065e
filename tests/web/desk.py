"""A desk that pays refunds, for the tests in a browser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt
from serve.agents import hold

from agent_factory import ToolRuntime, create_agent
from agent_factory import middleware as m
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel

EVIL = "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>"
"""What a model, a tool or a user may say to a page."""

RULES = m.ToolPolicy(
    m.Rule("search_*", "allow"),
    m.Rule("ask", "allow"),
    m.Rule("refund", "deny", when={"euros": {">": 5000}}, reason="The office does that."),
    m.Rule("refund", "ask", remember=7 * 86400),
)

TOKENS: Any = {"input_tokens": 1200, "output_tokens": 80, "total_tokens": 1280}


def search_orders(customer: str) -> str:
    """Search the orders of a customer."""
    return '{"orders": [{"id": "A-1001", "euros": 120.5}]}'


def refund(order_id: str, euros: float, urgent: bool = False, reason: str = "") -> str:
    """Pay money back to a customer."""
    return f"Refunded {euros:g} euros for {order_id}, urgent: {urgent}."


def ask(question: str) -> str:
    """Ask a person."""
    return f"The person said {interrupt(question)}."


def _call(name: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": uuid4().hex}


def answer(messages: Sequence[BaseMessage]) -> AIMessage:
    """Look for the order, refund it, and say so; or do what the user names."""
    last = messages[-1]
    said = next(str(one.text) for one in reversed(messages) if isinstance(one, HumanMessage))
    hold(said)
    if isinstance(last, HumanMessage):
        if "fail" in said:
            raise ValueError("the model is out of order")
        if "talk" in said:
            return AIMessage("Hello! " * 30, usage_metadata=TOKENS)
        if "evil" in said:
            reason = _call("refund", order_id=EVIL, euros=1, reason=EVIL)
            return AIMessage(EVIL, tool_calls=[reason], usage_metadata=TOKENS)
        if "two" in said:
            calls = [_call("refund", order_id=order, euros=5, reason="two") for order in "AB"]
            return AIMessage("", tool_calls=calls, usage_metadata=TOKENS)
        if "ask" in said:
            return AIMessage("", tool_calls=[_call("ask", question="Which color?")])
        return AIMessage(
            "Let me look.", tool_calls=[_call("search_orders", customer="Ann")],
            usage_metadata=TOKENS,
        )  # fmt: skip
    if isinstance(last, ToolMessage) and last.name == "search_orders":
        calls = [_call("refund", order_id="A-1001", euros=120.5, reason="broken")]
        return AIMessage("", tool_calls=calls, usage_metadata=TOKENS)
    return AIMessage(f"Done: **{last.text}**", usage_metadata=TOKENS)


def add_others(service: Service) -> None:
    """Add agents that wait in other ways: at a node, inside of a tool, for other people."""

    def made(rule: m.Rule | bool, tools: Sequence[Any], **options: Any) -> Any:
        allow = m.Rule("search_*", "allow")
        rules = m.ToolPolicy(allow, rule) if isinstance(rule, m.Rule) else {"refund": rule}
        review = [m.HumanInTheLoopMiddleware(rules)] if rule else []
        return create_agent(
            ScriptedChatModel([answer] * 100_000),
            tools,
            middleware=review,
            checkpointer=InMemorySaver(),
            **options,
        )

    inner = made(True, [search_orders, refund], name="inner")

    def helper(question: str, runtime: ToolRuntime) -> str:
        """Ask another agent."""
        done = inner.invoke({"messages": [HumanMessage(question)]}, runtime.config)
        return str(done["messages"][-1].text)

    def delegate(messages: Sequence[BaseMessage]) -> AIMessage:
        if isinstance(messages[-1], HumanMessage):
            return AIMessage("", tool_calls=[_call("helper", question="It is broken.")])
        return AIMessage("Done.")

    boss = create_agent(ScriptedChatModel([delegate] * 1000), [helper])
    service.add("boss", boss)
    tools = [search_orders, refund]
    service.add("stops", made(False, tools, interrupt_before=["tools"]))
    service.add("office", made(m.Rule("refund", "ask", reviewers=["@olga"]), tools))
    service.add("now", made(True, tools), waiting="interrupt")


def add_desk(service: Service, **options: Any) -> None:
    """Add the agent to a service."""
    agent = create_agent(
        ScriptedChatModel([answer] * 100_000),
        [search_orders, refund, ask],
        name="desk",
        middleware=[
            m.ModelCallLimitMiddleware(run_limit=20),
            m.HumanInTheLoopMiddleware(RULES),
            m.ToolRetryMiddleware(),
        ],
        checkpointer=InMemorySaver(),
    )
    service.add("desk", agent, **{"decisions": True, "review_within": "4h", **options})
