"""A desk whose refunds are reviewed, and the decisions that people make about them."""

from __future__ import annotations

from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import ToolRuntime, create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware, Rule, ToolPolicy
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel
from samples import edit

Mode = Literal["batched", "per_call"]
ARGS = {"order_id": "A1", "euros": 40}
RAN: list[tuple[str, str, dict[str, Any]]] = []
"""The calls that ran: the thread, the tool, the arguments."""


def _ran(tool: str, runtime: ToolRuntime, **args: Any) -> str:
    RAN.append((runtime.config["configurable"]["thread_id"], tool, args))
    return f"Done: {tool}."


def refund(order_id: str, euros: int, runtime: ToolRuntime, note: str = "") -> str:
    """Pay money back."""
    return _ran("refund", runtime, order_id=order_id, euros=euros)


def look(order_id: str, runtime: ToolRuntime) -> str:
    """Look an order up."""
    return _ran("look", runtime, order_id=order_id)


def wire(euros: int, runtime: ToolRuntime) -> str:
    """Wire money, which nobody may."""
    return _ran("wire", runtime, euros=euros)


def gift(euros: int, runtime: ToolRuntime) -> str:
    """Send a voucher, which people decide about as well."""
    return _ran("gift", runtime, euros=euros)


def _answer(messages: list[BaseMessage]) -> AIMessage:
    if isinstance(messages[-1], ToolMessage):
        return AIMessage("That is all.")
    return AIMessage("", tool_calls=[{"name": "refund", "args": dict(ARGS), "id": "call-1"}])


def make_desk(mode: Mode) -> Any:
    """An agent that wants to refund 40 euros, whatever is said."""
    policy = ToolPolicy(
        Rule("wire", "deny", reason="Wires are off."),
        Rule("look", "allow"),
        Rule("refund", "ask", allowed_decisions=["approve", "edit", "reject"]),
        Rule("gift", "ask", allowed_decisions=["approve", "reject"]),
    )
    return create_agent(
        ScriptedChatModel([_answer] * 10_000),
        [refund, look, wire, gift],
        middleware=[HumanInTheLoopMiddleware(policy, interrupt_mode=mode)],
        checkpointer=InMemorySaver(),
    )


def make_service(url: str) -> Service:
    """A service with both desks."""
    service = Service(url)
    for mode in ("batched", "per_call"):
        service.add(mode, make_desk(mode))
    return service


def edited(**args: Any) -> dict[str, Any]:
    return edit("refund", **args)


def approve(**parts: Any) -> dict[str, Any]:
    return {"type": "approve", **parts}


def reject(**parts: Any) -> dict[str, Any]:
    return {"type": "reject", **parts}


MISTAKES: list[tuple[Any, str]] = [
    ("aprove", 'Did you mean {"type": "approve"}?'),
    ({}, "expected a decision with a type (approve, edit, reject), got dict ({})"),
    ({"type": "aprove"}, 'Did you mean {"type": "approve"}?'),
    ({"type": "respond", "message": "Paid."}, "not allowed here. Allowed: approve, edit, reject."),
    (approve(edited_action={"name": "refund", "args": ARGS}), "'approve' takes no 'edited_action'"),
    (
        approve(args={**ARGS, "euros": 10}),
        "'args' is not a part of 'approve'. Its parts are 'type', 'remember' and 'digest'. 'edit' ",
    ),
    (
        approve(message="Fraud: never pay this"),
        "'approve' takes no 'message'. Decide with 'reject' or 'respond', or leave 'message' out.",
    ),
    (reject(mesage="Fraud"), "'mesage' is not a part of 'reject'. Did you mean 'message'?"),
    (reject(reason="Fraud"), "'reason' is not a part of 'reject'. Did you mean 'message'?"),
    (reject(message={"why": "Fraud"}), "the reason must be a string, got dict"),
    (reject(edited_action={"name": "refund", "args": ARGS}), "'reject' takes no 'edited_action'"),
    ({"type": "edit"}, "'edit' needs 'edited_action'"),
    (
        {"type": "edit", "edited_action": {"name": "refund"}},
        "'edited_action' must have the name of a tool and a dict with all of its arguments",
    ),
    (edited(euros=10), "do not fit refund: 'order_id' is missing."),
    (
        edited(order_id="A1", euros="three"),
        "do not fit refund: 'euros': Input should be a valid integer",
    ),
    (
        edited(order_id="A1", euro=10, euros=10),
        "do not fit refund: 'euro' is not an argument (did you mean 'euros'?).",
    ),
    (edited(**ARGS, runtime={}), "do not fit refund: 'runtime' is not an argument"),
    (edit("refnd", **ARGS), "there is no tool 'refnd' to run instead."),
    (edit("wire", euros=40), "the policy does not allow the edited call of wire: Wires are off."),
    (approve(digest="0" * 32), "the decision names the digest '00000000000000000000000000000000'"),
    (approve(remember={"seconds": 60}), "later calls may not be approved with this decision."),
]
"""Decisions that are refused, and a part of the error."""

OUTCOMES: list[tuple[Any, Any, list[str]]] = [
    (approve(), ("refund", ARGS), []),
    (approve(message=None), ("refund", ARGS), []),
    (edited(order_id="A1", euros=10), ("refund", {**ARGS, "euros": 10}), []),
    (edit("look", order_id="A1"), ("look", {"order_id": "A1"}), []),
    (edit("gift", euros=9), None, ["gift"]),
    (reject(), None, []),
    (reject(message="Fraud"), None, []),
]
"""Decisions, the tool that runs then with its arguments, and the tools that are asked about."""
