"""A desk whose refunds are reviewed, and the decisions that people make about them."""

from __future__ import annotations

from dataclasses import dataclass
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
    return {"type": "edit", "edited_action": {"name": "refund", "args": args}}


@dataclass(frozen=True)
class Mistake:
    """A decision that is refused.

    Args:
        name: What is wrong.
        decision: The decision.
        text: A part of the error.
    """

    name: str
    decision: Any
    text: str


MISTAKES = [
    Mistake("no dict", "approve", 'Did you mean {"type": "approve"}?'),
    Mistake(
        "nothing", {}, "expected a decision with a type (approve, edit, reject), got dict ({})"
    ),
    Mistake("a misspelt type", {"type": "aprove"}, 'Did you mean {"type": "approve"}?'),
    Mistake(
        "a type that is not allowed",
        {"type": "respond", "message": "Paid."},
        "'respond' is not allowed here. Allowed: approve, edit, reject.",
    ),
    Mistake(
        "an approval with arguments",
        {"type": "approve", "edited_action": {"name": "refund", "args": {"euros": 10}}},
        "'approve' takes no 'edited_action'",
    ),
    Mistake(
        "an approval with args",
        {"type": "approve", "args": {**ARGS, "euros": 10}},
        "'args' is not a part of 'approve'. Its parts are 'type', 'remember' and 'digest'. 'edit' ",
    ),
    Mistake(
        "an approval with a reason",
        {"type": "approve", "message": "Fraud: never pay this"},
        "'approve' takes no 'message'. Decide with 'reject' or 'respond', or leave 'message' out.",
    ),
    Mistake(
        "a misspelt reason",
        {"type": "reject", "mesage": "Fraud"},
        "'mesage' is not a part of 'reject'. Did you mean 'message'?",
    ),
    Mistake(
        "another word for the reason",
        {"type": "reject", "reason": "Fraud"},
        "'reason' is not a part of 'reject'. Did you mean 'message'?",
    ),
    Mistake(
        "a reason that is not text",
        {"type": "reject", "message": {"why": "Fraud"}},
        "the reason must be a string, got dict",
    ),
    Mistake(
        "a rejection with arguments",
        {"type": "reject", "edited_action": {"name": "refund", "args": {"euros": 1}}},
        "'reject' takes no 'edited_action'",
    ),
    Mistake("an edit without arguments", {"type": "edit"}, "'edit' needs 'edited_action'"),
    Mistake(
        "an edit without args",
        {"type": "edit", "edited_action": {"name": "refund"}},
        "'edited_action' must have the name of a tool and a dict with all of its arguments",
    ),
    Mistake("an edit with a part", edited(euros=10), "do not fit refund: 'order_id' is missing."),
    Mistake(
        "an edit of another type",
        edited(order_id="A1", euros="three"),
        "do not fit refund: 'euros': Input should be a valid integer",
    ),
    Mistake(
        "an unknown argument",
        edited(order_id="A1", euro=10, euros=10),
        "do not fit refund: 'euro' is not an argument (did you mean 'euros'?).",
    ),
    Mistake(
        "an injected argument",
        edited(order_id="A1", euros=10, runtime={}),
        "do not fit refund: 'runtime' is not an argument",
    ),
    Mistake("an unknown tool", edit("refnd", **ARGS), "there is no tool 'refnd' to run instead."),
    Mistake(
        "a tool that is denied",
        edit("wire", euros=40),
        "the policy does not allow the edited call of wire: Wires are off.",
    ),
    Mistake(
        "the digest of another call",
        {"type": "approve", "digest": "0" * 32},
        "the decision names the digest '00000000000000000000000000000000'",
    ),
    Mistake(
        "a standing approval that no rule allows",
        {"type": "approve", "remember": {"seconds": 60}},
        "later calls may not be approved with this decision.",
    ),
]


@dataclass(frozen=True)
class Outcome:
    """A decision that is carried out.

    Args:
        name: What it does.
        decision: The decision.
        ran: The tool that runs and its arguments; None if none does.
        asks: The tool that is asked about next.
    """

    name: str
    decision: Any
    ran: tuple[str, dict[str, Any]] | None = None
    asks: str | None = None


OUTCOMES = [
    Outcome("an approval", {"type": "approve"}, ("refund", ARGS)),
    Outcome("an empty part", {"type": "approve", "message": None}, ("refund", ARGS)),
    Outcome("an edit", edited(order_id="A1", euros=10), ("refund", {**ARGS, "euros": 10})),
    Outcome(
        "an edit into a tool that is free",
        edit("look", order_id="A1"),
        ("look", {"order_id": "A1"}),
    ),
    Outcome("an edit into a reviewed tool", edit("gift", euros=9), asks="gift"),
    Outcome("a rejection", {"type": "reject"}),
    Outcome("a rejection with a reason", {"type": "reject", "message": "Fraud"}),
]
