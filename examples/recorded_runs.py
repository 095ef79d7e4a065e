"""Recorded runs, replayed with a changed agent: what a change changes, before it is deployed.

Run it: .venv/bin/python examples/recorded_runs.py
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agent_factory import create_agent
from agent_factory.middleware import ToolCallLimitMiddleware
from agent_factory.testing import (
    Reply,
    ScriptedChatModel,
    assert_trajectory,
    record_agent,
    replay_folder,
)


def find_order(order_id: str) -> str:
    """Say when an order arrives."""
    return f"Order {order_id} arrives on Thursday."


def refund(order_id: str, euros: int) -> str:
    """Pay money back for an order."""
    return f"{euros} euros were paid back for order {order_id}."


def build(model: Any, *stack: Any, prompt: str = "You are a help desk.") -> Any:
    """The agent of a help desk."""
    return create_agent(model, [find_order, refund], system_prompt=prompt, middleware=stack)


def call(name: str, **args: Any) -> Reply:
    """An answer of the model that calls a tool."""
    return Reply(calls=[{"name": name, "args": args}], usage=(400, 20))


# What a real model might have answered to three customers.
CONVERSATIONS: dict[str, tuple[str, list[Any]]] = {
    "late": ("Where is A-1?", [call("find_order", order_id="A-1"), "On Thursday."]),
    "two_orders": (
        "Where are A-1 and B-2?",
        [
            call("find_order", order_id="A-1"),
            call("find_order", order_id="B-2"),
            "Both on Thursday.",
        ],
    ),
    "broken": (
        "My lamp A-1 is broken.",
        [
            call("find_order", order_id="A-1"),
            call("refund", order_id="A-1", euros=90),
            "You get 90 euros.",
        ],
    ),
}


def main() -> None:
    """Record three conversations, and replay them with three agents."""
    with TemporaryDirectory() as folder:
        for name, (question, steps) in CONVERSATIONS.items():
            path = Path(folder, f"{name}.jsonl")
            agent = record_agent(
                build(ScriptedChatModel(steps)),
                path,
                expect="find_order+ < (refund -> ok)? < answer",
            )
            agent.invoke({"messages": [("user", question)]})
            assert_trajectory(path, "never refund(euros>100)")

        print("--- the same agent")
        print(replay_folder(build, folder))

        print("\n--- with a limit of one search")
        limit = ToolCallLimitMiddleware(tool_name="find_order", run_limit=1)
        print(replay_folder(lambda model: build(model, limit), folder))

        print("\n--- with a longer prompt")
        prompt = "You are a help desk. Be brief, be kind, and never promise a date twice. " * 5
        report = replay_folder(lambda model: build(model, prompt=prompt), folder)
        print(report.summary)
        print(f"input tokens: {report.recorded.input_tokens} -> {report.replayed.input_tokens}")


if __name__ == "__main__":
    main()
