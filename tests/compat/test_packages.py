"""Middleware packages of others, installed from PyPI and run as they are, in both agents."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.tools import tool

from agent_factory import create_agent
from agent_factory.middleware import ModelRetryMiddleware
from agent_factory.testing import ScriptedChatModel
from tables import each

steering = pytest.importorskip("langchain_task_steering", reason="the extra foreign is missing")
collapse = pytest.importorskip("langchain_collapse", reason="the extra foreign is missing")


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return f"text of {path}"


@tool
def write_file(path: str) -> str:
    """Write a file."""
    return f"wrote {path}"


def call_of(name: str, number: int, **args: Any) -> list[dict[str, Any]]:
    return [{"name": name, "args": args, "id": f"call_{number}"}]


READING = [call_of("read_file", number, path=f"{number}.txt") for number in range(4)]


def test_collapse_makes_room_by_placeholders(alike: Any) -> None:
    """langchain-collapse: a layer that overrides the messages of a request."""
    seen = alike(lambda: [collapse.CollapseMiddleware()], [*READING, "Done."], tools=[read_file])
    last, *_ = seen["seen"][-1]
    assert "text of 0.txt" not in str(last)
    assert "text of 0.txt" in str(seen["state"]["messages"])


def status(number: int, task: str, status: str) -> list[dict[str, Any]]:
    return call_of("update_task_status", number, task=task, status=status)


STEERED = [
    status(1, "collect", "in_progress"),
    call_of("read_file", 2, path="a"),
    status(3, "collect", "complete"),
    status(4, "store", "in_progress"),
    call_of("write_file", 5, path="b"),
    status(6, "store", "complete"),
    "All done.",
]


TaskMiddleware: Any = steering.TaskMiddleware


class Picky(TaskMiddleware):  # type: ignore[misc]  # it may not be installed, and has no type
    """Refuses to complete a task before anything was written."""

    def validate_completion(self, state: Any) -> str | None:
        written = any(message.text.startswith("wrote") for message in state["messages"])
        return None if written else "Write something first."


def steer() -> list[Any]:
    collect = steering.Task("collect", "Collect it.", [read_file])
    store = steering.Task("store", "Store it.", [write_file], middleware=Picky())
    return [steering.TaskSteeringMiddleware([collect, store])]


def test_steering_offers_only_the_tools_of_the_task(alike: Any) -> None:
    """langchain-task-steering: hooks, both layers, tools, state and jumps in one class.

    It holds to the order of tasks, and asks its own middleware before a task is done.
    """
    early = [*STEERED[:4], status(9, "store", "complete"), *STEERED[4:]]
    stack = lambda: [*steer(), collapse.CollapseMiddleware()]  # noqa: E731
    seen = alike(stack, [status(0, "store", "in_progress"), *early])
    offered = [tools for _, tools, _ in seen["seen"]]
    assert "read_file" in offered[2]
    assert "write_file" not in offered[2]
    assert "Write something first." in str(seen["state"]["messages"])
    assert seen["state"]["task_statuses"] == {"collect": "'complete'", "store": "'complete'"}


@each("times", [1, 5])
def test_steering_sends_a_run_back_that_ends_too_early(alike: Any, times: int) -> None:
    """A jump from after_agent back to the model, as often as it allows."""
    steps = ["Finished."] * times + (STEERED if times == 1 else [])
    assert "have not completed" in str(alike(steer, steps)["state"]["messages"])


def test_workflows_are_chosen_in_a_run(alike: Any) -> None:
    def stack() -> list[Any]:
        tasks = [steering.Task("collect", "Collect it.", [read_file])]
        return [steering.WorkflowSteeringMiddleware([steering.Workflow("w", "Work.", tasks)])]

    alike(stack, [call_of("activate_workflow", 0, workflow="w"), *STEERED[:3], "Done."])


def test_both_packages_work_together_with_our_middleware(alike: Any, call: Any) -> None:
    model = ScriptedChatModel([ValueError("once"), *STEERED])
    stack = [*steer(), ModelRetryMiddleware(initial_delay=0), collapse.CollapseMiddleware()]
    done = call(create_agent(model, middleware=stack), {"messages": [("user", "Go.")]})
    assert done["messages"][-1].text == "All done."
    model.assert_done()
